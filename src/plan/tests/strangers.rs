//! Agents that are not the active version: what may be put in their place, and whose the database is.

use super::*;

fn stranger(version: Option<&str>, in_place: bool) -> Stranger {
    Stranger { path: "/bin/teleport".into(), revision: version.map(revision), in_place }
}

/// 1.0.0 is active, with a snapshot of its own; 2.0.0 is on disk.
fn with(stranger: Stranger) -> Facts {
    let mut facts = host("1.0.0", vec![installed("1.0.0", Snapshot::Valid), installed("2.0.0", unusable())]);
    if stranger.in_place {
        facts.names.iter_mut().filter(|name| name.name == "teleport").for_each(|name| {
            (name.node, name.ours) = (Node::Kept("/v/.unmanaged/teleport".into()), false);
        });
    }
    facts.strangers.push(stranger);
    facts
}

fn over(version: &str, over: Over) -> Target {
    Target { over, ..target(version) }
}

fn refused(facts: &Facts, target: &Target) -> Option<Code> {
    move_to(facts, target).err().map(|error| error.code)
}

#[test]
fn a_newer_agent_in_place_or_running_is_no_target_of_a_downgrade_unless_one_insists() {
    for in_place in [true, false] {
        let facts = with(stranger(Some("1.5.0"), in_place));
        for ways in [Over::Told, Over::Foreign] {
            assert_eq!(refused(&facts, &over("1.0.0", ways)), Some(Code::NewerAgent));
            assert_eq!(refused(&facts, &over("2.0.0", ways)), None, "an upgrade of it");
        }
        let plan = move_to(&facts, &over("1.0.0", Over::Newer)).unwrap();
        assert_eq!(plan.database, Database::Keep);
        assert!(plan.notes.iter().any(|note| note.contains("no backup to go back to")), "{:?}", plan.notes);
    }
}

#[test]
fn one_that_tells_nothing_makes_way_for_an_operators_command_alone() {
    let facts = with(stranger(None, true));
    assert_eq!(refused(&facts, &over("2.0.0", Over::Told)), Some(Code::PathTaken));
    let plan = move_to(&facts, &over("2.0.0", Over::Foreign)).unwrap();
    assert_eq!((plan.snapshot_dir(), plan.unmanaged), (Some(&VersionDir::unmanaged()), true));
    let running = with(stranger(None, false));
    assert_eq!(refused(&running, &over("2.0.0", Over::Told)), None, "what runs beside our link is not replaced");
}

#[test]
fn a_snapshot_is_labelled_with_what_has_written_the_database() {
    let owner = |stranger, to: &str| {
        let plan = move_to(&with(stranger), &over(to, Over::Newer)).unwrap();
        (plan.owner().unwrap().version.to_string(), plan.snapshot_dir().unwrap().clone())
    };
    assert_eq!(owner(stranger(Some("1.5.0"), true), "2.0.0"), ("1.5.0".into(), VersionDir::unmanaged()));
    assert_eq!(owner(stranger(Some("1.5.0"), false), "2.0.0"), ("1.5.0".into(), VersionDir::unmanaged()));
    assert_eq!(owner(stranger(Some("0.9.0"), true), "2.0.0"), ("1.0.0".into(), "1.0.0".into()));
    // A version of ours that runs although the links lead elsewhere has a place of its own.
    let mut facts = with(stranger(Some("2.0.0"), false));
    facts.installed.push(installed("3.0.0", unusable()));
    let plan = move_to(&facts, &target("3.0.0")).unwrap();
    assert_eq!((plan.owner(), plan.snapshot_dir()), (Some(&revision("2.0.0")), Some(&"2.0.0".into())));
    // A file of others that says so is no version of ours.
    let mut facts = with(stranger(Some("2.0.0"), true));
    facts.installed.push(installed("3.0.0", unusable()));
    let plan = move_to(&facts, &target("3.0.0")).unwrap();
    assert_eq!((plan.owner(), plan.snapshot_dir()), (Some(&revision("2.0.0")), Some(&VersionDir::unmanaged())));
}

#[test]
fn the_snapshot_of_the_target_is_not_restored_over_what_a_stranger_has_written() {
    let mut facts = with(stranger(Some("2.0.0"), true));
    facts.installed[1].snapshot = Snapshot::Valid;
    assert_eq!(move_to(&facts, &target("2.0.0")).unwrap().database, Database::Keep);
    facts.strangers.clear();
    assert_eq!(move_to(&facts, &target("2.0.0")).unwrap().database, Database::Restore);
}

#[test]
fn our_link_put_back_over_an_older_agent_is_watched_and_leads_back_to_it() {
    let plan = move_to(&with(stranger(Some("0.9.0"), true)), &over("1.0.0", Over::Told)).unwrap();
    assert_eq!((plan.direction, plan.unmanaged, plan.from.clone()), (Direction::First, true, None));
    assert!(plan.is_watched() && plan.keeps_unmanaged());
    let back = back(&host("1.0.0", vec![installed("1.0.0", unusable())]), &plan).unwrap();
    let agent = back.switch.iter().find_map(|step| match step {
        Step::LinkAgent { place, .. } => Some(place.now.clone()),
        _ => None,
    });
    assert_eq!(agent, Some(Node::Kept("/v/.unmanaged/teleport".into())));
    assert_eq!((back.database, back.service), (Database::Restore, ServiceAction::Restart));
}

#[test]
fn helpers_and_units_of_others_stay_unless_an_operator_takes_over() {
    let mut facts = host("1.0.0", vec![installed("1.0.0", unusable()), installed("2.0.0", unusable())]);
    facts.names[0] = Name { name: "tbot".into(), node: Node::Link("/opt/tbot".into()), ours: false };
    facts.unit.node = Node::Kept("/v/.unmanaged/teleport.service".into());
    let told = move_to(&facts, &over("2.0.0", Over::Told)).unwrap();
    let is_left = |plan: &Plan| !order(plan).iter().any(|step| step.contains("tbot") || step.contains("service"));
    assert!(is_left(&told), "{:?}", order(&told));
    assert_eq!(
        told.notes
            .iter()
            .filter(|note| note.contains("was not installed by teleport-update and is not changed"))
            .count(),
        2
    );
    assert!(!is_left(&move_to(&facts, &over("2.0.0", Over::Foreign)).unwrap()));
}

#[test]
fn an_executable_that_no_release_has_is_linked_only_if_it_is_named() {
    let mut facts = host("1.0.0", vec![installed("1.0.0", unusable()), installed("2.0.0", unusable())]);
    facts.installed[1].binaries.push("systemctl".into());
    let links = |facts: &Facts| order(&move_to(facts, &target("2.0.0")).unwrap()).join(" ").contains("/bin/systemctl");
    assert!(!links(&facts));
    facts.components = vec!["systemctl".into()];
    assert!(links(&facts));
}

#[test]
fn what_is_put_in_a_strangers_place_is_told_with_what_it_means() {
    let notes = |stranger, to: &str| move_to(&with(stranger), &over(to, Over::Newer)).unwrap().notes;
    let note = |stranger, to: &str, words: &str| {
        let notes = notes(stranger, to);
        assert_eq!(notes.iter().filter(|note| note.contains(words)).count(), 1, "{words}: {notes:?}");
    };
    let none = |stranger, to: &str| assert_eq!(notes(stranger, to), [""; 0]);
    note(stranger(Some("3.0.0"), false), "2.0.0", "there is no backup to go back to");
    note(stranger(Some("0.9.0"), true), "2.0.0", "was replaced by Teleport 0.9.0");
    note(stranger(None, true), "2.0.0", "cannot be found out");
    none(stranger(Some("0.9.0"), false), "2.0.0");
    none(stranger(None, false), "2.0.0");
    // On a host without a version of ours it is the agent that was there before.
    let mut facts = with(stranger(Some("0.9.0"), true));
    facts.active = None;
    assert_eq!(move_to(&facts, &over("2.0.0", Over::Newer)).unwrap().notes, [""; 0]);
}
