//! The example documents of RFD 0169, RFD 0109 and Managed Updates v2, with their comments. The last are printed without their
//! indentation, which is put back.

use jiff::SignedDuration;

use super::super::{Resource, read};
use super::one;
use crate::calendar::Days;
use crate::percent::Percent;
use crate::policy::{Mode, Policy, Schedule, Strategy, Unassigned};

/// Managed Updates v2.
pub(super) const CONFIG: &str = r#"kind: autoupdate_config
metadata:
  # autoupdate_config is a singleton resource. There can be only one instance
  # of this resource in the Teleport cluster, and it must be named `autoupdate-config`.
  name: autoupdate-config
spec:
  agents:
    # mode allows users to enable, disable, or suspend agent updates at the
    # cluster level. Disable agent automatic updates only if self-managed
    # updates are in place. This value may also be set in autoupdate_version.
    # If set in both places, disabled overrides suspended, which overrides enabled.
    # Possible values: "enabled", "disabled", "suspended"
    # Default: "disabled" (unless specified in autoupdate_version)
    mode: enabled
    # Possible values: "halt-on-error" or "time-based"
    # Default: "halt-on-error"
    strategy: halt-on-error
    # maintenance_window_duration configures the duration after the start_hour
    # when updates may occur. Only valid for the time-based strategy.
    # maintenance_window_duration: 1h
    # schedules define groups of agents with different update times.
    # Currently, only the regular schedule is configurable.
    schedules:
      regular:
      # name of each group, configured locally via "teleport-update enable --group".
      # Agents presenting a missing or empty group are placed in the last group in the list.
      - name: staging
        # start_hour of the update, in UTC
        start_hour: 4
        # days that the update may occur on
        # Possible values: "Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun", and "*"
        # Default: [ "Mon", "Tue", "Wed", "Thu" ]
        days: [ "Mon", "Tue", "Wed", "Thu" ]
      - name: production
        start_hour: 5
        # wait_hours ensures that the group executes at least a specific number of hours
        # after the previous group. Only valid for the halt-on-error schedule.
        # Default: 0
        wait_hours: 24
        # canary_count specifies the number of agents to update and verify before the rest
        # of the group. Only valid for the halt-on-error schedule.
        # Possible values: 0-5
        # Default: 0
        canary_count: 5
  tools:
    # Possible values: "enabled" or "disabled"
    # Default: "disabled"
    mode: enabled
"#;

/// Managed Updates v2.
pub(super) const NESTED: &str = r#"kind: autoupdate_version
metadata:
  # autoupdate_version is a singleton resource. There can be only one instance
  # of this resource in the Teleport cluster, and it must be named `autoupdate-version`.
  name: autoupdate-version
spec:
  agents:
    # start_version is the version used to install new agents before their
    # group's scheduled update time. Agents never update to the start_version
    # automatically, but may be required to via "teleport-update update --now".
    start_version: v17.2.0
    # target_version is the version that agents update to during their group's
    # scheduled update time. New agents also use this version after their group's
    # scheduled update time.
    target_version: v17.2.1
    # Possible values: "regular" or "immediate"
    # Default: "regular"
    schedule: regular
    # Possible values: "enabled", "disabled", "suspended"
    # Default: "disabled" (unless specified in autoupdate_config)
    mode: enabled
  tools:
    # target_version is the semver version of client tools the cluster will advertise.
    # Default: cluster version
    target_version: v17.2.1
"#;

/// Managed Updates v2.
pub(super) const REPORT: &str = r#"kind: autoupdate_agent_report
version: v1
metadata:
  # Instance ID of the auth that generated the report.
  name: auth1
spec:
  # When the report was generated.
  timestamp: 2025-05-28T11:22:41.924956-04:00
  # Map of the agent groups seen by the auth.
  groups:
    dev:
      # Map of the agent versions seen for this group by the auth.
      versions:
        "1.2.3":
          # Number of registered agents with this version.
          count: 15
        "1.2.4":
          count: 2
        "1.2.5":
          count: 34
    stage:
      versions:
        "1.2.3":
          count: 15
        "1.2.4":
          count: 125
    prod:
      versions:
        "1.2.5":
          count: 1543
  # List of agents omitted from the report.
  omitted:
    - count: 120
      reason: "version is pinned"
    - count: 12
      reason: "managed update v1 updater does not support agent reports"
    - count: 42
      reason: "updater version predates agent report"
"#;

/// RFD 0169, with values in place of its alternatives and with the group that it requires.
pub(super) const GROUPS: &str = r#"kind: cluster_maintenance_config
spec:
  # agent_auto_update allows turning agent updates on or off at the
  # cluster level. Only turn agent automatic updates off if self-managed
  # agent updates are in place.
  agent_auto_update: true

  # agent_auto_update_groups contains both "regular" and "critical" schedules.
  # The schedule used is determined by the agent_version_schedule associated
  # with the version in autoupdate_version.
  # Groups are not configurable with the "immediate" schedule.
  agent_auto_update_groups:
    # schedule is "regular" or "critical"
    regular:
    - name: test-group
    - name: staging-group
      # agents defines which agents are included in the group.
      agents:
        # node_labels_expression selects agents by SSH resource query.
        #  default: all connected agents
        node_labels_expression: 'labels["environment"]=="staging"'
        # instance_labels_expression selects agents by instance query.
        #  default: all connected agents
        instance_labels_expression: 'labels["environment"]=="staging"'
      # days specifies the days of the week when the group may be upgraded.
      #  default: ["*"] (all days)
      days: ["Sun", "Mon"]
      # start_hour specifies the hour when the group may start upgrading.
      #  default: 0
      start_hour: 23
      # jitter_seconds specifies a maximum jitter duration after the start hour.
      #  default: 0
      jitter_seconds: 60
      # max_in_flight specifies the maximum number of agents that may be upgraded at the same time.
      #  default: 100%
      max_in_flight: 10%
      # timeout_seconds specifies the amount of time, after the specified jitter, after which
      # an agent upgrade will be considered timed out if the version does not change.
      #  default: 60
      timeout_seconds: 30
      # failure_seconds specifies the amount of time after which an agent upgrade will be considered
      # failed if the agent heartbeat stops before the upgrade is complete.
      #  default: 0
      failure_seconds: 900
      # max_failed_before_halt specifies the percentage of clients that may fail before this group
      # and all dependent groups are halted.
      #  default: 0
      max_failed_before_halt: 5%
      # max_timeout_before_halt specifies the percentage of clients that may time out before this group
      # and all dependent groups are halted.
      #  default: 10%
      max_timeout_before_halt: 20%
      # requires specifies groups that must pass with the current version before this group is allowed
      # to run using that version.
      requires: ["test-group"]
  # ...
"#;

/// RFD 0169, with values in place of its alternatives.
pub(super) const UNGROUPED: &str = r#"kind: cluster_maintenance_config
spec:
  # ...

  # agent_auto_update contains "regular," "critical," and "immediate" schedules.
  # The schedule used is determined by the agent_version_schedule associated
  # with the version in autoupdate_version.
  agent_auto_update:
    # The immediate schedule results in all agents updating simultaneously.
    # Only client-side jitter is configurable.
    immediate:
      # jitter_seconds specifies a maximum jitter duration after the start hour.
      # The agent upgrader client will pick a random time within this duration to wait to upgrade.
      #  default: 0
      jitter_seconds: 60
    regular: # or "critical"
      # days specifies the days of the week when the group may be upgraded.
      #  default: ["*"] (all days)
      days: ["*"]
      # start_hour specifies the hour when the group may start upgrading.
      #  default: 0
      start_hour: 3
      # jitter_seconds specifies a maximum jitter duration after the start hour.
      #  default: 0
      jitter_seconds: 0
  # ...
"#;

/// RFD 0169.
pub(super) const FLAT: &str = "kind: autoupdate_version
spec:
  # agent_version is the version of the agent the cluster will advertise.
  agent_version: 15.1.1
  # agent_version_schedule specifies the rollout schedule associated with the version.
  # Currently, only critical, regular, and immediate schedules are permitted.
  agent_version_schedule: critical

  # ...
";

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
