//! Why a group or a host waits, as sentences: what keeps it with its numbers, since when, until when, and the one command that
//! would change it (FLEET §6). The codes are `fleet_engine::reason`'s.

use fleet_engine::advice::Advice;
use fleet_engine::reason::{self, HaltRule, Who, Why};
use fleet_engine::tally::BY_HAND;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use crate::lenient::{Lenient, word};
use crate::name::names;
use crate::text::{self, clean, hosts, second};

pub mod advice;
mod progress;

pub use advice::ReasonSubject;
pub use progress::{AwaitedHost, Obstacle, ReasonProgress};

/// A reason with its times, as the server says it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Reason {
    /// What keeps it, with its numbers.
    #[serde(flatten)]
    pub code: Lenient<Why>,
    /// Absent: nobody noted when that began.
    #[schemars(extend("format" = "date-time"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// The earliest end; null: the clock brings none. Absent where it stands beside.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[schemars(extend("format" = "date-time"))]
    pub until: Option<Option<String>>,
    /// Who can change it.
    #[serde(default)]
    pub who: Option<Lenient<Who>>,
    /// When the last decision was made, where the server's clock is behind that.
    #[schemars(extend("format" = "date-time"))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_behind: Option<String>,
    /// What would change it; null: only time or hosts can. Absent: the rollout is over.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub advice: Option<Option<Lenient<Advice>>>,
    /// How far a group is that updates; absent: it does not, or an older server does not say.
    #[serde(flatten)]
    pub progress: ReasonProgress,
}

/// Whatever is there, also `null`.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

impl Reason {
    /// Of the engine's.
    pub fn of(reason: &reason::WaitReason) -> Self {
        let until = Some(reason.until.map(second));
        Self { since: Some(second(reason.since)), until, ..Self::now(reason.why.clone()) }
    }

    /// The same without times.
    pub fn now(why: Why) -> Self {
        Self { who: Some(why.who().into()), until: Some(None), code: why.into(), ..Self::default() }
    }

    /// That no host is allowed to update because the store has not confirmed what is answered since `confirmed`; a server that was
    /// never confirmed has the beginning of time. `ahead`: when the last decision was made, where the clock is behind that.
    pub fn stale(confirmed: Timestamp, ahead: Option<Timestamp>) -> Self {
        let since = (confirmed > Timestamp::UNIX_EPOCH).then(|| second(confirmed));
        Self { since, clock_behind: ahead.map(second), ..Self::now(Why::StoreUnavailable) }
    }

    /// Reads a `why` object; what is none is unknown.
    pub fn read(why: &Value) -> Self {
        Self::deserialize(why).unwrap_or_default()
    }

    /// Nothing is left to wait for.
    pub fn is_moving(&self) -> bool {
        match &self.code {
            Lenient::Known(why) => matches!(why, Why::Done | Why::LetGo | Why::Updated | Why::WentBack),
            newer @ Lenient::Newer(_) => *newer == Lenient::default(),
        }
    }

    /// No host is allowed to update, and that was not meant to be: of a rollout without groups.
    pub fn is_stopped(&self) -> bool {
        matches!(self.code, Lenient::Known(Why::Halted { .. } | Why::Disabled | Why::Suspended))
    }

    /// The group for which it waits.
    pub fn waits_for(&self) -> Option<&str> {
        match &self.code {
            Lenient::Known(
                Why::PreviousGroupsNotDone { group, .. } | Why::WaitHours { group } | Why::SoakHours { group },
            ) => Some(group),
            _ => None,
        }
    }

    /// What keeps it, with its numbers.
    pub fn sentence(&self) -> String {
        if let Some(last) = &self.clock_behind {
            let last = text::time_of(last);
            return format!(
                "the server's clock is behind its last decision, which is of {last} UTC: until it is right, no host is allowed to update"
            );
        }
        match &self.code {
            Lenient::Known(why) => sentence(why) + &self.progress.behind(),
            Lenient::Newer(keys) => newer(keys),
        }
    }

    /// The whole line: what, since when, until when, and the command.
    pub fn line(&self, subject: ReasonSubject<'_>, zone: &TimeZone) -> String {
        let mut line = self.sentence();
        if let Some(since) = &self.since {
            line.push_str(&format!(", since {} UTC", text::time_of(since)));
        }
        if let Some(Some(until)) = &self.until {
            line.push_str(&format!("; until {} at the earliest", text::time_to_come(until, zone)));
        }
        line.push_str(&self.progress.line(zone));
        if let Some(advice) = self.advice(subject) {
            line.push_str(&format!("; {advice}"));
        }
        line
    }

    /// The one command that would change it.
    pub fn advice(&self, subject: ReasonSubject<'_>) -> Option<String> {
        match (self.advice.as_ref()?.as_ref()?, &self.code) {
            (Lenient::Known(advice), Lenient::Known(why)) => Some(advice::text(advice, why, subject)),
            (advice, _) => Some(format!("to change it: {}", clean(&word(advice)))),
        }
    }
}

/// A code that only a newer server knows, and its numbers.
fn newer(keys: &Value) -> String {
    let words = keys.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null());
    let words = words.map(|(key, value)| if key == "code" { word(value) } else { format!("{key} {}", word(value)) });
    format!("{} (this program is older than the server)", clean(&words.collect::<Vec<_>>().join(", ")))
}

/// The schema of the codes alone.
pub(crate) fn codes(of: &mut SchemaGenerator) -> Schema {
    let why = Why::json_schema(of).to_value();
    let variants = why["oneOf"].as_array().into_iter().flatten();
    let codes: Vec<&Value> = variants.map(|variant| &variant["properties"]["code"]["const"]).collect();
    json_schema!({ "type": "string", "enum": codes })
}

/// The hosts cannot all be to blame.
const FLEET_SILENT: &str =
    ": look at this server, its network and its certificate; silence counts against no host and no group meanwhile";

/// A reason as a sentence: the words of its code, which hosts know too, with names and numbers.
pub fn sentence(why: &Why) -> String {
    protocol::reason::words(why.code(), details(why).as_deref())
}

/// What the words of a reason leave open; `None` where they leave nothing open.
fn details(why: &Why) -> Option<String> {
    let bracketed = |text: &str| if text.is_empty() { String::new() } else { format!(" ({})", clean(text)) };
    Some(match why {
        Why::PreviousGroupsNotDone { group, stopped } => {
            let state =
                stopped.as_deref().map_or("not done", |state| if state == "halted" { state } else { "rolled back" });
            format!("group {} is {state}", clean(group))
        }
        Why::WaitHours { group } | Why::SoakHours { group } => format!("group {}", clean(group)),
        Why::Blackout { reason } | Why::VersionBlocked { reason } => bracketed(reason),
        Why::FailedHere { error: Some(error) } if error == BY_HAND => {
            "somebody on the host went back from this version".to_owned()
        }
        Why::FailedHere { error } => {
            format!("this version failed here{}", bracketed(error.as_deref().unwrap_or_default()))
        }
        Why::Approval { role } => format!("the role {}", clean(role)),
        Why::Gate { answer: None } => "has not answered".to_owned(),
        Why::Gate { answer: Some(answer) } => format!("says {}", clean(answer)),
        Why::WaitingForCanaries { done, chosen, wanted } => canaries(*done, *chosen, *wanted),
        Why::MaxInFlight { cap: 0, .. } => "max_in_flight is 0 %: no host is allowed to update".to_owned(),
        Why::MaxInFlight { in_flight, cap, updated, of } => {
            let done = if *of == 0 { String::new() } else { format!("{updated} of {} updated; ", hosts(*of)) };
            format!("{done}{} in flight, and max_in_flight allows {cap} at the same time", hosts(*in_flight))
        }
        Why::Rate { granted, allowed } => {
            format!("{} in this hour, and {granted} of them may update already", hosts(*allowed))
        }
        Why::UpdateInProgress { updated, of } => format!("{updated} of {}", hosts(*of)),
        Why::NobodyOnTheWay { failed, of } => format!("{failed} of {} failed or timed out", hosts(*of)),
        Why::NoReports { hosts: count } => format!("{} {}", hosts(*count), if *count == 1 { "asks" } else { "ask" }),
        Why::NoTarget { targets: misfits } | Why::NoInstaller { installers: misfits } => {
            let clauses = misfits.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            if clauses.is_empty() { clauses } else { format!(": {}", clean(&clauses)) }
        }
        Why::FleetSilent => FLEET_SILENT.to_owned(),
        Why::Shrunk { present, initial, excluded } => shrunk(*present, *initial, *excluded),
        Why::Halted { rule, count, of, error, sample, hosts, no_way_back } => {
            let back = if *no_way_back { "; it does not go back, as its start version is blocked" } else { "" };
            let named = if hosts.is_empty() { sample.clone() } else { names(hosts) };
            halted(*rule, *count, *of, error.as_deref(), &named) + back
        }
        _ => return None,
    })
}

fn canaries(done: u32, chosen: u32, wanted: u32) -> String {
    let lacks = match chosen {
        chosen if chosen >= wanted => String::new(),
        0 => ", and none of its hosts could be chosen".to_owned(),
        chosen => format!(", and only {chosen} of its hosts could be chosen"),
    };
    format!("{done} of {wanted} {} updated{lacks}", if wanted == 1 { "canary" } else { "canaries" })
}

fn shrunk(present: u64, initial: u64, excluded: u64) -> String {
    let verb = if present == 1 { "is" } else { "are" };
    let without = match excluded {
        0 => String::new(),
        1 => " (1 is held, pinned or disabled)".to_owned(),
        excluded => format!(" ({excluded} are held, pinned or disabled)"),
    };
    format!("only {present} of {} that were there at its start {verb} left{without}", hosts(initial))
}

/// What halted a group: how many of its hosts, or who.
pub fn halted_by(rule: HaltRule, count: u64, of: u64, error: Option<&str>) -> String {
    let many = format!("{count} of {}", hosts(of));
    match rule {
        _ if is_by_hand(rule, error) => format!("{many} {} sent back by hand", if count == 1 { "was" } else { "were" }),
        HaltRule::FailedThreshold => format!("{many} failed, more than allowed"),
        HaltRule::TimeoutThreshold => format!("{many} timed out, more than allowed"),
        HaltRule::ChurnThreshold => format!("{many} fell silent after they were told, more than allowed"),
        HaltRule::CanaryFailed => format!("{many} failed, a canary among them"),
        HaltRule::SoakFailed => format!("{many} failed after the group was done"),
        HaltRule::GateStopped => "its external check said stop".to_owned(),
        HaltRule::ManualHalt => "by an operator".to_owned(),
        HaltRule::ReleaseBlocked => "by an operator, who blocked its fleet_release".to_owned(),
        HaltRule::Restored => "by a restore, as an older target would send hosts back".to_owned(),
        HaltRule::StoreLost => "by the server, as its store lost decisions".to_owned(),
    }
}

/// Nobody failed: operators went back on their hosts.
fn is_by_hand(rule: HaltRule, error: Option<&str>) -> bool {
    error == Some(BY_HAND) && rule.is_of_failures()
}

fn halted(rule: HaltRule, count: u64, of: u64, error: Option<&str>, sample: &[String]) -> String {
    let what = halted_by(rule, count, of, error);
    let said = error.filter(|error| *error != BY_HAND).map(|error| format!("; most often: {}", clean(error)));
    let said = said.unwrap_or_default();
    let some: Vec<_> = sample.iter().map(|host| clean(host)).collect();
    let is_each = count <= u64::try_from(some.len()).unwrap_or(u64::MAX);
    let some = match some.join(", ") {
        none if none.is_empty() => none,
        each if is_by_hand(rule, error) && is_each => format!(" ({each})"),
        some => format!(" (for example {some})"),
    };
    format!(" ({}): {what}{some}{said}", rule.name())
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeSet;

    use fleet_engine::reason::Misfit;
    use serde_json::json;

    use super::*;

    fn line(why: Value) -> String {
        Reason::read(&why).line(ReasonSubject::Group("prod"), &TimeZone::UTC)
    }

    /// A halt by each rule, as the engine writes it.
    fn halts() -> Vec<Why> {
        let rules = [
            HaltRule::FailedThreshold,
            HaltRule::TimeoutThreshold,
            HaltRule::ChurnThreshold,
            HaltRule::CanaryFailed,
            HaltRule::SoakFailed,
            HaltRule::GateStopped,
            HaltRule::ManualHalt,
            HaltRule::ReleaseBlocked,
            HaltRule::Restored,
            HaltRule::StoreLost,
        ];
        let halt = |rule| Why::Halted {
            rule,
            count: 3,
            of: 40,
            error: Some("unhealthy".to_owned()),
            sample: vec!["4f1c0d1e-0000-4000-8000-000000000001".to_owned()],
            hosts: Vec::new(),
            no_way_back: rule == HaltRule::FailedThreshold,
        };
        rules.map(halt).into()
    }

    /// One at least of each code, as the engine writes them.
    pub(crate) fn every() -> Vec<Why> {
        let group = || "staging".to_owned();
        let misfit = |of: &str, why: &str| Misfit { of: of.to_owned(), why: why.to_owned() };
        let mut all = vec![
            Why::NoRollout,
            Why::Disabled,
            Why::Suspended,
            Why::OutsideWindow,
            Why::RolloutChangedDuringWindow,
            Why::PreviousGroupsNotDone { group: group(), stopped: None },
            Why::PreviousGroupsNotDone { group: group(), stopped: Some("halted".to_owned()) },
            Why::PreviousGroupsNotDone { group: group(), stopped: Some("rolledback".to_owned()) },
            Why::WaitHours { group: group() },
            Why::SoakHours { group: group() },
            Why::Blackout { reason: "year end".to_owned() },
            Why::Blackout { reason: String::new() },
            Why::Approval { role: "sre".to_owned() },
            Why::Gate { answer: None },
            Why::Gate { answer: Some("wait".to_owned()) },
            Why::WaitingForCanaries { done: 1, chosen: 2, wanted: 3 },
            Why::WaitingForCanaries { done: 0, chosen: 0, wanted: 4 },
            Why::MaxInFlight { in_flight: 5, cap: 5, updated: 7, of: 18 },
            Why::MaxInFlight { in_flight: 0, cap: 0, updated: 0, of: 0 },
            Why::Rate { granted: 50, allowed: 50 },
            Why::UpdateInProgress { updated: 12, of: 14 },
            Why::NobodyOnTheWay { failed: 20, of: 20 },
            Why::NoReports { hosts: 7 },
            Why::FleetSilent,
            Why::Empty,
            Why::Shrunk { present: 3, initial: 10, excluded: 0 },
            Why::Shrunk { present: 2, initial: 3, excluded: 1 },
            Why::RolledBack,
            Why::Done,
            Why::LetGo,
            Why::Updated,
            Why::SentBack,
            Why::WentBack,
            Why::NotYet,
            Why::NextPass,
            Why::Pinned,
            Why::HostDisabled,
            Why::Held,
            Why::FailedHere { error: None },
            Why::FailedHere { error: Some("unhealthy".to_owned()) },
            Why::FailedHere { error: Some(BY_HAND.to_owned()) },
            Why::TimedOut,
            Why::Unassigned,
            Why::VersionBlocked { reason: "leaks sessions".to_owned() },
            Why::VersionBlocked { reason: String::new() },
            Why::StoreUnavailable,
            Why::NoTarget { targets: vec![misfit("3.2.1", "major 3 is neither 1 nor 2")] },
            Why::NoInstaller { installers: vec![misfit("tuf", "the host does not let it act")] },
            Why::Recommended,
            Why::DirectiveDisabled,
            Why::NotBefore,
            Why::DirectiveOver,
        ];
        all.extend(halts());
        all
    }

    /// The names of all variants of an enum, by what serde says of a name that is none.
    fn names<T: serde::de::DeserializeOwned>(unknown: Value) -> BTreeSet<String> {
        let error = serde_json::from_value::<T>(unknown).err().map(|error| error.to_string()).unwrap_or_default();
        error.split('`').skip(3).step_by(2).map(str::to_owned).collect()
    }

    #[test]
    fn there_is_an_example_of_every_reason_and_of_every_rule() {
        let (mut codes, mut rules) = (BTreeSet::new(), BTreeSet::new());
        for why in every() {
            codes.insert(why.code().to_owned());
            if let Why::Halted { rule, .. } = why {
                rules.insert(rule.name().to_owned());
            }
        }
        assert_eq!(codes, names::<Why>(json!({ "code": "?" })));
        assert_eq!(codes, protocol::reason::WORDS.map(|(code, ..)| code.to_owned()).into());
        assert_eq!(rules, names::<HaltRule>(json!("?")));
    }

    #[test]
    fn every_code_is_known_has_a_sentence_of_its_own_and_names_its_numbers() {
        let mut seen = BTreeSet::new();
        for why in every() {
            let json = serde_json::to_value(&why).unwrap();
            let reason = Reason::read(&json);
            assert_eq!(reason.code, Lenient::Known(why.clone()));
            let sentence = reason.sentence();
            assert!(!sentence.is_empty(), "{json}");
            let known = protocol::reason::words(why.code(), Some("…"));
            let (before, after) = known.split_once('…').unwrap_or((&known, ""));
            assert!(
                sentence.starts_with(before) && sentence.ends_with(after),
                "hosts say {known}, the server {sentence}"
            );
            for value in json.as_object().unwrap().values().filter(|value| value.is_u64()) {
                let is_said = sentence.contains(&value.to_string());
                let is_of_the_operator = ["by an operator", "said stop", "by a restore", "by the server"]
                    .iter()
                    .any(|by| sentence.contains(by));
                assert!(is_said || is_of_the_operator, "{json}: {sentence}");
            }
            assert!(seen.insert(sentence), "{json}");
        }
    }

    #[test]
    fn a_line_says_why_since_when_until_when_and_what_to_do() {
        let why = json!({
            "code": "previous_groups_not_done", "group": "staging", "since": "2025-01-15T02:00:00Z",
            "until": "2025-01-16T02:00:00Z", "who": "hosts",
            "advice": { "command": { "start": { "groups": ["prod"], "force": false } } },
        });
        assert_eq!(
            line(why),
            "group staging is not done, since 2025-01-15 02:00:00 UTC; until 2025-01-16 02:00:00 UTC at the earliest; \
             to start now: teleport-fleet autoupdate agents start-update prod"
        );
    }

    #[test]
    fn a_halt_names_rule_counts_error_and_the_way_on() {
        let why = json!({
            "code": "halted", "rule": "failed_threshold", "count": 3, "of": 40, "error": "unhealthy",
            "since": "2025-01-15T02:00:00Z", "until": null, "who": "operator",
            "advice": { "steps": [
                { "look": { "group": "prod", "timed_out": false } }, { "edit": ["autoupdate_version"] },
                { "command": { "rollback": { "groups": ["prod"], "all_started": false, "at_once": false } } },
            ] },
        });
        assert_eq!(
            line(why),
            "halted (failed_threshold): 3 of 40 hosts failed, more than allowed; most often: unhealthy, since \
             2025-01-15 02:00:00 UTC; to see the hosts that failed: teleport-fleet hosts --group prod --failed; to give another target: \
             teleport-fleet edit autoupdate_version; to go back: teleport-fleet autoupdate agents rollback prod"
        );
    }

    #[test]
    fn a_newer_server_is_told_by_its_code() {
        let why = json!({ "code": "moon_phase", "phase": "full", "since": "2025-01-15T02:00:00Z" });
        assert_eq!(
            line(why),
            "moon_phase, phase full (this program is older than the server), since 2025-01-15 02:00:00 UTC"
        );
    }
}
