//! When a request is tried again, and when not.

use std::time::{Duration, Instant};

use error::{Error, Result};
use ureq::http::{HeaderMap, header};

use super::pause::{Cancelled, pause};

/// When a request is tried again: connection errors, 5xx, 429.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retry {
    /// Tries in all, at least 1.
    pub tries: u32,
    /// The first wait; it doubles.
    pub first_wait: Duration,
    /// Longest single wait; a `Retry-After` beyond it ends the tries.
    pub longest_wait: Duration,
    /// No new try starts later than this after the first.
    pub total: Duration,
}

impl Default for Retry {
    /// Over in about a minute: the timer comes again anyway.
    fn default() -> Self {
        Self {
            tries: 4,
            first_wait: Duration::from_millis(500),
            longest_wait: Duration::from_secs(30),
            total: Duration::from_secs(60),
        }
    }
}

impl Retry {
    /// Calls `attempt` with the time at which all must be over, until it answers or no other try is worth while.
    pub(super) fn until_answered<T>(
        &self,
        deadline: Option<Duration>,
        cancelled: Cancelled<'_>,
        mut attempt: impl FnMut(Option<Instant>) -> Result<T, Failure>,
    ) -> Result<T> {
        let start = Instant::now();
        let end = deadline.map(|deadline| start + deadline);
        let mut backoff = self.first_wait;
        let mut tries = 0;
        loop {
            tries += 1;
            let failure = match attempt(end) {
                Ok(value) => return Ok(value),
                Err(failure) => failure,
            };
            // Who asks for a longer rest gets it: the timer comes again, this run gives up.
            let rests = failure.retry_after.is_some_and(|rest| rest > self.longest_wait);
            let wait = failure.retry_after.unwrap_or(backoff).min(self.longest_wait);
            let next = Instant::now() + wait;
            let too_late = next > start + self.total || end.is_some_and(|end| next >= end);
            if !failure.may_pass || tries >= self.tries || too_late || rests {
                return Err(failure.error);
            }
            pause(wait, cancelled)?;
            backoff *= 2;
        }
    }
}

/// Why a try gave no answer.
pub(super) struct Failure {
    pub error: Error,
    /// Another try may have one.
    pub may_pass: bool,
    /// How long the server asks to be left alone.
    pub retry_after: Option<Duration>,
}

impl Failure {
    pub(super) fn lasting(error: Error) -> Self {
        Self { error, may_pass: false, retry_after: None }
    }

    pub(super) fn passing(error: Error) -> Self {
        Self { error, may_pass: true, retry_after: None }
    }
}

/// `Retry-After`: seconds or a date.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(header::RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Duration::from_secs(u64::try_from(at.as_second() - jiff::Timestamp::now().as_second()).unwrap_or(0)))
}
