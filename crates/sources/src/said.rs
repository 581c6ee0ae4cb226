//! What any source says, in one form.

use std::time::Duration;

use jiff::Timestamp;
use protocol::find::Digests;
use protocol::{Edition, Version};

use super::window::Window;

/// The version that a source names, and what it says beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Said {
    /// The version.
    pub version: Version,
    /// The edition; `None` where the source names none.
    pub edition: Option<Edition>,
    /// It is to be installed at once, whatever the window says.
    pub critical: bool,
    /// When it may be installed, where the source says so.
    pub window: Option<Window>,
    /// The digests of its archives.
    pub digests: Digests,
    /// No version below this one is installed, and a host below it updates at once.
    pub floor: Option<Version>,
    /// From when on the version may be installed.
    pub not_before: Option<Timestamp>,
    /// Until when.
    pub not_after: Option<Timestamp>,
}

impl Said {
    /// Why the version is not to be installed at `now`, whatever the window says; `None`: it may be.
    pub fn out_of_time(&self, now: Timestamp) -> Option<String> {
        let version = &self.version;
        match (self.not_before, self.not_after) {
            (Some(from), _) if now < from => Some(format!("{version} is not to be installed before {from}")),
            (_, Some(to)) if now > to => Some(format!("{version} was not to be installed after {to}")),
            _ => None,
        }
    }

    /// A version, and nothing beside it.
    pub fn version(version: Version) -> Self {
        Self {
            version,
            edition: None,
            critical: false,
            window: None,
            digests: Digests::default(),
            floor: None,
            not_before: None,
            not_after: None,
        }
    }
}

/// What a source answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// This version.
    Version(Box<Said>),
    /// No update, and why.
    Nothing(String),
}

/// How a server is asked.
pub struct Way<'a> {
    /// By whom.
    pub client: &'a http_client::Client,
    /// All must be over by then; `None`: the client's own limits.
    pub end: Option<std::time::Instant>,
    /// Asked at least ten times a second.
    pub cancelled: http_client::Cancelled<'a>,
}

impl Way<'_> {
    /// What is left of the time.
    pub(super) fn left(&self) -> Option<Duration> {
        self.end.map(|end| end.saturating_duration_since(std::time::Instant::now()))
    }
}
