//! RFD 0169, the fifteen steps of `update`, as SPEC §5 changes them: a test or more for each, named after it; the real
//! timer; the order inside a switch. Step 6 is in `download/space.rs`, step 7 is step 5 of `enable`; step 15: `config.txt` (`keep`). What an image shows is in `rfd_update.txt`, the steps of `enable` too.

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
fn the_steps_of_enable_and_update_that_an_image_shows_are_those_of_the_rfd() {
    transcript::play("command/rfd_update.txt");
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
    // Both wait at the same time.
    std::thread::scope(|scope| {
        scope.spawn(|| after_a_long_wait(Find::version("3.0.0"), "3.0.0"));
        scope.spawn(|| after_a_long_wait(Find { auto_update: false, ..Find::version("2.0.0") }, "1.0.0"));
    });
}

/// While the host waits for 2.0.0 the cluster comes to say `find`: it ends at `version`.
fn after_a_long_wait(find: Find, version: &str) {
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
    assert_eq!(image.linked(), version);
    assert!(!image.versions().join("2.0.0").exists());
}

#[test]
fn update_step_05_is_left_out_by_now() {
    let image = Image::quiet("1.0.0");
    let_wait(&image, 3000);
    image.run(&["update", "--now"]).ok();
    assert_eq!(link(&image.path("/usr/local/bin/teleport")), binary("2.0.0", "teleport"));
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
