//! Steps on names, and the run around them.

use std::os::unix::fs::PermissionsExt;

use super::super::steps::files::*;
use super::*;
use crate::database::SnapshotId;
use crate::store::UNMANAGED;
use durable::{keep, put_back};

const TEXT: &str = "[Unit]\n";

/// Lets a plan fail whose other steps are done: no version has that name.
fn failing() -> Step {
    Step::Verify { dir: "none".into() }
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn what_was_absent_is_absent_below_a_file_and_below_a_loop() {
    let dir = tempfile::tempdir().unwrap();
    durable::write(&dir.path().join("file"), b"", 0o644).unwrap();
    durable::symlink(Path::new("loop"), &dir.path().join("loop")).unwrap();
    for (name, can_be) in [("file", false), ("loop", false), ("none", true)] {
        let link = Node::Link("/x".into());
        let path = dir.path().join(name).join("tsh");
        let place = Placement { path: path.clone(), was: Node::Absent, now: link.clone(), part: Part::Helper };
        assert_eq!(put(&place, &link).is_ok(), can_be, "{name}");
        take_back(&place).unwrap();
        assert!(path.symlink_metadata().is_err());
    }
}

#[test]
fn a_link_that_cannot_be_made_is_told_before_anything_is_stopped_for_it() {
    let dir = tempfile::tempdir().unwrap();
    let link = Node::Link("/x".into());
    let at = |path: PathBuf| Placement { path, was: link.clone(), now: Node::Absent, part: Part::Agent };
    let (place, nowhere) = (at(dir.path().join("tsh")), at(dir.path().join("none/tsh")));
    can_put(&place, &link).unwrap();
    assert!(look(&place.path).unwrap() == Node::Absent && dir.path().read_dir().unwrap().next().is_none());
    assert!(can_put(&nowhere, &link).is_err());
    can_put(&nowhere, &Node::Absent).unwrap();
}

#[test]
fn a_killed_run_is_undone_although_a_file_stands_in_the_place_of_its_new_link_directory() {
    let bed = Bed::new();
    let dir = bed.layout.root.join("opt/new");
    let place = Placement {
        path: dir.join("tsh"),
        was: Node::Absent,
        now: Node::Link("/v/2.0.0/bin/tsh".into()),
        part: Part::Helper,
    };
    let journal = bed.kill(&plan(vec![Step::Place(place)]), || {
        durable::remove_tree(&dir).unwrap();
        durable::write(&dir, b"", 0o644).unwrap();
    });
    recovery::check_is_last(&journal, &bed.layout).unwrap();
    bed.recover();
    assert!(dir.is_file() && bed.reopen().is_none());
}

/// A placement of each kind of name over each kind of name, and what was there made.
fn placements(bed: &Bed) -> Vec<Placement> {
    let mut places = Vec::new();
    for was in ["absent", "link", "text", "kept"] {
        for now in ["absent", "link", "text"] {
            let path = bed.layout.root.join(format!("usr/{was}/{now}"));
            let kept = bed.layout.versions.join(UNMANAGED).join(format!("{was}-{now}"));
            if was != "absent" {
                durable::create_dir_all(durable::parent(&path)).unwrap();
            }
            let was = match was {
                "absent" => Node::Absent,
                "link" => {
                    durable::symlink(Path::new("/old"), &path).unwrap();
                    Node::Link("/old".into())
                }
                "text" => {
                    durable::write(&path, b"old\n", durable::FILE_MODE).unwrap();
                    Node::Text("old\n".into())
                }
                _ => {
                    durable::write(&path, b"foreign", 0o4751).unwrap();
                    if rustix::process::geteuid().is_root() {
                        durable::chown(&path, 1234, 1235).unwrap();
                        set_mode(&path, 0o4751);
                    }
                    Node::Kept(kept)
                }
            };
            let now = match now {
                "absent" => Node::Absent,
                "link" => Node::Link("/new".into()),
                _ => Node::Text(TEXT.into()),
            };
            places.push(Placement { path, was, now, part: Part::Unit });
        }
    }
    places
}

#[test]
fn each_kind_of_name_is_put_in_place_of_each_other_and_undone_or_recovered_to_what_it_was() {
    let bed = Bed::new();
    let places = placements(&bed);
    let before = bed.tree();
    let inodes = || -> Vec<_> {
        let kept = places.iter().filter(|place| matches!(place.was, Node::Kept(_)));
        kept.map(|place| inode(&place.path)).collect()
    };
    let same_files = inodes();
    let steps = plan(places.iter().cloned().map(Step::Place).collect());

    let undone = bed.fail(&steps, || {
        for place in &places {
            assert_eq!(look(&place.path).unwrap(), place.now, "{}", place.path.display());
        }
    });
    assert!(!undone.blame && undone.begun && undone.error.what == "as asked");
    assert_eq!(bed.tree(), before);
    assert_eq!(inodes(), same_files);

    let journal = bed.kill(&steps, || ());
    assert!(journal::is_open(&bed.layout.versions));
    // What the kill left half made.
    let temp = durable::temp_beside(&places[1].path);
    durable::write_synced(&temp, b"half", durable::FILE_MODE).unwrap();
    let regretted = Cell::new(0);
    let recovered = recovery::run(&bed.site(), journal, &mut |journal| {
        assert_eq!(journal.undo_reason().unwrap().0, "interrupted");
        regretted.set(regretted.get() + 1);
    });
    assert_eq!((recovered.unwrap(), regretted.get()), (Recovered::Undone, 1));
    assert!(!journal::is_open(&bed.layout.versions));
    assert_eq!(bed.tree(), before);
    assert_eq!(inodes(), same_files);

    bed.commit(&steps);
    for place in &places {
        assert_eq!(look(&place.path).unwrap(), place.now, "{}", place.path.display());
    }
    assert!(!bed.layout.versions.join(UNMANAGED).exists());
    assert_eq!(std::fs::read_to_string(bed.layout.config_file()).unwrap(), "next\n");
}

#[test]
fn a_step_that_fails_undoes_those_before_it_and_is_no_fault_of_the_version() {
    let bed = Bed::new();
    let before = bed.tree();
    let mut steps: Vec<_> = placements(&bed).into_iter().map(Step::Place).collect();
    let with_names = bed.tree();
    assert_ne!(with_names, before);
    steps.push(failing());
    let undone = run(&bed.site(), &plan(steps), "update", &mut |_| panic!("settled"), &mut |_| {}).unwrap_err();
    assert_eq!((undone.error.code, undone.blame), (Code::Damaged, false));
    assert_eq!(bed.tree(), with_names);
}

#[test]
fn an_agent_that_cannot_be_started_is_the_versions_fault_and_a_unit_of_ours_that_cannot_be_enabled_is_not() {
    let unit = Step::EnableTimer { unit: "no-such.timer".into() };
    for (step, is_to_blame) in [(Step::Start, true), (unit, false)] {
        let bed = Bed::new();
        let undone = run(&bed.site(), &plan(vec![step]), "update", &mut |_| panic!("settled"), &mut |journal| {
            assert_eq!(journal.undo_reason().unwrap().2, is_to_blame);
        });
        let undone = undone.unwrap_err();
        assert_eq!((undone.error.code, undone.blame), (Code::ServiceFailed, is_to_blame));
        assert!(!bed.layout.versions.join(journal::NAME).exists());
    }
}

#[test]
fn a_run_that_cannot_have_a_journal_leaves_its_failure_to_be_recorded() {
    let bed = Bed::new();
    durable::create_dir_all(&bed.layout.versions.join(journal::NAME).join("in its place")).unwrap();
    let unwritten = &mut |_: &Journal| panic!("there is no journal");
    let steps = plan(vec![bed.switch()]);
    let undone = run(&bed.site(), &steps, "update", &mut |_| panic!("settled"), unwritten).unwrap_err();
    assert_eq!((undone.begun, undone.recorded, undone.recovery.is_none()), (false, false, true));
}

#[test]
fn what_is_set_aside_or_remembered_is_kept_and_comes_back_when_that_is_undone() {
    let bed = Bed::new();
    let (unit, link) = (bed.layout.root.join("etc/teleport.service"), bed.layout.link_dir.join("tsh"));
    let kept = |name: &str| bed.layout.versions.join(TAKEN_OVER).join(name);
    durable::create_dir_all(durable::parent(&unit)).unwrap();
    durable::write(&unit, b"theirs", 0o640).unwrap();
    durable::symlink(Path::new("/opt/tsh"), &link).unwrap();
    let before = bed.tree();
    // One of an earlier take-over.
    durable::create_dir_all(durable::parent(&kept("unit"))).unwrap();
    durable::write(&kept("unit"), b"older", 0o600).unwrap();
    let steps = plan(vec![
        Step::SetAside { path: unit.clone(), kept: kept("unit") },
        Step::SetAside { path: unit.with_file_name("none"), kept: kept("none") },
        Step::KeepLink { path: link.clone(), kept: kept("link") },
    ]);
    bed.fail(&steps, || {
        assert!(!unit.exists() && !kept("none").exists());
        assert_eq!((std::fs::read(kept("unit")).unwrap(), mode(&kept("unit"))), (b"theirs".to_vec(), 0o640));
        assert_eq!(std::fs::read_link(kept("link")).unwrap(), Path::new("/opt/tsh"));
        assert_eq!(std::fs::read_link(&link).unwrap(), Path::new("/opt/tsh"));
    });
    assert_eq!(bed.tree(), before);
    // Killed between the second name and the removal of the first.
    keep_link(&unit, &kept("unit")).unwrap();
    put_back(&kept("unit"), &unit).unwrap();
    assert_eq!(bed.tree(), before);
    bed.commit(&steps);
    assert!(!unit.exists() && kept("unit").exists() && kept("link").is_symlink());
}

#[test]
fn a_second_name_that_cannot_be_a_link_is_a_copy_with_owner_and_mode() {
    let bed = Bed::new();
    let (from, to) = (bed.layout.root.join("from"), bed.layout.root.join("to"));
    keep(&from, &to).unwrap();
    assert!(!to.exists());
    durable::write(&from, b"theirs", 0o751).unwrap();
    if rustix::process::geteuid().is_root() {
        durable::chown(&from, 1234, 1235).unwrap();
    }
    // The name is taken, as another file system's would be out of reach.
    durable::write(&to, b"taken", 0o600).unwrap();
    keep(&from, &to).unwrap();
    let of = |path: &Path| {
        let meta = std::fs::metadata(path).unwrap();
        (meta.uid(), meta.gid(), meta.mode(), std::fs::read(path).unwrap())
    };
    assert_eq!(of(&to), of(&from));
    assert_ne!(inode(&to), inode(&from));
    durable::remove_file(&from).unwrap();
    durable::symlink(Path::new("/x"), &from).unwrap();
    keep(&from, &to).unwrap();
    assert_eq!(std::fs::read_link(&to).unwrap(), Path::new("/x"));
}

#[test]
fn what_cannot_be_looked_at_is_not_taken_for_gone() {
    let bed = Bed::new();
    let below_a_file = bed.agent().join("x");
    durable::remove_file(&bed.agent()).unwrap();
    durable::write(&bed.agent(), b"", 0o644).unwrap();
    assert!(look(&below_a_file).is_err());
    assert_eq!(look(&bed.layout.root.join("none/x")).unwrap(), Node::Absent);
    let place = Placement {
        path: bed.layout.root.join("none/x"),
        was: Node::Absent,
        now: Node::Text(TEXT.into()),
        part: Part::Unit,
    };
    // Its directory was never made.
    take_back(&place).unwrap();
}

#[test]
fn opening_a_path_lets_others_through_and_changes_no_other_bit() {
    let bed = Bed::new();
    for (before, after) in [(0o750, 0o751), (0o2700, 0o2701), (0o755, 0o755)] {
        set_mode(&bed.layout.link_dir, before);
        grant_traverse(&bed.layout.link_dir).unwrap();
        assert_eq!(mode(&bed.layout.link_dir), after);
    }
}

#[test]
fn after_the_commit_the_rest_is_tried_and_only_what_matters_is_an_error() {
    let bed = Bed::new();
    let in_a_file = bed.layout.root.join("file");
    durable::write(&in_a_file, b"", 0o644).unwrap();
    let lost = |path: &Path| {
        let now = Node::Link(bed.target("2.0.0"));
        Placement { path: path.to_owned(), was: Node::Absent, now, part: Part::Helper }
    };
    let reassert = |path: &Path| Step::Reassert { enabled: true, running: true, places: vec![lost(path)] };
    let tsh = bed.layout.link_dir.join("tsh");
    let mut steps = plan(vec![bed.switch()]);
    steps.after = vec![
        Step::GrantTraverse { path: bed.layout.root.join("none") },
        reassert(&tsh),
        Step::Retire { dir: "1.0.0".into() },
    ];
    let finished = bed.commit(&steps);
    assert!(finished.is_none());
    assert_eq!(std::fs::read_link(&tsh).unwrap(), bed.target("2.0.0"));
    assert!(!bed.version("1.0.0").exists() && bed.reopen().is_none());

    steps.after = vec![reassert(&in_a_file.join("x")), Step::GrantTraverse { path: bed.layout.root.join("none") }];
    assert_eq!(bed.commit(&steps).unwrap().code, Code::Io);
    assert!(bed.reopen().is_none());
}

#[test]
fn a_committed_run_is_finished_at_the_boot_as_far_as_it_can_be() {
    let bed = Bed::new();
    let mut steps = plan(vec![bed.switch()]);
    steps.after = vec![Step::GrantTraverse { path: bed.layout.link_dir.clone() }, Step::Retire { dir: "1.0.0".into() }];
    set_mode(&bed.layout.link_dir, 0o700);
    let mut journal = bed.kill(&steps, || ());
    durable::write(&bed.layout.versions.join(NEXT_CONFIG), b"next", durable::FILE_MODE).unwrap();
    journal.append(Record::Commit).unwrap();
    let at_boot = Site { boot: true, ..bed.site() };
    assert_eq!(recovery::run(&at_boot, journal, &mut |_| panic!("undone")).unwrap(), Recovered::Finished);
    assert_eq!(std::fs::read(bed.layout.config_file()).unwrap(), b"next");
    assert_eq!(mode(&bed.layout.link_dir), 0o701);
    assert!(bed.version("1.0.0").exists() && journal::is_open(&bed.layout.versions));
    let journal = bed.reopen().unwrap();
    assert_eq!(recovery::run(&bed.site(), journal, &mut |_| panic!("undone")).unwrap(), Recovered::Finished);
    assert!(!bed.version("1.0.0").exists() && !journal::is_open(&bed.layout.versions));
    assert_eq!(std::fs::read_link(bed.agent()).unwrap(), bed.target("2.0.0"));
}

#[test]
fn a_closed_journal_is_only_removed() {
    let bed = Bed::new();
    let mut journal = bed.kill(&plan(vec![bed.switch()]), || ());
    journal.append(Record::Closed).unwrap();
    let before = std::fs::read_link(bed.agent()).unwrap();
    assert_eq!(recovery::run(&bed.site(), journal, &mut |_| panic!("undone")).unwrap(), Recovered::Nothing);
    assert_eq!(std::fs::read_link(bed.agent()).unwrap(), before);
    assert!(bed.reopen().is_none());
}

#[test]
fn the_journal_names_the_running_program_that_writes_it() {
    let bed = Bed::new();
    let before = jiff::Timestamp::now();
    let undone = run(&bed.site(), &plan(vec![failing()]), "update", &mut |_| Ok(Next::default()), &mut |journal| {
        let opening = journal.opening().unwrap();
        let own = protocol::Digest::of(&std::fs::read("/proc/self/exe").unwrap());
        assert_eq!((&opening.writer.path, &opening.writer.sha256), (&bed.host.exe, &own));
        assert_eq!((&opening.root, opening.command.as_str()), (&bed.layout.root, "update"));
        assert!((before..=jiff::Timestamp::now()).contains(&opening.time), "{}", opening.time);
    });
    assert!(undone.is_err());
}

#[test]
fn settings_that_an_editor_writes_during_the_commit_are_taken_along() {
    let bed = Bed::new();
    let config = bed.layout.config_file();
    durable::write(&config, b"a\n", 0o644).unwrap();
    let reads = Cell::new(0);
    let commit_settings = &mut |_: Option<SnapshotId>| {
        let read = std::fs::read_to_string(&config).unwrap();
        reads.set(reads.get() + 1);
        if reads.get() == 1 {
            durable::write(&config, b"edited\n", 0o644).unwrap();
        }
        Ok(Next { config: Some(format!("next of {read}")), credentials: None })
    };
    run(&bed.site(), &plan(vec![bed.switch()]), "update", commit_settings, &mut |_| panic!("undone")).unwrap();
    assert_eq!(std::fs::read_to_string(&config).unwrap(), "next of edited\n");
    assert_eq!(reads.get(), 2);
}

#[test]
fn settings_and_credentials_are_committed_together_and_empty_credentials_are_none() {
    let bed = Bed::new();
    let commit_settings = |credentials: &str| {
        let next = Next { config: Some("next\n".into()), credentials: Some(credentials.into()) };
        write_settings(&bed.site(), "enable", next).unwrap();
        assert!(bed.reopen().is_none());
        let read = |path: PathBuf| std::fs::read_to_string(path).ok();
        (read(bed.layout.config_file()), read(bed.layout.versions.join(CREDENTIALS)))
    };
    assert_eq!(commit_settings("token\n"), (Some("next\n".into()), Some("token\n".into())));
    assert_eq!(commit_settings(""), (Some("next\n".into()), None));
}
