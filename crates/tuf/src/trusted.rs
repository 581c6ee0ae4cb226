//! Which metadata is trusted, and what it takes to trust the next (specification §5.3 to §5.6).

use std::collections::BTreeMap;

use error::{Code, Result};
use jiff::Timestamp;

use super::document::{Document, FileMeta};
use super::keys::RoleKeys;
use super::roles::{ROOT, SNAPSHOT, TARGETS, TIMESTAMP, invalid, refusal};

/// What is trusted so far, at one time. Each role is verified against whoever names its keys.
pub struct TrustedSet {
    now: Timestamp,
    pub(super) root: Document,
    pub(super) timestamp: Option<Document>,
    pub(super) snapshot: Option<Document>,
    /// By the role's name.
    pub(super) targets: BTreeMap<String, Document>,
}

impl TrustedSet {
    /// `root`: the metadata that is trusted because the caller says so. `now`: the one time by which everything is judged.
    ///
    /// Errors: `tuf_invalid`.
    pub fn new(root: &[u8], now: Timestamp) -> Result<Self> {
        let root = Document::parse(ROOT, root)?;
        root.verify(&root.role_keys(ROOT)?)?;
        Ok(Self { now, root, timestamp: None, snapshot: None, targets: BTreeMap::new() })
    }

    /// The version of the root that is trusted.
    pub fn root_version(&self) -> u64 {
        self.root.version
    }

    /// The end of each of the four top-level roles that are trusted.
    pub fn ends(&self) -> impl Iterator<Item = (&str, Timestamp)> {
        let others = [self.timestamp.as_ref(), self.snapshot.as_ref(), self.targets.get(TARGETS)];
        std::iter::once(&self.root).chain(others.into_iter().flatten()).map(|role| (role.role.as_str(), role.expires))
    }

    /// The version of the targets that are trusted.
    pub fn targets_version(&self) -> Option<u64> {
        self.targets.get(TARGETS).map(|targets| targets.version)
    }

    /// The next root, signed by the keys of the present one and by its own. True: the keys of timestamp or snapshot changed, so
    /// that what is kept of them no longer counts.
    ///
    /// Errors: `tuf_invalid`, `tuf_rollback`.
    pub(super) fn next_root(&mut self, bytes: &[u8]) -> Result<bool> {
        let next = Document::parse(ROOT, bytes)?;
        next.verify(&self.root.role_keys(ROOT)?)?;
        next.verify(&next.role_keys(ROOT)?)?;
        if Some(next.version) != self.root.version.checked_add(1) {
            let what = format!("version {} cannot follow version {}", next.version, self.root.version);
            let is_back = next.version <= self.root.version;
            return Err(refusal(if is_back { Code::TufRollback } else { Code::TufInvalid }, ROOT, &what));
        }
        let mut is_other = false;
        for role in [TIMESTAMP, SNAPSHOT] {
            is_other |= self.root.role_keys(role)? != next.role_keys(role)?;
        }
        self.root = next;
        Ok(is_other)
    }

    /// Errors: `tuf_expired`.
    pub(super) fn check_end(&self, role: &Document) -> Result<()> {
        if role.expires > self.now {
            return Ok(());
        }
        let what = format!("it ended at {}, and this clock says {}", role.expires, self.now);
        Err(refusal(Code::TufExpired, &role.role, &what).advise(
            "correct the clock if it is wrong; else the repository's owner must renew it (teleport-fleet tuf refresh; \
             targets: tuf add; root: tuf rotate)",
        ))
    }

    /// Trusts a timestamp that is not older than what is trusted; false for the version that is trusted already. What has
    /// expired is still good to compare with.
    ///
    /// Errors: `tuf_invalid`, `tuf_rollback`.
    pub(super) fn take_timestamp(&mut self, bytes: &[u8]) -> Result<bool> {
        let next = Document::parse(TIMESTAMP, bytes)?;
        next.verify(&self.root.role_keys(TIMESTAMP)?)?;
        if let Some(known) = &self.timestamp {
            not_below(TIMESTAMP, known.version, next.version)?;
            not_below(SNAPSHOT, known.named(SNAPSHOT)?.version, next.named(SNAPSHOT)?.version)?;
            if next.version == known.version {
                return Ok(false);
            }
        }
        self.timestamp = Some(next);
        Ok(true)
    }

    /// What the timestamp says of the snapshot. Errors: `tuf_expired`.
    pub(super) fn snapshot_meta(&self) -> Result<FileMeta> {
        let timestamp = self.timestamp.as_ref().ok_or_else(|| missing(TIMESTAMP))?;
        self.check_end(timestamp)?;
        timestamp.named(SNAPSHOT)
    }

    /// Trusts a snapshot; `kept`: it was verified when it was kept, and may be older than what the timestamp says, to compare with.
    ///
    /// Errors: `tuf_invalid`, `tuf_rollback`.
    pub(super) fn take_snapshot(&mut self, bytes: &[u8], kept: bool) -> Result<()> {
        if !kept {
            self.snapshot_meta()?.check(SNAPSHOT, bytes)?;
        }
        let next = Document::parse(SNAPSHOT, bytes)?;
        next.verify(&self.root.role_keys(SNAPSHOT)?)?;
        if let Some(known) = &self.snapshot {
            for file in known.fields()?.object("meta")?.map.keys() {
                let role = file.strip_suffix(".json").unwrap_or(file);
                let wanted = known.named(role)?.version;
                let found = next.named(role).map_err(|_| {
                    refusal(Code::TufRollback, SNAPSHOT, &format!("the role {role:?} is no longer there"))
                })?;
                not_below(role, wanted, found.version)?;
            }
        }
        if !kept {
            self.is_current_snapshot(&next)?;
        }
        self.snapshot = Some(next);
        Ok(())
    }

    fn is_current_snapshot(&self, snapshot: &Document) -> Result<()> {
        self.snapshot_meta()?.check_version(snapshot, TIMESTAMP)?;
        self.check_end(snapshot)
    }

    /// The snapshot, if it is the one that the timestamp names. Errors: `tuf_invalid`, `tuf_expired`.
    pub(super) fn current_snapshot(&self) -> Result<&Document> {
        let snapshot = self.snapshot.as_ref().ok_or_else(|| missing(SNAPSHOT))?;
        self.is_current_snapshot(snapshot)?;
        Ok(snapshot)
    }

    /// What the snapshot says of the targets role `role`. Errors: `tuf_invalid`, `tuf_expired`.
    pub(super) fn targets_meta(&self, role: &str) -> Result<FileMeta> {
        let snapshot = self.current_snapshot()?;
        snapshot.named(role).map_err(|_| invalid(SNAPSHOT, &format!("it does not name the role {role:?}")))
    }

    /// Trusts targets, top-level or delegated: `keys` are those of whoever delegates to it.
    ///
    /// Errors: `tuf_invalid`, `tuf_expired`.
    pub(super) fn take_targets(&mut self, role: &str, keys: &RoleKeys, bytes: &[u8]) -> Result<()> {
        let meta = self.targets_meta(role)?;
        meta.check(role, bytes)?;
        let targets = Document::parse(role, bytes)?;
        targets.verify(keys)?;
        meta.check_version(&targets, SNAPSHOT)?;
        self.check_end(&targets)?;
        self.targets.insert(role.to_owned(), targets);
        Ok(())
    }
}

fn not_below(role: &str, known: u64, found: u64) -> Result<()> {
    if found < known {
        let what = format!("version {found} is below version {known}, which was there before");
        return Err(refusal(Code::TufRollback, role, &what)
            .advise("the mirror went back, or is copied in parts; bring it up to date"));
    }
    Ok(())
}

fn missing(role: &str) -> error::Error {
    invalid(role, "nothing of it is trusted yet")
}
