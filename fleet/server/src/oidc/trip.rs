//! A login's way to the provider and back. Nothing of it is kept here, for anybody may begin one: what the way back is checked by is
//! in a cookie that has 256 random bits, and what was sent along is made from that cookie: so any server of the fleet takes it back.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::digest::{SHA256, digest};

use super::id_token::SKEW;
use crate::{sessions, tokens};

/// How long somebody may be at the provider, seconds.
pub(crate) const MAX_AGE: u32 = 10 * 60;
/// Longest path that is shown afterwards, bytes: the cookie holds it.
const LONGEST_NEXT: usize = 1024;

/// One trip.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Trip {
    /// For the browser's cookie.
    pub(super) cookie: String,
    /// The path that is shown afterwards.
    pub(super) next: String,
    /// Comes back with the browser.
    pub(super) state: String,
    /// Comes back in the ID token.
    pub(super) nonce: String,
    /// Proves that who has the code began the trip (RFC 7636).
    pub(super) verifier: String,
}

impl Trip {
    /// A new trip at `now` (seconds since 1970), after which `next` is shown. `None`: there are no random numbers.
    pub(super) fn begin(next: &str, now: i64) -> Option<Self> {
        let next = if next.len() > LONGEST_NEXT { "/" } else { next };
        Some(Self::of(format!("{now}.{}.{}", sessions::secret()?, encode(next)), next.to_owned()))
    }

    /// The trip of this cookie, if `state` came back from it and it is not too long ago.
    pub(super) fn resume(cookie: &str, state: &str, now: i64) -> Option<Self> {
        let mut parts = cookie.split('.');
        let began: i64 = parts.next()?.parse().ok()?;
        let next = String::from_utf8(URL_SAFE_NO_PAD.decode(parts.nth(1)?).ok()?).ok()?;
        let age = now.checked_sub(began)?;
        let trip = Self::of(cookie.to_owned(), next);
        // Digests are compared: how far a guess is right cannot be timed.
        let is_so = tokens::digest(state) == tokens::digest(&trip.state);
        (is_so && (-SKEW..i64::from(MAX_AGE)).contains(&age)).then_some(trip)
    }

    fn of(cookie: String, next: String) -> Self {
        let make = |what| encode(digest(&SHA256, format!("{what} {cookie}").as_bytes()));
        Self { state: make("state"), nonce: make("nonce"), verifier: make("verifier"), cookie, next }
    }

    /// What the provider compares the verifier with (`S256`).
    pub(super) fn challenge(&self) -> String {
        encode(digest(&SHA256, self.verifier.as_bytes()))
    }
}

fn encode(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_800_000_000;

    #[test]
    fn a_trip_is_known_again_by_its_cookie_and_state_for_ten_minutes() {
        let trip = Trip::begin("/hosts?state=failed", NOW).unwrap();
        let resume = |cookie: &str, state: &str, now| Trip::resume(cookie, state, now);
        assert_eq!(resume(&trip.cookie, &trip.state, NOW + 599).as_ref(), Some(&trip));
        assert_eq!(resume(&trip.cookie, &trip.state, NOW - 60).as_ref(), Some(&trip), "the clock was set back");
        assert_eq!(resume(&trip.cookie, &trip.state, NOW + 600), None);
        let other = Trip::begin("/hosts?state=failed", NOW).unwrap();
        assert_eq!(resume(&trip.cookie, &other.state, NOW), None);
        assert_eq!(resume(&other.cookie, &trip.state, NOW), None);
        assert_eq!(resume(&trip.cookie, &trip.nonce, NOW), None, "each value is good for one thing");
        assert_eq!(resume(&trip.cookie, "", NOW), None);
        let later = trip.cookie.replacen("1800000000", "1800000001", 1);
        assert_eq!(resume(&later, &trip.state, NOW), None, "nobody makes it younger");
    }

    #[test]
    fn what_is_sent_along_has_256_bits_and_fits_and_no_two_are_alike() {
        let trip = Trip::begin(&format!("/{}", "x".repeat(LONGEST_NEXT)), NOW).unwrap();
        assert_eq!(trip.next, "/", "a path that is too long");
        let challenge = trip.challenge();
        let values = [&trip.state, &trip.nonce, &trip.verifier, &challenge];
        assert!(values.iter().all(|value| value.len() == 43));
        assert!((0..4).all(|one| (0..one).all(|other| values[one] != values[other])));
        let longest = Trip::begin(&"\u{e4}".repeat(LONGEST_NEXT / 2), NOW).unwrap();
        assert!(longest.cookie.len() < 2048 && longest.cookie.bytes().all(|byte| byte.is_ascii_graphic()));
    }

    /// RFC 7636, appendix B.
    #[test]
    fn the_challenge_is_that_of_the_standard() {
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk".to_owned();
        let empty = String::new;
        let trip = Trip { verifier, cookie: empty(), next: empty(), state: empty(), nonce: empty() };
        assert_eq!(trip.challenge(), "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM");
    }
}
