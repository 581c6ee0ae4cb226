//! What a run says: a line for each phase.

use super::said::Seen;
use super::*;

/// All lines of the plan's switch, each phase of which takes half a second.
fn said(plan: &Plan) -> Vec<String> {
    said_where(plan, Seen::default())
}

fn said_where(plan: &Plan, seen: Seen) -> Vec<String> {
    let seen = Seen { took: Duration::from_millis(500), ..seen };
    (0..plan.switch.len()).filter_map(|index| plan.said_in_switch(index, &seen)).collect()
}

fn upgrade() -> Plan {
    let facts = host("1.0.0", vec![installed("1.0.0", unusable()), installed("2.0.0", unusable())]);
    move_to(&facts, &target("2.0.0")).unwrap()
}

fn downgrade(change: impl FnOnce(&mut Facts)) -> Plan {
    let mut facts = host("2.0.0", vec![installed("1.0.0", Snapshot::Valid), installed("2.0.0", unusable())]);
    change(&mut facts);
    move_to(&facts, &target("1.0.0")).unwrap()
}

#[test]
fn an_upgrade_says_a_line_for_backup_links_reload_and_health() {
    let linked = [
        // Of tbot, tsh, the unit and teleport.
        "linked 2.0.0 (oss): 4 links and units",
        "reloaded the agent",
        "2.0.0 (oss) is healthy",
    ];
    let (first, last) = (["backed up the database to 1.0.0/backup"], &linked[..]);
    assert_eq!(said(&upgrade()), [&first[..], last].concat());
    // Of what was not so nothing is said.
    assert_eq!(said_where(&upgrade(), Seen { no_database: true, ..Seen::default() }), linked);
    let restarted = said_where(&upgrade(), Seen { restarted: true, ..Seen::default() });
    assert_eq!(restarted, [first[0], linked[0], linked[2]]);
}

#[test]
fn a_downgrade_says_in_one_line_how_long_the_agent_was_stopped_and_what_for() {
    let plan = downgrade(|_| ());
    let rest = ["1.0.0 (oss) is healthy", "backed up the database to 2.0.0/backup"];
    let names = "changed 3 links and units";
    let stopped = "stopped the agent for 0.50 s: restored the database from 1.0.0/backup, linked 1.0.0 (oss)";
    assert_eq!(said(&plan), [names, stopped, rest[0], rest[1]]);
    let stopped = "stopped the agent for 0.50 s: removed the database (1.0.0 had none), linked 1.0.0 (oss)";
    assert_eq!(said_where(&plan, Seen { none_restored: true, ..Seen::default() }), [names, stopped, rest[0], rest[1]]);
}

#[test]
fn an_agent_that_had_failed_was_not_stopped_and_one_that_does_not_run_is_not_started() {
    let failed = downgrade(|facts| {
        (facts.agent.running, facts.agent.failed) = (false, true);
    });
    let lines = said(&failed);
    assert_eq!(lines[1], "restored the database from 1.0.0/backup, linked 1.0.0 (oss), started the agent");
    let off = downgrade(|facts| (facts.agent.running, facts.agent.enabled) = (false, false));
    assert!(!said(&off).iter().any(|line| line.contains("stopped") || line.contains("started")), "{:?}", said(&off));
}

#[test]
fn names_that_no_other_line_tells_are_counted() {
    let mut facts = host("1.0.0", vec![installed("1.0.0", unusable())]);
    assert_eq!(said(&uninstall(&facts, &[])), ["stopped the agent", "changed 4 links and units"]);
    facts.agent.running = false;
    assert_eq!(said(&uninstall(&facts, &[])), ["changed 4 links and units"]);
    let lost = facts.names.iter_mut().find(|name| name.name == "tsh").unwrap();
    lost.node = Node::Absent;
    assert_eq!(said(&move_to(&facts, &target("1.0.0")).unwrap()), ["changed 1 link or unit"]);
}

#[test]
fn a_phase_of_a_second_or_more_tells_its_time() {
    let retire = Step::Retire { dir: "1.0.0".into() };
    assert_eq!(retire.said(Duration::from_millis(999)).unwrap(), "removed 1.0.0");
    assert_eq!(retire.said(Duration::from_millis(1000)).unwrap(), "removed 1.0.0 (1.0 s)");
    assert_eq!(Step::DaemonReload.said(Duration::ZERO), None);
}

#[test]
fn the_earlier_updaters_files_are_told_of_once() {
    let mut facts = host("1.0.0", vec![installed("1.0.0", unusable()), installed("2.0.0", unusable())]);
    let pair = |name: &str| (PathBuf::from(format!("/units/{name}")), PathBuf::from(format!("/v/.unmanaged/{name}")));
    facts.foreign_links = vec![pair("a"), pair("b")];
    facts.set_aside = vec![pair("c"), pair("d")];
    let lines = said(&move_to(&facts, &target("2.0.0")).unwrap());
    assert_eq!(lines.iter().filter(|line| line.contains("kept the earlier updater's files")).count(), 1, "{lines:?}");
}

#[test]
fn what_follows_the_commit_says_a_line_for_each_thing_done() {
    let line = |step: Step| step.said(Duration::ZERO);
    let dir: VersionDir = "1.0.0".into();
    assert_eq!(line(Step::Verify { dir: dir.clone() }).unwrap(), "checked every file of 1.0.0");
    assert_eq!(line(Step::RemovePackage { name: "teleport".into() }).unwrap(), "removed the package teleport");
    let grant = line(Step::GrantTraverse { path: "/opt".into() }).unwrap();
    assert_eq!(grant, "allowed other users to enter /opt (chmod o+x)");
    assert_eq!(line(Step::EnableTimer { unit: "a.timer".into() }).unwrap(), "enabled a.timer");
    assert_eq!(line(Step::Retire { dir }).unwrap(), "removed 1.0.0");
    assert_eq!(line(Step::Reload), None);
}
