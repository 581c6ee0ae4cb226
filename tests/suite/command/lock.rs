//! SPEC §7: one writing run at a time; readers need neither lock nor root.

use std::fs::File;
use std::io::Read;

use rustix::fs::inotify;

use crate::support::*;

const SOON: Duration = Duration::from_secs(60);

#[test]
fn who_waits_and_what_was_said_during_a_download() {
    transcript::play("command/lock.txt");
}

#[test]
fn of_two_enables_at_once_one_waits_and_both_succeed() {
    let image = Image::new("1.0.0");
    let args = image.enable_args();
    let runs: Vec<Child> = (0..2).map(|_| start(&image, &args)).collect();
    for run in runs {
        let output = run.wait_with_output().unwrap();
        assert!(output.status.success(), "{output:?}");
    }
    image.run(&["verify"]).ok();
    // The archive was fetched once.
    let archive = "/cdn/teleport-v1.0.0-linux-amd64-bin.tar.gz";
    let fetched = image.cluster.requests_to(archive);
    let whole = fetched.iter().filter(|request| request.method == "GET" && request.path == archive).count();
    assert_eq!(whole, 1, "{fetched:#?}");
}

#[test]
fn a_download_keeps_no_operator_out_and_obeys_what_was_said_meanwhile() {
    let image = Image::enabled("1.0.0");
    image.update_to("1.1.0");
    image.release("2.0.0");
    // A real run, which the mirror keeps busy until it is told otherwise.
    // Of some 2.2 MB.
    image.cluster.misbehave(&format!("{ARCHIVE}$"), Misbehaviour::Hold { after_bytes: 2_000_000 });
    let mut first = start(&image, &["update".to_owned()]);
    let staged = || image.versions().join(".staging-2.0.0/bin").exists();
    let deadline = Instant::now() + SOON;
    while !staged() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(image.run(&["status"]).ok().json()["update_in_progress"], true);
    // A second download of the same version would be in vain; the first one's files are not swept.
    image.run(&["update"]).fails(75, &format!("pid {}", first.id()));
    image.run(&["rollback"]).ok();
    image.run(&["recover"]).ok();
    image.run(&["disable"]).ok();
    assert!(image.config().contains("enabled: false"));
    assert!(staged() && first.try_wait().unwrap().is_none());
    terminate(&first);
    let output = first.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let left: Vec<_> = tree(&image.root()).into_iter().filter(|path| path.contains(".staging-")).collect();
    assert_eq!(left, Vec::<String>::new());
    assert_eq!(image.run(&["status"]).ok().json()["agent_version_installed"], "1.0.0");
}

#[test]
fn a_waiting_run_ends_at_once_when_it_is_told_to() {
    let image = Image::enabled("1.0.0");
    let _held = hold(&image);
    let tries = inotify::init(inotify::CreateFlags::empty()).unwrap();
    inotify::add_watch(&tries, image.versions().join(".lock"), inotify::WatchFlags::OPEN).unwrap();
    let waiting = start(&image, &["disable".to_owned()]);
    // It has opened the lock, and opens it again: it waits.
    let mut events = [0; 1024];
    for _ in 0..2 {
        assert!(rustix::io::read(&tries, &mut events).unwrap() > 0);
    }
    terminate(&waiting);
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(image.config().contains("enabled: true"));
}

#[test]
fn a_lock_that_is_removed_under_a_waiting_run_is_waited_for_all_the_same() {
    let image = Image::enabled("1.0.0");
    image.release("2.0.0");
    let held = hold(&image);
    let mut waiting = start(&image, &["disable".to_owned()]);
    // Whoever removes the lock has not ended its holder.
    std::fs::remove_dir_all(image.versions().join(".lock")).unwrap();
    // The waiting run has the new lock while it looks for the holder of the old one: either may be named.
    let ran = image.run(&["update"]);
    let holders = [std::process::id(), waiting.id()].map(|pid| format!("(pid {pid})"));
    assert!(ran.status == 75 && holders.iter().any(|holder| ran.stderr.contains(holder)), "{ran:?}");
    assert!(waiting.try_wait().unwrap().is_none());
    drop(held);
    assert!(waiting.wait().unwrap().success());
    assert!(image.config().contains("enabled: false"));
    image.run(&["recover"]).ok();
}

#[test]
fn an_agent_started_by_plain_commands_does_not_inherit_the_lock() {
    let Some(rig) = Rig::up("inherit") else { return };
    let start = "setsid /usr/local/bin/teleport start --config /etc/teleport.yaml --pid-file=/run/teleport.pid &";
    let stop = "kill $(cat /run/teleport.pid); while kill -0 $(cat /run/teleport.pid); do sleep 0.05; done";
    let config = format!(
        "version: v1\nkind: agent_versions\nspec:\n{}  service:\n    start: '{start}'\n    stop: '{stop}'\n    \
         reload: 'kill -HUP $(cat /run/teleport.pid)'\n    pid_file: /run/teleport.pid\n",
        FAST
    );
    rig.bed.write("/var/lib/teleport/versions/updates.yaml", &config, 0o644);
    rig.release(&Archive::simple("1.0.0"));
    rig.enable(&[]).ok();
    rig.bed.write("/root/start", format!("#!/bin/sh\n{start}\n"), 0o755);
    // Outlives the command that starts it.
    rig.bed.sh("systemd-run --quiet --unit agent -p KillMode=none -p RemainAfterExit=yes /root/start");
    rig.until_ready();
    rig.update_to(&Archive::simple("2.0.0").schema(2));
    rig.cluster.set_directive(Find::version("1.0.0"));
    // The run that starts the agent is not over before its watch is.
    let inner = "teleport-update update; code=$?; ls -l /proc/$(cat /run/teleport.pid)/fd >/var/fds; \
                 readlink /proc/$(cat /run/teleport.pid)/exe; teleport-update disable; exit $code";
    let said = rig.bed.sh(inner);
    assert_eq!(said.trim(), "/var/lib/teleport/versions/1.0.0/bin/teleport");
    let fds = rig.bed.sh("cat /var/fds");
    assert!(fds.contains("sqlite.db") && !fds.contains(".lock") && !fds.contains(".journal"), "{fds}");
}

#[test]
fn what_any_user_can_lock_keeps_no_run_out_and_is_no_update_in_progress() {
    let image = Image::enabled("1.0.0");
    image.release("2.0.0");
    std::fs::set_permissions(image.root().parent().unwrap(), std::fs::Permissions::from_mode(0o755)).unwrap();
    // A shared lock needs no more than a file that is open for reading.
    let versions = image.versions().display().to_string();
    let hold = format!("flock -s {versions}/.lock sh -c 'echo held; cat' 2>/dev/null || {{ echo held; cat; }}");
    let mut stranger = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--", "flock", "-s", &versions, "sh", "-c", &hold])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut held = [0; 4];
    stranger.stdout.take().unwrap().read_exact(&mut held).unwrap();
    assert_eq!(image.run(&["status"]).ok().json()["update_in_progress"], false);
    image.run(&["recover"]).ok();
    image.run(&["update"]).ok();
    image.run(&["disable"]).ok();
    drop(stranger.stdin.take());
    stranger.wait().unwrap();
    let mode = |name: &str| std::fs::metadata(image.versions().join(name)).unwrap().permissions().mode() & 0o7777;
    assert_eq!((mode(".lock"), mode(".lock/lock")), (0o700, 0o600));
}

#[test]
fn what_a_user_has_locked_before_he_starts_a_set_uid_program_keeps_no_run_out_either() {
    let image = Image::enabled("1.0.0");
    image.release("2.0.0");
    std::fs::set_permissions(image.root().parent().unwrap(), std::fs::Permissions::from_mode(0o755)).unwrap();
    // In one process: it locks, and becomes a program of root's that waits for a password.
    let mut stranger = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--", "flock", "--no-fork", "-x"])
        .args([&image.versions().display().to_string(), "su"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let process = format!("/proc/{}", stranger.id());
    // The kernel gives a program its owner's rights after its name.
    let is_roots = || std::fs::metadata(&process).is_ok_and(|meta| meta.uid() == 0);
    let is_su = || is_roots() && std::fs::read_link(format!("{process}/exe")).is_ok_and(|exe| exe.ends_with("su"));
    let deadline = Instant::now() + SOON;
    while !is_su() {
        assert!(Instant::now() < deadline && stranger.try_wait().unwrap().is_none());
    }
    assert_eq!(image.run(&["status"]).ok().json()["update_in_progress"], false);
    image.run(&["update"]).ok();
    image.run(&["disable"]).ok();
    // Also where the lock has to be made anew.
    std::fs::remove_dir_all(image.versions().join(".lock")).unwrap();
    assert_eq!(image.run(&["status"]).ok().json()["update_in_progress"], false);
    image.run(&["enable"]).ok();
    assert!(is_su() && stranger.try_wait().unwrap().is_none());
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

#[test]
fn a_run_whose_lock_is_removed_or_moved_goes_on_alone() {
    let image = Image::enabled("1.0.0");
    let lock = image.versions().join(".lock");
    for (moved, version) in [(false, "2.0.0"), (true, "3.0.0")] {
        image.release(version);
        let held = hold_all(&image);
        if moved {
            std::fs::rename(&lock, image.versions().join(".lock.old")).unwrap()
        } else {
            std::fs::remove_dir_all(&lock).unwrap()
        }
        image.run(&["update"]).fails(75, &format!("another run holds the lock (pid {}", std::process::id()));
        assert_eq!(image.run(&["status"]).ok().json()["update_in_progress"], true);
        drop(held);
        image.run(&["update"]).ok();
    }
}

const ARCHIVE: &str = "/cdn/teleport-v2.0.0-linux-amd64-bin.tar.gz";

/// The lock, held by this test.
fn hold(image: &Image) -> File {
    let lock = File::open(image.versions().join(".lock")).unwrap();
    lock.lock().unwrap();
    lock
}

/// Everything that a run holds.
fn hold_all(image: &Image) -> [File; 2] {
    [".lock", ".lock/lock"].map(|name| {
        let file = File::open(image.versions().join(name)).unwrap();
        file.lock().unwrap();
        file
    })
}

fn start(image: &Image, args: &[String]) -> Child {
    updater_at(&image.root()).args(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn terminate(child: &Child) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}
