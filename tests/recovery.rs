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

use serde_json::Value;
use support::{Image, sql_of, tree, updater};
use test_cluster::archive::Archive;
use test_cluster::directive::Find;

/// Everything that makes a change, or makes it durable. musl calls some by their old names.
const CALLS: &str = "rename,renameat,renameat2,link,linkat,symlink,symlinkat,unlink,unlinkat,rmdir,mkdir,mkdirat,\
                     fsync,fdatasync,pwrite64,fallocate,chmod,fchmod";
const DATABASE: &str = "var/lib/teleport/proc/sqlite.db";
const VERSIONS: &str = "var/lib/teleport/versions";

/// One command on a prepared image, and what may be found after it was cut short.
struct Flow {
    image: Image,
    args: Vec<String>,
    /// What runs next on such a host.
    next: Vec<String>,
    /// Has the host reach the new state in any case.
    again: Vec<String>,
    old: State,
    new: State,
}

/// A state of the image that is whole.
struct State {
    /// Version and database schema; `None`: nothing is managed, no database.
    version: Option<&'static str>,
    schema: Option<&'static str>,
    /// Every link, file and mode outside the state directory.
    outside: Vec<String>,
    /// Names and modes in the versions directory.
    versions: Vec<String>,
}

#[test]
fn enabling_an_empty_image_can_be_killed_anywhere() {
    let image = image();
    let args = image.enable_args();
    every_kill(&Flow::of(image, args, (None, None), (Some("1.0.0"), None)));
}

#[test]
fn enabling_over_plain_binaries_can_be_killed_anywhere() {
    let (image, args) = plain_host();
    every_kill(&Flow::of(image, args, (None, Some("1")), (Some("1.0.0"), Some("1"))));
}

#[test]
fn an_update_can_be_killed_anywhere() {
    let image = on_one();
    release(&image, "2.0.0");
    every_kill(&Flow::of(image, words("update"), (Some("1.0.0"), Some("1")), (Some("2.0.0"), Some("1"))));
}

#[test]
fn an_update_to_names_that_come_and_go_can_be_killed_anywhere() {
    let image = on_one();
    image.cluster.publish(&small("2.0.0").without_helper("tbot").helper("tsnew"));
    image.cluster.set_directive(Find::version("2.0.0"));
    every_kill(&Flow::of(image, words("update"), (Some("1.0.0"), Some("1")), (Some("2.0.0"), Some("1"))));
}

#[test]
fn a_downgrade_that_restores_can_be_killed_anywhere() {
    let image = on_two();
    image.cluster.set_directive(Find::version("1.0.0"));
    every_kill(&Flow::of(image, words("update"), (Some("2.0.0"), Some("2")), (Some("1.0.0"), Some("1"))));
}

#[test]
fn an_upgrade_that_restores_can_be_killed_anywhere() {
    let image = on_two();
    image.cluster.set_directive(Find::version("1.0.0"));
    image.run(&["update"]).ok();
    image.cluster.set_directive(Find::version("2.0.0"));
    every_kill(&Flow::of(image, words("update"), (Some("1.0.0"), Some("1")), (Some("2.0.0"), Some("2"))));
}

#[test]
fn a_rollback_can_be_killed_anywhere() {
    let image = on_two();
    let mut flow = Flow::of(image, words("rollback"), (Some("2.0.0"), Some("2")), (Some("1.0.0"), Some("1")));
    // The version left is refused after it: what `update` does next is nothing in either state.
    flow.again = words("update");
    every_kill(&flow);
}

#[test]
fn uninstalling_can_be_killed_anywhere() {
    let image = on_two();
    let mut flow = Flow::of(image, words("uninstall"), (Some("2.0.0"), Some("2")), (None, Some("2")));
    // Where the run was undone the host is still managed.
    flow.next = words("recover");
    every_kill(&flow);
}

#[test]
fn a_recovery_can_itself_be_killed_anywhere() {
    let image = on_two();
    image.cluster.set_directive(Find::version("1.0.0"));
    let flow = Flow::of(image, words("update"), (Some("2.0.0"), Some("2")), (Some("1.0.0"), Some("1")));
    let mut random = Random(0x5eed_0001);
    let points = flow.points(&flow.args, &flow.image.root());
    for point in random.some(&points, 12) {
        let crashed = flow.copy();
        flow.kill(crashed.path(), &flow.args, &point);
        let recover = words(if random.below(2) == 0 { "recover --boot" } else { "recover" });
        for second in random.some(&flow.points(&recover, crashed.path()), 6) {
            let copy = copy(crashed.path());
            flow.kill(copy.path(), &recover, &second);
            flow.check(copy.path(), &format!("{point:?}, then {second:?} in {recover:?}"), true);
        }
    }
}

#[test]
fn a_failing_disk_ends_with_an_error_and_the_old_version_or_with_success() {
    let mut random = Random(0x5eed_0002);
    let flows: [fn() -> Flow; 3] = [
        || {
            let image = on_one();
            release(&image, "2.0.0");
            Flow::of(image, words("update"), (Some("1.0.0"), Some("1")), (Some("2.0.0"), Some("1")))
        },
        || {
            let image = on_two();
            image.cluster.set_directive(Find::version("1.0.0"));
            Flow::of(image, words("update"), (Some("2.0.0"), Some("2")), (Some("1.0.0"), Some("1")))
        },
        || {
            let (image, args) = plain_host();
            Flow::of(image, args, (None, Some("1")), (Some("1.0.0"), Some("1")))
        },
    ];
    for flow in flows.map(|flow| flow()) {
        let points = flow.points(&flow.args, &flow.image.root());
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
                    let whole = flow.is(copy.path(), &flow.old) || flow.is(copy.path(), &flow.new);
                    assert!(whole, "{words}: neither old nor new\n{said}\n{:#?}", outside(copy.path()));
                }
                other => panic!("{words}: {other:?} {said}"),
            }
            flow.check(copy.path(), &words, true);
        }
    }
}

#[test]
fn a_signal_ends_a_run_at_a_safe_point_undone_before_the_commit_and_finished_after_it() {
    let image = on_two();
    image.cluster.set_directive(Find::version("1.0.0"));
    let down = Flow::of(image, words("update"), (Some("2.0.0"), Some("2")), (Some("1.0.0"), Some("1")));
    let (image, args) = plain_host();
    let first = Flow::of(image, args, (None, Some("1")), (Some("1.0.0"), Some("1")));
    let mut random = Random(0x5eed_0003);
    for flow in [&down, &first] {
        let points = flow.points(&flow.args, &flow.image.root());
        for point in random.some(&points, 30) {
            let signal = ["TERM", "INT"][random.below(2)];
            let copy = flow.copy();
            let args = [flow.args.clone(), words("--log-format json")].concat();
            let ran = flow.injected(copy.path(), &args, &point, &format!("signal={signal}"));
            let said = String::from_utf8_lossy(&ran.stderr).into_owned();
            let what = format!("SIG{signal} at {point:?}: {said}");
            let state = match ran.status.code() {
                Some(0) => &flow.new,
                Some(1) => {
                    assert!(said.contains(r#""error_code":"interrupted""#), "{what}");
                    &flow.old
                }
                other => panic!("{other:?} {what}"),
            };
            flow.check_whole(copy.path(), &what, state);
        }
    }
}

#[test]
fn an_error_in_writing_the_commit_undoes_the_run_for_good() {
    let image = on_one();
    release(&image, "2.0.0");
    let flow = Flow::of(image, words("update"), (Some("1.0.0"), Some("1")), (Some("2.0.0"), Some("1")));
    let journal = flow.copy();
    // The last record before the journal is closed is the commit; its write reaches the file and its sync fails.
    let syncs = flow.points(&flow.args, &flow.image.root());
    let last = syncs.iter().filter(|(call, _)| call == "fdatasync").count();
    for nth in last - 2..=last {
        let copy = copy(journal.path());
        let output = flow.injected(copy.path(), &flow.args, &("fdatasync".into(), nth), "error=EIO");
        let after_commit = flow.is(copy.path(), &flow.new);
        assert_eq!(output.status.code(), Some(if after_commit { 0 } else { 1 }), "{nth} of {last}: {output:?}");
        flow.check(copy.path(), &format!("fdatasync {nth} of {last} fails"), true);
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
        assert_eq!(flow.check(copy.path(), "a torn tail", false), "old");
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
    let status = flow.status(copy.path());
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
    assert_eq!(flow.status(copy.path())["recovery_pending"], false);
    let ran = flow.run(copy.path(), &words("recover"));
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert!(!journal.exists());
    assert_eq!(std::fs::read(copy.path().join(VERSIONS).join("updates.yaml")).unwrap(), config);
}

#[test]
fn an_empty_journal_of_a_run_that_had_not_begun_is_in_nobodys_way() {
    let flow = interrupted_update();
    for bytes in [&b""[..], &[0; 4096], b"0000"] {
        let copy = copy(&flow.image.root());
        std::fs::write(copy.path().join(VERSIONS).join(".journal"), bytes).unwrap();
        assert_eq!(flow.status(copy.path())["recovery_pending"], false);
        flow.check(copy.path(), "an empty journal", true);
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
        assert_eq!(links(copy.path()), links(&flow.image.root()), "{file}");
        assert!(!copy.path().join(VERSIONS).join(".journal").exists());
        match good {
            Some(good) => std::fs::write(&path, good).unwrap(),
            None => std::fs::remove_file(&path).unwrap(),
        }
        flow.check(copy.path(), file, true);
    }
}

#[test]
fn what_an_operator_wrote_after_the_commit_survives_its_recovery() {
    let image = on_one();
    release(&image, "2.0.0");
    let flow = Flow::of(image, words("update"), (Some("1.0.0"), Some("1")), (Some("2.0.0"), Some("1")));
    let copy = flow.copy();
    // The commit is followed by the rename of the new configuration, which is the last but what a clean-up does.
    let config = copy.path().join(VERSIONS).join("updates.yaml");
    let next = copy.path().join(VERSIONS).join(".updates.yaml.next");
    let points = flow.points(&flow.args, &flow.image.root());
    let renames: Vec<_> = points.into_iter().filter(|(call, _)| call.starts_with("rename")).rev().collect();
    let committed = renames.iter().find(|point| {
        let copy = self::copy(&flow.image.root());
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
    assert_eq!(flow.check(copy.path(), "an edit after the commit", false), "new");
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
    assert_eq!(flow.check(copy.path(), "a file put right", false), "new");
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
    let image = on_one();
    release(&image, "2.0.0");
    let flow = Flow::of(image, words("update"), (Some("1.0.0"), Some("1")), (Some("2.0.0"), Some("1")));
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
        let refused = flow.status(copy.path())["refused"].as_array().map_or(0, Vec::len);
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

/// An empty image of a cluster that names 1.0.0.
fn image() -> Image {
    let image = Image::new("1.0.0");
    image.cluster.publish(&small("1.0.0"));
    image
}

/// Publishes `version` and lets the cluster name it.
fn release(image: &Image, version: &str) {
    image.cluster.publish(&small(version));
    image.cluster.set_directive(Find::version(version));
}

/// A release whose binaries only say their version: hundreds of images are made of it, copied and hashed.
fn small(version: &str) -> Archive {
    let archive = Archive::simple(version);
    if cfg!(target_arch = "x86_64") {
        archive.agent(&saying(&format!("Teleport v{version}\n")), "healthy", 1)
    } else {
        archive
    }
}

/// A program of a page that prints `text`: write(1, text, length); exit(0).
fn saying(text: &str) -> Vec<u8> {
    const BASE: u64 = 0x40_0000;
    const CODE_AT: u64 = 64 + 56;
    let mut code = vec![0xb8, 1, 0, 0, 0, 0xbf, 1, 0, 0, 0, 0x48, 0x8d, 0x35, 16, 0, 0, 0, 0xba];
    code.extend(u32::try_from(text.len()).unwrap().to_le_bytes());
    code.extend([0x0f, 0x05, 0xb8, 60, 0, 0, 0, 0x31, 0xff, 0x0f, 0x05]);
    code.extend(text.bytes());
    let size = CODE_AT + code.len() as u64;
    let mut elf = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x3e\0\x01\0\0\0".to_vec();
    for word in [BASE + CODE_AT, 64, 0] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    elf.extend([1, 0, 0, 0, 5, 0, 0, 0]);
    for word in [0, BASE, BASE, size, size, 0x1000] {
        elf.extend(word.to_le_bytes());
    }
    elf.extend(code);
    elf
}

/// 1.0.0 is active and has a database of schema 1.
fn on_one() -> Image {
    let image = image();
    image.enable(&[]).ok();
    database(&image.path(DATABASE), 1);
    image
}

/// 2.0.0 is active with a database of schema 2; 1.0.0 has a snapshot of schema 1.
fn on_two() -> Image {
    let image = on_one();
    release(&image, "2.0.0");
    image.run(&["update"]).ok();
    database(&image.path(DATABASE), 2);
    image
}

/// An agent that nobody manages: plain binaries, a unit, a database of schema 1.
fn plain_host() -> (Image, Vec<String>) {
    let image = image();
    for (path, text) in [
        ("usr/local/bin/teleport", "#!/bin/sh\necho plain\n"),
        ("usr/local/bin/tsh", "#!/bin/sh\necho plain tsh\n"),
        ("usr/local/lib/systemd/system/teleport.service", "[Service]\nExecStart=/usr/local/bin/teleport start\n"),
    ] {
        use std::os::unix::fs::PermissionsExt;
        let path = image.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o750)).unwrap();
    }
    std::os::unix::fs::symlink("/opt/else/tctl", image.path("usr/local/bin/tctl")).unwrap();
    database(&image.path(DATABASE), 1);
    let args = image.enable_args();
    (image, args)
}

/// An update of 1.0.0 that was killed behind the move of the agent's link; the template is the image before it.
fn interrupted_update() -> Interrupted {
    let image = on_one();
    release(&image, "2.0.0");
    let flow = Flow::of(image, words("update"), (Some("1.0.0"), Some("1")), (Some("2.0.0"), Some("1")));
    let points = flow.points(&flow.args, &flow.image.root());
    for point in points.iter().filter(|(call, _)| call == "fdatasync").rev() {
        let killed = flow.copy();
        flow.kill(killed.path(), &flow.args, point);
        if flow.is(killed.path(), &flow.new) && !flow.is_committed(killed.path()) {
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

impl Flow {
    fn of(
        image: Image,
        args: Vec<String>,
        old: (Option<&'static str>, Option<&'static str>),
        new: (Option<&'static str>, Option<&'static str>),
    ) -> Self {
        let state = |root: &Path, (version, schema)| State {
            version,
            schema,
            outside: outside(root),
            versions: versions(root),
        };
        let old = state(&image.root(), old);
        let done = copy(&image.root());
        let output = run(done.path(), &args);
        assert!(output.status.success(), "{output:?}");
        let new = state(done.path(), new);
        assert_ne!(old.outside, new.outside);
        Self { again: args.clone(), args, next: words("update"), old, new, image }
    }

    fn copy(&self) -> tempfile::TempDir {
        copy(&self.image.root())
    }

    fn run(&self, root: &Path, args: &[String]) -> Output {
        run(root, args)
    }

    /// Every durable call of `args` on an image like `root`, as strace counts them.
    fn points(&self, args: &[String], root: &Path) -> Vec<(String, usize)> {
        let copy = copy(root);
        let trace = tempfile::NamedTempFile::new().unwrap();
        strace(&["-e", &format!("trace={CALLS}"), "-o", trace.path().to_str().unwrap()], copy.path(), args);
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        let text = std::fs::read_to_string(trace.path()).unwrap();
        let calls = text.lines().filter(|line| !line.starts_with(['-', '+']));
        let points = calls.filter_map(|line| {
            let call = line.split('(').next()?.to_owned();
            let nth = counts.entry(call.clone()).or_default();
            *nth += 1;
            Some((call, *nth))
        });
        points.collect()
    }

    fn kill(&self, root: &Path, args: &[String], point: &(String, usize)) -> Output {
        self.injected(root, args, point, "signal=KILL")
    }

    /// Runs `args` with something injected into the nth call of a kind.
    fn injected(&self, root: &Path, args: &[String], (call, nth): &(String, usize), what: &str) -> Output {
        let inject = format!("inject={call}:{what}:when={nth}");
        strace(&["-e", &format!("trace={call}"), "-e", &inject, "-o", "/dev/null"], root, args)
    }

    fn status(&self, root: &Path) -> Value {
        let output = run(root, &words("status --format json"));
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn is_committed(&self, root: &Path) -> bool {
        let journal = std::fs::read(root.join(VERSIONS).join(".journal")).unwrap_or_default();
        String::from_utf8_lossy(&journal).contains(r#"{"record":"commit"}"#)
    }

    /// Links, files and database are those of `state`.
    fn is(&self, root: &Path, state: &State) -> bool {
        outside(root) == state.outside && schema(root).as_deref() == state.schema
    }

    /// Recovers as a boot or the next run would, and looks at everything that SPEC §8 promises.
    fn check(&self, root: &Path, what: &str, boot: bool) -> &'static str {
        if boot {
            let output = run(root, &words("recover --boot"));
            assert!(output.status.success(), "{what}: {output:?}");
        } else {
            let output = run(root, &words("recover"));
            assert!(output.status.success(), "{what}: {output:?}");
        }
        let found = match (self.is(root, &self.old), self.is(root, &self.new)) {
            (true, _) => "old",
            (_, true) => "new",
            _ => panic!("{what}: neither old nor new: {:#?} schema {:?}", outside(root), schema(root)),
        };
        let state = if found == "old" { &self.old } else { &self.new };
        if !boot {
            self.check_whole(root, what, state);
        }
        let output = run(root, &self.next);
        assert!(output.status.success(), "{what}: {output:?}");
        // As the updater's unit does after each run.
        let output = run(root, &words("recover"));
        assert!(output.status.success(), "{what}: {output:?}");
        if self.args == self.next {
            assert!(self.is(root, &self.new), "{what}: {output:?}");
        }
        let state = if self.is(root, &self.new) { &self.new } else { &self.old };
        self.check_whole(root, what, state);
        let output = run(root, &self.again);
        assert!(output.status.success(), "{what}: {output:?}");
        if self.again == self.args {
            assert!(self.is(root, &self.new), "{what}");
            let extra: Vec<_> = versions(root).into_iter().filter(|path| !is_evidence(path)).collect();
            let wanted: Vec<_> = self.new.versions.iter().filter(|path| !is_evidence(path)).cloned().collect();
            assert_eq!(extra, wanted, "{what}");
        }
        found
    }

    fn check_whole(&self, root: &Path, what: &str, state: &State) {
        assert!(self.is(root, state), "{what}: {:#?} schema {:?}", outside(root), schema(root));
        let status = self.status(root);
        assert_eq!(status["agent_version_installed"].as_str(), state.version, "{what}: {status:#}");
        assert_eq!(status["agent_version_linked"].as_str(), state.version, "{what}: {status:#}");
        assert_eq!(status["recovery_pending"], false, "{what}");
        assert_eq!(status["update_in_progress"], false, "{what}");
        if state.version.is_some() {
            let verify = run(root, &words("verify"));
            assert!(verify.status.success(), "{what}: {verify:?}");
        }
        const LEFT: [&str; 8] = [
            ".staging-",
            ".retired-",
            ".teleport-update-tmp-",
            ".journal",
            ".updates.yaml.next",
            ".backup.",
            ".sqlite.db.teleport-update",
            ".unmanaged",
        ];
        let left: Vec<_> =
            tree(root).into_iter().filter(|path| LEFT.iter().any(|left| path.contains(&format!("/{left}")))).collect();
        assert!(left.is_empty(), "{what}: {left:#?}");
    }
}

/// Kills the flow before each durable call, alternately followed by a boot and by the next run.
fn every_kill(flow: &Flow) {
    let points = flow.points(&flow.args, &flow.image.root());
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
                    let found = flow.check(copy.path(), &format!("killed at {point:?}"), point.1 % 2 == 0);
                    if found == "old" { &old } else { &new }.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
    });
    eprintln!("{} points: {old:?} old, {new:?} new", points.len());
    assert!(old.into_inner() > 0 && new.into_inner() > 0);
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn run(root: &Path, args: &[String]) -> Output {
    Command::new(updater()).env_clear().arg("--root").arg(root).args(args).output().unwrap()
}

fn strace(options: &[&str], root: &Path, args: &[String]) -> Output {
    let mut command = Command::new("strace");
    command.env_clear().env("PATH", "/usr/bin:/bin").arg("-qq").args(options);
    command.arg(updater()).arg("--root").arg(root).args(args).output().unwrap()
}

/// A copy of an image below a new directory.
fn copy(root: &Path) -> tempfile::TempDir {
    // In memory, where a sync costs nothing: it is the order of calls that is tested, and there are thousands.
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let output = Command::new("cp").arg("-a").arg(root.join(".")).arg(dir.path()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    dir
}

/// Everything but the state directory.
fn outside(root: &Path) -> Vec<String> {
    let is_dir = |path: &String| path.split(' ').next().is_some_and(|path| path.ends_with('/'));
    let inside = |path: &String| path.starts_with("var/lib/teleport/");
    tree(root).into_iter().filter(|path| !is_dir(path) && !inside(path)).collect()
}

/// Names and modes in the versions directory, the lock aside; contents have times in them or are `verify`'s to check.
fn versions(root: &Path) -> Vec<String> {
    let words = |line: String| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let top = root.join(VERSIONS);
    if !top.exists() {
        return Vec::new();
    }
    tree(&top).into_iter().map(words).filter(|line| !line.starts_with(".lock")).collect()
}

/// What a version that was switched to and given up wrote stays beside its snapshot.
fn is_evidence(path: &str) -> bool {
    path.contains("/backup")
}

fn lock_aside(tree: Vec<String>) -> Vec<String> {
    tree.into_iter().filter(|line| !line.contains("/.lock ")).collect()
}

/// The schema of the database, which must be a good one.
fn schema(root: &Path) -> Option<String> {
    let db = root.join(DATABASE);
    db.exists().then(|| {
        assert_eq!(sql_of(&db, "PRAGMA quick_check"), ["ok"]);
        sql_of(&db, "PRAGMA user_version").remove(0)
    })
}

/// A database of that schema with a row that names it.
fn database(path: &Path, schema: u32) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    let database = rusqlite::Connection::open(path).unwrap();
    let sql = format!("CREATE TABLE IF NOT EXISTS kv (k, v); INSERT INTO kv VALUES ('schema', {schema});");
    database.execute_batch(&format!("{sql} PRAGMA user_version = {schema}")).unwrap();
}

/// A journal line with its checksum.
fn line(json: &str) -> Vec<u8> {
    let sum = teleport_update::release::Digest::of(json.as_bytes()).to_string();
    format!("{} {json}\n", &sum[..8]).into_bytes()
}

/// Numbers that are the same in every run (xorshift64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    fn some<T: Clone>(&mut self, all: &[T], count: usize) -> Vec<T> {
        if all.len() <= count {
            return all.to_vec();
        }
        (0..count).map(|_| all[self.below(all.len())].clone()).collect()
    }
}
