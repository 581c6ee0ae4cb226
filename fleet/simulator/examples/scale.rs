//! FLEET §11: what the engine costs with a million hosts. Prints milliseconds and bytes; `scale [HOSTS] [step|directive|simulate|all] [END]`.
//!
//! `cargo run --profile server -p fleet-simulator --example scale`
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a program for measuring, which nobody installs")]

use std::collections::BTreeMap;
use std::time::Instant;

use fleet_engine::answer::Question;
use fleet_engine::fleet::{Fleet, HostChange, HostReport};
use fleet_engine::host::{HostId, Outcome};
use fleet_engine::resource_set::ResourceSet;
use fleet_engine::rollout_state::RolloutState;
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// Groups of the fleet.
const GROUPS: usize = 20;
const OLD: &str = "17.2.0";
const NEW: &str = "17.2.1";

fn main() {
    let mut words = std::env::args().skip(1);
    let Ok(hosts) = words.next().map_or(Ok(1_000_000), |word| word.parse::<usize>()) else {
        eprintln!("usage: scale [HOSTS] [step|directive|simulate|all] [END]");
        std::process::exit(2);
    };
    let what = words.next().unwrap_or_default();
    let end = words.next().unwrap_or_else(|| "17:30:00".to_owned());
    match what.as_str() {
        "simulate" => {}
        "directive" => steps(hosts, directive()),
        _ => steps(hosts, book()),
    }
    if !["step", "directive"].contains(&what.as_str()) {
        simulate(hosts, &end);
    }
}

fn steps(hosts: usize, mut book: RolloutState) {
    let mut now: Timestamp = "2026-01-05T11:00:00Z".parse().unwrap();
    let before = resident();
    let mut fleet = Fleet::default();
    let begin = Instant::now();
    for number in 0..hosts {
        fleet.report(&report(number, OLD), None, now);
    }
    say("hosts report for the first time", begin);
    println!("bytes a host: {}", (resident() - before) / hosts);
    let begin = Instant::now();
    book.step(&mut fleet, now);
    say("first step of a rollout: order and place all", begin);
    now += SignedDuration::from_hours(1);
    let mut times = Vec::new();
    let mut going: Vec<HostId> = Vec::new();
    for minute in 0..30 {
        now += SignedDuration::from_mins(1);
        times.push(timed(|| book.step(&mut fleet, now)));
        // A third of the hosts report again in ten minutes; those whose turn it is are told, those told before end.
        for number in (0..hosts).skip(minute % 10).step_by(10) {
            fleet.report(&report(number, OLD), book.rollout.as_ref(), now);
        }
        for id in going.drain(..) {
            let last = HostChange { outcome: Outcome::Updated, to: NEW.to_owned(), code: String::new() };
            let report =
                HostReport { host: id, version: Some(NEW.to_owned()), last: Some(last), ..HostReport::default() };
            fleet.report(&report, book.rollout.as_ref(), now);
        }
        let ids: Vec<HostId> = fleet.hosts().iter().map(|host| host.id).collect();
        for id in ids.iter().skip(minute % 10).step_by(10) {
            let question = Question { host: Some(*id), ..Question::default() };
            if book.ask(&mut fleet, &question, now).is_some_and(|answer| answer.update) {
                going.push(*id);
            }
        }
    }
    times.sort_unstable();
    println!("a step: median {} ms, longest {} ms", times[times.len() / 2], times[times.len() - 1]);
    let updated: u64 = book.rollout.iter().flat_map(|rollout| &rollout.groups).map(|group| group.tally.updated).sum();
    println!("updated: {updated}; bytes a host: {}", (resident() - before) / hosts);
    let begin = Instant::now();
    let updates = fleet.hosts().iter().filter(|host| {
        let question = Question { host: Some(host.id), ..Question::default() };
        book.answer(&fleet, &question, now).is_some_and(|answer| answer.update)
    });
    println!("updates: {}", updates.count());
    say("an answer for every host", begin);
    let begin = Instant::now();
    let mut updates = 0;
    book.verdicts(&fleet, now, |_, answer| updates += usize::from(answer.update));
    println!("updates: {updates}");
    say("the same by verdicts", begin);
    let directive = directive();
    let begin = Instant::now();
    let planned = directive.planned(&fleet, now);
    say("a plan of 20 sub-directives of 20 targets", begin);
    println!("hosts: {}", planned.entries.iter().map(|entry| entry.hosts).sum::<u64>() + planned.elsewhere);
    let begin = Instant::now();
    fleet.free_names();
    say("names that nobody has are freed", begin);
}

/// Twenty groups by label that begin at noon, ten in a hundred at a time.
fn book() -> RolloutState {
    let group = |number: usize| {
        json!({ "name": format!("group-{number}"), "start_hour": 12, "max_in_flight": "10%",
            "agents": { "node_labels_expression": format!("labels[\"group\"] == \"{number}\"") } })
    };
    let groups: Vec<_> = (0..GROUPS).map(group).collect();
    let (mut shelf, mut book) = (ResourceSet::default(), RolloutState::default());
    let mut put = |kind: &str, spec: serde_json::Value| {
        shelf.put_json(&json!({ "kind": kind, "version": "v1", "spec": spec }), 1, &mut book).unwrap();
    };
    put("cluster_maintenance_config", json!({ "agent_auto_update_groups": { "regular": groups } }));
    put("autoupdate_version", json!({ "agent_version": NEW, "agent_start_version": OLD }));
    book
}

/// Twenty sub-directives by label, with twenty targets each, of which the last fits.
fn directive() -> RolloutState {
    let targets: Vec<_> = (0..20)
        .map(|number| json!({ "version": if number == 19 { NEW.to_owned() } else { format!("{}.0.0", 37 - number) } }))
        .collect();
    let entry = |number: usize| {
        let selectors = json!([{ "labels": { "group": number.to_string() } }]);
        json!({ "name": format!("group-{number}"), "selectors": selectors, "targets": targets })
    };
    let entries: Vec<_> = (0..GROUPS).map(entry).collect();
    let (mut shelf, mut book) = (ResourceSet::default(), RolloutState::default());
    let directive = json!({ "kind": "version-directive", "version": "v1", "spec": { "directives": entries } });
    shelf.put_json(&directive, 1, &mut book).unwrap();
    book
}

/// Host `number`: eight labels, of few values.
fn report(number: usize, version: &str) -> HostReport {
    let id = fleet_wire::answers::ids::made(&[&number.to_be_bytes()]);
    let labels = [
        ("group", number % GROUPS),
        ("region", number / 20 % 5),
        ("os", number / 100 % 3),
        ("arch", number / 300 % 2),
        ("team", number / 600 % 10),
        ("role", number / 6000 % 4),
        ("env", 0),
        ("site", number / 24000 % 3),
    ];
    let labels: BTreeMap<String, String> =
        labels.into_iter().map(|(key, value)| (key.to_owned(), value.to_string())).collect();
    HostReport {
        host: id,
        update_id: !id,
        version: Some(version.to_owned()),
        labels: Some(labels),
        hostname: Some(format!("ip-10-{}-{}-{}.example.com", number >> 16, number >> 8 & 0xff, number & 0xff)),
        ..HostReport::default()
    }
}

/// Five groups by name of `hosts` hosts, an hour after one another; 1 % of the hosts break. The rollout is done before `end`.
fn simulate(hosts: usize, end: &str) {
    let groups: Vec<_> = (0..5)
        .map(|number| json!({ "name": format!("g{number}"), "days": ["*"], "start_hour": 12 + number, "max_in_flight": "20%" }))
        .collect();
    let at = |time: &str| format!("2026-01-05T{time}Z");
    let config = json!({ "mode": "enabled", "strategy": "halt-on-error", "schedules": { "regular": groups } });
    let version = json!({ "start_version": OLD, "target_version": NEW, "schedule": "regular", "mode": "enabled" });
    let mut lines = vec![
        json!({ "at": at("11:00:00"), "put": { "kind": "autoupdate_config", "version": "v1", "spec": { "agents": config } } }),
        json!({ "at": at("11:00:00"), "put": { "kind": "autoupdate_version", "version": "v1", "spec": { "agents": version } } }),
    ];
    for number in 0..5 {
        lines.push(json!({ "at": at("11:30:00"), "hosts": { "count": hosts / 5, "group": format!("g{number}"), "version": OLD, "breaks": "1%" } }));
    }
    lines.push(json!({ "at": at(end), "status": {} }));
    let script: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let begin = Instant::now();
    let mut last = String::new();
    let done: Result<(), ()> = fleet_simulator::run(&script, 0, |line| {
        line.clone_into(&mut last);
        Ok(())
    });
    done.unwrap();
    say("simulated", begin);
    println!("peak of memory: {} MiB", peak() >> 20);
    let status: serde_json::Value = serde_json::from_str(&last).unwrap();
    println!("{}: {}", status["status"]["status"]["state"], fleet_wire::answers::ids::made(&[last.as_bytes()]));
}

fn say(what: &str, begin: Instant) {
    println!("{what}: {} ms", begin.elapsed().as_millis());
}

fn timed(act: impl FnOnce()) -> u128 {
    let begin = Instant::now();
    act();
    begin.elapsed().as_millis()
}

/// Bytes of memory that are in use.
fn resident() -> usize {
    kilobytes("VmRSS:")
}

fn peak() -> usize {
    kilobytes("VmHWM:")
}

fn kilobytes(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() * 1024
}
