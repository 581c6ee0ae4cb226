//! Metadata as it is made: what is signed, and its signatures.

use std::collections::BTreeMap;
use std::path::Path;

use error::{Code, Error, Result};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::durable::{self, usage};
use crate::keys::SigningKey;

/// Which specification this is.
const SPEC: &str = "1.0.34";
/// Most bytes of a file of metadata: no client takes more.
pub(crate) const MAX_FILE: u64 = 1 << 20;
/// Highest version: what counts up one by one never comes here, and readers of JSON take it for whole.
pub(crate) const MAX_VERSION: u64 = 1 << 53;
/// Longest name of a file, bytes.
const MAX_NAME: usize = 255;

/// Public keys as metadata has them, by their ids.
pub(crate) type PublicKeys = BTreeMap<String, Value>;

/// A file of metadata.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Envelope {
    signatures: Vec<Signature>,
    /// What is signed.
    pub(crate) signed: Value,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Signature {
    keyid: String,
    /// Hexadecimal.
    sig: String,
}

impl Envelope {
    /// Nobody has signed it yet.
    pub(crate) fn new(role: &str, version: u64, expires: &str, more: &[(&str, Value)]) -> Self {
        let mut signed = json!({ "_type": role, "spec_version": SPEC, "version": version, "expires": expires });
        for (name, value) in more {
            signed[*name] = value.clone();
        }
        Self { signatures: Vec::new(), signed }
    }

    /// Errors: `tuf_invalid`.
    pub(crate) fn parse(name: &str, bytes: &[u8]) -> Result<Self> {
        let parsed = serde_json::from_slice(bytes).ok().filter(|envelope: &Self| envelope.signed.is_object());
        parsed.ok_or_else(|| Error::new(Code::TufInvalid, format!("{name} is no metadata")))
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    pub(crate) fn version(&self) -> u64 {
        self.signed["version"].as_u64().unwrap_or_default()
    }

    pub(crate) fn expires(&self) -> Option<Timestamp> {
        self.signed["expires"].as_str()?.parse().ok()
    }

    /// The files that targets name.
    pub(crate) fn targets(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.signed["targets"].as_object().into_iter().flatten()
    }

    /// The same with another version and end, which nobody has signed yet.
    pub(crate) fn renewed(mut self, version: u64, expires: &str) -> Self {
        self.signed["version"] = json!(version);
        self.signed["expires"] = json!(expires);
        self.signatures.clear();
        self
    }

    /// What is signed, as bytes. Errors: `tuf_invalid` for a number that is not whole.
    fn message(&self) -> Result<Vec<u8>> {
        let mut message = Vec::new();
        let is_whole = tuf::canonical(&self.signed, &mut message);
        is_whole
            .then_some(message)
            .ok_or_else(|| Error::new(Code::TufInvalid, "metadata has a number that is not whole"))
    }

    /// Signs it with `key` for each of `known` that is this key; in place of an earlier signature. How many it was.
    ///
    /// Errors: those of signing; `tuf_invalid`.
    pub(crate) fn sign(&mut self, key: &SigningKey, known: &PublicKeys) -> Result<u64> {
        let message = self.message()?;
        let signature = key.sign(&message)?;
        let is_it = |(_, known): &(&String, &Value)| tuf::verifies(known, &message, &signature);
        let (sig, before) = (base16ct::lower::encode_string(&signature), known.iter().filter(is_it));
        let new: Vec<_> = before.map(|(id, _)| Signature { keyid: id.clone(), sig: sig.clone() }).collect();
        self.signatures.retain(|old| new.iter().all(|new| new.keyid != old.keyid));
        let count = new.len() as u64;
        self.signatures.extend(new);
        Ok(count)
    }

    /// How many of `known` have signed it.
    pub(crate) fn count(&self, known: &PublicKeys) -> u64 {
        let message = self.message().unwrap_or_default();
        let is_good = |key: &Value, sig: &str| {
            base16ct::mixed::decode_vec(sig).is_ok_and(|signature| tuf::verifies(key, &message, &signature))
        };
        let has =
            |(id, key): &(&String, &Value)| self.signatures.iter().any(|by| by.keyid == **id && is_good(key, &by.sig));
        known.iter().filter(has).count() as u64
    }
}

/// PublicKeys of `role` as `root` names them, and how many must sign.
pub(crate) fn keys_of(root: &Envelope, role: &str) -> (PublicKeys, u64) {
    let role = &root.signed["roles"][role];
    let ids = role["keyids"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let keys = ids.filter_map(|id| Some((id.to_owned(), root.signed["keys"].get(id)?.clone())));
    (keys.collect(), role["threshold"].as_u64().unwrap_or(u64::MAX))
}

/// The end of what is good for `seconds` from `now` on, as metadata has it: whole seconds.
pub(crate) fn end(now: Timestamp, seconds: u64) -> String {
    let long = SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX));
    now.saturating_add(long).unwrap_or(Timestamp::MAX).strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Errors: `usage` where there is no next version.
pub(crate) fn next_version(version: u64) -> Result<u64> {
    let next = version.checked_add(1).filter(|next| *next <= MAX_VERSION);
    next.ok_or_else(|| usage(format!("version {version} is the last one: a new repository must be made")))
}

/// A refusal of what somebody must have written by hand.
pub(crate) fn strange(role: &str, what: &str) -> Error {
    Error::new(Code::TufInvalid, format!("staged/{role}.json is not as teleport-fleet makes it: {what}"))
        .advise("look who changed it; then remove it, and begin anew with `tuf add` or `tuf rotate`")
}

/// A published file. Errors: those of reading.
pub(crate) fn read(dir: &Path, name: &str) -> Result<Option<Vec<u8>>> {
    durable::read(&dir.join(name), MAX_FILE)
}

/// The bytes of a file of metadata in the directory `dir` that hosts may ask for as `name`; `None`: there is none. Whatever else lies
/// there, links and other files, is nobody's.
pub fn published_file(dir: &Path, name: &str) -> Option<Vec<u8>> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-~%".contains(&byte);
    let is_name = name.len() <= MAX_NAME && name.bytes().all(is_plain) && !name.starts_with('.');
    let bytes = if is_name && name.ends_with(".json") { read(dir, name).ok()?? } else { return None };
    Envelope::parse(name, &bytes).ok().map(|_| bytes)
}
