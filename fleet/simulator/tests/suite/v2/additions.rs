//! FLEET §2: keys of ours in a configuration of Managed Updates v2.

use serde_json::{Value, json};

use super::{
    NEW, OLD, Steps, agents, asks, halting, immediate, is, mark_done, rollout, start, start_by_force, state_and_reason,
    t, timed, updated, version, version_in, version_of,
};
use crate::support::Script;

/// `dev` at 12 o'clock and `prod` at 14, with these keys.
fn prod(keys: &Value) -> Script {
    let mut prod = json!({ "name": "prod", "days": ["*"], "start_hour": 14 });
    prod.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    rollout(&json!([{ "name": "dev", "days": ["*"], "start_hour": 12 }, prod]))
}

/// One group at 12 o'clock with these keys.
fn dev(keys: &Value) -> Script {
    let mut dev = json!({ "name": "dev", "days": ["*"], "start_hour": 12 });
    dev.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    rollout(&json!([dev]))
}

// soak_hours: since the previous group was done.

#[test]
fn soak_hours_count_from_the_end_of_the_group_before() {
    let script = prod(&json!({ "soak_hours": 2 })).on("Mon 12:30:10", mark_done(&["dev"]));
    assert_eq!(script.state("Mon 14:30:09", "prod"), "unstarted");
    assert_eq!(script.state("Mon 14:30:10", "prod"), "active");
}

#[test]
fn soak_hours_that_end_after_the_window_wait_for_the_next_one() {
    let script = prod(&json!({ "soak_hours": 3 })).on("Mon 12:10", mark_done(&["dev"]));
    assert_eq!(script.state("Mon 14:59:59", "prod"), "unstarted");
    assert_eq!(script.state("Mon 15:10", "prod"), "unstarted");
    assert_eq!(script.state("Tue 14:00", "prod"), "active");
}

#[test]
fn soak_and_wait_hours_must_both_be_over() {
    let script = prod(&json!({ "soak_hours": 1, "wait_hours": 24 }))
        .on("Mon 12:00:30", start_nothing())
        .on("Mon 12:30", mark_done(&["dev"]));
    assert_eq!(script.state("Mon 14:30", "prod"), "unstarted");
    assert_eq!(script.state("Tue 13:59:59", "prod"), "unstarted");
    assert_eq!(script.state("Tue 14:00", "prod"), "active");
}

/// A line that does nothing.
fn start_nothing() -> Value {
    json!({ "counts": [] })
}

#[test]
fn start_does_not_wait_for_soak_hours() {
    let script = prod(&json!({ "soak_hours": 48 })).on("Mon 12:30", start(&["prod"]));
    assert_eq!(script.state("Mon 12:30", "prod"), "active");
}

#[test]
fn the_first_group_has_nothing_to_soak_after() {
    let (_, message) = Script::default()
        .refusal("Mon 11:00", halting(&json!([{ "name": "dev", "days": ["*"], "start_hour": 12, "soak_hours": 5 }])));
    assert!(message.contains("soak_hours"), "{message}");
}

// Freezes.

fn freeze(from: &str, to: &str) -> Value {
    json!({ "blackout": [{ "from": t(from), "to": t(to), "reason": "year's end" }] })
}

#[test]
fn no_group_starts_in_a_freeze() {
    let script = dev(&freeze("Mon 10:00", "Tue 12:10"));
    for when in ["Mon 12:00", "Mon 12:30", "Tue 12:00", "Tue 12:09:59"] {
        assert_eq!(script.because(when, "dev"), state_and_reason("unstarted", "cannot_start"), "{when}");
        assert_eq!(script.find(when, "dev"), is(OLD, false), "{when}");
    }
    assert_eq!(script.state("Tue 12:10", "dev"), "active");
    assert_eq!(script.find("Tue 12:10", "dev"), is(NEW, true));
}

#[test]
fn a_freeze_includes_its_first_second_and_not_its_end() {
    let script = dev(&freeze("Mon 12:00", "Mon 12:30"));
    assert_eq!(script.state("Mon 12:00", "dev"), "unstarted");
    assert_eq!(script.state("Mon 12:29:59", "dev"), "unstarted");
    assert_eq!(script.state("Mon 12:30", "dev"), "active");
    let script = dev(&freeze("Mon 12:00:01", "Mon 12:30"));
    assert_eq!(script.find("Mon 12:00", "dev"), is(NEW, true));
    assert!(!script.find("Mon 12:00:01", "dev").1);
}

#[test]
fn nobody_is_let_go_in_a_freeze_of_an_active_group() {
    let script =
        dev(&freeze("Mon 12:10", "Mon 13:10")).hosts("Mon 11:58", 1..=3, "dev", OLD).on("Mon 12:05", asks(1, "dev"));
    for when in ["Mon 12:10", "Mon 12:40", "Mon 13:09:59"] {
        assert!(!script.find(when, "dev").1, "{when}");
        assert!(!script.find_host(when, 2, "dev").1, "{when}");
        assert!(!script.find_host(when, 9, "dev").1, "{when}");
    }
    assert_eq!(script.find_host("Mon 13:10", 2, "dev"), is(NEW, true));
}

/// FLEET §4: not let go: start_version, no update.
#[test]
fn who_is_not_let_go_in_a_freeze_is_answered_the_start_version() {
    let script =
        dev(&freeze("Mon 12:10", "Mon 13:10")).hosts("Mon 11:58", 1..=3, "dev", OLD).on("Mon 12:05", asks(1, "dev"));
    assert_eq!(script.find_host("Mon 12:20", 2, "dev"), is(OLD, false));
    assert_eq!(script.find("Mon 12:20", "dev"), is(OLD, false));
    // Who was told keeps the target.
    assert_eq!(script.find_host("Mon 12:20", 1, "dev").0, NEW);
}

#[test]
fn late_comers_of_a_done_group_wait_for_the_end_of_a_freeze() {
    let script = dev(&freeze("Mon 13:00", "Mon 14:00")).on("Mon 12:30", mark_done(&["dev"]));
    assert_eq!(script.find("Mon 12:59:59", "dev"), is(NEW, true));
    assert!(!script.find("Mon 13:00", "dev").1);
    assert!(!script.find_host("Mon 13:30", 1, "dev").1);
    assert!(script.find("Mon 14:00", "dev").1);
}

#[test]
fn no_canary_is_told_in_a_freeze() {
    let mut keys = freeze("Mon 12:05", "Mon 13:00");
    keys["canary_count"] = 1.into();
    let script = dev(&keys).hosts("Mon 11:58", 1..=1, "dev", OLD);
    assert_eq!(script.state("Mon 12:01", "dev"), "canary");
    assert!(!script.find_host("Mon 12:05", 1, "dev").1);
    assert!(!script.find_host("Mon 12:30", 1, "dev").1);
    // It goes on afterwards, with this one or a fresh one.
    let script = script.on("Mon 12:59", super::report(1, "dev", OLD));
    assert_eq!(script.find_host("Mon 13:00", 1, "dev"), is(NEW, true));
}

#[test]
fn start_alone_does_not_pass_a_freeze() {
    let script =
        dev(&freeze("Mon 10:00", "Tue 10:00")).hosts("Mon 11:10", 1..=2, "dev", OLD).on("Mon 11:30", start(&["dev"]));
    for when in ["Mon 11:30", "Mon 12:30", "Tue 09:59:59"] {
        assert!(!script.find(when, "dev").1, "{when}");
        assert!(!script.find_host(when, 1, "dev").1, "{when}");
    }
}

#[test]
fn start_force_passes_a_freeze() {
    let script = dev(&freeze("Mon 10:00", "Tue 10:00"))
        .hosts("Mon 11:10", 1..=2, "dev", OLD)
        .on("Mon 11:30", start_by_force(&["dev"]));
    assert_eq!(script.state("Mon 11:30", "dev"), "active");
    assert_eq!(script.find("Mon 11:30", "dev"), is(NEW, true));
    assert_eq!(script.find_host("Mon 11:30", 1, "dev"), is(NEW, true));
}

#[test]
fn start_force_of_one_group_does_not_pass_the_freeze_of_another() {
    let mut groups = json!([
        { "name": "dev", "days": ["*"], "start_hour": 12 },
        { "name": "prod", "days": ["*"], "start_hour": 12 },
    ]);
    for group in groups.as_array_mut().unwrap() {
        group["blackout"] = freeze("Mon 10:00", "Tue 10:00")["blackout"].clone();
    }
    let script = rollout(&groups).on("Mon 11:30", start_by_force(&["dev"])).on("Mon 12:10", mark_done(&["dev"]));
    assert_eq!(script.state("Mon 12:30", "prod"), "unstarted");
    assert!(!script.find("Mon 12:30", "prod").1);
}

#[test]
fn a_rollout_after_one_that_was_started_by_force_is_frozen_again() {
    let script = dev(&freeze("Mon 10:00", "Wed 10:00"))
        .on("Mon 11:30", start_by_force(&["dev"]))
        .on("Mon 11:40", version_of(OLD, "17.2.2"));
    assert!(!script.find("Tue 12:10", "dev").1);
    assert_eq!(script.state("Tue 12:10", "dev"), "unstarted");
}

#[test]
fn several_freezes_count_each() {
    let script = dev(&json!({ "blackout": [
        { "from": t("Mon 12:00"), "to": t("Mon 12:20"), "reason": "a" },
        { "from": t("Mon 12:20"), "to": t("Mon 12:40"), "reason": "b" },
        { "from": t("Mon 12:30"), "to": t("Mon 12:50"), "reason": "c" },
    ] }));
    for when in ["Mon 12:00", "Mon 12:19:59", "Mon 12:20", "Mon 12:39:59", "Mon 12:40", "Mon 12:49:59"] {
        assert!(!script.find(when, "dev").1, "{when}");
    }
    assert!(script.find("Mon 12:50", "dev").1);
}

#[test]
fn a_freeze_ends_after_it_begins() {
    for (from, to) in [("Mon 12:00", "Mon 12:00"), ("Mon 12:00", "Mon 11:00")] {
        let mut group = json!({ "name": "dev" });
        group["blackout"] = freeze(from, to)["blackout"].clone();
        let (_, message) = Script::default().refusal("Mon 11:00", halting(&json!([group])));
        assert!(message.contains("blackout"), "{message}");
    }
}

// Approval.

#[test]
fn a_group_waits_for_its_approval() {
    let script = dev(&json!({ "approval": "operator" }));
    assert_eq!(script.state("Mon 12:30", "dev"), "unstarted");
    assert_eq!(script.find("Mon 12:30", "dev"), is(OLD, false));
    let approved = script.clone().on("Mon 12:40", json!({ "approve": { "group": "dev" } }));
    assert_eq!(approved.state("Mon 12:40", "dev"), "active");
    let too_late = script.on("Mon 13:00", json!({ "approve": { "group": "dev" } }));
    assert_eq!(too_late.state("Mon 13:00", "dev"), "unstarted");
    assert_eq!(too_late.state("Tue 12:00", "dev"), "active");
}

#[test]
fn an_approval_alone_opens_no_window() {
    let script = prod(&json!({ "approval": "operator" })).on("Mon 11:30", json!({ "approve": { "group": "prod" } }));
    assert_eq!(script.state("Mon 12:30", "prod"), "unstarted");
    let script = script.on("Mon 12:40", mark_done(&["dev"]));
    assert_eq!(script.state("Mon 13:59:59", "prod"), "unstarted");
    assert_eq!(script.state("Mon 14:00", "prod"), "active");
}

/// FLEET §2: of this rollout.
#[test]
fn an_approval_is_of_one_rollout() {
    let script = dev(&json!({ "approval": "operator" }))
        .on("Mon 11:30", json!({ "approve": { "group": "dev" } }))
        .on("Mon 11:40", version_of(OLD, "17.2.2"));
    assert_eq!(script.state("Mon 12:30", "dev"), "unstarted");
    assert_eq!(script.find("Tue 12:30", "dev"), is(OLD, false));
}

#[test]
fn an_approval_of_one_group_is_none_of_another() {
    let script = rollout(&json!([
        { "name": "dev", "days": ["*"], "start_hour": 12, "approval": "operator" },
        { "name": "prod", "days": ["*"], "start_hour": 12, "approval": "admin" },
    ]))
    .on("Mon 11:30", json!({ "approve": { "group": "dev" } }))
    .on("Mon 12:10", mark_done(&["dev"]));
    assert_eq!(script.state("Mon 12:30", "prod"), "unstarted");
}

#[test]
fn what_cannot_be_approved_is_refused() {
    let approve = |group: &str| json!({ "approve": { "group": group } });
    assert_eq!(dev(&json!({ "approval": "operator" })).refusal("Mon 11:30", approve("nope")).0, "not_found");
    assert_eq!(Script::default().refusal("Mon 11:30", approve("dev")).0, "no_rollout");
    dev(&json!({})).refusal("Mon 11:30", approve("dev"));
}

/// FLEET §2: `immediate` has no groups, so nothing that groups have holds; a mode and a stop do.
#[test]
fn immediate_passes_what_groups_have_and_no_stop() {
    let group = json!({
        "name": "dev", "days": ["Sun"], "start_hour": 3, "canary_count": 1, "max_in_flight": "1%", "approval": "admin",
        "gate": { "url": "https://example.com/go" }, "blackout": freeze("Mon 10:00", "Tue 12:10")["blackout"],
    });
    let groups = Script::default().on("Mon 11:00", halting(&json!([group])));
    assert_eq!(groups.clone().on("Mon 11:00", version()).find_host("Mon 12:30", 1, "dev"), is(OLD, false));
    let at_once = groups.clone().on("Mon 11:00", immediate());
    assert_eq!(at_once.find_host("Mon 12:30", 1, "dev"), is(NEW, true));
    let held = at_once.on("Mon 12:40", json!({ "halt": { "groups": [], "all": true } }));
    assert_eq!(held.find_host("Mon 12:40", 2, "dev"), is(OLD, false));
    let suspended = groups.on("Mon 11:00", version_in("suspended", "immediate"));
    assert_eq!(suspended.find_host("Mon 12:30", 1, "dev"), is(NEW, false));
}

// An external check: go, wait or stop; no answer is wait.

fn gated() -> Script {
    dev(&json!({ "gate": { "url": "https://gate.example/check", "timeout_seconds": 10 } }))
}

fn says(answer: &str) -> Value {
    json!({ "gate": { "group": "dev", "answer": answer } })
}

#[test]
fn no_answer_of_a_gate_is_wait() {
    assert_eq!(gated().state("Mon 12:30", "dev"), "unstarted");
    assert_eq!(gated().find("Sun 12:30", "dev"), is(OLD, false));
    assert_eq!(gated().on("Mon 12:10", says("wait")).state("Mon 12:30", "dev"), "unstarted");
}

#[test]
fn a_gate_that_says_go_lets_the_group_start() {
    assert_eq!(gated().on("Mon 12:10", says("go")).state("Mon 12:10", "dev"), "active");
    let script = gated().on("Mon 12:10", says("wait")).on("Mon 12:20", says("go"));
    assert_eq!(script.state("Mon 12:20", "dev"), "active");
    assert_eq!(gated().on("Mon 12:10", says("wait")).state("Mon 12:19:59", "dev"), "unstarted");
    assert_eq!(gated().on("Mon 13:00", says("go")).state("Mon 13:00", "dev"), "unstarted");
}

#[test]
fn a_gate_that_takes_its_go_back_keeps_the_group() {
    let script = gated().on("Mon 11:30", says("go")).on("Mon 11:40", says("wait"));
    assert_eq!(script.state("Mon 12:30", "dev"), "unstarted");
}

#[test]
fn a_gate_that_says_stop_halts_the_group() {
    let script = gated().on("Mon 12:10", says("stop"));
    assert_eq!(script.because("Mon 12:10", "dev"), state_and_reason("halted", "gate_stopped"));
    assert_eq!(script.state("Tue 12:30", "dev"), "halted");
    // Only a person ends it.
    let script = script.on("Tue 12:30", says("go"));
    assert!(!script.find("Tue 12:30", "dev").1);
    let script = script.on("Tue 12:40", json!({ "run": { "groups": ["dev"] } }));
    assert_ne!(script.state("Tue 12:40", "dev"), "halted");
}

#[test]
fn a_gates_answer_is_of_one_rollout() {
    let script = gated().on("Mon 11:30", says("go")).on("Mon 11:40", version_of(OLD, "17.2.2"));
    assert_eq!(script.state("Mon 12:30", "dev"), "unstarted");
}

#[test]
fn start_lifts_a_gate() {
    assert_eq!(gated().on("Mon 11:30", start(&["dev"])).state("Mon 11:30", "dev"), "active");
    // An approval is a person's, and no gate that a start lifts.
    assert_eq!(dev(&json!({ "approval": "operator" })).refusal("Mon 11:30", start(&["dev"])).0, "conflict");
}

#[test]
fn a_gates_answer_is_one_of_three_and_its_address_https() {
    gated().refusal("Mon 11:30", says("maybe"));
    dev(&json!({})).refusal("Mon 11:30", says("go"));
    for url in ["http://gate.example/check", "gate.example", ""] {
        let (_, message) = Script::default()
            .refusal("Mon 11:00", halting(&json!([{ "name": "dev", "gate": { "url": url, "timeout_seconds": 10 } }])));
        assert!(message.contains("gate.url"), "{message}");
    }
}

// window_duration: hosts are let go only within.

#[test]
fn hosts_are_let_go_within_the_window_duration_only() {
    let script = dev(&json!({ "window_duration": "2h" })).hosts("Mon 11:58", 1..=10, "dev", OLD);
    assert_eq!(script.find_host("Mon 12:00", 1, "dev"), is(NEW, true));
    assert_eq!(script.find_host("Mon 13:59:59", 1, "dev"), is(NEW, true));
    for when in ["Mon 14:00", "Mon 20:00", "Tue 11:59:59"] {
        assert!(!script.find_host(when, 1, "dev").1, "{when}");
        assert!(!script.find(when, "dev").1, "{when}");
        assert_eq!(script.state(when, "dev"), "active", "{when}");
    }
    assert_eq!(script.find_host("Tue 12:00", 1, "dev"), is(NEW, true));
    assert!(!script.find_host("Tue 14:00", 1, "dev").1);
}

/// FLEET §4: not let go: start_version, no update.
#[test]
fn who_is_not_let_go_outside_the_window_is_answered_the_start_version() {
    let script = dev(&json!({ "window_duration": "2h" })).hosts("Mon 11:58", 1..=10, "dev", OLD);
    assert_eq!(script.find_host("Mon 14:00", 1, "dev"), is(OLD, false));
    assert_eq!(script.find("Mon 14:00", "dev"), is(OLD, false));
}

#[test]
fn a_window_duration_across_midnight_belongs_to_the_day_of_its_beginning() {
    let script = rollout(&json!([{ "name": "dev", "days": ["Mon"], "start_hour": 23, "window_duration": "3h" }]))
        .hosts("Mon 22:58", 1..=10, "dev", OLD);
    assert!(script.find_host("Mon 23:30", 1, "dev").1);
    assert!(script.find_host("Tue 01:59:59", 1, "dev").1);
    assert!(!script.find_host("Tue 02:00", 1, "dev").1);
    assert!(!script.find_host("Tue 23:30", 1, "dev").1);
    assert!(script.find_host("next Mon 23:30", 1, "dev").1);
}

#[test]
fn late_comers_of_a_done_group_wait_for_its_window_too() {
    let script = dev(&json!({ "window_duration": "2h" })).on("Mon 12:30", mark_done(&["dev"]));
    assert!(script.find("Mon 13:59", "dev").1);
    assert!(!script.find("Mon 14:00", "dev").1);
    assert!(script.find("Tue 12:00", "dev").1);
}

#[test]
fn a_group_that_is_done_outside_its_window_is_done() {
    let script =
        dev(&json!({ "window_duration": "1h" })).hosts("Mon 11:58", 1..=1, "dev", OLD).on("Mon 12:59", asks(1, "dev"));
    assert_eq!(script.on("Mon 13:10", updated(1, "dev")).state("Mon 13:10", "dev"), "done");
}

// Hosts of no group.

fn unassigned(place: &str) -> Script {
    let groups = json!([
        { "name": "dev", "days": ["*"], "start_hour": 12 },
        { "name": "prod", "days": ["*"], "start_hour": 14 },
    ]);
    let config = agents(&json!({
        "mode": "enabled", "strategy": "halt-on-error", "unassigned": place, "schedules": { "regular": groups },
    }));
    Script::default().on("Mon 11:00", config).on("Mon 11:00", version()).on("Mon 11:30", start(&["prod"]))
}

#[test]
fn unassigned_last_is_v2s_catch_all() {
    assert_eq!(unassigned("last").find("Mon 11:40", "nope"), is(NEW, true));
}

#[test]
fn unassigned_hold_lets_nobody_go_who_belongs_to_no_group() {
    let script = unassigned("hold");
    for (when, group) in [("Mon 11:40", "nope"), ("Mon 12:30", ""), ("Tue 14:30", "nope")] {
        assert_eq!(script.find(when, group), is(OLD, false), "{when}");
        assert_eq!(script.find_host(when, 1, group), is(OLD, false), "{when}");
    }
    assert_eq!(script.find("Mon 11:40", "prod"), is(NEW, true));
}

#[test]
fn unassigned_can_be_a_group() {
    let script = unassigned("dev");
    assert_eq!(script.find("Mon 11:40", "nope"), is(OLD, false));
    assert_eq!(script.find("Mon 12:10", "nope"), is(NEW, true));
    let (_, message) = Script::default().refusal(
        "Mon 11:00",
        agents(&json!({ "mode": "enabled", "strategy": "halt-on-error", "unassigned": "nope", "schedules": { "regular": [{ "name": "dev" }] } })),
    );
    assert!(message.contains("unassigned"), "{message}");
}

/// Counted where they belong.
#[test]
fn held_hosts_are_members_of_no_group() {
    let script = unassigned("hold").hosts("Mon 11:40", 1..=5, "nope", OLD).hosts("Mon 11:40", 6..=7, "prod", OLD);
    assert_eq!(script.group("Mon 11:41", "prod")["present_count"], 2);
    let script = unassigned("dev").hosts("Mon 11:40", 1..=5, "nope", OLD);
    assert_eq!(script.group("Mon 11:41", "dev")["present_count"], 5);
}

// The cap, in a configuration of v2.

#[test]
fn max_in_flight_caps_a_group_of_v2_too() {
    let script = dev(&json!({ "max_in_flight": 20 })).hosts("Mon 11:58", 1..=10, "dev", OLD);
    let script = (1..=10).fold(script, |script, number| script.on("Mon 12:01", asks(number, "dev")));
    let answers = script.run();
    assert_eq!(answers.iter().filter(|answer| super::told(answer).1).count(), 2);
}

/// FLEET §3: `start` lifts gates, never the cap.
#[test]
fn start_force_lifts_no_cap() {
    let script = dev(&json!({ "max_in_flight": 20 }))
        .hosts("Mon 11:58", 1..=10, "dev", OLD)
        .on("Mon 11:59", start_by_force(&["dev"]));
    let script = (1..=10).fold(script, |script, number| script.on("Mon 12:01", asks(number, "dev")));
    assert_eq!(script.run().iter().filter(|answer| super::told(answer).1).count(), 2);
}

// "In any of them" (FLEET §2): the same keys under the strategy time-based.

/// A time-based group, four hours from 12 o'clock on, with these keys.
fn time_based(keys: &Value) -> Script {
    let mut dev = json!({ "name": "dev", "days": ["*"], "start_hour": 12 });
    dev.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    Script::default().on("Mon 11:00", timed("4h", &json!([dev]))).on("Mon 11:00", version())
}

#[test]
fn a_time_based_group_waits_for_its_approval() {
    let script = time_based(&json!({ "approval": "operator" }));
    for when in ["Mon 12:00", "Mon 15:30", "Tue 12:30"] {
        assert!(!script.find(when, "dev").1, "{when}");
    }
    let script = script.on("Tue 12:40", json!({ "approve": { "group": "dev" } }));
    assert_eq!(script.find("Tue 12:40", "dev"), is(NEW, true));
}

#[test]
fn a_time_based_group_waits_for_its_external_check() {
    let script = time_based(&json!({ "gate": { "url": "https://gate.example/check", "timeout_seconds": 10 } }));
    for when in ["Mon 12:00", "Mon 15:30", "Tue 12:30"] {
        assert!(!script.find(when, "dev").1, "{when}");
    }
    assert!(!script.clone().on("Mon 12:10", says("wait")).find("Mon 12:30", "dev").1);
    assert_eq!(script.clone().on("Mon 12:10", says("go")).find("Mon 12:10", "dev"), is(NEW, true));
    let stopped = script.on("Mon 12:10", says("stop"));
    assert_eq!(stopped.because("Mon 12:10", "dev"), state_and_reason("halted", "gate_stopped"));
    assert!(!stopped.find("Tue 12:10", "dev").1);
}

/// What would never act is refused when it is written; what is taken acts.
#[test]
fn requires_of_a_time_based_group_acts_or_is_refused() {
    let put = timed(
        "4h",
        &json!([
            { "name": "first", "days": ["Sun"], "start_hour": 12 },
            { "name": "dev", "days": ["*"], "start_hour": 12, "requires": ["first"], "soak_hours": 2 },
        ]),
    );
    if Script::default().on("Mon 11:00", put.clone()).run().is_empty() {
        let script = Script::default().on("Mon 11:00", put).on("Mon 11:00", version());
        assert!(!script.find("Mon 12:30", "dev").1, "first is not done before Sunday");
        assert!(!script.find("Sun 13:00", "dev").1, "first is active");
    }
}

#[test]
fn a_time_based_group_lets_hosts_go_within_its_window_duration_only() {
    let script = time_based(&json!({ "window_duration": "1h" }));
    assert!(script.find("Mon 12:30", "dev").1);
    assert!(!script.find("Mon 13:00", "dev").1);
    assert!(!script.find("Mon 15:30", "dev").1);
    assert!(script.find("Tue 12:30", "dev").1);
}

#[test]
fn a_time_based_group_of_another_zone_opens_by_its_clocks() {
    let script = time_based(&json!({ "timezone": "Asia/Kolkata" }));
    // 12:00 there is 06:30 UTC.
    assert!(!script.find("Tue 06:29:59", "dev").1);
    assert!(script.find("Tue 06:30", "dev").1);
    assert!(script.find("Tue 10:29:59", "dev").1);
    assert!(!script.find("Tue 10:30", "dev").1);
}

// What is stopped later.

/// In doubt, what lets fewer hosts go.
#[test]
fn a_gate_that_says_stop_halts_a_group_that_has_started() {
    let script = gated().on("Mon 12:10", says("go")).on("Mon 12:20", says("stop"));
    assert!(!script.find("Mon 12:20", "dev").1);
    assert_eq!(script.state("Mon 12:20", "dev"), "halted");
}

/// `start --force` passes the freeze that lasts; one that is declared later is meant for this group, too.
#[test]
fn a_freeze_that_begins_after_a_start_by_force_lets_nobody_go() {
    let script = dev(&json!({})).on("Mon 11:30", start_by_force(&["dev"]));
    let mut group = json!({ "name": "dev", "days": ["*"], "start_hour": 12 });
    group["blackout"] = freeze("Tue 10:00", "Wed 10:00")["blackout"].clone();
    let script = script.on("Tue 09:00", halting(&json!([group])));
    assert!(script.find("Tue 09:30", "dev").1);
    assert!(!script.find("Tue 10:00", "dev").1);
    assert!(!script.find("Tue 23:00", "dev").1);
}

#[test]
fn start_alone_lets_hosts_go_within_the_window_duration_only() {
    let script =
        dev(&json!({ "window_duration": "2h" })).hosts("Mon 11:10", 1..=3, "dev", OLD).on("Mon 11:30", start(&["dev"]));
    assert_eq!(script.state("Mon 11:30", "dev"), "active");
    assert!(!script.find_host("Mon 11:30", 1, "dev").1);
    assert!(script.find_host("Mon 12:00", 1, "dev").1);
    assert!(!script.find_host("Mon 14:00", 1, "dev").1);
}
