//! Errors.

use std::fmt;

use fleet_engine::refusal::Refusal;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lenient::word;

/// The body of an answer that refuses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ErrorAnswer {
    /// What went wrong.
    pub error: ApiError,
}

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApiError {
    /// A stable code.
    pub code: Code,
    /// What failed, where, and what to do: a line, or a line for each fault of a resource.
    pub message: String,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $status:literal,)+) => {
        /// Stable codes of errors.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "snake_case")]
        pub enum Code { $($(#[doc = $doc])+ $name,)+ }

        impl Code {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Its HTTP status.
            pub fn status(self) -> u16 {
                match self { $(Self::$name => $status,)+ }
            }
        }
    };
}

codes! {
    /// There is no rollout, and none was done before.
    NoRollout = 404,
    /// The question or command makes no sense as it is.
    BadRequest = 400,
    /// A resource cannot be read, or its values are wrong.
    BadResource = 400,
    /// There is no such thing.
    NotFound = 404,
    /// It is there, or in that state, already.
    AlreadyExists = 409,
    /// It does not go with something else, or must wait for it.
    Conflict = 409,
    /// It was changed since it was read: read it again.
    StaleRevision = 409,
    /// A version directive and an `autoupdate_version` cannot both say what agents run.
    DirectiveRules = 409,
    /// The nonce of a version directive is not above the active one.
    Nonce = 409,
    /// A plan was made while another directive was active.
    PlanOutdated = 409,
    /// The time of a plan is over.
    PlanExpired = 409,
    /// A plan lacks approvals, or was denied.
    NotApproved = 409,
    /// Nobody approves his own plan.
    OwnPlan = 409,
    /// What a plan says is past its `stale_after`.
    DraftStale = 409,
    /// A target lacks an attribute that its installer needs.
    TargetIncomplete = 409,
    /// A plan needs a dry run before.
    DryRunMissing = 409,
    /// The hosts of this group may not update.
    NoWindows = 404,
    /// The server from which a channel is forwarded has given no usable answer within an hour.
    ForwardFailed = 502,
    /// A report is of another epoch: the answer has the one to go on in.
    OtherEpoch = 409,
    /// A report's number is not above the last one: the answer has that.
    OldSequence = 409,
    /// A host's report has another key than before, or than one that waits.
    KeyConflict = 409,
    /// A new host needs a join token.
    JoinTokenNeeded = 403,
    /// The join token is not known, has expired or is used up.
    JoinTokenRefused = 403,
    /// A report's signature is missing, or wrong.
    BadSignature = 401,
    /// A host reports too often: the header `Retry-After` says when to come again.
    TooOften = 429,
    /// This server takes no reports.
    NotWanted = 404,
    /// The caller is not known.
    Unauthenticated = 401,
    /// The caller may not do this.
    Forbidden = 403,
    /// The path has other methods.
    MethodNotAllowed = 405,
    /// The body did not come in time.
    TooSlow = 408,
    /// The body is larger than allowed.
    TooLarge = 413,
    /// Too many requests are in work: the header `Retry-After` says when to come again.
    Overloaded = 503,
    /// The store does not answer.
    StoreUnavailable = 503,
    /// A defect of the server.
    Internal = 500,
}

impl ApiError {
    /// An error of the code that the engine calls so.
    pub fn named(code: &str, message: impl Into<String>) -> Self {
        let code = Code::ALL.iter().copied().find(|known| word(known) == code);
        Self::new(code.unwrap_or(Code::Internal), message)
    }

    /// An error of this code.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        Self::named(refusal.code, refusal.message)
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ApiError {}
