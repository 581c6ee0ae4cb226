//! Metadata as it is made: what is signed, and its signatures.

use std::collections::BTreeMap;
use std::path::Path;

use error::{Code, Error, Result};
use jiff::Timestamp;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use tuf::{Place, ROOT, SNAPSHOT, TARGETS, TIMESTAMP};

use crate::durable;
use crate::keys::SigningKey;

/// Letters of a role's name that stand for themselves in the name of its file.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'_').remove(b'.').remove(b'-').remove(b'~');
/// Which specification this is.
const SPEC: &str = "1.0.34";
/// Most bytes of a file of metadata: no client takes more.
pub(crate) const MAX_FILE: u64 = 1 << 20;

/// Longest name of a file, bytes.
const MAX_NAME: usize = 255;

/// A file of metadata.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Envelope {
    /// What is signed.
    pub(crate) signed: Value,
    /// By keys' ids, hexadecimal.
    pub(crate) signatures: Vec<(String, String)>,
}

impl Envelope {
    /// Nobody has signed it yet.
    pub(crate) fn new(role: &str, version: u64, expires: Timestamp, more: &[(&str, Value)]) -> Self {
        let mut signed = json!({ "_type": role, "spec_version": SPEC, "version": version, "expires": time(expires) });
        for (name, value) in more {
            signed[*name] = value.clone();
        }
        Self { signed, signatures: Vec::new() }
    }

    /// Errors: `tuf_invalid`.
    pub(crate) fn parse(name: &str, bytes: &[u8]) -> Result<Self> {
        let refused = || Error::new(Code::TufInvalid, format!("{name} is no metadata"));
        let whole: Value = serde_json::from_slice(bytes).map_err(|_| refused())?;
        let signature = |signature: &Value| {
            Some((signature.get("keyid")?.as_str()?.to_owned(), signature.get("sig")?.as_str()?.to_owned()))
        };
        let signatures = whole.get("signatures").and_then(Value::as_array).ok_or_else(refused)?;
        let signatures = signatures.iter().map(signature).collect::<Option<_>>().ok_or_else(refused)?;
        let signed = whole.get("signed").filter(|signed| signed.is_object()).cloned().ok_or_else(refused)?;
        Ok(Self { signed, signatures })
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let signature = |(id, signature): &(String, String)| json!({ "keyid": id, "sig": signature });
        let signatures: Vec<Value> = self.signatures.iter().map(signature).collect();
        serde_json::to_vec(&json!({ "signatures": signatures, "signed": self.signed })).unwrap_or_default()
    }

    pub(crate) fn version(&self) -> u64 {
        self.signed.get("version").and_then(Value::as_u64).unwrap_or_default()
    }

    pub(crate) fn expires(&self) -> Option<Timestamp> {
        self.signed.get("expires")?.as_str()?.parse().ok()
    }

    /// The object called `name` in what is signed.
    pub(crate) fn object(&self, name: &str) -> impl Iterator<Item = (&String, &Value)> {
        self.signed.get(name).and_then(Value::as_object).into_iter().flatten()
    }

    /// Whether it has no other fields than these and those that every role has.
    pub(crate) fn has_only(&self, fields: &[&str]) -> bool {
        let of_all = ["_type", "spec_version", "version", "expires"];
        let names = self.signed.as_object().into_iter().flatten().map(|(name, _)| name.as_str());
        names.into_iter().all(|name| of_all.contains(&name) || fields.contains(&name))
    }

    /// Signs it with `key` for each of `known`, ids and keys, that is this key; in place of an earlier signature. How many it was.
    ///
    /// Errors: those of signing; `tuf_invalid` for a number that is not whole.
    pub(crate) fn sign(&mut self, key: &SigningKey, known: &[(String, Value)]) -> Result<usize> {
        let mut message = Vec::new();
        if !tuf::canonical(&self.signed, &mut message) {
            return Err(Error::new(Code::TufInvalid, "metadata has a number that is not whole"));
        }
        let signature = key.sign(&message)?;
        let ids = known.iter().filter(|(_, known)| tuf::verifies(known, &message, &signature)).map(|(id, _)| id);
        let ids: Vec<String> = ids.cloned().collect();
        self.signatures.retain(|(id, _)| !ids.contains(id));
        let text = base16ct::lower::encode_string(&signature);
        self.signatures.extend(ids.iter().map(|id| (id.clone(), text.clone())));
        Ok(ids.len())
    }

    /// How many of `known` have signed it.
    pub(crate) fn count(&self, known: &[(String, Value)]) -> u64 {
        let mut message = Vec::new();
        let is_signed = tuf::canonical(&self.signed, &mut message);
        let has = |(id, key): &&(String, Value)| {
            let signature = self.signatures.iter().find(|(signer, _)| signer == id).map(|(_, signature)| signature);
            let bytes = signature.and_then(|text| base16ct::mixed::decode_vec(text).ok());
            is_signed && bytes.is_some_and(|bytes| tuf::verifies(key, &message, &bytes))
        };
        known.iter().filter(has).count() as u64
    }
}

/// Keys of `role` as `root` names them, and how many must sign.
pub(crate) fn keys_of(root: &Envelope, role: &str) -> (Vec<(String, Value)>, u64) {
    let found = |pointer: String| root.signed.pointer(&pointer);
    let ids = found(format!("/roles/{role}/keyids")).and_then(Value::as_array).into_iter().flatten();
    let key = |id: &str| root.signed.get("keys")?.get(id).cloned();
    let keys = ids.filter_map(Value::as_str).filter_map(|id| Some((id.to_owned(), key(id)?)));
    (keys.collect(), found(format!("/roles/{role}/threshold")).and_then(Value::as_u64).unwrap_or(u64::MAX))
}

/// A time as metadata has it: whole seconds.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// The name of a published file.
pub(crate) fn file_name(role: &str, version: u64) -> String {
    if role == TIMESTAMP { format!("{role}.json") } else { format!("{version}.{role}.json") }
}

/// The bytes of a file of metadata in the directory `dir` that hosts may ask for as `name`; `None`: there is none. Whatever else lies
/// there, links and other files, is nobody's.
pub fn published_file(dir: &Path, name: &str) -> Option<Vec<u8>> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-~%".contains(&byte);
    let is_name = name.len() <= MAX_NAME && name.bytes().all(is_plain) && !name.starts_with('.');
    let bytes = if is_name && name.ends_with(".json") { read(dir, name).ok()?? } else { return None };
    Envelope::parse(name, &bytes).ok().map(|_| bytes)
}

/// Gives the file of a name; `None`: there is none.
type Source<'a> = Box<dyn Fn(&str, u64) -> Result<Option<Vec<u8>>> + 'a>;

/// What is published, and what would be beside it: a host that asks here sees what hosts would.
pub(crate) struct Published<'a> {
    source: Source<'a>,
    /// Not written yet, by names.
    pub(crate) new: BTreeMap<String, Vec<u8>>,
    /// What the host that looks keeps.
    kept: BTreeMap<String, Vec<u8>>,
}

impl<'a> Published<'a> {
    /// A host that trusts `root` looks.
    pub(crate) fn seen_by(source: Source<'a>, root: Vec<u8>) -> Self {
        Self { source, new: BTreeMap::new(), kept: BTreeMap::from([(ROOT.to_owned(), root)]) }
    }

    /// The same, into a directory.
    pub(crate) fn in_dir(dir: &'a Path, root: Vec<u8>) -> Self {
        Self::seen_by(Box::new(|name, _| read(dir, name)), root)
    }
}

/// A published file. Errors: those of reading.
pub(crate) fn read(dir: &Path, name: &str) -> Result<Option<Vec<u8>>> {
    durable::read(&dir.join(name), MAX_FILE)
}

impl Place for Published<'_> {
    fn kept(&mut self, role: &str) -> Result<Option<Vec<u8>>> {
        Ok(self.kept.get(role).cloned())
    }

    fn keep(&mut self, role: &str, bytes: &[u8]) -> Result<()> {
        self.kept.insert(role.to_owned(), bytes.to_owned());
        Ok(())
    }

    fn forget(&mut self, role: &str) -> Result<()> {
        self.kept.remove(role);
        Ok(())
    }

    fn fetch(&mut self, role: &str, version: Option<u64>, limit: u64) -> Result<Option<Vec<u8>>> {
        let role = utf8_percent_encode(role, PLAIN);
        let name = version.map_or_else(|| format!("{role}.json"), |version| format!("{version}.{role}.json"));
        match self.new.get(&name) {
            Some(bytes) => Ok(Some(bytes.clone())),
            None => (self.source)(&name, limit),
        }
    }

    fn warn(&mut self, _: &Error) {}
}

/// The roles in the order in which they are published.
pub(crate) const ORDER: [&str; 4] = [ROOT, TARGETS, SNAPSHOT, TIMESTAMP];
