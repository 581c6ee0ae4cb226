//! Who is believed: open, with a token, with an operator's word.

use serde_json::{Value, json};

use super::{Host, code, epoch, known, started, started_with, state};
use crate::support::{Server, refused, request};

/// What monitoring sees of keys that wait.
fn waiting(server: &Server) -> String {
    let (_, text) = request(server.metrics, "GET", "/metrics", "", "");
    text.lines().find_map(|line| line.strip_prefix("teleport_fleet_hosts_waiting ")).unwrap().to_owned()
}

#[test]
fn a_second_key_waits_until_an_admin_accepts_it_and_then_the_first_is_the_second() {
    let (_dir, server) = started();
    let epoch = epoch(&server);
    let (first, second) = (Host::new(1, "dev"), Host::with_key(1, "prod", 9));
    assert_eq!(first.sends(server.addr, &first.says(epoch, "1.0.0", None)).0, 200);
    assert_eq!(code(&second.sends(server.addr, &second.says(epoch, "1.1.0", None))), (409, "key_conflict"));
    assert_eq!(first.sends(server.addr, &first.says(epoch, "1.0.0", None)).0, 200, "the first goes on");
    assert_eq!(known(&server, &first)["known"]["version"], "1.0.0");
    let audit = server.ok(&["audit"]);
    assert!(audit.contains("key_conflict"), "{audit}");
    assert!(server.ok(&["hosts", "--waiting"]).contains(&first.id));
    assert_eq!(waiting(&server), "1");
    // What is advised accepts this key alone.
    let advised = format!("teleport-fleet host {} accept --key {}", first.id, &second.key().to_string()[..16]);
    assert!(server.ok(&["host", &first.id]).contains(&format!("if it is right: {advised}\n")));
    let (_, said) = second.sends(server.addr, &second.says(epoch, "1.1.0", None));
    assert!(said.to_string().contains(&advised), "{said}");
    // He names the key that he saw.
    let wrong = refused(&server.cli(&["host", &first.id, "accept", "--key", "00ff"]));
    assert!(wrong.contains(&second.key().to_string()), "{wrong}");
    let begin = &second.key().to_string()[..12];
    server.ok(&["host", &first.id, "accept", "--key", begin]);
    assert_eq!(second.sends(server.addr, &second.says(epoch, "1.1.0", None)).0, 200);
    assert_eq!(code(&first.sends(server.addr, &first.says(epoch, "1.0.0", None))), (409, "key_conflict"));
    let shown = known(&server, &second);
    assert_eq!((&shown["known"]["version"], &shown["known"]["group"]), (&json!("1.1.0"), &json!("prod")));
    assert!(shown["history"]["enrolled"].as_str().unwrap().starts_with("accepted by "), "{shown}");
}

#[test]
fn only_an_admin_says_which_key_is_right() {
    let (_dir, server) = started();
    let epoch = epoch(&server);
    let (first, second) = (Host::new(1, "dev"), Host::with_key(1, "dev", 9));
    assert_eq!(first.sends(server.addr, &first.says(epoch, "1.0.0", None)).0, 200);
    assert_eq!(code(&second.sends(server.addr, &second.says(epoch, "1.0.0", None))), (409, "key_conflict"));
    let secret = &server.token("acts", "operator");
    let decided = json!({"id": "00000000-0000-4000-8000-000000000001", "decision": {"accept": null}}).to_string();
    let (path, header) = (format!("/v1/fleet/hosts/{}", first.id), format!("authorization: Bearer {secret}\r\n"));
    let (status, body) = request(server.addr, "POST", &path, &header, &decided);
    assert_eq!(status, 403, "{body}");
    assert!(body.contains("token acts has the role operator; which key is right says the role admin"), "{body}");
    assert!(server.ok(&["hosts", "--waiting"]).contains(&first.id), "it still waits");
}

#[test]
fn who_is_struck_off_is_new_when_he_comes_back_and_his_key_is_worth_nothing() {
    let (dir, server) = started_with(&["--plain", "--enrolment", "token"]);
    let (host, epoch) = (Host::new(1, "dev"), epoch(&server));
    let token = server.ok(&["tokens", "join", "create", "rack", "--uses", "1"]).trim().to_owned();
    let says = || host.says(epoch, "1.0.0", None);
    assert_eq!(host.joins(server.addr, &says(), &token).0, 200);
    assert_eq!(host.sends(server.addr, &says()).0, 200);
    let operator = &server.token("acts", "operator");
    let decided = json!({"id": "00000000-0000-4000-8000-000000000001", "decision": "forget"}).to_string();
    let (path, header) = (format!("/v1/fleet/hosts/{}", host.id), format!("authorization: Bearer {operator}\r\n"));
    assert_eq!(request(server.addr, "POST", &path, &header, &decided).0, 403);
    assert_eq!(known(&server, &host)["known"]["enrolled"], true);
    let told = server.ok(&["host", &host.id, "forget"]);
    assert!(told.contains("never seen"), "{told}");
    assert!(!server.ok(&["hosts"]).contains(&host.id));
    assert!(server.ok(&["audit"]).contains("forget"));
    assert_eq!(code(&host.sends(server.addr, &says())), (403, "join_token_needed"));
    server.kill();
    let server = Server::with(dir.path(), &["--plain", "--enrolment", "token"]);
    assert!(!server.ok(&["hosts"]).contains(&host.id), "a kill brings nobody back");
    assert!(refused(&server.cli(&["host", &host.id, "forget"])).contains("was seen"));
}

#[test]
fn a_stop_a_slot_and_an_assignment_are_not_lost_with_a_host_that_is_struck_off() {
    let (_dir, server) = started();
    let (held, told, put) = (Host::new(1, "dev"), Host::new(2, "dev"), Host::new(3, "dev"));
    let epoch = epoch(&server);
    for host in [&held, &told, &put] {
        assert_eq!(host.sends(server.addr, &host.says(epoch, "1.0.0", None)).0, 200);
    }
    server.ok(&["host", &held.id, "hold"]);
    server.ok(&["host", &put.id, "assign", "prod"]);
    let is_told = || told.asks(&server, Some(epoch)).1 && state(&server, &told) == "told";
    server.until("one is allowed to update", is_told);
    let wrong = refused(&server.cli(&["host", &held.id, "forget"]));
    assert!(
        wrong.contains(&format!("it is held: release it first: teleport-fleet host {} release", held.id)),
        "{wrong}"
    );
    let wrong = refused(&server.cli(&["host", &told.id, "forget"]));
    assert!(wrong.contains("it was allowed to update and has come to no end"), "{wrong}");
    assert_eq!(state(&server, &held), "excluded");
    assert_eq!(state(&server, &told), "told");
    // At its end it may go, and so may who is released.
    assert_eq!(told.sends(server.addr, &told.says(epoch, "1.1.0", Some(("updated", "1.1.0", "")))).0, 200);
    server.ok(&["host", &held.id, "release"]);
    for host in [&held, &told, &put] {
        server.ok(&["host", &host.id, "forget"]);
    }
    let audit = server.ok(&["audit", "--format", "json"]);
    let mut audit = audit.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let subject = format!("host {}", put.id);
    let lost = audit.find(|entry| entry["action"] == "forget" && entry["subject"] == *subject).unwrap();
    let expected = json!({ "assigned": "prod", "version": "1.0.0", "key": put.key().to_string() });
    assert_eq!(lost["detail"], expected);
}

#[test]
fn who_is_to_be_accepted_counts_from_then_on() {
    let (dir, server) = started_with(&["--plain", "--enrolment", "approve"]);
    let (host, epoch) = (Host::new(1, "dev"), epoch(&server));
    let says = || host.says(epoch, "1.0.0", None);
    assert_eq!(waiting(&server), "0");
    assert_eq!(host.sends(server.addr, &says()), (202, json!({ "state": "waiting" })));
    assert_eq!(host.sends(server.addr, &says()).0, 202, "it still waits");
    let shown = known(&server, &host);
    assert_eq!((&shown["known"]["enrolled"], &shown["known"]["version"]), (&json!(false), &json!("")));
    let other = Host::with_key(1, "dev", 9);
    assert_eq!(code(&other.sends(server.addr, &other.says(epoch, "1.0.0", None))), (409, "key_conflict"));
    server.kill();
    let server = Server::with(dir.path(), &["--plain", "--enrolment", "approve"]);
    assert!(server.ok(&["hosts", "--waiting"]).contains(&host.id), "a kill forgets nobody who was answered");
    assert_eq!(waiting(&server), "1");
    server.ok(&["host", &host.id, "accept"]);
    assert_eq!(waiting(&server), "0");
    assert_eq!(host.sends(server.addr, &says()).0, 200);
    assert_eq!(known(&server, &host)["known"]["enrolled"], true);
    assert!(!server.ok(&["hosts", "--waiting"]).contains(&host.id));
    let nobody = refused(&server.cli(&["host", &host.id, "accept"]));
    assert!(nobody.contains("no key of this host waits"), "{nobody}");
}

#[test]
fn a_join_token_lets_in_as_many_as_it_says_and_fixes_their_group() {
    let words = ["--plain", "--enrolment", "token"];
    let (dir, server) = started_with(&words);
    let epoch = epoch(&server);
    let says = |host: &Host| host.says(epoch, "1.0.0", None);
    let hosts: Vec<Host> = (1..=4).map(|number| Host::new(number, "dev")).collect();
    assert_eq!(code(&hosts[0].sends(server.addr, &says(&hosts[0]))), (403, "join_token_needed"));
    assert_eq!(code(&hosts[0].joins(server.addr, &says(&hosts[0]), "nonsense")), (403, "join_token_refused"));
    let make = ["tokens", "join", "create", "rack", "--uses", "2", "--group", "prod", "--label", "env=rack"];
    let secret = server.ok(&make).trim().to_owned();
    assert!(refused(&server.cli(&make)).contains("already"));
    for host in &hosts[..2] {
        assert_eq!(host.joins(server.addr, &says(host), &secret).0, 200);
    }
    let shown = known(&server, &hosts[1])["known"].clone();
    assert_eq!((&shown["group"], &shown["labels"]["env"]), (&json!("prod"), &json!("rack")));
    assert_eq!(hosts[0].sends(server.addr, &says(&hosts[0])).0, 200, "it is in: it needs no token any more");
    assert_eq!(known(&server, &hosts[0])["known"]["group"], "prod", "the token's group stays");
    server.kill();
    let server = Server::with(dir.path(), &words);
    let spent = hosts[2].joins(server.addr, &says(&hosts[2]), &secret);
    assert_eq!(code(&spent), (403, "join_token_refused"), "its uses were counted before the kill");
    let list = server.parsed(&["tokens", "join"]);
    assert_eq!(list[0]["uses"], 0);
    assert!(!list.to_string().contains(&secret));
    server.ok(&["tokens", "join", "rm", "rack"]);
    assert!(refused(&server.cli(&["tokens", "join", "rm", "rack"])).contains("no join token rack"));
    let many = server.ok(&["tokens", "join", "create", "many"]).trim().to_owned();
    for host in &hosts[2..] {
        assert_eq!(host.joins(server.addr, &says(host), &many).0, 200);
    }
    assert_eq!(known(&server, &hosts[3])["history"]["enrolled"], "token many");
    let nowhere = refused(&server.cli(&["tokens", "join", "create", "x", "--group", "nowhere"]));
    assert!(nowhere.contains("no group \"nowhere\""), "{nowhere}");
}
