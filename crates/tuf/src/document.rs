//! One file of metadata: parsed once, so that what is verified is what is read.

use error::Result;
use jiff::Timestamp;
use ring::digest;
use serde_json::Value;

use super::json::{Fields, canonical};
use super::keys::RoleKeys;
use super::roles::{ROLES, ROOT, SNAPSHOT, TARGETS, TIMESTAMP, invalid};

/// A repository's `spec_version` begins so.
const SPEC: &str = "1.";
/// Letters of a time such as `2030-01-01T00:00:00Z`.
const TIME_LETTERS: usize = 20;

/// A file of metadata of a role.
pub(super) struct Document {
    pub(super) role: String,
    pub(super) version: u64,
    pub(super) expires: Timestamp,
    signed: Value,
    signatures: Vec<(String, Vec<u8>)>,
}

impl Document {
    /// Parses the metadata of `role`, one of the four top-level ones or a delegated one. Nothing is verified here.
    ///
    /// Errors: `tuf_invalid`.
    pub(super) fn parse(role: &str, bytes: &[u8]) -> Result<Self> {
        let mut whole: Value =
            serde_json::from_slice(bytes).map_err(|error| invalid(role, &format!("it is no JSON: {error}")))?;
        let fields = Fields::of(role, "the file", Some(&whole))?;
        let mut signatures = Vec::new();
        for signature in fields.array("signatures")? {
            let signature = Fields::of(role, "a signature", Some(signature))?;
            let (id, bytes) = (signature.text("keyid")?.to_owned(), signature.text("sig")?);
            if signatures.iter().any(|(known, _)| *known == id) {
                return Err(invalid(role, "two signatures name the same key"));
            }
            // One that is no hexadecimal is wrong, and a wrong one does not count.
            signatures.push((id, base16ct::mixed::decode_vec(bytes).unwrap_or_default()));
        }
        let signed = fields.object("signed")?;
        let kind = if [ROOT, TIMESTAMP, SNAPSHOT].contains(&role) { role } else { TARGETS };
        if signed.text("_type")? != kind {
            return Err(invalid(role, &format!("its _type is not {kind}")));
        }
        if !signed.text("spec_version")?.starts_with(SPEC) {
            return Err(invalid(role, "its spec_version is not 1.x"));
        }
        let version = signed.number("version", 1)?;
        let expires = signed.text("expires")?;
        let expires = (expires.len() == TIME_LETTERS && expires.ends_with('Z'))
            .then(|| expires.parse().ok())
            .flatten()
            .ok_or_else(|| invalid(role, "expires is no time such as 2030-01-01T00:00:00Z"))?;
        let signed = whole.get_mut("signed").map(Value::take).unwrap_or_default();
        let document = Self { role: role.to_owned(), version, expires, signed, signatures };
        document.check()?;
        Ok(document)
    }

    /// Reads whatever may be read of it later.
    fn check(&self) -> Result<()> {
        match self.role.as_str() {
            ROOT => {
                ROLES.iter().try_for_each(|role| self.role_keys(role).map(drop))?;
                self.is_consistent().map(drop)
            }
            TIMESTAMP => self.named(SNAPSHOT).map(drop),
            SNAPSHOT => self.fields()?.object("meta")?.map.keys().try_for_each(|file| self.file_meta(file).map(drop)),
            _ => {
                self.fields()?.object("targets")?.map.keys().try_for_each(|name| self.target(name).map(drop))?;
                self.delegations().map(drop)
            }
        }
    }

    pub(super) fn fields(&self) -> Result<Fields<'_>> {
        Fields::of(&self.role, "signed", Some(&self.signed))
    }

    /// Root: whether files have their version or digest in their names.
    pub(super) fn is_consistent(&self) -> Result<bool> {
        self.fields()?.bool("consistent_snapshot")
    }

    /// Root: the keys of a top-level role.
    pub(super) fn role_keys(&self, role: &str) -> Result<RoleKeys> {
        let fields = self.fields()?;
        RoleKeys::read(fields.object("keys")?, fields.object("roles")?.object(role)?)
    }

    /// Errors: `tuf_invalid` where fewer than its threshold of `signers` signed this.
    pub(super) fn verify(&self, signers: &RoleKeys) -> Result<()> {
        let mut message = Vec::new();
        if !canonical(&self.signed, &mut message) {
            return Err(invalid(&self.role, "it has a number that is not whole"));
        }
        let count = signers.count(&message, &self.signatures);
        if count < signers.threshold {
            let what = format!("it is signed by {count} of the {} keys that must sign it", signers.threshold);
            return Err(invalid(&self.role, &what));
        }
        Ok(())
    }

    /// Timestamp, snapshot: what they say of the metadata of `role`.
    pub(super) fn named(&self, role: &str) -> Result<FileMeta> {
        self.file_meta(&format!("{role}.json"))
    }

    fn file_meta(&self, file: &str) -> Result<FileMeta> {
        let meta = self.fields()?.object("meta")?.object(file)?;
        let length = meta.map.contains_key("length").then(|| meta.number("length", 0)).transpose()?;
        let hashes = if meta.map.contains_key("hashes") { hashes(meta)? } else { Vec::new() };
        Ok(FileMeta { version: meta.number("version", 1)?, length, hashes })
    }

    /// Targets: what they say of a file.
    pub(super) fn target(&self, name: &str) -> Result<Option<TargetFile>> {
        let targets = self.fields()?.object("targets")?;
        if !targets.map.contains_key(name) {
            return Ok(None);
        }
        let file = targets.object(name)?;
        Ok(Some(TargetFile { length: file.number("length", 0)?, hashes: hashes(file)? }))
    }

    /// Targets: the names of all files, and what the signers say beside them (`custom`).
    pub(super) fn listed(&self) -> Result<Vec<(String, Value)>> {
        let targets = self.fields()?.object("targets")?;
        let custom = |file: &Value| file.get("custom").cloned().unwrap_or_default();
        Ok(targets.map.iter().map(|(name, file)| (name.clone(), custom(file))).collect())
    }

    /// Targets: to whom they delegate, in their order.
    pub(super) fn delegations(&self) -> Result<Option<Fields<'_>>> {
        let fields = self.fields()?;
        if !fields.map.contains_key("delegations") {
            return Ok(None);
        }
        let delegations = fields.object("delegations")?;
        super::paths::delegated(delegations, Some(""), 1).map(|_| Some(delegations))
    }
}

/// What a role says of another's file of metadata.
pub(super) struct FileMeta {
    pub(super) version: u64,
    pub(super) length: Option<u64>,
    hashes: Vec<Hash>,
}

impl FileMeta {
    /// Errors: `tuf_invalid` where `document` has another version than `by` names.
    pub(super) fn check_version(&self, document: &Document, by: &str) -> Result<()> {
        if document.version == self.version {
            return Ok(());
        }
        let what = format!("it has version {}, and the {by} names version {}", document.version, self.version);
        Err(invalid(&document.role, &what))
    }

    /// Errors: `tuf_invalid` where `bytes` are others than those that are meant.
    pub(super) fn check(&self, role: &str, bytes: &[u8]) -> Result<()> {
        if self.length.is_some_and(|length| length != bytes.len() as u64) || !all_match(&self.hashes, bytes) {
            return Err(invalid(role, "it is not the file that is meant: its length or digest differs"));
        }
        Ok(())
    }
}

/// What the signers say of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetFile {
    /// Bytes.
    pub length: u64,
    hashes: Vec<Hash>,
}

/// The name of an algorithm, and a digest.
type Hash = (String, Vec<u8>);

impl TargetFile {
    /// Whether `bytes` are the file.
    pub fn is(&self, bytes: &[u8]) -> bool {
        bytes.len() as u64 == self.length && all_match(&self.hashes, bytes)
    }

    /// The digest by SHA-256, if it is known.
    pub fn sha256(&self) -> Option<[u8; 32]> {
        let (_, digest) = self.hashes.iter().find(|(algorithm, _)| algorithm == "sha256")?;
        digest.as_slice().try_into().ok()
    }

    /// The digest that stands in the name of the file where snapshots are consistent, hexadecimal.
    pub fn prefix(&self) -> String {
        self.hashes.first().map(|(_, digest)| base16ct::lower::encode_string(digest)).unwrap_or_default()
    }
}

/// Errors: `tuf_invalid` where there is none that can be verified here, or one is no hexadecimal.
fn hashes(meta: Fields<'_>) -> Result<Vec<Hash>> {
    let hashes = meta.object("hashes")?;
    let mut found = Vec::new();
    for name in hashes.map.keys() {
        let digest = base16ct::mixed::decode_vec(hashes.text(name)?);
        found.push((name.clone(), digest.map_err(|_| invalid(meta.role, "a digest is not hexadecimal"))?));
    }
    if !found.iter().any(|(name, _)| algorithm(name).is_some()) {
        return Err(invalid(meta.role, "a file has no SHA-256 and no SHA-512 digest"));
    }
    Ok(found)
}

fn algorithm(name: &str) -> Option<&'static digest::Algorithm> {
    match name {
        "sha256" => Some(&digest::SHA256),
        "sha512" => Some(&digest::SHA512),
        _ => None,
    }
}

/// Every digest that can be made here is that of `bytes`.
fn all_match(hashes: &[Hash], bytes: &[u8]) -> bool {
    let differs = |(name, wanted): &Hash| {
        algorithm(name).is_some_and(|algorithm| digest::digest(algorithm, bytes).as_ref() != wanted)
    };
    !hashes.iter().any(differs)
}
