//! What is sent back.

use bytes::Bytes;
use serde::Serialize;

use crate::api::{ApiError, Code, ErrorAnswer};

/// `application/json`.
pub const JSON: &str = "application/json";
/// Text in UTF-8.
pub const TEXT: &str = "text/plain; charset=utf-8";
/// A POSIX shell script.
pub(crate) const SHELL: &str = "text/x-shellscript; charset=utf-8";
/// Every answer is of this moment (FLEET §4).
const HEADERS: &[(&str, &str)] = &[("cache-control", "no-store")];

/// An HTTP response without what the connection adds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// The status code.
    pub status: u16,
    /// The value of `content-type`; empty: of an empty body.
    pub content_type: &'static str,
    /// The other headers, names in lower case.
    pub headers: &'static [(&'static str, &'static str)],
    /// The body; clients that read slowly share one that was made for many.
    pub body: Bytes,
}

impl Reply {
    /// 200 with `body`.
    pub fn ok(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self::with(200, content_type, body)
    }

    /// `body` as JSON: writing into memory does not fail.
    pub fn json(status: u16, body: &impl Serialize) -> Self {
        Self::with(status, JSON, serde_json::to_vec(body).unwrap_or_default())
    }

    /// An error. `message` says what failed and what to do.
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        Self::json(code.status(), &ErrorAnswer { error: ApiError::new(code, message) })
    }

    /// 400 `bad_request`.
    pub(crate) fn bad_request(message: &str) -> Self {
        Self::error(Code::BadRequest, message)
    }

    /// `body` with any status.
    pub fn with(status: u16, content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { status, content_type, headers: HEADERS, body: body.into() }
    }
}
