//! What an agent says to a rollout server (KUBE §7): one host per workload. Blocks: for a thread of its own.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use http_client::Client;
use jiff::{SignedDuration, Timestamp};
use protocol::Version;
use protocol::report::{Change, GoOn, MAX_NUMBER, Outcome, Report, Wanted};
use sources::{HostKey, ReportVerdict, send_report};

use crate::state::FleetTalk;

/// Longest time of a report.
const LONGEST: Duration = Duration::from_secs(20);
/// Tries of one report: the second goes on from what the server has.
const TRIES: u32 = 2;
/// Largest join token, bytes.
const MAX_TOKEN: u64 = 4096;
/// Longest error that is told, characters.
const MAX_ERROR: usize = 240;

/// The number after `kept`: at least the time, milliseconds since 1970.
pub fn next(kept: u64, now: Timestamp) -> u64 {
    let now = u64::try_from(now.as_millisecond()).unwrap_or_default();
    now.max(kept.saturating_add(1)).min(MAX_NUMBER)
}

/// Whether a report is due: there is something to say, or the interval is over.
pub fn is_due(fleet: &FleetTalk, wanted: Wanted, last: Option<&Change>, now: Timestamp) -> bool {
    let interval = SignedDuration::from_secs(wanted.interval_seconds.into());
    let is_over = fleet.at.is_none_or(|at| at > now || now.duration_since(at) >= interval);
    is_over || fleet.said.as_ref() != last
}

/// Sends it. `seed`: of the key. Gives what is remembered from now on.
pub fn deliver(
    client: &Client,
    mut report: Report,
    mut fleet: FleetTalk,
    seed: &str,
    token_file: Option<&Path>,
) -> FleetTalk {
    let Ok(key) = HostKey::of(seed) else {
        return FleetTalk { refusal: Some("the key in the Secret is damaged: remove it".to_owned()), ..fleet };
    };
    let mut least = 0;
    for _ in 0..TRIES {
        let now = Timestamp::now();
        fleet.sequence = next(fleet.sequence, now).max(least);
        (report.epoch, report.sequence, report.time) = (fleet.epoch, fleet.sequence, now.to_string());
        // A token that cannot be read is as good as none: the server says that one is needed.
        let token = token_file.and_then(token);
        let (said, at, refusal) = match send_report(client, &fleet.origin, &key, &report, token, LONGEST, &|| false) {
            Some(ReportVerdict::GoOn(GoOn { epoch, sequence })) => {
                (fleet.epoch, least) = (epoch, sequence + 1);
                continue;
            }
            Some(ReportVerdict::Taken) => (report.last, Some(now), None),
            Some(ReportVerdict::Waits) => (
                report.last,
                Some(now),
                Some("an operator of the rollout server has to approve of this host".to_owned()),
            ),
            Some(ReportVerdict::Unwanted) | None => (fleet.said, Some(now), None),
            // It is tried again at the next question.
            Some(ReportVerdict::Conflict(told) | ReportVerdict::Refused(told, _)) => (fleet.said, fleet.at, Some(told)),
        };
        return FleetTalk { said, at, refusal, ..fleet };
    }
    FleetTalk { refusal: Some("the server and this host do not agree on a number".to_owned()), ..fleet }
}

fn token(file: &Path) -> Option<String> {
    let bytes = error::read_limited(file, MAX_TOKEN).ok()??;
    Some(String::from_utf8(bytes).ok()?.trim().to_owned()).filter(|token| !token.is_empty())
}

/// A change as it is reported.
pub fn change(
    from: Option<&Version>,
    to: &Version,
    outcome: Outcome,
    told: Option<(u64, u32)>,
    failure: Option<(&str, &str)>,
    now: Timestamp,
) -> Change {
    let (code, error) = failure.unwrap_or_default();
    Change {
        from: from.map(ToString::to_string).unwrap_or_default(),
        to: to.to_string(),
        at: now.to_string(),
        rollout: told.map(|(rollout, _)| rollout).filter(|rollout| *rollout > 0),
        attempt: told.map(|(_, attempt)| attempt),
        outcome,
        code: code.to_owned(),
        error: error.chars().take(MAX_ERROR).collect(),
        phases: BTreeMap::new(),
    }
}
