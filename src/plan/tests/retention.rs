//! Which versions go, and which stay.

use super::*;
use crate::plan::retention::{after_watch, retire};

#[test]
fn what_other_users_run_keeps_the_newest_of_their_versions_and_never_fills_the_disk() {
    let names = ["1.0.0", "2.0.0", "3.0.0", "4.0.0", "5.0.0", "6.0.0"];
    let mut facts = host("5.0.0", names.map(|version| installed(version, unusable())).to_vec());
    let retired = |facts: &Facts| retire(facts, &revision("6.0.0"), &"6.0.0".into(), true);
    facts.in_use_by_others = names.map(VersionDir::from).to_vec();
    assert_eq!(retired(&facts), ["2.0.0", "1.0.0"]);
    facts.in_use = vec!["1.0.0".into()];
    assert_eq!(retired(&facts), ["2.0.0"], "the agent's own stays however old it is");
    facts.in_use_by_others = vec!["2.0.0".into()];
    assert_eq!(retired(&facts), ["4.0.0", "3.0.0"]);
}

#[test]
fn what_a_link_leads_to_stays_whoever_made_it_and_whichever_link_it_is() {
    let versions = ["1.0.0", "1.1.0", "2.0.0", "3.0.0"].map(|version| installed(version, unusable())).to_vec();
    let retired = |facts: &Facts| retire(facts, &revision("3.0.0"), &"3.0.0".into(), true);
    let mut facts = host("2.0.0", versions);
    assert_eq!(retired(&facts), ["1.1.0", "1.0.0"]);
    let leads_to = |name: &str, dir: &str| Name {
        name: name.to_owned(),
        node: Node::Link(PathBuf::from(format!("/v/{dir}/bin/{name}"))),
        ours: true,
    };
    facts.names.push(leads_to("teleport-update", "1.0.0"));
    assert_eq!(retired(&facts), ["1.1.0"], "our own program");
    facts.names.push(leads_to("tctl", "1.1.0"));
    assert!(retired(&facts).is_empty(), "a helper that somebody linked by hand");
    facts.names.truncate(3);
    facts.enablement.push((PathBuf::from("/etc/x"), Node::Link("/v/1.0.0/etc/systemd/teleport.service".into())));
    assert_eq!(retired(&facts), ["1.1.0"], "what systemctl enable made");
    // The version left is linked as well, and goes all the same where nothing is to be kept and nothing watched.
    facts.keep = 1;
    assert_eq!(retire(&facts, &revision("3.0.0"), &"3.0.0".into(), false), ["2.0.0", "1.1.0"]);
}

#[test]
fn a_version_still_to_be_downloaded_counts_already() {
    let versions = ["1.0.0", "2.0.0"].map(|version| installed(version, unusable())).to_vec();
    let mut facts = host("2.0.0", versions);
    let retired = |facts: &Facts| retire(facts, &revision("3.0.0"), &"3.0.0".into(), true);
    assert_eq!(retired(&facts), ["1.0.0"]);
    facts.keep = 3;
    assert!(retired(&facts).is_empty());
}

#[test]
fn a_repair_in_place_keeps_the_last_working_version_and_not_a_newer_one_that_was_never_used() {
    let versions = ["1.0.0", "2.0.0", "3.0.0"].map(|version| installed(version, unusable())).to_vec();
    let mut facts = host("2.0.0", versions);
    facts.previous = Some(revision("1.0.0"));
    assert_eq!(retire(&facts, &revision("2.0.0"), &"2.0.0".into(), true), ["3.0.0"]);
}

#[test]
fn nothing_is_retired_after_the_watch_when_link_and_configuration_disagree() {
    let mut facts = host("2.0.0", vec![installed("1.0.0", unusable()), installed("2.0.0", unusable())]);
    facts.keep = 1;
    assert_eq!(after_watch(&facts), ["1.0.0"]);
    facts.active = Some(revision("1.0.0"));
    assert!(after_watch(&facts).is_empty());
}

#[test]
fn after_the_watch_the_version_before_stays_however_old_it_is() {
    let versions = ["1.0.0", "2.0.0", "3.0.0"].map(|version| installed(version, unusable())).to_vec();
    let mut facts = host("2.0.0", versions);
    facts.previous = Some(revision("1.0.0"));
    for (keep, gone) in [(1, &["3.0.0", "1.0.0"][..]), (2, &["3.0.0"]), (3, &[])] {
        facts.keep = keep;
        assert_eq!(after_watch(&facts), *gone, "keep: {keep}");
    }
}

#[test]
fn the_version_that_is_left_stays_for_the_updater_that_is_linked_from_it() {
    let mut facts = host("1.0.0", ["1.0.0", "2.0.0"].map(|version| installed(version, unusable())).to_vec());
    facts.keep = 1;
    let left = |facts: &Facts| retire(facts, &revision("2.0.0"), &"2.0.0".into(), false);
    assert_eq!(left(&facts), ["1.0.0"]);
    let node = Node::Link("/v/1.0.0/bin/teleport-update".into());
    facts.names.push(Name { name: "teleport-update".into(), node, ours: true });
    assert!(left(&facts).is_empty());
}

#[test]
fn versions_go_where_the_agents_link_moves_and_also_where_it_leads_to_the_target_already() {
    let retired = |plan: Plan| plan.after.iter().filter(|step| matches!(step, Step::Retire { .. })).count();
    let three = |snapshot| {
        let old = installed("1.0.0", snapshot);
        vec![old, installed("2.0.0", unusable()), installed("3.0.0", unusable())]
    };
    // The same version, as it is, and with its link gone.
    let mut facts = host("3.0.0", three(unusable()));
    assert_eq!(retired(move_to(&facts, &target("3.0.0")).unwrap()), 0);
    facts.names.retain(|name| name.name != "teleport");
    assert_eq!(retired(move_to(&facts, &target("3.0.0")).unwrap()), 1);
    // Another version, to which the links lead by now.
    let mut facts = host("2.0.0", three(Snapshot::Valid));
    for name in &mut facts.names {
        name.node = Node::Link(PathBuf::from(format!("/v/1.0.0/bin/{}", name.name)));
    }
    assert_eq!(retired(move_to(&facts, &target("1.0.0")).unwrap()), 1);
}
