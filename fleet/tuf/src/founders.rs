//! Whose keys a root names, and how long roles are good: what a repository is made with, and what may change of it.

use std::collections::BTreeMap;
use std::num::ParseIntError;
use std::path::PathBuf;

use clap::Args;
use error::Result;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tuf::{ROOT, SNAPSHOT, TARGETS, TIMESTAMP};

use crate::durable::usage;
use crate::keys;
use crate::metadata::{Envelope, PublicKeys, keys_of};

/// A period stands so often in the time that it renews: a weekend without the server must not end it (go-tuf, RSTUF and others met
/// this).
const PERIODS: u64 = 4;
const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
/// Longest time for which a role is good: who leaves takes his keys with him.
const MAX_PERIOD: u64 = 3 * 366 * DAY;

/// How long each role's metadata is good, and how often the online roles are renewed, seconds.
#[derive(Debug, Clone, Args, Serialize, Deserialize)]
pub struct Policy {
    /// How long the root is good
    #[arg(long = "root-days", value_name = "DAYS", default_value = "365", value_parser = days)]
    pub root: u64,
    /// How long targets are good
    #[arg(long = "targets-days", value_name = "DAYS", default_value = "90", value_parser = days)]
    pub targets: u64,
    /// How long the snapshot is good
    #[arg(long = "snapshot-days", value_name = "DAYS", default_value = "7", value_parser = days)]
    pub snapshot: u64,
    /// How long the timestamp is good: so long can a mirror withhold what is new
    #[arg(long = "timestamp-days", value_name = "DAYS", default_value = "7", value_parser = days)]
    pub timestamp: u64,
    /// How often `tuf refresh` comes at least
    #[arg(long = "refresh-hours", value_name = "HOURS", default_value = "24", value_parser = hours)]
    pub refresh: u64,
}

impl Policy {
    /// Errors: `usage` where the online roles could end between two renewals.
    pub(crate) fn check(&self) -> Result<()> {
        if [self.root, self.targets, self.snapshot, self.timestamp].iter().any(|seconds| *seconds > MAX_PERIOD) {
            return Err(usage(format!("no role may be good for more than {} days", MAX_PERIOD / DAY)));
        }
        for (role, seconds) in [(SNAPSHOT, self.snapshot), (TIMESTAMP, self.timestamp)] {
            if seconds < self.refresh.saturating_mul(PERIODS) {
                let what =
                    format!("the {role} is good for {seconds} s, less than {PERIODS} periods of {} s", self.refresh);
                return Err(usage(what).advise("give it longer, or refresh more often"));
            }
        }
        Ok(())
    }
}

fn days(text: &str) -> std::result::Result<u64, ParseIntError> {
    text.parse::<u32>().map(|days| u64::from(days) * DAY)
}

fn hours(text: &str) -> std::result::Result<u64, ParseIntError> {
    text.parse::<u32>().map(|hours| u64::from(hours) * HOUR)
}

/// Whose keys roles have.
#[derive(Debug, Clone, Default, Args)]
pub struct Founders {
    /// Public key of somebody who signs the root (PEM file; Ed25519, P-256 or RSA)
    #[arg(long, value_name = "FILE")]
    pub root_key: Vec<PathBuf>,
    /// Public key of somebody who signs targets
    #[arg(long, value_name = "FILE")]
    pub targets_key: Vec<PathBuf>,
    /// Public key for snapshot and timestamp
    #[arg(long, value_name = "FILE")]
    pub online_key: Option<PathBuf>,
    /// How many must sign the root [default: 2]
    #[arg(long, value_name = "N")]
    pub root_threshold: Option<u64>,
    /// How many must sign targets [default: 2]
    #[arg(long, value_name = "N")]
    pub targets_threshold: Option<u64>,
    /// Let all root keys be needed: one that is lost ends the repository
    #[arg(long)]
    pub no_spare: bool,
}

impl Founders {
    /// Gives `root` these keys; roles without one here keep theirs. Errors: `usage`; those of reading.
    pub(crate) fn give(&self, root: &mut Envelope) -> Result<()> {
        let online = Vec::from_iter(self.online_key.clone());
        let is_new = root.signed["roles"].is_null();
        let (mut keys_of_roles, mut roles) = (BTreeMap::new(), Map::new());
        for (role, files, threshold) in [
            (ROOT, &self.root_key, self.root_threshold),
            (TARGETS, &self.targets_key, self.targets_threshold),
            (SNAPSHOT, &online, Some(1)),
            (TIMESTAMP, &online, Some(1)),
        ] {
            let (present, present_threshold) = keys_of(root, role);
            let threshold = threshold.unwrap_or(if is_new { 2 } else { present_threshold });
            let keys = if files.is_empty() { present } else { read(files)? };
            let count = keys.len() as u64;
            if files.is_empty() && is_new {
                return Err(usage(format!("no key for {role} is given")));
            }
            if keys.len() < files.len() {
                return Err(usage(format!("a key for {role} is given twice")));
            }
            if threshold == 0 || threshold > count {
                return Err(usage(format!("{role} has {count} keys: {threshold} signatures cannot be asked for")));
            }
            if role == ROOT && threshold == count && !self.no_spare {
                let what = format!("all {count} root keys must sign: one that is lost would end the repository");
                return Err(usage(what).advise("give one key more, or --no-spare"));
            }
            roles.insert(role.to_owned(), json!({ "keyids": Vec::from_iter(keys.keys()), "threshold": threshold }));
            keys_of_roles.insert(role, keys);
        }
        for (one, other) in [(ROOT, TARGETS), (ROOT, TIMESTAMP), (TARGETS, TIMESTAMP)] {
            if keys_of_roles[one].keys().any(|id| keys_of_roles[other].contains_key(id)) {
                return Err(usage(format!("a key is given for both {one} and {other}: who has it alone would be two")));
            }
        }
        root.signed["keys"] = json!(keys_of_roles.into_values().flatten().collect::<PublicKeys>());
        root.signed["roles"] = Value::Object(roles);
        Ok(())
    }
}

/// The public keys in PEM files. Errors: `usage`; those of reading.
fn read(files: &[PathBuf]) -> Result<PublicKeys> {
    files.iter().map(|file| keys::public_key(file).map(|key| (keys::id(&key), key))).collect()
}
