//! Why a rollout server tells a host what it tells, for whoever administers the host.

use std::fmt;

use jiff::Timestamp;
use protocol::{Version, reason};
use serde::Serialize;

/// The reason that a rollout server gives, in the words that the server itself has for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FleetReason {
    /// The server's address.
    #[serde(skip)]
    by: String,
    /// The version that this host does not get yet; `None`: none waits.
    waits: Option<Version>,
    /// The reason's code.
    why: String,
    /// Its words.
    words: String,
    /// The earliest time at which that could change.
    until: Option<Timestamp>,
}

impl FleetReason {
    /// What `by` has told. `waits`: the version that this host does not get yet.
    pub fn new(by: String, told: reason::Told, waits: Option<Version>) -> Self {
        let (words, until) = (told.sentence(), told.until.and_then(|until| until.parse().ok()));
        Self { by, waits, why: told.code, words, until }
    }

    /// That a version waits, and why; `None`: none does.
    pub fn held(&self) -> Option<String> {
        self.waits.as_ref().map(|version| format!("{} holds {version} back from this host: {self}", self.by))
    }
}

impl fmt::Display for FleetReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.words)?;
        self.until.map_or(Ok(()), |until| write!(f, "; until {until} at the earliest"))
    }
}
