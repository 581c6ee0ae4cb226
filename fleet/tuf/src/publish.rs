//! What is published. All of it has been looked at before as a host would: what a host would refuse is refused here. A file is whole
//! or absent, and the timestamp, which makes all others count, comes last.

use std::collections::BTreeMap;

use error::{Code, Error, Result};
use jiff::{SignedDuration, Timestamp};
use protocol::Digest;
use serde_json::json;
use tuf::{ROLES, ROOT, Repository, SNAPSHOT, TARGETS, TIMESTAMP, file_name};

use crate::check::Visitor;
use crate::durable::{self, MODE, usage};
use crate::keys::SigningKey;
use crate::metadata::{Envelope, MAX_VERSION, end, keys_of, next_version, read, strange};
use crate::repository::{MAX_SMALL, STAGED, SiteRepository};

/// What is to be published, by role.
type NewFiles = BTreeMap<&'static str, Envelope>;
/// The highest version of each role that was ever published here.
type HighestVersions = BTreeMap<String, u64>;

impl SiteRepository {
    /// Publishes what has its signatures, with a new snapshot and timestamp of the online key. Returns what was published.
    ///
    /// Errors: `usage` where nothing waits; `tuf_invalid` where a host would refuse it, as for want of signatures.
    pub fn commit(&self, online: &SigningKey, now: Timestamp) -> Result<Vec<String>> {
        let (root, mut targets) = (self.staged(ROOT)?, self.staged(TARGETS)?);
        if root.is_none() && targets.is_none() {
            return Err(usage("nothing waits to be published: run `tuf add`, `tuf rotate` or `tuf refresh`"));
        }
        let present = self.present(ROOT)?;
        let newest = root.as_ref().or(present.as_ref()).ok_or_else(|| usage("there is no root"))?;
        if let Some(root) = &root {
            for by in present.iter().chain([root]) {
                self.check_count(ROOT, root, by, newest)?;
            }
        }
        let mut said = Vec::new();
        if let Some(staged) = &targets
            && let Err(lacking) = self.check_count(TARGETS, staged, newest, newest)
        {
            // A root that takes a stolen key away does not wait for archives, where those that are published still count.
            let (keys, threshold) = keys_of(newest, TARGETS);
            let is_published = self.present(TARGETS)?.is_some_and(|published| published.count(&keys) >= threshold);
            if root.is_none() || !is_published {
                return Err(lacking);
            }
            said.push(format!("targets version {} wait for their signatures", staged.version()));
            targets = None;
        }
        let mut new = NewFiles::new();
        new.extend(root.map(|root| (ROOT, root)));
        new.extend(targets.map(|targets| (TARGETS, targets)));
        self.renew(&mut new, online, true, 0, now)?;
        said.extend(new.iter().map(|(role, envelope)| format!("published {role} version {}", envelope.version())));
        self.publish(&new, now)?;
        STAGED.iter().filter(|role| new.contains_key(*role)).try_for_each(|role| self.unstage(role))?;
        Ok(said)
    }

    /// Errors: `tuf_invalid` where fewer have signed than the root `by` asks for.
    fn check_count(&self, role: &str, staged: &Envelope, by: &Envelope, newest: &Envelope) -> Result<()> {
        let (keys, threshold) = keys_of(by, role);
        let count = staged.count(&keys);
        if count >= threshold {
            return Ok(());
        }
        let what =
            format!("{role} version {} has {count} of the {threshold} signatures that it needs", staged.version());
        let by = if by.version() < newest.version() { ", of the present root keys" } else { "" };
        let advice = format!("have it signed{by}: `teleport-fleet tuf sign {} --key KEY`", self.dir.display());
        Err(Error::new(Code::TufInvalid, what).advise(advice))
    }

    /// Gives timestamp and snapshot a new end where half of their time is over. `above`: their versions begin above this one. Returns the
    /// version of the new timestamp; `None`: both are good for more than half of their time.
    ///
    /// Errors: `tuf_rollback` where the directory went back; `tuf_invalid` where a host would refuse what comes of it.
    pub fn refresh(&self, online: &SigningKey, above: u64, now: Timestamp) -> Result<Option<u64>> {
        let (Some(snapshot), Some(timestamp)) = (self.present(SNAPSHOT)?, self.present(TIMESTAMP)?) else {
            return Err(usage("nothing is published yet: run `tuf commit`"));
        };
        if above > MAX_VERSION {
            return Err(usage(format!("--above {above} is above {MAX_VERSION}")));
        }
        let policy = self.policy()?;
        self.check_highest()?;
        let is_old = |envelope: &Envelope, seconds: u64| {
            let half = SignedDuration::from_secs(i64::try_from(seconds / 2).unwrap_or(i64::MAX));
            envelope.expires().is_none_or(|end| end.duration_since(now) <= half)
        };
        let is_snapshot_old = is_old(&snapshot, policy.snapshot);
        let mut new = NewFiles::new();
        // Also where it is early: a key that is no longer the root's is told now, and not when it is urgent.
        self.renew(&mut new, online, is_snapshot_old || above > 0, above, now)?;
        // The record is ahead of what is published where a run was cut short between them.
        let is_behind = self.highest()?.get(TIMESTAMP).is_some_and(|highest| *highest > timestamp.version());
        if !is_snapshot_old && !is_old(&timestamp, policy.timestamp) && above < timestamp.version() && !is_behind {
            return Ok(None);
        }
        self.publish(&new, now)?;
        Ok(new.get(TIMESTAMP).map(Envelope::version))
    }

    /// Adds the next timestamp, and with `snapshot` the next snapshot, to what is new.
    fn renew(&self, new: &mut NewFiles, online: &SigningKey, snapshot: bool, above: u64, now: Timestamp) -> Result<()> {
        let (policy, highest) = (self.policy()?, self.highest()?);
        let newest = |new: &NewFiles, role: &str| {
            let newest = new.get(role).cloned().map_or_else(|| self.present(role), |new| Ok(Some(new)))?;
            newest.ok_or_else(|| usage(format!("nothing is there of {role}")))
        };
        let root = newest(new, ROOT)?;
        for (role, meant, period) in [(SNAPSHOT, TARGETS, policy.snapshot), (TIMESTAMP, SNAPSHOT, policy.timestamp)] {
            if role == SNAPSHOT && !snapshot {
                continue;
            }
            let recorded = highest.get(role).copied().unwrap_or_default();
            let version = next_version(self.version(role)?.max(recorded).max(above))?;
            let file = newest(new, meant)?;
            let (bytes, number) = (file.bytes(), file.version());
            let hashes = json!({ "sha256": Digest::of(&bytes).to_string() });
            let meta =
                json!({ format!("{meant}.json"): { "version": number, "length": bytes.len(), "hashes": hashes } });
            let mut envelope = Envelope::new(role, version, &end(now, period), &[("meta", meta)]);
            let (keys, threshold) = keys_of(&root, role);
            if envelope.sign(online, &keys)? < threshold {
                return Err(usage(format!("the online key is not the one of {role}")));
            }
            new.insert(role, envelope);
        }
        Ok(())
    }

    fn highest(&self) -> Result<HighestVersions> {
        let path = self.dir.join("published.json");
        let damaged = |_| usage(format!("{} is damaged: put it back, or remove it", path.display()));
        let bytes = durable::read(&path, MAX_SMALL)?;
        bytes.map_or_else(|| Ok(HighestVersions::new()), |bytes| serde_json::from_slice(&bytes).map_err(damaged))
    }

    /// Errors: `tuf_rollback` where root or targets are below what was published. Snapshot and timestamp go on above it by themselves.
    fn check_highest(&self) -> Result<()> {
        let highest = self.highest()?;
        for role in STAGED {
            let (was, is) = (highest.get(role).copied().unwrap_or_default(), self.version(role)?);
            // A next root is there before it counts, and targets one version before their timestamp.
            if is.saturating_add(u64::from(role == TARGETS)) < was {
                let what =
                    format!("{role} version {was} was published before, and here it is {is}: hosts would refuse it");
                return Err(Error::new(Code::TufRollback, what).advise(
                    "put the newer directory back; if it is lost, have targets and root signed again until they are higher, and \
                     then remove published.json",
                ));
            }
        }
        Ok(())
    }

    /// Looks at what is new as a host would, and writes it in the order in which hosts may see it.
    fn publish(&self, new: &NewFiles, now: Timestamp) -> Result<()> {
        let metadata = self.metadata();
        self.check_highest()?;
        let name = |role: &str, new: &Envelope| file_name(role, (role != TIMESTAMP).then(|| new.version()));
        // A host with the first root takes every later one.
        let first = read(&metadata, "1.root.json")?.or_else(|| new.get(ROOT).map(Envelope::bytes));
        let mut host = Visitor::in_dir(&metadata, first.ok_or_else(|| usage("there is no root"))?);
        host.new = new.iter().map(|(role, new)| (name(role, new), new.bytes())).collect();
        let during = |error: Error| error.during("not published: a host would refuse it");
        let found = Repository::refresh(&mut host, now).map_err(during)?;
        let trusted = found.trusted();
        for (role, version) in [(ROOT, Some(trusted.root_version())), (TARGETS, trusted.targets_version())] {
            if new.get(role).is_some_and(|new| Some(new.version()) != version) {
                return Err(strange(role, "no host would come to this version"));
            }
        }
        let mut highest = self.highest()?;
        for (role, envelope) in new {
            let known = highest.entry((*role).to_owned()).or_default();
            *known = envelope.version().max(*known);
        }
        let record = serde_json::to_vec(&highest).unwrap_or_default();
        for role in ROLES {
            let Some(envelope) = new.get(role) else { continue };
            // Before the timestamp: of what hosts have seen it is known here, whatever comes.
            if role == TIMESTAMP {
                durable::write(&self.dir.join("published.json"), &record, MODE)?;
            }
            durable::write(&metadata.join(name(role, envelope)), &envelope.bytes(), MODE)?;
        }
        Ok(())
    }
}
