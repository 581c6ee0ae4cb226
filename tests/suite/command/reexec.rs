//! SPEC §5, Re-exec: the active version's updater does the work, and the bootstrap stands behind it.

use crate::support::*;

const BOOTSTRAP: &str = "/usr/lib/teleport-update/teleport-update";
const CALLS: &str = "/var/calls";
const SOON: Duration = Duration::from_secs(60);

#[test]
fn a_command_runs_in_the_active_versions_updater_with_its_arguments_and_status() {
    let Some(rig) = rig("passes-on", &toy("exit 3")) else { return };
    for args in [
        &["status", "--err-if-should-update-now"][..],
        &["update", "--now"],
        &["enable", "--group", "a b"],
        &["--debug", "plan"],
        &["pin"],
        &["verify"],
        &["rollback"],
    ] {
        let ran = bootstrap(&rig, args);
        assert_eq!(ran.status, 3, "{args:?}: {ran:?}");
        assert_eq!(calls(&rig).last().unwrap(), &format!("{} 1", args.join(" ")));
    }
    // The program's other name is no other program.
    rig.bed.sh(&format!("ln -s {BOOTSTRAP} /usr/lib/teleport-update/teleport-updater"));
    let ran = Ran::of(&rig.bed.run(&["/usr/lib/teleport-update/teleport-updater", "disable"]));
    assert_eq!(ran.status, 3, "{ran:?}");
    assert_eq!(calls(&rig).last().unwrap(), "disable 1");
    // What is about this program itself stays here.
    let count = calls(&rig).len();
    for args in [&["version"][..], &["recover"], &["completion", "bash"]] {
        bootstrap(&rig, args).ok();
    }
    assert_eq!(calls(&rig).len(), count);
}

#[test]
fn versions_that_the_agents_user_can_exchange_are_neither_run_nor_read() {
    let Some(rig) = rig("agents-user", &toy("exit 0")) else { return };
    let state = "/var/lib/teleport";
    // He owns the default data directory: another `versions` with a program of his is a rename away.
    let exchange = format!("cd {state} && mv versions old && cp -r old versions 2>/dev/null; test -d versions");
    rig.bed.sh(&format!("chown 900:900 {state} && setpriv --reuid 900 --regid 900 --clear-groups sh -c '{exchange}'"));
    let count = calls(&rig).len();
    for args in [
        &["update"][..],
        &["enable"],
        &["plan"],
        &["verify"],
        &["rollback"],
        &["pin"],
        &["recover"],
        &["uninstall", "--force"],
    ] {
        let ran = bootstrap(&rig, args);
        let said = &ran.stderr;
        assert_eq!(ran.status, 1, "{args:?}: {said}");
        assert!(said.contains("/var/lib/teleport can be changed by users other than root"), "{args:?}: {said}");
        assert!(said.contains("chown -h root:root /var/lib/teleport"), "{args:?}: {said}");
    }
    let ran = bootstrap(&rig, &["status"]);
    assert_eq!((ran.status, calls(&rig).len()), (0, count), "{ran:?}");
    assert!(ran.stderr.contains("can be changed by users other than root"), "{ran:?}");
    // What he left behind is not root's because the directory is again.
    rig.bed.sh(&format!("chown root:root {state}"));
    let said = bootstrap(&rig, &["update"]).stderr;
    assert!(said.contains(&format!("{state}/versions can be changed by users other than root")), "{said}");
    rig.bed.sh(&format!("rm -r {state}/versions; mv {state}/old {state}/versions; chmod 0751 {state}"));
    bootstrap(&rig, &["plan"]).ok();
    assert_eq!(calls(&rig).len(), count + 1);
}

#[test]
fn a_refusal_of_the_active_versions_updater_is_final_and_a_failure_of_its_loader_is_not() {
    let Some(rig) = rig("final", &toy("exit 76")) else { return };
    rig.release(&Archive::simple("2.0.0"));
    let ran = bootstrap(&rig, &["update", "--now"]);
    assert_eq!(ran.status, 1, "{ran:?}");
    assert_eq!(look::version(rig.bed.root()), "1.0.0");
    assert!(rig.cluster.requests_to("/cdn/teleport-v2.0.0-linux-amd64-bin.tar.gz").is_empty());

    rig.bed.write("/var/lib/teleport/versions/1.0.0/bin/teleport-update", toy("exit 1"), 0o755);
    bootstrap(&rig, &["update", "--now"]).ok();
    assert_eq!(look::version(rig.bed.root()), "2.0.0");
}

#[test]
fn an_updater_that_ends_oddly_or_hangs_is_no_end_of_any_command_and_is_passed_over_after_three_failures() {
    let Some(rig) = rig("odd", &toy("exit 127")) else { return };
    let updater = "/var/lib/teleport/versions/1.0.0/bin/teleport-update";
    for (body, said) in [
        ("exit 127", "exit status 127"),
        ("exit 126", "exit status 126"),
        ("exit 101", "exit status 101"),
        ("exit 1", "without reporting an error"),
    ] {
        rig.bed.write(updater, toy(body), 0o755);
        let ran = bootstrap(&rig, &["disable"]);
        assert_eq!(ran.status, 0, "{body}: {ran:?}");
        assert!(ran.stderr.contains(said), "{body}: {ran:?}");
    }
    // One that does not heed a signal.
    rig.bed.write(updater, toy("trap '' TERM; while :; do sleep 0.1; done"), 0o755);
    let ran = bootstrap(&rig, &["status", "--format", "json"]);
    let said = &ran.stderr;
    assert_eq!(ran.status, 0, "{said}");
    assert!(said.contains("did not end within 15 s"), "{said}");
    let status = ran.json();
    assert_eq!(status["agent_updates_enabled"], false);

    rig.bed.write(updater, toy("exit 127"), 0o755);
    for _ in 0..2 {
        bootstrap(&rig, &["unpin"]);
    }
    let called = calls(&rig).len();
    let ran = bootstrap(&rig, &["enable"]);
    assert!(ran.stderr.contains("is no longer used"), "{ran:?}");
    assert_eq!(ran.status, 0, "{ran:?}");
    assert_eq!(calls(&rig).len(), called);
    let ran = bootstrap(&rig, &["status", "--format", "json"]);
    let status = ran.json();
    let over = status["failed_updaters"].as_array().unwrap().iter().find(|failed| failed["passed_over"] == true);
    assert_eq!(over.map(|failed| failed["count"].clone()), Some(3.into()), "{status}");
    let shown = bootstrap(&rig, &["status", "--format", "text"]).stdout;
    assert!(shown.lines().any(|line| line.starts_with("Not used")), "{shown}");
    // Until it is another one.
    rig.bed.write(updater, toy("exit 3"), 0o755);
    assert_eq!(bootstrap(&rig, &["unpin"]).status, 3);
}

#[test]
fn where_the_active_versions_updater_breaks_the_bootstrap_does_the_work() {
    let Some(rig) = rig("breaks", &toy("exit 70")) else { return };
    let broken = [
        ("2.0.0", Some(toy("kill -ABRT $$")), "exit status 70"),
        ("3.0.0", Some(toy("kill -SEGV $$")), "signal: 6"),
        ("4.0.0", Some(toy("exit 0")), "signal: 11"),
        ("5.0.0", None, "could not be started"),
    ];
    for (version, program, reason) in &broken {
        let archive = Archive::simple(version);
        rig.release(&match program {
            Some(program) => archive.updater(program.as_bytes()),
            None => archive,
        });
        if *version == "5.0.0" {
            rig.bed.write("/var/lib/teleport/versions/4.0.0/bin/teleport-update", "#!/no/such/interpreter\n", 0o755);
        }
        let ran = bootstrap(&rig, &["update", "--now"]);
        let said = &ran.stderr;
        assert_eq!(ran.status, 0, "{version}: {said}");
        assert!(said.contains(reason), "{version}: {reason:?} is not in {said}");
        assert_eq!(look::version(rig.bed.root()), *version, "{said}");
    }
}

#[test]
fn what_a_breaking_updater_left_half_done_is_recovered_first() {
    // It starts the work, dies in the middle of it, and says that it is broken.
    let program = toy(&format!(
        "[ \"$1\" = update ] || exec {BOOTSTRAP} \"$@\"\n\
         {BOOTSTRAP} \"$@\" & pid=$!\n\
         while kill -0 $pid && ! grep -aq 'intent\",\"step\":3' /var/lib/teleport/versions/.journal 2>/dev/null; do :; done\n\
         kill -9 $pid; exit 70"
    ));
    let Some(rig) = rig("half", &program) else { return };
    rig.start_agent();
    // Its verdict takes longer than the death.
    rig.release(&Archive::simple("2.0.0").schema(2).behaviour("slow-start"));
    let ran = bootstrap(&rig, &["update", "--now"]);
    let said = &ran.stderr;
    assert_eq!(ran.status, 0, "{said}");
    assert!(said.contains("continues in its place"), "{said}");
    assert!(said.contains("the interrupted run has been undone"), "{said}");
    assert_eq!(look::version(rig.bed.root()), "2.0.0");
    assert!(!rig.path("/var/lib/teleport/versions/.journal").exists());
}

#[test]
fn a_reader_does_not_recover_for_an_updater_that_broke() {
    let Some(rig) = rig("reader", &toy("exit 70")) else { return };
    rig.bed.write("/var/lib/teleport/versions/.journal", look::record(r#"{"record":"transmogrify"}"#), 0o644);
    let ran = bootstrap(&rig, &["status", "--format", "json"]).ok();
    let status = ran.json();
    assert_eq!(status["recovery_pending"], true);
}

#[test]
fn an_updater_that_calls_the_bootstrap_again_does_not_loop() {
    let Some(rig) = rig("loop", &toy(&format!("exec {BOOTSTRAP} \"$@\""))) else { return };
    rig.release(&Archive::simple("2.0.0"));
    bootstrap(&rig, &["update", "--now"]).ok();
    assert_eq!(calls(&rig), ["update --now 1"]);
    assert_eq!(look::version(rig.bed.root()), "2.0.0");
}

#[test]
fn a_signal_is_passed_on_to_the_updater_that_does_the_work() {
    let program = toy("trap 'echo term >>/var/calls; exit 1' TERM; while :; do sleep 0.1; done");
    let Some(rig) = rig("signal", &program) else { return };
    let script = format!(
        "{BOOTSTRAP} update & pid=$!; while ! grep -q update {CALLS} 2>/dev/null; do sleep 0.05; done; kill $pid; wait $pid"
    );
    let ran = Ran::of(&rig.bed.run(&["sh", "-c", &script]));
    assert_eq!(ran.status, 1, "{ran:?}");
    assert_eq!(calls(&rig), ["update 1", "term"]);
}

#[test]
fn another_program_of_that_name_is_stored_and_never_linked_or_run() {
    let foreign = "#!/bin/sh\necho \"$*\" >>/var/foreign\necho 'Teleport Updater v1.0.0'\n";
    let Some(rig) = Rig::up("foreign") else { return };
    rig.bed.write("/var/foreign", "", 0o666);
    rig.release(&Archive::simple("1.0.0").updater(foreign.as_bytes()));
    let ran = rig.enable(&[]).ok();
    assert_eq!(ran.stderr.matches("is not a compatible updater").count(), 1, "{}", ran.stderr);
    assert!(rig.path("/var/lib/teleport/versions/1.0.0/bin/teleport-update").exists());
    assert!(std::fs::symlink_metadata(rig.path("/usr/local/bin/teleport-update")).is_err());

    // Our own link goes to the next one that is ours, and stays there.
    rig.release(
        &Archive::simple("2.0.0").updater(toy("exec /usr/lib/teleport-update/teleport-update \"$@\"").as_bytes()),
    );
    bootstrap(&rig, &["update", "--now"]);
    let ours = "/var/lib/teleport/versions/2.0.0/bin/teleport-update";
    let link = || std::fs::read_link(rig.path("/usr/local/bin/teleport-update")).unwrap().display().to_string();
    assert_eq!(link(), ours);
    rig.release(&Archive::simple("3.0.0").updater_named("teleport-updater", foreign.as_bytes()));
    let ran = bootstrap(&rig, &["update", "--now"]);
    assert_eq!(ran.stderr.matches("is not a compatible updater").count(), 1, "{ran:?}");
    assert_eq!((look::version(rig.bed.root()).as_str(), link().as_str()), ("3.0.0", ours));
    assert!(std::fs::symlink_metadata(rig.path("/usr/local/bin/teleport-updater")).is_err());
    bootstrap(&rig, &["update"]).ok();
    bootstrap(&rig, &["status"]).ok();
    // Asked what it is, once each time it was unpacked, as nobody; nothing else.
    let asked = rig.bed.sh("cat /var/foreign");
    assert!(asked.lines().all(|line| line == "version --format json"), "{asked}");
}

#[test]
fn an_updater_of_the_rfds_spelling_is_linked_under_both_names() {
    let Some(rig) = Rig::up("spelling") else { return };
    rig.release(&Archive::simple("1.0.0").updater_named("teleport-updater", toy("exit 3").as_bytes()));
    rig.enable(&[]).ok();
    for name in ["teleport-update", "teleport-updater"] {
        let link = std::fs::read_link(rig.path(&format!("/usr/local/bin/{name}"))).unwrap();
        assert_eq!(link.to_str().unwrap(), "/var/lib/teleport/versions/1.0.0/bin/teleport-updater");
    }
    assert_eq!(bootstrap(&rig, &["update"]).status, 3);
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
    assert!(!rig.path(CALLS).exists());
}

#[test]
fn a_later_format_is_left_to_the_updater_that_wrote_it() {
    let writer = "#!/bin/sh\necho \"$*\" >>/var/calls\nrm /var/lib/teleport/versions/.journal\n";
    let Some(rig) = rig("format", &toy("exit 70")) else { return };
    rig.bed.write("/opt/newer", writer, 0o755);
    let sha256 = protocol::Digest::of(writer.as_bytes());
    let opening = format!(
        r#"{{"record":"begin","format":9,"writer":{{"path":"/opt/newer","sha256":"{sha256}","version":"9.0.0"}}}}"#
    );
    rig.bed.write("/var/lib/teleport/versions/.journal", look::record(&opening), 0o644);
    bootstrap(&rig, &["recover"]).ok();
    assert_eq!(calls(&rig), ["recover"]);
}

#[test]
fn only_a_child_of_the_holder_recovers_without_the_lock() {
    let Some(rig) = rig("locked", &toy("exit 70")) else { return };
    let script = format!(
        "exec 9<>/var/lib/teleport/versions/.lock/lock; flock 9; echo '1 enable' >/var/lib/teleport/versions/.lock/lock\n\
         TELEPORT_UPDATE_LOCKED=1 timeout 3 {BOOTSTRAP} recover 9>&-"
    );
    // It waits for the lock until it is told to end.
    let ran = Ran::of(&rig.bed.run(&["sh", "-c", &script]));
    assert_ne!(ran.status, 0, "{ran:?}");
    assert!(ran.stderr.contains("interrupted while waiting"), "{ran:?}");
}

/// A host whose active 1.0.0 brings `program` as its updater.
fn rig(name: &str, program: &str) -> Option<Rig> {
    let rig = Rig::up(name)?;
    rig.release(&Archive::simple("1.0.0").updater(program.as_bytes()));
    rig.enable(&[]).ok();
    rig.bed.sh(&format!("rm -f {CALLS}"));
    rig.cluster.set_directive(Find::version("1.0.0"));
    Some(rig)
}

/// An updater that declares our protocol, writes down how it was called, and does `body`.
fn toy(body: &str) -> String {
    format!(
        "#!/bin/sh\n\
         if [ \"$1\" = version ]; then echo '{{\"version\":\"9.9.9\",\"protocol\":\"rfd0169/1\"}}'; exit 0; fi\n\
         echo \"$* $TELEPORT_UPDATE_REEXEC\" >>{CALLS}\n{body}\n"
    )
}

/// Runs the package's own updater in the bed.
fn bootstrap(rig: &Rig, args: &[&str]) -> Ran {
    let args: Vec<&str> = [BOOTSTRAP].into_iter().chain(args.iter().copied()).collect();
    Ran::of(&rig.bed.run(&args))
}

fn calls(rig: &Rig) -> Vec<String> {
    let text = std::fs::read_to_string(rig.path(CALLS)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
