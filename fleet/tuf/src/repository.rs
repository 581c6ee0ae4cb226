//! The repository: what is published in `metadata/`, what waits for signatures in `staged/`, the periods in `policy.json`.
//!
//! Everything that is published has been looked at before as a host would: what a host would refuse is refused here. A file is whole
//! or absent, and the timestamp, which makes all others count, comes last.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use error::{Code, Error, IoContext, Result};
use jiff::{SignedDuration, Timestamp};
use protocol::Digest;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tuf::{ROOT, Repository, SNAPSHOT, TARGETS, TIMESTAMP};

use crate::durable;
use crate::keys::{self, SigningKey};
use crate::metadata::{Envelope, MAX_FILE, ORDER, Published, file_name, keys_of, read};

/// What waits for signatures.
const STAGED: [&str; 2] = [ROOT, TARGETS];
/// A period stands so often in the time that it renews: a weekend without the server must not end it (go-tuf, RSTUF and others met
/// this).
const PERIODS: u32 = 4;
/// Most bytes of the small files here.
const MAX_SMALL: u64 = 64 << 10;
/// Most new versions of the root that are looked for.
const MAX_ROOTS: u64 = 10_000;
/// Longest time for which a role is good: who leaves takes his keys with him.
const MAX_PERIOD: u64 = 3 * 366 * 86_400;
/// Highest version: what counts up one by one never comes here, and readers of JSON take it for whole.
const MAX_VERSION: u64 = 1 << 53;
/// What a key signs to show whose it is.
const PROBE: &[u8] = b"teleport-fleet: whose key is this?";
/// Mode of what everybody may read.
const MODE: u32 = 0o644;

/// How long each role's metadata is good, and how often the online roles are renewed, seconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Policy {
    /// Of the root.
    pub root: u64,
    /// Of the targets.
    pub targets: u64,
    /// Of the snapshot.
    pub snapshot: u64,
    /// Of the timestamp.
    pub timestamp: u64,
    /// At least how often `refresh` comes.
    pub refresh: u64,
}

/// Whose keys a new repository has.
#[derive(Debug, Clone, Default)]
pub struct Founders {
    /// PEM files of public keys, by role.
    pub root: Vec<PathBuf>,
    /// Of targets.
    pub targets: Vec<PathBuf>,
    /// Of snapshot and timestamp.
    pub online: Option<PathBuf>,
    /// How many must sign the root.
    pub root_threshold: Option<u64>,
    /// How many must sign the targets.
    pub targets_threshold: Option<u64>,
    /// A lost root key may end the repository.
    pub no_spare: bool,
}

/// What a signature is given for.
pub struct SignOrder<'a> {
    /// The signer's key.
    pub key: &'a SigningKey,
    /// Its place, for the record.
    pub name: &'a str,
    /// The signer's own copy of the archives.
    pub own_copy: Option<&'a Path>,
    /// He signs targets without one.
    pub unchecked: bool,
    /// The present time.
    pub now: Timestamp,
}

/// What `refresh` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refreshed {
    /// Both are good for more than half of their time.
    NotYet,
    /// The timestamp is new, with this version.
    Renewed(u64),
}

/// The highest version of each role that was ever published here.
type Highest = BTreeMap<String, u64>;

/// A repository in a directory, in the hands of one process.
pub struct SiteRepository {
    dir: PathBuf,
    _lock: File,
}

impl SiteRepository {
    /// The one in `dir`. Errors: `usage` where there is none, `lock_held`.
    pub fn open(dir: &Path) -> Result<Self> {
        if !dir.join("policy.json").exists() {
            let what = format!("{} is no repository of teleport-fleet", dir.display());
            return Err(Error::new(Code::Usage, what).advise("make one with `teleport-fleet tuf init`"));
        }
        Self::locked(dir)
    }

    fn locked(dir: &Path) -> Result<Self> {
        let lock = durable::lock(durable::open_to_write(&dir.join(".lock"), true)?, dir)?;
        let site = Self { dir: dir.to_owned(), _lock: lock };
        durable::check_dir(&dir.join("metadata"))?;
        durable::check_dir(&dir.join("staged"))?;
        // What was published before a run was cut short waits no longer; a root does until its timestamp is there.
        let root = site.root()?.map_or(0, |root| root.version().saturating_sub(1));
        let targets = site.present()?.map_or(0, |[targets, ..]| targets.version());
        for (role, version) in [(ROOT, root), (TARGETS, targets)] {
            if site.staged(role)?.is_some_and(|staged| staged.version() <= version) {
                durable::remove(&dir.join(format!("staged/{role}.json")))?;
            }
        }
        Ok(site)
    }

    /// A new one in `dir`, whose root and targets wait for their signatures.
    ///
    /// Errors: `usage` for keys, thresholds or periods that would not hold; those of writing.
    pub fn init(dir: &Path, founders: &Founders, policy: &Policy, now: Timestamp) -> Result<Self> {
        check_policy(policy)?;
        let mut root = Envelope::new(ROOT, 1, end(now, policy.root), &[("consistent_snapshot", json!(true))]);
        set_keys(&mut root, founders)?;
        durable::make_dir(&dir.join("metadata"))?;
        durable::make_dir(&dir.join("staged"))?;
        let new = Self::locked(dir)?;
        if dir.join("policy.json").exists() {
            return Err(usage(format!("{} is a repository already", dir.display())));
        }
        new.stage(ROOT, &root)?;
        new.stage(TARGETS, &Envelope::new(TARGETS, 1, end(now, policy.targets), &[("targets", json!({}))]))?;
        let policy = serde_json::to_vec_pretty(policy).unwrap_or_default();
        durable::write(&dir.join("policy.json"), &policy, MODE)?;
        Ok(new)
    }

    /// Where the files for hosts are.
    fn metadata(&self) -> PathBuf {
        self.dir.join("metadata")
    }

    fn policy(&self) -> Result<Policy> {
        let path = self.dir.join("policy.json");
        let bytes = durable::read(&path, MAX_SMALL)?.unwrap_or_default();
        let policy = serde_json::from_slice(&bytes).map_err(|error| usage(format!("{}: {error}", path.display())))?;
        check_policy(&policy)?;
        Ok(policy)
    }

    fn highest(&self) -> Result<Highest> {
        let path = self.dir.join("published.json");
        let damaged = |_| usage(format!("{} is damaged: put it back, or remove it", path.display()));
        let bytes = durable::read(&path, MAX_SMALL)?;
        bytes.map_or_else(|| Ok(Highest::new()), |bytes| serde_json::from_slice(&bytes).map_err(damaged))
    }

    fn staged(&self, role: &str) -> Result<Option<Envelope>> {
        let bytes = read(&self.dir.join("staged"), &format!("{role}.json"))?;
        bytes.map(|bytes| Envelope::parse(role, &bytes)).transpose()
    }

    fn stage(&self, role: &str, envelope: &Envelope) -> Result<()> {
        let bytes = envelope.bytes();
        if bytes.len() as u64 > MAX_FILE {
            let what = format!("{role} would have {} bytes: no host takes more than {MAX_FILE}", bytes.len());
            return Err(usage(what).advise("remove old archives from it: `tuf add --remove NAME`"));
        }
        durable::write(&self.dir.join(format!("staged/{role}.json")), &bytes, MODE)
    }

    fn published(&self, role: &str, version: u64) -> Result<Option<Envelope>> {
        let bytes = read(&self.metadata(), &file_name(role, version))?;
        bytes.map(|bytes| Envelope::parse(role, &bytes)).transpose()
    }

    /// The newest root that is published.
    fn root(&self) -> Result<Option<Envelope>> {
        let mut newest = None;
        for version in 1..MAX_ROOTS {
            let Some(root) = self.published(ROOT, version)? else { break };
            newest = Some(root);
        }
        Ok(newest)
    }

    /// What is published of the other roles, as the timestamp says.
    fn present(&self) -> Result<Option<[Envelope; 3]>> {
        let Some(timestamp) = self.published(TIMESTAMP, 0)? else { return Ok(None) };
        let named = |above: &Envelope, role: &str| {
            above.signed.pointer(&format!("/meta/{role}.json/version")).and_then(Value::as_u64).unwrap_or_default()
        };
        let missing = |role: &str| {
            let what = format!("{} names a {role} that is not there", self.metadata().display());
            Error::new(Code::TufInvalid, what).advise("put the directory back whole, from a copy")
        };
        let snapshot = self.published(SNAPSHOT, named(&timestamp, SNAPSHOT))?.ok_or_else(|| missing(SNAPSHOT))?;
        let targets = self.published(TARGETS, named(&snapshot, TARGETS))?.ok_or_else(|| missing(TARGETS))?;
        Ok(Some([targets, snapshot, timestamp]))
    }

    /// Targets that the next signatures are for: those that wait, else a next version of those that are published.
    fn next_targets(&self, now: Timestamp) -> Result<Envelope> {
        let policy = self.policy()?;
        let mut targets = match (self.staged(TARGETS)?, self.present()?) {
            (Some(staged), _) => staged,
            (None, Some([targets, ..])) => {
                let version = next_version(targets.version())?;
                let mut next = targets;
                next.signed["version"] = json!(version);
                next
            }
            (None, None) => return Err(usage("the repository has no targets: run `tuf init` anew".to_owned())),
        };
        if !targets.signed.get("targets").is_some_and(Value::is_object) {
            return Err(usage("the targets are damaged: remove staged/targets.json".to_owned()));
        }
        targets.signed["expires"] = json!(crate::metadata::time(end(now, policy.targets)));
        targets.signatures.clear();
        Ok(targets)
    }

    /// Names each of `files` by its own name in the targets that wait for signatures, and no longer those of `removed`. Without both
    /// it only gives them a new end. Returns what is said of each.
    ///
    /// Errors: `usage` for a name that is none; those of reading and writing.
    pub fn add(&self, files: &[PathBuf], removed: &[String], now: Timestamp) -> Result<Vec<String>> {
        let mut targets = self.next_targets(now)?;
        let mut said = Vec::new();
        for file in files {
            let name = file.file_name().and_then(|name| name.to_str()).filter(|name| is_plain(name));
            let name = name.ok_or_else(|| usage(format!("{} has no name that hosts could ask for", file.display())))?;
            let meant = measured(file)?;
            said.push(format!("{name}: {} bytes, SHA-256 {}", meant["length"], word(&meant["hashes"]["sha256"])));
            targets.signed["targets"][name] = meant;
        }
        for name in removed {
            let known = targets.signed.get_mut("targets").and_then(Value::as_object_mut);
            if known.and_then(|known| known.shift_remove(name)).is_none() {
                return Err(usage(format!("the targets name no {name}")));
            }
            said.push(format!("{name}: removed"));
        }
        self.stage(TARGETS, &targets)?;
        said.push(format!("targets version {} wait for their signatures", targets.version()));
        Ok(said)
    }

    /// Signs what waits and is this key's. It is no more than our verbs make; of targets, each that this key has not signed before is
    /// compared with the signer's own copy. Returns what was signed, and what of it is new.
    ///
    /// Errors: `tuf_mismatch`, naming each that differs or lacks; `tuf_invalid` for what nobody should sign; `usage` where nothing of it
    /// is the key's.
    pub fn sign(&self, order: &SignOrder<'_>) -> Result<Vec<String>> {
        let (root, waiting) = (self.root()?, self.staged(ROOT)?);
        let newest = waiting.as_ref().or(root.as_ref()).ok_or_else(|| usage("there is no root".to_owned()))?.clone();
        let mut said = Vec::new();
        for role in STAGED {
            let Some(mut staged) = self.staged(role)? else { continue };
            let (mut keys, threshold) = keys_of(&newest, role);
            // The next root is the keys' of the present one, too.
            if let Some(present) = root.as_ref().filter(|_| role == ROOT) {
                keys.extend(keys_of(present, ROOT).0);
                keys.sort_by(|a, b| a.0.cmp(&b.0));
                keys.dedup_by(|a, b| a.0 == b.0);
            }
            // A device signs nothing of value before it is looked at.
            let signature = order.key.sign(PROBE)?;
            keys.retain(|(_, key)| tuf::verifies(key, PROBE, &signature));
            if keys.is_empty() {
                continue;
            }
            said.extend(if role == ROOT {
                self.changes_of_root(&staged)?
            } else {
                self.changes(&staged, &keys, order)?
            });
            staged.sign(order.key, &keys)?;
            self.stage(role, &staged)?;
            let (version, count) = (staged.version(), staged.count(&keys_of(&newest, role).0));
            let line = json!({
                "time": order.now, "key": order.name, "role": role, "version": version, "compared": order.own_copy.is_some(),
            });
            let record = self.dir.join("signatures.jsonl");
            let mut file = durable::open_to_write(&record, true)?;
            std::io::Write::write_all(&mut file, format!("{line}\n").as_bytes()).at("cannot write", &record)?;
            said.push(format!("{role} version {version}: signed, {count} of {threshold} signatures"));
        }
        if said.is_empty() {
            return Err(usage(format!("nothing that waits is to be signed with the key {}", order.name)));
        }
        Ok(said)
    }

    /// What a root changes, as lines. Errors: `tuf_invalid` for one that our verbs do not make.
    fn changes_of_root(&self, staged: &Envelope) -> Result<Vec<String>> {
        let present = self.root()?;
        let policy = self.policy()?;
        check_form(ROOT, staged, &["consistent_snapshot", "keys", "roles"], present.as_ref(), policy.root)?;
        let roles = staged.signed.get("roles").and_then(Value::as_object);
        let has_roles =
            roles.is_some_and(|roles| roles.len() == ORDER.len() && ORDER.iter().all(|role| roles.contains_key(*role)));
        if !has_roles || staged.signed.get("consistent_snapshot") != Some(&json!(true)) {
            return Err(strange(ROOT, "it has other roles, or no consistent snapshots"));
        }
        let mut said = vec![format!("root ends {}", word(staged.signed.get("expires").unwrap_or(&Value::Null)))];
        for role in ORDER {
            let (keys, threshold) = keys_of(staged, role);
            let before = present.as_ref().map(|present| keys_of(present, role));
            let is_same = before.as_ref().is_some_and(|(known, needed)| *known == keys && *needed == threshold);
            let ids: Vec<&str> = keys.iter().map(|(id, _)| id.get(..8).unwrap_or(id)).collect();
            let word = if is_same { "as before" } else { "NEW" };
            said.push(format!("{role}: {threshold} of {} ({word})", ids.join(", ")));
        }
        Ok(said)
    }

    /// What targets change, as lines, after each archive that `own` has not signed before was compared with the signer's copy.
    ///
    /// Errors: `tuf_mismatch`; `tuf_invalid` for what our verbs do not make.
    fn changes(&self, staged: &Envelope, own: &[(String, Value)], order: &SignOrder<'_>) -> Result<Vec<String>> {
        let present = self.present()?.map(|[targets, ..]| targets);
        check_form(TARGETS, staged, &["targets"], present.as_ref(), self.policy()?.targets)?;
        for (name, meant) in staged.object("targets") {
            let fields = meant.as_object().map(|meant| meant.keys().map(String::as_str).collect::<Vec<_>>());
            let is_file = fields.is_some_and(|fields| fields == ["length", "hashes"])
                && meant["hashes"].as_object().is_some_and(|hashes| hashes.len() == 1 && hashes.contains_key("sha256"));
            if !is_plain(name) || !is_file {
                return Err(strange(TARGETS, &format!("{name:?} is no archive as `tuf add` names it")));
            }
        }
        // What is published counts as known only by the signer's own word: the directory is others', too.
        let signed = present.as_ref().filter(|present| present.count(own) > 0);
        let known = |name: &str| signed.and_then(|signed| signed.signed.get("targets")?.get(name));
        let new: Vec<_> = staged.object("targets").filter(|(name, meant)| known(name) != Some(*meant)).collect();
        self.compare(&new, order)?;
        let mut said = vec![format!("targets end {}", word(staged.signed.get("expires").unwrap_or(&Value::Null)))];
        said.extend(
            new.iter().map(|(name, meant)| format!("new: {name}, SHA-256 {}", word(&meant["hashes"]["sha256"]))),
        );
        let still = staged.signed.get("targets");
        let removed = present.iter().flat_map(|present| present.object("targets"));
        let removed = removed.filter(|(name, _)| still.and_then(|still| still.get(name.as_str())).is_none());
        said.extend(removed.map(|(name, _)| format!("removed: {name}")));
        Ok(said)
    }

    /// Whether the signer's own copy of what is new is what is named.
    fn compare(&self, new: &[(&String, &Value)], order: &SignOrder<'_>) -> Result<()> {
        let copy = match order.own_copy {
            Some(copy) => copy,
            None if order.unchecked || new.is_empty() => return Ok(()),
            None => {
                let noun = if new.len() == 1 { "archive is" } else { "archives are" };
                let what = format!(
                    "{} {noun} to be compared with your own copy, which this key has not signed before",
                    new.len()
                );
                return Err(usage(what).advise("give its directory with --check, or --unchecked"));
            }
        };
        let mut wrong = Vec::new();
        for (name, meant) in new {
            match measured(&copy.join(name)) {
                Ok(own) if own == **meant => {}
                Ok(own) => wrong.push(format!("{name} has SHA-256 {} there", word(&own["hashes"]["sha256"]))),
                Err(_) => wrong.push(format!("{name} is not there")),
            }
        }
        if wrong.is_empty() {
            return Ok(());
        }
        let what = format!("not signed: in {} {}", copy.display(), wrong.join(", "));
        Err(Error::new(Code::TufMismatch, what)
            .advise("get your own copy of each archive, another way; if it stays so, somebody exchanged one"))
    }

    /// Publishes what has its signatures, with a new snapshot and timestamp of the online key. Returns what was published.
    ///
    /// Errors: `usage` where nothing waits; `tuf_invalid` where a host would refuse it, as for want of signatures.
    pub fn commit(&self, online: &SigningKey, now: Timestamp) -> Result<Vec<String>> {
        let (root, mut targets) = (self.staged(ROOT)?, self.staged(TARGETS)?);
        if root.is_none() && targets.is_none() {
            return Err(usage(
                "nothing waits to be published: run `tuf add`, `tuf rotate` or `tuf refresh`".to_owned(),
            ));
        }
        let present = self.root()?;
        let newest = root.as_ref().or(present.as_ref()).ok_or_else(|| usage("there is no root".to_owned()))?;
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
            let published = self.present()?.map(|[targets, ..]| targets);
            let (keys, threshold) = keys_of(newest, TARGETS);
            if root.is_none() || published.is_none_or(|published| published.count(&keys) < threshold) {
                return Err(lacking);
            }
            said.push(format!("targets version {} wait for their signatures", staged.version()));
            targets = None;
        }
        let mut new = BTreeMap::new();
        new.extend(root.map(|root| (ROOT, root)));
        new.extend(targets.map(|targets| (TARGETS, targets)));
        self.renew(&mut new, online, true, 0, now)?;
        said.extend(new.iter().map(|(role, envelope)| format!("published {role} version {}", envelope.version())));
        self.publish(&new, now)?;
        let staged = new.keys().filter(|role| STAGED.contains(role));
        staged.into_iter().try_for_each(|role| durable::remove(&self.dir.join(format!("staged/{role}.json"))))?;
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

    /// Gives timestamp and snapshot a new end where half of their time is over. `above`: their versions begin above this one.
    ///
    /// Errors: `tuf_rollback` where the directory went back; `tuf_invalid` where a host would refuse what comes of it.
    pub fn refresh(&self, online: &SigningKey, above: u64, now: Timestamp) -> Result<Refreshed> {
        let Some([_, snapshot, timestamp]) = self.present()? else {
            return Err(usage("nothing is published yet: run `tuf commit`".to_owned()));
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
        let mut new = BTreeMap::new();
        // Also where it is early: a key that is no longer the root's is told now, and not when it is urgent.
        self.renew(&mut new, online, is_snapshot_old || above > 0, above, now)?;
        let version = new.get(TIMESTAMP).map(Envelope::version).unwrap_or_default();
        // The record is ahead of what is published where a run was cut short between them.
        let is_behind = self.highest()?.get(TIMESTAMP).is_some_and(|highest| *highest > timestamp.version());
        if !is_snapshot_old && !is_old(&timestamp, policy.timestamp) && above < timestamp.version() && !is_behind {
            return Ok(Refreshed::NotYet);
        }
        self.publish(&new, now)?;
        Ok(Refreshed::Renewed(version))
    }

    /// Adds the next timestamp, and with `snapshot` the next snapshot, to what is new.
    fn renew(
        &self,
        new: &mut BTreeMap<&str, Envelope>,
        online: &SigningKey,
        snapshot: bool,
        above: u64,
        now: Timestamp,
    ) -> Result<()> {
        let (policy, present, root) = (self.policy()?, self.present()?, self.root()?);
        let root = new.get(ROOT).or(root.as_ref()).cloned().ok_or_else(|| usage("there is no root".to_owned()))?;
        let (targets, known_snapshot, known_timestamp) = match &present {
            Some([targets, snapshot, timestamp]) => (Some(targets), Some(snapshot), Some(timestamp)),
            None => (None, None, None),
        };
        let highest = self.highest()?;
        let next = |role: &str, known: Option<&Envelope>| {
            let recorded = highest.get(role).copied().unwrap_or_default();
            next_version(known.map_or(0, Envelope::version).max(recorded).max(above))
        };
        let named = |envelope: &Envelope| {
            let bytes = envelope.bytes();
            json!({ "version": envelope.version(), "length": bytes.len(), "hashes": { "sha256": Digest::of(&bytes).to_string() } })
        };
        let new_targets = new.get(TARGETS).cloned();
        let mut signed = |role: &'static str, mut envelope: Envelope| -> Result<Envelope> {
            let (keys, threshold) = keys_of(&root, role);
            if (envelope.sign(online, &keys)? as u64) < threshold {
                return Err(usage(format!("the online key is not the one of {role}")));
            }
            new.insert(role, envelope.clone());
            Ok(envelope)
        };
        let snapshot = match known_snapshot.filter(|_| !snapshot) {
            Some(known) => known.clone(),
            None => {
                let targets = new_targets.as_ref().or(targets);
                let targets = targets.ok_or_else(|| usage("there are no targets".to_owned()))?;
                let meta = json!({ "targets.json": named(targets) });
                let (version, end) = (next(SNAPSHOT, known_snapshot)?, end(now, policy.snapshot));
                signed(SNAPSHOT, Envelope::new(SNAPSHOT, version, end, &[("meta", meta)]))?
            }
        };
        let meta = json!({ "snapshot.json": named(&snapshot) });
        let (version, end) = (next(TIMESTAMP, known_timestamp)?, end(now, policy.timestamp));
        signed(TIMESTAMP, Envelope::new(TIMESTAMP, version, end, &[("meta", meta)])).map(drop)
    }

    /// Errors: `tuf_rollback` where root or targets are below what was published. Snapshot and timestamp go on above it by themselves.
    fn check_highest(&self) -> Result<()> {
        let highest = self.highest()?;
        let targets = self.present()?.map(|[targets, ..]| targets);
        for (role, is) in [(ROOT, self.root()?), (TARGETS, targets)] {
            let (was, is) = (highest.get(role).copied().unwrap_or_default(), is.map_or(0, |is| is.version()));
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
    fn publish(&self, new: &BTreeMap<&str, Envelope>, now: Timestamp) -> Result<()> {
        let metadata = self.metadata();
        self.check_highest()?;
        // A host with the first root takes every later one.
        let first = match (read(&metadata, "1.root.json")?, new.get(ROOT)) {
            (Some(first), _) => first,
            (None, Some(root)) => root.bytes(),
            (None, None) => return Err(usage("there is no root".to_owned())),
        };
        let mut host = Published::in_dir(&metadata, first);
        host.new = new.iter().map(|(role, new)| (file_name(role, new.version()), new.bytes())).collect();
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
        for role in ORDER {
            let Some(envelope) = new.get(role) else { continue };
            // Before the timestamp: of what hosts have seen it is known here, whatever comes.
            if role == TIMESTAMP {
                durable::write(&self.dir.join("published.json"), &record, MODE)?;
            }
            durable::write(&metadata.join(file_name(role, envelope.version())), &envelope.bytes(), MODE)?;
        }
        Ok(())
    }

    /// A next root that waits for its signatures: with other keys for the roles that `keys` names, and a new end.
    ///
    /// Errors: `usage`, as [`SiteRepository::init`].
    pub fn rotate(&self, keys: &Founders, now: Timestamp) -> Result<Vec<String>> {
        let present = self.root()?.ok_or_else(|| usage("nothing is published yet: run `tuf commit`".to_owned()))?;
        // One that waits already is gone on with.
        let waiting = self.staged(ROOT)?;
        let mut next = waiting.as_ref().unwrap_or(&present).clone();
        next.signed["version"] = json!(next_version(present.version())?);
        next.signed["expires"] = json!(crate::metadata::time(end(now, self.policy()?.root)));
        next.signatures.clear();
        set_keys(&mut next, keys)?;
        self.stage(ROOT, &next)?;
        let (_, now_needed) = keys_of(&present, ROOT);
        let (_, next_needed) = keys_of(&next, ROOT);
        let mut said = vec![format!(
            "root version {} waits for {now_needed} signatures of present root keys and {next_needed} of its own",
            next.version()
        )];
        // What targets' keys signed before does not count for others.
        if keys_of(&next, TARGETS) != keys_of(&present, TARGETS) {
            said.extend(self.add(&[], &[], now)?);
        }
        Ok(said)
    }
}

/// Gives `root` the keys that `keys` names; roles that it does not name keep theirs.
fn set_keys(root: &mut Envelope, keys: &Founders) -> Result<()> {
    let online: Vec<PathBuf> = keys.online.iter().cloned().collect();
    let given = [
        (ROOT, &keys.root, keys.root_threshold),
        (TARGETS, &keys.targets, keys.targets_threshold),
        (SNAPSHOT, &online, Some(1)),
        (TIMESTAMP, &online, Some(1)),
    ];
    let is_new = root.signed.get("roles").is_none();
    let mut roles: Map<String, Value> =
        root.signed.get("roles").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut known: Map<String, Value> = root.signed.get("keys").and_then(Value::as_object).cloned().unwrap_or_default();
    for (role, files, threshold) in given {
        if files.is_empty() && is_new {
            return Err(usage(format!("no key for {role} is given")));
        }
        let (present, present_threshold) = keys_of(root, role);
        let threshold = threshold.unwrap_or(if is_new { 2 } else { present_threshold });
        let mut ids: Vec<String> = Vec::new();
        if files.is_empty() {
            ids.extend(present.into_iter().map(|(id, _)| id));
        }
        for file in files {
            let key = keys::public_key(file)?;
            ids.push(keys::id(&key));
            known.insert(keys::id(&key), key);
        }
        ids.sort_unstable();
        ids.dedup();
        if !files.is_empty() && ids.len() < files.len() {
            return Err(usage(format!("a key for {role} is given twice")));
        }
        if threshold == 0 || threshold > ids.len() as u64 {
            let what = format!("{role} has {} keys: {threshold} signatures cannot be asked for", ids.len());
            return Err(usage(what));
        }
        if role == ROOT && threshold == ids.len() as u64 && !keys.no_spare {
            let what = format!("all {} root keys must sign: one that is lost would end the repository", ids.len());
            return Err(usage(what).advise("give one key more, or --no-spare"));
        }
        roles.insert(role.to_owned(), json!({ "keyids": ids, "threshold": threshold }));
    }
    let ids = |role: &str| {
        let ids = roles.get(role).and_then(|role| role.get("keyids")).and_then(Value::as_array);
        ids.into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>()
    };
    let clash = |one: &str, other: &str| ids(one).iter().any(|id| ids(other).contains(id));
    for (one, other) in [(ROOT, TARGETS), (ROOT, TIMESTAMP), (TARGETS, TIMESTAMP)] {
        if clash(one, other) {
            return Err(usage(format!("a key is given for both {one} and {other}: who has it alone would be two")));
        }
    }
    let used: Vec<String> = ORDER.iter().flat_map(|role| ids(role)).map(str::to_owned).collect();
    known.retain(|id, _| used.contains(id));
    root.signed["keys"] = Value::Object(known);
    root.signed["roles"] = Value::Object(roles);
    Ok(())
}

/// Errors: `usage` where the online roles could end between two renewals.
fn check_policy(policy: &Policy) -> Result<()> {
    let all = [policy.root, policy.targets, policy.snapshot, policy.timestamp];
    if all.iter().any(|seconds| *seconds > MAX_PERIOD) {
        return Err(usage(format!("no role may be good for more than {} days", MAX_PERIOD / 86_400)));
    }
    for (role, seconds) in [(SNAPSHOT, policy.snapshot), (TIMESTAMP, policy.timestamp)] {
        if seconds < policy.refresh.saturating_mul(u64::from(PERIODS)) {
            let what =
                format!("the {role} is good for {seconds} s, less than {PERIODS} periods of {} s", policy.refresh);
            return Err(usage(what).advise("give it longer, or refresh more often"));
        }
    }
    Ok(())
}

/// Errors: `tuf_invalid` for a file with more than our verbs write, another version than the next, or a later end than they give.
fn check_form(role: &str, staged: &Envelope, fields: &[&str], present: Option<&Envelope>, period: u64) -> Result<()> {
    let is_of_role = staged.signed.get("_type").and_then(Value::as_str) == Some(role);
    if !is_of_role || !staged.has_only(fields) || !fields.iter().all(|name| staged.signed.get(*name).is_some()) {
        return Err(strange(role, &format!("it has other fields than {}", fields.join(", "))));
    }
    let next = next_version(present.map_or(0, Envelope::version))?;
    if staged.version() != next {
        return Err(strange(role, &format!("it has version {}, and {next} is the next one", staged.version())));
    }
    let latest = end(Timestamp::now(), period);
    if staged.expires().is_none_or(|end| end > latest) {
        return Err(strange(role, "its end is none, or later than policy.json says"));
    }
    Ok(())
}

/// A refusal of what somebody must have written by hand.
fn strange(role: &str, what: &str) -> Error {
    Error::new(Code::TufInvalid, format!("staged/{role}.json is not as teleport-fleet makes it: {what}"))
        .advise("look who changed it; then remove it, and begin anew with `tuf add` or `tuf rotate`")
}

/// Errors: `usage` where there is no next version.
fn next_version(version: u64) -> Result<u64> {
    let next = version.checked_add(1).filter(|next| *next <= MAX_VERSION);
    next.ok_or_else(|| usage(format!("version {version} is the last one: a new repository must be made")))
}

/// Whether an archive can have the name: hosts ask for it in one place.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}

fn end(now: Timestamp, seconds: u64) -> Timestamp {
    let long = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
    now.saturating_add(long).unwrap_or(Timestamp::MAX)
}

/// What targets say of a file. Errors: those of reading.
fn measured(file: &Path) -> Result<Value> {
    let missing = || usage(format!("{} is not there", file.display()));
    let (length, digest) = durable::digest(file)?.ok_or_else(missing)?;
    Ok(json!({ "length": length, "hashes": { "sha256": digest.to_string() } }))
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn usage(what: String) -> Error {
    Error::new(Code::Usage, what)
}
