//! How long a source has said the same, or nothing (`stale_after`, after RFD 0090): whatever publishes there may have stopped.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use protocol::Version;
use yaml::scalar::{duration_text, time_text};

use crate::context::Context;
use crate::host::durable;
use crate::report::{Code, Result};
use crate::store::publish;

/// A URL, a version and two times, bytes.
const LIMIT: u64 = 8 << 10;
/// In place of a version, where the source names none.
const NOTHING: &str = "none";

/// What runs have kept of the source's answers: four lines of text.
#[derive(Debug, PartialEq, Eq)]
struct Kept {
    /// Of which source.
    source: String,
    /// The version that it named, or [`NOTHING`].
    version: String,
    /// When it first named that.
    since: Timestamp,
    /// When it last answered.
    answered: Timestamp,
}

impl Kept {
    fn read(context: &Context) -> Option<Self> {
        let file = context.layout.versions.join(publish::SOURCE_ANSWERS);
        // What is no file of ours, such as a larger one or a directory, tells nothing.
        Self::parse(&String::from_utf8_lossy(&durable::read_limited(&file, LIMIT).ok()??))
    }

    fn write(&self, context: &Context) -> Result<()> {
        if !durable::is_dir(&context.layout.versions)? {
            return Ok(());
        }
        let Self { source, version, since, answered } = self;
        let text = format!("{source}\n{version}\n{}\n{}\n", time_text(*since), time_text(*answered));
        let file = context.layout.versions.join(publish::SOURCE_ANSWERS);
        durable::write(&file, text.as_bytes(), durable::FILE_MODE)
    }

    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut next = || lines.next();
        let (source, version, since, answered) = (next()?, next()?, next()?, next()?);
        let (source, version) = (source.to_owned(), version.to_owned());
        Some(Self { source, version, since: since.parse().ok()?, answered: answered.parse().ok()? })
    }

    /// The version changed, or another source is asked, or a clock was set back: it counts from `now`.
    fn with(kept: Option<Self>, source: String, version: String, now: Timestamp) -> Self {
        let same = kept.filter(|kept| kept.source == source && kept.version == version && kept.since <= now);
        Self { source, version, since: same.map_or(now, |kept| kept.since), answered: now }
    }
}

/// Keeps that `source` answered: the version that it named, or that it named none. `answered` is false where it did not: then
/// it counts from now on, unless something is known of it.
///
/// What cannot be kept is told, and fails nothing; who may not write keeps nothing.
pub(super) fn keep(context: &Context, source: String, version: Option<&Version>, answered: bool) {
    let kept = Kept::read(context).filter(|kept| kept.source == source);
    let now = context.host.now();
    if !answered && kept.as_ref().is_some_and(|kept| kept.answered <= now) {
        return;
    }
    let version = version.map_or_else(|| NOTHING.to_owned(), ToString::to_string);
    if let Err(error) = Kept::with(kept, source, version, now).write(context)
        && error.code != Code::Permission
    {
        context.report.warn(&error.during("cannot keep what the source answered").to_string());
    }
}

/// Why `source` counts as stale after `limit`; `None`: it does not, or nothing is known of it.
pub(super) fn complaint(context: &Context, source: &str, limit: Duration) -> Option<String> {
    let kept = Kept::read(context).filter(|kept| kept.source == source)?;
    let most = SignedDuration::try_from(limit).unwrap_or(SignedDuration::MAX);
    let is_over = |from: Timestamp| context.host.now().duration_since(from) > most;
    let (since, said) = match kept.version.as_str() {
        _ if is_over(kept.answered) => (kept.answered, "has not answered".to_owned()),
        _ if !is_over(kept.since) => return None,
        NOTHING => (kept.since, "has named no version".to_owned()),
        version => (kept.since, format!("has named {version}")),
    };
    let (since, limit) = (time_text(since), duration_text(limit));
    Some(format!(
        "{source} {said} since {since}, longer than stale_after ({limit}): whatever publishes there may have stopped"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_time_counts_until_version_source_or_clock_change() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let (then, now) = (at("2026-11-01T00:00:00Z"), at("2026-11-24T00:00:00Z"));
        let of = |source: &str, version: &str| Kept {
            source: source.to_owned(),
            version: version.to_owned(),
            since: then,
            answered: then,
        };
        let since = |source: &str, version: &str, now: Timestamp| {
            let kept = Kept::with(Some(of("s", "1.0.0")), source.to_owned(), version.to_owned(), now);
            assert_eq!(kept.answered, now);
            kept.since
        };
        assert_eq!(since("s", "1.0.0", now), then);
        assert_eq!(since("s", "1.1.0", now), now);
        assert_eq!(since("t", "1.0.0", now), now);
        let back = at("2026-10-01T00:00:00Z");
        assert_eq!(since("s", "1.0.0", back), back);
        assert_eq!(Kept::with(None, "s".to_owned(), "1".to_owned(), now).since, now);
    }

    #[test]
    fn what_is_not_four_lines_is_nothing() {
        for text in ["", "s\n1.0.0\n", "s\n1.0.0\nx\n2026-11-01T00:00:00Z\n"] {
            assert_eq!(Kept::parse(text), None, "{text:?}");
        }
        assert!(Kept::parse("s\n1.0.0\n2026-11-01T00:00:00Z\n2026-11-01T00:00:00Z\n").is_some());
    }
}
