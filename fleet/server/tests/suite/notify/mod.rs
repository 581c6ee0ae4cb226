//! Who is told what happens: a webhook with and without TLS; at least once, in order, delaying nobody.

mod lasting;
mod receiver;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sha2::{Digest, Sha256};
use tempfile::TempDir;

use crate::nodes::Fleet;
use crate::reports::host::{Host, epoch};
use crate::support::{Server, authority, dir, done, groups, restore, version, write_secret};
use receiver::{How, Receiver, Told};

/// With a version they are `new_version`.
const GROUPS: &[&str] = &["dev", "prod"];
const SECRET: &str = "a secret of more than twenty-four bytes";

/// A server that tells `receiver`.
fn server(dir: &Path, receiver: &Receiver) -> Server {
    let secret = write_secret(dir, SECRET);
    let url = format!("http://{}/hook", receiver.addr);
    Server::with(dir, &["--plain", "--webhook-url", &url, "--webhook-secret-file", &secret])
}

/// A receiver that answers so, and a server that tells it. Two groups and a version are there: that is `new_version`.
fn begun(how: How) -> (Receiver, TempDir, Server) {
    let (receiver, dir) = (Receiver::start(how), dir());
    let server = server(dir.path(), &receiver);
    server.rolls(GROUPS);
    (receiver, dir, server)
}

/// Waits until the receiver took exactly these, in this order.
fn until_kinds(server: &Server, receiver: &Receiver, kinds: &[&str]) {
    server.until(&format!("{kinds:?}, and not {:?}", receiver.kinds()), || receiver.kinds().len() >= kinds.len());
    assert_eq!(receiver.kinds(), kinds, "{}", server.log());
}

/// HMAC-SHA256 by its definition (RFC 2104), without our code's library.
fn hmac(key: &[u8], text: &[u8]) -> Vec<u8> {
    let mut block = [0_u8; 64];
    if key.len() > 64 {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let (inner, outer) = (block.map(|byte| byte ^ 0x36), block.map(|byte| byte ^ 0x5c));
    let digest = Sha256::digest([&inner[..], text].concat());
    Sha256::digest([&outer[..], &digest[..]].concat()).to_vec()
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let number = part.iter().fold(0_u32, |number, byte| number << 8 | u32::from(*byte)) << (8 * (3 - part.len()));
        for at in 0..4 {
            let letter = LETTERS[(number >> (18 - 6 * at) & 63) as usize] as char;
            text.push(if at <= part.len() { letter } else { '=' });
        }
    }
    text
}

/// The signature of what was told is that of `secret`.
fn is_signed(told: &Told, secret: &str) -> bool {
    let signed = format!("{}.{}.{}", told.header("webhook-id"), told.header("webhook-timestamp"), told.body);
    told.header("webhook-signature") == format!("v1,{}", base64(&hmac(secret.as_bytes(), signed.as_bytes())))
}

fn metric(server: &Server, line: &str) -> f64 {
    let text = server.metrics();
    let value = text.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {line} in {text}")).parse().unwrap()
}

#[test]
fn each_kind_is_told_once_in_order_and_signed() {
    let (receiver, _dir, server) = begun(How::Take);
    server.agents(&["start-update", "dev"]);
    server.agents(&["mark-done", "dev"]);
    server.agents(&["start-update", "prod"]);
    server.agents(&["halt", "prod"]);
    server.agents(&["run", "prod"]);
    server.agents(&["rollback", "prod"]);
    server.ok(&["rm", "autoupdate_version"]);
    let kinds = [
        "new_version",
        "group_started",
        "group_done",
        "group_started",
        "group_halted",
        "group_started",
        "group_rolled_back",
        "rollout_removed",
    ];
    until_kinds(&server, &receiver, &kinds);
    let told = receiver.taken();
    let seqs: Vec<u64> = told.iter().map(|told| told.json()["data"]["seq"].as_u64().unwrap()).collect();
    assert!(seqs.is_sorted_by(|one, other| one < other), "{seqs:?}");
    for told in receiver.told() {
        let json = told.json();
        assert!(is_signed(&told, SECRET), "{told:?}");
        assert_eq!(json["id"], told.header("webhook-id").as_str());
        assert_eq!(told.header("content-type"), "application/json");
        let at: i64 = told.header("webhook-timestamp").parse().unwrap();
        assert!((jiff::Timestamp::now().as_second() - at).abs() < 600, "{at}");
        assert!(json["time"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok());
        // A command to copy has no dot behind it.
        let end = if told.kind() == "group_halted" {
            "to end the stop: teleport-fleet autoupdate agents run prod"
        } else {
            "."
        };
        assert!(json["text"].as_str().unwrap().ends_with(end), "{json}");
    }
    let data = |at: usize| told[at].json()["data"].clone();
    assert_eq!((data(0)["rollout"].clone(), data(0)["target_version"].clone()), (1.into(), "1.1.0".into()));
    assert_eq!(data(1)["group"], "dev");
    assert_eq!((data(4)["group"].clone(), data(4)["rule"].clone()), ("prod".into(), "manual_halt".into()));
    server.until("the meter", || {
        metric(&server, "teleport_fleet_notification_oldest_seconds{receiver=\"webhook\"}") < 1.0
    });
    let taken = metric(&server, "teleport_fleet_notifications_total{receiver=\"webhook\",result=\"delivered\"}");
    assert!(taken >= kinds.len() as f64, "{taken}");
}

/// Where servers share a database: each event is told once, in order, though whoever tells them is stopped or dies.
#[test]
fn of_several_servers_one_tells_and_another_goes_on() {
    let (receiver, dir) = (Receiver::start(How::Take), dir());
    let (secret, url) = (write_secret(dir.path(), SECRET), format!("http://{}/hook", receiver.addr));
    let Some(mut fleet) = Fleet::start(2, &["--webhook-url", &url, "--webhook-secret-file", &secret]) else { return };
    fleet.node(0).rolls(GROUPS);
    let mut kinds = vec!["new_version"];
    for (number, is_crash) in [(0, false), (1, false), (0, true), (1, true)] {
        until_kinds(fleet.node(number), &receiver, &kinds);
        let gone = fleet.nodes[number].1.take().unwrap();
        if is_crash {
            gone.kill();
            // As if it had been silent for long.
            fleet.sql("UPDATE receiver SET until = 0");
        } else {
            gone.stop();
        }
        let other = fleet.node(1 - number);
        other.agents(&["halt", "dev"]);
        kinds.push("group_halted");
        until_kinds(other, &receiver, &kinds);
        other.agents(&["run", "dev"]);
        fleet.begin(number);
    }
    until_kinds(fleet.node(0), &receiver, &kinds);
}

#[test]
fn a_halt_names_hosts_and_the_way_on() {
    let (receiver, _dir, server) = begun(How::Take);
    let failed = crate::reports::first_fails(&server);
    until_kinds(&server, &receiver, &["new_version", "group_started", "group_halted"]);
    let told = receiver.taken()[2].json();
    assert_eq!(told["data"]["sample"], serde_json::json!([failed.id]), "{told}");
    let text = told["text"].as_str().unwrap();
    assert!(text.contains(&format!("for example {}", failed.id)), "{text}");
    assert!(text.ends_with("; to go back: teleport-fleet autoupdate agents rollback dev"), "{text}");
    // What stops everything ends with everything.
    server.agents(&["halt", "--all"]);
    server.until("the other halt", || receiver.kinds().len() > 3);
    let told = receiver.taken()[3].json();
    assert_eq!((&told["kind"], &told["data"]["group"]), (&"group_halted".into(), &"prod".into()), "{told}");
    assert!(
        told["text"]
            .as_str()
            .unwrap()
            .ends_with("; to end the hold of everything: teleport-fleet autoupdate agents run --all"),
        "{told}"
    );
}

#[test]
fn a_second_key_of_a_host_is_told_once() {
    let (receiver, _dir, server) = begun(How::Take);
    let (first, second) = (Host::new(1, "dev"), Host::with_key(1, "dev", 9));
    let epoch = epoch(&server);
    for (host, status) in [(&first, 200), (&second, 409), (&second, 409), (&first, 200)] {
        assert_eq!(host.sends(server.addr, &host.says(epoch, "1.0.0", None)).0, status);
    }
    server.agents(&["start-update", "dev"]);
    until_kinds(&server, &receiver, &["new_version", "key_conflict", "group_started"]);
    let told = receiver.taken()[1].json();
    assert_eq!((&told["data"]["host"], &told["data"]["key"]), (&first.id.into(), &second.key().to_string().into()));
}

#[test]
fn a_group_that_begins_with_canaries_is_told_and_told_again_when_the_rest_follows() {
    let (receiver, dir) = (Receiver::start(How::Take), dir());
    let server = server(dir.path(), &receiver);
    let policy = groups(&["dev", "prod"]).replace("name: dev,", "name: dev, canary_count: 1,");
    server.create(&format!("{policy}---\n{}", version("1.0.0", "1.1.0", "regular")));
    let (epoch, hosts) = (epoch(&server), [1, 2, 3].map(|number| Host::new(number, "dev")));
    let reports = |host: &Host, version: &str, last| {
        let mut says = host.says(epoch, version, last);
        // Who has none is no canary.
        says["update_id"] = host.id.replace("00000000-", "50000000-").into();
        assert_eq!(host.sends(server.addr, &says).0, 200);
    };
    hosts.iter().for_each(|host| reports(host, "1.0.0", None));
    server.agents(&["start-update", "dev"]);
    until_kinds(&server, &receiver, &["new_version", "group_canaries"]);
    let told = receiver.taken()[1].json();
    assert_eq!((&told["data"]["group"], &told["kind"]), (&"dev".into(), &"group_canaries".into()));
    assert_eq!(told["text"], "Group dev has started with its canaries.");
    let told = || hosts.iter().filter(|host| host.asks(&server, Some(epoch)).1).collect::<Vec<_>>();
    server.until("the canary is told", || told().len() == 1);
    told().into_iter().for_each(|host| reports(host, "1.1.0", Some(("updated", "1.1.0", ""))));
    until_kinds(&server, &receiver, &["new_version", "group_canaries", "group_started"]);
}

#[test]
fn so_many_new_hosts_that_the_next_wait_are_told_once() {
    /// Hosts that enrol in an hour before others wait, in a fleet of no more than that.
    const MOST: usize = 1_000;
    /// They report at the same time: each is answered when it is in the store, together with the others.
    const AT_ONCE: usize = 125;
    let (receiver, _dir, server) = begun(How::Take);
    let epoch = epoch(&server);
    let enrol = |number: usize| {
        let mut host = Host::new(1, "dev");
        host.id = format!("00000000-0000-4000-8000-{number:012}");
        host.sends(server.addr, &host.says(epoch, "1.0.0", None)).0
    };
    std::thread::scope(|scope| {
        let enrol = &enrol;
        for first in 0..AT_ONCE {
            scope.spawn(move || (first..MOST).step_by(AT_ONCE).for_each(|number| assert_eq!(enrol(number), 200)));
        }
    });
    assert_eq!(receiver.kinds().iter().filter(|kind| *kind == "enrolment_surge").count(), 0);
    assert_eq!([MOST, MOST + 1].map(enrol), [202, 202]);
    server.agents(&["start-update", "dev"]);
    until_kinds(&server, &receiver, &["new_version", "enrolment_surge", "group_started"]);
    let told = receiver.taken()[1].json();
    assert_eq!(told["data"]["hosts"], MOST);
}

#[test]
fn the_head_of_the_audit_log_goes_to_the_webhook_and_to_the_log() {
    let (receiver, dir) = (Receiver::start(How::Take), dir());
    Server::start(dir.path()).rolls(GROUPS);
    let server = server(dir.path(), &receiver);
    let heads = || receiver.told().into_iter().filter(|told| told.kind() == "audit_head").collect::<Vec<_>>();
    server.until("a head", || !heads().is_empty());
    let hash = heads()[0].json()["data"]["hash"].as_str().unwrap().to_owned();
    assert!(server.ok(&["audit", "verify", "--head", &hash]).contains("is whole"));
    server.until("the log", || server.log().contains("head of the audit log"));
}

#[test]
fn over_tls_only_a_receiver_with_a_trusted_certificate_is_told() {
    let (root, tls) = authority();
    let (receiver, dir) = (Receiver::with(How::Take, Some(tls)), dir());
    let secret = write_secret(dir.path(), SECRET);
    let url = format!("https://{}/hook", receiver.addr);
    let words = ["--plain", "--webhook-url", &url, "--webhook-secret-file", &secret];
    let file = dir.path().join("root.pem");
    std::fs::write(&file, root).unwrap();
    let server = Server::with(dir.path(), &words);
    server.rolls(GROUPS);
    let failed = "teleport_fleet_notifications_total{receiver=\"webhook\",result=\"failed\"}";
    server.until("a failure", || metric(&server, failed) > 0.0);
    assert!(receiver.told().is_empty(), "it was told though nobody trusts it");
    assert_eq!(server.stop(), Some(0));
    let server = Server::with_env(dir.path(), &words, &[("SSL_CERT_FILE", file.to_str().unwrap())]);
    until_kinds(&server, &receiver, &["new_version"]);
    assert!(is_signed(&receiver.taken()[0], SECRET));
}

#[test]
fn a_receiver_that_fails_is_told_again_in_order_and_redirects_are_not_followed() {
    let (receiver, elsewhere, dir) = (Receiver::start(How::Close), Receiver::start(How::Take), dir());
    let server = server(dir.path(), &receiver);
    server.rolls(GROUPS);
    server.agents(&["start-update", "dev"]);
    let redirect = format!("307 Temporary Redirect\r\nlocation: http://{}/", elsewhere.addr);
    for how in [How::Close, How::Refuse("500 Broken".to_owned()), How::Refuse(redirect)] {
        receiver.set(how);
        let before = receiver.told().len();
        server.until("another attempt", || receiver.told().len() > before);
    }
    let oldest = "teleport_fleet_notification_oldest_seconds{receiver=\"webhook\"}";
    server.until("its age", || metric(&server, oldest) >= 1.0);
    assert!(receiver.taken().is_empty());
    receiver.set(How::Take);
    until_kinds(&server, &receiver, &["new_version", "group_started"]);
    assert!(elsewhere.told().is_empty(), "a redirect was followed");
    let told = receiver.told();
    let attempts = told.iter().filter(|other| other.header("webhook-id") == told[0].header("webhook-id")).count();
    assert!(attempts >= 2, "the id is another one with each attempt");
    assert!(receiver.told().iter().all(|told| is_signed(told, SECRET)));
    let log = server.log();
    assert!(log.contains("it answers 500") && log.contains("redirects are not followed"), "{log}");
}

#[test]
fn what_was_not_taken_before_a_kill_is_told_after_it_and_what_was_taken_is_not() {
    let (receiver, dir) = (Receiver::start(How::Take), dir());
    let first = server(dir.path(), &receiver);
    first.rolls(GROUPS);
    until_kinds(&first, &receiver, &["new_version"]);
    receiver.set(How::Refuse("503 Busy".to_owned()));
    first.agents(&["start-update", "dev"]);
    first.until("an attempt", || receiver.told().iter().any(|told| told.kind() == "group_started"));
    first.agents(&["mark-done", "dev"]);
    first.kill();
    receiver.set(How::Take);
    let second = server(dir.path(), &receiver);
    // A kill may have come between the answer and the note of it: then the first is told twice, with one id.
    second.until("the rest", || receiver.kinds().last().is_some_and(|kind| kind == "group_done"));
    let mut told: Vec<(String, String)> =
        receiver.taken().iter().map(|told| (told.header("webhook-id"), told.kind())).collect();
    told.dedup();
    let kinds: Vec<&str> = told.iter().map(|(_, kind)| kind.as_str()).collect();
    assert_eq!(kinds, ["new_version", "group_started", "group_done"]);
}

#[test]
fn a_receiver_that_hangs_or_never_ends_delays_nobody_and_costs_no_memory() {
    let (receiver, dir) = (Receiver::start(How::Hang), dir());
    let server = server(dir.path(), &receiver);
    server.until("an attempt", || !receiver.told().is_empty());
    server.rolls(GROUPS);
    server.agents(&["start-update", "dev"]);
    let host = "00000000-0000-4000-8000-000000000001";
    assert_eq!(server.json(&format!("/v1/webapi/find?host={host}&group=dev"))["agent_version"], "1.1.0");
    assert!(receiver.told().iter().all(|told| !told.is_taken), "the receiver answered nothing so far");
    for how in [How::EndlessHeader, How::EndlessBody] {
        receiver.set(how);
        let before = receiver.told().len();
        server.until("another attempt", || receiver.told().len() > before);
    }
    until_kinds(&server, &receiver, &["new_version", "group_started"]);
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.pid())).unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")).unwrap();
    assert!(peak.parse::<u64>().unwrap() < 200_000, "{peak} KiB");
    receiver.set(How::Hang);
    server.agents(&["mark-done", "dev"]);
    server.until("an attempt", || receiver.told().last().unwrap().kind() == "group_done");
    // It does not wait for the receiver, which never answers.
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_secret_that_others_may_read_signs_nothing_and_a_changed_one_is_read_again() {
    let (receiver, dir) = (Receiver::start(How::Take), dir());
    let secret = write_secret(dir.path(), SECRET);
    let mode = |mode| std::fs::set_permissions(&secret, Permissions::from_mode(mode)).unwrap();
    mode(0o640);
    let config = dir.path().join("config.yaml");
    let text = format!("webhook_url: http://{}/hook\nwebhook_secret_file: {secret}\n", receiver.addr);
    std::fs::write(&config, text).unwrap();
    let server = Server::start(dir.path());
    server.rolls(GROUPS);
    server.until("the log", || server.log().contains("has mode 640"));
    assert!(receiver.told().is_empty());
    let data = dir.path().join("data");
    let words = ["doctor", "--config", config.to_str().unwrap(), "--data", data.to_str().unwrap()];
    let said = server.cli(&words);
    let text = String::from_utf8(said.stdout).unwrap();
    assert_eq!(said.status.code(), Some(1), "{text}");
    assert!(text.contains("problem  the webhook gets nothing") && text.contains("has mode 640"), "{text}");
    mode(0o600);
    until_kinds(&server, &receiver, &["new_version"]);
    let said = done(&server.cli(&words));
    assert!(said.contains(&format!("ok       webhook http://{}, signed with", receiver.addr)), "{said}");
    assert!(!said.contains("/hook") && !said.contains(SECRET), "an address may have a key in it: {said}");
    write_secret(dir.path(), "another secret of more than twenty-four bytes");
    server.agents(&["start-update", "dev"]);
    until_kinds(&server, &receiver, &["new_version", "group_started"]);
    assert!(is_signed(&receiver.taken()[1], "another secret of more than twenty-four bytes"));
    assert!(!server.log().contains("secret of more") && !server.log().contains("/hook"), "{}", server.log());
}

#[test]
fn a_restore_is_told_with_what_comes_after_it_and_a_lost_log_as_well() {
    let (receiver, dir) = (Receiver::start(How::Take), dir());
    let (data, backup) = (dir.path().join("data"), dir.path().join("backup"));
    let first = server(dir.path(), &receiver);
    first.rolls(GROUPS);
    first.ok(&["backup", backup.to_str().unwrap()]);
    first.agents(&["start-update", "dev"]);
    until_kinds(&first, &receiver, &["new_version", "group_started"]);
    assert_eq!(first.stop(), Some(0));
    done(&restore(dir.path(), &backup, &["--force"]));
    let second = server(dir.path(), &receiver);
    second.until("the restore", || receiver.kinds().iter().any(|kind| kind == "restored"));
    let kinds = receiver.kinds();
    let at = kinds.iter().position(|kind| kind == "restored").unwrap();
    assert_eq!(at, 2, "nothing is told again: {kinds:?}");
    second.agents(&["run", "--all"]);
    second.agents(&["start-update", "dev"]);
    second.until("what comes after it", || receiver.kinds().last().is_some_and(|kind| kind == "group_started"));
    assert_eq!(second.stop(), Some(0));
    // Somebody copies the backup over the database.
    for name in ["fleet.db-wal", "fleet.db-shm"] {
        std::fs::remove_file(data.join(name)).ok();
    }
    std::fs::copy(&backup, data.join("fleet.db")).unwrap();
    let third = server(dir.path(), &receiver);
    third.until("the loss", || receiver.kinds().last().is_some_and(|kind| kind == "store_lost"));
    assert!(third.log().contains("the store lost decisions") && third.log().contains("everything is held"));
    third.agents(&["run", "--all"]);
    third.agents(&["start-update", "prod"]);
    third.until("what comes after it", || receiver.kinds().last().is_some_and(|kind| kind == "group_started"));
}
