//! RFD 0169, the fifteen steps of `update`, as SPEC §5 changes them: a test or more for each, named after it; the real
//! timer; the order inside a switch. Step 6 is in `download/space.rs`, step 7 is step 5 of `enable`; step 15: `config.rs` (`keep`).

use std::fs::File;
use std::mem::MaybeUninit;

use protocol::{Edition, Revision, turn};
use rustix::fs::inotify::{self, CreateFlags, Reader, WatchFlags};

use crate::support::*;

/// Longest wait for an event that is on its way.
const SOON: Duration = Duration::from_secs(30);

/// A host with a running agent 1.0.0.
fn running(name: &str) -> Option<Rig> {
    running_with(name, &Archive::simple("1.0.0"))
}

fn running_with(name: &str, archive: &Archive) -> Option<Rig> {
    let rig = Rig::up(name)?;
    rig.release(archive);
    rig.enable(&[]).ok();
    rig.start_agent();
    rig.cluster.forget_requests();
    Some(rig)
}

/// Lets a host of this image wait exactly `seconds` of an hour's jitter for 2.0.0.
fn let_wait(image: &Image, seconds: u32) {
    let target = Revision { version: "2.0.0".parse().unwrap(), edition: Edition::Oss };
    let host = (0..)
        .map(|number| format!("00000000-0000-4000-8000-{number:012}"))
        .find(|host| turn::seconds(host, &target, 3600) == seconds);
    std::fs::write(image.path("/var/lib/teleport/host_uuid"), host.unwrap()).unwrap();
    image.release("2.0.0");
    image.cluster.set_directive(Find { jitter: 3600, ..Find::version("2.0.0") });
}

#[test]
fn update_step_01_quits_without_a_request_when_updates_are_not_enabled() {
    let image = Image::quiet("1.0.0");
    image.release("2.0.0");
    image.run(&["disable"]).ok();
    let before = image.tree();
    for args in [&["update"][..], &["update", "--now"]] {
        image.run(args).ok();
    }
    assert_eq!(image.tree(), before);
    let fresh = Image::new("1.0.0");
    let before = fresh.tree();
    fresh.run(&["update"]).ok();
    assert_eq!(fresh.tree(), before);
    assert!(image.cluster.requests().is_empty() && fresh.cluster.requests().is_empty());
}

#[test]
fn update_step_01_fails_when_enabled_without_a_proxy() {
    let image = Image::new("1.0.0");
    std::fs::create_dir_all(image.versions()).unwrap();
    let config = "version: v1\nkind: agent_versions\nspec:\n  enabled: true\n";
    std::fs::write(image.versions().join("updates.yaml"), config).unwrap();
    let before = image.tree();
    image.run(&["update", "--log-format", "json"]).fails(1, "\"error_code\":\"proxy_missing\"");
    assert_eq!(image.tree(), before);
    assert!(image.cluster.requests().is_empty());
}

#[test]
fn update_step_02_sends_host_group_and_update_id() {
    let Some(rig) = Rig::up("update-02") else { return };
    rig.release(&Archive::simple("1.0.0"));
    rig.enable(&["--group", "canary & co"]).ok();
    let host = "11111111-2222-4333-8444-555555555555";
    rig.bed.write("/var/lib/teleport/host_uuid", format!("{host}\n"), 0o600);
    rig.cluster.forget_requests();
    for _ in 0..2 {
        rig.updater(&["update"]).ok();
    }
    let asked = rig.cluster.requests();
    assert_eq!(asked.len(), 2, "{asked:?}");
    let mut ids = Vec::new();
    for request in &asked {
        assert_eq!(request.parameter("host"), Some(host));
        assert_eq!(request.parameter("group"), Some("canary & co"));
        ids.push(request.parameter("update_id").unwrap());
    }
    // 8-4-4-4-12 hexadecimal digits, and the same host's the next time.
    let shape: Vec<usize> = ids[0].split('-').map(str::len).collect();
    assert_eq!((shape, ids[0]), (vec![8, 4, 4, 4, 12], ids[1]));
}

#[test]
fn update_step_03_quits_outside_of_the_clusters_window_unless_told_now() {
    let image = Image::quiet("1.0.0");
    image.release("2.0.0");
    image.cluster.set_directive(Find { auto_update: false, ..Find::version("2.0.0") });
    let before = image.installation();
    image.run(&["update"]).ok();
    assert_eq!(image.installation(), before);
    assert_eq!(image.cluster.requests().len(), 1);
    image.run(&["update", "--now"]).ok();
    assert_eq!(link(&image.path("/usr/local/bin/teleport")), binary("2.0.0", "teleport"));
}

#[test]
fn update_step_04_quits_after_exactly_one_request_when_the_version_is_the_latest() {
    let image = Image::quiet("1.0.0");
    let before = image.tree();
    image.run(&["update"]).ok();
    image.run(&["update", "--now"]).ok();
    let asked: Vec<String> = image.cluster.requests().into_iter().map(|request| request.path).collect();
    assert_eq!(asked, ["/v1/webapi/find"; 2]);
    assert_eq!(image.tree(), before);
}

#[test]
fn update_step_04_puts_lost_links_of_ours_right_and_leaves_what_others_put_there() {
    let image = Image::quiet("1.0.0");
    let unit = image.path("/usr/local/lib/systemd/system/teleport.service");
    let of_unit = "/var/lib/teleport/versions/1.0.0/etc/systemd/teleport.service";
    let tsh = image.path("/usr/local/bin/tsh");
    for (place, target) in [(&unit, of_unit.to_owned()), (&tsh, binary("1.0.0", "tsh"))] {
        std::fs::remove_file(place).unwrap();
        image.run(&["update"]).ok();
        assert_eq!(link(place), target);
        // One that leads to another version of ours is as wrong.
        std::fs::remove_file(place).unwrap();
        std::os::unix::fs::symlink(target.replace("1.0.0", "0.9.0"), place).unwrap();
        image.run(&["update"]).ok();
        assert_eq!(link(place), target);
        // A file of an operator is not ours, and costs no more than a look.
        std::fs::remove_file(place).unwrap();
        std::fs::write(place, "mine").unwrap();
        let before = image.tree();
        image.run(&["update"]).ok().says("nothing to do");
        assert_eq!(image.tree(), before);
    }
}

#[test]
fn update_step_05_waits_its_turn_without_holding_the_lock() {
    let image = Image::quiet("1.0.0");
    let_wait(&image, 3);
    let began = Instant::now();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| image.run(&["update"]));
        until("the cluster is asked", || !image.cluster.requests_to("find").is_empty());
        let lock = File::open(image.versions().join(".lock")).unwrap();
        until("the lock is free", || lock.try_lock().is_ok());
        assert!(!run.is_finished(), "it did not wait");
        drop(lock);
        run.join().unwrap().ok();
    });
    assert!(began.elapsed() >= Duration::from_secs(3), "{:?}", began.elapsed());
    assert_eq!(link(&image.path("/usr/local/bin/teleport")), binary("2.0.0", "teleport"));
    assert_eq!(image.cluster.requests_to("find").len(), 1);
}

#[test]
fn update_step_05_obeys_a_command_that_took_the_lock_during_the_wait() {
    let image = Image::quiet("1.0.0");
    let_wait(&image, 3);
    let before = image.installation();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| image.run(&["update"]));
        until("the cluster is asked", || !image.cluster.requests_to("find").is_empty());
        image.run(&["disable"]).ok();
        assert!(!run.is_finished(), "disable waited for the update");
        run.join().unwrap().ok();
    });
    assert_eq!(image.installation(), before, "an update after `disable`");
    assert!(image.cluster.requests_to("/cdn/").is_empty());
}

#[test]
fn update_step_05_asks_the_cluster_again_after_a_long_wait() {
    for (find, version) in
        [(Find::version("3.0.0"), "3.0.0"), (Find { auto_update: false, ..Find::version("2.0.0") }, "1.0.0")]
    {
        let image = Image::quiet("1.0.0");
        let_wait(&image, 7);
        image.cluster.publish(&Archive::simple("3.0.0"));
        std::thread::scope(|scope| {
            let run = scope.spawn(|| image.run(&["update"]));
            until("the cluster is asked", || !image.cluster.requests_to("find").is_empty());
            image.cluster.set_directive(find);
            run.join().unwrap().ok();
        });
        assert_eq!(image.cluster.requests_to("find").len(), 2);
        assert_eq!(link(&image.path("/usr/local/bin/teleport")), binary(version, "teleport"));
        assert!(!image.versions().join("2.0.0").exists());
    }
}

#[test]
fn update_step_05_is_left_out_by_now() {
    let image = Image::quiet("1.0.0");
    let_wait(&image, 3000);
    image.run(&["update", "--now"]).ok();
    assert_eq!(link(&image.path("/usr/local/bin/teleport")), binary("2.0.0", "teleport"));
}

#[test]
fn update_step_08_downloads_what_is_refused_once_until_another_digest_or_an_operator_asks_for_it() {
    let image = Image::quiet("1.0.0");
    image.release("2.0.0");
    let archive = "/cdn/teleport-v2.0.0-linux-amd64-bin.tar.gz";
    image.cluster.misbehave(".sha256$", Misbehaviour::Stale);
    image.run(&["update"]).fails(1, ", expected ");
    image.cluster.forget_requests();
    let whole = || {
        let requests = image.cluster.requests_to(archive);
        requests.iter().filter(|request| request.method == "GET" && request.path == archive).count()
    };
    for _ in 0..2 {
        image.run(&["update"]).ok().says("next attempt at");
    }
    assert_eq!(whole(), 0);
    let delayed = image.status()["delayed"][0].clone();
    assert_eq!((&delayed["version"], &delayed["error_code"]), (&"2.0.0".into(), &"checksum_mismatch".into()));
    image.run(&["update", "--now"]).fails(1, ", expected ");
    assert_eq!(whole(), 1);
    // The true digest is another one.
    image.cluster.behave();
    image.run(&["update"]).ok();
    assert_eq!(image.setting("active_version").as_deref(), Some("2.0.0"));
    assert!(!image.config().contains("delayed"));
}

#[test]
fn update_step_03_dampens_a_cluster_that_goes_to_and_fro() {
    let image = Image::quiet("1.0.0");
    image.update_to("2.0.0");
    let is = |version: &str| image.setting("active_version").as_deref() == Some(version);
    let wanted = |version: &str| image.cluster.set_directive(Find::version(version));
    // A way back, its reversal, and the same once more are prompt.
    for version in ["1.0.0", "2.0.0", "1.0.0", "2.0.0"] {
        wanted(version);
        image.run(&["update"]).ok();
        assert!(is(version));
    }
    wanted("1.0.0");
    let ran = image.run(&["update"]).ok();
    assert!(is("2.0.0") && ran.stderr.contains("waits until"), "{ran:#?}");
    let held = image.status()["held"][0].clone();
    let until = held["until"].as_str().unwrap_or_default();
    assert_eq!((&held["version"], &held["edition"]), (&"1.0.0".into(), &"oss".into()));
    assert!(!until.is_empty() && ran.stderr.contains(until), "{held} {ran:#?}");
    let shown = image.run(&["status", "--format", "text"]).ok();
    assert!(shown.stdout.lines().any(|line| line.starts_with("Delayed") && line.contains(until)), "{shown:#?}");
    // A version that was not left, and an operator, are not held.
    image.run(&["update", "--now"]).ok();
    assert!(is("1.0.0"));
    assert_eq!(image.status()["failed_updaters"], serde_json::json!([]));
}

#[test]
fn update_step_09_extracts_beside_the_old_version_and_writes_the_checksum() {
    let image = Image::quiet("1.0.0");
    let old = tree(&image.versions().join("1.0.0"));
    let written = image.cluster.publish(&Archive::simple("2.0.0"));
    image.cluster.set_directive(Find::version("2.0.0"));
    image.run(&["update"]).ok();
    let version = image.versions().join("2.0.0");
    assert_eq!(std::fs::read_to_string(version.join("sha256")).unwrap().trim_end(), written.sha256);
    assert_eq!(names(&version.join("bin")), ["fdpass-teleport", "tbot", "tctl", "teleport", "tsh"]);
    assert_eq!(names(&image.versions()), [".lock", "1.0.0", "2.0.0", "updates.yaml"]);
    let is_backup = |line: &String| line.starts_with("backup");
    let now: Vec<String> = tree(&image.versions().join("1.0.0")).into_iter().filter(|line| !is_backup(line)).collect();
    assert_eq!(now, old);
}

#[test]
fn update_step_10_points_every_link_at_the_new_version_and_removes_those_to_names_it_lacks() {
    let image = Image::new("0.9.0");
    image.cluster.publish(&Archive::simple("1.0.0").without_helper("fdpass-teleport"));
    image.cluster.set_directive(Find::version("1.0.0"));
    image.enable(&[]).ok();
    assert_eq!(names(&image.path("/usr/local/bin")), ["tbot", "tctl", "teleport", "tsh"]);
    image.cluster.publish(&Archive::simple("2.0.0").without_helper("tctl"));
    image.cluster.set_directive(Find::version("2.0.0"));
    image.run(&["update"]).ok();
    let bin = image.path("/usr/local/bin");
    assert_eq!(names(&bin), ["fdpass-teleport", "tbot", "teleport", "tsh"]);
    for name in names(&bin) {
        assert_eq!(link(&bin.join(&name)), binary("2.0.0", &name));
    }
    let unit = image.path("/usr/local/lib/systemd/system/teleport.service");
    assert_eq!(link(&unit), "/var/lib/teleport/versions/2.0.0/etc/systemd/teleport.service");
}

#[test]
fn update_step_11_snapshots_the_database_with_a_backup_yaml_as_in_the_rfd() {
    let Some(rig) = running("update-11") else { return };
    let before = jiff::Timestamp::now().as_second();
    rig.update_to(&Archive::simple("2.0.0").schema(2));
    let backup = rig.path("/var/lib/teleport/versions/1.0.0/backup");
    assert_eq!(names(&backup), ["backup.yaml", "sqlite.db"]);
    let database = backup.join("sqlite.db");
    assert_eq!(sql_of(&database, "PRAGMA user_version"), ["1"]);
    assert_eq!(sql_of(&database, "SELECT version, note FROM rows"), ["1.0.0|start"]);
    assert_eq!(sql_of(&database, "PRAGMA quick_check"), ["ok"]);
    assert_eq!(rig.sql("SELECT version FROM rows ORDER BY id"), ["1.0.0", "2.0.0"]);

    let yaml = std::fs::read_to_string(backup.join("backup.yaml")).unwrap();
    let lines: Vec<&str> = yaml.lines().collect();
    assert_eq!(lines[..3], ["version: v1", "kind: db_backup", "spec:"]);
    assert_eq!(lines[3], format!("  proxy: {}", rig.cluster.addr()));
    assert_eq!(lines[4], "  version: 1.0.0");
    let time: jiff::Timestamp = look::setting(&yaml, "creation_time").unwrap().parse().unwrap();
    assert!((before..=jiff::Timestamp::now().as_second()).contains(&time.as_second()), "{yaml}");
    assert_eq!(look::setting(&yaml, "edition").as_deref(), Some("oss"));
    let bytes = std::fs::read(&database).unwrap();
    assert_eq!(look::setting(&yaml, "size"), Some(bytes.len().to_string()));
    assert_eq!(look::setting(&yaml, "sha256"), Some(protocol::Digest::of(&bytes).to_string()));
    let live = std::fs::metadata(rig.path("/var/lib/teleport/proc/sqlite.db")).unwrap().permissions().mode();
    assert_eq!(std::fs::metadata(&database).unwrap().permissions().mode(), live);
}

#[test]
fn update_steps_10_to_12_come_in_the_order_of_the_contract() {
    let Some(rig) = running("update-order") else { return };
    // The first run after the agent's first start notes whose id it has.
    rig.updater(&["update"]).ok();
    // Each call of systemctl leaves a file, in the order of everything else that is watched.
    rig.bed.sh("mkdir /var/calls");
    let wrapper = "#!/bin/sh\nfor word in \"$@\"; do case $word in\n\
                   daemon-reload|reload|restart|start|stop)\n\
                   call=/var/calls/systemctl-$word; while test -e $call; do call=$call-again; done; : >$call;;\n\
                   esac; done\nexec /usr/bin/systemctl.real \"$@\"\n";
    rig.bed.sh("mv /usr/bin/systemctl /usr/bin/systemctl.real");
    rig.bed.write("/usr/bin/systemctl", wrapper, 0o755);
    rig.release(&Archive::simple("2.0.0").schema(2));

    let watched = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).unwrap();
    for dir in [
        "/usr/local/bin",
        "/usr/local/lib/systemd/system",
        "/var/lib/teleport/versions",
        "/var/lib/teleport/versions/1.0.0",
        "/var/calls",
    ] {
        inotify::add_watch(&watched, rig.path(dir), WatchFlags::MOVED_TO | WatchFlags::CREATE).unwrap();
    }
    rig.updater(&["update"]).ok();
    let mut buffer = [MaybeUninit::uninit(); 64 * 1024];
    let mut reader = Reader::new(&watched, &mut buffer);
    let mut events: Vec<String> = Vec::new();
    while let Ok(event) = reader.next() {
        events.extend(event.file_name().map(|name| name.to_string_lossy().into_owned()));
    }

    let first =
        |name: &str| events.iter().position(|event| event == name).unwrap_or_else(|| panic!("{name}: {events:?}"));
    let last =
        |name: &str| events.iter().rposition(|event| event == name).unwrap_or_else(|| panic!("{name}: {events:?}"));
    let published = last("2.0.0");
    let helpers = ["tsh", "tctl", "tbot", "fdpass-teleport"];
    let order = [
        published,
        first(".journal"),
        helpers.map(first).into_iter().min().unwrap(),
        helpers.map(last).into_iter().max().unwrap(),
        first("teleport.service"),
        last("backup"),
        first("teleport"),
        // The first one is tried before anything has changed.
        first("systemctl-daemon-reload-again"),
        first("systemctl-reload"),
        first("updates.yaml"),
    ];
    assert!(first("systemctl-daemon-reload") < first(".journal"), "{events:?}");
    assert!(order.is_sorted(), "{order:?} {events:#?}");
    assert!(!events.iter().any(|event| event == "systemctl-stop" || event == "systemctl-restart"), "{events:?}");
}

#[test]
fn update_step_12_reloads_a_running_agent_whatever_its_enablement() {
    let Some(rig) = Rig::enabled("update-12") else { return };
    rig.bed.sh("systemctl start teleport");
    rig.until_ready();
    assert_eq!(property(&rig, "UnitFileState"), "disabled");
    let (invocation, pid) = (property(&rig, "InvocationID"), property(&rig, "MainPID"));
    rig.update_to(&Archive::simple("2.0.0").schema(2));
    assert_eq!(rig.status()["agent_version_running"], "2.0.0");
    assert_ne!(property(&rig, "MainPID"), pid);
    assert_eq!(property(&rig, "InvocationID"), invocation, "it was restarted, not reloaded");
    assert_eq!(property(&rig, "UnitFileState"), "disabled");
    assert_eq!(rig.sql("PRAGMA user_version"), ["2"]);
}

#[test]
fn update_step_12_starts_an_enabled_agent_that_has_failed_and_only_such_a_one() {
    let once = "[Service]\nExecStart=/usr/local/bin/teleport start --config /etc/teleport.yaml \
                --pid-file=/run/teleport.pid\nExecReload=/bin/kill -HUP $MAINPID\nPIDFile=/run/teleport.pid\n\
                [Install]\nWantedBy=multi-user.target\n";
    let Some(rig) = Rig::up("update-12b") else { return };
    rig.release(&Archive::simple("1.0.0").unit(once).behaviour("exit-at-once"));
    rig.enable(&[]).ok();
    let fail = || {
        rig.bed.sh("systemctl daemon-reload; systemctl start teleport || true");
        rig.bed.until("systemctl is-failed -q teleport", SOON);
    };
    // Failed, but not enabled: nobody wants it to run.
    fail();
    rig.update_to(&Archive::simple("1.1.0").unit(once).behaviour("exit-at-once"));
    assert_eq!(property(&rig, "ActiveState"), "failed");
    rig.bed.sh("systemctl enable teleport");
    rig.update_to(&Archive::simple("2.0.0").unit(once));
    assert_eq!(rig.status()["agent_version_running"], "2.0.0");
    // Enabled, but stopped by its operator.
    rig.bed.sh("systemctl stop teleport");
    rig.update_to(&Archive::simple("3.0.0").unit(once));
    assert_eq!(property(&rig, "ActiveState"), "inactive");
    assert_eq!(rig.status()["agent_version_linked"], "3.0.0");
}

#[test]
fn update_step_13_sets_active_version_only_after_success() {
    let Some(rig) = running("update-13") else { return };
    let config = || std::fs::read_to_string(rig.path("/var/lib/teleport/versions/updates.yaml")).unwrap();
    rig.release(&Archive::simple("2.0.0").behaviour("slow-start"));
    let teleport = rig.path("/usr/local/bin/teleport");
    std::thread::scope(|scope| {
        let run = scope.spawn(|| rig.updater(&["update"]));
        until("the agent's link moves", || link(&teleport) == binary("2.0.0", "teleport"));
        // The new version becomes ready three seconds from here.
        assert_eq!(look::setting(&config(), "active_version").as_deref(), Some("1.0.0"));
        run.join().unwrap().ok();
    });
    assert_eq!(look::setting(&config(), "active_version").as_deref(), Some("2.0.0"));
    let status = rig.status();
    assert_eq!(
        (&status["agent_version_previous"], &status["last_result"]["outcome"]),
        (&json!("1.0.0"), &json!("updated"))
    );
}

#[test]
fn update_step_14_replaces_links_and_database_and_exits_1_when_the_new_version_fails() {
    let Some(rig) = running("update-14") else { return };
    let (links, units) = (tree(&rig.path("/usr/local")), tree(&rig.path("/etc/systemd")));
    let version = tree(&rig.path("/var/lib/teleport/versions/1.0.0/bin"));
    rig.release(
        &Archive::simple("2.0.0").schema(2).behaviour("corrupts-schema").helper("newcomer").without_helper("tctl"),
    );

    rig.updater(&["update", "--log-format", "json"])
        .fails(1, "rolled back to 1.0.0")
        .says("\"error_code\":\"unhealthy\"");
    assert_eq!(tree(&rig.path("/usr/local")), links);
    assert_eq!(tree(&rig.path("/etc/systemd")), units);
    assert_eq!(tree(&rig.path("/var/lib/teleport/versions/1.0.0/bin")), version);
    rig.until_ready();
    rig.bed.until("test \"$(systemctl is-active teleport)\" = active", SOON);
    assert_eq!(rig.sql("PRAGMA user_version"), ["1"]);
    assert_eq!(rig.sql("SELECT DISTINCT version FROM rows"), ["1.0.0"]);
    let status = rig.status();
    assert_eq!(status["agent_version_running"], "1.0.0");
    assert_eq!(status["agent_version_installed"], "1.0.0");
    assert_eq!(status["last_result"]["outcome"], "rolled_back");
    assert_eq!(status["last_result"]["error_code"], "unhealthy");
    assert_eq!((&status["refused"][0]["version"], &status["refused"][0]["count"]), (&json!("2.0.0"), &json!(1)));
    assert_eq!(status["recovery_pending"], false);
    let left = names(&rig.path("/var/lib/teleport/versions"));
    assert!(left.iter().all(|name| [".lock", "1.0.0", "2.0.0", "updates.yaml"].contains(&name.as_str())), "{left:?}");
    // The timer's next run lets it rest.
    rig.cluster.forget_requests();
    rig.updater(&["update"]).ok().says("2.0.0").says("is not tried again yet");
    assert!(rig.cluster.requests_to("/cdn/").is_empty());
}

#[test]
fn update_is_run_by_the_real_timer_and_updates_the_agent() {
    let Some(rig) = running("update-timer") else { return };
    rig.release(&Archive::simple("2.0.0").schema(2));
    let short = "[Timer]\nOnBootSec=\nOnBootSec=1s\nOnUnitInactiveSec=1s\nRandomizedDelaySec=0\nAccuracySec=1ms\n";
    rig.bed.write("/etc/systemd/system/teleport-update.timer.d/short.conf", short, 0o644);
    rig.bed.sh("systemctl daemon-reload; systemctl enable --now teleport-update.timer");
    until("the timer's run updates", || link(&rig.path("/usr/local/bin/teleport")) == binary("2.0.0", "teleport"));
    rig.bed.until("journalctl -u teleport-update.service -o cat | grep -q '1.0.0 (oss) -> 2.0.0 (oss): done'", SOON);
    // It goes on asking after that run, and is content.
    rig.cluster.forget_requests();
    until("the timer's next run asks", || rig.cluster.requests_to("find").len() >= 2);
    rig.bed.sh("systemctl stop teleport-update.timer");
    rig.bed.until("test \"$(systemctl is-active teleport-update.service)\" = inactive", SOON);
    assert_ne!(rig.bed.sh("systemctl show -P LastTriggerUSec teleport-update.timer").trim(), "");
    assert_eq!(rig.bed.sh("systemctl show -P Result teleport-update.service").trim(), "success");
    let status = rig.status();
    assert_eq!(
        (&status["agent_version_running"], &status["agent_version_previous"]),
        (&json!("2.0.0"), &json!("1.0.0"))
    );
    assert_eq!(rig.sql("SELECT version FROM rows ORDER BY id"), ["1.0.0", "2.0.0"]);
}
