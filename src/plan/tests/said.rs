//! What a run says: a line for each phase.

use super::*;

/// All lines of the plan's switch, each phase of which takes half a second.
fn said(plan: &Plan) -> Vec<String> {
    (0..plan.switch.len()).filter_map(|index| plan.said_in_switch(index, Duration::from_millis(500))).collect()
}

#[test]
fn an_upgrade_says_a_line_for_backup_links_reload_and_health() {
    let facts = host("1.0.0", vec![installed("1.0.0", unusable()), installed("2.0.0", unusable())]);
    assert_eq!(
        said(&move_to(&facts, &target("2.0.0")).unwrap()),
        [
            "backed up the database to 1.0.0/backup",
            // Of tbot, tsh, the unit and teleport.
            "linked 2.0.0 (oss) (4 links and units)",
            "reloaded the agent (SIGHUP)",
            "2.0.0 (oss) is healthy"
        ]
    );
}

#[test]
fn a_downgrade_says_in_one_line_how_long_the_agent_was_stopped_and_what_for() {
    let facts = host("2.0.0", vec![installed("1.0.0", Snapshot::Valid), installed("2.0.0", unusable())]);
    assert_eq!(
        said(&move_to(&facts, &target("1.0.0")).unwrap()),
        [
            "stopped the agent for 0.50 s: restored the database from 1.0.0/backup, linked 1.0.0 (oss) (4 links and units)",
            "1.0.0 (oss) is healthy",
            "backed up the database to 2.0.0/backup"
        ]
    );
}

#[test]
fn names_that_no_other_line_tells_are_counted_at_the_end() {
    let mut facts = host("1.0.0", vec![installed("1.0.0", unusable())]);
    facts.agent.running = true;
    assert_eq!(said(&uninstall(&facts, &[])), ["stopped the agent", "removed 4 links and units"]);
    facts.agent.running = false;
    assert_eq!(said(&uninstall(&facts, &[])), ["removed 4 links and units"]);
    let lost = facts.names.iter_mut().find(|name| name.name == "tsh").unwrap();
    lost.node = Node::Absent;
    assert_eq!(said(&move_to(&facts, &target("1.0.0")).unwrap()), ["set 1 link or unit"]);
}

#[test]
fn a_phase_of_a_second_or_more_tells_its_time() {
    let retire = Step::Retire { dir: "1.0.0".into() };
    assert_eq!(retire.said(Duration::from_millis(999)).unwrap(), "removed 1.0.0");
    assert_eq!(retire.said(Duration::from_millis(1000)).unwrap(), "removed 1.0.0 (1.0 s)");
    assert_eq!(Step::DaemonReload.said(Duration::ZERO), None);
}
