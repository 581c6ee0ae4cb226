//! SPEC §7 and §8: several runs at once, runs that are told to end, an agent that is restarted meanwhile, strangers at
//! its database, and journals of other updaters. Each story ends with a host that is whole.
//!
//! Most of them live in cells (`testing/src/crash/live`), where a real agent runs and everything takes milliseconds.

use rustix::process::Signal;
use testing::crash::Random;
use testing::crash::live::cell::{Cell, Ran, Running, START, UPDATER, until};
use testing::crash::live::flows::{Scene, settings, version};
use testing::crash::live::{rows, suite, whole};
use testing::crash::power::disk::unanswered;
use testing::crash::suite::{Options, Row};

use crate::support::*;

const JOURNAL: &str = "/var/lib/teleport/versions/.journal";
/// For an event that takes a second or two on an idle machine.
const SOON: Duration = Duration::from_secs(60);
/// Which rounds are played: another seed, other rounds.
const SEED: u64 = 11;
/// What may meet, and how often at the same instant.
const AT_ONCE: usize = 4;
const COMMANDS: [&str; 9] =
    ["update", "update --now", "ENABLE", "rollback", "recover", "recover --boot", "verify --repair", "plan", "status"];

#[test]
fn runs_that_start_at_the_same_instant_end_one_after_the_other_on_a_whole_host() {
    let Some(updater) = cells() else { return };
    let mut scene = Scene::on_two(&updater).unwrap();
    scene.release(&version(3));
    let enable = format!(
        "enable --proxy {} --base-url {} --ca-file /root/ca.pem",
        scene.cluster.addr(),
        scene.cluster.base_url()
    );
    let mut random = Random::new(SEED);
    for round in 0..10 {
        let wanted = ["1.0.0", "2.0.0", "3.0.0"][random.below(3)];
        scene.cluster.set_directive(Find::version(wanted));
        let lines: Vec<&str> = (0..AT_ONCE).map(|_| COMMANDS[random.below(COMMANDS.len())]).collect();
        let lines: Vec<&str> = lines.into_iter().map(|line| if line == "ENABLE" { &enable } else { line }).collect();
        let cell = Cell::copy_of(scene.files.path(), &updater).unwrap();
        cell.start_agent().unwrap();
        let before = rows::acknowledged(&cell);
        for (line, ran) in lines.iter().zip(cell.run_at_once(&lines).unwrap()) {
            let is_clear = match ran.code {
                Some(0) => true,
                Some(1) => ran.said.contains("error: "),
                Some(75) => ran.said.contains("another run holds the lock"),
                _ => false,
            };
            assert!(is_clear, "round {round}: {line} of {lines:?} for {wanted}: {ran:#?}");
        }
        let found = is_whole(&cell);
        // Two moves in one round, and retention takes the version with the rows that were left with it.
        if cell.path("/var/lib/teleport/versions/2.0.0/backup").exists() || found == "2.0.0" {
            let (live, kept) = (rows::live(&cell).unwrap(), rows::kept(&cell).unwrap());
            let lost = before.iter().find(|row| !live.contains(*row) && !kept.contains(*row));
            assert_eq!(lost, None, "round {round}: {lines:?} for {wanted}");
        }
        // A version that was rolled back is refused; else the next run gets there.
        let ran = run(&cell, "update", 0);
        let then = is_whole(&cell);
        assert!(
            then == wanted || ran.said.contains("is not tried again yet"),
            "round {round}: {found}, then {then}: {ran:#?}"
        );
    }
}

#[test]
fn a_journal_whose_writer_breaks_is_finished_by_whoever_finds_it() {
    let Some(updater) = cells() else { return };
    let scene = interrupted(&updater);
    for (body, boot) in [("exit 70", false), ("kill -ABRT $$", true), ("exit 1", false)] {
        let cell = Cell::copy_of(scene.files.path(), &updater).unwrap();
        let broken = format!("#!/bin/sh\necho called >>/var/calls\n{body}\n");
        program(&cell, "/opt/other", &broken);
        rewrite_opening(&cell, |opening| {
            opening["writer"]["path"] = "/opt/other".into();
            opening["writer"]["sha256"] = protocol::Digest::of(broken.as_bytes()).to_string().into();
        });
        let ran = run(&cell, if boot { "recover --boot" } else { "recover" }, 0);
        assert!(ran.said.contains("/opt/other could not recover"), "{body}: {ran:#?}");
        assert!(ran.said.contains("the interrupted run has been undone"), "{body}: {ran:#?}");
        assert_eq!(std::fs::read_to_string(cell.path("/var/calls")).unwrap(), "called\n", "{body}");
        cell.start_agent().unwrap();
        assert_eq!(is_whole(&cell), "1.0.0", "{body}");
    }
}

#[test]
fn a_journal_of_a_later_format_whose_writer_is_gone_stops_every_run_and_nothing_is_touched() {
    let Some(updater) = cells() else { return };
    let scene = interrupted(&updater);
    let cell = Cell::copy_of(scene.files.path(), &updater).unwrap();
    rewrite_opening(&cell, |opening| {
        opening["format"] = 9.into();
        opening["writer"]["path"] = "/opt/gone".into();
    });
    let before = tree(&cell.path("/var/lib/teleport/versions"));
    for line in ["recover", "recover --boot", "update --now", "rollback"] {
        let ran = run(&cell, line, 1);
        assert!(ran.said.contains("with the updater that wrote this file"), "{ran:#?}");
    }
    let is_lock = |line: &String| line.starts_with(".lock");
    let after = tree(&cell.path("/var/lib/teleport/versions"));
    assert!(before.iter().filter(|line| !is_lock(line)).eq(after.iter().filter(|line| !is_lock(line))));
    // And at boot the agent starts all the same.
    cell.sh(START).unwrap();
    assert_eq!(cell.agents().len(), 1);
}

#[test]
fn a_run_that_is_told_to_end_while_it_downloads_ends_at_once_and_changes_nothing() {
    let Some(updater) = cells() else { return };
    for signal in [Signal::TERM, Signal::INT] {
        let (scene, cell) = before_two(&updater, "10s", "0s", None);
        scene.cluster.misbehave(".tar.gz", Misbehaviour::Stall { after_bytes: 100_000 });
        scene.cluster.forget_requests();
        let (agent, begun) = (cell.agent(), Instant::now());
        let run = start(&cell, "update --now");
        until(SOON, || scene.cluster.requests().iter().any(|request| request.path.ends_with(".tar.gz"))).unwrap();
        run.signal(signal);
        let ran = run.end().unwrap();
        assert_eq!(ran.code, Some(1), "{ran:#?}");
        assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
        assert_eq!((is_whole(&cell).as_str(), cell.agent()), ("1.0.0", agent));
        scene.cluster.behave();
        self::run(&cell, "update --now", 0);
        assert_eq!(is_whole(&cell), "2.0.0");
    }
}

#[test]
fn a_run_that_is_told_to_end_while_it_waits_for_its_turn_ends_at_once() {
    let Some(updater) = cells() else { return };
    for signal in [Signal::TERM, Signal::INT] {
        let (scene, cell) = before_two(&updater, "10s", "0s", None);
        scene.cluster.set_directive(Find { jitter: 3600, ..Find::version("2.0.0") });
        let run = start(&cell, "update");
        says(&run, "waiting ");
        // The lock is free meanwhile.
        self::run(&cell, "recover", 0);
        run.signal(signal);
        let ran = run.end().unwrap();
        assert!(matches!(ran.code, Some(0 | 1)), "{ran:#?}");
        assert_eq!(is_whole(&cell), "1.0.0");
    }
}

#[test]
fn a_run_that_is_told_to_end_while_it_judges_the_new_version_puts_the_old_one_back() {
    let Some(updater) = cells() else { return };
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let (_scene, cell) = before_two(&updater, "10m", "0s", Some("never-ready"));
        let before = rows::acknowledged(&cell);
        let run = start(&cell, "update --now");
        judging(&cell, &run);
        run.signal(signal);
        let ran = run.end().unwrap();
        assert_eq!(ran.code, Some(1), "{ran:#?}");
        assert_eq!(is_whole(&cell), "1.0.0");
        let live = rows::live(&cell).unwrap();
        assert!(before.iter().all(|row| live.contains(row)));
    }
}

#[test]
fn a_run_that_is_told_to_end_while_it_watches_leaves_the_rest_to_the_next() {
    let Some(updater) = cells() else { return };
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let (_scene, cell) = before_two(&updater, "10s", "10m", None);
        let run = start(&cell, "update --now");
        says(&run, "watching ");
        run.signal(signal);
        let ran = run.end().unwrap();
        assert_eq!(ran.code, Some(0), "{ran:#?}");
        assert_eq!(is_whole(&cell), "2.0.0");
        let run = start(&cell, "update");
        says(&run, "watching ");
    }
}

#[test]
fn an_update_that_fails_is_undone_whoever_else_has_the_database_open() {
    let Some(updater) = cells() else { return };
    for writes in [false, true] {
        let (_scene, cell) = before_two(&updater, "1500ms", "0s", Some("corrupts-schema"));
        let before = rows::acknowledged(&cell);
        let mut shell = cell.command("/usr/bin/sleep");
        let open = std::fs::File::options().read(true).write(writes).open(cell.path(rows::DATABASE)).unwrap();
        shell.arg("1000").stdin(open);
        let mut stranger = cell.spawn(shell).unwrap();
        let ran = run(&cell, "update --now", 1);
        assert!(ran.said.contains("rolled back to 1.0.0"), "{ran:#?}");
        assert!(stranger.is_alive().unwrap());
        assert_eq!(is_whole(&cell), "1.0.0");
        let live = rows::live(&cell).unwrap();
        assert!(before.iter().all(|row| live.contains(row)));
    }
}

#[test]
fn a_downgrade_waits_for_a_stranger_at_the_database_and_the_agent_runs_meanwhile() {
    let Some(updater) = cells() else { return };
    let (_scene, cell) = before_one(&updater, None);
    let agent = cell.agent();
    let mut shell = cell.command("/usr/bin/sleep");
    shell.arg("1000").stdin(std::fs::File::open(cell.path(rows::DATABASE)).unwrap());
    let stranger = cell.spawn(shell).unwrap();
    let mut update = start(&cell, "update --now");
    let intent = |step: &str| std::fs::read_to_string(cell.path(JOURNAL)).is_ok_and(|text| text.contains(step));
    until(SOON, || intent(r#""record":"done""#) && update_waits(&cell)).unwrap();
    assert!(update.is_alive().unwrap());
    assert_eq!(cell.agent(), agent, "it works on");
    drop(stranger);
    let ran = update.end().unwrap();
    assert_eq!(ran.code, Some(0), "{ran:#?}");
    assert_eq!(is_whole(&cell), "1.0.0");
}

/// An agent of a user who cannot open the database, and what a user who cannot write it has open: they are nobody's business.
#[test]
fn what_another_user_runs_neither_delays_a_downgrade_nor_keeps_a_broken_version_from_being_undone() {
    let Some(updater) = cells() else { return };
    let others: [fn(&Cell) -> Vec<Running>; 2] =
        [|cell| vec![agent_of_nobody(cell)], |cell| readers_of_nobody(cell).into()];
    for others in others {
        let (_scene, cell) = before_one(&updater, None);
        let mut running = others(&cell);
        let ran = run(&cell, "update --now", 0);
        assert!(!ran.said.contains("pid "), "{ran:#?}");
        for other in &mut running {
            assert!(other.is_alive().unwrap(), "{ran:#?}");
        }
        drop(running);
        assert_eq!(is_whole(&cell), "1.0.0");
        let (_scene, cell) = before_two(&updater, "1500ms", "0s", Some("corrupts-schema"));
        let running = others(&cell);
        let ran = run(&cell, "update --now", 1);
        assert!(ran.said.contains("rolled back to 1.0.0"), "{ran:#?}");
        drop(running);
        assert_eq!(is_whole(&cell), "1.0.0");
    }
}

#[test]
fn a_set_uid_program_that_has_the_database_open_for_writing_is_waited_for() {
    let Some(updater) = cells() else { return };
    let (_scene, cell) = before_one(&updater, Some("s/^spec:/&\\n  database_timeout: 1s/"));
    let agent = cell.agent();
    let writes = std::fs::File::options().read(true).write(true).open(cell.path(rows::DATABASE)).unwrap();
    let writer = holder(&cell, "--ruid=65534", "/usr/bin/sleep", writes);
    let ran = run(&cell, "update --now", 1);
    assert!(ran.said.contains("(sleep"), "{ran:#?}");
    assert_eq!(cell.agent(), agent, "it works on");
    drop(writer);
    run(&cell, "update --now", 0);
    assert_eq!(is_whole(&cell), "1.0.0");
}

#[test]
fn a_process_of_the_unit_that_writes_the_database_counts_whoever_its_user_is() {
    let Some(rig) = Rig::up("mapped") else { return };
    let release =
        |number: i64| testing::cluster::archive::Archive::simple(&format!("{number}.0.0")).schema(number).writes();
    rig.release(&release(1));
    rig.enable(&[]).ok();
    rig.bed.sh("sed -i 's/^spec:/&\\n  database_timeout: 2s/' /var/lib/teleport/versions/updates.yaml");
    // Its processes outlive a stop.
    rig.drop_in("KillMode=process\n");
    rig.start_agent();
    rig.until_ready();
    rig.update_to(&release(2));
    rig.wish("1.0.0");
    // As on a mount where its user is mapped to the owner, which nobody sees from outside.
    let holder = "#!/bin/sh\necho $$ >/sys/fs/cgroup/system.slice/teleport.service/cgroup.procs\n\
                  exec setpriv --reuid=65534 --regid=65534 --clear-groups sleep 1000 0<>/var/lib/teleport/proc/sqlite.db\n";
    rig.bed.write("/root/holder", holder, 0o755);
    rig.bed.sh("systemd-run --quiet --unit=holder /root/holder");
    rig.bed.until("pgrep -u 65534 -x sleep", SOON);
    assert!(rig.bed.sh("cat /proc/$(pgrep -u 65534 -x sleep)/cgroup").contains("/teleport.service"));
    rig.updater(&["update", "--now"]).fails(1, "(sleep, teleport.service)");
    rig.until_ready();
    assert_eq!(rig.status()["agent_version_running"], "2.0.0");
    rig.bed.sh("pkill -u 65534 -x sleep");
    rig.updater(&["update", "--now"]).ok();
    assert_eq!(rig.status()["agent_version_running"], "1.0.0");
}

#[test]
fn a_program_with_a_file_on_a_file_system_that_does_not_answer_holds_up_no_run() {
    let Some(updater) = cells() else { return };
    let Ok((_device, file)) = unanswered() else { return println!("skipped: no FUSE here") };
    let (_scene, cell) = before_one(&updater, None);
    let mut holder = cell.command("/usr/bin/sleep");
    holder.arg("1000").stdin(file);
    let mut holder = cell.spawn(holder).unwrap();
    run(&cell, "update --now", 0);
    assert!(holder.is_alive().unwrap());
    assert_eq!(is_whole(&cell), "1.0.0");
}

#[test]
fn an_agent_that_has_fallen_is_started_by_an_update_also_while_another_user_runs_one() {
    let Some(updater) = cells() else { return };
    let (_scene, cell) = before_two(&updater, "10s", "0s", None);
    let nobodys = agent_of_nobody(&cell);
    // Its pid file stays: it was started, and never stopped.
    cell.sh("kill -9 $(cat /run/teleport.pid)").unwrap();
    run(&cell, "update --now", 0);
    drop(nobodys);
    assert_eq!(is_whole(&cell), "2.0.0");
    // And what runs of another user is no reason to stay installed.
    cell.sh("kill $(cat /run/teleport.pid); rm /run/teleport.pid").unwrap();
    let _nobodys = agent_of_nobody(&cell);
    until(SOON, || cell.agents().len() == 1).unwrap();
    run(&cell, "uninstall", 0);
}

#[test]
fn roots_second_agent_with_data_of_its_own_neither_delays_a_move_nor_is_it_ended_by_one() {
    let Some(updater) = cells() else { return };
    for (is_downgrade, status) in [(true, 0), (false, 1)] {
        let (_scene, cell) = if is_downgrade {
            before_one(&updater, None)
        } else {
            before_two(&updater, "1500ms", "0s", Some("corrupts-schema"))
        };
        let mut second = cell.command("/usr/local/bin/teleport");
        second.args(["start", "--data-dir=/var/second", "--pid-file=/run/second.pid"]);
        let mut second = cell.spawn(second).unwrap();
        until(SOON, || cell.path("/run/second.pid").exists()).unwrap();
        run(&cell, "update --now", status);
        assert!(second.is_alive().unwrap(), "it was none of ours");
        drop(second);
        assert_eq!(is_whole(&cell), "1.0.0");
    }
}

#[test]
fn a_rollback_goes_on_when_the_agent_that_it_stops_takes_the_terminal_along() {
    let Some(updater) = cells() else { return };
    let mut scene = Scene::on_two(&updater).unwrap();
    // The command is run by the updater itself.
    edit(&mut scene, r"s/^    stop: .p=/&$PPID; kill -HUP $p; p=/");
    let cell = Cell::copy_of(scene.files.path(), &updater).unwrap();
    cell.start_agent().unwrap();
    run(&cell, "rollback", 0);
    assert_eq!(is_whole(&cell), "1.0.0");
}

#[test]
fn a_rollback_from_a_session_of_the_agent_outlives_it_whatever_its_control_group() {
    let Some(updater) = cells() else { return };
    let mut scene = Scene::on_two(&updater).unwrap();
    // As the end of a terminal that the agent has carried.
    edit(&mut scene, r"s/ && kill $p/&; kill -HUP $(cat \/run\/user)/");
    let cell = Cell::copy_of(scene.files.path(), &updater).unwrap();
    // An agent that is a shell, with a user's command in it.
    let user = "echo $$ >/run/user; exec /opt/teleport-update/teleport-update rollback >/var/said 2>&1";
    let session = format!("echo $$ >/run/teleport.pid; sh -c '{user}'; :");
    let agent = "/var/lib/teleport/versions/0.0.9/bin/teleport";
    cell.sh(&format!("mkdir -p $(dirname {agent}); cp /bin/sh {agent}; chmod 755 {agent}")).unwrap();
    let mut shell = cell.command(agent);
    shell.args(["-c", &session, "start"]);
    let ran = cell.finish(shell).unwrap();
    assert_eq!(ran.code, None, "it was stopped: {ran:#?}");
    let said = || std::fs::read_to_string(cell.path("/var/said")).unwrap_or_default();
    until(SOON, || said().contains("-> 1.0.0 (oss): done") && !cell.path(JOURNAL).exists())
        .unwrap_or_else(|_| panic!("{}", said()));
    assert!(said().contains("in a separate session"), "{}", said());
    assert_eq!(is_whole(&cell), "1.0.0");
}

#[test]
fn programs_that_another_user_keeps_running_do_not_keep_every_version_on_the_disk() {
    let Some(updater) = cells() else { return };
    let mut scene = Scene::on_one(&updater, &settings("10s", "0s")).unwrap();
    let cell = Cell::copy_of(scene.files.path(), &updater).unwrap();
    cell.start_agent().unwrap();
    let mut nobodys = vec![agent_of_nobody(&cell)];
    for number in 2..=6 {
        scene.release(&version(number));
        run(&cell, "update --now", 0);
        nobodys.push(agent_of_nobody(&cell));
    }
    let entries = std::fs::read_dir(cell.path("/var/lib/teleport/versions")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut versions: Vec<String> = names.filter(|name| name.ends_with(".0.0")).collect();
    versions.sort();
    assert_eq!(versions, ["3.0.0", "4.0.0", "5.0.0", "6.0.0"]);
    assert!(nobodys.iter_mut().all(|running| running.is_alive().unwrap()), "a removed program runs on");
    drop(nobodys);
    assert_eq!(is_whole(&cell), "6.0.0");
}

#[test]
fn an_agent_that_has_its_data_elsewhere_is_not_moved_before_the_operator_says_so() {
    let Some(updater) = cells() else { return };
    let mut scene = Scene::on_two(&updater).unwrap();
    let start = "start --data-dir=/srv/data --config";
    edit(&mut scene, r"s/start --config/start --data-dir=\/srv\/data --config/");
    let cell = Cell::copy_of(scene.files.path(), &updater).unwrap();
    // Told by the command that would start it, and by the database that it has open.
    for running in [false, true] {
        if running {
            cell.sh(&START.replace("start --config", start)).unwrap();
            until(SOON, || cell.path("/srv/data/proc/sqlite.db").exists()).unwrap();
        }
        let agent = cell.agent();
        for line in ["rollback", "verify"] {
            let ran = run(&cell, line, 1);
            assert!(ran.said.contains("uses the data directory /srv/data"), "{line}: {ran:#?}");
        }
        assert_eq!((whole::link(&cell).as_deref(), cell.agent()), (Some("2.0.0"), agent));
    }
    scene.release(&version(3));
    let ran = run(&cell, "update --now", 1);
    assert!(ran.said.contains("enable --data-dir /srv/data"), "{ran:#?}");
    run(&cell, &format!("{} --data-dir /srv/data", scene.enable()), 0);
    run(&cell, "verify", 0);
    assert_eq!(whole::link(&cell).as_deref(), Some("3.0.0"));
    run(&cell, "rollback", 0);
    assert_eq!(whole::link(&cell).as_deref(), Some("2.0.0"));
    // The field `user_version` of a database's header.
    let database = std::fs::read(cell.path("/srv/data/proc/sqlite.db")).unwrap();
    assert_eq!(database[60..64], [0, 0, 0, 2]);
}

#[test]
fn what_cannot_be_looked_at_is_not_taken_for_a_stopped_agent() {
    let Some(updater) = cells() else { return };
    let journal = |number| version(number).trailer_field("journal", "delete".into());
    let scene = Scene::on_second(&updater, &journal(1), &journal(2)).unwrap();
    scene.cluster.set_directive(Find::version("1.0.0"));
    for error in ["EMFILE", "EIO", "ENOMEM"] {
        let cell = Cell::copy_of(scene.files.path(), &updater).unwrap();
        cell.start_agent().unwrap();
        let agent = cell.agent().unwrap();
        cell.sh(&format!("kill -STOP {agent}")).unwrap();
        let mut blind = cell.command("/usr/bin/strace");
        blind.args(["-qq", "-o", "/dev/null", "-P", "/proc", "-e"]);
        blind.arg(format!("inject=open,openat:error={error}")).arg(format!("{UPDATER}/teleport-update"));
        blind.args(["update", "--now"]);
        let ran = cell.finish(blind).unwrap();
        assert_eq!(ran.code, Some(1), "{error}: {ran:#?}");
        assert!(ran.said.contains("/proc"), "{error}: {ran:#?}");
        cell.sh(&format!("kill -CONT {agent}")).unwrap();
        until(SOON, || cell.agent().is_some()).unwrap();
        assert_eq!(is_whole(&cell), "2.0.0", "{error}");
    }
}

#[test]
fn what_cannot_be_read_is_not_taken_for_damaged_or_absent() {
    let Some(updater) = cells() else { return };
    let scene = Scene::on_two(&updater).unwrap();
    scene.cluster.set_directive(Find::version("1.0.0"));
    // A failing disk, one file at a time: the manifest of what is gone back to, what that version's files are, its snapshot,
    // whose agent this is, and which directories hold links that enable a unit.
    let versions = "/var/lib/teleport/versions";
    for (path, calls) in [
        (format!("{versions}/1.0.0/manifest.json"), "open,openat"),
        (format!("{versions}/1.0.0/sha256"), "open,openat"),
        (format!("{versions}/1.0.0/bin/tsh"), "lstat,stat,newfstatat,statx"),
        (format!("{versions}/1.0.0/backup/backup.yaml"), "open,openat"),
        ("/var/lib/teleport/host_uuid".to_owned(), "open,openat"),
        ("/etc/systemd/system".to_owned(), "open,openat"),
    ] {
        let cell = Cell::copy_of(scene.files.path(), &updater).unwrap();
        cell.sh("mkdir -p /etc/systemd/system").unwrap();
        cell.start_agent().unwrap();
        let mut blind = cell.command("/usr/bin/strace");
        blind.args(["-f", "-qq", "-o", "/dev/null", "-P", &path, "-e", &format!("inject={calls}:error=EIO")]);
        blind.arg(format!("{UPDATER}/teleport-update")).args(["update", "--now"]);
        let ran = cell.finish(blind).unwrap();
        assert_eq!(ran.code, Some(1), "{path}: {ran:#?}");
        let told = ran.said.lines().find(|line| line.contains("error: ")).unwrap_or_default();
        assert!(told.contains(&path) && told.contains("(os error 5)"), "{path}: {ran:#?}");
        assert_eq!(is_whole(&cell), "2.0.0", "{path}");
        // Nothing was taken for the version's or the file's fault: the next run does it.
        let ran = cell.run("update --now").unwrap();
        assert_eq!((ran.code, is_whole(&cell).as_str()), (Some(0), "1.0.0"), "{path}: {ran:#?}");
    }
}

tests_of! { writer:
    no_row_is_lost_of_an_agent_that_writes_as_hard_as_it_can("writer-wal");
    no_row_is_lost_of_an_agent_that_writes_in_long_transactions_with_a_rollback_journal("writer-journal-long");
}

/// An upgrade, one that fails, and a downgrade.
fn writer(way: &str) {
    let Some(updater) = cells() else { return };
    let rows = suite::writers(&Options { threads: 3, flow: Some(way.to_owned()), ..Options::all(updater) });
    assert_eq!(rows.iter().map(|row| (row.tried, row.violations.clone())).collect::<Vec<_>>(), [(3, Vec::new())]);
}

tests_of! { slice:
    a_slice_of_the_live_crash_suite_finds_nothing_in_moves_that_succeed(
        suite::kill, &["live-up", "live-down", "live-rollback", "live-uninstall"], 47);
    a_slice_of_the_live_crash_suite_finds_nothing_in_updates_to_broken_versions(
        suite::kill, &["live-exits", "live-damages", "live-file", "live-dies", "live-never-ready"], 97);
    a_slice_of_the_live_crash_suite_finds_nothing_after_a_fall_in_the_watch(suite::kill, &["live-fall"], 67);
    r58_a_run_of_a_script_that_is_killed_anywhere_leaves_nothing_behind(suite::kill, &["live-script"], 7);
    a_slice_of_recoveries_that_are_cut_short_under_a_living_agent_finds_nothing(suite::recovery, &["live-down"], 101);
    a_slice_of_runs_that_are_told_to_end_at_a_step_finds_nothing(suite::signal, &["live-up", "live-down"], 7);
    a_slice_of_runs_that_report_and_are_killed_finds_nothing(
        suite::kill, &["report-up", "report-down", "report-exits"], 71);
    a_slice_of_failing_calls_in_runs_that_report_finds_nothing(
        suite::fault, &["report-up", "report-down", "report-exits"], 151);
}

#[test]
fn the_timers_run_an_operator_and_boot_recovery_meet_under_systemd() {
    let Some(rig) = Rig::up("meet") else { return };
    let release = |number: i64| testing::cluster::archive::Archive::simple(&format!("{number}.0.0")).schema(number);
    rig.release(&release(1));
    rig.enable(&[]).ok();
    rig.start_agent();
    for number in 2..=4 {
        rig.release(&release(number));
        // The unit with its ExecStopPost=, the recovery unit, and an operator, at the same instant.
        rig.bed.sh("systemctl start --no-block teleport-update.service; \
             teleport-update recover --boot & teleport-update update --now >/var/said 2>&1; echo $? >/var/code; wait");
        rig.bed.until(
            "case $(systemctl show -p ActiveState --value teleport-update.service) in inactive|failed) ;; *) false ;; esac",
            SOON,
        );
        let code = rig.bed.sh("cat /var/code");
        assert!(["0", "1", "75"].contains(&code.trim()), "{code}{}", rig.bed.sh("cat /var/said"));
        rig.until_ready();
        rig.updater(&["update", "--now"]).ok();
        let status = rig.status();
        for key in ["agent_version_installed", "agent_version_linked", "agent_version_running"] {
            assert_eq!(status[key], format!("{number}.0.0"), "{status:#}");
        }
        assert_eq!(status["recovery_pending"], false);
        assert_eq!(rig.sql("PRAGMA user_version"), [number.to_string()]);
        rig.updater(&["verify"]).ok();
    }
}

#[test]
fn an_agent_that_is_killed_again_and_again_under_systemd_does_not_spoil_a_move() {
    let Some(rig) = Rig::up("restarts") else { return };
    let release = |number: i64| {
        let archive = testing::cluster::archive::Archive::simple(&format!("{number}.0.0")).schema(number);
        archive.writes().trailer_field("pace_ms", 5.into())
    };
    rig.release(&release(1));
    rig.enable(&[]).ok();
    rig.drop_in("RestartSec=50ms\n[Unit]\nStartLimitIntervalSec=0\n");
    rig.start_agent();
    rig.bed.sh("systemd-run --quiet --unit=killer sh -c \
         'while :; do sleep 0.$((RANDOM % 5 + 3)); kill -9 $(cat /run/teleport.pid); done'");
    rig.until_written("1.0.0");
    let before = rig.acknowledged();
    let mut codes = Vec::new();
    for wanted in ["2.0.0", "1.0.0", "2.0.0"] {
        if codes.is_empty() {
            rig.release(&release(2));
        }
        rig.wish(wanted);
        let ran = rig.updater(&["update", "--now"]);
        assert!(matches!(ran.status, 0 | 1), "{ran:#?}");
        codes.push(ran.status);
    }
    rig.bed.sh("systemctl stop killer");
    rig.bed.sh("systemctl reset-failed teleport; systemctl start teleport");
    rig.until_ready();
    let status = rig.status();
    let version = status["agent_version_installed"].as_str().unwrap().to_owned();
    assert_eq!(status["agent_version_linked"], version.as_str(), "{status:#}");
    assert_eq!(rig.sql("PRAGMA quick_check"), ["ok"]);
    assert_eq!(rig.sql("PRAGMA user_version"), [version.split('.').next().unwrap()]);
    let rows: std::collections::HashSet<String> =
        rig.sql("SELECT id || '|' || version FROM rows").into_iter().collect();
    let lost = before.iter().filter(|row| !rows.contains(*row)).count();
    assert_eq!(lost, 0, "of {} rows, moves ended with {codes:?}", before.len());
    rig.updater(&["update", "--now"]).ok();
    rig.updater(&["verify"]).ok();
    rig.assert_tidy();
}

/// Every `every`th point of those flows.
fn slice(suite: fn(&Options) -> Vec<Row>, flows: &[&str], every: usize) {
    let Some(updater) = cells() else { return };
    for flow in flows {
        let flow = Some((*flow).to_owned());
        let rows = suite(&Options { every, flow, seed: SEED, ..Options::all(updater.clone()) });
        let violations: Vec<&String> = rows.iter().flat_map(|row| &row.violations).collect();
        assert!(violations.is_empty(), "{violations:#?}");
        assert!(rows.len() == 1 && rows[0].tried > 0, "{rows:?}");
    }
}

/// The updater, where cells can be made; elsewhere the stories are skipped.
fn cells() -> Option<Updater> {
    suite::can().then(|| Updater::new(&updater()))
}

/// A cell on 1.0.0 whose agent runs and writes; the cluster names 2.0.0, which behaves so.
fn before_two(updater: &Updater, deadline: &str, watch: &str, behaviour: Option<&str>) -> (Scene, Cell) {
    let settings = format!("{}  database_timeout: 2s\n", settings(deadline, watch));
    let mut scene = Scene::on_one(updater, &settings).unwrap();
    scene.release(&version(2).behaviour(behaviour.unwrap_or("healthy")));
    let cell = Cell::copy_of(scene.files.path(), updater).unwrap();
    cell.start_agent().unwrap();
    (scene, cell)
}

/// A cell on 2.0.0 whose agent runs and writes; the cluster names 1.0.0. Its settings are changed by a line of sed.
fn before_one(updater: &Updater, settings: Option<&str>) -> (Scene, Cell) {
    let mut scene = Scene::on_two(updater).unwrap();
    if let Some(script) = settings {
        edit(&mut scene, script);
    }
    scene.cluster.set_directive(Find::version("1.0.0"));
    let cell = Cell::copy_of(scene.files.path(), updater).unwrap();
    cell.start_agent().unwrap();
    (scene, cell)
}

/// A host whose update was killed in its health check, with its journal open; everything is dead.
fn interrupted(updater: &Updater) -> Scene {
    let mut scene = Scene::on_one(updater, &settings("10m", "0s")).unwrap();
    scene.release(&version(2).behaviour("never-ready"));
    scene
        .cut_short(|cell| {
            cell.start_agent()?;
            let run = start(cell, "update --now");
            judging(cell, &run);
            Ok(())
        })
        .unwrap();
    scene
}

/// Changes the scene's settings by a line of sed.
fn edit(scene: &mut Scene, script: &str) {
    let file = "/var/lib/teleport/versions/updates.yaml";
    let before = std::fs::read_to_string(scene.files.path().join("root").join(&file[1..])).unwrap();
    scene
        .live(|cell| cell.sh(&format!("sed -i '{script}' {file}")).map(drop).map_err(|error| error.to_string()))
        .unwrap();
    let after = std::fs::read_to_string(scene.files.path().join("root").join(&file[1..])).unwrap();
    assert_ne!(before, after, "{script}");
}

/// Another user's agent of the same binary, with a directory of its own.
fn agent_of_nobody(cell: &Cell) -> Running {
    cell.sh("mkdir -p /var/nobody; chown 65534:65534 /var/nobody; rm -f /var/nobody/pid").unwrap();
    let mut command = cell.command("/usr/bin/setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "/usr/local/bin/teleport", "start"]);
    command.args(["--data-dir=/var/nobody", "--pid-file=/var/nobody/pid"]);
    let running = cell.spawn(command).unwrap();
    until(SOON, || cell.path("/var/nobody/pid").exists()).unwrap_or_else(|_| panic!("{:?}", running.said()));
    running
}

/// Another user's programs that have the database open for reading, which somebody has let all do: one of his own, whose
/// name the kernel cuts in the middle of a letter, and a set-uid one.
fn readers_of_nobody(cell: &Cell) -> [Running; 2] {
    let name = "/var/резервное-копирование";
    cell.sh(&format!("cp /usr/bin/sleep {name}; chmod 755 {name}")).unwrap();
    let reads = || std::fs::File::open(cell.path(rows::DATABASE)).unwrap();
    [holder(cell, "--reuid=65534", name, reads()), holder(cell, "--ruid=65534", name, reads())]
}

/// A program with `file` open, started as those users of setpriv(1).
fn holder(cell: &Cell, users: &str, program: &str, file: std::fs::File) -> Running {
    let mut command = cell.command("/usr/bin/setpriv");
    command.args([users, "--regid=65534", "--clear-groups", program, "1000"]).stdin(file);
    let running = cell.spawn(command).unwrap();
    let exe = || std::fs::read_link(format!("/proc/{}/exe", running.pid().as_raw_nonzero()));
    until(SOON, || exe().is_ok_and(|exe| exe.file_name() == std::path::Path::new(program).file_name())).unwrap();
    running
}

fn start(cell: &Cell, line: &str) -> Running {
    cell.spawn(cell.updater(&testing::crash::host::words(line))).unwrap()
}

/// Waits until the run has said so.
#[track_caller]
fn says(run: &Running, what: &str) {
    until(SOON, || run.said().unwrap().contains(what)).unwrap_or_else(|_| panic!("{:?}", run.said()));
}

/// Waits until the run waits for its verdict on the new version.
#[track_caller]
fn judging(cell: &Cell, run: &Running) {
    says(run, "reloaded the agent");
    until(SOON, || cell.agents().iter().any(|pid| cell.runs(*pid, "/var/lib/teleport/versions/2.0.0/bin/teleport")))
        .unwrap();
}

/// Whether a run is about to stop the agent and has not done so.
fn update_waits(cell: &Cell) -> bool {
    let text = std::fs::read(cell.path(JOURNAL)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let records: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line.get(9..)?).ok()).collect();
    let steps = records.first().and_then(|opening| opening["plan"]["switch"].as_array());
    let stop = steps.and_then(|steps| steps.iter().position(|step| step["step"] == "stop"));
    let has = |kind: &str| {
        records.iter().any(|record| record["record"] == kind && record["step"].as_u64() == stop.map(|stop| stop as u64))
    };
    stop.is_some() && has("intent") && !has("done")
}

/// Runs the updater, which must end with `code`.
#[track_caller]
fn run(cell: &Cell, line: &str, code: i32) -> Ran {
    let ran = cell.run(line).unwrap();
    assert_eq!(ran.code, Some(code), "{line}: {ran:#?}");
    ran
}

/// The version that the cell's host is wholly on, with a living agent.
#[track_caller]
fn is_whole(cell: &Cell) -> String {
    let version = whole::link(cell).expect("a version is linked");
    whole::check(cell, Some(&version), true).unwrap_or_else(|reason| panic!("{version}: {reason}"));
    version
}

fn program(cell: &Cell, path: &str, text: &str) {
    std::fs::write(cell.path(path), text).unwrap();
    std::fs::set_permissions(cell.path(path), std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Changes the first record of the open journal, which is written anew with its checksum.
fn rewrite_opening(cell: &Cell, change: impl Fn(&mut Value)) {
    let path = cell.path(JOURNAL);
    let bytes = std::fs::read(&path).unwrap();
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap();
    let mut opening: Value = serde_json::from_slice(&bytes[9..end]).unwrap();
    change(&mut opening);
    let json = opening.to_string();
    let mut changed = look::record(&json);
    changed.extend(&bytes[end + 1..]);
    std::fs::write(path, changed).unwrap();
}
