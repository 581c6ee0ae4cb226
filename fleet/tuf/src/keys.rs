//! Keys: in PEM files, or behind a command that signs (PKCS#11, a KMS).

use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use error::{Code, Error, IoContext, Result};
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use crate::durable::{self, usage};

/// What stands before the key in the DER of an Ed25519 public key.
const ED25519_HEAD: &[u8] = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00";
/// What stands before the seed in the DER of an Ed25519 secret key (RFC 8410).
const PKCS8_HEAD: &[u8] = b"\x30\x2e\x02\x01\x00\x30\x05\x06\x03\x2b\x65\x70\x04\x22\x04\x20";
/// The object identifiers of the two other kinds, as they stand in DER.
const P256_OID: &[u8] = b"\x06\x08\x2a\x86\x48\xce\x3d\x03\x01\x07";
const RSA_OID: &[u8] = b"\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01";
/// Most bytes of a key's file.
const MAX_KEY: u64 = 16 << 10;
/// Users other than the owner.
const OTHERS: u32 = 0o077;
/// A key behind a command, in place of a file's name.
const COMMAND: &str = "exec:";

/// A key that signs.
pub struct SigningKey(Kind);

enum Kind {
    Ed25519(Ed25519KeyPair),
    P256(EcdsaKeyPair),
    /// Gets the bytes on standard input, and prints the signature: of an ECDSA key in DER.
    Command(String),
}

impl SigningKey {
    /// `place`: a PEM file (PKCS#8, Ed25519 or P-256) that nobody but its owner may read, or `exec:COMMAND`.
    ///
    /// Errors: `usage` for what is no such key; those of reading.
    pub fn read(place: &str) -> Result<Self> {
        if let Some(command) = place.strip_prefix(COMMAND) {
            return Ok(Self(Kind::Command(command.to_owned())));
        }
        let path = Path::new(place);
        let mode = std::fs::metadata(path).at("cannot read the key", path)?.mode() & 0o7777;
        if mode & OTHERS != 0 {
            let what = format!("the key {place} has mode {mode:o}: others may read or change it");
            return Err(usage(what).advise(format!("chmod 600 {place}")));
        }
        let der = pem(path, "PRIVATE KEY")?;
        let refused = || {
            usage(format!("{place} is no Ed25519 or P-256 key in PKCS#8"))
                .advise("make one with `teleport-fleet tuf key`, or `openssl genpkey -algorithm ed25519`")
        };
        if let Ok(pair) = Ed25519KeyPair::from_pkcs8_maybe_unchecked(&der) {
            return Ok(Self(Kind::Ed25519(pair)));
        }
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &der, &SystemRandom::new());
        pair.map(|pair| Self(Kind::P256(pair))).map_err(|_| refused())
    }

    /// Signs `message`. Errors: `io` where the command fails.
    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        match &self.0 {
            Kind::Ed25519(pair) => Ok(pair.sign(message).as_ref().to_vec()),
            Kind::P256(pair) => {
                let signed = pair.sign(&SystemRandom::new(), message);
                Ok(signed.map_err(|_| Error::new(Code::Io, "the system has no random numbers"))?.as_ref().to_vec())
            }
            Kind::Command(command) => run(command, message),
        }
    }
}

fn run(command: &str, message: &[u8]) -> Result<Vec<u8>> {
    let failed = |why: String| Error::new(Code::Io, format!("exec:{command}: {why}"));
    #[allow(
        clippy::disallowed_methods,
        reason = "a person's own command, at his terminal: it may ask for a PIN, and takes what it takes"
    )]
    let child = Command::new("/bin/sh").args(["-c", command]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut child = child.map_err(|error| failed(error.to_string()))?;
    // It may end before it has read everything; then its status says why.
    let _ = child.stdin.take().map(|mut stdin| stdin.write_all(message));
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() || output.stdout.is_empty() {
        return Err(failed(format!("it ended with {} and {} bytes", output.status, output.stdout.len())));
    }
    Ok(output.stdout)
}

/// Makes a new Ed25519 key: the secret in `file`, mode 0600, the public one in `file` with `.pub` behind it. What is there is not
/// touched. Returns the public key's id.
///
/// Errors: those of writing.
pub fn make_key(file: &Path) -> Result<String> {
    let mut seed = [0; 32];
    let filled = SystemRandom::new().fill(&mut seed);
    filled.map_err(|_| Error::new(Code::Io, "the system has no random numbers"))?;
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed)
        .map_err(|error| Error::new(Code::Io, format!("the new key cannot be read: {error}")))?;
    let public = Path::new(&format!("{}.pub", file.display())).to_owned();
    let der = [ED25519_HEAD, pair.public_key().as_ref()].concat();
    // The form that OpenSSL reads, too.
    let secret = armoured("PRIVATE KEY", &[PKCS8_HEAD, &seed[..]].concat());
    durable::write_new(&public, armoured("PUBLIC KEY", &der).as_bytes(), 0o644)?;
    if let Err(error) = durable::write_new(file, secret.as_bytes(), 0o600) {
        durable::remove(&public)?;
        return Err(error);
    }
    Ok(id(&public_key(&public)?))
}

fn armoured(kind: &str, der: &[u8]) -> String {
    let text = BASE64_STANDARD.encode(der);
    let lines: Vec<&str> = text.as_bytes().chunks(64).filter_map(|line| std::str::from_utf8(line).ok()).collect();
    format!("-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n", lines.join("\n"))
}

/// The DER in a PEM file. Errors: `usage`; those of reading.
fn pem(path: &Path, kind: &str) -> Result<Vec<u8>> {
    let refused = || usage(format!("{} has no {kind} in PEM", path.display()));
    let bytes = error::read_limited(path, MAX_KEY)?.ok_or_else(refused)?;
    let text = String::from_utf8(bytes).map_err(|_| refused())?;
    let (begin, end) = (format!("-----BEGIN {kind}-----"), format!("-----END {kind}-----"));
    let inner = text.split_once(&begin).and_then(|(_, rest)| rest.split_once(&end)).ok_or_else(refused)?.0;
    let bare: String = inner.split_ascii_whitespace().collect();
    BASE64_STANDARD.decode(bare).map_err(|_| refused())
}

/// The public key in a PEM file, as metadata has it. Errors: `usage`; those of reading.
pub(crate) fn public_key(path: &Path) -> Result<Value> {
    let der = pem(path, "PUBLIC KEY")?;
    let has = |oid: &[u8]| der.windows(oid.len()).take(40).any(|part| part == oid);
    let (kind, scheme, public) = if let Some(bytes) = der.strip_prefix(ED25519_HEAD) {
        ("ed25519", "ed25519", base16ct::lower::encode_string(bytes))
    } else if has(P256_OID) {
        ("ecdsa", "ecdsa-sha2-nistp256", armoured("PUBLIC KEY", &der))
    } else if has(RSA_OID) {
        ("rsa", "rsassa-pss-sha256", armoured("PUBLIC KEY", &der))
    } else {
        return Err(usage(format!("{} is no Ed25519, P-256 or RSA key", path.display())));
    };
    let key = json!({ "keytype": kind, "scheme": scheme, "keyval": { "public": public } });
    if !tuf::is_usable(&key) {
        let what = format!("{} cannot be used: no host could verify its signatures", path.display());
        return Err(usage(what).advise("RSA needs 2048 bits, P-256 an uncompressed point"));
    }
    Ok(key)
}

/// The id of a public key: the digest of its canonical form.
pub(crate) fn id(key: &Value) -> String {
    let mut bytes = Vec::new();
    // A key has no numbers.
    let _ = tuf::canonical(key, &mut bytes);
    base16ct::lower::encode_string(digest(&SHA256, &bytes).as_ref())
}
