//! What anybody is answered, as axum sends it.

use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use fleet_wire::answers::Reply;
use fleet_wire::api::Code;

/// A [`Reply`] as axum sends it.
pub(super) struct HttpReply(pub(super) Reply);

impl IntoResponse for HttpReply {
    fn into_response(self) -> Response {
        let Reply { status, content_type, headers, body } = self.0;
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = match content_type {
            "" => (status, axum::body::Body::from(body)).into_response(),
            content_type => (status, [("content-type", content_type)], body).into_response(),
        };
        for (name, value) in headers {
            let value = axum::http::HeaderValue::from_static(value);
            response.headers_mut().insert(*name, value);
        }
        response
    }
}

/// That there is nothing at a path.
pub(super) fn not_found() -> Reply {
    Reply::error(Code::NotFound, "there is nothing at this path")
}
