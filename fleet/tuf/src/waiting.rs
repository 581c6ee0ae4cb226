//! What waits for signatures: how it comes to wait, and what whoever signs it is shown. A signer believes nothing in the directory.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use error::{Code, Error, IoContext, Result};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use tuf::{ROLES, ROOT, TARGETS};

use crate::durable::{self, usage};
use crate::founders::Founders;
use crate::keys::SigningKey;
use crate::metadata::{Envelope, PublicKeys, end, keys_of, next_version, strange};
use crate::repository::{STAGED, SiteRepository};

/// What a key signs to show whose it is.
const PROBE: &[u8] = b"teleport-fleet: whose key is this?";
/// What each role has, beside its own.
const FIELDS: [&str; 4] = ["_type", "spec_version", "version", "expires"];

/// What a signature is given for.
#[derive(Debug, Clone, Args)]
pub struct SignOrder {
    /// Your key: a PEM file, or exec:COMMAND, which gets the bytes and prints the signature
    #[arg(long, value_name = "KEY")]
    pub key: String,
    /// Your own copy of the archives, had by another way than the first signer's
    #[arg(long, value_name = "DIR", conflicts_with = "unchecked")]
    pub check: Option<PathBuf>,
    /// Sign new targets without comparing them; it is recorded
    #[arg(long)]
    pub unchecked: bool,
}

impl SiteRepository {
    /// Names each of `files` by its own name in the targets that wait for signatures, and no longer those of `removed`. Without both
    /// it only gives them a new end. Returns what is said of each.
    ///
    /// Errors: `usage` for a name that is none; those of reading and writing.
    pub fn add(
        &self,
        files: &[PathBuf],
        removed: &[String],
        known: &KnownOfRelease,
        now: Timestamp,
    ) -> Result<Vec<String>> {
        let (version, until) = (next_version(self.version(TARGETS)?)?, end(now, self.policy()?.targets));
        let targets = self.staged(TARGETS)?.map_or_else(|| self.present(TARGETS), |staged| Ok(Some(staged)))?;
        let targets = targets.ok_or_else(|| usage("the repository has no targets: run `tuf init` anew"))?;
        let mut targets = targets.renewed(version, &until);
        let damaged = || usage("the targets are damaged: remove staged/targets.json");
        let named = targets.signed["targets"].as_object_mut().ok_or_else(damaged)?;
        let mut said = Vec::new();
        for file in files {
            let name = file.file_name().and_then(|name| name.to_str()).filter(|name| is_plain(name));
            let name = name.ok_or_else(|| usage(format!("{} has no name that hosts could ask for", file.display())))?;
            let mut meant = measured(file)?;
            known.add_to(&mut meant);
            said.push(format!("{name}: {} bytes, SHA-256 {}", meant["length"], sha256(&meant)));
            named.insert(name.to_owned(), meant);
        }
        for name in removed {
            named.shift_remove(name).ok_or_else(|| usage(format!("the targets name no {name}")))?;
            said.push(format!("{name}: removed"));
        }
        self.stage(TARGETS, &targets)?;
        said.push(format!("targets version {version} wait for their signatures"));
        Ok(said)
    }

    /// A next root that waits for its signatures: with other keys for the roles that `keys` names, and a new end.
    ///
    /// Errors: `usage`, as [`SiteRepository::init`].
    pub fn rotate(&self, keys: &Founders, now: Timestamp) -> Result<Vec<String>> {
        let present = self.present(ROOT)?.ok_or_else(|| usage("nothing is published yet: run `tuf commit`"))?;
        let version = next_version(present.version())?;
        // One that waits already is gone on with.
        let next = self.staged(ROOT)?.unwrap_or_else(|| present.clone());
        let mut next = next.renewed(version, &end(now, self.policy()?.root));
        keys.give(&mut next)?;
        self.stage(ROOT, &next)?;
        let [(_, now_needed), (_, next_needed)] = [&present, &next].map(|root| keys_of(root, ROOT));
        let mut said = vec![format!(
            "root version {version} waits for {now_needed} signatures of present root keys and {next_needed} of its own"
        )];
        // What targets' keys signed before does not count for others.
        if keys_of(&next, TARGETS) != keys_of(&present, TARGETS) {
            said.extend(self.add(&[], &[], &KnownOfRelease::default(), now)?);
        }
        Ok(said)
    }

    /// Signs what waits and is this key's. It is no more than our verbs make; of targets, each that this key has not signed before is
    /// compared with the signer's own copy. Returns what was signed, and what of it is new.
    ///
    /// Errors: `tuf_mismatch`, naming each that differs or lacks; `tuf_invalid` for what nobody should sign; `usage` where nothing of it
    /// is the key's.
    pub fn sign(&self, order: &SignOrder, now: Timestamp) -> Result<Vec<String>> {
        let key = SigningKey::read(&order.key)?;
        let root = self.present(ROOT)?;
        let newest = self.staged(ROOT)?.or_else(|| root.clone()).ok_or_else(|| usage("there is no root"))?;
        // A device signs nothing of value before it is looked at.
        let probe = key.sign(PROBE)?;
        let mut said = Vec::new();
        for role in STAGED {
            let Some(mut staged) = self.staged(role)? else { continue };
            let (all, threshold) = keys_of(&newest, role);
            // The next root is the keys' of the present one, too.
            let mut keys = all.clone();
            keys.extend(root.iter().filter(|_| role == ROOT).flat_map(|present| keys_of(present, ROOT).0));
            keys.retain(|_, key| tuf::verifies(key, PROBE, &probe));
            if keys.is_empty() {
                continue;
            }
            said.extend(match role {
                ROOT => self.changes_of_root(&staged, root.as_ref())?,
                _ => self.changes(&staged, &keys, order)?,
            });
            staged.sign(&key, &keys)?;
            self.stage(role, &staged)?;
            let (version, count, compared) = (staged.version(), staged.count(&all), order.check.is_some());
            let line = json!({ "time": now, "key": order.key, "role": role, "version": version, "compared": compared });
            let record = self.dir.join("signatures.jsonl");
            let mut file = durable::open_to_write(&record, true)?;
            file.write_all(format!("{line}\n").as_bytes()).at("cannot write", &record)?;
            said.push(format!("{role} version {version}: signed, {count} of {threshold} signatures"));
        }
        if said.is_empty() {
            return Err(usage(format!("nothing that waits is to be signed with the key {}", order.key)));
        }
        Ok(said)
    }

    /// What a root changes, as lines. Errors: `tuf_invalid` for one that our verbs do not make.
    fn changes_of_root(&self, staged: &Envelope, present: Option<&Envelope>) -> Result<Vec<String>> {
        check_form(ROOT, staged, &["consistent_snapshot", "keys", "roles"], present, self.policy()?.root)?;
        if !has_exactly(&staged.signed["roles"], &ROLES) || staged.signed["consistent_snapshot"] != true {
            return Err(strange(ROOT, "it has other roles, or no consistent snapshots"));
        }
        let mut said = vec![format!("root ends {}", word(&staged.signed["expires"]))];
        for role in ROLES {
            let (keys, threshold) = keys_of(staged, role);
            let is_same = present.is_some_and(|present| keys_of(present, role) == (keys.clone(), threshold));
            let ids: Vec<&str> = keys.keys().map(|id| id.get(..8).unwrap_or(id)).collect();
            let word = if is_same { "as before" } else { "NEW" };
            said.push(format!("{role}: {threshold} of {} ({word})", ids.join(", ")));
        }
        Ok(said)
    }

    /// What targets change, as lines, after each archive that `own` has not signed before was compared with the signer's copy.
    ///
    /// Errors: `tuf_mismatch`; `tuf_invalid` for what our verbs do not make.
    fn changes(&self, staged: &Envelope, own: &PublicKeys, order: &SignOrder) -> Result<Vec<String>> {
        let present = self.present(TARGETS)?;
        check_form(TARGETS, staged, &["targets"], present.as_ref(), self.policy()?.targets)?;
        for (name, meant) in staged.targets() {
            let (bare, _) = apart(meant);
            let is_ours = has_exactly(&bare, &["length", "hashes"]) && has_exactly(&bare["hashes"], &["sha256"]);
            if !is_plain(name) || !is_ours || !KnownOfRelease::is_ours(meant) {
                return Err(strange(TARGETS, &format!("{name:?} is no archive as `tuf add` names it")));
            }
        }
        // What is published counts as known only by the signer's own word: the directory is others', too.
        let signed = present.as_ref().filter(|present| present.count(own) > 0);
        let known = |name: &str| signed.and_then(|signed| signed.signed["targets"].get(name));
        let new: Vec<_> = staged.targets().filter(|(name, meant)| known(name) != Some(*meant)).collect();
        compare(&new, order)?;
        let mut said = vec![format!("targets end {}", word(&staged.signed["expires"]))];
        said.extend(new.iter().map(|(name, meant)| {
            let known = apart(meant).1.map(|known| format!(", {known}")).unwrap_or_default();
            format!("new: {name}, SHA-256 {}{known}", sha256(meant))
        }));
        let gone = present.iter().flat_map(Envelope::targets);
        let gone = gone.filter(|(name, _)| staged.signed["targets"].get(name.as_str()).is_none());
        said.extend(gone.map(|(name, _)| format!("removed: {name}")));
        Ok(said)
    }
}

/// Errors: `tuf_mismatch` where the signer's own copy of what is new is not what is named.
fn compare(new: &[(&String, &Value)], order: &SignOrder) -> Result<()> {
    let Some(copy) = &order.check else {
        if order.unchecked || new.is_empty() {
            return Ok(());
        }
        let noun = if new.len() == 1 { "archive is" } else { "archives are" };
        let what =
            format!("{} {noun} to be compared with your own copy, which this key has not signed before", new.len());
        return Err(usage(what).advise("give its directory with --check, or --unchecked"));
    };
    let differs = |(name, meant): &(&String, &Value)| match measured(&copy.join(name)) {
        Ok(own) => (own != apart(meant).0).then(|| format!("{name} has SHA-256 {} there", sha256(&own))),
        Err(_) => Some(format!("{name} is not there")),
    };
    let wrong: Vec<String> = new.iter().filter_map(differs).collect();
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Error::new(Code::TufMismatch, format!("not signed: in {} {}", copy.display(), wrong.join(", ")))
        .advise("get your own copy of each archive, another way; if it stays so, somebody exchanged one"))
}

/// Errors: `tuf_invalid` for a file with more than our verbs write, another version than the next, or a later end than they give.
fn check_form(role: &str, staged: &Envelope, fields: &[&str], present: Option<&Envelope>, period: u64) -> Result<()> {
    if !has_exactly(&staged.signed, &[&FIELDS, fields].concat()) || staged.signed["_type"] != role {
        return Err(strange(role, &format!("it has other fields than {}", fields.join(", "))));
    }
    let next = next_version(present.map_or(0, Envelope::version))?;
    if staged.version() != next {
        return Err(strange(role, &format!("it has version {}, and {next} is the next one", staged.version())));
    }
    let latest = end(Timestamp::now(), period).parse::<Timestamp>().unwrap_or_default();
    if staged.expires().is_none_or(|end| end > latest) {
        return Err(strange(role, "its end is none, or later than policy.json says"));
    }
    Ok(())
}

/// Whether it is an object with these fields, and no others.
fn has_exactly(value: &Value, names: &[&str]) -> bool {
    let has_all = |fields: &Map<String, Value>| names.iter().all(|name| fields.contains_key(*name));
    value.as_object().is_some_and(|fields| fields.len() == names.len() && has_all(fields))
}

/// Whether an archive can have the name: hosts ask for it in one place.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('.') && !name.contains(['/', '\\', '\0'])
}

/// What the signers know of a release beside its archives (`custom.teleport`, DIRECTIVES §5.4): people are warned by it.
#[derive(Debug, Clone, Default, Args)]
pub struct KnownOfRelease {
    /// They have a security patch: what it is about
    #[arg(long, value_name = "TEXT")]
    pub security: Option<String>,
    /// Their major is past its end of life
    #[arg(long)]
    pub eol: bool,
}

impl KnownOfRelease {
    fn add_to(&self, meant: &mut Value) {
        let mut known = Map::new();
        known.extend(self.security.as_ref().map(|text| ("security".to_owned(), json!(text))));
        known.extend(self.eol.then(|| ("eol".to_owned(), json!(true))));
        if !known.is_empty() {
            meant["custom"] = json!({ "teleport": known });
        }
    }

    /// Whether what stands beside a file's length and digests is nothing, or what [`KnownOfRelease::add_to`] writes.
    fn is_ours(meant: &Value) -> bool {
        let Some(custom) = meant.get("custom") else { return true };
        let security = custom["teleport"]["security"].as_str().map(str::to_owned);
        let mut again = json!({});
        Self { security, eol: custom["teleport"]["eol"] == true }.add_to(&mut again);
        again["custom"] == *custom
    }
}

/// Length and digests of a file, and what else is said of it.
fn apart(meant: &Value) -> (Value, Option<Value>) {
    let mut bare = meant.clone();
    let known = bare.as_object_mut().and_then(|fields| fields.shift_remove("custom"));
    (bare, known)
}

/// What targets say of a file. Errors: those of reading.
fn measured(file: &Path) -> Result<Value> {
    let missing = || usage(format!("{} is not there", file.display()));
    let (length, digest) = durable::digest(file)?.ok_or_else(missing)?;
    Ok(json!({ "length": length, "hashes": { "sha256": digest.to_string() } }))
}

fn sha256(meant: &Value) -> &str {
    word(&meant["hashes"]["sha256"])
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
