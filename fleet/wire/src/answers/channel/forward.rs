//! What another server said of a channel, and how long that is good.

use jiff::{SignedDuration, Timestamp};
use protocol::Version;

/// How long an answer is given without another question, and how long a server that fails is left alone.
const FRESH: SignedDuration = SignedDuration::from_mins(1);
/// How long the last good answer is given while the server fails.
const LAST_GOOD: SignedDuration = SignedDuration::from_hours(1);
/// Longest text that is shown of a server's answer, characters.
const SHOWN: usize = 64;

/// What is known of one address: the version or the criticality of a forwarded channel.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Forward<T> {
    good: Option<(Timestamp, T)>,
    /// When it was last asked, with or without success.
    asked: Option<Timestamp>,
}

impl<T> Forward<T> {
    /// Whether to ask at `now`: never asked, or more than a minute ago. A clock that went back does not keep it from being asked.
    pub fn is_due(&self, now: Timestamp) -> bool {
        self.asked.is_none_or(|asked| now.duration_since(asked).abs() > FRESH)
    }

    /// Notes that it is being asked at `now`, so that callers meanwhile do not ask as well.
    pub fn ask(&mut self, now: Timestamp) {
        self.asked = Some(now);
    }

    /// Takes what was read of the answer that came at `now`; `None`: there was none, or it was no answer.
    pub fn take(&mut self, value: Option<T>, now: Timestamp) {
        self.asked = Some(now);
        if let Some(value) = value {
            self.good = Some((now, value));
        }
    }

    /// What it says at `now`.
    pub fn at(&self, now: Timestamp) -> Option<&T> {
        self.good.as_ref().filter(|(since, _)| now.duration_since(*since) <= LAST_GOOD).map(|(_, value)| value)
    }
}

/// Reads the body of `…/version`: a version with or without `v`, blanks around it; `None` inside: the word `none`.
///
/// # Errors
/// What it is instead.
pub fn read_version(body: &[u8]) -> Result<Option<Version>, String> {
    let text = std::str::from_utf8(body).map_err(|_| "the answer is not text".to_owned())?.trim();
    if text == "none" {
        return Ok(None);
    }
    let shown: String = text.chars().take(SHOWN).collect();
    text.parse().map(Some).map_err(|_| format!("{shown:?} is neither a version nor none"))
}

/// Reads the body of `…/critical`: trimmed and exactly `yes`; anything else means no (RFD 0109).
pub fn read_critical(body: &[u8]) -> bool {
    body.trim_ascii() == b"yes"
}
