#![allow(clippy::disallowed_methods, reason = "runs systemd-analyze, which is not the agent's business")]

use std::process::{Command, Stdio};

use fleet_engine::calendar::{Days, Zone};
use fleet_engine::fleet::Fleet;
use fleet_engine::resource_set::ResourceSet;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::answers::reply::JSON;

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn opening(days: &[&str], hour: u8, zone: &str) -> WindowOpening {
    WindowOpening { days: Days::parse(days).unwrap(), hour, zone: Zone::parse(zone).unwrap() }
}

fn window(days: &[&str], hour: u8, zone: &str, hours: i64) -> Windows {
    Windows::At { opening: opening(days, hour, zone), length: SignedDuration::from_hours(hours), freezes: Vec::new() }
}

fn with_freezes(windows: Windows, given: &[(&str, &str)]) -> Windows {
    let freezes = given.iter().map(|(from, to)| Blackout { from: at(from), to: at(to), reason: "x".to_owned() });
    match windows {
        Windows::At { opening, length, .. } => Windows::At { opening, length, freezes: freezes.collect() },
        other => other,
    }
}

/// The first windows at `now`, each as `start/stop`.
fn first(windows: &Windows, now: &str, count: usize) -> Vec<String> {
    let spans = spans(windows, at(now)).into_iter().take(count);
    spans.map(|(start, stop)| format!("{start}/{stop}")).collect()
}

fn ask(kind: Kind, windows: &Windows, now: &str) -> Reply {
    reply(&Question { kind, group: Cow::Borrowed("prod") }, windows, at(now))
}

/// The engine with these resources.
fn book(resources: &[(&str, Value)]) -> (RolloutState, Fleet) {
    let (mut shelf, mut book, mut fleet) = (ResourceSet::default(), RolloutState::default(), Fleet::default());
    for (kind, spec) in resources {
        let resource =
            json!({ "kind": kind, "version": "v1", "metadata": { "name": kind.replace('_', "-") }, "spec": spec });
        shelf.put_json(&resource, 1, &mut book).unwrap();
    }
    book.step(&mut fleet, at("2026-01-05T00:00:00Z"));
    (book, fleet)
}

fn version(mode: &str, schedule: &str) -> (&'static str, Value) {
    let agents = json!({ "start_version": "17.2.0", "target_version": "17.2.1", "mode": mode, "schedule": schedule });
    ("autoupdate_version", json!({ "agents": agents }))
}

fn two_groups() -> (&'static str, Value) {
    let regular = json!([
        { "name": "dev", "days": ["Mon", "Tue"], "start_hour": 4 },
        { "name": "prod", "days": ["*"], "start_hour": 23, "timezone": "Europe/Berlin", "window_duration": "3h" },
    ]);
    let agents = json!({ "mode": "enabled", "strategy": "halt-on-error", "schedules": { "regular": regular } });
    ("autoupdate_config", json!({ "agents": agents }))
}

/// What a systemd timer is told by these resources.
fn timer(resources: &[(&str, Value)], group: &str) -> Option<String> {
    let (book, fleet) = book(resources);
    calendar(&windows(&book, group, &fleet.names))
}

#[test]
fn an_unknown_kind_is_400() {
    for query in
        ["", "group=prod", "kind=", "kind=cron", "kind=Systemd_Timer", "kind=systemd_timer&kind=kube_controller"]
    {
        let refused = question(query).unwrap_err();
        let body: Value = serde_json::from_slice(&refused.body).unwrap();
        assert_eq!((refused.status, &body["error"]["code"]), (400, &json!("bad_request")), "{query}");
    }
    let asked = question("x=1&kind=systemd_timer&group=a%20b").unwrap();
    assert_eq!((asked.kind, asked.group.as_ref()), (Kind::SystemdTimer, "a b"));
    assert_eq!(question("kind=kube_controller").unwrap().group, "");
}

#[test]
fn a_timer_is_told_when_windows_begin() {
    for (windows, text) in [
        (window(&["Tue", "Wed"], 0, "UTC", 1), "Tue,Wed *-*-* 00:00:00 UTC"),
        (window(&["*"], 23, "Europe/Berlin", 3), "*-*-* 23:00:00 Europe/Berlin"),
        (Windows::Always, "*-*-* *:00,30:00 UTC"),
    ] {
        let reply = ask(Kind::SystemdTimer, &windows, "2026-01-05T00:00:00Z");
        assert_eq!((reply.status, reply.content_type), (200, TEXT));
        assert_eq!(String::from_utf8(reply.body.to_vec()).unwrap(), text);
    }
}

#[test]
fn no_window_is_said_clearly() {
    let timer = ask(Kind::SystemdTimer, &Windows::Never, "2026-01-05T00:00:00Z");
    let body: Value = serde_json::from_slice(&timer.body).unwrap();
    assert_eq!((timer.status, &body["error"]["code"]), (404, &json!("no_windows")));
    let kube = ask(Kind::KubeController, &Windows::Never, "2026-01-05T00:00:00Z");
    assert_eq!((kube.status, &*kube.body), (200, br#"{"windows":[]}"#.as_slice()));
}

#[test]
fn a_controller_is_told_beginning_and_end_of_the_coming_weeks_windows() {
    // 5 January 2026 is a Monday.
    let reply = ask(Kind::KubeController, &window(&["Mon", "Thu"], 4, "UTC", 2), "2026-01-05T05:00:00.5Z");
    assert_eq!((reply.status, reply.content_type), (200, JSON));
    let body: Value = serde_json::from_slice(&reply.body).unwrap();
    let days = ["01-05", "01-08", "01-12", "01-15", "01-19", "01-22", "01-26", "01-29", "02-02"];
    let expected =
        days.map(|day| json!({ "start": format!("2026-{day}T04:00:00Z"), "stop": format!("2026-{day}T06:00:00Z") }));
    assert_eq!(body, json!({ "windows": expected }));
}

#[test]
fn a_window_across_midnight_is_one() {
    let daily = window(&["*"], 23, "Europe/Berlin", 3);
    assert_eq!(
        first(&daily, "2026-01-05T23:30:00Z", 2),
        ["2026-01-05T22:00:00Z/2026-01-06T01:00:00Z", "2026-01-06T22:00:00Z/2026-01-07T01:00:00Z"]
    );
    // Summer time begins on 29 March 2026.
    assert_eq!(first(&daily, "2026-03-29T12:00:00Z", 1), ["2026-03-29T21:00:00Z/2026-03-30T00:00:00Z"]);
}

#[test]
fn windows_that_overlap_are_one() {
    let long = window(&["Mon", "Tue"], 12, "UTC", 30);
    assert_eq!(first(&long, "2026-01-05T00:00:00Z", 1), ["2026-01-05T12:00:00Z/2026-01-07T18:00:00Z"]);
}

#[test]
fn freezes_are_cut_out() {
    let daily = window(&["Mon", "Tue", "Wed", "Thu"], 10, "UTC", 4);
    let frozen = with_freezes(
        daily,
        &[
            ("2026-01-05T00:00:00Z", "2026-01-05T11:00:00Z"),
            ("2026-01-06T11:00:00Z", "2026-01-06T12:00:00Z"),
            ("2026-01-06T13:00:00Z", "2026-01-07T13:00:00Z"),
            ("2026-01-07T12:00:00Z", "2026-01-08T14:00:00Z"),
        ],
    );
    assert_eq!(
        first(&frozen, "2026-01-05T00:00:00Z", 4),
        [
            "2026-01-05T11:00:00Z/2026-01-05T14:00:00Z",
            "2026-01-06T10:00:00Z/2026-01-06T11:00:00Z",
            "2026-01-06T12:00:00Z/2026-01-06T13:00:00Z",
            "2026-01-12T10:00:00Z/2026-01-12T14:00:00Z",
        ]
    );
}

#[test]
fn a_group_has_its_own_window_and_another_name_that_of_the_last() {
    let resources = [two_groups(), version("enabled", "regular")];
    assert_eq!(timer(&resources, "dev").as_deref(), Some("Mon,Tue *-*-* 04:00:00 UTC"));
    for group in ["prod", "", "nobody-knows"] {
        assert_eq!(timer(&resources, group).as_deref(), Some("*-*-* 23:00:00 Europe/Berlin"), "{group}");
    }
    let (book, fleet) = book(&resources);
    let windows = windows(&book, "prod", &fleet.names);
    assert_eq!(first(&windows, "2026-01-05T00:00:00Z", 1), ["2026-01-04T22:00:00Z/2026-01-05T01:00:00Z"]);
}

#[test]
fn without_a_rollout_it_is_what_the_next_one_would_have() {
    assert_eq!(timer(&[two_groups()], "dev").as_deref(), Some("Mon,Tue *-*-* 04:00:00 UTC"));
    assert_eq!(timer(&[two_groups()], "nobody-knows").as_deref(), Some("*-*-* 23:00:00 Europe/Berlin"));
    // Managed Updates' default group, with and without a configuration.
    let empty = ("autoupdate_config", json!({ "agents": { "mode": "enabled", "strategy": "halt-on-error" } }));
    for resources in [vec![], vec![empty]] {
        assert_eq!(timer(&resources, "dev").as_deref(), Some("Mon,Tue,Wed,Thu *-*-* 12:00:00 UTC"));
    }
}

#[test]
fn time_based_windows_are_as_long_as_configured() {
    let regular = json!([{ "name": "dev", "days": ["*"], "start_hour": 4 }]);
    let agents = json!({ "mode": "enabled", "strategy": "time-based", "maintenance_window_duration": "2h",
        "schedules": { "regular": regular } });
    let (book, fleet) = book(&[("autoupdate_config", json!({ "agents": agents })), version("enabled", "regular")]);
    let windows = windows(&book, "dev", &fleet.names);
    assert_eq!(first(&windows, "2026-01-05T00:00:00Z", 1), ["2026-01-05T04:00:00Z/2026-01-05T06:00:00Z"]);
}

#[test]
fn an_immediate_version_has_no_windows_to_wait_for() {
    let resources = [two_groups(), version("enabled", "immediate")];
    assert_eq!(timer(&resources, "dev").as_deref(), Some(AT_ANY_TIME));
    let (book, fleet) = book(&resources);
    let windows = windows(&book, "dev", &fleet.names);
    assert_eq!(first(&windows, "2026-01-05T01:00:00Z", 9), ["2026-01-05T01:00:00Z/2026-02-02T01:00:00Z"]);
}

#[test]
fn where_updates_are_off_there_is_no_window() {
    for mode in ["suspended", "disabled"] {
        for schedule in ["regular", "immediate"] {
            assert_eq!(timer(&[two_groups(), version(mode, schedule)], "dev"), None, "{mode} {schedule}");
        }
    }
    let off = json!({ "agents": { "mode": "suspended", "strategy": "halt-on-error" } });
    assert_eq!(timer(&[("autoupdate_config", off)], "dev"), None);
    assert_eq!(calendar(&window(&[], 4, "UTC", 1)), None);
}

/// RFD 0169's resources: a group by labels, and perhaps a schedule without groups.
fn by_labels(schedule: &str, ungrouped: Option<Value>) -> Vec<(&'static str, Value)> {
    let groups =
        json!([{ "name": "dev", "start_hour": 4, "agents": { "node_labels_expression": "labels[\"a\"]==\"b\"" } }]);
    let mut config = json!({ "agent_auto_update_groups": { "regular": groups } });
    if let Some(ungrouped) = ungrouped {
        config["agent_auto_update"] = ungrouped;
    }
    let version =
        json!({ "agent_version": "17.2.1", "agent_start_version": "17.2.0", "agent_version_schedule": schedule });
    vec![("cluster_maintenance_config", config), ("autoupdate_version", version)]
}

#[test]
fn a_host_that_belongs_to_no_group_has_the_schedule_without_groups_or_none() {
    let regular = json!({ "regular": { "start_hour": 3, "days": ["Sat"] } });
    for (schedule, ungrouped, expected) in [
        ("regular", None, None),
        ("critical", None, None),
        ("regular", Some(json!({})), None),
        ("regular", Some(regular.clone()), Some("Sat *-*-* 03:00:00 UTC")),
        // By the regular schedule, and at any time.
        ("critical", Some(regular), Some(AT_ANY_TIME)),
        ("critical", Some(json!({ "critical": { "start_hour": 5 } })), Some("*-*-* 05:00:00 UTC")),
        ("regular", Some(json!({ "critical": { "start_hour": 5 } })), None),
    ] {
        let resources = by_labels(schedule, ungrouped);
        for group in ["prod", ""] {
            assert_eq!(timer(&resources, group).as_deref(), expected, "{resources:?}");
        }
        // Who names the group means it.
        let named = if schedule == "regular" { "*-*-* 04:00:00 UTC" } else { AT_ANY_TIME };
        assert_eq!(timer(&resources, "dev").as_deref(), Some(named));
    }
    // Without a rollout there is no version that could be critical.
    let without = by_labels("regular", Some(json!({ "regular": { "start_hour": 3 } })));
    assert_eq!(timer(&without[..1], "").as_deref(), Some("*-*-* 03:00:00 UTC"));
    assert_eq!(timer(&without[..1], "dev").as_deref(), Some("*-*-* 04:00:00 UTC"));
    assert_eq!(timer(&by_labels("regular", None)[..1], ""), None);
}

#[test]
fn a_critical_version_lifts_the_windows_of_regular_groups() {
    let groups = json!({ "regular": [{ "name": "dev", "start_hour": 4 }, { "name": "prod", "start_hour": 5 }] });
    let of = |schedule: &str| {
        let version =
            json!({ "agent_version": "17.2.1", "agent_start_version": "17.2.0", "agent_version_schedule": schedule });
        let config = json!({ "agent_auto_update_groups": groups });
        timer(&[("cluster_maintenance_config", config), ("autoupdate_version", version)], "dev")
    };
    assert_eq!(of("regular").as_deref(), Some("*-*-* 04:00:00 UTC"));
    assert_eq!(of("critical").as_deref(), Some(AT_ANY_TIME));
}

fn systemd_analyze() -> bool {
    let probe = Command::new("systemd-analyze").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
    probe.is_ok_and(|status| status.success())
}

#[test]
fn systemd_analyze_accepts_every_calendar_text() {
    if !systemd_analyze() {
        eprintln!("skipped: there is no systemd-analyze");
        return;
    }
    let mut all = vec![Windows::Always];
    for days in [&["*"] as &[&str], &["Mon"], &["Sun", "Sat"], &["Mon", "Tue", "Wed", "Thu", "Fri", "Sat"]] {
        for (hour, zone) in [(0, "UTC"), (23, "Europe/Berlin"), (9, "America/Argentina/Buenos_Aires")] {
            all.push(window(days, hour, zone, 1));
        }
    }
    for windows in all {
        let text = calendar(&windows).unwrap();
        let run = Command::new("systemd-analyze").args(["calendar", "--", &text]).output().unwrap();
        assert!(run.status.success(), "{text}: {}", String::from_utf8_lossy(&run.stderr));
    }
}

proptest! {
    #[test]
    fn listed_windows_are_in_order_apart_within_the_coming_weeks_and_open(
        days in proptest::sample::subsequence(vec!["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"], 1..=7),
        hour in 0u8..24,
        zone in proptest::sample::select(vec!["UTC", "Europe/Berlin", "America/Nuuk", "Australia/Lord_Howe"]),
        length in 1i64..40,
        now in 1_700_000_000i64..1_900_000_000,
        freezes in proptest::collection::vec((0i64..30 * 24, 1i64..200), 0..5),
    ) {
        let now = Timestamp::from_second(now).unwrap();
        let after = |hours: i64| now.saturating_add(SignedDuration::from_hours(hours)).unwrap();
        let freezes = freezes.into_iter().map(|(from, length)| Blackout { from: after(from), to: after(from + length), reason: String::new() }).collect();
        let opening = opening(&days, hour, zone);
        let length = SignedDuration::from_hours(length);
        let windows = Windows::At { opening: opening.clone(), length, freezes };
        let Windows::At { freezes, .. } = &windows else { unreachable!() };
        let spans = spans(&windows, now);
        for pair in spans.windows(2) {
            prop_assert!(pair[0].1 < pair[1].0);
        }
        for (start, stop) in &spans {
            prop_assert!(start < stop && *start < after(28 * 24));
            let minute = |at: Timestamp| SignedDuration::from_mins(1) + at.duration_since(*start);
            let last = stop.saturating_sub(minute(*start)).unwrap();
            for inside in [*start, last.max(*start)] {
                prop_assert!(opening.is_open(inside, length));
                prop_assert!(!freezes.iter().any(|freeze| freeze.covers(inside)));
            }
        }
        // Whether now is within one is what the engine says.
        let is_listed = spans.iter().any(|(start, stop)| *start <= now && now < *stop);
        prop_assert_eq!(is_listed, opening.is_open(now, length) && !freezes.iter().any(|freeze| freeze.covers(now)));
    }

    #[test]
    fn no_question_makes_a_panic(text in "((kind|group)=([a-z_%]{0,20}|.{0,10})&?){0,4}") {
        let _ = question(&text);
    }
}
