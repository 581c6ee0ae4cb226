//! Who may do what, and how it is refused.

use serde_json::{Value, json};

use crate::support::{Server, groups, refused, request, rolling, start, version};

const HOST: &str = "11111111-2222-4333-8444-555555555555";

fn bearer(secret: &str) -> String {
    format!("authorization: Bearer {secret}\r\n")
}

#[test]
fn a_viewer_looks_an_operator_acts_and_only_an_admin_makes_tokens() {
    let (dir, server) = rolling(&["dev"]);
    let (viewer, operator) = (server.token("viewer", "viewer"), server.token("operator", "operator"));
    let ask = |secret: &str, method: &str, path: &str, body: &str| {
        let (status, body) = request(server.addr, method, path, &bearer(secret), body);
        (status, serde_json::from_str::<Value>(&body).unwrap())
    };
    assert_eq!(ask(&viewer, "GET", "/v1/fleet/rollout", "").0, 200);
    let command = json!({"id": uuid(1), "command": {"start": {"groups": ["dev"], "force": false}}}).to_string();
    let (status, body) = ask(&viewer, "POST", "/v1/fleet/commands", &command);
    assert_eq!((status, &body["error"]["code"]), (403, &json!("forbidden")), "{body}");
    assert_eq!(ask(&operator, "POST", "/v1/fleet/commands", &command).0, 200);
    let new = json!({"id": uuid(2), "name": "more", "role": "admin", "expires": null}).to_string();
    assert_eq!(ask(&operator, "POST", "/v1/fleet/tokens", &new).0, 403);
    server.ok(&["tokens", "rm", "operator"]);
    assert_eq!(ask(&operator, "GET", "/v1/fleet/rollout", "").0, 401);
    // A secret is nowhere but with whoever has it.
    let data = std::fs::read(dir.path().join("data/fleet.db")).unwrap();
    assert!(!data.windows(operator.len()).any(|part| part == operator.as_bytes()));
    assert!(!server.log().contains(&viewer));
}

fn uuid(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

#[test]
fn who_decided_what_is_on_record_refusals_too() {
    let (_dir, server) = rolling(&["dev"]);
    refused(&server.cli(&["autoupdate", "agents", "start-update", "nobody"]));
    server.agents(&["start-update", "dev"]);
    let entries = server.records();
    let starts: Vec<_> = entries.iter().filter(|entry| entry["action"] == "start").collect();
    assert_eq!(starts.iter().map(|entry| entry["done"].as_bool().unwrap()).collect::<Vec<_>>(), [false, true]);
    assert_eq!(starts[0]["detail"]["code"], "not_found");
    for entry in starts {
        assert!(entry["who"].as_str().unwrap().starts_with("uid "), "{entry}");
        assert_eq!(entry["from"], "admin socket");
    }
}

#[test]
fn each_refusal_names_what_it_was_about() {
    let (_dir, server) = start();
    server.create(&groups(&["dev"]));
    let config = "autoupdate_config/autoupdate-config";
    let release = "kind: fleet_release\nversion: v1\nmetadata: {name: r}\nspec: {version: x}\n";
    let several = format!(
        "{release}---\nkind: autoupdate_version\nspec: 1\n---\nkind: strange\nmetadata: {{name: \"a\\u001bb\"}}\n"
    );
    let long = format!("kind: fleet_channel\nmetadata: {{name: {}}}\n", "n".repeat(5000));
    for (words, text, action, subject) in [
        (&["create", "-f", "-"][..], groups(&["dev"]), "create", config),
        (
            &["update", "-f", "-"],
            version("1.0.0", "1.1.0", "regular"),
            "update",
            "autoupdate_version/autoupdate-version",
        ),
        (&["update", "-f", "-"], groups(&["dev"]).replace("config}", "config, revision: x}"), "update", config),
        (&["create", "-f", "-"], release.to_owned(), "create", "fleet_release/r"),
        (
            &["create", "-f", "-"],
            several,
            "create",
            "fleet_release/r, autoupdate_version/autoupdate-version, strange/a\u{1b}b",
        ),
        (&["create", "-f", "-"], "a: b\n".to_owned(), "create", "a text without a kind"),
        (&["create", "-f", "-"], "\t{".to_owned(), "create", "a text without a kind"),
        (&["rm", "fleet_release/none"], String::new(), "delete", "fleet_release/none"),
        (&["rm", "autoupdate_version"], String::new(), "delete", "autoupdate_version/autoupdate-version"),
        (&["autoupdate", "agents", "halt", "nobody"], String::new(), "halt", "group nobody"),
        (&["host", HOST, "assign", "x"], String::new(), "assign", "host 11111111-2222-4333-8444-555555555555"),
        (&["tokens", "rm", "none"], String::new(), "token_removed", "token none"),
    ] {
        refused(&server.cli_with(words, &text));
        let last = server.records().pop().unwrap();
        let found = (last["action"].as_str().unwrap(), last["subject"].as_str().unwrap(), &last["done"]);
        assert_eq!(found, (action, subject, &json!(false)), "{words:?}");
    }
    refused(&server.cli_with(&["create", "-f", "-"], &long));
    let last = server.records().pop().unwrap();
    let subject = last["subject"].as_str().unwrap();
    assert!(subject.starts_with("fleet_channel/nnn") && subject.chars().count() <= 1025, "{subject}");
    assert!(server.records().iter().all(|record| record["subject"] != ""));
}

#[test]
fn who_may_not_is_on_record_and_strangers_are_counted() {
    let (dir, server) = start();
    let viewer = server.token("viewer", "viewer");
    // The scheme is written in any case.
    let header = format!("authorization: bearer {viewer}\r\n");
    assert_eq!(request(server.addr, "GET", "/v1/fleet/counts", &header, "").0, 200);
    assert_eq!(request(server.addr, "POST", "/v1/fleet/commands", &header, "{}").0, 403);
    let last = server.records().pop().unwrap();
    let found = [&last["who"], &last["action"], &last["subject"], &last["from"], &last["detail"]["code"]];
    assert_eq!(found, ["token viewer", "request", "POST /v1/fleet/commands", "127.0.0.1", "forbidden"], "{last}");
    let before = server.records().len();
    for header in ["", "authorization: Bearer tfleet_x\r\n", "authorization: Basic eDp5\r\n"] {
        assert_eq!(request(server.addr, "POST", "/v1/fleet/commands", header, "{}").0, 401);
    }
    let metrics = server.metrics();
    assert!(metrics.contains("\nteleport_fleet_strangers_refused_total 3\n"), "{metrics}");
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(dir.path());
    let counted: u64 = server.records()[before..].iter().filter_map(|record| record["detail"]["count"].as_u64()).sum();
    assert_eq!(counted, 3, "{:?}", server.records());
    server.ok(&["audit", "verify"]);
}

#[test]
fn a_change_of_what_somebody_else_changed_meanwhile_is_refused() {
    let (_dir, server) = start();
    server.create(&groups(&["dev"]));
    let first = server.ok(&["get", "autoupdate_config"]);
    assert!(first.contains("revision: "), "{first}");
    let changed = first.replace("name: dev", "name: test");
    assert_ne!(first, changed);
    crate::support::done(&server.cli_with(&["update", "-f", "-"], &changed));
    let line = refused(&server.cli_with(&["update", "-f", "-"], &first));
    assert!(line.contains("changed since"), "{line}");
    let now = server.ok(&["get", "autoupdate_config"]);
    assert!(now.contains("name: test") && now != changed, "a write has a new revision");
    let line = refused(&server.cli_with(&["create", "-f", "-"], &first));
    assert!(line.contains("already"), "{line}");
}

#[test]
fn a_host_that_is_held_is_told_nothing_and_one_that_was_assigned_moves() {
    let (_dir, server) = rolling(&["dev", "prod"]);
    server.agents(&["start-update", "dev"]);
    let host = "11111111-2222-4333-8444-555555555555";
    let find = format!("/v1/webapi/find?group=dev&host={host}");
    assert_eq!(server.json(&find)["agent_auto_update"], true);
    server.until("the host is known", || server.cli(&["host", host, "hold"]).status.success());
    assert_eq!(server.json(&find)["agent_auto_update"], false);
    let explained = server.ok(&["explain", "--host", host, "--format", "json"]);
    let explained: Value = serde_json::from_str(&explained).unwrap();
    assert_eq!(explained["why"]["code"], "held", "{explained}");
    server.ok(&["host", host, "release"]);
    let other = "21111111-2222-4333-8444-555555555555";
    let find = format!("/v1/webapi/find?group=prod&host={other}");
    assert_eq!(server.json(&find)["agent_auto_update"], false);
    server.until("the host moves", || server.cli(&["host", other, "assign", "dev"]).status.success());
    assert_eq!(server.json(&find)["agent_auto_update"], true);
    let line = refused(&server.cli(&["host", other, "assign", "nobody"]));
    assert!(line.contains("nobody") && line.contains("dev, prod"), "{line}");
    let line = refused(&server.cli(&["host", "not-a-uuid", "hold"]));
    assert!(line.contains("not-a-uuid"), "{line}");
}

#[test]
fn an_approval_is_of_the_role_and_not_of_the_author() {
    let (_dir, server) = start();
    let config = groups(&["dev"]).replace("name: dev,", "name: dev, approval: operator,");
    server.create(&format!("{config}---\n{}", version("1.0.0", "1.1.0", "regular")));
    let line = refused(&server.cli(&["approve", "dev"]));
    assert!(line.contains("somebody else"), "{line}");
    let approve = |name: &str, role: &str, number: u32| {
        let body = json!({"id": uuid(number), "command": {"approve": {"groups": ["dev"]}}}).to_string();
        request(server.addr, "POST", "/v1/fleet/commands", &bearer(&server.token(name, role)), &body)
    };
    assert_eq!(approve("looks", "viewer", 1).0, 403);
    let (status, body) = approve("acts", "operator", 2);
    assert_eq!(status, 200, "{body}");
}
