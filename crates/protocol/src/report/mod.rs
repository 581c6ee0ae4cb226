//! Hosts' reports: what a host says of itself, how it signs that, and how a server asks for it (FLEET §5).

mod change;
pub mod code;
mod signed;
mod wanted;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::dry_run::DryRunResult;

pub use change::{Change, Outcome};
pub use signed::{KEY_BYTES, Key, SIGNATURE_BYTES, SignedQuestion, SignedReport, question_message, report_message};
pub use wanted::{Rollout, Wanted};

/// Where a report goes, at the origin that was asked: a POST of JSON.
pub const PATH: &str = "/v1/webapi/agents/report";
/// How often a host reports that has nothing new to say, unless the server is told otherwise, seconds.
pub const DEFAULT_INTERVAL: u32 = 900;
/// The header of a report's signature: [`SignedReport`].
pub const SIGNATURE_HEADER: &str = "teleport-fleet-signature";
/// The header of a question's signature: [`SignedQuestion`].
pub const QUESTION_HEADER: &str = "teleport-fleet-question";
/// The header of a join token, with which a host enrols.
pub const JOIN_HEADER: &str = "teleport-fleet-join";
/// Most bytes of a report; the rollout server takes no larger form of its pages either.
pub const MAX_BODY: usize = 16 << 10;
/// Most labels of a host.
pub const MAX_LABELS: usize = 64;
/// Most bytes of a label's key, and of its value.
pub const MAX_LABEL: usize = 256;
/// Highest epoch and sequence number: JSON's whole numbers, as every reader of JSON knows them.
pub const MAX_NUMBER: u64 = (1 << 53) - 1;

/// What a host says of itself: its whole state, so that the next report makes good a lost one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Report {
    /// The agent's host UUID.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "uuid")))]
    pub host: String,
    /// The host's name, as its kernel has it; empty: it has none. A label `hostname` counts in its place.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hostname: String,
    /// The updater's own id, a UUID.
    pub update_id: String,
    /// The server's epoch, as it was last told.
    pub epoch: u64,
    /// Higher with each report and signed question: at least the time, milliseconds since 1970.
    pub sequence: u64,
    /// The host's time, RFC 3339.
    pub time: String,
    /// The update group; empty: none.
    #[serde(default)]
    pub group: String,
    /// At most 64 ([`MAX_LABELS`]).
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Which versions are here.
    #[serde(default)]
    pub versions: Versions,
    /// `oss`, `enterprise`, `enterprise-fips`; empty: nothing is installed.
    #[serde(default)]
    pub edition: String,
    /// The updater's name and version.
    #[serde(default)]
    pub updater: String,
    /// `amd64`, `arm64`.
    #[serde(default)]
    pub arch: String,
    /// The distribution and its version: `ID` and `VERSION_ID` of os-release.
    #[serde(default)]
    pub os: String,
    /// The kernel's release.
    #[serde(default)]
    pub kernel: String,
    /// Teleport's services that `teleport.yaml` enables, at most 16: `auth`, `proxy`, `node`, `app` and the like; empty: not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// What may install here ([`crate::installer::Installer`]), at most 16; empty: `update` alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub installers: Vec<String>,
    /// The host updates by itself.
    #[serde(default)]
    pub enabled: bool,
    /// The host stays at the version that it has.
    #[serde(default)]
    pub pinned: bool,
    /// A run was cut short, and its recovery is due.
    #[serde(default)]
    pub recovery_pending: bool,
    /// The last change of the version; none: there was none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Change>,
    /// What came of the last dry run of a plan; none: there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dry_run: Option<DryRunResult>,
}

/// Which versions are on a host; an empty text: none, or not known.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Versions {
    /// What the links lead to.
    #[serde(default)]
    pub installed: String,
    /// What the agent's process is; empty where it does not run, or nobody can say.
    #[serde(default)]
    pub running: String,
    /// What it goes back to.
    #[serde(default)]
    pub previous: String,
    /// What the server wanted at the last question.
    #[serde(default)]
    pub desired: String,
}

impl Versions {
    /// What the host runs, as far as it says: the process, else what is installed.
    pub fn present(&self) -> Option<&str> {
        [&self.running, &self.installed].into_iter().map(String::as_str).find(|version| !version.is_empty())
    }
}

/// What a server says to a report that it does not take, where another one would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GoOn {
    /// The server's epoch.
    pub epoch: u64,
    /// The highest number that it has of this host: the next is above it.
    pub sequence: u64,
}
