use jiff::SignedDuration;

use super::{group_fault, groups, rfd, rfd_text, v2, v2_text};
use crate::calendar::{Days, WindowOpening, Zone};
use crate::percent::Percent;
use crate::policy::{External, Gate, GroupPolicy, Members, OnHalt, Proof, Rate, RolloutPace};

fn percent(number: u8) -> Percent {
    Percent::new(number).unwrap()
}

fn gate(days: Days) -> Gate {
    Gate {
        opening: WindowOpening { days, hour: 0, zone: Zone::UTC },
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
            min_failed: 1,
            min_ended: 20,
            max_silent: percent(10),
            on_halt: OnHalt::Stop,
        },
    };
    assert_eq!(v2(""), wanted);
    assert_eq!(groups(&v2_text("time-based", &["{name: g}"])), [wanted]);
}

#[test]
fn a_group_of_the_rfd_has_the_rfd_s_defaults() {
    let wanted = GroupPolicy {
        name: "g".to_owned(),
        members: Some(Members { node: None, instance: None }),
        gate: gate(Days::EVERY),
        pace: RolloutPace { canaries: 0, max_in_flight: Percent::ALL, jitter: 0, window: None, rate: None },
        proof: Proof {
            timeout_seconds: Some(60),
            failure_seconds: 0,
            max_failed: Percent::ZERO,
            max_timeout: percent(10),
            max_failed_of_ended: Percent::ALL,
            min_failed: 1,
            min_ended: 20,
            max_silent: percent(10),
            on_halt: OnHalt::Stop,
        },
    };
    assert_eq!(rfd(""), wanted);
    assert_eq!(rfd("agents: {}"), wanted);
}

#[test]
fn a_name_is_needed() {
    let found = super::faults(&rfd_text(&["{start_hour: 1}", "{name: ~}", "~", "a"]));
    assert_eq!(
        found,
        "line 5: spec.agent_auto_update_groups.regular[0].name: is missing; give the group's name\n\
         line 6: spec.agent_auto_update_groups.regular[1].name: is missing; give the group's name\n\
         line 7: spec.agent_auto_update_groups.regular[2]: is missing; give a group\n\
         line 7: spec.agent_auto_update_groups.regular[2].name: is missing; give the group's name\n\
         line 8: spec.agent_auto_update_groups.regular[3]: a is not a mapping of keys and values"
    );
}

/// Checks the edges of a whole number: `read` gets it from a group, and `good` and `bad` are as they stand in a text.
fn whole(key: &str, read: fn(&GroupPolicy) -> Option<u32>, good: [u32; 2], above: u32) {
    for number in good {
        for group in [v2(&format!("{key}: {number}")), rfd(&format!("{key}: {number}"))] {
            assert_eq!(read(&group), Some(number), "{key}");
        }
    }
    let mut bad = vec![above.to_string(), "-1".to_owned(), "1.0".to_owned(), "01".to_owned(), "x".to_owned()];
    bad.extend(good[0].checked_sub(1).map(|below| below.to_string()));
    bad.push(format!("\"{}\"", good[0]));
    for bad in bad {
        let wanted = format!("{key}: {bad} is not a whole number from {} to {}", good[0], good[1]);
        assert_eq!(group_fault(&format!("{key}: {bad}")), wanted);
    }
    assert_eq!(
        group_fault(&format!("{key}: []")),
        format!("{key}: a list is not a whole number from {} to {}", good[0], good[1])
    );
}

#[test]
fn start_hour_is_0_to_23() {
    whole("start_hour", |group| Some(group.gate.opening.hour.into()), [0, 23], 24);
}

#[test]
fn canary_count_is_0_to_5() {
    whole("canary_count", |group| Some(group.pace.canaries), [0, 5], 6);
}

#[test]
fn jitter_seconds_is_0_to_60() {
    whole("jitter_seconds", |group| Some(group.pace.jitter), [0, 60], 61);
}

#[test]
fn timeout_seconds_is_30_to_900() {
    whole("timeout_seconds", |group| group.proof.timeout_seconds, [30, 900], 901);
}

#[test]
fn failure_seconds_is_0_to_900() {
    whole("failure_seconds", |group| Some(group.proof.failure_seconds), [0, 900], 901);
}

#[test]
fn minimum_samples_are_at_least_one_host() {
    whole("min_failed_before_halt", |group| Some(group.proof.min_failed), [1, 10_000_000], 10_000_001);
    whole("min_ended", |group| Some(group.proof.min_ended), [1, 10_000_000], 10_000_001);
}

#[test]
fn wait_and_soak_are_at_most_a_year_and_not_negative() {
    assert_eq!(v2("wait_hours: 8760").gate.wait_hours, 8760);
    assert_eq!(v2("soak_hours: 8760").gate.soak_hours, 8760);
    assert_eq!(rfd("wait_hours: 0, soak_hours: 0").gate.wait_hours, 0);
    for key in ["wait_hours", "soak_hours"] {
        for bad in ["8761", "-1"] {
            let wanted = format!("{key}: {bad} is not a whole number from 0 to 8760");
            assert_eq!(group_fault(&format!("{key}: {bad}")), wanted);
        }
    }
}

#[test]
fn percentages_are_whole_with_or_without_their_sign() {
    type Read = fn(&GroupPolicy) -> Percent;
    let keys: [(&str, Read); 5] = [
        ("max_in_flight", |group| group.pace.max_in_flight),
        ("max_failed_before_halt", |group| group.proof.max_failed),
        ("max_timeout_before_halt", |group| group.proof.max_timeout),
        ("max_failed_of_ended", |group| group.proof.max_failed_of_ended),
        ("max_silent", |group| group.proof.max_silent),
    ];
    for (key, read) in keys {
        for (text, number) in
            [("0", 0), ("0%", 0), ("7%", 7), ("7 %", 7), ("\"7%\"", 7), ("'7'", 7), ("100", 100), ("100%", 100)]
        {
            for group in [v2(&format!("{key}: {text}")), rfd(&format!("{key}: {text}"))] {
                assert_eq!(read(&group), percent(number), "{key}: {text}");
            }
        }
        for bad in ["101", "101%", "-1", "0.5%", "ten", "\"%\"", "1%%", "256", "{}"] {
            let shown = if bad == "{}" { "a mapping" } else { bad };
            let wanted = format!("{key}: {shown} is not a whole percentage from 0% to 100%");
            assert_eq!(group_fault(&format!("{key}: {bad}")), wanted);
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
    let days = "is not Mon, Tue, Wed, Thu, Fri, Sat, Sun or \"*\"";
    assert_eq!(group_fault("days: [Mon, Mo]"), format!("days[1]: Mo {days}"));
    assert_eq!(group_fault("days: [\"\"]"), format!("days[0]: \"\" {days}"));
    assert_eq!(group_fault("days: [~]"), "days[0]: is missing; give a day");
    assert_eq!(group_fault("days: [1]"), "days[0]: 1 is not a text: it needs quotes");
    assert_eq!(group_fault("days: Mon"), "days: Mon is not a list");
}

#[test]
fn a_window_without_days_never_opens_and_is_refused() {
    assert_eq!(
        group_fault("days: []"),
        "days: is empty: such a window never opens; leave it out for the default, or give \"*\""
    );
}

#[test]
fn a_timezone_is_one_of_the_iana_database() {
    for group in [v2("timezone: America/Sao_Paulo"), rfd("timezone: america/sao_paulo")] {
        assert_eq!(group.gate.opening.zone.name(), "America/Sao_Paulo");
    }
    assert_eq!(group_fault("timezone: Mars"), "timezone: Mars is not a time zone such as UTC or Europe/Berlin");
    assert_eq!(group_fault("timezone: 1"), "timezone: 1 is not a text: it needs quotes");
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
    assert_eq!(v2("agents: {}").members, Some(Members { node: None, instance: None }));
    let found = group_fault("agents: {node_labels_expression: 'labels.a =='}");
    assert!(
        found.starts_with("agents.node_labels_expression: \"labels.a ==\" is not a label expression: at "),
        "{found}"
    );
    assert_eq!(
        group_fault("agents: {node_label_expression: x}"),
        "agents.node_label_expression: is not a known key; did you mean node_labels_expression?"
    );
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
    let time = "2026-12-20T00:00:00Z";
    assert_eq!(
        group_fault(&format!("blackout: [{{from: {time}, to: {time}}}]")),
        format!("blackout[0].to: {time} is not later than from")
    );
    assert_eq!(
        group_fault(&format!("blackout: [{{from: {time}}}]")),
        "blackout[0].to: is missing; give the first instant after it"
    );
    assert_eq!(
        group_fault(&format!("blackout: [{{from: 2026-12-20, to: {time}}}]")),
        "blackout[0].from: 2026-12-20 is not a time with its offset, such as 2026-12-24T00:00:00Z"
    );
    let many = vec!["{from: 2026-01-01T00:00:00Z, to: 2026-01-02T00:00:00Z}"; 101].join(", ");
    assert_eq!(group_fault(&format!("blackout: [{many}]")), "blackout: has 101 freezes, 100 are allowed");
}

#[test]
fn a_window_duration_is_ten_minutes_to_a_week() {
    for (text, minutes) in [("10m", 10), ("90m", 90), ("7d", 7 * 24 * 60)] {
        for group in [v2(&format!("window_duration: {text}")), rfd(&format!("window_duration: {text}"))] {
            assert_eq!(group.pace.window, Some(SignedDuration::from_mins(minutes)));
        }
    }
    for bad in ["0", "599s", "169h", "3600", "\"\""] {
        let wanted = format!("window_duration: {bad} is not a duration with its unit from 10m to 7d");
        assert_eq!(group_fault(&format!("window_duration: {bad}")), wanted);
    }
}

#[test]
fn a_rate_grows_by_a_factor_to_a_maximum() {
    let rate = |keys: &str| {
        let keys = format!("rate: {{{keys}}}");
        assert_eq!(v2(&keys).pace.rate, rfd(&keys).pace.rate);
        v2(&keys).pace.rate.unwrap()
    };
    let of = |base, factor_hundredths, maximum| Rate { base, factor_hundredths, maximum };
    assert_eq!(rate("base: 1"), of(1, 100, 1));
    assert_eq!(rate("base: 10, maximum: 20"), of(10, 100, 20));
    for (factor, hundredths) in [("1", 100), ("1.0", 100), ("1.5", 150), ("2.25", 225), ("1.05", 105), ("10", 1000)] {
        assert_eq!(rate(&format!("base: 10, factor: {factor}, maximum: 10000000")), of(10, hundredths, 10_000_000));
    }
    for bad in ["0.99", "10.01", "1.234", "1.", ".5", "2x", "-1", "\"2\"", "1e0"] {
        let wanted = format!("rate.factor: {bad} is not a number from 1 to 10 with at most two decimals");
        assert_eq!(group_fault(&format!("rate: {{base: 1, factor: {bad}, maximum: 1}}")), wanted);
    }
    assert_eq!(group_fault("rate: {}"), "rate.base: is missing; give the hosts of the first hour");
    assert_eq!(group_fault("rate: {base: 0}"), "rate.base: 0 is not a whole number from 1 to 10000000");
    assert_eq!(group_fault("rate: {base: 10, maximum: 9}"), "rate.maximum: 9 is not at least the base, 10");
    assert_eq!(
        group_fault("rate: {base: 10, factor: 2}"),
        "rate.maximum: is missing; give where the growth ends, in hosts an hour"
    );
    assert_eq!(group_fault("rate: 10"), "rate: 10 is not a mapping of keys and values");
}

#[test]
fn an_approval_names_a_role_of_the_server() {
    for role in ["viewer", "operator", "admin"] {
        assert_eq!(v2(&format!("approval: {role}")).gate.approval.as_deref(), Some(role));
        assert_eq!(rfd(&format!("approval: {role}")).gate.approval.as_deref(), Some(role));
    }
    for bad in ["release-manager", "Admin", "\"\"", "true"] {
        let wanted = format!("approval: {bad} is not viewer, operator or admin");
        assert_eq!(group_fault(&format!("approval: {bad}")), wanted);
    }
}

#[test]
fn an_external_check_is_asked_by_https() {
    let external = |keys: &str| rfd(&format!("gate: {{{keys}}}")).gate.external.unwrap();
    let of = |url: &str, timeout_seconds| External { url: url.to_owned(), timeout_seconds };
    assert_eq!(external("url: \"https://ci.example.com/go\""), of("https://ci.example.com/go", 10));
    assert_eq!(external("url: \"http://127.0.0.1:1/\", timeout_seconds: 60"), of("http://127.0.0.1:1/", 60));
    assert_eq!(external("url: \"http://[::1]/\", timeout_seconds: 1").timeout_seconds, 1);
    assert_eq!(
        group_fault("gate: {url: \"http://ci.example.com/\"}"),
        "gate.url: \"http://ci.example.com/\" is not an https address: http is for loopback addresses alone"
    );
    assert_eq!(group_fault("gate: {}"), "gate.url: is missing; give the address that is asked");
    assert_eq!(
        group_fault("gate: {url: \"https://a.b/\", timeout_seconds: 61}"),
        "gate.timeout_seconds: 61 is not a whole number from 1 to 60"
    );
}

#[test]
fn a_halt_stops_or_rolls_back() {
    assert_eq!(v2("on_halt: stop").proof.on_halt, OnHalt::Stop);
    assert_eq!(rfd("on_halt: rollback").proof.on_halt, OnHalt::Rollback);
    assert_eq!(group_fault("on_halt: pause"), "on_halt: pause is not stop or rollback");
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
    assert_eq!(
        group_fault("jitter: 5"),
        "jitter: is not a known key; known are name, agents, days, start_hour, timezone, \
        wait_hours, soak_hours, requires, blackout, approval, gate, canary_count, max_in_flight, jitter_seconds, \
        window_duration, rate, max_failed_before_halt, max_timeout_before_halt, max_failed_of_ended, max_silent, \
        timeout_seconds, failure_seconds, min_failed_before_halt, min_ended, on_halt"
    );
    assert_eq!(group_fault("startHour: 5"), "startHour: is not a known key; did you mean start_hour?");
}
