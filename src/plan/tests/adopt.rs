//! What only some hosts have: packages, the Go updater's files, timers of a suffix, another link directory.

use super::*;

fn upgraded(change: impl FnOnce(&mut Facts)) -> Plan {
    let mut facts = host("1.0.0", vec![installed("1.0.0", unusable()), installed("2.0.0", unusable())]);
    change(&mut facts);
    move_to(&facts, &target("2.0.0")).unwrap()
}

fn after(plan: &Plan) -> Vec<String> {
    plan.after.iter().map(|step| serde_json::to_value(step).unwrap()["step"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_plan_is_empty_only_without_any_step() {
    let facts = host("1.0.0", vec![installed("1.0.0", unusable())]);
    let empty = move_to(&facts, &target("1.0.0")).unwrap();
    assert!(empty.is_empty() && !empty.fetches());
    let verify = || vec![Step::Verify { dir: "1.0.0".into() }];
    assert!(!Plan { prepare: verify(), ..empty.clone() }.is_empty());
    assert!(!Plan { switch: verify(), ..empty.clone() }.is_empty());
    assert!(!Plan { after: verify(), ..empty.clone() }.is_empty());
    assert!(!Plan { prepare: verify(), ..empty }.fetches());
}

#[test]
fn the_size_of_a_download_is_told_where_it_is_known() {
    let facts = host("1.0.0", vec![installed("1.0.0", unusable())]);
    let mut wanted = move_to(&facts, &target("2.0.0")).unwrap();
    assert!(wanted.fetches() && wanted.download_bytes().is_none());
    if let Step::Fetch { bytes, .. } = &mut wanted.prepare[0] {
        *bytes = Some(77);
    }
    assert_eq!(wanted.download_bytes(), Some(77));
    assert_eq!(move_to(&facts, &target("1.0.0")).unwrap().download_bytes(), None);
}

#[test]
fn the_snapshot_of_the_target_is_needed_where_it_is_restored_or_was_just_taken() {
    let versions = |snapshot| vec![installed("1.0.0", snapshot), installed("2.0.0", unusable())];
    let down = move_to(&host("2.0.0", versions(Snapshot::Valid)), &target("1.0.0")).unwrap();
    assert!(down.needs_snapshot_of_target());
    let up = move_to(&host("1.0.0", versions(unusable())), &target("2.0.0")).unwrap();
    assert!(!up.needs_snapshot_of_target(), "it is another version's snapshot that is taken");
    // The agent's own link is gone: it is put back, with a snapshot of the version that is left and reached.
    let mut facts = host("1.0.0", versions(unusable()));
    facts.names.retain(|name| name.name != "teleport");
    let same = move_to(&facts, &target("1.0.0")).unwrap();
    assert!(same.needs_snapshot_of_target(), "{:?}", order(&same));
    assert_eq!((same.direction, same.service), (Direction::Same, ServiceAction::Reload));
    assert!(same.after.is_empty());
}

#[test]
fn every_path_that_is_used_as_it_is_moves_with_its_root() {
    let place = |was, now| Placement { path: "/a".into(), was, now, part: Part::Helper };
    let mut plan = upgraded(|_| {});
    plan.prepare.clear();
    plan.switch = vec![
        Step::Place(place(Node::Kept("/b".into()), Node::Link("/inside".into()))),
        Step::LinkAgent { place: place(Node::Absent, Node::Kept("/c".into())), evidence: "2.0.0".into() },
        Step::SetAside { path: "/d".into(), kept: "/e".into() },
    ];
    let places = vec![Placement { path: "/i".into(), ..place(Node::Kept("/j".into()), Node::Absent) }];
    plan.after = vec![
        Step::GrantTraverse { path: "/f".into() },
        Step::Retire { dir: "1.0.0".into() },
        Step::KeepLink { path: "/g".into(), kept: "/h".into() },
        Step::Reassert { enabled: true, running: true, places },
        Step::StopTimer { unit: "x.timer".into() },
    ];
    let (mut paths, mut words) = (Vec::new(), Vec::new());
    for named in plan.named() {
        paths.extend(named.paths.into_iter().map(|path| path.display().to_string()));
        words.extend(named.words.into_iter().map(str::to_owned));
    }
    paths.sort();
    assert_eq!(paths, ["/a", "/a", "/b", "/c", "/d", "/e", "/f", "/g", "/h", "/i", "/j"]);
    assert_eq!(words, ["2.0.0", "1.0.0", "x.timer"]);
}

#[test]
fn a_move_is_checked_first_and_a_version_in_its_place_is_not() {
    assert_eq!(upgraded(|_| {}).prepare, [Step::Verify { dir: "2.0.0".into() }]);
    let mut facts = host("1.0.0", vec![installed("1.0.0", unusable())]);
    facts.names.retain(|name| name.name != "tsh");
    let plan = move_to(&facts, &target("1.0.0")).unwrap();
    assert!(plan.prepare.is_empty());
    assert_eq!(order(&plan), ["record_agent", "place /bin/tsh", "daemon_reload"], "no snapshot, no reload");
}

#[test]
fn an_agent_that_nobody_can_control_runs_on_and_the_plan_says_so() {
    let said = |change: fn(&mut Facts)| {
        upgraded(change).notes.iter().any(|note| note.contains("keeps running the old version"))
    };
    assert!(said(|facts| facts.agent.controllable = false));
    assert!(!said(|_| {}), "it is reloaded");
    assert!(!said(|facts| facts.agent.running = false), "there is none");
    let mut facts = host("1.0.0", vec![installed("1.0.0", unusable())]);
    facts.agent.controllable = false;
    facts.names.retain(|name| name.name != "tsh");
    assert!(move_to(&facts, &target("1.0.0")).unwrap().notes.is_empty(), "its own link did not move");
}

#[test]
fn links_in_a_directory_used_before_go() {
    let moved = |facts: &mut Facts| {
        facts.moved_links = vec![("/old/tsh".into(), Node::Link("/v/1.0.0/bin/tsh".into()))];
    };
    assert_eq!(after(&upgraded(moved)), ["place"]);
    assert!(after(&upgraded(|_| {})).is_empty());
}

#[test]
fn timers_and_boot_units_that_are_new_are_enabled_and_services_are_not() {
    let unit = |name: &str, was| (PathBuf::from(format!("/units/{name}")), "[Unit]\n".to_owned(), was);
    let plan = upgraded(|facts| {
        facts.own_units = vec![
            unit("teleport-update_dev.service", Node::Absent),
            unit("teleport-update_dev.timer", Node::Absent),
            unit("teleport-update-recover_dev.service", Node::Absent),
            unit("teleport-update_old.timer", Node::Text("[Unit]\n".into())),
        ];
        facts.masked_timer = Some("teleport-update.timer".into());
    });
    let enabled: Vec<&str> = plan
        .after
        .iter()
        .filter_map(|step| match step {
            Step::EnableTimer { unit } => Some(unit.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(enabled, ["teleport-update_dev.timer", "teleport-update-recover_dev.service", "teleport-update.timer"]);
    let written = order(&plan).iter().filter(|step| step.contains("_dev") || step.contains("_old")).count();
    assert_eq!(written, 3, "one stands there as it should");
}

#[test]
fn a_unit_of_ours_that_others_replaced_is_put_back_by_an_operators_command_alone() {
    let units = |was: Node, set_aside: &str, over: Over| {
        let mut facts = host("1.0.0", vec![installed("1.0.0", unusable()), installed("2.0.0", unusable())]);
        facts.own_units = vec![("/units/teleport-update.timer".into(), "[Timer]\n".to_owned(), was)];
        facts.set_aside = vec![(set_aside.into(), "/v/.unmanaged/kept".into())];
        let plan = move_to(&facts, &Target { over, ..target("2.0.0") }).unwrap();
        let is_written = order(&plan).contains(&"place /units/teleport-update.timer".to_owned());
        (is_written, plan.notes.iter().any(|note| note.contains("teleport-update.timer was not installed by")))
    };
    let (others, text) = (|| Node::Link("/opt/a.timer".into()), |text: &str| Node::Text(text.to_owned()));
    assert_eq!(units(others(), "/units/x", Over::Told), (false, true));
    assert_eq!(units(others(), "/units/x", Over::Foreign), (true, false));
    assert_eq!(units(text("[Timer]\nold\n"), "/units/x", Over::Told), (true, false), "ours, of an older updater");
    assert_eq!(units(text("[Timer]\n"), "/units/x", Over::Foreign), (false, false), "as it should be");
    assert_eq!(
        units(text("[Timer]\n"), "/units/teleport-update.timer", Over::Foreign),
        (true, false),
        "it is moved away"
    );
}

#[test]
fn one_version_kept_means_no_way_back_and_the_plan_says_so_where_there_is_one_to_lose() {
    let says = |plan: &Plan| plan.notes.iter().any(|note| note.contains("keep is 1"));
    assert!(says(&upgraded(|facts| facts.keep = 1)));
    assert!(!says(&upgraded(|_| {})));
    assert!(!says(&upgraded(|facts| {
        facts.keep = 1;
        facts.active = None;
    })));
}

#[test]
fn a_foreign_updaters_links_go_and_anybody_elses_stay() {
    let plan = upgraded(|facts| {
        for (name, target, ours) in [
            ("fdpass", "/go/1.0.0/bin/fdpass", false),
            ("other", "/opt/other", false),
            ("old", "/v/1.0.0/bin/old", true),
        ] {
            facts.names.push(Name { name: name.into(), node: Node::Link(target.into()), ours });
        }
        facts.foreign_links = vec![("/bin/fdpass".into(), "/v/.taken-over/fdpass".into())];
    });
    let order = order(&plan);
    let touched = |name: &str| order.contains(&format!("place /bin/{name}"));
    assert!(touched("fdpass") && touched("old") && !touched("other"), "{order:?}");
}

#[test]
fn the_snapshot_of_a_version_that_fell_is_restored_whatever_else_is_said_of_it() {
    let trusted = |version| Target { trust_snapshot: true, ..target(version) };
    let mut facts = host("2.0.0", vec![installed("1.0.0", Snapshot::NoDatabase), installed("2.0.0", unusable())]);
    assert_eq!(move_to(&facts, &trusted("1.0.0")).unwrap().database, Database::Restore, "there was none before");
    facts.database = false;
    assert_eq!(move_to(&facts, &trusted("1.0.0")).unwrap().database, Database::Keep);
    // Another edition of the same version.
    let mut facts = host("1.0.0", vec![installed("1.0.0", unusable()), installed("1.0.0", Snapshot::Valid)]);
    let other = Revision { edition: Edition::Enterprise, ..revision("1.0.0") };
    facts.installed[1].revision = other.clone();
    facts.installed[1].dir = "1.0.0_enterprise".into();
    let to = |trust_snapshot| Target { revision: other.clone(), trust_snapshot, ..target("1.0.0") };
    assert_eq!(move_to(&facts, &to(true)).unwrap().database, Database::Restore);
    assert_eq!(move_to(&facts, &to(false)).unwrap().database, Database::Keep);
}

#[test]
fn a_version_that_was_never_left_has_no_snapshot_to_speak_of() {
    let missing = upgraded(|_| {});
    assert!(missing.notes.is_empty(), "{:?}", missing.notes);
}

#[test]
fn uninstalling_removes_what_is_ours_and_puts_back_what_was_not() {
    let unit = |node, linked| {
        let mut facts = host("1.0.0", vec![installed("1.0.0", unusable())]);
        facts.unit.node = node;
        facts.unit.linked = linked;
        order(&uninstall(&facts, &[])).contains(&"place /units/teleport.service".to_owned())
    };
    assert!(unit(Node::Link("/v/1.0.0/etc/systemd/teleport.service".into()), true));
    assert!(!unit(Node::Link("/opt/else".into()), true));
    assert!(unit(Node::Text("[Unit]\n".into()), false), "a generated one");
    assert!(!unit(Node::Text("[Unit]\n".into()), true), "somebody else's");
    assert!(!unit(Node::Absent, true));

    let mut facts = host("1.0.0", vec![installed("1.0.0", unusable())]);
    facts.own_units = vec![
        ("/units/teleport-update_dev.timer".into(), String::new(), Node::Text(String::new())),
        ("/units/teleport-update_dev.service".into(), String::new(), Node::Text(String::new())),
        ("/units/teleport-update_old.timer".into(), String::new(), Node::Absent),
    ];
    let plan = uninstall(&facts, &[("/units/theirs".into(), "/v/.taken-over/theirs".into())]);
    let order = order(&plan);
    assert_eq!(order.iter().filter(|step| *step == "disable_unit").count(), 1, "{order:?}");
    assert!(order.contains(&"place /units/teleport-update_dev.service".into()), "{order:?}");
    assert!(!order.contains(&"place /units/teleport-update_old.timer".into()), "{order:?}");
    assert!(order.contains(&"place /units/theirs".into()), "{order:?}");
}
