//! The repository: what is published in `metadata/`, what waits for signatures in `staged/`, the periods in `policy.json`.
//!
//! Everything that is published has been looked at before as a host would: what a host would refuse is refused here. A file is whole
//! or absent, and the timestamp, which makes all others count, comes last.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use error::{Code, Error, IoContext, Result, read_limited};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use tuf::{ROOT, Repository, SNAPSHOT, TARGETS, TIMESTAMP};

use crate::durable;
use crate::keys::{self, SigningKey};
use crate::metadata::{Envelope, ORDER, Published, file_name, keys_of};

/// What waits for signatures.
const STAGED: [&str; 2] = [ROOT, TARGETS];
/// A period stands so often in the time that it renews: a weekend without the server must not end it (go-tuf, RSTUF and others met
/// this).
const PERIODS: u32 = 4;
/// Most bytes of the small files here.
const MAX_SMALL: u64 = 64 << 10;
/// Most new versions of the root that are looked for.
const MAX_ROOTS: u64 = 10_000;
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
        let lock = File::open(dir).at("cannot open", dir)?;
        lock.try_lock().map_err(|_| {
            let what = format!("another command works on the repository {}", dir.display());
            Error::new(Code::LockHeld, what).advise("try again when it is done")
        })?;
        Ok(Self { dir: dir.to_owned(), _lock: lock })
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
    pub fn metadata(&self) -> PathBuf {
        self.dir.join("metadata")
    }

    fn policy(&self) -> Result<Policy> {
        let path = self.dir.join("policy.json");
        let bytes = read_limited(&path, MAX_SMALL)?.unwrap_or_default();
        serde_json::from_slice(&bytes).map_err(|error| usage(format!("{}: {error}", path.display())))
    }

    fn highest(&self) -> Result<Highest> {
        let bytes = read_limited(&self.dir.join("published.json"), MAX_SMALL)?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default())
    }

    fn staged(&self, role: &str) -> Result<Option<Envelope>> {
        let bytes = Published::read(&self.dir.join("staged"), &format!("{role}.json"))?;
        bytes.map(|bytes| Envelope::parse(role, &bytes)).transpose()
    }

    fn stage(&self, role: &str, envelope: &Envelope) -> Result<()> {
        durable::write(&self.dir.join(format!("staged/{role}.json")), &envelope.bytes(), MODE)
    }

    fn published(&self, role: &str, version: u64) -> Result<Option<Envelope>> {
        let bytes = Published::read(&self.metadata(), &file_name(role, version))?;
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
                let version = targets.version() + 1;
                let mut next = targets;
                next.signed["version"] = json!(version);
                next
            }
            (None, None) => return Err(usage("the repository has no targets: run `tuf init` anew".to_owned())),
        };
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
            let name = file.file_name().and_then(|name| name.to_str()).filter(|name| !name.contains('\\'));
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

    /// Signs what waits and is this key's. Of targets, each that is new is compared with the signer's own copy. Returns what was signed.
    ///
    /// Errors: `tuf_mismatch`, naming each that differs or lacks; `usage` where nothing of it is the key's.
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
            if staged.sign(order.key, &keys)? == 0 {
                continue;
            }
            if role == TARGETS {
                self.compare(&staged, order)?;
            }
            self.stage(role, &staged)?;
            let (version, count) = (staged.version(), staged.count(&keys_of(&newest, role).0));
            let line = json!({
                "time": order.now, "key": order.name, "role": role, "version": version, "compared": order.own_copy.is_some(),
            });
            durable::append(&self.dir.join("signatures.jsonl"), &format!("{line}\n"))?;
            said.push(format!("{role} version {version}: signed, {count} of {threshold} signatures"));
        }
        if said.is_empty() {
            return Err(usage(format!("nothing that waits is to be signed with the key {}", order.name)));
        }
        Ok(said)
    }

    /// Whether the signer's own copy of what is new is what `targets` name.
    fn compare(&self, targets: &Envelope, order: &SignOrder<'_>) -> Result<()> {
        let known: Map<String, Value> = match self.present()? {
            Some([known, ..]) => known.object("targets").map(|(name, meant)| (name.clone(), meant.clone())).collect(),
            None => Map::new(),
        };
        let mut wrong = Vec::new();
        let is_new = |(name, meant): &(&String, &Value)| known.get(*name) != Some(*meant);
        let new: Vec<_> = targets.object("targets").filter(is_new).collect();
        let copy = match order.own_copy {
            Some(copy) => copy,
            None if order.unchecked || new.is_empty() => return Ok(()),
            None => {
                let noun = if new.len() == 1 { "target is" } else { "targets are" };
                let what = format!("{} new {noun} to be compared with your own copy", new.len());
                return Err(usage(what).advise("give its directory with --check, or --unchecked"));
            }
        };
        for (name, meant) in new {
            let own = copy.join(name);
            match measured(&own) {
                Ok(own) if own["length"] == meant["length"] && own["hashes"] == meant["hashes"] => {}
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
        let (root, targets) = (self.staged(ROOT)?, self.staged(TARGETS)?);
        if root.is_none() && targets.is_none() {
            return Err(usage(
                "nothing waits to be published: run `tuf add`, `tuf rotate` or `tuf refresh`".to_owned(),
            ));
        }
        let present = self.root()?;
        let newest = root.as_ref().or(present.as_ref()).ok_or_else(|| usage("there is no root".to_owned()))?;
        let of_root = root.iter().flat_map(|root| present.iter().chain([root]).map(move |by| (ROOT, root, by)));
        for (role, staged, by) in of_root.chain(targets.iter().map(|targets| (TARGETS, targets, newest))) {
            let (keys, threshold) = keys_of(by, role);
            let count = staged.count(&keys);
            if count < threshold {
                let version = staged.version();
                let what = format!("{role} version {version} has {count} of the {threshold} signatures that it needs");
                let by = if by.version() < newest.version() { ", of the present root keys" } else { "" };
                let advice = format!("have it signed{by}: `teleport-fleet tuf sign {} --key KEY`", self.dir.display());
                return Err(Error::new(Code::TufInvalid, what).advise(advice));
            }
        }
        let mut new = BTreeMap::new();
        new.extend(root.map(|root| (ROOT, root)));
        new.extend(targets.map(|targets| (TARGETS, targets)));
        self.renew(&mut new, online, true, 0, now)?;
        let said = new.iter().map(|(role, envelope)| format!("{role} version {}", envelope.version())).collect();
        self.publish(&new, now)?;
        STAGED.iter().try_for_each(|role| durable::remove(&self.dir.join(format!("staged/{role}.json"))))?;
        Ok(said)
    }

    /// Gives timestamp and snapshot a new end where half of their time is over. `above`: their versions begin above this one.
    ///
    /// Errors: `tuf_rollback` where the directory went back; `tuf_invalid` where a host would refuse what comes of it.
    pub fn refresh(&self, online: &SigningKey, above: u64, now: Timestamp) -> Result<Refreshed> {
        let Some([_, snapshot, timestamp]) = self.present()? else {
            return Err(usage("nothing is published yet: run `tuf commit`".to_owned()));
        };
        let policy = self.policy()?;
        let is_old = |envelope: &Envelope, seconds: u64| {
            let half = SignedDuration::from_secs(i64::try_from(seconds / 2).unwrap_or(i64::MAX));
            envelope.expires().is_none_or(|end| end.duration_since(now) <= half)
        };
        let is_snapshot_old = is_old(&snapshot, policy.snapshot);
        if !is_snapshot_old && !is_old(&timestamp, policy.timestamp) && above < timestamp.version() {
            self.check_highest(&Highest::new())?;
            return Ok(Refreshed::NotYet);
        }
        let mut new = BTreeMap::new();
        self.renew(&mut new, online, is_snapshot_old || above > 0, above, now)?;
        let version = new.get(TIMESTAMP).map(Envelope::version).unwrap_or_default();
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
        let next = |known: Option<&Envelope>| known.map_or(0, Envelope::version).max(above) + 1;
        let named = |envelope: &Envelope| {
            let bytes = envelope.bytes();
            json!({ "version": envelope.version(), "length": bytes.len(), "hashes": { "sha256": sha256(&bytes) } })
        };
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
                let staged = self.staged(TARGETS)?;
                let targets = staged.as_ref().or(targets);
                let targets = targets.ok_or_else(|| usage("there are no targets".to_owned()))?;
                let meta = json!({ "targets.json": named(targets) });
                let (version, end) = (next(known_snapshot), end(now, policy.snapshot));
                signed(SNAPSHOT, Envelope::new(SNAPSHOT, version, end, &[("meta", meta)]))?
            }
        };
        let meta = json!({ "snapshot.json": named(&snapshot) });
        let (version, end) = (next(known_timestamp), end(now, policy.timestamp));
        signed(TIMESTAMP, Envelope::new(TIMESTAMP, version, end, &[("meta", meta)])).map(drop)
    }

    /// Errors: `tuf_rollback` where the directory, with what is `new`, is below what was published.
    fn check_highest(&self, new: &Highest) -> Result<Highest> {
        let mut highest = self.highest()?;
        let present = self.present()?;
        let published = present.iter().flatten().zip([TARGETS, SNAPSHOT, TIMESTAMP]);
        let mut now: Highest = published.map(|(envelope, role)| (role.to_owned(), envelope.version())).collect();
        now.extend(self.root()?.map(|root| (ROOT.to_owned(), root.version())));
        now.extend(new.clone());
        for (role, was) in &highest {
            let is = now.get(role).copied().unwrap_or_default();
            if is < *was {
                let what =
                    format!("{role} version {was} was published before, and here it is {is}: hosts would refuse it");
                return Err(Error::new(Code::TufRollback, what).advise(format!(
                    "put the newer directory back; if it is lost, `tuf refresh --above {was}`, and have targets and root \
                     signed again until they are higher"
                )));
            }
        }
        highest.extend(now);
        Ok(highest)
    }

    /// Looks at what is new as a host would, and writes it in the order in which hosts may see it.
    fn publish(&self, new: &BTreeMap<&str, Envelope>, now: Timestamp) -> Result<()> {
        let metadata = self.metadata();
        let versions = new.iter().map(|(role, envelope)| ((*role).to_owned(), envelope.version())).collect();
        let highest = self.check_highest(&versions)?;
        // A host with the first root takes every later one.
        let first = match (Published::read(&metadata, "1.root.json")?, new.get(ROOT)) {
            (Some(first), _) => first,
            (None, Some(root)) => root.bytes(),
            (None, None) => return Err(usage("there is no root".to_owned())),
        };
        let mut host = Published::seen_by(&metadata, first);
        host.new = new.iter().map(|(role, new)| (file_name(role, new.version()), new.bytes())).collect();
        Repository::refresh(&mut host, now).map_err(|error| error.during("not published: a host would refuse it"))?;
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
        let mut next = present.clone();
        next.signed["version"] = json!(present.version() + 1);
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
        if keys_of(&next, TARGETS).0 != keys_of(&present, TARGETS).0 {
            said.extend(self.add(&[], &[], now)?);
        }
        Ok(said)
    }
}

/// Gives `root` the keys that `keys` names; roles that it does not name keep theirs.
fn set_keys(root: &mut Envelope, keys: &Founders) -> Result<()> {
    let online: Vec<PathBuf> = keys.online.iter().cloned().collect();
    let given = [
        (ROOT, &keys.root, keys.root_threshold.unwrap_or(2)),
        (TARGETS, &keys.targets, keys.targets_threshold.unwrap_or(2)),
        (SNAPSHOT, &online, 1),
        (TIMESTAMP, &online, 1),
    ];
    let is_new = root.signed.get("roles").is_none();
    let mut roles: Map<String, Value> =
        root.signed.get("roles").and_then(Value::as_object).cloned().unwrap_or_default();
    let mut known: Map<String, Value> = root.signed.get("keys").and_then(Value::as_object).cloned().unwrap_or_default();
    for (role, files, threshold) in given {
        if files.is_empty() {
            if is_new {
                return Err(usage(format!("no key for {role} is given")));
            }
            continue;
        }
        let mut ids = Vec::new();
        for file in files {
            let key = keys::public_key(file)?;
            ids.push(keys::id(&key));
            known.insert(keys::id(&key), key);
        }
        ids.sort_unstable();
        ids.dedup();
        if ids.len() < files.len() {
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
    for (role, seconds) in [(SNAPSHOT, policy.snapshot), (TIMESTAMP, policy.timestamp)] {
        if seconds < policy.refresh.saturating_mul(u64::from(PERIODS)) {
            let what =
                format!("the {role} is good for {seconds} s, less than {PERIODS} periods of {} s", policy.refresh);
            return Err(usage(what).advise("give it longer, or refresh more often"));
        }
    }
    Ok(())
}

fn end(now: Timestamp, seconds: u64) -> Timestamp {
    let long = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
    now.saturating_add(long).unwrap_or(Timestamp::MAX)
}

/// Length and digest of a file, read once. Errors: those of reading.
fn measured(file: &Path) -> Result<Value> {
    let mut hasher = Sha256::new();
    let mut opened = File::open(file).at("cannot read", file)?;
    let mut buffer = vec![0; 1 << 20];
    let mut length = 0_u64;
    loop {
        let count = std::io::Read::read(&mut opened, &mut buffer).at("cannot read", file)?;
        if count == 0 {
            break;
        }
        hasher.update(&buffer[..count]);
        length += count as u64;
    }
    let digest = base16ct::lower::encode_string(&hasher.finalize());
    Ok(json!({ "length": length, "hashes": { "sha256": digest } }))
}

fn sha256(bytes: &[u8]) -> String {
    base16ct::lower::encode_string(&Sha256::digest(bytes))
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn usage(what: String) -> Error {
    Error::new(Code::Usage, what)
}
