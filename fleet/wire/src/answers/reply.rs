//! What is sent back.

use std::ops::Deref;
use std::sync::Arc;

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
    /// The value of `content-type`.
    pub content_type: &'static str,
    /// The other headers, names in lower case.
    pub headers: &'static [(&'static str, &'static str)],
    /// The body.
    pub body: ReplyBody,
}

/// The bytes of a response: its own, or the same for many, which clients that read slowly share.
#[derive(Debug, Clone)]
pub enum ReplyBody {
    /// Made for this response.
    Own(Vec<u8>),
    /// Made once.
    Shared(Arc<[u8]>),
}

impl Deref for ReplyBody {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

impl PartialEq for ReplyBody {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for ReplyBody {}

impl From<Vec<u8>> for ReplyBody {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Own(bytes)
    }
}

impl From<String> for ReplyBody {
    fn from(text: String) -> Self {
        Self::Own(text.into_bytes())
    }
}

impl From<&str> for ReplyBody {
    fn from(text: &str) -> Self {
        text.to_owned().into()
    }
}

impl From<Arc<[u8]>> for ReplyBody {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self::Shared(bytes)
    }
}

impl Reply {
    /// 200 with `body`.
    pub fn ok(content_type: &'static str, body: impl Into<ReplyBody>) -> Self {
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
    pub fn with(status: u16, content_type: &'static str, body: impl Into<ReplyBody>) -> Self {
        Self { status, content_type, headers: HEADERS, body: body.into() }
    }
}
