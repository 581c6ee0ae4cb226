//! The directory of a repository: what is published in `metadata/`, what waits for signatures in `staged/`, the periods in
//! `policy.json`. It is in the hands of one process.

use std::fs::File;
use std::path::{Path, PathBuf};

use error::{Code, Error, Result};
use jiff::Timestamp;
use serde_json::json;
use tuf::{ROOT, SNAPSHOT, TARGETS, TIMESTAMP, file_name};

use crate::durable::{self, MODE, usage};
use crate::founders::{Founders, Policy};
use crate::metadata::{Envelope, MAX_FILE, end, read};

/// What waits for signatures.
pub(crate) const STAGED: [&str; 2] = [ROOT, TARGETS];
/// Most bytes of the small files here.
pub(crate) const MAX_SMALL: u64 = 64 << 10;
/// Most new versions of the root that are looked for.
const MAX_ROOTS: u64 = 10_000;

/// A repository in a directory.
pub struct SiteRepository {
    pub(crate) dir: PathBuf,
    _lock: File,
}

impl SiteRepository {
    /// The one in `dir`. Errors: `usage` where there is none, `lock_held`.
    pub fn open(dir: &Path) -> Result<Self> {
        if !dir.join("policy.json").exists() {
            let what = format!("{} is no repository of teleport-fleet", dir.display());
            return Err(usage(what).advise("make one with `teleport-fleet tuf init`"));
        }
        Self::locked(dir)
    }

    fn locked(dir: &Path) -> Result<Self> {
        let lock = durable::lock(durable::open_to_write(&dir.join(".lock"), true)?, dir)?;
        let site = Self { dir: dir.to_owned(), _lock: lock };
        durable::check_dir(&site.metadata())?;
        durable::check_dir(&dir.join("staged"))?;
        for role in STAGED {
            // What was published before a run was cut short waits no longer; a root does until its timestamp is there.
            let published = site.version(role)?.saturating_sub(u64::from(role == ROOT));
            if site.staged(role)?.is_some_and(|staged| staged.version() <= published) {
                site.unstage(role)?;
            }
        }
        Ok(site)
    }

    /// A new one in `dir`, whose root and targets wait for their signatures.
    ///
    /// Errors: `usage` for keys, thresholds or periods that would not hold; those of writing.
    pub fn init(dir: &Path, founders: &Founders, policy: &Policy, now: Timestamp) -> Result<()> {
        policy.check()?;
        let mut root = Envelope::new(ROOT, 1, &end(now, policy.root), &[("consistent_snapshot", json!(true))]);
        founders.give(&mut root)?;
        durable::make_dir(&dir.join("metadata"))?;
        durable::make_dir(&dir.join("staged"))?;
        let new = Self::locked(dir)?;
        if dir.join("policy.json").exists() {
            return Err(usage(format!("{} is a repository already", dir.display())));
        }
        new.stage(ROOT, &root)?;
        new.stage(TARGETS, &Envelope::new(TARGETS, 1, &end(now, policy.targets), &[("targets", json!({}))]))?;
        durable::write(&dir.join("policy.json"), &serde_json::to_vec_pretty(policy).unwrap_or_default(), MODE)
    }

    /// Where the files for hosts are.
    pub(crate) fn metadata(&self) -> PathBuf {
        self.dir.join("metadata")
    }

    pub(crate) fn policy(&self) -> Result<Policy> {
        let path = self.dir.join("policy.json");
        let bytes = durable::read(&path, MAX_SMALL)?.unwrap_or_default();
        let policy: Policy =
            serde_json::from_slice(&bytes).map_err(|error| usage(format!("{}: {error}", path.display())))?;
        policy.check().map(|()| policy)
    }

    fn waiting(&self, role: &str) -> PathBuf {
        self.dir.join(format!("staged/{role}.json"))
    }

    pub(crate) fn staged(&self, role: &str) -> Result<Option<Envelope>> {
        let bytes = durable::read(&self.waiting(role), MAX_FILE)?;
        bytes.map(|bytes| Envelope::parse(role, &bytes)).transpose()
    }

    pub(crate) fn stage(&self, role: &str, envelope: &Envelope) -> Result<()> {
        let bytes = envelope.bytes();
        if bytes.len() as u64 > MAX_FILE {
            let what = format!("{role} would have {} bytes: no host takes more than {MAX_FILE}", bytes.len());
            return Err(usage(what).advise("remove old archives from it: `tuf add --remove NAME`"));
        }
        durable::write(&self.waiting(role), &bytes, MODE)
    }

    pub(crate) fn unstage(&self, role: &str) -> Result<()> {
        durable::remove(&self.waiting(role))
    }

    /// What is published of a role: the newest root, and of the others what the timestamp leads to.
    pub(crate) fn present(&self, role: &str) -> Result<Option<Envelope>> {
        let published = |version: Option<u64>| {
            let bytes = read(&self.metadata(), &file_name(role, version))?;
            bytes.map(|bytes| Envelope::parse(role, &bytes)).transpose()
        };
        let above = match role {
            ROOT => {
                let mut newest = None;
                for version in 1..MAX_ROOTS {
                    let Some(root) = published(Some(version))? else { break };
                    newest = Some(root);
                }
                return Ok(newest);
            }
            TIMESTAMP => return published(None),
            SNAPSHOT => TIMESTAMP,
            _ => SNAPSHOT,
        };
        let Some(above) = self.present(above)? else { return Ok(None) };
        let version = above.signed["meta"][format!("{role}.json")]["version"].as_u64().unwrap_or_default();
        published(Some(version))?.map(Some).ok_or_else(|| {
            let what = format!("{} names a {role} that is not there", self.metadata().display());
            Error::new(Code::TufInvalid, what).advise("put the directory back whole, from a copy")
        })
    }

    /// The version that is published of a role; 0: none.
    pub(crate) fn version(&self, role: &str) -> Result<u64> {
        Ok(self.present(role)?.map_or(0, |present| present.version()))
    }
}
