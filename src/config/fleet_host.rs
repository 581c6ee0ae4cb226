//! `.fleet-host`: this host's key for a rollout server, and what it knows of that server (SPEC §11). No person writes it.

use std::fmt;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use protocol::report::{Change, Wanted};
use serde::{Deserialize, Serialize};

use super::credentials;
use crate::host::durable;
use crate::report::{Code, Error, Result};

/// Its name in the versions directory.
pub(crate) const NAME: &str = ".fleet-host";
/// The file of a join token, beside it.
const TOKEN: &str = "join-token";
/// Longest join token, bytes.
const MAX_TOKEN: u64 = 1 << 10;
/// Longest file that is read, bytes; ours have some two thousand.
const MAX_FILE: u64 = 64 << 10;

/// What a host keeps for a rollout server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct FleetHost {
    /// With which reports are signed; none before the first one.
    pub seed: Option<Seed>,
    /// Which host this file is of: the text of a [`crate::host::fingerprint::HostFingerprint`].
    pub host: String,
    /// The highest number that a report had.
    pub sequence: u64,
    /// The server that was asked last.
    pub server: Option<Server>,
    /// The last change of the version.
    pub last: Option<Change>,
    /// The `last_result` in `updates.yaml` that was there when `last` was made: its time has whole seconds, and there may be two in one.
    pub result: Option<String>,
    /// In which rollout and attempt a version failed here, the latest at the end.
    pub failed: Vec<Told>,
    /// What the programs printed that make labels: a text of `run::fleet::commands`.
    pub printed: String,
    /// The last dry run: the plan and, after a blank, what came of it.
    pub dry_run: Option<String>,
}

/// 32 random bytes, in hex. Its debug form shows none of it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Seed(pub String);

/// What is known of a rollout server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Server {
    /// `https://HOST:PORT`.
    pub origin: String,
    /// It wants reports; none: it does not, or not any more.
    pub wanted: Option<Wanted>,
    /// The epoch in which it took a report of this host.
    pub epoch: Option<u64>,
    /// The highest number of a rollout, and the epoch that it was of.
    pub highest: Option<Highest>,
    /// When it last took a report.
    pub taken: Option<Timestamp>,
    /// What it said of the last report, where it did not take it.
    pub refusal: Option<String>,
    /// When a report is due that has nothing new to say.
    pub next: Option<Timestamp>,
    /// Before this time nothing at all is sent.
    pub hold: Option<Timestamp>,
    /// The change that was in the last report that it took.
    pub said: Option<Change>,
    /// The same of a dry run.
    pub said_dry_run: Option<String>,
}

/// The highest number of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Highest {
    /// Numbers begin anew in another epoch.
    pub epoch: u64,
    /// The number.
    pub rollout: u64,
}

/// A version that a host was told to run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Told {
    /// The version.
    pub version: String,
    /// The number of the rollout.
    pub rollout: u64,
    /// The attempt of the host's group.
    pub attempt: u32,
}

impl FleetHost {
    /// The file below the versions directory.
    pub(crate) fn file(versions: &Path) -> PathBuf {
        versions.join(NAME)
    }

    /// Reads the file in `versions`; `None` if it is not there.
    ///
    /// Errors: `config_invalid` where it is damaged; `permission`, `io`.
    pub(crate) fn read(versions: &Path) -> Result<Option<Self>> {
        let file = Self::file(versions);
        let Some(bytes) = durable::read_limited(&file, MAX_FILE)? else { return Ok(None) };
        let damaged = |error| Error::new(Code::ConfigInvalid, format!("{} is damaged: {error}", file.display()));
        serde_json::from_slice(&bytes).map(Some).map_err(damaged)
    }

    /// The file of a join token in the versions directory.
    pub(crate) fn token_file(versions: &Path) -> PathBuf {
        versions.join(TOKEN)
    }

    /// The join token in `file`; `None` if there is no file.
    ///
    /// Errors: `config_invalid` where it is none; `permission`, `io`.
    pub(crate) fn token(file: &Path) -> Result<Option<String>> {
        let Some(bytes) = durable::read_limited(file, MAX_TOKEN)? else { return Ok(None) };
        let text = String::from_utf8(bytes).unwrap_or_default().trim().to_owned();
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(Error::new(Code::ConfigInvalid, format!("{} holds no join token", file.display())));
        }
        Ok(Some(text))
    }

    /// Writes it durably, for root alone. Errors: `io`.
    pub(crate) fn write(&self, versions: &Path) -> Result<()> {
        let json = serde_json::to_vec_pretty(self).unwrap_or_default();
        durable::write(&Self::file(versions), &json, credentials::MODE)
    }
}

impl fmt::Debug for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seed(hidden)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_damaged_is_no_key() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(FleetHost::read(dir.path()).unwrap(), None);
        let server = Server { origin: "https://a:443".into(), epoch: Some(7), ..Server::default() };
        let host =
            FleetHost { seed: Some(Seed("00".repeat(32))), sequence: 9, server: Some(server), ..FleetHost::default() };
        host.write(dir.path()).unwrap();
        assert_eq!(FleetHost::read(dir.path()).unwrap(), Some(host.clone()));
        assert!(!format!("{host:?}").contains("0000"));
        std::fs::write(FleetHost::file(dir.path()), "{").unwrap();
        assert_eq!(FleetHost::read(dir.path()).unwrap_err().code, Code::ConfigInvalid);
    }
}
