//! SPEC §8: whatever kills the updater, after the next run or boot the host is wholly on the old or the new version.
//!
//! Files only, in images: slices of the crash suites (`make crash` runs them whole), and stories of journals. What needs
//! a running agent is in `recovery_service.rs`.

use std::os::unix::process::{CommandExt, ExitStatusExt};

use testing::crash::flows::OWNED;
use testing::crash::host::words;
use testing::crash::injector::{self, Action, Call, Scope};
use testing::crash::state::VERSIONS;
use testing::crash::suite::{self, Options, Row};
use testing::crash::suites::Look;
use testing::crash::suites::kill::is_commit;
use testing::crash::suites::recovery_fault::Fault;
use testing::crash::{Flow, Found, State, copy, suites};

use crate::support::*;

/// Which points the slices take: another seed, other points.
const SEED: u64 = 7;

tests_of! { every_kill:
    enabling_an_empty_image_can_be_killed_anywhere("enable");
    enabling_over_plain_binaries_can_be_killed_anywhere("enable-over-plain");
    an_update_can_be_killed_anywhere("update");
    an_update_to_names_that_come_and_go_can_be_killed_anywhere("update-names");
    a_change_of_the_source_with_its_credentials_can_be_killed_anywhere("enable-source");
    a_downgrade_that_restores_can_be_killed_anywhere("downgrade");
    an_upgrade_that_restores_can_be_killed_anywhere("upgrade-restores");
    a_rollback_can_be_killed_anywhere("rollback");
    uninstalling_can_be_killed_anywhere("uninstall");
    pinning_can_be_killed_anywhere("pin");
    a_switch_of_the_edition_can_be_killed_anywhere("edition");
    a_repair_can_be_killed_anywhere("repair");
    an_update_that_retires_a_version_can_be_killed_anywhere("retention");
    a_downgrade_from_a_database_with_a_live_log_can_be_killed_anywhere("downgrade-wal");
}

#[test]
fn an_update_that_any_source_names_can_be_killed_anywhere() {
    for name in ["update-channel", "update-graph", "update-file"] {
        every_kill(name);
    }
}

#[test]
fn a_change_of_settings_can_be_killed_anywhere() {
    // Ten calls in all.
    whole(&suites::kill::kill(&options(1), &named("disable")));
}

tests_of! { whole:
    a_recovery_can_itself_be_killed_anywhere(&suites::recovery::kill(&options(11), &named("downgrade"), 24));
    a_disk_that_stays_broken_ends_with_an_error_and_is_recovered_from_when_it_is_good_again(
        &suites::lasting::last(&options(37), &named("downgrade")));
    a_file_that_cannot_be_looked_at_ends_with_an_error_or_does_not_matter(
        &suites::looks::fail(&options(29), &named("downgrade")));
}

#[test]
fn what_the_new_versions_agent_wrote_before_the_recovery_is_not_seen_by_the_old_one() {
    for name in ["update", "downgrade-wal"] {
        whole(&suites::written::write(&options(3), &named(name)));
    }
}

#[test]
fn a_failing_call_ends_with_an_error_and_the_old_version_or_with_success() {
    for name in ["update", "downgrade", "enable-over-plain"] {
        whole(&suites::fault::fail(&options(83), &named(name)));
    }
}

#[test]
fn a_new_version_that_cannot_be_read_back_is_not_linked_in_part() {
    let flow = named("update-names");
    let all = Look::all(&flow, &flow.host.root(), &flow.args).into_iter();
    let points: Vec<Look> = all.filter(|look| look.subject().contains("/versions/2.0.0/")).step_by(2).collect();
    whole(&suite::explore(&options(1), flow.name, &points, |look, boot| suites::looks::at(&flow, look, 0, boot)));
}

#[test]
fn a_recovery_that_cannot_look_at_what_was_kept_does_not_take_it_for_gone() {
    for (name, kept) in [("enable-over-plain", "/.unmanaged/"), ("downgrade", "/.sqlite.db.teleport-update")] {
        let flow = named(name);
        let killed = flow.copy();
        killed_before(&flow, killed.path(), is_commit);
        let recover = words("recover");
        let looks = Look::all(&flow, killed.path(), &recover).into_iter();
        let points: Vec<Look> = looks.filter(|look| look.subject().contains(kept)).collect();
        whole(&suite::explore(&options(1), flow.name, &points, |look, boot| {
            let fault = Fault::Look(look.clone(), 0);
            suites::recovery_fault::at(&flow, killed.path(), "killed before the commit", &recover, &fault, boot)
        }));
    }
}

#[test]
fn a_signal_ends_a_run_at_a_safe_point_undone_before_the_commit_and_finished_after_it() {
    for name in ["downgrade", "enable-over-plain"] {
        whole(&suites::signal::interrupt(&options(13), &named(name)));
    }
}

#[test]
fn an_error_in_writing_the_commit_undoes_the_run_for_good() {
    let flow = named("update");
    // The commit's bytes are in the file, its sync fails; then perhaps the undo is cut short as well.
    let run = |root: &Path, killed_after: Option<usize>| {
        let (mut is_written, mut failed) = (false, None);
        let traced = injector::run(&mut flow.host.command(root, &flow.args), Scope::Changes, |call| {
            if is_written && failed.is_none() {
                failed = Some(call.number);
                return Action::Fail(libc::EIO);
            }
            is_written |= is_commit(call);
            let is_end = killed_after.is_some_and(|after| failed.is_some_and(|failed| call.number > failed + after));
            if is_end { Action::Kill } else { Action::Pass }
        });
        (traced.status.code(), traced.calls.len() - failed.expect("a commit"))
    };
    let copy = flow.copy();
    let (code, calls) = run(copy.path(), None);
    assert_eq!(code, Some(1));
    assert!(flow.is(copy.path(), &flow.old));
    checked(&flow, copy.path(), "the commit's sync fails", true);
    for after in (0..calls).filter(|after| options(9).takes(*after)) {
        let copy = flow.copy();
        assert_eq!(run(copy.path(), Some(after)).0, None);
        checked(&flow, copy.path(), &format!("the commit's sync fails, killed {after} calls later"), after % 2 == 0);
    }
}

#[test]
fn a_torn_last_record_is_ignored() {
    let flow = interrupted_update();
    for torn in [&b"0123"[..], b"deadbeef {\"record\":\"commit\"}\n", b"\xff\xfe\n\n\0\0garbage"] {
        let copy = flow.copy();
        let journal = copy.path().join(VERSIONS).join(".journal");
        let mut bytes = std::fs::read(&journal).unwrap();
        let end = end(&bytes);
        bytes.splice(end..(end + torn.len()).min(bytes.len()), torn.iter().copied());
        std::fs::write(&journal, bytes).unwrap();
        assert_eq!(checked(&flow, copy.path(), "a torn tail", false), Found::Old);
    }
}

/// Every command that writes stops at the journal, saying so, and changes nothing.
#[track_caller]
fn stops(flow: &Flow, root: &Path, says: &str) {
    let before = lock_aside(tree(root));
    for command in ["recover", "recover --boot", "update", "disable", "uninstall", "rollback"] {
        let ran = Ran::of(&flow.run(root, &words(&format!("{command} --log-format json"))));
        assert_eq!((ran.status, ran.error_code().as_str()), (1, "journal_unknown"), "{command}: {ran:#?}");
        let ran = ran.says(says);
        assert_eq!(lock_aside(tree(root)), before, "{command}: {ran:#?}");
    }
    assert_eq!(flow.status(root).unwrap()["recovery_pending"], true);
}

#[test]
fn a_journal_that_is_not_understood_stops_every_writing_command_and_nothing_is_changed() {
    let flow = interrupted_update();
    type Spoil = fn(&mut Vec<u8>);
    let spoil: [(&str, Spoil); 6] = [
        ("transmogrify", |bytes| {
            bytes.splice(end(bytes).., look::record(r#"{"record":"transmogrify"}"#)).for_each(drop)
        }),
        // A sector that the disk has lost, one byte that it has turned, and a file that somebody has cut.
        ("damaged", |bytes| bytes[..512].fill(0)),
        ("damaged", |bytes| bytes[600] ^= 1),
        ("damaged", |bytes| bytes.truncate(100)),
        // A record that is damaged before whole ones is no torn tail.
        ("record 2", |bytes| {
            let second = bytes.iter().position(|&byte| byte == b'\n').unwrap() + 20;
            bytes[second] ^= 1;
        }),
        ("", |bytes| {
            *bytes = look::record(r#"{"record":"begin","format":2,"writer":{"path":"/x","sha256":"0","version":"9"}}"#);
        }),
    ];
    for (says, spoil) in spoil {
        let copy = flow.copy();
        let journal = copy.path().join(VERSIONS).join(".journal");
        let mut bytes = std::fs::read(&journal).unwrap();
        spoil(&mut bytes);
        std::fs::write(&journal, &bytes).unwrap();
        stops(&flow, copy.path(), says);
    }
}

#[test]
fn a_journal_of_an_earlier_time_puts_nothing_in_the_place_of_what_came_later() {
    let flow = named("update");
    let other = Path::new("/var/lib/teleport/versions/3.0.0/bin");
    let link = |root: &Path, name: &str, target: &Path| {
        let link = root.join("usr/local/bin").join(name);
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(target, link).unwrap();
    };
    let is_adoption = |call: &Call| call.subject.contains(".updates.yaml.next -> ");
    let points: [fn(&Call) -> bool; 2] = [is_commit, is_adoption];
    for (is_committed, point) in [false, true].into_iter().zip(points) {
        let killed = flow.copy();
        killed_before(&flow, killed.path(), point);
        assert_eq!(flow.is_committed(killed.path()), is_committed);
        // The host went on to a third version, and got its versions directory back from a backup.
        let later: [&dyn Fn(&Path); 3] = [
            &|root| link(root, "teleport", &other.join("teleport")),
            &|root| link(root, "tsh", &other.join("tsh")),
            &|root| {
                std::fs::remove_file(root.join("usr/local/bin/teleport")).unwrap();
                std::fs::write(root.join("usr/local/bin/teleport"), "a package's").unwrap();
            },
        ];
        for later in &later[..if is_committed { 2 } else { 3 }] {
            let copy = copy(killed.path());
            later(copy.path());
            stops(&flow, copy.path(), "does not belong to the last change of this host");
        }
    }
    // What the run itself leaves, and a link that somebody removed, is no other time's.
    let killed = flow.copy();
    killed_before(&flow, killed.path(), is_commit);
    std::fs::remove_file(killed.path().join("usr/local/bin/teleport")).unwrap();
    assert_eq!(checked(&flow, killed.path(), "without its link", false), Found::Old);
}

#[test]
fn what_the_agents_user_does_to_its_directory_keeps_no_failed_version_in_use() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: not root");
    }
    let flow = named(OWNED);
    let killed = flow.copy();
    killed_before(&flow, killed.path(), is_commit);
    let old = State::of(&flow.host.root(), None).unwrap().database.unwrap();
    for command in [
        "chmod 500 proc",
        "chmod 000 proc",
        "chmod 000 .",
        "chmod 000 proc/sqlite.db",
        "mv proc away",
        "mv proc away; mkdir -m 500 proc",
        "cd proc; rm sqlite.db*; mkdir -p sqlite.db/x sqlite.db-wal/x sqlite.db-journal/x",
        "cd proc; rm sqlite.db*; mkfifo sqlite.db",
        "cd proc; rm sqlite.db*; ln -s ../x sqlite.db",
        "cd proc; ln -s sqlite.db-journal sqlite.db-journal",
        "cd proc; rm -f sqlite.db-wal; ln -s /dev/null sqlite.db-wal",
        "mkdir -p proc/.sqlite.db.teleport-update-undo/x",
    ] {
        let copy = copy(killed.path());
        let data = copy.path().join("srv/agent");
        let user = std::fs::metadata(&data).unwrap().uid();
        let mut shell = Command::new("sh");
        let done = shell.args(["-c", command]).current_dir(&data).uid(user).gid(user).status().unwrap();
        assert!(done.success(), "{command}");
        let ran = flow.run(copy.path(), &words("recover"));
        assert_eq!(ran.status.code(), Some(0), "{command}: {ran:?}");
        assert_eq!(flow.status(copy.path()).unwrap()["agent_version_linked"], "2.0.0", "{command}");
        let back = testing::crash::database::read(&data.join("proc/sqlite.db")).unwrap().unwrap();
        assert_eq!((back.schema, back.rows), (old.schema, old.rows.clone()), "{command}");
        let proc = std::fs::symlink_metadata(data.join("proc")).unwrap();
        assert!(proc.is_dir() && proc.uid() == user && proc.mode() & 0o700 == 0o700, "{command}: {proc:?}");
    }
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
    bytes.truncate(end(&bytes));
    bytes.extend(look::record(r#"{"record":"closed"}"#));
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
    for bytes in [&b""[..], &[0; 4096]] {
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
fn a_password_is_committed_with_the_address_that_it_belongs_to() {
    let mut flow = named("enable");
    let at = flow.args.iter().position(|arg| arg == "--base-url").unwrap() + 1;
    flow.args[at] = flow.args[at].replacen("https://", "https://name:secret@", 1);
    let kept = |root: &Path| {
        let versions = root.join(VERSIONS);
        let read = |name: &str| std::fs::read_to_string(versions.join(name)).unwrap_or_default();
        assert!(!versions.join(".credentials.next").exists());
        (read("updates.yaml").contains("base_url:"), read(".credentials").contains("secret"))
    };
    let recovered = |root: &Path, flow: &Flow| {
        assert!(flow.run(root, &words("recover")).status.success());
        kept(root)
    };
    // A first installation, killed just before its commit.
    let copy = flow.copy();
    killed_before(&flow, copy.path(), is_commit);
    assert!(!copy.path().join(VERSIONS).join(".credentials").exists(), "it outlives a killed enable");
    assert_eq!(recovered(copy.path(), &flow), (false, false));
    assert!(flow.run(copy.path(), &flow.args).status.success());
    assert_eq!(kept(copy.path()), (true, true));
    // And where nothing moves but the settings: killed before each call that changes something.
    let host = named("update");
    let mut args = host.host.enable_args();
    let at = args.iter().position(|arg| arg == "--base-url").unwrap() + 1;
    let other = args[at].replacen("https://", "https://name:secret@", 1) + "/";
    args.remove(at);
    args.insert(at, other.clone());
    args.extend(words("--force-version 1.0.0 --edition oss"));
    let (mut point, mut old, mut new) = (0, 0, 0);
    loop {
        let copy = host.copy();
        let mut count = 0;
        let traced = injector::run(&mut host.host.command(copy.path(), &args), Scope::Changes, |_| {
            count += 1;
            if count > point { Action::Kill } else { Action::Pass }
        });
        let (_, has_secret) = recovered(copy.path(), &host);
        let bare = other.replacen("name:secret@", "", 1);
        let config = std::fs::read_to_string(copy.path().join(VERSIONS).join("updates.yaml")).unwrap();
        let has_address = config.lines().any(|line| line.trim() == format!("base_url: {bare}"));
        assert_eq!(has_secret, has_address, "killed before change {point}: {config}");
        *if has_address { &mut new } else { &mut old } += 1;
        if traced.status.success() {
            break;
        }
        point += 1;
    }
    assert!(old > 3 && new > 1, "{old} old, {new} new");
}

#[test]
fn what_an_operator_wrote_after_the_commit_survives_its_recovery() {
    let mut flow = named("update");
    let copy = flow.copy();
    let config = copy.path().join(VERSIONS).join("updates.yaml");
    let next = copy.path().join(VERSIONS).join(".updates.yaml.next");
    // The commit is followed by the rename of the new configuration.
    let is_adopted = |call: &Call| call.name.starts_with("rename") && call.subject.ends_with("/updates.yaml");
    killed_before(&flow, copy.path(), is_adopted);
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
    killed_before(&flow, copy.path(), is_adopted);
    let good = std::fs::read(&config).unwrap();
    std::fs::write(&config, "spec: [unclosed\n").unwrap();
    assert_eq!(flow.run(copy.path(), &words("recover")).status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(&config).unwrap(), "spec: [unclosed\n");
    std::fs::write(&config, good).unwrap();
    assert_eq!(checked(&flow, copy.path(), "a file put right", false), Found::New);
}

#[test]
fn settings_whose_rename_failed_after_the_commit_are_put_in_place_by_the_next_run() {
    let flow = named("pin");
    for errno in [libc::EIO, libc::EACCES] {
        let copy = flow.copy();
        let ran = injector::run(&mut flow.host.command(copy.path(), &flow.args), Scope::Changes, |call| {
            if !(call.name.starts_with("rename") && call.subject.contains(".updates.yaml.next ->")) {
                return Action::Pass;
            }
            // What is written from now on is seen to be later: the kernel's clock for files ticks every few milliseconds.
            let time = |path: &Path| std::fs::metadata(path).unwrap().modified().unwrap();
            let probe = tempfile::NamedTempFile::new_in(copy.path()).unwrap();
            while time(probe.path()) <= time(&copy.path().join(VERSIONS).join(".updates.yaml.next")) {
                std::fs::write(probe.path(), "tick").unwrap();
            }
            Action::Fail(errno)
        });
        assert_eq!(ran.status.code(), Some(1), "{}", ran.stderr);
        assert!(ran.stderr.contains("the change is committed"), "{}", ran.stderr);
        assert_eq!(flow.check_after_error(copy.path(), "a failed rename", false), Ok(Found::New));
    }
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
    // The last step of the switch is done, the commit is not: the next configuration is just being written.
    let is_late = |call: &Call| call.name == "fsync" && call.subject.ends_with("/.updates.yaml.next");
    for round in 1..=3 {
        killed_before(&flow, copy.path(), is_late);
        let ran = flow.run(copy.path(), &words("recover --boot"));
        assert_eq!(ran.status.code(), Some(0), "{ran:?}");
        assert!(flow.is(copy.path(), &flow.old), "round {round}");
        let refused = flow.status(copy.path()).unwrap()["refused"].as_array().map_or(0, Vec::len);
        assert_eq!(refused, usize::from(round == 3), "round {round}");
    }
    let ran = flow.run(copy.path(), &words("update"));
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert!(String::from_utf8_lossy(&ran.stderr).contains("is not tried again yet"), "{ran:?}");
    assert!(flow.is(copy.path(), &flow.old));
    let ran = flow.run(copy.path(), &words("update --now"));
    assert_eq!(ran.status.code(), Some(0), "{ran:?}");
    assert!(flow.is(copy.path(), &flow.new));
}

/// The flow of that name under the updater under test.
fn named(name: &str) -> Flow {
    testing::crash::flow(name, &Updater::new(&updater()))
}

/// [`Flow::check`], with a violation as a failed test.
#[track_caller]
fn checked(flow: &Flow, root: &Path, what: &str, boot: bool) -> Found {
    flow.check(root, what, boot).unwrap_or_else(|violation| panic!("{violation}"))
}

/// An update of 1.0.0 that was killed behind the move of the agent's link; the template is the image before it.
fn interrupted_update() -> Interrupted {
    let flow = named("update");
    let killed = flow.copy();
    killed_before(&flow, killed.path(), is_commit);
    let now = State::of(killed.path(), None).unwrap();
    // The settings follow the commit.
    assert!(now.outside == flow.new.outside && !flow.is_committed(killed.path()));
    Interrupted { flow, killed }
}

/// Runs the flow and kills it before the first call that `is_it`.
#[track_caller]
fn killed_before(flow: &Flow, root: &Path, is_it: impl Fn(&Call) -> bool) {
    let traced = injector::run(&mut flow.host.command(root, &flow.args), Scope::Changes, |call| {
        if is_it(call) { Action::Kill } else { Action::Pass }
    });
    assert_eq!(traced.status.signal(), Some(libc::SIGKILL), "{}", traced.stderr);
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

/// Kills the flow before one in many of its changing calls, and before each one around the commit.
fn every_kill(name: &str) {
    let row = suites::kill::kill(&options(29), &named(name));
    assert!(row.old > 0 && row.new > 0, "{row:?}");
    whole(&row);
}

/// One point in `every`; `make crash` tries them all.
fn options(every: usize) -> Options {
    Options { every, seed: SEED, threads: 1, ..Options::all(Updater::new(&updater())) }
}

#[track_caller]
fn whole(row: &Row) {
    eprintln!("{}: {} points, {} old, {} new", row.name, row.tried, row.old, row.new);
    assert!(row.tried > 0 && row.violations.is_empty(), "{:#?}", row.violations);
}

fn lock_aside(tree: Vec<String>) -> Vec<String> {
    tree.into_iter().filter(|line| !line.contains("/.lock/")).collect()
}

/// Where the records of a journal end.
fn end(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|&byte| byte != 0).unwrap() + 1
}
