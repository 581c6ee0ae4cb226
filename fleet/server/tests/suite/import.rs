//! Hosts of other updaters, as Teleport's inventory lists them: who is known and counted by an import, and who not.

use std::path::Path;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::reports::host::{Host, epoch};
use crate::support::{Server, dir, done, groups, refused, request, version};

/// The UUID of host `number`.
fn uuid(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012x}")
}

/// What a test changes of [`instance`].
type Change<'a> = (&'a str, Value);

/// Host `number` as `tctl get instances --format json` writes it: counted in group `dev` with 1.0.0.
fn instance(number: u32, changes: &[Change<'_>]) -> Value {
    let mut instance = json!({
        "kind": "instance", "version": "v1", "metadata": { "name": uuid(number) },
        "spec": {
            "version": "1.0.0", "services": ["Node"], "hostname": format!("host-{number}"), "last_seen": ago(0),
            "external_upgrader": "binary", "external_upgrader_version": "1.0.0",
            "updater_info": { "update_group": "dev", "update_uuid": uuid(number + 0x1000), "updater_status": 1 },
        },
    });
    for (pointer, value) in changes {
        *instance.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer}")) = value.clone();
    }
    instance
}

/// So many seconds ago.
fn ago(seconds: i64) -> String {
    (Timestamp::now() - SignedDuration::from_secs(seconds)).to_string()
}

fn import(server: &Server, instances: &[Value], words: &[&str]) -> Value {
    let words: Vec<&str> = ["import", "-", "--format", "json"].iter().chain(words).copied().collect();
    serde_json::from_str(&done(&server.cli_with(&words, &json!(instances).to_string()))).unwrap()
}

/// Two groups, from 1.0.0 to 1.1.0.
fn server(dir: &Path) -> Server {
    let server = Server::start(dir);
    server.create(&format!("{}---\n{}", groups(&["dev", "prod"]), version("1.0.0", "1.1.0", "regular")));
    server
}

fn host(server: &Server, number: u32) -> Value {
    let host: Value = serde_json::from_str(&server.ok(&["host", &uuid(number), "--format", "json"])).unwrap();
    host["known"].clone()
}

fn report(server: &Server) -> Value {
    let report = server.ok(&["get", "autoupdate_agent_report/teleport-fleet", "--format", "json"]);
    serde_json::from_str::<Value>(&report).unwrap()["spec"].clone()
}

/// Hosts of every kind, ten of which can be known.
fn of_every_kind() -> Vec<Value> {
    let status = |number, status: Value| instance(number, &[("/spec/updater_info/updater_status", status)]);
    vec![
        instance(1, &[]),
        instance(2, &[("/spec/version", json!("v1.1.0"))]),
        instance(3, &[("/spec/updater_info/update_group", json!("prod"))]),
        instance(4, &[("/spec/external_upgrader", json!(""))]),
        instance(5, &[("/spec/external_upgrader", json!("unit"))]),
        instance(6, &[("/spec/updater_info", Value::Null)]),
        status(7, json!(2)),
        status(8, json!("UPDATER_STATUS_PINNED")),
        status(9, json!(4)),
        status(10, json!(99)),
        instance(11, &[("/spec/services", json!(["Auth", "Proxy"]))]),
        instance(12, &[("/spec/last_seen", json!(ago(3000)))]),
        instance(13, &[("/metadata/name", json!("123456789012-i-0abcdef"))]),
        instance(14, &[("/spec/version", json!("new"))]),
        instance(15, &[("/kind", json!("node"))]),
        instance(16, &[("/spec/last_seen", Value::Null)]),
    ]
}

#[test]
fn imported_hosts_are_known_and_counted_as_managed_updates_counts_also_after_a_kill() {
    let dir = dir();
    let server = server(dir.path());
    let told = import(&server, &of_every_kind(), &[]);
    let count = |group: &str, version: &str| json!({ "group": group, "version": version, "count": 1 });
    assert_eq!(told["new"], 10);
    assert_eq!(told["counts"], json!([count("dev", "1.0.0"), count("dev", "1.1.0"), count("prod", "1.0.0")]));
    let omitted = json!([
        { "count": 1, "reason": "agent cannot read updater status" },
        { "count": 1, "reason": "agent has no updater" },
        { "count": 1, "reason": "managed updates v1 updater does not support agent reports" },
        { "count": 1, "reason": "updater is disabled" },
        { "count": 1, "reason": "updater is pinning a specific version" },
        { "count": 1, "reason": "updater status is unknown" },
        { "count": 1, "reason": "updater version does not support agent reports" },
    ]);
    assert_eq!(told["omitted"], omitted);
    let passed_over: u64 =
        told["passed_over"].as_array().unwrap().iter().map(|one| one["count"].as_u64().unwrap()).sum();
    assert_eq!(passed_over, 6, "{told}");
    let shown = |server: &Server| {
        let known = host(server, 2);
        assert_eq!(
            (&known["version"], &known["group"], &known["update_id"]),
            (&json!("1.1.0"), &json!("dev"), &json!(uuid(0x1002)))
        );
        assert_eq!((&known["enrolled"], &known["state"]), (&json!(false), &json!("updated")), "it has no key");
        assert_eq!(host(server, 4)["state"], "excluded");
        assert_eq!(host(server, 4)["not_counted"], "agent has no updater");
        assert_eq!(host(server, 12), Value::Null);
        let report = report(server);
        assert_eq!(report["groups"]["dev"]["versions"], json!({ "1.0.0": { "count": 1 }, "1.1.0": { "count": 1 } }));
        assert_eq!(report["omitted"], omitted);
    };
    shown(&server);
    server.kill();
    let server = Server::start(dir.path());
    shown(&server);
    let text = server.ok(&["autoupdate", "agents", "report"]);
    assert!(text.contains("7 agents were omitted from the reports:"), "{text}");
}

#[test]
fn a_group_of_imported_hosts_goes_through_a_rollout_by_what_imports_say() {
    let dir = dir();
    let server = server(dir.path());
    let fleet = |version: &str| -> Vec<Value> {
        (1..=10).map(|number| instance(number, &[("/spec/version", json!(version))])).collect()
    };
    import(&server, &fleet("1.0.0"), &[]);
    server.ok(&["autoupdate", "agents", "start-update", "dev"]);
    assert_eq!(server.group("dev")["initial_count"], 10);
    let find = |number: u32| server.json(&format!("/v1/webapi/find?group=dev&host={}", uuid(number)));
    for number in 1..=10 {
        assert_eq!(find(number)["agent_auto_update"], true);
    }
    server.until("all were told", || server.group("dev")["in_flight_count"] == 10);
    // Eight of ten run it: less than nine of ten.
    let mut most = fleet("1.1.0");
    most.truncate(8);
    import(&server, &most, &[]);
    assert_eq!(
        (&server.group("dev")["up_to_date_count"], &server.group("dev")["state"]),
        (&json!(8), &json!("active"))
    );
    import(&server, &fleet("1.1.0")[8..9], &[]);
    server.until("the group is done", || server.group("dev")["state"] == "done");
    assert_eq!(host(&server, 9)["state"], "updated");
    assert_eq!(host(&server, 10)["state"], "told");
}

#[test]
fn an_import_that_is_older_or_comes_twice_turns_nothing_back() {
    let dir = dir();
    let server = server(dir.path());
    let old = instance(1, &[("/spec/last_seen", json!(ago(60)))]);
    let new = instance(1, &[("/spec/version", json!("1.1.0")), ("/spec/last_seen", json!(ago(30)))]);
    // Of one host listed twice the later word counts, whichever comes first.
    let told = import(&server, &[new.clone(), old.clone(), old.clone()], &[]);
    assert_eq!((&told["new"], &told["counts"][0]["version"]), (&json!(1), &json!("1.1.0")));
    assert_eq!(told["passed_over"], json!([{ "count": 2, "reason": "the same host is listed again" }]));
    for _ in 0..2 {
        let told = import(&server, std::slice::from_ref(&new), &[]);
        assert_eq!((&told["new"], &told["counts"][0]["count"]), (&json!(0), &json!(1)));
    }
    let told = import(&server, &[old], &[]);
    assert_eq!(told["passed_over"], json!([{ "count": 1, "reason": "a later import listed it already" }]));
    assert_eq!(host(&server, 1)["version"], "1.1.0");
    // The other cluster's hosts come beside them.
    assert_eq!(import(&server, &[instance(2, &[])], &[])["new"], 1);
    assert_eq!(report(&server)["groups"]["dev"]["versions"]["1.1.0"]["count"], 1);
    let list: Value = serde_json::from_str(&server.ok(&["hosts", "--format", "json"])).unwrap();
    assert_eq!(list.as_array().unwrap().len(), 2);
}

#[test]
fn an_imported_host_that_reports_is_one_host_and_speaks_for_itself_from_then_on() {
    let dir = dir();
    let server = server(dir.path());
    let own = Host::new(1, "prod");
    assert_eq!(own.id, uuid(1));
    import(&server, &[instance(1, &[]), instance(2, &[])], &[]);
    assert_eq!(own.sends(server.addr, &own.says(epoch(&server), "1.1.0", None)).0, 200);
    let told = import(&server, &[instance(1, &[]), instance(2, &[])], &[]);
    assert_eq!(told["passed_over"], json!([{ "count": 1, "reason": "reports by itself" }]));
    let known = host(&server, 1);
    assert_eq!(
        (&known["version"], &known["group"], &known["enrolled"]),
        (&json!("1.1.0"), &json!("prod"), &json!(true))
    );
    let report = report(&server);
    assert_eq!(report["groups"]["prod"]["versions"]["1.1.0"]["count"], 1);
    assert_eq!(report["groups"]["dev"]["versions"], json!({ "1.0.0": { "count": 1 } }));
}

#[test]
fn a_dry_run_says_who_would_be_counted_and_nobody_is() {
    let dir = dir();
    let server = server(dir.path());
    let words = ["import", "-", "--dry-run"];
    let text =
        done(&server.cli_with(&words, &json!([instance(1, &[]), instance(2, &[("/kind", json!("x"))])]).to_string()));
    assert!(text.starts_with("1 hosts would be imported, 1 of them new.\n") && text.contains("dev"), "{text}");
    assert!(text.contains("1 were passed over:\n- 1: is no instance\n"), "{text}");
    assert_eq!(server.ok(&["hosts", "--format", "json"]).trim(), "[]");
    let audit = server.ok(&["audit"]);
    assert!(!audit.contains("import"), "{audit}");
}

#[test]
fn only_an_operator_imports_and_it_is_on_record() {
    let dir = dir();
    let server = server(dir.path());
    let token = |role: &str| {
        let told = server.ok(&["tokens", "create", role, "--role", role]);
        told.split_whitespace().find(|word| word.starts_with("tfleet_")).unwrap().to_owned()
    };
    let body = |number: u32| json!({ "id": uuid(number), "instances": [instance(1, &[])] }).to_string();
    let send = |secret: &str, body: &str| {
        let header = format!("authorization: Bearer {secret}\r\n");
        request(server.addr, "POST", "/v1/fleet/import", &header, body)
    };
    assert_eq!(send("tfleet_guess", &body(1)).0, 401);
    assert_eq!(send(&token("viewer"), &body(1)).0, 403);
    assert_eq!(host(&server, 1), Value::Null);
    let operator = token("operator");
    let body = body(2);
    let first = send(&operator, &body);
    assert_eq!(first.0, 200, "{}", first.1);
    assert_eq!(send(&operator, &body), first, "sent again, it is answered the same and done once");
    let records: Vec<Value> =
        server.ok(&["audit", "--format", "json"]).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let imports: Vec<&Value> = records.iter().filter(|record| record["action"] == "import").collect();
    assert_eq!(imports.len(), 1, "{imports:?}");
    let found = [&imports[0]["who"], &imports[0]["from"], &imports[0]["subject"], &imports[0]["detail"]["new"]];
    assert_eq!(found, [&json!("token operator"), &json!("127.0.0.1"), &json!("1 instances"), &json!(1)]);
}

#[test]
fn a_hostile_import_is_refused_whole_or_passed_over() {
    let dir = dir();
    let server = server(dir.path());
    let text = |text: &str| server.cli_with(&["import", "-"], text);
    for broken in ["kind: instance", "[", "[1]", "{\"spec\": 1}", &"[".repeat(100_000)] {
        let line = refused(&text(broken));
        assert!(line.contains("tctl get instances"), "{line}");
    }
    // What is wrong in the last of many leaves the first as it was.
    let mut many: Vec<Value> = (1..=2500).map(|number| instance(number, &[])).collect();
    many.push(json!({ "spec": { "last_seen": "yesterday" } }));
    assert!(refused(&text(&json!(many).to_string())).contains("column"));
    assert_eq!(server.ok(&["hosts", "--format", "json"]).trim(), "[]");
    // More than a request may have is sent in parts.
    many.pop();
    assert_eq!(import(&server, &many, &[])["new"], 2500);
    let secret = server.ok(&["tokens", "create", "t", "--role", "operator"]);
    let secret = secret.split_whitespace().find(|word| word.starts_with("tfleet_")).unwrap();
    let header = format!("authorization: Bearer {secret}\r\n");
    let send = |body: &Value| request(server.addr, "POST", "/v1/fleet/import", &header, &body.to_string());
    let plain: Vec<Value> = (0..2001).map(|_| json!({})).collect();
    assert_eq!(send(&json!({ "id": uuid(1), "instances": plain })).0, 413);
    for body in
        [json!({ "instances": [] }), json!({ "id": "x", "instances": [] }), json!({ "id": uuid(2), "instances": {} })]
    {
        assert_eq!(send(&body).0, 400, "{body}");
    }
    let group = "/spec/updater_info/update_group";
    let told = import(
        &server,
        &[
            instance(1, &[(group, json!("\u{1b}[31m"))]),
            instance(2, &[(group, json!("g".repeat(257)))]),
            instance(3, &[("/metadata/name", json!("\u{0}"))]),
            instance(4, &[("/metadata/name", json!("00000000-0000-0000-0000-000000000000"))]),
        ],
        &[],
    );
    assert_eq!(told["passed_over"][0]["count"], 2, "{told}");
    assert_eq!(told["passed_over"][1]["count"], 2, "{told}");
    assert_eq!(told["counts"], json!([]));
    // Nothing of a huge number, and of a name that is no host's, is believed.
    let lie = instance(9, &[("/spec/last_seen", json!("2100-01-01T00:00:00Z"))]);
    import(&server, &[lie], &[]);
    let seen: Timestamp = host(&server, 9)["last_seen"].as_str().unwrap().parse().unwrap();
    assert!(seen <= Timestamp::now());
}

#[test]
fn the_inventorys_own_report_is_made_and_not_written() {
    let dir = dir();
    let server = server(dir.path());
    assert!(
        refused(&server.cli(&["get", "autoupdate_agent_report/teleport-fleet"])).contains("no autoupdate_agent_report")
    );
    import(&server, &[instance(1, &[])], &[]);
    let yaml = server.ok(&["get", "autoupdate_agent_report"]);
    let line = refused(&server.cli_with(&["create", "--force", "-f", "-"], &yaml));
    assert!(line.contains("own, made from what hosts say"), "{line}");
    refused(&server.cli(&["rm", "autoupdate_agent_report/teleport-fleet"]));
    // Another server takes it under another name, and both are shown.
    let other = yaml.replace("name: teleport-fleet", "name: other");
    done(&server.cli_with(&["create", "-f", "-"], &other));
    let list: Value =
        serde_json::from_str(&server.ok(&["get", "autoupdate_agent_report", "--format", "json"])).unwrap();
    let names: Vec<&str> =
        list.as_array().unwrap().iter().map(|one| one["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["teleport-fleet", "other"]);
}
