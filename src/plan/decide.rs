//! Whether the version that the cluster asks for is installed now: window, floor, refusals and their growing waits. Pure.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use sources::FleetReason;

use super::facts::{Facts, Refusal};
use crate::report::{Code, Error, Result};
use protocol::find::Digests;
use protocol::installer::{Installer, InstallerOrder};
use protocol::{Arch, Digest, Edition, Revision, Version};

/// Wait after the first failure of a version, minutes: an hour lets a passing fault of the host pass.
const FIRST_WAIT_MINUTES: i64 = 60;
/// Longest wait, minutes: once a week, so that "not never" stays true without wearing the host.
const MAX_WAIT_MINUTES: i64 = 7 * 24 * 60;

/// Failures of a run that the release is not to blame for after which the timer tries again as it comes, count: what passes by
/// itself passes soon, and one that is cut short while it is written down can be counted twice.
const PROMPT_TRIES: u32 = 2;
/// The first wait after those, minutes: two runs of the timer.
const FIRST_DELAY_MINUTES: i64 = 20;
/// Longest such wait for what a link or a mirror does, minutes: an operator who mends it does not wait for long.
const MAX_LINK_MINUTES: i64 = 2 * 60;
/// Longest such wait for what the host does (a busy database, an agent that cannot be stopped), minutes.
const MAX_HOST_MINUTES: i64 = 24 * 60;
/// Returns to a version that was left that are made at once, count: a fleet's way back, its reversal (RFD 0169, v1 -> v2 ->
/// v1 -> v2), and the same once more.
const PROMPT_RETURNS: u32 = 4;
/// Longest time for which a return to a version that was left is held.
const MAX_HOLD: SignedDuration = SignedDuration::from_hours(24);
/// For so long it counts that a version was left, hours: longer than the longest hold.
pub(crate) const LEFT_WINDOW_HOURS: i64 = 48;

/// What the cluster asks for and how it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Request {
    /// The revision that the cluster names.
    pub wanted: Revision,
    /// The cluster's window is open, or the command ignores it.
    pub in_window: bool,
    /// The operator forced: refusals do not count.
    pub force: bool,
    /// The digest announced for its archive now, if it was asked for.
    pub announced: Option<String>,
    /// What the source says beside the version.
    pub terms: Terms,
}

/// On which terms a source names a version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Terms {
    /// The digests that its archives must have.
    pub digests: Digests,
    /// A floor beside this host's own: the higher one counts.
    pub floor: Option<Version>,
    /// A version of a lower major is not installed.
    pub keeps_major: bool,
    /// It is critical, or the agent is unhealthy: between two tries lie half an hour to an hour.
    pub urgent: bool,
    /// Why the version may be installed now, or not; `None`: the cluster's window decides.
    pub reason: Option<String>,
    /// What a rollout server says of it.
    pub fleet: Option<FleetReason>,
    /// Why its window, which is closed, may never open again.
    pub stale: Option<String>,
    /// How it is to be installed; `None`: a person names the version, and no source orders anything.
    pub order: Option<Result<InstallerOrder>>,
    /// What the source says of the version besides: texts.
    pub attributes: BTreeMap<String, String>,
}

impl Terms {
    /// That a rollout server holds a version back, and why.
    pub(crate) fn held(&self) -> Option<String> {
        self.fleet.as_ref()?.held()
    }

    /// The digest of the target that is to be installed by `tuf`; `None`: another installer, or no digest.
    pub(crate) fn digest_of_target(&self) -> Option<Digest> {
        let order = self.order.as_ref()?.as_ref().ok()?;
        self.attributes.get("sha256")?.parse().ok().filter(|_| order.installer() == Some(Installer::Tuf))
    }

    /// What the digest of the archive of `edition` for `arch` must be; `None`: nobody says.
    pub(crate) fn digest(&self, edition: Edition, arch: Arch) -> Option<Digest> {
        self.digest_of_target().or_else(|| self.digests.get(edition, arch))
    }
}

/// What helps where no window comes any more.
const OF_STALE: &str = "check whether the agent is connected to its cluster, or correct or remove the schedule; \
                        `teleport-update update --now` updates without a window";

/// Between two tries of what is urgent: at most two an hour (RFD 0109).
const URGENT_LEAST: SignedDuration = SignedDuration::from_mins(30);
/// The same: at least one an hour.
const URGENT_MOST: SignedDuration = SignedDuration::from_mins(60);

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Go on towards it.
    Proceed,
    /// Nothing to do, and why (exit 0).
    Wait(String),
    /// Not possible, and why (exit 1).
    Refuse(Error),
}

/// Decides on `ask`.
pub(crate) fn decide(facts: &Facts, ask: &Request, min_version: Option<&Version>) -> Decision {
    if let Some(error) = too_low(facts.active.as_ref(), &ask.wanted, &ask.terms, min_version) {
        return Decision::Refuse(error);
    }
    if !ask.in_window {
        // An update that is kept back by it; what is there already is put right another time.
        if let Some(why) = ask.terms.stale.as_ref().filter(|_| facts.active.as_ref() != Some(&ask.wanted)) {
            let what = format!("{} is not installed: {why}", ask.wanted);
            return Decision::Refuse(Error::new(Code::ScheduleStale, what).advise(OF_STALE));
        }
        let wanted = &ask.wanted;
        return Decision::Wait(match (ask.terms.held(), &ask.terms.reason) {
            (Some(held), _) => held,
            (None, _) if facts.active.as_ref() == Some(wanted) => {
                format!("{wanted} is active, and the update window is closed")
            }
            (None, Some(reason)) => format!("{wanted} waits: {reason}"),
            (None, None) => format!("{wanted} waits for the cluster's update window"),
        });
    }
    match facts.refused.iter().find(|refusal| refusal.revision == ask.wanted) {
        Some(refusal) if !ask.force && is_waiting(refusal, facts.now) => Decision::Wait(format!(
            "{} is not tried again yet ({}); next attempt at {}, or run `update --now`",
            ask.wanted, refusal.reason, refusal.retry_at
        )),
        _ if ask.force => Decision::Proceed,
        _ => wait(facts, ask).map_or(Decision::Proceed, Decision::Wait),
    }
}

/// Why `wanted` is too low for this host, whose `active` version is what it is; `None`: it is not.
pub(crate) fn too_low(
    active: Option<&Revision>,
    wanted: &Revision,
    terms: &Terms,
    min_version: Option<&Version>,
) -> Option<Error> {
    // What is there already is not undercut by being put right.
    if active == Some(wanted) {
        return None;
    }
    if let Some(floor) = min_version.filter(|floor| wanted.version.precedes(floor)) {
        let what = format!("the cluster asks for {wanted}, which is lower than this host's min_version {floor}");
        return Some(
            Error::new(Code::BelowMinVersion, what).advise("if this is intended, lower min_version in updates.yaml"),
        );
    }
    if let Some(floor) = terms.floor.as_ref().filter(|floor| wanted.version.precedes(floor)) {
        let what = format!("the source names {wanted}, which is lower than its own min_version {floor}");
        return Some(Error::new(Code::BelowMinVersion, what));
    }
    let active = active.filter(|active| terms.keeps_major && wanted.version.major() < active.version.major())?;
    let what = format!("the channel names {wanted}, whose major version is lower than that of {active}");
    Some(
        Error::new(Code::LowerMajor, what)
            .advise(format!("if this is intended, run `teleport-update enable --force-version {}`", wanted.version)),
    )
}

/// Why the timer waits with a version that nothing is known against.
fn wait(facts: &Facts, ask: &Request) -> Option<String> {
    let wanted = &ask.wanted;
    if let Some(delay) = facts.delayed.iter().find(|delay| delay.revision == *wanted)
        && let Some(retry_at) = retry_of(delay, ask)
        && is_waiting(&Refusal { retry_at, ..delay.clone() }, facts.now)
    {
        let reason = &delay.reason;
        return Some(format!(
            "{wanted} could not be installed ({reason}); next attempt at {retry_at}, or run `update --now`"
        ));
    }
    held_until(&facts.left, facts.active.as_ref(), facts.now, wanted).map(|until| {
        format!(
            "this host switched back and forth between versions several times in the last two days: the next switch to \
             {wanted} waits until {until}, or run `update --now`"
        )
    })
}

/// When what failed is tried again; `None`: now, since another archive is announced. What is urgent waits its least time all
/// the same: whoever serves a channel could announce another one each minute.
fn retry_of(delay: &Refusal, ask: &Request) -> Option<Timestamp> {
    let after = |wait| delay.time.saturating_add(wait).unwrap_or(delay.retry_at);
    let is_other = delay.digest.is_some() && ask.announced.is_some() && delay.digest != ask.announced;
    match (ask.terms.urgent, is_other) {
        (true, true) => Some(after(URGENT_LEAST)),
        (true, false) => Some(delay.retry_at.clamp(after(URGENT_LEAST), after(URGENT_MOST))),
        (false, true) => None,
        (false, false) => Some(delay.retry_at),
    }
}

/// Until when a return to `wanted` waits: whoever asks two proxies that answer unlike is told to go to and fro for ever. The
/// first four are made at once; each further one within [`LEFT_WINDOW_HOURS`] waits longer. `left`: what was left and when, the
/// last at the end.
pub(crate) fn held_until(
    left: &[(Revision, Timestamp)],
    active: Option<&Revision>,
    now: Timestamp,
    wanted: &Revision,
) -> Option<Timestamp> {
    let (_, last) = left.last()?;
    let is_recent = |time: &Timestamp| now.duration_since(*time).as_hours().abs() < LEFT_WINDOW_HOURS;
    let recent: Vec<&Revision> =
        left.iter().filter(|(_, time)| is_recent(time)).map(|(revision, _)| revision).collect();
    if !recent.contains(&wanted) {
        return None;
    }
    let mut distinct: Vec<&Revision> = Vec::new();
    for revision in recent.iter().copied().chain(active) {
        if !distinct.contains(&revision) {
            distinct.push(revision);
        }
    }
    // Every move that led to no new version was a return.
    let returns = u32::try_from((recent.len() + 1).saturating_sub(distinct.len())).unwrap_or(u32::MAX);
    let held = returns.saturating_add(1).checked_sub(PROMPT_RETURNS).filter(|held| *held > 0)?;
    let until = last.saturating_add(wait_after(held).min(MAX_HOLD)).ok()?;
    (now >= *last && now < until).then_some(until)
}

/// The wait after the `count`th run to a target that failed with `code`; none for what costs nothing: it is tried again by the
/// timer as it comes.
pub(crate) fn delay_after(code: &str, count: u32) -> SignedDuration {
    const RELEASE: [Code; 6] = [
        Code::ChecksumMismatch,
        Code::SignatureInvalid,
        Code::ArchiveInvalid,
        Code::ArchiveHostile,
        Code::VersionMismatch,
        Code::WrongArchitecture,
    ];
    const LINK: [Code; 2] = [Code::Network, Code::DownloadStalled];
    let is_of = |codes: &[Code]| codes.iter().any(|known| known.as_str() == code);
    if is_of(&RELEASE) {
        // It is as bad at the next try, unless another digest is announced.
        return wait_after(count);
    }
    let longest = if is_of(&LINK) { MAX_LINK_MINUTES } else { MAX_HOST_MINUTES };
    // What may have passed by the next runs of the timer is tried by them.
    let Some(doublings) = count.checked_sub(PROMPT_TRIES + 1) else { return SignedDuration::ZERO };
    SignedDuration::from_mins(FIRST_DELAY_MINUTES.saturating_mul(1 << doublings.min(20)).min(longest))
}

/// Whether `refusal` holds at `now`. A failure that lies further in the future than its wait is long was dated by a clock
/// that has been set back since: without this a version could be refused for years.
pub(crate) fn is_waiting(refusal: &Refusal, now: Timestamp) -> bool {
    let left = refusal.retry_at.duration_since(now);
    let wait = wait_after(refusal.count);
    left.is_positive() && left.saturating_sub(wait) <= wait
}

/// The refusal that follows a failure of `revision` with `error_code` at `now`, given an earlier one.
pub(crate) fn refuse(
    earlier: Option<&Refusal>,
    revision: &Revision,
    reason: &str,
    error_code: &str,
    now: Timestamp,
) -> Refusal {
    let count = earlier.map_or(0, |earlier| earlier.count).saturating_add(1);
    Refusal {
        revision: revision.clone(),
        retry_at: now.saturating_add(wait_after(count)).unwrap_or(Timestamp::MAX),
        time: now,
        count,
        reason: reason.to_owned(),
        error_code: error_code.to_owned(),
        digest: None,
    }
}

/// The wait after the `count`th failure: doubled each time, from an hour to a week.
pub(crate) fn wait_after(count: u32) -> SignedDuration {
    let doubled = FIRST_WAIT_MINUTES.saturating_mul(1 << count.saturating_sub(1).min(20));
    SignedDuration::from_mins(doubled.min(MAX_WAIT_MINUTES))
}

#[cfg(test)]
mod tests {
    use super::*;
    use protocol::Edition;

    fn revision(version: &str) -> Revision {
        Revision { version: version.parse().unwrap(), edition: Edition::Oss }
    }

    #[test]
    fn waits_grow_and_never_become_for_ever() {
        let hours: Vec<i64> = (1..=10).map(|count| wait_after(count).as_hours()).collect();
        assert_eq!(hours, [1, 2, 4, 8, 16, 32, 64, 128, 168, 168]);
        assert_eq!(wait_after(u32::MAX).as_hours(), 168);
    }

    #[test]
    fn a_clock_set_back_makes_no_refusal_last_for_years() {
        let at = |hours: i64| Timestamp::from_second(hours * 3600).unwrap();
        let refusal = refuse(None, &revision("2.0.0"), "ends", "unhealthy", at(1000));
        assert!(!is_waiting(&refusal, at(1001)), "its time has come");
        assert!(is_waiting(&refusal, at(1000)));
        assert!(is_waiting(&refusal, at(999)), "set back by its wait at most");
        assert!(!is_waiting(&refusal, Timestamp::from_second(999 * 3600 - 1).unwrap()), "set back by more");
        assert!(!is_waiting(&refusal, at(0)));
    }

    #[test]
    fn a_second_failure_counts_on() {
        let now = Timestamp::UNIX_EPOCH;
        let first = refuse(None, &revision("2.0.0"), "ends", "unhealthy", now);
        let second = refuse(Some(&first), &revision("2.0.0"), "ends", "unhealthy", now);
        assert_eq!((first.count, second.count), (1, 2));
        assert!(second.retry_at > first.retry_at);
    }
}
