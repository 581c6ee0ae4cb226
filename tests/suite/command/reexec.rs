//! SPEC §5, Re-exec: the active version's updater does the work, and the bootstrap stands behind it.

use crate::support::*;

const BOOTSTRAP: &str = "/usr/lib/teleport-update/teleport-update";

#[test]
fn the_active_versions_updater_does_the_work_and_the_bootstrap_stands_behind_it() {
    transcript::play("command/reexec.txt");
}

#[test]
fn an_open_journal_is_finished_by_its_writer_and_without_it_by_the_bootstrap() {
    // The same program with other bytes: another updater.
    let mut program = testing::cluster::toy::slim(&std::fs::read(updater()).unwrap());
    program.extend(b"another");
    let Some(rig) = Rig::up("writer") else { return };
    rig.release(&Archive::simple("1.0.0").updater(&program));
    rig.enable(&[]).ok();
    let linked_updater = "/var/lib/teleport/versions/1.0.0/bin/teleport-update";
    assert_eq!(rig.status()["updater_path"], linked_updater);
    // It tells its own failure, and nobody tries after it.
    rig.cluster.set_directive(Find::version("9.9.9"));
    let said = bootstrap(&rig, &["update", "--now"]).stderr;
    assert!(said.contains("9.9.9") && !said.contains("in its place"), "{said}");

    for (version, writer_is_there) in [("2.0.0", true), ("3.0.0", false)] {
        rig.release(&Archive::simple(version));
        rig.kill_in_the_switch("/usr/local/bin/teleport-update", &["update", "--now"]);
        rig.bed.until("test -e /var/lib/teleport/versions/.journal", SOON);
        let opened = std::fs::read_to_string(rig.path("/var/lib/teleport/versions/.journal")).unwrap();
        assert!(opened.contains(linked_updater), "{opened}");
        if !writer_is_there {
            // It is no more what it was.
            rig.bed.write(linked_updater, "#!/bin/sh\necho changed >>/var/calls\n", 0o755);
        }
        let ran = bootstrap(&rig, &["recover"]);
        let said = &ran.stderr;
        assert_eq!(ran.status, 0, "{said}");
        assert_eq!(said.contains("which now recovers it"), writer_is_there, "{said}");
        assert!(said.contains("the interrupted run has been undone"), "{said}");
        assert!(!rig.path("/var/lib/teleport/versions/.journal").exists());
        assert_eq!(look::version(rig.bed.root()), "1.0.0");
    }
    assert!(!rig.path("/var/calls").exists());
}

/// Runs the package's own updater in the bed.
fn bootstrap(rig: &Rig, args: &[&str]) -> Ran {
    let args: Vec<&str> = [BOOTSTRAP].into_iter().chain(args.iter().copied()).collect();
    Ran::of(&rig.bed.run(&args))
}
