//! The tables of SPEC §6 and the order of SPEC §5, row by row.

mod adopt;
mod decision;
mod links;
mod retention;
mod said;
mod strangers;
mod uninstall;
mod way_back;

use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;

use super::facts::{Agent, Facts, Installed, Name, UnitFact};
use super::*;
use crate::report::{Code, Error};
use protocol::Edition;

fn revision(version: &str) -> Revision {
    Revision { version: version.parse().unwrap(), edition: Edition::Oss }
}

fn unusable() -> Snapshot {
    Snapshot::Unusable(Error::new(Code::BackupMissing, "no snapshot"))
}

fn installed(version: &str, snapshot: Snapshot) -> Installed {
    Installed {
        revision: revision(version),
        dir: version.into(),
        marker: Some("0".repeat(64)),
        intact: true,
        binaries: vec!["tbot".into(), "teleport".into(), "tsh".into()],
        components: None,
        updater: None,
        unit: Some("[Service]\nExecStart=/usr/local/bin/teleport start --config /etc/teleport.yaml\n".into()),
        size: 1000,
        snapshot,
        install_time: Timestamp::from_second(version.bytes().map(i64::from).sum()).unwrap(),
    }
}

/// A host whose running agent is `active`, with links wholly of it.
fn host(active: &str, versions: Vec<Installed>) -> Facts {
    let link = |name: &str| Name {
        name: name.to_owned(),
        node: Node::Link(PathBuf::from(format!("/v/{active}/bin/{name}"))),
        ours: true,
    };
    Facts {
        now: Timestamp::UNIX_EPOCH,
        versions: "/v".into(),
        link_dir: "/bin".into(),
        active: Some(revision(active)),
        previous: None,
        installed: versions,
        names: vec![link("tbot"), link("teleport"), link("tsh")],
        unit: UnitFact {
            path: "/units/teleport.service".into(),
            inside: "/units/teleport.service".into(),
            node: Node::Link(PathBuf::from(format!("/v/{active}/etc/systemd/teleport.service"))),
            linked: true,
            edits: Vec::new(),
            managed: true,
        },
        enablement: Vec::new(),
        database: true,
        agent: Agent { running: true, enabled: true, failed: false, fell: false, served: true, controllable: true },
        strangers: Vec::new(),
        refused: Vec::new(),
        delayed: Vec::new(),
        left: Vec::new(),
        components: Vec::new(),
        keep: 2,
        other_data_dir: None,
        in_use: Vec::new(),
        in_use_by_others: Vec::new(),
        packages: Vec::new(),
        set_aside: Vec::new(),
        foreign_links: Vec::new(),
        foreign_timers: Vec::new(),
        masked_timer: None,
        grant_traverse: None,
        own_units: Vec::new(),
        closed_path: None,
        moved_links: Vec::new(),
    }
}

fn target(version: &str) -> Target {
    Target {
        revision: revision(version),
        url: "https://cdn/archive".into(),
        bytes: None,
        trust_snapshot: false,
        over: Over::Foreign,
    }
}

/// The names of a plan's switch steps, with the link where there is one.
fn order(plan: &Plan) -> Vec<String> {
    plan.switch
        .iter()
        .map(|step| match step {
            Step::Place(place) => format!("place {}", place.path.display()),
            Step::LinkAgent { place, .. } => format!("switch {}", place.path.display()),
            Step::Snapshot { dir, stopped, .. } => format!("snapshot {dir}{}", if *stopped { " stopped" } else { "" }),
            other => serde_json::to_value(other).unwrap()["step"].as_str().unwrap().to_owned(),
        })
        .collect()
}

#[test]
fn an_upgrade_without_a_snapshot_keeps_the_database_and_reloads_with_the_agents_link_last() {
    let facts = host("1.0.0", vec![installed("1.0.0", unusable()), installed("2.0.0", unusable())]);
    let plan = move_to(&facts, &target("2.0.0")).unwrap();
    assert_eq!(
        (plan.direction, plan.database, plan.service),
        (Direction::Upgrade, Database::Keep, ServiceAction::Reload)
    );
    assert_eq!(
        order(&plan),
        [
            "record_agent",
            "place /bin/tbot",
            "place /bin/tsh",
            "place /units/teleport.service",
            "snapshot 1.0.0",
            "switch /bin/teleport",
            "daemon_reload",
            "reload",
            "health"
        ]
    );
    assert!(plan.downtime().is_empty());
}

#[test]
fn an_upgrade_to_exactly_the_version_whose_snapshot_exists_restores_it() {
    let facts = host("1.0.0", vec![installed("1.0.0", unusable()), installed("2.0.0", Snapshot::Valid)]);
    let plan = move_to(&facts, &target("2.0.0")).unwrap();
    assert_eq!((plan.database, plan.service), (Database::Restore, ServiceAction::Restart));
}

#[test]
fn an_upgrade_whose_targets_snapshot_is_invalid_keeps_the_present_database_and_says_so() {
    let failed = Snapshot::Unusable(Error::new(Code::BackupInvalid, "was left by a version that failed"));
    let facts = host("1.0.0", vec![installed("1.0.0", unusable()), installed("2.0.0", failed)]);
    let plan = move_to(&facts, &target("2.0.0")).unwrap();
    assert_eq!(plan.database, Database::Keep);
    assert!(plan.notes[0].contains("was left by a version that failed"), "{:?}", plan.notes);
}

#[test]
fn an_upgrade_past_a_version_with_a_snapshot_keeps_the_present_database() {
    let versions =
        vec![installed("1.0.0", unusable()), installed("2.0.0", Snapshot::Valid), installed("3.0.0", unusable())];
    let plan = move_to(&host("1.0.0", versions), &target("3.0.0")).unwrap();
    assert_eq!(plan.database, Database::Keep);
}

#[test]
fn a_downgrade_with_a_valid_snapshot_stops_restores_links_and_starts() {
    let facts = host("2.0.0", vec![installed("1.0.0", Snapshot::Valid), installed("2.0.0", unusable())]);
    let plan = move_to(&facts, &target("1.0.0")).unwrap();
    assert_eq!((plan.direction, plan.database), (Direction::Downgrade, Database::Restore));
    assert_eq!(
        order(&plan),
        [
            "record_agent",
            "prepare_restore",
            "place /bin/tbot",
            "place /bin/tsh",
            "place /units/teleport.service",
            "daemon_reload",
            "prepare_snapshot",
            "stop",
            "snapshot 2.0.0 stopped",
            "restore",
            "switch /bin/teleport",
            "start",
            "health",
            "describe",
            "install"
        ]
    );
    let downtime = plan.switch[plan.downtime()].iter().map(Step::describe).collect::<Vec<_>>();
    assert_eq!(downtime.len(), 4, "what must be done while the agent stands still: {downtime:?}");
}

#[test]
fn a_restore_stops_and_saves_also_where_the_link_leads_to_the_target_by_now() {
    let mut facts = host("2.0.0", vec![installed("1.0.0", Snapshot::Valid), installed("2.0.0", unusable())]);
    for name in &mut facts.names {
        name.node = Node::Link(PathBuf::from(format!("/v/1.0.0/bin/{}", name.name)));
    }
    let plan = move_to(&facts, &target("1.0.0")).unwrap();
    assert_eq!((plan.database, plan.service), (Database::Restore, ServiceAction::Restart));
    assert_eq!(
        order(&plan),
        [
            "record_agent",
            "prepare_restore",
            "place /units/teleport.service",
            "daemon_reload",
            "prepare_snapshot",
            "stop",
            "snapshot 2.0.0 stopped",
            "restore",
            "start",
            "health",
            "describe",
            "install"
        ]
    );
}

#[test]
fn a_downgrade_without_a_usable_snapshot_is_refused_with_the_snapshots_own_reason() {
    for code in [Code::BackupMissing, Code::BackupExpired, Code::BackupInvalid] {
        let snapshot = Snapshot::Unusable(Error::new(code, "the reason"));
        let facts = host("2.0.0", vec![installed("1.0.0", snapshot), installed("2.0.0", unusable())]);
        let error = move_to(&facts, &target("1.0.0")).unwrap_err();
        assert_eq!(error.code, code);
        assert!(error.what.contains("refusing to downgrade to 1.0.0") && error.what.contains("the reason"), "{error}");
    }
}

#[test]
fn an_upgrade_to_a_version_whose_backup_cannot_be_read_is_refused_and_one_with_a_bad_backup_keeps_the_database() {
    let upgrade = |code| {
        let snapshot = Snapshot::Unusable(Error::new(code, "the reason"));
        let facts = host("1.0.0", vec![installed("1.0.0", unusable()), installed("2.0.0", snapshot)]);
        move_to(&facts, &target("2.0.0")).map(|plan| (plan.database, plan.notes.len()))
    };
    let error = upgrade(Code::Io).unwrap_err();
    assert!(error.code == Code::Io && error.what.contains("the reason"), "{error}");
    assert_eq!(upgrade(Code::BackupInvalid).unwrap(), (Database::Keep, 1));
    assert_eq!(upgrade(Code::BackupMissing).unwrap(), (Database::Keep, 0));
}

#[test]
fn a_downgrade_to_a_version_that_is_not_on_disk_is_refused_before_any_download() {
    let facts = host("2.0.0", vec![installed("2.0.0", unusable())]);
    assert_eq!(move_to(&facts, &target("1.0.0")).unwrap_err().code, Code::BackupMissing);
}

#[test]
fn a_downgrade_over_a_major_version_is_an_ordinary_one() {
    let facts = host("16.0.0", vec![installed("14.3.0", Snapshot::Valid), installed("16.0.0", unusable())]);
    assert_eq!(move_to(&facts, &target("14.3.0")).unwrap().database, Database::Restore);
}

#[test]
fn a_host_that_had_no_database_may_go_back_only_while_it_still_has_none() {
    let mut facts = host("2.0.0", vec![installed("1.0.0", Snapshot::NoDatabase), installed("2.0.0", unusable())]);
    assert_eq!(move_to(&facts, &target("1.0.0")).unwrap_err().code, Code::BackupMissing);
    facts.database = false;
    assert_eq!(move_to(&facts, &target("1.0.0")).unwrap().database, Database::Keep);
}

#[test]
fn another_edition_of_the_same_version_keeps_the_database_and_gets_its_own_directory() {
    let facts = host("1.0.0", vec![installed("1.0.0", unusable())]);
    let wanted = Target { revision: Revision { edition: Edition::Enterprise, ..revision("1.0.0") }, ..target("1.0.0") };
    let plan = move_to(&facts, &wanted).unwrap();
    assert_eq!((plan.direction, plan.database), (Direction::EditionSwitch, Database::Keep));
    assert_eq!(plan.to_dir, Some("1.0.0_enterprise".into()));
}

#[test]
fn a_pre_release_is_older_than_its_release() {
    let facts = host("2.0.0", vec![installed("2.0.0", unusable()), installed("2.0.0-rc.1", Snapshot::Valid)]);
    assert_eq!(move_to(&facts, &target("2.0.0-rc.1")).unwrap().direction, Direction::Downgrade);
}

#[test]
fn the_active_version_in_order_needs_nothing() {
    let facts = host("1.0.0", vec![installed("1.0.0", unusable())]);
    assert!(move_to(&facts, &target("1.0.0")).unwrap().is_empty());
}

#[test]
fn a_damaged_active_version_is_fetched_again_without_touching_the_agent() {
    let mut facts = host("1.0.0", vec![installed("1.0.0", unusable())]);
    facts.installed[0].intact = false;
    let plan = move_to(&facts, &target("1.0.0")).unwrap();
    assert!(plan.fetches() && plan.switch.is_empty() && plan.after.is_empty(), "{plan:?}");
}

#[test]
fn service_actions_follow_the_agents_state_and_not_its_enablement() {
    let with = |running, enabled, failed, controllable| {
        let mut facts = host("1.0.0", vec![installed("1.0.0", unusable()), installed("2.0.0", unusable())]);
        facts.agent = Agent { running, enabled, failed, fell: false, served: false, controllable };
        move_to(&facts, &target("2.0.0")).unwrap().service
    };
    assert_eq!(with(true, false, false, true), ServiceAction::Reload, "a running one, enabled or not");
    assert_eq!(with(false, true, true, true), ServiceAction::Start, "an enabled one that has failed");
    assert_eq!(with(false, false, true, true), ServiceAction::None, "a failed one that is not enabled");
    assert_eq!(with(false, true, false, true), ServiceAction::None, "an enabled one that was stopped by hand");
    assert_eq!(with(true, true, false, false), ServiceAction::None, "one that nobody can control");
}

#[test]
fn a_stopped_agent_is_not_started_by_a_downgrade() {
    let mut facts = host("2.0.0", vec![installed("1.0.0", Snapshot::Valid), installed("2.0.0", unusable())]);
    facts.agent =
        Agent { running: false, enabled: true, failed: false, fell: false, served: false, controllable: true };
    let plan = move_to(&facts, &target("1.0.0")).unwrap();
    let order = order(&plan);
    assert!(order.contains(&"stop".into()) && !order.contains(&"start".into()), "{order:?}");
}

#[test]
fn links_to_names_that_the_new_version_lacks_go() {
    let mut facts = host("1.0.0", vec![installed("1.0.0", unusable()), installed("2.0.0", unusable())]);
    facts.installed[1].binaries.retain(|name| name != "tbot");
    let plan = move_to(&facts, &target("2.0.0")).unwrap();
    let gone = plan
        .switch
        .iter()
        .any(|step| matches!(step, Step::Place(place) if place.path.ends_with("tbot") && place.now == Node::Absent));
    assert!(gone, "{:?}", order(&plan));
}

#[test]
fn a_database_is_restored_also_where_somebody_has_moved_the_link_already() {
    let mut facts = host("2.0.0", vec![installed("1.0.0", Snapshot::Valid), installed("2.0.0", unusable())]);
    facts.names[1].node = Node::Link("/v/1.0.0/bin/teleport".into());
    let order = order(&move_to(&facts, &target("1.0.0")).unwrap());
    let place =
        |wanted: &str| order.iter().position(|step| step.starts_with(wanted)).unwrap_or_else(|| panic!("{order:?}"));
    let steps = ["prepare_restore", "stop", "snapshot", "restore", "start", "health"].map(place);
    assert!(steps.is_sorted(), "{order:?}");
    assert!(!order.iter().any(|step| step.starts_with("switch")), "{order:?}");
}

#[test]
fn a_smaller_selection_takes_links_of_the_installed_version_away_and_fetches_nothing() {
    let mut facts = host("1.0.0", vec![installed("1.0.0", unusable())]);
    facts.components = vec!["tsh".into()];
    assert_eq!(
        order(&move_to(&facts, &target("1.0.0")).unwrap()),
        ["record_agent", "place /bin/tbot", "daemon_reload"],
        "the agent runs on"
    );
}

#[test]
fn a_larger_selection_fetches_the_version_that_stays_again_but_a_move_asks_nobody() {
    let mut facts = host("1.0.0", vec![installed("1.0.0", unusable()), installed("2.0.0", unusable())]);
    for version in &mut facts.installed {
        version.components = Some(vec!["tbot".into(), "tsh".into()]);
    }
    for (wanted, fetches) in [(&["tsh"][..], false), (&["tbot", "tctl"], true), (&[], true)] {
        facts.components = wanted.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(move_to(&facts, &target("1.0.0")).unwrap().fetches(), fetches, "{wanted:?}");
        assert!(!move_to(&facts, &target("2.0.0")).unwrap().fetches(), "{wanted:?}");
    }
}

#[test]
fn our_own_link_goes_to_a_compatible_updater_and_stays_there_when_the_new_version_has_another_program() {
    let mut facts = host("1.0.0", vec![installed("1.0.0", unusable()), installed("2.0.0", unusable())]);
    facts.installed[0].updater = Some("bin/teleport-update".into());
    facts.installed[0].binaries.push("teleport-update".into());
    // The new release carries a foreign program of that name: stored, never linked.
    facts.installed[1].binaries.push("teleport-update".into());
    let plan = move_to(&facts, &target("2.0.0")).unwrap();
    let link = plan.switch.iter().find_map(|step| match step {
        Step::Place(place) if place.path.ends_with("teleport-update") => Some(place.now.clone()),
        _ => None,
    });
    assert_eq!(link, Some(Node::Link("/v/1.0.0/bin/teleport-update".into())));
}

#[test]
fn our_own_link_passes_over_a_version_without_an_updater_or_with_a_broken_one() {
    for (updater, marker) in [(None, Some("0".repeat(64))), (Some("bin/teleport-update".to_owned()), None)] {
        let mut facts =
            host("2.0.0", ["1.0.0", "2.0.0", "3.0.0"].map(|version| installed(version, unusable())).to_vec());
        facts.previous = Some(revision("1.0.0"));
        facts.installed[0].updater = Some("bin/teleport-update".into());
        (facts.installed[1].updater, facts.installed[1].marker) = (updater, marker);
        let plan = move_to(&facts, &target("3.0.0")).unwrap();
        let links: Vec<_> = plan
            .switch
            .iter()
            .flat_map(Step::placements)
            .filter(|place| place.path.ends_with("teleport-update"))
            .collect();
        assert_eq!(links.len(), 1, "{links:?}");
        assert_eq!(links[0].now, Node::Link("/v/1.0.0/bin/teleport-update".into()));
    }
}

#[test]
fn our_own_link_never_goes_to_a_version_that_was_only_unpacked() {
    let mut facts = host("1.0.0", vec![installed("1.0.0", unusable()), installed("2.0.0", unusable())]);
    facts.installed[1].updater = Some("bin/teleport-update".into());
    assert!(move_to(&facts, &target("1.0.0")).unwrap().is_empty(), "2.0.0 failed here: its updater is not asked for");
    facts.previous = Some(revision("2.0.0"));
    assert_eq!(
        order(&move_to(&facts, &target("1.0.0")).unwrap()),
        ["record_agent", "place /bin/teleport-update", "daemon_reload"]
    );
}

#[test]
fn a_version_that_our_own_link_moves_to_is_not_retired_by_the_same_run() {
    // 2.0.0 and its other edition were both in use; the one that is not linked was unpacked later.
    let other = Revision { edition: Edition::Enterprise, ..revision("2.0.0") };
    let mut versions =
        vec![installed("2.0.0", unusable()), installed("2.0.0", unusable()), installed("3.0.0", unusable())];
    versions[1].revision = other.clone();
    versions[1].dir = "2.0.0_enterprise".into();
    versions[1].install_time = Timestamp::from_second(1_000_000).unwrap();
    for version in &mut versions[..2] {
        version.updater = Some("bin/teleport-update".into());
    }
    let mut facts = host("2.0.0", versions);
    facts.previous = Some(other);
    let link = Node::Link("/v/2.0.0/bin/teleport-update".into());
    facts.names.push(Name { name: "teleport-update".into(), node: link, ours: true });
    let plan = move_to(&facts, &target("3.0.0")).unwrap();
    assert!(order(&plan).contains(&"place /bin/teleport-update".into()), "{:?}", order(&plan));
    assert!(plan.after.is_empty(), "{:?}", plan.after);
}

#[test]
fn a_commit_keeps_the_current_and_the_last_working_version_and_retires_the_rest() {
    let versions = ["1.0.0", "2.0.0", "3.0.0"].map(|version| installed(version, unusable())).to_vec();
    let retired = |facts: &Facts| -> Vec<VersionDir> {
        move_to(facts, &target("3.0.0"))
            .unwrap()
            .after
            .iter()
            .filter_map(|step| match step {
                Step::Retire { dir } => Some(dir.clone()),
                _ => None,
            })
            .collect()
    };
    let mut facts = host("2.0.0", versions);
    assert_eq!(retired(&facts), ["1.0.0"]);
    facts.keep = 3;
    assert!(retired(&facts).is_empty(), "keep 3");
    facts.keep = 1;
    assert_eq!(retired(&facts), ["1.0.0"], "keep 1 retires the version left only after the watch");
    facts.in_use = vec!["1.0.0".into()];
    assert!(retired(&facts).is_empty(), "a process runs from it");
}

#[test]
fn a_suffixed_installation_gets_a_unit_with_its_own_paths() {
    let mut facts = host("1.0.0", vec![installed("1.0.0", unusable()), installed("2.0.0", unusable())]);
    facts.unit.linked = false;
    facts.unit.node = Node::Absent;
    facts.unit.edits = vec![("/etc/teleport.yaml".into(), "/etc/teleport_dev.yaml".into())];
    let plan = move_to(&facts, &target("2.0.0")).unwrap();
    let text = plan.switch.iter().find_map(|step| match step {
        Step::Place(Placement { now: Node::Text(text), .. }) => Some(text.clone()),
        _ => None,
    });
    assert!(text.unwrap().contains("--config /etc/teleport_dev.yaml"));
}

#[test]
fn each_name_of_an_installation_has_its_part() {
    use super::facts::part_of;
    let parts = ["teleport", "teleport-update", "teleport-updater", "tsh"].map(part_of);
    assert_eq!(parts, [Part::Agent, Part::Updater, Part::Updater, Part::Helper]);
}

#[test]
fn an_undo_is_told_in_the_words_of_its_step() {
    let place = Placement { path: "/p".into(), was: Node::Absent, now: Node::Absent, part: Part::Helper };
    let (path, kept): (PathBuf, PathBuf) = ("/p".into(), "/k".into());
    for (step, undo) in [
        (Step::RecordAgent { running: true }, "start the agent again"),
        (Step::RecordAgent { running: false }, "nothing to undo"),
        (Step::Place(place.clone()), "restore what was there before"),
        (Step::PrepareRestore { dir: "1".into() }, "remove the prepared copy"),
        (Step::Stop, "start the agent"),
        (Step::Restore { dir: "1".into() }, "restore the old version's database"),
        (
            Step::LinkAgent { place, evidence: "2".into() },
            "stop the agent, restore the old version's database, restore the link",
        ),
        (Step::SetAside { path: path.clone(), kept: kept.clone() }, "restore the file"),
        (Step::KeepLink { path, kept }, "remove the kept copy"),
        (Step::StopTimer { unit: "t".into() }, "start the unit again"),
        (Step::DisableUnit { unit: "t".into() }, "enable and start the unit again"),
        (Step::Start, "nothing to undo"),
    ] {
        assert_eq!(step.describe_undo(), undo, "{step:?}");
    }
}

#[test]
fn a_plan_tells_what_it_downloads_what_it_keeps_of_others_and_while_what_the_agent_stands_still() {
    let upgrade = move_to(&host("1.0.0", vec![installed("1.0.0", unusable())]), &target("2.0.0")).unwrap();
    assert_eq!(upgrade.download(), Some((&revision("2.0.0"), &"2.0.0".into())));
    assert!(upgrade.fetches() && !upgrade.keeps_unmanaged());
    assert_eq!(upgrade.downtime(), 0..0);
    let versions = vec![installed("1.0.0", Snapshot::Valid), installed("2.0.0", unusable())];
    let mut downgrade = move_to(&host("2.0.0", versions), &target("1.0.0")).unwrap();
    assert_eq!(downgrade.download(), None);
    let still = downgrade.downtime();
    assert_eq!((&downgrade.switch[still.start], &downgrade.switch[still.end]), (&Step::Stop, &Step::Start));
    assert!(downgrade.needs_database() && !Plan::none(Direction::Same).needs_database());
    let was = Node::Kept("/v/.unmanaged/tsh".into());
    let place = Placement { path: "/bin/tsh".into(), was, now: Node::Absent, part: Part::Helper };
    downgrade.switch.push(Step::Place(place));
    assert!(downgrade.keeps_unmanaged());
    let mut taken_over = upgrade;
    taken_over.unmanaged = true;
    assert!(taken_over.keeps_unmanaged(), "what was taken over alone is reason enough");
}
