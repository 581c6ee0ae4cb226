//! ID tokens that are not what the provider would give for this login.

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde_json::{Value, json};

use super::{assert_refused, log_in, served};
use crate::support::issuer::{Draft, Key, signed};

/// Changes a draft, or makes a token of it.
type Forge = fn(&mut Draft, &Key) -> Option<String>;

/// So many failures in a minute are answered each on its own.
const AT_ONCE: usize = 9;

fn claim(draft: &mut Draft, name: &str, value: Value) -> Option<String> {
    draft.claims[name] = value;
    None
}

fn head(draft: &mut Draft, name: &str, value: Value) -> Option<String> {
    draft.header[name] = value;
    None
}

fn later(seconds: i64) -> Value {
    (jiff::Timestamp::now().as_second() + seconds).into()
}

/// A token with the algorithm HS256 and this secret.
fn hs256(draft: &mut Draft, secret: &[u8]) -> Option<String> {
    head(draft, "alg", json!("HS256"));
    let (signed, key) = (draft.signed(), ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret));
    let tag = ring::hmac::sign(&key, signed.as_bytes());
    Some(format!("{signed}.{}", URL_SAFE_NO_PAD.encode(tag)))
}

/// The public key as a file of it would be.
fn pem(key: &Key) -> String {
    let head = STANDARD.decode("MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE").unwrap();
    let der = [&head[..], &key.public()[1..]].concat();
    format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der))
}

const FORGED: [(&str, Forge, &str); 16] = [
    ("another issuer", |draft, _| claim(draft, "iss", json!("https://evil.example")), "another issuer"),
    ("another audience", |draft, _| claim(draft, "aud", json!("other")), "another client"),
    ("expired a minute and a second ago", |draft, _| claim(draft, "exp", later(-61)), "has expired"),
    ("made in two minutes", |draft, _| claim(draft, "iat", later(120)), "of the future"),
    ("another login's nonce", |draft, _| claim(draft, "nonce", json!("x")), "another login"),
    (
        "no signature",
        |draft, _| {
            head(draft, "alg", json!("none"));
            Some(format!("{}.", draft.signed()))
        },
        "\"none\"",
    ),
    ("the public key as a shared secret", |draft, key| hs256(draft, &key.public()), "\"HS256\""),
    ("its file as a shared secret", |draft, key| hs256(draft, pem(key).as_bytes()), "\"HS256\""),
    ("an algorithm of another key", |draft, _| head(draft, "alg", json!("RS256")), "none of the provider's keys"),
    ("a key that nobody has", |draft, _| head(draft, "kid", json!("unknown")), "none of the provider's keys"),
    ("another key by the known name", |draft, _| Some(signed(draft, &Key::es256())), "none of the provider's keys"),
    (
        "another kind of key by the known name",
        |draft, _| {
            head(draft, "alg", json!("EdDSA"));
            Some(signed(draft, &Key::eddsa()))
        },
        "none of the provider's keys",
    ),
    ("changed after it was signed", changed, "none of the provider's keys"),
    ("an access token", |draft, _| head(draft, "typ", json!("at+jwt")), "another kind of token"),
    ("an extension", |draft, _| head(draft, "crit", json!(["exp"])), "an extension"),
    ("garbage", |_, _| Some("e30.e30.e30.e30".to_owned()), "more than three parts"),
];

fn changed(draft: &mut Draft, key: &Key) -> Option<String> {
    let token = signed(draft, key);
    claim(draft, "groups", json!(["admins"]));
    Some(format!("{}.{}", draft.signed(), token.rsplit_once('.').unwrap().1))
}

#[test]
fn a_token_with_anything_forged_lets_nobody_in_and_the_log_says_what() {
    for cases in FORGED.chunks(AT_ONCE) {
        let (issuer, _dir, server) = served();
        for (name, forge, why) in cases {
            issuer.forges(forge);
            let before = server.log().len();
            let answer = log_in(&server, &issuer);
            assert_refused(&answer, 401, "is not good");
            let log = server.log();
            assert!(log[before..].contains(&why.replace('"', "\\\"")), "{name}: {why}: {}", &log[before..]);
        }
        assert!(!server.records().iter().any(|record| record["action"] == "login"));
        issuer.forges(|_, _| None);
        assert_eq!(log_in(&server, &issuer).status, 200, "{}", server.log());
    }
}
