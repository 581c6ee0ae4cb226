//! An error as the admin API answers it.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use fleet_wire::api::{ApiError, Code, ErrorAnswer};

/// An error as the API gives it.
#[derive(Debug)]
pub(crate) struct ApiFailure {
    wrong: ApiError,
    /// Come again after so many seconds.
    pub(crate) after: Option<u32>,
}

impl ApiFailure {
    /// There is no place: come again after so many seconds.
    pub(crate) fn overloaded(after: u32) -> Self {
        let message = format!("too many requests are in work: come again in {after} s");
        Self { wrong: ApiError::new(Code::Overloaded, message), after: Some(after) }
    }
}

impl From<ApiError> for ApiFailure {
    fn from(wrong: ApiError) -> Self {
        Self { wrong, after: None }
    }
}

impl IntoResponse for ApiFailure {
    fn into_response(self) -> Response {
        let status = status(self.wrong.code);
        let is_stranger = self.wrong.code == Code::Unauthenticated;
        let mut response = (status, Json(ErrorAnswer { error: self.wrong })).into_response();
        if let Some(after) = self.after {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(after));
        }
        response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if is_stranger {
            // RFC 9110 §11.6.1.
            response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// The status of an answer with this code.
pub(crate) fn status(code: Code) -> StatusCode {
    StatusCode::from_u16(code.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}
