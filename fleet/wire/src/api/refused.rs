//! Errors.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The body of an answer that refuses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorAnswer {
    /// What went wrong.
    pub error: ApiError,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiError {
    /// A stable code.
    pub code: Code,
    /// What failed, where, and what to do: a line, or a line for each fault of a resource.
    pub message: String,
}

/// Stable codes of errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// There is no rollout, and none was done before.
    NoRollout,
    /// The question or command makes no sense as it is.
    BadRequest,
    /// A resource cannot be read, or its values are wrong.
    BadResource,
    /// There is no such thing.
    NotFound,
    /// It is there, or in that state, already.
    AlreadyExists,
    /// It does not go with something else, or must wait for it.
    Conflict,
    /// It was changed since it was read: read it again.
    StaleRevision,
    /// A report is of another epoch: the answer has the one to go on in.
    OtherEpoch,
    /// A report's number is not above the last one: the answer has that.
    OldSequence,
    /// A host's report has another key than before, or than one that waits.
    KeyConflict,
    /// A new host needs a join token.
    JoinTokenNeeded,
    /// The join token is not known, has expired or is used up.
    JoinTokenRefused,
    /// A report's signature is missing, or wrong.
    BadSignature,
    /// A host reports too often: the header `Retry-After` says when to come again.
    TooOften,
    /// This server takes no reports.
    NotWanted,
    /// The caller is not known.
    Unauthenticated,
    /// The caller may not do this.
    Forbidden,
    /// The path has other methods.
    MethodNotAllowed,
    /// The body did not come in time.
    TooSlow,
    /// The body is larger than allowed.
    TooLarge,
    /// Too many requests are in work: the header `Retry-After` says when to come again.
    Overloaded,
    /// The store does not answer.
    StoreUnavailable,
    /// A defect of the server.
    Internal,
}

impl Code {
    /// Its HTTP status.
    pub fn status(self) -> u16 {
        match self {
            Self::BadRequest | Self::BadResource => 400,
            Self::Unauthenticated | Self::BadSignature => 401,
            Self::Forbidden | Self::JoinTokenNeeded | Self::JoinTokenRefused => 403,
            Self::NoRollout | Self::NotFound | Self::NotWanted => 404,
            Self::MethodNotAllowed => 405,
            Self::TooSlow => 408,
            Self::AlreadyExists
            | Self::Conflict
            | Self::StaleRevision
            | Self::OtherEpoch
            | Self::OldSequence
            | Self::KeyConflict => 409,
            Self::TooLarge => 413,
            Self::TooOften => 429,
            Self::Internal => 500,
            Self::Overloaded | Self::StoreUnavailable => 503,
        }
    }
}

impl ApiError {
    /// An error of this code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}
