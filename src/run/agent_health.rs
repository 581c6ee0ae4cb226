//! Whether the agent is unhealthy between updates: an update may mend it, and need not wait for a window (RFD 0109).

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use yaml::scalar::time_text;

use crate::config::Updates;
use crate::context::Context;
use crate::host::durable;
use crate::report::{Code, Result};
use crate::service::readiness::{self, Readiness};
use crate::service::{Service, Trouble};
use crate::store::publish;

/// Two times, bytes.
const LIMIT: u64 = 100;
/// An agent that is not ready, or restarts, for so long is unhealthy (RFD 0109): a single restart is no loop.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);
/// After a longer time in which nobody looked, nothing is known of what was between.
const GAP: SignedDuration = SignedDuration::from_mins(30);

/// What is wrong with the agent; `None`: nothing that is known. An agent that is stopped is as its operator wants it, and one
/// that no service manager runs is not judged. `writes`: what is seen is kept for the next run.
///
/// Errors: `io`, `permission`.
pub(crate) fn complaint(context: &Context, updates: &Updates, writes: bool) -> Result<Option<&'static str>> {
    if context.layout.is_image() {
        return Ok(None);
    }
    let service = context.service(updates)?;
    let Service::Systemd(systemd) = &service else { return Ok(None) };
    // What systemd does not tell speaks against nobody.
    let Ok(trouble) = systemd.trouble() else { return Ok(None) };
    let is_unready = |dir: &Path| matches!(readiness::probe(dir), Readiness::NotReady { .. });
    let complaint = match trouble {
        Some(Trouble::Failed) => return Ok(Some("it has failed")),
        Some(Trouble::Looping) => return Ok(Some("it restarts again and again")),
        Some(Trouble::Restarting) => Some("it restarts again and again"),
        None => is_unready(&context.data_dir()?).then_some("it has not been ready for five minutes"),
    };
    let file = context.layout.versions.join(publish::NOT_READY);
    let now = context.host.now();
    let Some(complaint) = complaint else {
        if writes {
            told(context, durable::exists(&file).and_then(|is| if is { durable::remove_file(&file) } else { Ok(()) }));
        }
        return Ok(None);
    };
    // What is no file of ours tells nothing.
    let since = since(&durable::read_limited(&file, LIMIT).ok().flatten().unwrap_or_default(), now);
    if writes && durable::is_dir(&context.layout.versions)? {
        let text = format!("{} {}\n", time_text(since), time_text(now));
        told(context, durable::write(&file, text.as_bytes(), durable::FILE_MODE));
    }
    Ok((now.duration_since(since) >= PATIENCE).then_some(complaint))
}

/// A note that cannot be kept keeps no host from its updates.
fn told(context: &Context, written: Result<()>) {
    if let Err(error) = written
        && error.code != Code::Permission
    {
        context.report.warn(&error.to_string());
    }
}

/// Since when it is in trouble, by what the last run kept.
fn since(kept: &[u8], now: Timestamp) -> Timestamp {
    let text = String::from_utf8_lossy(kept);
    let times = text.trim().split_once(' ').and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    match times {
        Some((first, last)) if first <= last && last <= now && now.duration_since(last) <= GAP => first,
        _ => now,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_counts_from_the_first_look_and_anew_after_a_gap() {
        let at = |text: &str| text.parse::<Timestamp>().unwrap();
        let kept = b"2026-11-24T10:00:00Z 2026-11-24T10:20:00Z\n";
        assert_eq!(since(kept, at("2026-11-24T10:30:00Z")), at("2026-11-24T10:00:00Z"));
        for now in ["2026-11-24T10:50:01Z", "2026-11-24T10:10:00Z"] {
            assert_eq!(since(kept, at(now)), at(now), "{now}");
        }
        assert_eq!(since(b"x", at("2026-11-24T10:30:00Z")), at("2026-11-24T10:30:00Z"));
    }
}
