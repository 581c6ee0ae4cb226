//! SPEC §7: one writing run at a time; readers need neither lock nor root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests are not themselves tests")]
#![allow(clippy::disallowed_methods, reason = "the test is outside the host it tests")]

mod support;

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use support::{Image, Rig, tree, updater};
use test_cluster::archive::Archive;
use test_cluster::directive::Find;
use test_cluster::misbehaviour::Misbehaviour;

const SOON: Duration = Duration::from_secs(60);

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
fn the_timers_run_waits_shortly_and_names_the_holder() {
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
    image.release("2.0.0");
    let _held = hold(&image);
    let of_others = || tree(&image.root()).into_iter().filter(|line| !line.contains(".awaited")).collect::<Vec<_>>();
    let before = of_others();
    let start = Instant::now();
    image.run(&["update"]).fails(75, &format!("pid {}", std::process::id()));
    let took = start.elapsed();
    assert!(took > Duration::from_secs(3) && took < Duration::from_secs(20), "{took:?}");
    assert_eq!(of_others(), before);
}

#[test]
fn a_download_keeps_no_operator_out_and_obeys_what_was_said_meanwhile() {
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
    image.release("1.1.0");
    image.run(&["update"]).ok();
    image.release("2.0.0");
    // A real run, which the mirror keeps busy until it is told otherwise.
    let archive = "/cdn/teleport-v2.0.0-linux-amd64-bin.tar.gz";
    image.cluster.misbehave(archive, Misbehaviour::Slow { bytes_per_sec: 20_000 });
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
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
    let _held = hold(&image);
    let waiting = start(&image, &["disable".to_owned()]);
    // It has the file open once it waits.
    let fds = format!("/proc/{}/fd", waiting.id());
    let deadline = Instant::now() + SOON;
    let waits = || {
        let fds = std::fs::read_dir(&fds).into_iter().flatten().flatten();
        fds.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|file| file.ends_with(".lock"))
    };
    while !waits() {
        assert!(Instant::now() < deadline);
    }
    terminate(&waiting);
    let output = waiting.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(image.config().contains("enabled: true"));
}

#[test]
fn readers_need_no_lock() {
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
    image.release("2.0.0");
    let _held = hold(&image);
    let before = tree(&image.root());
    let start = Instant::now();
    let status = image.run(&["status", "--format", "json"]).ok().json();
    assert_eq!(status["update_in_progress"], true);
    let plan = image.run(&["plan", "--format", "json"]).ok().json();
    assert_eq!(plan["action"], "update");
    image.run(&["verify"]).ok();
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(tree(&image.root()), before);
}

#[test]
fn readers_need_no_root() {
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
    image.release("2.0.0");
    image.run(&["update"]).ok();
    image.release("3.0.0");
    std::fs::set_permissions(image.root().parent().unwrap(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let before = tree(&image.root());
    let status = as_nobody(&image, &["status", "--format", "json"]);
    assert_eq!(status.0, 0, "{status:?}");
    let status: serde_json::Value = serde_json::from_str(&status.1).unwrap();
    assert_eq!(status["agent_version_installed"], "2.0.0");
    assert_eq!(status["agent_version_desired"], "3.0.0");
    assert_eq!(status["agent_version_previous"], "1.0.0");
    let plan = as_nobody(&image, &["plan", "--format", "json"]);
    assert_eq!(plan.0, 0, "{plan:?}");
    let verify = as_nobody(&image, &["verify"]);
    assert_eq!(verify.0, 0, "{verify:?}");
    // Writers say what is missing, and change nothing.
    for command in ["update", "disable", "rollback", "recover", "uninstall"] {
        let ran = as_nobody(&image, &[command]);
        assert_eq!(ran.0, 1, "{command}: {ran:?}");
        assert!(ran.2.contains("root"), "{command}: {ran:?}");
    }
    assert_eq!(tree(&image.root()), before);
}

#[test]
fn what_nobody_may_read_is_null() {
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
    std::fs::set_permissions(image.root().parent().unwrap(), std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::set_permissions(image.path("/var/lib/teleport"), std::fs::Permissions::from_mode(0o700)).unwrap();
    let (code, stdout, stderr) = as_nobody(&image, &["status", "--format", "json"]);
    assert_eq!(code, 0, "{stderr}");
    let status: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(status["agent_version_installed"], serde_json::Value::Null);
    assert_eq!(status["agent_updates_enabled"], serde_json::Value::Null);
    // The link can be seen.
    assert_eq!(status["agent_version_linked"], "1.0.0");
}

#[test]
fn a_lock_file_that_was_replaced_does_not_keep_runs_out_for_ever() {
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
    let held = hold(&image);
    let waiting = start(&image, &["disable".to_owned()]);
    // Whoever removes the file takes the lock away from its holder; the next runs agree on the new one.
    std::fs::remove_dir_all(image.versions().join(".lock")).unwrap();
    let output = waiting.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    drop(held);
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
        support::FAST
    );
    rig.bed.write("/var/lib/teleport/versions/updates.yaml", &config, 0o644);
    rig.release(&Archive::simple("1.0.0"));
    rig.enable(&[]).ok();
    rig.bed.write("/root/start", format!("#!/bin/sh\n{start}\n"), 0o755);
    // Outlives the command that starts it.
    rig.bed.sh("systemd-run --quiet --unit agent -p KillMode=none -p RemainAfterExit=yes /root/start");
    rig.until_ready();
    rig.release(&Archive::simple("2.0.0").schema(2));
    rig.updater(&["update"]).ok();
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
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
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
fn a_lock_file_of_an_earlier_updater_is_replaced_unless_that_is_at_work() {
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
    let path = image.versions().join(".lock");
    std::fs::remove_dir_all(&path).unwrap();
    std::fs::write(&path, "4242 update\n").unwrap();
    // It locked the directory of its file as well.
    let works = File::open(image.versions()).unwrap();
    works.lock().unwrap();
    image.run(&["update"]).ok();
    image.release("2.0.0");
    image.run(&["update"]).fails(75, &format!("pid {}", std::process::id()));
    assert!(path.is_file());
    drop(works);
    image.run(&["update"]).ok();
    assert!(path.is_dir());
}

#[test]
fn a_lock_that_others_could_have_opened_is_made_anew() {
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
    let path = image.versions().join(".lock");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    let opened_meanwhile = File::open(path.join("lock")).unwrap();
    opened_meanwhile.lock_shared().unwrap();
    image.run(&["disable"]).ok();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o700);
}

#[test]
fn a_run_whose_lock_is_removed_goes_on_alone() {
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
    image.release("2.0.0");
    let held = hold_all(&image);
    std::fs::remove_dir_all(image.versions().join(".lock")).unwrap();
    image.run(&["update"]).fails(75, "another run holds the lock");
    drop(held);
    image.run(&["update"]).ok();
}

#[test]
fn a_lock_that_is_not_to_be_had_is_told_in_status_until_it_is() {
    let image = Image::new("1.0.0");
    image.enable(&[]).ok();
    image.release("2.0.0");
    let status = || image.run(&["status", "--format", "json"]).ok().json();
    assert_eq!(status()["lock_awaited_since"], serde_json::Value::Null);
    let held = hold(&image);
    image.run(&["update"]).fails(75, "another run holds the lock");
    let since = status()["lock_awaited_since"].clone();
    assert!(since.is_string(), "{since}");
    // It waits longer and longer for the same holder.
    let awaited = image.versions().join(".awaited");
    let noted = std::fs::read_to_string(&awaited).unwrap();
    let pid = noted.split(' ').next().unwrap();
    std::fs::write(&awaited, format!("{pid} 2026-01-02T03:04:05Z\n")).unwrap();
    image.run(&["update"]).fails(75, "since 2026-01-02T03:04:05Z");
    assert_eq!(status()["lock_awaited_since"], "2026-01-02T03:04:05Z");
    let text = image.run(&["status", "--format", "text"]).ok().stdout;
    assert!(text.contains("no run could begin since 2026-01-02T03:04:05Z"), "{text}");
    drop(held);
    assert_eq!(status()["lock_awaited_since"], serde_json::Value::Null);
    image.run(&["update"]).ok();
    assert!(!awaited.exists());
}

/// The lock, held by this test.
fn hold(image: &Image) -> File {
    let lock = File::open(image.versions().join(".lock")).unwrap();
    lock.lock().unwrap();
    lock
}

/// Everything that a run holds.
fn hold_all(image: &Image) -> [File; 3] {
    ["", ".lock", ".lock/lock"].map(|name| {
        let file = File::open(image.versions().join(name)).unwrap();
        file.lock().unwrap();
        file
    })
}

fn start(image: &Image, args: &[String]) -> Child {
    Command::new(updater())
        .env_clear()
        .arg("--root")
        .arg(image.root())
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn terminate(child: &Child) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
}

/// Status and both streams of the updater, run as nobody.
fn as_nobody(image: &Image, args: &[&str]) -> (i32, String, String) {
    // Where nobody can reach it.
    let program = image.root().parent().unwrap().join("updater");
    if !program.exists() {
        std::fs::copy(updater(), &program).unwrap();
    }
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(program)
        .arg("--root")
        .arg(image.root())
        .args(args)
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code().unwrap_or(-1), text(&output.stdout), text(&output.stderr))
}
