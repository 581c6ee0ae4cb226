//! Tokens of the admin API: known by their digests alone (FLEET §8).

use std::sync::Arc;

use arc_swap::ArcSwap;
use fleet_store::StoredToken;
use jiff::Timestamp;
use sha2::{Digest, Sha256};

/// What a token begins with, so that one that leaked is recognised.
const PREFIX: &str = "tfleet_";

/// The tokens that are known.
#[derive(Clone, Default)]
pub(crate) struct TokenSet(Arc<ArcSwap<Vec<StoredToken>>>);

impl TokenSet {
    /// Those that the store has now.
    pub(crate) fn set(&self, tokens: Vec<StoredToken>) {
        self.0.store(Arc::new(tokens));
    }

    /// Adds and removes some.
    pub(crate) fn change(&self, changes: Vec<(String, Option<StoredToken>)>) {
        if changes.is_empty() {
            return;
        }
        let mut tokens = Vec::clone(&self.0.load());
        for (name, token) in changes {
            tokens.retain(|known| known.name != name);
            tokens.extend(token);
        }
        self.set(tokens);
    }

    /// All of them, without what they are checked by.
    pub(crate) fn all(&self) -> Arc<Vec<StoredToken>> {
        self.0.load_full()
    }

    /// The token that `text` is, if it is known and good at `now`.
    pub(crate) fn find(&self, text: &str, now: Timestamp) -> Option<StoredToken> {
        self.with_digest(&digest(text), now)
    }

    /// The token with this digest, if it is known and good at `now`.
    pub(crate) fn with_digest(&self, digest: &str, now: Timestamp) -> Option<StoredToken> {
        let known = self.0.load();
        let found = known.iter().find(|token| token.digest == digest)?;
        found.expires.is_none_or(|expires| now < expires).then(|| found.clone())
    }
}

/// A new token.
pub(crate) fn new() -> String {
    let random = || uuid::Uuid::new_v4().simple().to_string();
    format!("{PREFIX}{}{}", random(), random())
}

/// What is kept of a token. It has 244 random bits: there is nothing to guess, and no need for a slow hash.
pub(crate) fn digest(text: &str) -> String {
    base16ct::lower::encode_string(&Sha256::digest(text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use fleet_wire::api::Role;

    use super::*;

    #[test]
    fn a_token_is_known_until_it_expires_and_only_whole() {
        let now: Timestamp = "2026-01-05T00:00:00Z".parse().unwrap();
        let (first, second) = (new(), new());
        assert_ne!(first, second);
        let tokens = TokenSet::default();
        let kept = |name: &str, text: &str, expires: Option<Timestamp>| StoredToken {
            name: name.to_owned(),
            digest: digest(text),
            role: Role::Operator,
            created: now,
            expires,
        };
        tokens.set(vec![kept("one", &first, Some(now)), kept("two", &second, None)]);
        assert!(tokens.find(&first, now).is_none(), "its time is over");
        assert!(tokens.find(&first, now - jiff::SignedDuration::from_secs(1)).is_some());
        assert_eq!(tokens.find(&second, now).unwrap().name, "two");
        assert!(tokens.find(&second[..second.len() - 1], now).is_none());
        assert!(tokens.find("", now).is_none());
    }
}
