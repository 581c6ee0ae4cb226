//! SPEC §8: whatever kills the updater, after the next run or boot the host is wholly on the old or the new version.
//!
//! Files only, in images: every flow is killed (or fails) before each of its durable system calls. What needs a running
//! agent is in `recovery_service.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are not themselves tests")]
#![allow(clippy::disallowed_methods, reason = "the test is outside the host it tests")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicUsize, Ordering};

use support::{tree, updater};
use test_crash::host::words;
use test_crash::state::VERSIONS;
use test_crash::{Flow, Found, Random, State, Updater, copy};

/// Everything that makes a change, or makes it durable. musl calls some by their old names.
const CALLS: &str = "rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,rmdir,mkdir,mkdirat,\
                     fsync,fdatasync,pwrite64,fallocate,chmod,fchmod";

#[test]
fn enabling_an_empty_image_can_be_killed_anywhere() {
    every_kill("enable");
}

#[test]
fn enabling_over_plain_binaries_can_be_killed_anywhere() {
    every_kill("enable-over-plain");
}

#[test]
fn an_update_can_be_killed_anywhere() {
    every_kill("update");
}

#[test]
fn an_update_to_names_that_come_and_go_can_be_killed_anywhere() {
    every_kill("update-names");
}

#[test]
fn a_downgrade_that_restores_can_be_killed_anywhere() {
    every_kill("downgrade");
}

#[test]
fn an_upgrade_that_restores_can_be_killed_anywhere() {
    every_kill("upgrade-restores");
}

#[test]
fn a_rollback_can_be_killed_anywhere() {
    every_kill("rollback");
}

#[test]
fn uninstalling_can_be_killed_anywhere() {
    every_kill("uninstall");
}

#[test]
fn a_recovery_can_itself_be_killed_anywhere() {
    let flow = named("downgrade");
    let mut random = Random::new(0x5eed_0001);
    let points = flow.points(&flow.args, &flow.host.root());
    for point in random.some(&points, 12) {
        let crashed = flow.copy();
        flow.kill(crashed.path(), &flow.args, &point);
        let recover = words(if random.below(2) == 0 { "recover --boot" } else { "recover" });
        for second in random.some(&flow.points(&recover, crashed.path()), 6) {
            let copy = copy(crashed.path());
            flow.kill(copy.path(), &recover, &second);
            checked(&flow, copy.path(), &format!("{point:?}, then {second:?} in {recover:?}"), true);
        }
    }
}

#[test]
fn a_failing_disk_ends_with_an_error_and_the_old_version_or_with_success() {
    let mut random = Random::new(0x5eed_0002);
    for flow in ["update", "downgrade", "enable-over-plain"].map(named) {
        let points = flow.points(&flow.args, &flow.host.root());
        for point in random.some(&points, 25) {
            let error = ["ENOSPC", "EIO", "EACCES"][random.below(3)];
            let copy = flow.copy();
            let output = flow.injected(copy.path(), &flow.args, &point, &format!("error={error}"));
            let words = format!("{point:?} fails with {error}");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            match output.status.code() {
                Some(0) => assert!(flow.is(copy.path(), &flow.new), "{words}: not new after success\n{said}"),
                Some(1) => {
                    assert!(said.contains("error: "), "{words}: {said}");
                    // A journal that stays open is for the recovery to close.
                    let is_open = copy.path().join(VERSIONS).join(".journal").exists();
                    let found = flow.found(copy.path());
                    assert!(is_open || found.is_ok(), "{words}: {found:?}\n{said}");
                }
                other => panic!("{words}: {other:?} {said}"),
            }
            checked(&flow, copy.path(), &words, true);
        }
    }
}

#[test]
fn a_signal_ends_a_run_at_a_safe_point_undone_before_the_commit_and_finished_after_it() {
    let mut random = Random::new(0x5eed_0003);
    for flow in ["downgrade", "enable-over-plain"].map(named) {
        let points = flow.points(&flow.args, &flow.host.root());
        for point in random.some(&points, 30) {
            let signal = ["TERM", "INT"][random.below(2)];
            let copy = flow.copy();
            let args = [flow.args.clone(), words("--log-format json")].concat();
            let ran = flow.injected(copy.path(), &args, &point, &format!("signal={signal}"));
            let said = String::from_utf8_lossy(&ran.stderr).into_owned();
            let what = format!("SIG{signal} at {point:?}: {said}");
            let state = match ran.status.code() {
                Some(0) => Found::New,
                Some(1) => {
                    assert!(said.contains(r#""error_code":"interrupted""#), "{what}");
                    Found::Old
                }
                other => panic!("{other:?} {what}"),
            };
            let whole = flow.check_whole(copy.path(), state);
            assert!(whole.is_ok(), "{whole:?} {what}");
        }
    }
}

#[test]
fn an_error_in_writing_the_commit_undoes_the_run_for_good() {
    let flow = named("update");
    let syncs = flow.points(&flow.args, &flow.host.root());
    // The last record is the journal's end, the one before it the commit: its bytes are in the file, its sync fails.
    let commit = syncs.iter().filter(|(call, _)| call == "fdatasync").count() - 1;
    let fails = format!("inject=fdatasync:error=EIO:when={commit}");
    let trace = tempfile::NamedTempFile::new().unwrap();
    let all = format!("trace={CALLS}");
    let copy = flow.copy();
    let options = ["-e", &all, "-e", &fails, "-o", trace.path().to_str().unwrap()];
    let output = strace(&flow.host.updater.path(), &options, copy.path(), &flow.args);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(flow.is(copy.path(), &flow.old), "{output:?}");
    checked(&flow, copy.path(), "the commit's sync fails", true);

    // Nor does it count when the undo is cut short as well.
    let text = std::fs::read_to_string(trace.path()).unwrap();
    let undo = text.split_inclusive('\n').position(|line| line.contains("(INJECTED)")).unwrap();
    let before: String = text.split_inclusive('\n').take(undo).collect();
    let undo = calls_of(&text).split_off(calls_of(&before).len());
    let undo: Vec<_> = undo.into_iter().filter(|(call, _)| call != "fdatasync").collect();
    for (call, nth) in Random::new(0x5eed_0004).some(&undo, 12) {
        let copy = flow.copy();
        let kills = format!("inject={call}:signal=KILL:when={nth}");
        strace(
            &flow.host.updater.path(),
            &["-e", &all, "-e", &fails, "-e", &kills, "-o", "/dev/null"],
            copy.path(),
            &flow.args,
        );
        checked(&flow, copy.path(), &format!("the commit's sync fails, killed at {call} {nth}"), nth % 2 == 0);
    }
}

#[test]
fn a_torn_last_record_is_ignored() {
    let flow = interrupted_update();
    for torn in [&b"0123"[..], b"deadbeef {\"record\":\"commit\"}\n", b"\xff\xfe\n\n\0\0garbage"] {
        let copy = flow.copy();
        let journal = copy.path().join(VERSIONS).join(".journal");
        let mut bytes = std::fs::read(&journal).unwrap();
        let end = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
        bytes.splice(end..(end + torn.len()).min(bytes.len()), torn.iter().copied());
        std::fs::write(&journal, bytes).unwrap();
        assert_eq!(checked(&flow, copy.path(), "a torn tail", false), Found::Old);
    }
}

#[test]
fn an_unknown_record_stops_every_writing_command_and_nothing_is_changed() {
    let flow = interrupted_update();
    let copy = flow.copy();
    let journal = copy.path().join(VERSIONS).join(".journal");
    let bytes = std::fs::read(&journal).unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    let mut known = bytes[..end].to_vec();
    known.extend(line(r#"{"record":"transmogrify"}"#));
    std::fs::write(&journal, &known).unwrap();
    let before = tree(copy.path());
    for command in ["recover", "recover --boot", "update", "disable", "uninstall", "rollback"] {
        let ran = flow.run(copy.path(), &words(&format!("{command} --log-format json")));
        assert_eq!(ran.status.code(), Some(1), "{command}: {ran:?}");
        let said = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(said.contains(r#""error_code":"journal_unknown""#), "{command}: {said}");
        assert_eq!(lock_aside(tree(copy.path())), lock_aside(before.clone()), "{command}");
    }
    let status = flow.status(copy.path()).unwrap();
    assert_eq!(status["recovery_pending"], true);
}

#[test]
fn a_journal_of_another_format_stops_safely() {
    let flow = interrupted_update();
    let copy = flow.copy();
    let journal = copy.path().join(VERSIONS).join(".journal");
    std::fs::write(
        &journal,
        line(r#"{"record":"begin","format":2,"writer":{"path":"/x","sha256":"0","version":"9"}}"#),
    )
    .unwrap();
    let before = tree(copy.path());
    let ran = flow.run(copy.path(), &words("update --log-format json"));
    assert_eq!(ran.status.code(), Some(1), "{ran:?}");
    assert!(String::from_utf8_lossy(&ran.stderr).contains("journal_unknown"), "{ran:?}");
    assert_eq!(lock_aside(tree(copy.path())), lock_aside(before));
}

#[test]
fn a_journal_that_was_closed_is_only_removed() {
    let flow = interrupted_update();
    let copy = flow.copy();
    let journal = copy.path().join(VERSIONS).join(".journal");
    flow.run(copy.path(), &words("recover"));
    assert!(flow.is(copy.path(), &flow.old));
    let kept = flow.copy();
    let mut bytes = std::fs::read(kept.path().join(VERSIONS).join(".journal")).unwrap();
    let end = bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1;
    bytes.truncate(end);
    bytes.extend(line(r#"{"record":"closed"}"#));
    std::fs::write(&journal, bytes).unwrap();
    let config = std::fs::read(copy.path().join(VERSIONS).join("updates.yaml")).unwrap();
    assert_eq!(flow.status(copy.path()).unwrap()["recovery_pending"], false);
    let ran = flow.run(copy.path(), &words("recover"));
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert!(!journal.exists());
    assert_eq!(std::fs::read(copy.path().join(VERSIONS).join("updates.yaml")).unwrap(), config);
}

#[test]
fn an_empty_journal_of_a_run_that_had_not_begun_is_in_nobodys_way() {
    let flow = interrupted_update();
    for bytes in [&b""[..], &[0; 4096], b"0000"] {
        let copy = copy(&flow.host.root());
        std::fs::write(copy.path().join(VERSIONS).join(".journal"), bytes).unwrap();
        assert_eq!(flow.status(copy.path()).unwrap()["recovery_pending"], false);
        checked(&flow, copy.path(), "an empty journal", true);
    }
}

#[test]
fn an_unreadable_configuration_does_not_keep_a_host_from_recovering_and_is_not_overwritten() {
    let flow = interrupted_update();
    for (file, broken) in [("updates.yaml", "spec: [unclosed\n"), ("/etc/teleport.yaml", "teleport: {{{\n")] {
        let copy = flow.copy();
        let path = match file.strip_prefix('/') {
            Some(path) => copy.path().join(path),
            None => copy.path().join(VERSIONS).join(file),
        };
        let good = std::fs::read(&path).ok();
        std::fs::write(&path, broken).unwrap();
        let ran = flow.run(copy.path(), &words("recover --boot"));
        assert_eq!(ran.status.code(), Some(0), "{file}: {ran:?}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), broken);
        let links = |root: &Path| tree(&root.join("usr"));
        assert_eq!(links(copy.path()), links(&flow.host.root()), "{file}");
        assert!(!copy.path().join(VERSIONS).join(".journal").exists());
        match good {
            Some(good) => std::fs::write(&path, good).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        checked(&flow, copy.path(), file, true);
    }
}

#[test]
fn what_an_operator_wrote_after_the_commit_survives_its_recovery() {
    let mut flow = named("update");
    let copy = flow.copy();
    // The commit is followed by the rename of the new configuration, which is the last but what a clean-up does.
    let config = copy.path().join(VERSIONS).join("updates.yaml");
    let next = copy.path().join(VERSIONS).join(".updates.yaml.next");
    let points = flow.points(&flow.args, &flow.host.root());
    let renames: Vec<_> = points.into_iter().filter(|(call, _)| call.starts_with("rename")).rev().collect();
    let committed = renames.iter().find(|point| {
        let copy = self::copy(&flow.host.root());
        flow.kill(copy.path(), &flow.args, point);
        flow.is_committed(copy.path()) && copy.path().join(VERSIONS).join(".updates.yaml.next").exists()
    });
    flow.kill(copy.path(), &flow.args, committed.expect("a kill before the rename"));
    assert!(next.exists());
    let edited = std::fs::read_to_string(&config).unwrap().replace("spec:\n", "spec:\n  keep: 3\n  mine: yes\n");
    // The kernel's clock for files ticks every few milliseconds.
    let time = |path: &Path| std::fs::metadata(path).unwrap().modified().unwrap();
    while time(&config) <= time(&next) {
        std::fs::write(&config, &edited).unwrap();
    }
    let undisturbed = flow.new.settings.clone();
    flow.new.settings.extend(["  keep: 3", "  mine: yes"].map(str::to_owned));
    flow.new.settings.sort();
    assert_eq!(checked(&flow, copy.path(), "an edit after the commit", false), Found::New);
    flow.new.settings = undisturbed;
    let text = std::fs::read_to_string(&config).unwrap();
    assert!(text.contains("keep: 3") && text.contains("mine: yes"), "{text}");

    // A file that cannot be read is not overwritten; the rest of the recovery waits for it.
    let copy = flow.copy();
    let config = copy.path().join(VERSIONS).join("updates.yaml");
    flow.kill(copy.path(), &flow.args, committed.unwrap());
    let good = std::fs::read(&config).unwrap();
    std::fs::write(&config, "spec: [unclosed\n").unwrap();
    assert_eq!(flow.run(copy.path(), &words("recover")).status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(&config).unwrap(), "spec: [unclosed\n");
    std::fs::write(&config, good).unwrap();
    assert_eq!(checked(&flow, copy.path(), "a file put right", false), Found::New);
}

#[test]
fn recovery_at_boot_asks_no_network_and_starts_no_program() {
    let flow = interrupted_update();
    let copy = flow.copy();
    let seen = copy.path().join("seen");
    let output = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=socket,connect,execve", "-o"])
        .arg(&seen)
        .arg(updater())
        .arg("--root")
        .arg(copy.path())
        .args(["recover", "--boot"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    // strace's own start of the updater is the only one.
    let seen = std::fs::read_to_string(seen).unwrap();
    assert_eq!(seen.lines().filter(|line| line.contains("execve(")).count(), 1, "{seen}");
    assert!(!seen.contains("socket(") && !seen.contains("connect("), "{seen}");
}

#[test]
fn a_target_that_was_interrupted_three_times_after_the_switch_is_refused() {
    let flow = named("update");
    let copy = flow.copy();
    let late = |root: &Path| {
        // The last step of the switch is done, the commit is not: the next configuration is just being written.
        let points = flow.points(&flow.args, root);
        let nth = |point: &(String, usize)| {
            let probe = self::copy(root);
            flow.kill(probe.path(), &flow.args, point);
            probe.path().join(VERSIONS).join(".updates.yaml.next").exists() && !flow.is_committed(probe.path())
        };
        points.into_iter().filter(|(call, _)| call == "fsync").rev().find(nth).expect("a point before the commit")
    };
    for round in 1..=3 {
        let point = late(copy.path());
        flow.kill(copy.path(), &flow.args, &point);
        let ran = flow.run(copy.path(), &words("recover --boot"));
        assert_eq!(ran.status.code(), Some(0), "{ran:?}");
        assert!(flow.is(copy.path(), &flow.old), "round {round}");
        let refused = flow.status(copy.path()).unwrap()["refused"].as_array().map_or(0, Vec::len);
        assert_eq!(refused, usize::from(round == 3), "round {round}");
    }
    let ran = flow.run(copy.path(), &words("update"));
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert!(String::from_utf8_lossy(&ran.stderr).contains("was refused"), "{ran:?}");
    assert!(flow.is(copy.path(), &flow.old));
    let ran = flow.run(copy.path(), &words("update --now"));
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert!(flow.is(copy.path(), &flow.new));
}

/// The flow of that name under the updater under test.
fn named(name: &str) -> Flow {
    test_crash::flow(name, &Updater::new(&updater()))
}

/// [`Flow::check`], with a violation as a failed test.
#[track_caller]
fn checked(flow: &Flow, root: &Path, what: &str, boot: bool) -> Found {
    flow.check(root, what, boot).unwrap_or_else(|violation| panic!("{violation}"))
}

/// An update of 1.0.0 that was killed behind the move of the agent's link; the template is the image before it.
fn interrupted_update() -> Interrupted {
    let flow = named("update");
    let points = flow.points(&flow.args, &flow.host.root());
    for point in points.iter().filter(|(call, _)| call == "fdatasync").rev() {
        let killed = flow.copy();
        flow.kill(killed.path(), &flow.args, point);
        let now = State::of(killed.path(), None).unwrap();
        // The settings follow the commit.
        if now.outside == flow.new.outside && !flow.is_committed(killed.path()) {
            return Interrupted { flow, killed };
        }
    }
    panic!("no kill between the last link and the commit");
}

/// A flow and an image that it was killed in.
struct Interrupted {
    flow: Flow,
    killed: tempfile::TempDir,
}

impl Interrupted {
    fn copy(&self) -> tempfile::TempDir {
        copy(self.killed.path())
    }
}

impl std::ops::Deref for Interrupted {
    type Target = Flow;
    fn deref(&self) -> &Flow {
        &self.flow
    }
}

/// What strace does to a flow.
trait Strace {
    /// Every durable call of `args` on an image like `root`, as strace counts them.
    fn points(&self, args: &[String], root: &Path) -> Vec<(String, usize)>;
    /// Runs `args` with something injected into the nth call of a kind.
    fn injected(&self, root: &Path, args: &[String], point: &(String, usize), what: &str) -> Output;
    /// Kills `args` before the nth call of a kind.
    fn kill(&self, root: &Path, args: &[String], point: &(String, usize)) -> Output {
        self.injected(root, args, point, "signal=KILL")
    }
}

impl Strace for Flow {
    fn points(&self, args: &[String], root: &Path) -> Vec<(String, usize)> {
        let copy = copy(root);
        let trace = tempfile::NamedTempFile::new().unwrap();
        let options = ["-e", &format!("trace={CALLS}"), "-o", trace.path().to_str().unwrap()];
        strace(&self.host.updater.path(), &options, copy.path(), args);
        calls_of(&std::fs::read_to_string(trace.path()).unwrap())
    }

    fn injected(&self, root: &Path, args: &[String], (call, nth): &(String, usize), what: &str) -> Output {
        let inject = format!("inject={call}:{what}:when={nth}");
        strace(
            &self.host.updater.path(),
            &["-e", &format!("trace={call}"), "-e", &inject, "-o", "/dev/null"],
            root,
            args,
        )
    }
}

/// Kills the flow before each durable call, alternately followed by a boot and by the next run. Of what comes before the
/// journal (unpacking, one file like the other) every third call will do.
fn every_kill(name: &str) {
    let flow = named(name);
    let all = flow.points(&flow.args, &flow.host.root());
    let journal = all.iter().position(|(call, _)| call == "fallocate").expect("a journal");
    let points: Vec<_> = all.into_iter().enumerate().filter(|(at, _)| *at >= journal || at % 3 == 0).collect();
    let points: Vec<_> = points.into_iter().map(|(_, point)| point).collect();
    assert!(points.len() > 20, "{points:?}");
    let next = AtomicUsize::new(0);
    let (old, new) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some(point) = points.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let copy = flow.copy();
                    let output = flow.kill(copy.path(), &flow.args, point);
                    assert!(output.status.code().is_none(), "{point:?} was not hit: {output:?}");
                    let found = checked(&flow, copy.path(), &format!("killed at {point:?}"), point.1 % 2 == 0);
                    if found == Found::Old { &old } else { &new }.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    eprintln!("{} points: {old:?} old, {new:?} new", points.len());
    assert!(old.into_inner() > 0 && new.into_inner() > 0);
}

/// The calls of a trace, each with its number among those of its name.
fn calls_of(trace: &str) -> Vec<(String, usize)> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let calls = trace.lines().filter(|line| !line.starts_with(['-', '+']));
    let points = calls.filter_map(|line| {
        let call = line.split('(').next()?.to_owned();
        let nth = counts.entry(call.clone()).or_default();
        *nth += 1;
        Some((call, *nth))
    });
    points.collect()
}

fn strace(program: &Path, options: &[&str], root: &Path, args: &[String]) -> Output {
    let mut command = Command::new("strace");
    command.env_clear().env("PATH", "/usr/bin:/bin").arg("-qq").args(options);
    command.arg(program).arg("--root").arg(root).args(args).output().unwrap()
}

fn lock_aside(tree: Vec<String>) -> Vec<String> {
    tree.into_iter().filter(|line| !line.contains("/.lock ")).collect()
}

/// A journal line with its checksum.
fn line(json: &str) -> Vec<u8> {
    let sum = teleport_update::release::Digest::of(json.as_bytes()).to_string();
    format!("{} {json}\n", &sum[..8]).into_bytes()
}
