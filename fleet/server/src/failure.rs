//! An error as the admin API answers it.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use fleet_api::{Code, Refused, Wrong};

/// An error as the API gives it.
pub(crate) struct Failure(Wrong);

impl Failure {
    /// What went wrong.
    pub(crate) fn wrong(self) -> Wrong {
        self.0
    }
}

impl From<Wrong> for Failure {
    fn from(wrong: Wrong) -> Self {
        Self(wrong)
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let status = status(self.0.code);
        let is_stranger = self.0.code == Code::Unauthenticated;
        let mut response = (status, Json(Refused { error: self.0 })).into_response();
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
