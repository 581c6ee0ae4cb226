use jiff::SignedDuration;

use super::super::{PolicyDialect, default_group};
use super::{config, maintenance, policy, v2_text};
use crate::calendar::Days;
use crate::policy::{Mode, Policy, Strategy, Unassigned};
use crate::resource_set::ruling;

#[test]
fn a_configuration_that_says_nothing_of_agents_is_as_none() {
    let config = config("tools: {mode: enabled}");
    assert_eq!(config.policy, None);
    assert!(config.tools);
    assert!(!super::config("{}").tools);
    assert!(!super::config("tools: {}").tools);
}

fn policy_in(mode: &str) -> Policy {
    config(&format!("agents: {{mode: {mode}}}")).policy.unwrap()
}

/// D1: what is said about agents has one of three modes.
#[test]
fn agents_have_a_mode() {
    for (word, mode) in [("enabled", Mode::Enabled), ("disabled", Mode::Disabled), ("suspended", Mode::Suspended)] {
        assert_eq!(policy_in(word).mode, mode);
    }
}

#[test]
fn the_defaults_of_agents_are_those_of_v2() {
    let wanted = Policy {
        mode: Mode::Enabled,
        strategy: Strategy::HaltOnError,
        window: SignedDuration::ZERO,
        regular: Vec::new(),
        critical: Vec::new(),
        unassigned: Unassigned::Last,
        ungrouped: None,
        directive: None,
    };
    assert_eq!(policy_in("enabled"), wanted);
    assert_eq!(policy("schedules: {}"), wanted);
    assert_eq!(policy("schedules: {regular: []}"), wanted);
    assert_eq!(policy("schedules: {regular: ~}"), wanted);
}

#[test]
fn the_window_of_time_based_has_at_least_ten_minutes() {
    let window = |text: &str| policy(&format!("strategy: time-based, maintenance_window_duration: {text}")).window;
    assert_eq!(window("10m"), SignedDuration::from_mins(10));
    assert_eq!(window("3600s"), SignedDuration::from_hours(1));
    assert_eq!(window("1h30m"), SignedDuration::from_mins(90));
    assert_eq!(window("168h"), SignedDuration::from_hours(168));
}

#[test]
fn halt_on_error_has_no_window_duration() {
    for zero in ["0", "0s", "~"] {
        let policy = policy(&format!("maintenance_window_duration: {zero}"));
        assert_eq!(policy.window, SignedDuration::ZERO);
    }
}

#[test]
fn unassigned_hosts_are_held_or_go_to_a_group_that_is_there() {
    let agents = |unassigned: &str| {
        format!("unassigned: {unassigned}, schedules: {{regular: [{{name: a}}, {{name: b}}], critical: [{{name: b}}]}}")
    };
    assert_eq!(policy(&agents("hold")).unassigned, Unassigned::Hold);
    assert_eq!(policy(&agents("last")).unassigned, Unassigned::Last);
    assert_eq!(policy(&agents("b")).unassigned, Unassigned::Group("b".to_owned()));
}

#[test]
fn critical_groups_are_a_list_of_their_own() {
    let policy = policy("schedules: {regular: [{name: a}], critical: [{name: a}, {name: b}]}");
    assert_eq!((policy.regular.len(), policy.critical.len()), (1, 2));
}

#[test]
fn without_groups_a_default_one_stands_for_all() {
    let group = default_group(None);
    assert_eq!((group.name.as_str(), group.gate.opening.hour), ("default", 12));
    assert_eq!(group.gate.opening.days, Days::WORK_START);
    let window = maintenance("agent_upgrades: {utc_start_hour: 2, weekdays: [Sat]}").window;
    let group = default_group(window.as_ref());
    assert_eq!((group.name.as_str(), group.gate.opening.hour), ("default-cmc", 2));
    assert_eq!(group.gate.opening.days, Days::parse(&["Sat"]).unwrap());
    // It is a group of v2 in all else.
    let written = super::groups(&v2_text("halt-on-error", &["{name: default-cmc, days: [Sat], start_hour: 2}"]));
    assert_eq!(written, [group]);
}

#[test]
fn one_policy_rules_and_the_lower_mode_counts() {
    let with = policy("schedules: {regular: [{name: a}]}");
    let without = policy_in("suspended");
    let groups = maintenance("agent_auto_update_groups: {regular: [{name: b}]}").policy.unwrap();
    let schedule = maintenance("agent_auto_update: {regular: {}}").policy.unwrap();
    let rules = |dialect, v2, rfd| ruling(dialect, v2, rfd).unwrap();
    assert_eq!(rules(PolicyDialect::V2, None, None), None);
    assert_eq!(rules(PolicyDialect::V2, Some(&with), Some(&schedule)), Some(with.clone()));
    assert_eq!(rules(PolicyDialect::Rfd0169, Some(&with), Some(&schedule)), Some(with.clone()));
    assert_eq!(rules(PolicyDialect::Rfd0169, None, Some(&schedule)), Some(schedule.clone()));
    let suspended = Policy { mode: Mode::Suspended, ..groups.clone() };
    assert_eq!(rules(PolicyDialect::V2, Some(&without), Some(&groups)), Some(suspended));
    let suspended = Policy { mode: Mode::Suspended, ..schedule.clone() };
    assert_eq!(rules(PolicyDialect::Rfd0169, Some(&without), Some(&schedule)), Some(suspended));
    assert_eq!(rules(PolicyDialect::V2, Some(&without), Some(&schedule)), Some(without));
    for dialect in [PolicyDialect::V2, PolicyDialect::Rfd0169] {
        assert!(ruling(dialect, Some(&with), Some(&groups)).unwrap_err().contains("both have groups"));
    }
}
