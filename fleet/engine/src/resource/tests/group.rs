use jiff::SignedDuration;

use super::super::key::KeyKind;
use super::super::keys;
use super::{group_fault, groups, rfd, v2, v2_text};
use crate::calendar::{Days, WindowOpening, Zone};
use crate::percent::Percent;
use crate::policy::{External, Gate, GroupPolicy, Members, OnHalt, Proof, Rate, RolloutPace};

fn percent(number: u8) -> Percent {
    Percent::new(number).unwrap()
}

fn gate(days: Days) -> Gate {
    Gate {
        opening: WindowOpening { days, hour: 0, zone: Zone::UTC },
        at_any_time: false,
        wait_hours: 0,
        soak_hours: 0,
        requires: Vec::new(),
        blackout: Vec::new(),
        approval: None,
        external: None,
    }
}

#[test]
fn a_group_of_v2_behaves_as_v2_does_and_looks_at_failures() {
    let wanted = GroupPolicy {
        name: "g".to_owned(),
        members: None,
        gate: gate(Days::WORK_START),
        pace: RolloutPace { canaries: 0, max_in_flight: Percent::ALL, jitter: 60, window: None, rate: None },
        proof: Proof {
            timeout_seconds: None,
            failure_seconds: 0,
            max_failed: percent(10),
            max_timeout: Percent::ALL,
            max_failed_of_ended: percent(50),
            max_churned: Percent::ALL,
            min_churned: 0,
            min_failed: 1,
            min_ended: 20,
            max_silent: percent(10),
            on_halt: OnHalt::Stop,
        },
        ..GroupPolicy::default()
    };
    assert_eq!(v2(""), wanted);
    assert_eq!(groups(&v2_text("time-based", &["{name: g}"])), [wanted]);
}

#[test]
fn a_group_of_the_rfd_has_the_rfd_s_defaults() {
    let wanted = GroupPolicy {
        name: "g".to_owned(),
        members: Some(Members::default()),
        gate: gate(Days::EVERY),
        pace: RolloutPace { canaries: 0, max_in_flight: Percent::ALL, jitter: 0, window: None, rate: None },
        proof: Proof {
            timeout_seconds: Some(60),
            failure_seconds: 0,
            max_failed: Percent::ZERO,
            max_timeout: percent(10),
            max_failed_of_ended: Percent::ALL,
            max_churned: Percent::ALL,
            min_churned: 0,
            min_failed: 1,
            min_ended: 20,
            max_silent: percent(10),
            on_halt: OnHalt::Stop,
        },
        ..GroupPolicy::default()
    };
    assert_eq!(rfd(""), wanted);
    assert_eq!(rfd("agents: {}"), wanted);
}

#[test]
fn each_key_sets_its_field() {
    type Set = fn(&mut GroupPolicy);
    let keys: [(&str, Set); 29] = [
        ("start_hour: 23", |group| group.gate.opening.hour = 23),
        ("timezone: america/sao_paulo", |group| group.gate.opening.zone = Zone::parse("America/Sao_Paulo").unwrap()),
        ("requires: [before]", |group| group.gate.requires = vec!["before".to_owned()]),
        ("approval: viewer", |group| group.gate.approval = Some("viewer".to_owned())),
        ("canary_count: 5", |group| group.pace.canaries = 5),
        ("jitter_seconds: 1", |group| group.pace.jitter = 1),
        ("window_duration: 10m", |group| group.pace.window = Some(SignedDuration::from_mins(10))),
        ("window_duration: 90m", |group| group.pace.window = Some(SignedDuration::from_mins(90))),
        ("window_duration: 7d", |group| group.pace.window = Some(SignedDuration::from_hours(168))),
        ("max_in_flight: 0", |group| group.pace.max_in_flight = Percent::ZERO),
        ("max_in_flight: 0%", |group| group.pace.max_in_flight = Percent::ZERO),
        ("max_in_flight: 7%", |group| group.pace.max_in_flight = percent(7)),
        ("max_in_flight: 7 %", |group| group.pace.max_in_flight = percent(7)),
        ("max_in_flight: \"7%\"", |group| group.pace.max_in_flight = percent(7)),
        ("max_in_flight: '7'", |group| group.pace.max_in_flight = percent(7)),
        ("max_in_flight: 100", |group| group.pace.max_in_flight = Percent::ALL),
        ("max_in_flight: 100%", |group| group.pace.max_in_flight = Percent::ALL),
        ("max_failed_before_halt: 7", |group| group.proof.max_failed = percent(7)),
        ("max_timeout_before_halt: 7", |group| group.proof.max_timeout = percent(7)),
        ("max_failed_of_ended: 7", |group| group.proof.max_failed_of_ended = percent(7)),
        ("max_silent: 7", |group| group.proof.max_silent = percent(7)),
        ("timeout_seconds: 31", |group| group.proof.timeout_seconds = Some(31)),
        ("failure_seconds: 7", |group| group.proof.failure_seconds = 7),
        ("min_failed_before_halt: 7", |group| group.proof.min_failed = 7),
        ("min_ended: 7", |group| group.proof.min_ended = 7),
        ("on_halt: stop", |group| group.proof.on_halt = OnHalt::Stop),
        ("on_halt: rollback", |group| group.proof.on_halt = OnHalt::Rollback),
        ("days: [Fri]", |group| group.gate.opening.days = Days::parse(&["Fri"]).unwrap()),
        ("requires: [before], soak_hours: 7", |group| {
            (group.gate.requires, group.gate.soak_hours) = (vec!["before".to_owned()], 7);
        }),
    ];
    for (key, set) in keys {
        for read in [v2, rfd] {
            let mut wanted = read("");
            set(&mut wanted);
            assert_eq!(read(key), wanted, "{key}");
        }
    }
}

#[test]
fn whole_numbers_are_taken_to_their_edges_and_not_beyond() {
    for key in keys::GROUP.keys {
        let KeyKind::Whole(least, most) = key.kind else { continue };
        for good in [least, most] {
            v2(&format!("{}: {good}", key.name));
        }
        for bad in [Some(most + 1), least.checked_sub(1)].into_iter().flatten() {
            let wanted = format!("{}: {bad} is not a whole number from {least} to {most}", key.name);
            assert_eq!(group_fault(&format!("{}: {bad}", key.name)), wanted);
        }
    }
}

#[test]
fn days_are_short_or_long_names_or_all() {
    for (text, names) in [
        ("[Mon, Tue, Wed, Thu, Fri, Sat, Sun]", &["*"][..]),
        ("[\"*\"]", &["*"]),
        ("[sunday, MON]", &["Mon", "Sun"]),
        ("[Fri, Fri]", &["Fri"]),
    ] {
        for group in [v2(&format!("days: {text}")), rfd(&format!("days: {text}"))] {
            assert_eq!(group.gate.opening.days.names(), names);
        }
    }
}

#[test]
fn members_are_those_of_the_label_expressions() {
    let keys =
        "agents: {node_labels_expression: 'labels[\"env\"]==\"a\"', instance_labels_expression: 'exists(labels.b)'}";
    for group in [v2(keys), rfd(keys)] {
        let members = group.members.unwrap();
        assert_eq!(members.node.unwrap().text(), "labels[\"env\"]==\"a\"");
        assert_eq!(members.instance.unwrap().text(), "exists(labels.b)");
    }
    assert_eq!(v2("agents: {}").members, Some(Members::default()));
}

#[test]
fn freezes_have_a_beginning_before_their_end() {
    let keys = "blackout: [{from: 2026-12-20T00:00:00Z, to: 2027-01-02T00:00:00+01:00, reason: holidays}, \
                {from: 2026-12-20T00:00:00Z, to: 2026-12-20T00:00:01Z}]";
    for group in [v2(keys), rfd(keys)] {
        assert_eq!(group.gate.blackout.len(), 2);
        assert_eq!(group.gate.blackout[0].to.to_string(), "2027-01-01T23:00:00Z");
        assert_eq!((group.gate.blackout[0].reason.as_str(), group.gate.blackout[1].reason.as_str()), ("holidays", ""));
    }
    let many = vec!["{from: 2026-01-01T00:00:00Z, to: 2026-01-02T00:00:00Z}"; 101].join(", ");
    assert_eq!(group_fault(&format!("blackout: [{many}]")), "blackout: has 101 freezes, 100 are allowed");
}

#[test]
fn a_rate_grows_by_a_factor_to_a_maximum() {
    let rate = |keys: &str| {
        let keys = format!("rate: {{{keys}}}");
        assert_eq!(v2(&keys).pace.rate, rfd(&keys).pace.rate);
        v2(&keys).pace.rate.unwrap()
    };
    let of = |base, factor_hundredths, maximum| Rate { base, share: None, factor_hundredths, maximum };
    assert_eq!(rate("base: 1"), of(1, 100, 1));
    assert_eq!(rate("base: 10, maximum: 20"), of(10, 100, 20));
    for (factor, hundredths) in [("1", 100), ("1.0", 100), ("1.5", 150), ("2.25", 225), ("1.05", 105), ("10", 1000)] {
        assert_eq!(rate(&format!("base: 10, factor: {factor}, maximum: 10000000")), of(10, hundredths, 10_000_000));
    }
}

#[test]
fn an_external_check_is_asked_by_https() {
    let external = |keys: &str| rfd(&format!("gate: {{{keys}}}")).gate.external.unwrap();
    let of = |url: &str, timeout_seconds| External { url: url.to_owned(), timeout_seconds };
    assert_eq!(external("url: \"https://ci.example.com/go\""), of("https://ci.example.com/go", 10));
    assert_eq!(external("url: \"http://127.0.0.1:1/\", timeout_seconds: 60"), of("http://127.0.0.1:1/", 60));
    assert_eq!(external("url: \"http://[::1]/\", timeout_seconds: 1").timeout_seconds, 1);
}

#[test]
fn all_keys_of_both_dialects_go_together() {
    let keys = "days: [Mon], start_hour: 3, soak_hours: 2, canary_count: 5, jitter_seconds: 1, max_in_flight: 5%, \
                timeout_seconds: 90, failure_seconds: 30, max_failed_before_halt: 2, max_timeout_before_halt: 3, \
                requires: [before], timezone: UTC, window_duration: 1h, approval: admin, min_failed_before_halt: 2, \
                max_failed_of_ended: 4, min_ended: 5, max_silent: 6, on_halt: rollback, \
                agents: {node_labels_expression: 'exists(labels.a)'}, rate: {base: 1}, gate: {url: \"https://a.b\"}, \
                blackout: [{from: 2026-01-01T00:00:00Z, to: 2026-01-02T00:00:00Z}]";
    assert_eq!(v2(keys), rfd(keys));
    assert_eq!(v2(&format!("{keys}, wait_hours: 3")).gate.wait_hours, 3);
}
