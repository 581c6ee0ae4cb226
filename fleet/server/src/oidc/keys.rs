//! A provider's keys (RFC 7517), and signatures by them (RFC 7515). A key is good for one algorithm, which its own kind says: what a
//! token names does not choose how it is checked, and there is none with a shared secret.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};
use serde::Deserialize;
use serde_json::Value;

/// Most keys that are looked at.
const MOST: usize = 100;

/// An algorithm that is taken (RFC 7518 §3.1, RFC 8037).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Algorithm {
    Rs256,
    Es256,
    EdDsa,
}

impl Algorithm {
    /// The algorithm of this name, if it is one of those.
    pub(super) fn named(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            // RFC 9864 has the second name.
            "EdDSA" | "Ed25519" => Some(Self::EdDsa),
            _ => None,
        }
    }
}

/// Keys, as the provider published them.
#[derive(Debug, Default)]
pub(super) struct ProviderKeys(Vec<ProviderKey>);

/// A public key.
#[derive(Debug)]
pub(super) struct ProviderKey {
    id: Option<String>,
    material: Material,
}

#[derive(Debug)]
enum Material {
    Rsa {
        n: Vec<u8>,
        e: Vec<u8>,
    },
    /// A point of P-256, uncompressed.
    P256(Vec<u8>),
    Ed25519(Vec<u8>),
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<Value>,
}

#[derive(Deserialize)]
struct JsonWebKey {
    kty: String,
    kid: Option<String>,
    #[serde(rename = "use")]
    usage: Option<String>,
    key_ops: Option<Vec<String>>,
    alg: Option<String>,
    crv: Option<String>,
    n: Option<String>,
    e: Option<String>,
    x: Option<String>,
    y: Option<String>,
}

impl ProviderKeys {
    /// Reads a set of keys. Those that sign nothing that is taken are passed over, as the standard wants it.
    ///
    /// # Errors
    /// It is no set of keys: one line.
    pub(super) fn read(text: &[u8]) -> Result<Self, String> {
        let document: Document = serde_json::from_slice(text).map_err(|error| format!("its keys: {error}"))?;
        let written = document.keys.into_iter().take(MOST).filter_map(|key| serde_json::from_value(key).ok());
        Ok(Self(written.filter_map(|written: JsonWebKey| written.key()).collect()))
    }

    /// The key called `id` that is good for `algorithm`. Without a name: the only one that is.
    pub(super) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&ProviderKey> {
        let is_named = |key: &&ProviderKey| id.is_none() || key.id.as_deref() == id;
        let mut found = self.0.iter().filter(is_named).filter(|key| key.algorithm() == algorithm);
        let first = found.next()?;
        found.next().is_none().then_some(first)
    }
}

impl JsonWebKey {
    fn key(self) -> Option<ProviderKey> {
        if self.usage.is_some_and(|usage| usage != "sig")
            || self.key_ops.is_some_and(|ops| !ops.iter().any(|op| op == "verify"))
        {
            return None;
        }
        let part = |part: Option<String>| URL_SAFE_NO_PAD.decode(part?).ok();
        let material = match (self.kty.as_str(), self.crv.as_deref()) {
            ("RSA", _) => Material::Rsa { n: without_zeros(part(self.n)?), e: without_zeros(part(self.e)?) },
            ("EC", Some("P-256")) => {
                let (x, y) = (part(self.x)?, part(self.y)?);
                (x.len() == 32 && y.len() == 32).then(|| Material::P256([&[4], &x[..], &y[..]].concat()))?
            }
            ("OKP", Some("Ed25519")) => Material::Ed25519(part(self.x)?),
            _ => return None,
        };
        let key = ProviderKey { id: self.kid, material };
        let is_for_another = self.alg.is_some_and(|name| Algorithm::named(&name) != Some(key.algorithm()));
        (!is_for_another).then_some(key)
    }
}

/// Some write a number with zeros before it.
fn without_zeros(bytes: Vec<u8>) -> Vec<u8> {
    bytes.into_iter().skip_while(|byte| *byte == 0).collect()
}

impl ProviderKey {
    fn algorithm(&self) -> Algorithm {
        match self.material {
            Material::Rsa { .. } => Algorithm::Rs256,
            Material::P256(_) => Algorithm::Es256,
            Material::Ed25519(_) => Algorithm::EdDsa,
        }
    }

    /// Whether `signature` is this key's, of `signed`.
    pub(super) fn has_signed(&self, signed: &[u8], signature: &[u8]) -> bool {
        let checked = match &self.material {
            Material::Rsa { n, e } => {
                RsaPublicKeyComponents { n, e }.verify(&RSA_PKCS1_2048_8192_SHA256, signed, signature)
            }
            Material::P256(point) => UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(signed, signature),
            Material::Ed25519(key) => UnparsedPublicKey::new(&ED25519, key).verify(signed, signature),
        };
        checked.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// RFC 7515, appendices A.2 and A.3; RFC 8037, appendix A.
    const SAMPLES: [(&str, &str, &str, &str); 3] = [
        (
            r#"{"kty":"RSA","n":"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgNMsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5rexMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5ZwKh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PAcDTW9gb54h4FRWyuXpoQ","e":"AQAB"}"#,
            "RS256",
            "eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ",
            "cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw",
        ),
        (
            r#"{"kty":"EC","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}"#,
            "ES256",
            "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ",
            "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q",
        ),
        (
            r#"{"kty":"OKP","crv":"Ed25519","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#,
            "EdDSA",
            "eyJhbGciOiJFZERTQSJ9.RXhhbXBsZSBvZiBFZDI1NTE5IHNpZ25pbmc",
            "hgyY0il_MGCjP0JzlnLWG1PPOt7-09PGcvMg3AIbQR6dWbhijcNR4ki4iylGjg5BhVsPt9g7sVvpAr_MuM0KAg",
        ),
    ];

    fn keys(keys: &[Value]) -> ProviderKeys {
        ProviderKeys::read(json!({ "keys": keys }).to_string().as_bytes()).unwrap()
    }

    #[test]
    fn signatures_of_the_standards_are_good_and_with_one_bit_changed_none_is() {
        for (key, name, signed, signature) in SAMPLES {
            let keys = keys(&[serde_json::from_str(key).unwrap()]);
            let algorithm = Algorithm::named(name).unwrap();
            let key = keys.find(None, algorithm).unwrap();
            let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
            assert!(key.has_signed(signed.as_bytes(), &signature), "{name}");
            for at in [0, signature.len() - 1] {
                let mut changed = signature.clone();
                changed[at] ^= 1;
                assert!(!key.has_signed(signed.as_bytes(), &changed), "{name}");
            }
            assert!(!key.has_signed(format!("{signed}A").as_bytes(), &signature), "{name}");
            assert!(!key.has_signed(signed.as_bytes(), &[]), "{name}");
            for (_, other, _, _) in SAMPLES.iter().filter(|sample| sample.1 != name) {
                assert!(keys.find(None, Algorithm::named(other).unwrap()).is_none(), "{name} for {other}");
            }
        }
    }

    #[test]
    fn nothing_without_a_public_key_is_an_algorithm() {
        for name in ["none", "None", "", "HS256", "HS384", "HS512", "RS384", "RS1", "PS256", "ES384", "ES256K", "dir"] {
            assert_eq!(Algorithm::named(name), None, "{name}");
        }
    }

    #[test]
    fn a_key_is_found_by_its_name_or_as_the_only_one_of_its_kind() {
        let sample = |index: usize, change: Value| {
            let mut key: Value = serde_json::from_str(SAMPLES[index].0).unwrap();
            key.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
            key
        };
        let two = keys(&[sample(1, json!({"kid": "a"})), sample(1, json!({"kid": "b"})), sample(2, json!({}))]);
        assert_eq!(two.find(Some("b"), Algorithm::Es256).unwrap().id.as_deref(), Some("b"));
        assert!(two.find(None, Algorithm::Es256).is_none(), "which of them?");
        assert!(two.find(Some("c"), Algorithm::Es256).is_none());
        assert!(two.find(Some("a"), Algorithm::EdDsa).is_none(), "a name is no leave to use it otherwise");
        assert!(two.find(None, Algorithm::EdDsa).is_some());
        for (index, unfit) in [
            (1, json!({"use": "enc"})),
            (1, json!({"key_ops": ["sign"]})),
            (1, json!({"alg": "ES384"})),
            (1, json!({"crv": "P-384"})),
            (1, json!({"x": "AAAA"})),
            (1, json!({"y": null})),
            (1, json!({"y": 7})),
            (0, json!({"alg": "HS256"})),
            (0, json!({"n": "+/"})),
            (2, json!({"kty": "oct", "k": "AAAA"})),
            (2, json!({"kty": null})),
        ] {
            let keys = keys(&[sample(index, unfit.clone()), sample(2, json!({"kid": "other"}))]);
            assert_eq!(keys.0.len(), 1, "{unfit}");
        }
        assert_eq!(keys(&vec![sample(2, json!({})); 1000]).0.len(), MOST);
        assert!(
            ProviderKeys::read(b"{}").is_err()
                && ProviderKeys::read(b"[]").is_err()
                && ProviderKeys::read(b"").is_err()
        );
    }
}
