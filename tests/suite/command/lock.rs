//! SPEC §7: one writing run at a time; readers need neither lock nor root.

use std::fs::File;
use std::io::Read;

use rustix::fs::inotify;

use crate::support::*;

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
    let image = Image::enabled("1.0.0");
    image.release("2.0.0");
    let _held = hold(&image);
    let of_others = || tree(&image.root()).into_iter().filter(|line| !line.contains(".awaited")).collect::<Vec<_>>();
    let before = of_others();
    let start = Instant::now();
    let ran = image.run(&["update", "--log-format", "json"]).fails(75, &format!("pid {}", std::process::id()));
    assert_eq!(ran.error_code(), "lock_held");
    let took = start.elapsed();
    assert!(took > Duration::from_secs(3) && took < Duration::from_secs(20), "{took:?}");
    assert_eq!(of_others(), before);
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
fn readers_need_no_lock() {
    let image = Image::enabled("1.0.0");
    image.release("2.0.0");
    let _held = hold(&image);
    let before = tree(&image.root());
    let start = Instant::now();
    let status = image.status();
    assert_eq!(status["update_in_progress"], true);
    let plan = image.run(&["plan", "--format", "json"]).ok().json();
    assert_eq!(plan["action"], "update");
    image.run(&["verify"]).ok();
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(tree(&image.root()), before);
}

#[test]
fn readers_need_no_root() {
    let image = Image::enabled("1.0.0");
    image.update_to("2.0.0");
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
    let image = Image::enabled("1.0.0");
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
fn a_lock_file_of_an_earlier_updater_is_replaced() {
    let image = Image::enabled("1.0.0");
    let path = image.versions().join(".lock");
    std::fs::remove_dir_all(&path).unwrap();
    std::fs::write(&path, "4242 update\n").unwrap();
    image.run(&["update"]).ok();
    image.update_to("2.0.0");
    assert!(path.is_dir());
}

#[test]
fn a_lock_that_others_could_have_opened_is_made_anew() {
    let image = Image::enabled("1.0.0");
    let path = image.versions().join(".lock");
    for (path, mode) in [(path.clone(), 0o755), (path.join("lock"), 0o644)] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let opened_meanwhile = File::open(path.join("lock")).unwrap();
    opened_meanwhile.lock_shared().unwrap();
    image.run(&["disable"]).ok();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o7777, 0o700);
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

#[test]
fn a_lock_that_is_not_to_be_had_is_told_in_status_until_it_is() {
    let image = Image::enabled("1.0.0");
    image.release("2.0.0");
    let status = || image.status();
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
    assert!(text.contains("no run has been able to start since 2026-01-02T03:04:05Z"), "{text}");
    drop(held);
    assert_eq!(status()["lock_awaited_since"], serde_json::Value::Null);
    image.run(&["update"]).ok();
    assert!(!awaited.exists());
}

#[test]
fn what_was_downloaded_before_a_public_key_was_set_is_not_installed_after_it() {
    let image = before_two();
    let key = image.path("/etc/key.pub");
    std::fs::write(&key, Signer::fixed(1).public_key_pem()).unwrap();
    let ran = meanwhile(&image, &["update"], || {
        image.run(&["enable", "--public-key", &key.display().to_string(), "--force-version", "1.0.0"]).ok();
    });
    ran.fails(1, ".sig");
    assert!(image.config().contains("BEGIN PUBLIC KEY"));
    assert_eq!(image.linked(), "1.0.0");
    assert!(!image.versions().join("2.0.0").exists());
    assert_eq!(staged(&image), Vec::<String>::new());
}

#[test]
fn what_was_downloaded_from_one_mirror_is_not_installed_once_another_is_set() {
    let image = before_two();
    let elsewhere = tempfile::tempdir().unwrap();
    let base = format!("file://{}", elsewhere.path().display());
    let ran = meanwhile(&image, &["update"], || {
        image.run(&["enable", "--base-url", &base, "--force-version", "1.0.0"]).ok();
    });
    ran.fails(1, &format!("there is no {}", elsewhere.path().display()));
    assert_eq!(image.linked(), "1.0.0");
}

#[test]
fn settings_without_a_say_in_a_download_do_not_cost_another_one() {
    let image = before_two();
    image.cluster.forget_requests();
    meanwhile(&image, &["update"], || {
        image.run(&["enable", "--group", "blue", "--keep", "3", "--force-version", "1.0.0"]).ok();
    })
    .ok();
    assert_eq!(image.linked(), "2.0.0");
    assert!(image.config().contains("group: blue") && image.config().contains("keep: 3"), "{}", image.config());
    // The cluster was asked again, as the new group; the archive was read once from its beginning.
    let asked = image.cluster.requests_to("/v1/webapi/find");
    assert_eq!(asked.iter().filter(|request| request.parameter("group") == Some("blue")).count(), 1, "{asked:#?}");
    let archive = image.cluster.requests_to(ARCHIVE);
    let whole = archive
        .iter()
        .filter(|request| request.path == ARCHIVE && request.method == "GET" && request.header("range").is_none());
    assert_eq!(whole.count(), 1, "{archive:#?}");
}

#[test]
fn an_update_after_whose_download_another_group_has_another_version_follows_that() {
    let image = before_two();
    image.cluster.publish(&Archive::simple("1.5.0"));
    image.cluster.set_directive_for_group("blue", Find::version("1.5.0"));
    meanwhile(&image, &["update"], || {
        image.run(&["enable", "--group", "blue", "--force-version", "1.0.0"]).ok();
    })
    .ok();
    assert_eq!(image.linked(), "1.5.0");
    assert!(!image.versions().join("2.0.0").exists());
    assert_eq!(staged(&image), Vec::<String>::new());
}

#[test]
fn an_enable_keeps_what_others_set_while_it_downloaded() {
    let image = before_two();
    let key = image.path("/etc/key.pub");
    let signer = Signer::fixed(1);
    std::fs::write(&key, signer.public_key_pem()).unwrap();
    image.cluster.publish(&Archive::simple("2.0.0").signed(&signer));
    let key = key.display().to_string();
    let flags = ["--public-key", &key, "--min-version", "1.0.0", "--group", "prod", "--force-version", "1.0.0"];
    meanwhile(&image, &["enable", "--keep", "4"], || {
        let args: Vec<&str> = ["enable"].into_iter().chain(flags).collect();
        image.run(&args).ok();
        // An editor asks for no lock.
        let edited = image.config().replacen("spec:\n", "spec:\n  backup_max_age: 48h\n  theirs: 1\n", 1);
        std::fs::write(image.versions().join("updates.yaml"), edited).unwrap();
    })
    .ok();
    assert_eq!(image.linked(), "2.0.0");
    let config = image.config();
    for line in ["BEGIN PUBLIC KEY", "min_version: 1.0.0", "group: prod", "backup_max_age: 48h", "theirs: 1", "keep: 4"]
    {
        assert!(config.contains(line), "{line}: {config}");
    }
}

#[test]
fn an_enable_that_pins_and_disables_overtake_does_not_take_them_back() {
    // What came later counts: a pin is obeyed, a `disable` and an `uninstall` end the earlier command.
    let image = before_two();
    meanwhile(&image, &["enable"], || {
        image.run(&["pin", "--force-version", "1.0.0"]).ok();
    })
    .ok();
    assert_eq!(image.linked(), "1.0.0");
    assert!(image.config().contains("pinned_version: 1.0.0"), "{}", image.config());

    let image = before_two();
    let ran = meanwhile(&image, &["enable", "--log-format", "json"], || {
        image.run(&["disable"]).ok();
    })
    .refused("overtaken");
    assert!(ran.stderr.contains("changed enabled while this command was running"), "{ran:#?}");
    assert!(image.config().contains("enabled: false"), "{}", image.config());
    assert_eq!(image.linked(), "1.0.0");

    let image = before_two();
    let ran = meanwhile(&image, &["enable"], || {
        image.run(&["uninstall"]).ok();
    });
    ran.fails(1, "another command uninstalled Teleport");
    assert!(!image.path("/usr/local/bin/teleport").is_symlink());
    assert!(!image.versions().join("updates.yaml").exists());
    assert_eq!(staged(&image), Vec::<String>::new());
}

#[test]
fn a_pin_and_an_enable_whose_words_another_command_has_changed_since_leave_them() {
    let image = before_two();
    let ran = meanwhile(&image, &["pin", "--force-version", "2.0.0"], || {
        image.run(&["pin", "--force-version", "1.0.0"]).ok();
    });
    ran.fails(1, "changed pinned_version while this command was running");
    assert!(image.config().contains("pinned_version: 1.0.0"), "{}", image.config());
    assert_eq!(image.linked(), "1.0.0");

    let image = before_two();
    let ran = meanwhile(&image, &["enable", "--group", "red"], || {
        image.run(&["enable", "--group", "blue", "--force-version", "1.0.0"]).ok();
    });
    ran.fails(1, "changed group while this command was running");
    assert!(image.config().contains("group: blue"), "{}", image.config());

    // Neither says anything of what the other one changed.
    let image = before_two();
    meanwhile(&image, &["pin", "--force-version", "2.0.0"], || {
        image.run(&["disable"]).ok();
    })
    .ok();
    let config = image.config();
    assert!(config.contains("enabled: false") && config.contains("pinned_version: 2.0.0"), "{config}");
}

#[test]
fn a_rollback_or_repair_that_downloads_does_not_leave_what_became_active_meanwhile() {
    // A rollback whose version was damaged on disk.
    let image = before_two();
    image.run(&["update"]).ok();
    image.release("3.0.0");
    std::fs::remove_file(image.versions().join("1.0.0/sha256")).unwrap();
    let ran = meanwhile_of(&image, "1.0.0", &["rollback"], || {
        image.run(&["update"]).ok();
    });
    ran.fails(1, "3.0.0 (oss) became active while this command was running");
    assert_eq!(image.linked(), "3.0.0");

    // A repair of the version that was active.
    let image = before_two();
    std::fs::remove_file(image.versions().join("1.0.0/sha256")).unwrap();
    meanwhile_of(&image, "1.0.0", &["verify", "--repair"], || {
        image.run(&["update"]).ok();
    })
    .ok();
    assert_eq!(image.linked(), "2.0.0");
}

const ARCHIVE: &str = "/cdn/teleport-v2.0.0-linux-amd64-bin.tar.gz";

/// An image with 1.0.0 active and 2.0.0 wanted.
fn before_two() -> Image {
    let image = Image::enabled("1.0.0");
    image.release("2.0.0");
    image
}

/// What a command leaves that downloads 2.0.0 while `during` happens.
fn meanwhile(image: &Image, args: &[&str], during: impl FnOnce()) -> Ran {
    meanwhile_of(image, "2.0.0", args, during)
}

/// The same for a download of `version`.
fn meanwhile_of(image: &Image, version: &str, args: &[&str], during: impl FnOnce()) -> Ran {
    let archive = format!("/cdn/teleport-v{version}-linux-amd64-bin.tar.gz$");
    image.cluster.misbehave(&archive, Misbehaviour::Hold { after_bytes: 1 });
    let args: Vec<String> = args.iter().map(|arg| (*arg).to_owned()).collect();
    let mut run = start(image, &args);
    image.cluster.until_held(SOON);
    during();
    assert!(run.try_wait().unwrap().is_none(), "it is still at its download");
    image.cluster.behave();
    Ran::of(&run.wait_with_output().unwrap())
}

/// What is left of downloads.
fn staged(image: &Image) -> Vec<String> {
    tree(&image.root()).into_iter().filter(|path| path.contains(".staging-")).collect()
}

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
