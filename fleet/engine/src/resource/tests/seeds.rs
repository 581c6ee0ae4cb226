//! The example documents of RFD 0169, RFD 0109 and Managed Updates v2, with their comments. The last are printed without their
//! indentation, which is put back.

use jiff::SignedDuration;

use super::super::{Resource, read};
use super::one;
use crate::calendar::Days;
use crate::percent::Percent;
use crate::policy::{Mode, Policy, Schedule, Strategy, Unassigned};

/// Managed Updates v2.
pub(super) const CONFIG: &str = include_str!("seeds/autoupdate_config.yaml");

/// Managed Updates v2.
pub(super) const NESTED: &str = include_str!("seeds/autoupdate_version.yaml");

/// Managed Updates v2.
pub(super) const REPORT: &str = include_str!("seeds/autoupdate_agent_report.yaml");

/// RFD 0169, with values in place of its alternatives and with the group that it requires.
pub(super) const GROUPS: &str = include_str!("seeds/groups.yaml");

/// RFD 0169, with values in place of its alternatives.
pub(super) const UNGROUPED: &str = include_str!("seeds/without_groups.yaml");

/// RFD 0169.
pub(super) const FLAT: &str = include_str!("seeds/flat_version.yaml");

#[test]
fn the_configuration_of_managed_updates_v2_is_read() {
    let Resource::Config(config) = one(CONFIG) else { panic!() };
    assert!(config.model.tools);
    let policy = config.model.policy.unwrap();
    assert_eq!((policy.mode, policy.strategy), (Mode::Enabled, Strategy::HaltOnError));
    assert_eq!((policy.window, policy.unassigned), (SignedDuration::ZERO, Unassigned::Last));
    let [staging, production] = &policy.regular[..] else { panic!() };
    assert_eq!((staging.name.as_str(), staging.gate.opening.hour, staging.pace.canaries), ("staging", 4, 0));
    assert_eq!((production.gate.opening.hour, production.gate.wait_hours, production.pace.canaries), (5, 24, 5));
    assert_eq!(production.gate.opening.days, Days::WORK_START);
}

#[test]
fn the_examples_of_managed_updates_v2_are_read() {
    let head = "kind: autoupdate_config\nmetadata:\n  name: autoupdate-config\nspec:\n  agents:\n    mode: enabled\n";
    let days = "days: [\"Mon\", \"Tue\", \"Wed\", \"Thu\"]";
    let policy = |text: String| -> Policy {
        let Resource::Config(config) = one(&text) else { panic!() };
        config.model.policy.unwrap()
    };
    let group = |name: &str, rest: &str| format!("      - name: {name}\n        {days}\n        {rest}\n");
    let dev = group("dev", "start_hour: 16");
    let stage = group("stage", "start_hour: 18");
    let prod = group("prod", "start_hour: 20\n        wait_hours: 24");
    let halt = policy(format!("{head}    strategy: halt-on-error\n    schedules:\n      regular:\n{dev}{stage}{prod}"));
    assert_eq!(halt.regular[2].gate.wait_hours, 24);
    let (east, west, europe) =
        (group("us-east", "start_hour: 4"), group("us-west", "start_hour: 6"), group("europe", "start_hour: 12"));
    let time = policy(format!(
        "{head}    strategy: time-based\n    maintenance_window_duration: 2h\n    schedules:\n      regular:\n{east}{west}{europe}"
    ));
    assert_eq!((time.strategy, time.window), (Strategy::TimeBased, SignedDuration::from_hours(2)));
    assert_eq!(time.regular.len(), 3);
    let stage = group("stage", "start_hour: 18\n        canary_count: 5");
    let prod = group("prod", "start_hour: 20\n        wait_hours: 24\n        canary_count: 5");
    let canaries = policy(format!("{head}    strategy: halt-on-error\n    schedules:\n      regular:\n{stage}{prod}"));
    assert_eq!(canaries.regular[0].pace.canaries, 5);
}

#[test]
fn the_versions_of_both_dialects_are_read() {
    let Resource::Version(version) = one(NESTED) else { panic!() };
    let agents = version.model.agents.unwrap();
    assert_eq!(agents.start, Some("17.2.0".parse().unwrap()));
    assert_eq!(
        (agents.target.to_string().as_str(), agents.schedule, agents.mode),
        ("17.2.1", Schedule::Regular, Mode::Enabled)
    );
    assert_eq!(version.model.tools, Some("17.2.1".parse().unwrap()));
    let Resource::Version(version) = one(FLAT) else { panic!() };
    let agents = version.model.agents.unwrap();
    assert_eq!(
        (agents.target.to_string().as_str(), agents.schedule, agents.start),
        ("15.1.1", Schedule::Critical, None)
    );
}

#[test]
fn the_report_of_managed_updates_v2_is_read() {
    let Resource::Report(report) = one(REPORT) else { panic!() };
    assert_eq!(report.metadata.name, "auth1");
    assert_eq!(report.model.timestamp.to_string(), "2025-05-28T15:22:41.924956Z");
    let counts: Vec<_> = report
        .model
        .counts
        .iter()
        .map(|count| (count.group.as_str(), count.version.to_string(), count.count))
        .collect();
    assert_eq!(counts.len(), 6);
    assert_eq!(counts[5], ("prod", "1.2.5".to_owned(), 1543));
    assert_eq!(report.model.omitted.iter().map(|omitted| omitted.count).collect::<Vec<_>>(), [120, 12, 42]);
}

#[test]
fn the_groups_of_rfd_0169_are_read() {
    let Resource::Maintenance(maintenance) = one(GROUPS) else { panic!() };
    let policy = maintenance.model.policy.unwrap();
    assert_eq!((policy.mode, policy.strategy, policy.ungrouped), (Mode::Enabled, Strategy::Requires, None));
    let staging = &policy.regular[1];
    let members = staging.members.as_ref().unwrap();
    assert_eq!(members.node.as_ref().unwrap().text(), "labels[\"environment\"]==\"staging\"");
    assert_eq!(members.node, members.instance);
    assert_eq!((staging.gate.opening.hour, staging.gate.requires.as_slice()), (23, &["test-group".to_owned()][..]));
    assert_eq!((staging.pace.jitter, staging.pace.max_in_flight), (60, Percent::new(10).unwrap()));
    assert_eq!((staging.proof.timeout_seconds, staging.proof.failure_seconds), (Some(30), 900));
    assert_eq!((staging.proof.max_failed.get(), staging.proof.max_timeout.get()), (5, 20));
}

#[test]
fn the_schedule_without_groups_of_rfd_0169_is_read() {
    let Resource::Maintenance(maintenance) = one(UNGROUPED) else { panic!() };
    let ungrouped = maintenance.model.policy.unwrap().ungrouped.unwrap();
    assert_eq!((ungrouped.immediate_jitter, ungrouped.critical), (60, None));
    assert_eq!(ungrouped.regular.unwrap().opening.hour, 3);
}

#[test]
fn the_example_documents_are_printed_with_all_their_keys_and_comments() {
    for text in [CONFIG, NESTED, REPORT, GROUPS, UNGROUPED, FLAT] {
        let resource = one(text);
        let printed = resource.to_yaml();
        assert_eq!(one(&printed), resource, "{printed}");
        for line in text.lines().map(str::trim).filter(|line| line.starts_with("# ") && *line != "# ...") {
            // The parser's tree keeps comments above keys and items.
            assert!(printed.contains(line) || line.starts_with("# maintenance_window"), "{line}\n{printed}");
        }
        let json = resource.to_json().to_string();
        assert_eq!(one(&json).to_json(), resource.to_json());
    }
    let all = [CONFIG, NESTED, REPORT, GROUPS].join("---\n");
    assert_eq!(read(&all).unwrap().len(), 4);
}
