//! What is asked, and what comes back.

use std::io::Read;
use std::time::Duration;

use ureq::http::{HeaderMap, header};

/// Most bytes of a small answer (SPEC §3): a find answer has a few hundred.
pub const SMALL_BODY: u64 = 1 << 20;

/// Most bytes of an answer to what was sent: a code, a sentence and two numbers.
pub const SHORT_BODY: u64 = 64 << 10;

/// A request.
#[derive(Debug, Clone, Default)]
pub struct Request {
    /// The whole URL, query included.
    pub url: String,
    /// HEAD in place of GET.
    pub head: bool,
    /// Further header fields.
    pub headers: Vec<(&'static str, String)>,
    /// A header field for the origin of `url` alone: left out once a redirect has led to another one.
    pub signature: Option<(&'static str, String)>,
    /// JSON to be sent by POST, in place of GET: to this address alone, whatever it answers.
    pub json: Option<Vec<u8>>,
    /// To this address alone, whatever it answers.
    pub is_alone: bool,
    /// Longest time for everything, tries and waits and small bodies included.
    pub deadline: Option<Duration>,
    /// A small body is cut after so many bytes; without it one of more than [`SMALL_BODY`] is an error.
    pub cut: Option<u64>,
}

impl Request {
    /// A plain GET.
    pub fn get(url: impl Into<String>) -> Self {
        Self { url: url.into(), ..Self::default() }
    }

    /// A plain HEAD.
    pub fn head(url: impl Into<String>) -> Self {
        Self { head: true, ..Self::get(url) }
    }

    /// A POST of JSON.
    pub fn post(url: impl Into<String>, json: Vec<u8>) -> Self {
        Self { json: Some(json), ..Self::get(url) }
    }

    /// With a longest time for everything.
    #[must_use]
    pub fn within(mut self, deadline: Option<Duration>) -> Self {
        self.deadline = deadline;
        self
    }
}

/// A whole small answer, of any status that a further try would not change.
#[derive(Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// At most [`SMALL_BODY`] bytes.
    pub body: Vec<u8>,
}

/// A whole answer to what was sent, whatever its status.
#[derive(Debug)]
pub struct Receipt {
    /// HTTP status.
    pub status: u16,
    /// `Retry-After`.
    pub retry_after: Option<Duration>,
    /// At most [`SHORT_BODY`] bytes.
    pub body: Vec<u8>,
}

/// An answer whose body is still to be read.
pub struct Stream {
    /// HTTP status.
    pub status: u16,
    /// Header fields.
    pub headers: HeaderMap,
    /// The undecoded body; each read has the read time-out.
    pub body: Box<dyn Read + Send>,
}

impl Stream {
    /// A header field that is text.
    pub fn field(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }

    /// `Content-Length`, bytes.
    pub fn length(&self) -> Option<u64> {
        self.field(header::CONTENT_LENGTH).and_then(|text| text.trim().parse().ok())
    }

    /// Whether the body tells its own end (RFC 9112 §7.1).
    pub fn is_chunked(&self) -> bool {
        self.field(header::TRANSFER_ENCODING).is_some_and(|coding| coding.to_ascii_lowercase().contains("chunked"))
    }
}
