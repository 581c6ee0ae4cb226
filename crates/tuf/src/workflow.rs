//! The order in which metadata is asked for, kept and searched (specification §5.2 to §5.6).

use std::collections::BTreeMap;

use error::{Code, Error, Result};
use jiff::Timestamp;
use serde_json::Value;

use super::document::TargetFile;
use super::keys::RoleKeys;
use super::paths::delegated;
use super::roles::{ROOT, SNAPSHOT, TARGETS, TIMESTAMP, file_name, invalid};
use super::trusted::TrustedSet;

/// Most bytes of a root.
const MAX_ROOT: u64 = 128 << 10;
/// Most bytes of a timestamp.
const MAX_TIMESTAMP: u64 = 16 << 10;
/// Most bytes of a snapshot, or of one role's targets.
const MAX_TARGETS: u64 = 1 << 20;
/// Most bytes of all that is asked for in one run.
const MAX_RUN: u64 = 4 << 20;
/// Most new roots in one run.
const MAX_ROOTS: usize = 256;
/// Most delegated roles that are looked into for one file.
const MAX_ROLES: usize = 32;

/// Where metadata is kept, and where it is asked for.
pub trait Place {
    /// The metadata of a role as it was kept last. Errors: those of reading.
    fn kept(&mut self, role: &str) -> Result<Option<Vec<u8>>>;
    /// Keeps verified metadata of a role; whole or not at all. Errors: those of writing.
    fn keep(&mut self, role: &str, bytes: &[u8]) -> Result<()>;
    /// Keeps the metadata of a role no longer. Errors: those of writing.
    fn forget(&mut self, role: &str) -> Result<()>;
    /// The file `name` of the repository. `None`: it is not there. At most one byte more than `limit` is read.
    ///
    /// Errors: those of asking.
    fn fetch(&mut self, name: &str, limit: u64) -> Result<Option<Vec<u8>>>;
    /// Something that was kept is damaged, and is had anew.
    fn warn(&mut self, error: &Error);
}

/// A repository whose present state was verified.
pub struct Repository<'a> {
    place: &'a mut dyn Place,
    trusted: TrustedSet,
    /// Bytes that may still be asked for.
    budget: u64,
}

impl<'a> Repository<'a> {
    /// Brings what is trusted up to date, from the root that `place` keeps. `now`: the one time by which everything is judged.
    ///
    /// Errors: `tuf_state` where no root is kept, or a broken one; `tuf_invalid`, `tuf_rollback`, `tuf_expired`; those of the place.
    pub fn refresh(place: &'a mut dyn Place, now: Timestamp) -> Result<Self> {
        let state = |what: &str| {
            Error::new(Code::TufState, format!("the trusted root of TUF {what}")).advise("give it anew with --tuf-root")
        };
        let kept = place.kept(ROOT).map_err(|error| state(&format!("cannot be read: {}", error.what)))?;
        let kept = kept.ok_or_else(|| state("is missing"))?;
        let trusted = TrustedSet::new(&kept, now).map_err(|error| state(&format!("is damaged: {}", error.what)))?;
        let mut repository = Self { place, trusted, budget: MAX_RUN };
        repository.roots()?;
        repository.timestamp()?;
        repository.snapshot()?;
        let keys = repository.trusted.root.role_keys(TARGETS)?;
        repository.targets(TARGETS, &keys)?;
        Ok(repository)
    }

    /// What is trusted.
    pub fn trusted(&self) -> &TrustedSet {
        &self.trusted
    }

    /// Whether files have their digest in their names. Errors: none after a refresh.
    pub fn is_consistent(&self) -> Result<bool> {
        self.trusted.root.is_consistent()
    }

    /// What the signers say of the file `path`; `None` where nobody who may speak of it does.
    ///
    /// Errors: those of the roles that are looked into for it.
    pub fn target(&mut self, path: &str) -> Result<Option<TargetFile>> {
        let mut seen: Vec<String> = Vec::new();
        // Those that are looked into next, the first of them last, with the keys that whoever names them gives them.
        let mut next: Vec<(String, Option<RoleKeys>)> = vec![(TARGETS.to_owned(), None)];
        while let Some((name, keys)) = next.pop() {
            if seen.contains(&name) {
                continue;
            }
            if let Some(keys) = keys {
                if seen.len() > MAX_ROLES {
                    return Err(invalid(&name, &format!("more than {MAX_ROLES} delegated roles may speak of {path}")));
                }
                self.targets(&name, &keys)?;
            }
            seen.push(name.clone());
            let Some(role) = self.trusted.targets.get(&name) else { continue };
            if let Some(file) = role.target(path)? {
                return Ok(Some(file));
            }
            let Some(delegations) = role.delegations()? else { continue };
            let mut children = Vec::new();
            for child in delegated(delegations, Some(path), 1)? {
                children.push((child.name, Some(child.keys)));
                // Also where that role was asked before: nobody behind it may speak.
                if child.is_terminating {
                    next.clear();
                    break;
                }
            }
            next.extend(children.into_iter().rev());
        }
        Ok(None)
    }

    /// All files that the signers name, and what the top-level targets say beside them (`custom`; of others null): those of at most
    /// 32 delegated roles.
    ///
    /// Errors: those of the roles.
    pub fn listed(&mut self) -> Result<BTreeMap<String, (TargetFile, Value)>> {
        let mut names: BTreeMap<String, Value> = BTreeMap::new();
        let mut next: Vec<(String, Option<RoleKeys>)> = vec![(TARGETS.to_owned(), None)];
        let mut seen = Vec::new();
        while let Some((name, keys)) = next.pop() {
            if seen.contains(&name) || seen.len() > MAX_ROLES {
                continue;
            }
            if let Some(keys) = keys {
                self.targets(&name, &keys)?;
            }
            let Some(role) = self.trusted.targets.get(&name) else { continue };
            for (file, custom) in role.listed()? {
                names.entry(file).or_insert(if name == TARGETS { custom } else { Value::Null });
            }
            if let Some(delegations) = role.delegations()? {
                let children = delegated(delegations, None, MAX_ROLES as u64)?;
                next.extend(children.into_iter().map(|child| (child.name, Some(child.keys))));
            }
            seen.push(name);
        }
        // Who names a file may not be who may speak of it.
        let mut files = BTreeMap::new();
        for (name, custom) in names {
            if let Some(file) = self.target(&name)? {
                files.insert(name, (file, custom));
            }
        }
        Ok(files)
    }

    fn roots(&mut self) -> Result<()> {
        for _ in 0..=MAX_ROOTS {
            let version = self.trusted.root_version().saturating_add(1);
            let Some(bytes) = self.asked(ROOT, Some(version), MAX_ROOT)? else {
                return self.trusted.check_end(&self.trusted.root);
            };
            // Forgotten before the new root is kept: a run that ends between them finds nothing that it could take for the new keys'.
            if self.trusted.next_root(&bytes)? {
                self.place.forget(TIMESTAMP)?;
                self.place.forget(SNAPSHOT)?;
            }
            self.place.keep(ROOT, &bytes)?;
        }
        Err(invalid(ROOT, &format!("there are more than {MAX_ROOTS} new ones")))
    }

    fn timestamp(&mut self) -> Result<()> {
        if let Some(kept) = self.kept(TIMESTAMP)? {
            let taken = self.trusted.take_timestamp(&kept).map(drop);
            self.warn_if_damaged(taken);
        }
        let mut bytes = self.present(TIMESTAMP, None, MAX_TIMESTAMP)?;
        let mut taken = self.trusted.take_timestamp(&bytes);
        // A mirror of several servers may have one that is behind: another answer is asked for, once.
        if taken.as_ref().is_err_and(|error| error.code == Code::TufRollback) {
            bytes = self.present(TIMESTAMP, None, MAX_TIMESTAMP)?;
            taken = self.trusted.take_timestamp(&bytes);
        }
        if taken? {
            // An expired one is not kept: it would only tell what to compare with.
            self.trusted.snapshot_meta()?;
            self.place.keep(TIMESTAMP, &bytes)?;
        }
        Ok(())
    }

    fn snapshot(&mut self) -> Result<()> {
        let meta = self.trusted.snapshot_meta()?;
        if let Some(kept) = self.kept(SNAPSHOT)? {
            let taken = self.trusted.take_snapshot(&kept, true);
            self.warn_if_damaged(taken);
            if self.trusted.current_snapshot().is_ok() && meta.check(SNAPSHOT, &kept).is_ok() {
                return Ok(());
            }
        }
        let bytes = self.present(SNAPSHOT, Some(meta.version), meta.length.unwrap_or(MAX_TARGETS).min(MAX_TARGETS))?;
        self.trusted.take_snapshot(&bytes, false)?;
        self.place.keep(SNAPSHOT, &bytes)
    }

    /// Targets of a role, as they are kept or else from the repository. `keys`: those of whoever delegates to it.
    fn targets(&mut self, role: &str, keys: &RoleKeys) -> Result<()> {
        if let Some(known) = self.trusted.targets.get(role) {
            return known.verify(keys);
        }
        let meta = self.trusted.targets_meta(role)?;
        if let Some(kept) = self.kept(role)?
            && self.trusted.take_targets(role, keys, &kept).is_ok()
        {
            return Ok(());
        }
        let bytes = self.present(role, Some(meta.version), meta.length.unwrap_or(MAX_TARGETS).min(MAX_TARGETS))?;
        self.trusted.take_targets(role, keys, &bytes)?;
        self.place.keep(role, &bytes)
    }

    /// What is kept of a role but the root; what cannot be read is as if nothing were.
    fn kept(&mut self, role: &str) -> Result<Option<Vec<u8>>> {
        match self.place.kept(role) {
            Err(damage) => {
                self.place.warn(&damage.during("what is kept is damaged, and is had anew"));
                self.place.forget(role)?;
                Ok(None)
            }
            kept => kept,
        }
    }

    /// A kept timestamp or snapshot was verified once, and is forgotten when its keys change: one that is not taken is damaged.
    fn warn_if_damaged(&mut self, taken: Result<()>) {
        if let Err(damage) = taken {
            self.place.warn(&damage.during("what is kept is damaged, and is had anew"));
        }
    }

    /// A file that must be there. Errors: `network` where it is not.
    fn present(&mut self, role: &str, version: Option<u64>, limit: u64) -> Result<Vec<u8>> {
        let version = version.filter(|_| self.trusted.root.is_consistent().unwrap_or_default());
        self.asked(role, version, limit)?.ok_or_else(|| {
            Error::new(Code::Network, format!("the TUF repository has no metadata of {role}"))
                .advise("check --tuf-url, and that the mirror has the whole repository")
        })
    }

    /// A file of at most `limit` bytes.
    fn asked(&mut self, role: &str, version: Option<u64>, limit: u64) -> Result<Option<Vec<u8>>> {
        let Some(bytes) = self.place.fetch(&file_name(role, version), limit.min(self.budget))? else { return Ok(None) };
        let length = bytes.len() as u64;
        if length > limit.min(self.budget) {
            let what = format!("it is larger than {limit} bytes, or all of them together than {MAX_RUN}");
            return Err(invalid(role, &what));
        }
        self.budget -= length;
        Ok(Some(bytes))
    }
}
