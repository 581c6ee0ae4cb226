//! A host's Ed25519 key (FLEET §5).

use protocol::report::{KEY_BYTES, Key, SIGNATURE_BYTES};
use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};

use error::{Code, Error, Result};

/// Bytes of a seed (RFC 8032, 5.1.5).
const SEED_BYTES: usize = 32;

/// What signs questions and reports.
pub struct HostKey(Ed25519KeyPair);

impl HostKey {
    /// The key of `seed`, in lower-case hex. Errors: `config_invalid` where it is none.
    pub fn of(seed: &str) -> Result<Self> {
        let invalid = || Error::new(Code::ConfigInvalid, "the key is damaged");
        let mut bytes = [0; SEED_BYTES];
        let decoded = base16ct::lower::decode(seed, &mut bytes).map_err(|_| invalid())?;
        Ed25519KeyPair::from_seed_unchecked(decoded).map(Self).map_err(|_| invalid())
    }

    /// The public key.
    pub fn public(&self) -> Key {
        let mut bytes = [0; KEY_BYTES];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        Key(bytes)
    }

    /// The signature over `message`.
    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        let mut bytes = [0; SIGNATURE_BYTES];
        bytes.copy_from_slice(self.0.sign(message).as_ref());
        bytes
    }
}

/// A new key's seed, in lower-case hex. Errors: `io` where the kernel gives no random bytes.
pub fn new_seed() -> Result<String> {
    let mut bytes = [0; SEED_BYTES];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| Error::new(Code::Io, "cannot make a key: the kernel gives no random bytes"))?;
    Ok(base16ct::lower::encode_string(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8032, 7.1, tests 1 and 2.
    #[test]
    fn signatures_are_those_of_the_rfc() {
        for (seed, public, message, signature) in [
            (
                "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
                "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
                &b""[..],
                "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
            ),
            (
                "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
                "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
                &[0x72],
                "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
            ),
        ] {
            let key = HostKey::of(seed).unwrap();
            assert_eq!(key.public().to_string(), public);
            assert_eq!(base16ct::lower::encode_string(&key.sign(message)), signature);
        }
    }

    #[test]
    fn two_keys_differ_and_what_is_no_seed_is_refused() {
        let [one, two] = [new_seed().unwrap(), new_seed().unwrap()];
        assert!(one != two && HostKey::of(&one).is_ok());
        for odd in ["", "00", "zz"] {
            assert!(HostKey::of(odd).is_err());
        }
    }
}
