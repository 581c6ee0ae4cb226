//! Digests, signatures and keys: accepted is exactly what another reading of the same rule accepts.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use protocol::Digest;
use ring::signature::{ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use teleport_update::testing::Code;
use teleport_update::testing::release::PublicKey;
use testing::cluster::Signer;

/// What is signed.
pub(crate) const ARCHIVE: &[u8] = b"an archive";
/// Bytes of a public key at the end of its DER form.
const POINT: usize = 65;

/// Any bytes as a `.sha256` file.
pub fn digest(bytes: &[u8]) {
    let first = bytes.split(u8::is_ascii_whitespace).find(|word| !word.is_empty()).unwrap_or_default();
    let is_digest = first.len() == 64 && first.iter().all(u8::is_ascii_hexdigit);
    match Digest::first_token(bytes) {
        Ok(digest) => {
            assert!(is_digest);
            assert_eq!(digest.to_string().as_bytes(), first.to_ascii_lowercase());
            assert_eq!(digest.to_string().parse(), Ok(digest));
        }
        Err(error) => {
            assert!(!is_digest && error.kind == protocol::Kind::Digest);
            assert!(error.what.len() < 1000, "a whole page in a message");
        }
    }
}

/// Any bytes as a `.sig` file: `ring` decides over the archive's bytes, we over their digest.
pub fn signature(bytes: &[u8]) {
    let key: PublicKey = Signer::fixed(1).public_key_pem().parse().unwrap();
    let result = key.verify(Digest::of(ARCHIVE), bytes);
    let text: Vec<u8> = bytes.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let expected = BASE64_STANDARD.decode(text).is_ok_and(|signature| {
        let der = BASE64_STANDARD.decode(key.to_string()).unwrap();
        let point = &der[der.len() - POINT..];
        let as_der = UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, point).verify(ARCHIVE, &signature).is_ok();
        as_der || UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(ARCHIVE, &signature).is_ok()
    });
    assert_eq!(result.is_ok(), expected, "{result:?}");
    if let Err(error) = result {
        assert_eq!(error.code, Code::SignatureInvalid);
    }
    assert!(key.verify(Digest::of(b"another archive"), bytes).is_err());
}

/// Any text as a public key.
pub fn public_key(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match text.parse::<PublicKey>() {
        Ok(key) => {
            let shown = key.to_string();
            assert_eq!(shown.parse::<PublicKey>().as_ref(), Ok(&key));
            assert_eq!(shown.parse::<PublicKey>().unwrap().to_string(), shown);
            assert_eq!(BASE64_STANDARD.decode(shown).unwrap().len(), 91, "SPKI of P-256");
            assert!(key.verify(Digest::of(ARCHIVE), b"AAAA").is_err());
        }
        Err(error) => assert_eq!(error.code, Code::ConfigInvalid),
    }
}
