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
        versions: "/v".into(),
        link_dir: "/bin".into(),
        active: Some(revision(active)),
        installed: versions,
        names: vec![link("tbot"), link("teleport"), link("tsh")],
        unit: UnitFact {
            path: "/units/teleport.service".into(),
            inside: "/units/teleport.service".into(),
            node: Node::Link(PathBuf::from(format!("/v/{active}/etc/systemd/teleport.service"))),
            linked: true,
            managed: true,
            ..UnitFact::default()
        },
        database: true,
        agent: Agent { running: true, enabled: true, served: true, controllable: true, ..Agent::default() },
        keep: 2,
        ..Facts::default()
    }
}

fn target(version: &str) -> Target {
    Target {
        revision: revision(version),
        url: "https://cdn/archive".into(),
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
        order(&plan).join(", "),
        "record_agent, place /bin/tbot, place /bin/tsh, place /units/teleport.service, snapshot 1.0.0, \
         switch /bin/teleport, daemon_reload, reload, health"
    );
    assert!(plan.downtime().is_empty());
}

#[test]
fn the_snapshot_of_the_target_decides_what_becomes_of_the_database() {
    type Outcome = Result<(Direction, Database), Code>;
    let unusable = |code| Some(Snapshot::Unusable(Error::new(code, "the reason")));
    let rows: [(&str, &str, Option<Snapshot>, bool, Outcome); 14] = [
        ("1.0.0", "2.0.0", Some(Snapshot::Valid), true, Ok((Direction::Upgrade, Database::Restore))),
        ("1.0.0", "2.0.0", unusable(Code::BackupMissing), true, Ok((Direction::Upgrade, Database::Keep))),
        ("1.0.0", "2.0.0", unusable(Code::BackupInvalid), true, Ok((Direction::Upgrade, Database::Keep))),
        ("1.0.0", "2.0.0", unusable(Code::Io), true, Err(Code::Io)),
        ("1.0.0", "2.0.0", None, true, Ok((Direction::Upgrade, Database::Keep))),
        ("2.0.0", "1.0.0", unusable(Code::BackupMissing), true, Err(Code::BackupMissing)),
        ("2.0.0", "1.0.0", unusable(Code::BackupExpired), true, Err(Code::BackupExpired)),
        ("2.0.0", "1.0.0", unusable(Code::BackupInvalid), true, Err(Code::BackupInvalid)),
        ("2.0.0", "1.0.0", None, true, Err(Code::BackupMissing)),
        ("2.0.0", "1.0.0", Some(Snapshot::NoDatabase), true, Err(Code::BackupMissing)),
        ("2.0.0", "1.0.0", Some(Snapshot::NoDatabase), false, Ok((Direction::Downgrade, Database::Keep))),
        ("2.0.0", "1.0.0", Some(Snapshot::Valid), true, Ok((Direction::Downgrade, Database::Restore))),
        // Over a major version, and to a release's own candidate.
        ("16.0.0", "14.3.0", Some(Snapshot::Valid), true, Ok((Direction::Downgrade, Database::Restore))),
        ("2.0.0", "2.0.0-rc.1", Some(Snapshot::Valid), true, Ok((Direction::Downgrade, Database::Restore))),
    ];
    for (from, to, snapshot, database, expected) in rows {
        let case = format!("{from} to {to}: {snapshot:?}");
        let is_told = snapshot == unusable(Code::BackupInvalid) && expected.is_ok();
        let has_reason = matches!(snapshot, Some(Snapshot::Unusable(_)));
        let mut facts = host(from, vec![installed(from, self::unusable())]);
        facts.installed.extend(snapshot.map(|snapshot| installed(to, snapshot)));
        facts.database = database;
        let plan = move_to(&facts, &target(to));
        let found = plan.as_ref().map(|plan| (plan.direction, plan.database)).map_err(|error| error.code);
        assert_eq!(found, expected, "{case}");
        match plan {
            Ok(plan) => assert_eq!(plan.notes.iter().any(|note| note.contains("the reason")), is_told, "{case}"),
            Err(error) => assert!(!has_reason || error.what.contains("the reason"), "{case}: {error}"),
        }
    }
}

#[test]
fn a_downgrade_with_a_valid_snapshot_stops_restores_links_and_starts() {
    let facts = host("2.0.0", vec![installed("1.0.0", Snapshot::Valid), installed("2.0.0", unusable())]);
    let plan = move_to(&facts, &target("1.0.0")).unwrap();
    assert_eq!((plan.direction, plan.database), (Direction::Downgrade, Database::Restore));
    assert_eq!(
        order(&plan).join(", "),
        "record_agent, prepare_restore, place /bin/tbot, place /bin/tsh, place /units/teleport.service, \
         daemon_reload, prepare_snapshot, stop, snapshot 2.0.0 stopped, restore, switch /bin/teleport, \
         start, health, describe, install"
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
        order(&plan).join(", "),
        "record_agent, prepare_restore, place /units/teleport.service, daemon_reload, prepare_snapshot, \
         stop, snapshot 2.0.0 stopped, restore, start, health, describe, install"
    );
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
fn service_actions_follow_the_agents_state_and_not_its_enablement() {
    for (running, enabled, failed, controllable, service, is_held) in [
        (true, false, false, true, ServiceAction::Reload, true),
        (false, true, true, true, ServiceAction::Start, true),
        // Not to run, stopped by hand, not ours.
        (false, false, true, true, ServiceAction::None, false),
        (false, true, false, true, ServiceAction::None, false),
        (true, true, true, false, ServiceAction::None, false),
    ] {
        let mut facts = host("1.0.0", vec![installed("1.0.0", unusable()), installed("2.0.0", unusable())]);
        facts.agent = Agent { running, enabled, failed, fell: false, served: false, controllable };
        let plan = move_to(&facts, &target("2.0.0")).unwrap();
        assert_eq!(
            (plan.service, &plan.switch[0]),
            (service, &Step::RecordAgent { running: is_held }),
            "{:?}",
            facts.agent
        );
    }
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
