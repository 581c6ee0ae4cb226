//! What holds for all configurations, fleets and commands: random scripts, whose every line is followed by a look at all groups.

macro_rules! hold {
    ($condition:expr, $rendered:expr, $($message:tt)*) => {
        prop_assert!($condition, "{}\n--- seed 0\n{}---", format!($($message)*), $rendered.text)
    };
}

mod advice;
mod holds;
mod scenario;

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};

use self::scenario::{
    BEGINS, Dialect, Kind, Mode, NAMED, Rendered, Scenario, WRITTEN, crowd, name, policy, render, required, scenario,
    spec, target,
};

/// A line, whether it was refused, and its answer where it asks.
struct Told {
    kind: Kind,
    is_refused: bool,
    answer: Value,
}

fn bytes(text: &str, seed: u64) -> String {
    let mut out = String::new();
    let done: Result<(), ()> = fleet_simulator::run(text, seed, |line| {
        out.push_str(line);
        out.push('\n');
        Ok(())
    });
    done.unwrap();
    out
}

/// Every line with what it was answered. There is a rollout from the second line on, so that questions are not refused.
fn play(rendered: &Rendered) -> Vec<Told> {
    let answers = bytes(&rendered.text, 0);
    let mut answers = answers.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()).peekable();
    let mut told = Vec::new();
    for kind in &rendered.kinds {
        let asks = matches!(kind, Kind::Find(_) | Kind::Explain | Kind::Probe | Kind::Status);
        let is_refused = answers.peek().is_some_and(|answer| !answer["error"].is_null());
        assert!(!(asks && is_refused), "a question is refused: {:?}", answers.peek());
        let answer = if asks || is_refused { answers.next().unwrap() } else { Value::Null };
        told.push(Told { kind: kind.clone(), is_refused, answer });
    }
    assert_eq!(answers.next(), None, "more answers than questions");
    told
}

fn groups(status: &Value) -> &[Value] {
    status["status"]["status"]["groups"].as_array().unwrap()
}

fn number(group: &Value, what: &str) -> u64 {
    group[format!("{what}_count")].as_u64().unwrap_or_else(|| panic!("no {what}_count: {group}"))
}

fn index(group: &Value) -> usize {
    group["name"].as_str().unwrap()[1..].parse().unwrap()
}

/// The six counts that add up to a group's members.
fn members(group: &Value) -> u64 {
    ["pending", "in_flight", "updated", "failed", "timed_out", "silent"].iter().map(|what| number(group, what)).sum()
}

/// Calls `check` with each status, the number of its rollout, and the line before it.
fn each_status(
    told: &[Told],
    mut check: impl FnMut(&Value, u64, &Told) -> Result<(), TestCaseError>,
) -> Result<(), TestCaseError> {
    let mut rollout = 0;
    for (at, line) in told.iter().enumerate() {
        if line.kind == Kind::Probe {
            rollout = line.answer["find"]["fleet"]["rollout"].as_u64().unwrap();
        }
        if line.kind == Kind::Status && told[at - 1].kind == Kind::Probe {
            check(&line.answer, rollout, &told[at - 2])?;
        }
    }
    Ok(())
}

/// As many new cases as `PROPTEST_CASES` says; else 64, which are the same each time.
#[allow(clippy::disallowed_methods, reason = "as proptest itself does")]
fn config() -> ProptestConfig {
    let wanted: Option<u32> = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok());
    let rng_seed = wanted.map_or(RngSeed::Fixed(169), |_| RngSeed::Random);
    let (cases, failure_persistence) = (wanted.unwrap_or(64), None);
    ProptestConfig { cases, failure_persistence, rng_seed, max_shrink_iters: 4000, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn never_are_more_in_flight_than_allowed(scenario in scenario()) {
        let rendered = render(&scenario);
        let told = play(&rendered);
        let mut caps = Vec::new();
        // By rollout, group and start: most members that can be counted; by rollout and group: how many were in flight.
        let mut counted: BTreeMap<(u64, usize, String), u64> = BTreeMap::new();
        let mut before: BTreeMap<(u64, usize), u64> = BTreeMap::new();
        // Members at the look before: the steps of full minutes, until the line acts, were made with them.
        let mut earlier: BTreeMap<(u64, usize), u64> = BTreeMap::new();
        let mut told_caps = told.iter().filter_map(|line| match &line.kind {
            Kind::Caps(caps) => Some((line, caps.clone())),
            _ => None,
        });
        if let Some((_, first)) = told_caps.next() {
            caps = first;
        }
        each_status(&told, |status, rollout, line| {
            if let (Kind::Caps(new), false) = (&line.kind, line.is_refused) {
                caps.clone_from(new);
            }
            for group in groups(status) {
                let key = (rollout, index(group));
                let in_flight = number(group, "in_flight");
                let state = group["state"].as_str().unwrap();
                let start = (key.0, key.1, group["start_time"].to_string());
                let (cap, is_rated) = (caps[key.1], scenario.groups[key.1].keys.contains_key("rate"));
                let all = members(group) + number(group, "excluded");
                // Who was there when it started may have moved since, before anybody looked.
                let here = all.max(earlier.insert(key, all).unwrap_or(0)).max(number(group, "initial"));
                if state != "unstarted" && !group["start_time"].is_null() {
                    counted.entry(start.clone()).or_insert(here);
                }
                if cap < 100 || is_rated {
                    let most = counted.get(&start).copied().unwrap_or(0).min(here - number(group, "excluded"));
                    let allowed = if cap == 0 { 0 } else { (most * u64::from(cap)).div_ceil(100).max(1) };
                    let allowed = allowed.max(before.get(&key).copied().unwrap_or(0));
                    // Who is not counted may be in flight where there is no cap but a rate.
                    let allowed = if cap == 100 { u64::MAX } else { allowed };
                    hold!(in_flight <= allowed, rendered, "{in_flight} in flight, {allowed} allowed: {group}");
                }
                before.insert(key, in_flight);
            }
            Ok(())
        })?;
    }

    #[test]
    fn no_group_starts_before_those_that_it_requires_are_done_but_by_a_command(scenario in scenario()) {
        let rendered = render(&scenario);
        let told = play(&rendered);
        let mut now = 0;
        // Groups that a command was about in this rollout.
        let mut touched: BTreeSet<usize> = BTreeSet::new();
        let mut started: BTreeSet<usize> = BTreeSet::new();
        each_status(&told, |status, rollout, line| {
            if rollout != now {
                (now, touched, started) = (rollout, BTreeSet::new(), BTreeSet::new());
            }
            if let (Kind::Command(verb, groups), false) = (&line.kind, line.is_refused)
                && *verb != "halt"
            {
                touched.extend(groups);
            }
            for group in groups(status) {
                let its = index(group);
                if group["start_time"].is_null() || !started.insert(its) || touched.contains(&its) {
                    continue;
                }
                for other in required(&scenario, its) {
                    let found = groups(status).iter().find(|group| index(group) == other).unwrap();
                    let was_done = ["soak_failed", "manual_halt"].contains(&found["last_update_reason"].as_str().unwrap());
                    let is_done = found["state"] == "done" || was_done || touched.contains(&other);
                    hold!(is_done, rendered, "{} has started before {found}", name(its));
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn let_go_count_never_goes_down_within_a_rollout(scenario in scenario()) {
        let rendered = render(&scenario);
        let mut before: BTreeMap<(u64, usize), u64> = BTreeMap::new();
        let mut last = 0;
        each_status(&play(&rendered), |status, rollout, _| {
            hold!(rollout >= last, rendered, "rollout {rollout} after {last}");
            last = rollout;
            for group in groups(status) {
                let now = number(group, "let_go");
                let before = before.insert((rollout, index(group)), now).unwrap_or(0);
                hold!(now >= before, rendered, "{before} were let go, and now {now}: {group}");
                hold!(now >= number(group, "in_flight"), rendered, "more in flight than let go: {group}");
            }
            Ok(())
        })?;
    }

    #[test]
    fn no_answer_names_a_version_that_no_rollout_named(scenario in scenario()) {
        let rendered = render(&scenario);
        let mut named: BTreeSet<String> = BTreeSet::new();
        let told = play(&rendered);
        let mut spec = Value::Null;
        for (at, line) in told.iter().enumerate() {
            if line.kind == Kind::Status {
                spec = line.answer["status"]["spec"].clone();
                named.extend(["start_version", "target_version"].iter().map(|key| spec[key].as_str().unwrap().to_owned()));
            }
            // A question between two looks at the rollout: nothing was put since.
            if let (Kind::Find(_) | Kind::Probe, true) = (&line.kind, at > 0 && !spec.is_null()) {
                let version = line.answer["find"]["agent_version"].as_str().unwrap();
                let is_new = told[at - 1].kind == Kind::Act && line.kind == Kind::Probe;
                let known = if is_new { ["1.0.0", "2.0.0", "2.0.1", "2.0.2", "2.0.3"].contains(&version) } else { named.contains(version) };
                hold!(known, rendered, "{version} is none of {named:?}: {}", line.answer);
            }
        }
    }

    #[test]
    fn every_group_that_is_not_done_has_one_reason_and_where_time_ends_it_an_end(scenario in scenario()) {
        let rendered = render(&scenario);
        each_status(&play(&rendered), |status, _, _| {
            let now: Timestamp = status["at"].as_str().unwrap().parse().unwrap();
            for group in groups(status) {
                let why = &group["why"];
                let done = group["state"] == "done";
                hold!(done || why["code"].as_str().is_some_and(|code| !code.is_empty()), rendered, "no reason: {group}");
                let until = why["until"].as_str().map(|until| until.parse::<Timestamp>().unwrap());
                hold!(until.is_none_or(|until| until > now), rendered, "it ended before {now}: {group}");
                if !done && why["who"] == "time" {
                    hold!(until.is_some(), rendered, "time ends it, and never: {group}");
                }
            }
            Ok(())
        })?;
    }

    #[test]
    fn the_same_script_and_seed_give_the_same_bytes(scenario in scenario(), seed in 0_u64..3) {
        let rendered = render(&scenario);
        hold!(bytes(&rendered.text, seed) == bytes(&rendered.text, seed), rendered, "seed {seed}");
    }

    #[test]
    fn while_updates_are_off_nobody_is_told_and_nobody_new_is_let_go(scenario in scenario()) {
        let rendered = render(&scenario);
        let told = play(&rendered);
        let mut is_on = true;
        for line in &told {
            if let (Kind::Mode(mode), false) = (&line.kind, line.is_refused) {
                is_on = *mode;
            }
            if !is_on && matches!(line.kind, Kind::Find(_) | Kind::Probe) {
                hold!(line.answer["find"]["agent_auto_update"] == false, rendered, "updates are off: {}", line.answer);
            }
        }
        let (mut is_on, mut was_on) = (true, true);
        let mut caps: Vec<u8> = scenario.groups.iter().map(|group| group.cap).collect();
        let mut before: BTreeMap<(u64, usize), (u64, String)> = BTreeMap::new();
        each_status(&told, |status, rollout, line| {
            match &line.kind {
                Kind::Mode(mode) if !line.is_refused => is_on = *mode,
                Kind::Caps(new) if !line.is_refused => caps.clone_from(new),
                _ => {}
            }
            for group in groups(status) {
                let its = index(group);
                let now = (number(group, "let_go"), group["state"].as_str().unwrap().to_owned());
                let before = before.insert((rollout, its), now.clone());
                let Some(before) = before.filter(|_| !is_on && !was_on) else { continue };
                let is_capped = caps[its] < 100 || scenario.groups[its].keys.contains_key("rate");
                hold!(!is_capped || now.0 <= before.0, rendered, "{} were let go, and now {}: {group}", before.0, now.0);
                let by_hand = matches!(line.kind, Kind::Command(..));
                let stays = by_hand || now.1 == before.1 || ["halted", "rolledback"].contains(&now.1.as_str());
                hold!(stays, rendered, "it was {}, and updates are off: {group}", before.1);
            }
            was_on = is_on;
            Ok(())
        })?;
    }

    #[test]
    fn a_halted_or_held_group_tells_nobody_to_update_until_run(scenario in scenario()) {
        let rendered = render(&scenario);
        let told = play(&rendered);
        let mut held: BTreeSet<usize> = BTreeSet::new();
        // Held groups that another command was about, in this rollout.
        let mut moved: BTreeSet<usize> = BTreeSet::new();
        let mut last = 0;
        let every = || 0..scenario.groups.len();
        // Held with all others, and not by name: `run` of one lets it go for this rollout.
        let mut all = false;
        let mut released: BTreeSet<usize> = BTreeSet::new();
        for (at, line) in told.iter().enumerate() {
            match &line.kind {
                Kind::Command(_, _) if line.is_refused => {}
                Kind::Command("halt", groups) if groups.len() == scenario.groups.len() && groups.len() > 1 => {
                    (all, released) = (true, BTreeSet::new());
                    moved.clear();
                }
                Kind::Command("halt", groups) => {
                    held.extend(groups);
                    moved.retain(|group| !groups.contains(group));
                }
                Kind::Command("run", groups) => {
                    if groups.len() == scenario.groups.len() && groups.len() > 1 {
                        all = false;
                        held.clear();
                    }
                    held.retain(|group| !groups.contains(group));
                    released.extend(groups);
                    if groups.len() == 1 && scenario.groups.len() == 1 {
                        all = false;
                    }
                }
                Kind::Command(_, groups) => moved.extend(groups),
                _ => {}
            }
            if line.kind == Kind::Probe {
                let rollout = line.answer["find"]["fleet"]["rollout"].as_u64().unwrap();
                if rollout != last {
                    (last, moved, released) = (rollout, BTreeSet::new(), BTreeSet::new());
                }
            }
            if line.kind != Kind::Status {
                continue;
            }
            for group in groups(&line.answer) {
                let its = index(group);
                let is_held = (held.contains(&its) || all && !released.contains(&its)) && !moved.contains(&its) && every().contains(&its);
                // One that was marked as done while it was halted tells nobody as it is.
                let is_stopped = group["state"] == "halted" || group["last_update_reason"] == "manual_forced_done";
                hold!(!is_held || is_stopped, rendered, "{} is held: {group}", name(its));
                // The question, its explanation, the probe and this status are at one time.
                let Some([find, explain, _]) = told.get(at.saturating_sub(3)..at) else { continue };
                let (Kind::Find(_), Kind::Explain) = (&find.kind, &explain.kind) else { continue };
                if explain.answer["explain"]["group"] == name(its) && (is_held || group["state"] == "halted") {
                    hold!(find.answer["find"]["agent_auto_update"] == false, rendered, "halted: {} {group}", find.answer);
                }
            }
        }
    }

    #[test]
    fn the_six_counts_add_up_to_the_members(scenario in scenario()) {
        let rendered = render(&scenario);
        let told = play(&rendered);
        // Made-up hosts that have asked by now, ten minutes after their line; and those that may have.
        let mut crowds: Vec<(Timestamp, u64)> = Vec::new();
        for (line, text) in told.iter().zip(rendered.text.lines()) {
            let text: Value = serde_json::from_str(text).unwrap();
            let now: Timestamp = text["at"].as_str().unwrap().parse().unwrap();
            if let Some(count) = text["hosts"]["count"].as_u64() {
                crowds.push((now, count));
            }
            if line.kind != Kind::Status || groups(&line.answer).is_empty() {
                continue;
            }
            let here: u64 = groups(&line.answer).iter().map(|group| members(group) + number(group, "excluded")).sum();
            let is_sure = |begun: &Timestamp| now.duration_since(*begun) > SignedDuration::from_mins(10);
            let least: u64 = crowds.iter().filter(|(begun, _)| is_sure(begun)).map(|(_, count)| count).sum();
            let most: u64 = crowds.iter().map(|(_, count)| count).sum::<u64>() + NAMED as u64;
            // A named host that says nothing for a day departs.
            let is_early = now.duration_since(BEGINS.parse().unwrap()) < SignedDuration::from_hours(24);
            let least = if is_early { least + NAMED as u64 } else { least };
            hold!((least..=most).contains(&here), rendered, "{here} members, {least} to {most} hosts: {}", line.answer);
        }
    }
}

/// A fleet in which nothing fails, and nobody interferes.
fn peaceful() -> impl Strategy<Value = Scenario> {
    let dialect = select(vec![Dialect::Rfd0169, Dialect::HaltOnError]);
    (dialect, prop::collection::vec(spec(), 1..4), 1_u8..8).prop_map(|(dialect, mut groups, crowd)| {
        for group in &mut groups {
            group.cap = group.cap.max(15);
            group.keys.retain(|key, _| !["rate", "soak_hours"].contains(&key.as_str()));
        }
        Scenario { dialect, groups, crowd, breaks: 0, ops: Vec::new() }
    })
}

/// Only made-up hosts, and a status after four days.
fn quiet(scenario: &Scenario) -> Rendered {
    let mut out = Rendered::default();
    let caps: Vec<u8> = scenario.groups.iter().map(|group| group.cap).collect();
    let begins: Timestamp = BEGINS.parse().unwrap();
    let hosts = begins.checked_sub(SignedDuration::from_mins(20)).unwrap();
    let written: Timestamp = WRITTEN.parse().unwrap();
    out.line(written, policy(scenario, &caps, Mode::Enabled), Kind::Caps(caps));
    out.line(written, target(scenario, 0, "regular"), Kind::Act);
    for group in 0..scenario.groups.len() {
        // Faster than the least `timeout_seconds`.
        out.line(hosts, crowd(scenario.crowd, group, scenario.breaks, 25), Kind::Act);
    }
    out
}

proptest! {
    #![proptest_config(ProptestConfig { cases: config().cases / 4, ..config() })]

    #[test]
    fn where_nothing_fails_and_nobody_interferes_every_group_is_done_after_four_days(scenario in peaceful()) {
        let mut rendered = quiet(&scenario);
        let end: Timestamp = "2026-01-09T12:00:00Z".parse().unwrap();
        rendered.line(end, json!({ "status": {} }), Kind::Status);
        let told = play(&rendered);
        let status = &told.last().unwrap().answer;
        for group in groups(status) {
            hold!(group["state"] == "done", rendered, "{group}");
            hold!(number(group, "updated") == u64::from(scenario.crowd), rendered, "{group}");
        }
    }

    #[test]
    fn a_release_that_breaks_every_host_breaks_no_more_than_are_allowed_at_once(scenario in peaceful()) {
        let mut scenario = scenario;
        scenario.breaks = 100;
        for group in &mut scenario.groups {
            group.keys.remove("on_halt");
            group.keys.insert("max_failed_before_halt".to_owned(), 0.into());
            group.keys.entry("canary_count").and_modify(|count| *count = 1.into());
        }
        let mut rendered = quiet(&scenario);
        let end: Timestamp = "2026-01-06T12:00:00Z".parse().unwrap();
        rendered.line(end, json!({ "status": {} }), Kind::Status);
        let told = play(&rendered);
        for group in groups(&told.last().unwrap().answer) {
            let spec = &scenario.groups[index(group)];
            let allowed = (u64::from(scenario.crowd) * u64::from(spec.cap)).div_ceil(100).max(1);
            hold!(number(group, "failed") <= allowed, rendered, "{allowed} at once: {group}");
            hold!(number(group, "updated") == 0, rendered, "{group}");
            let stopped = ["halted", "unstarted"].contains(&group["state"].as_str().unwrap());
            hold!(stopped, rendered, "{group}");
        }
    }
}
