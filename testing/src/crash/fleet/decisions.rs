//! Every decision that is cut short.

use serde_json::{Value, json};

use super::decision::{Again, Decision, Durable};
use super::host;
use super::http::{Answer, Request};
use super::server::Server;

/// The id of the request that is cut short, and sent again.
const ID: &str = "6c1f2a4e-4b0d-4d0e-9a53-0a7d0d1a1ae1";
/// Hosts of the fleet, in one group of which one is let go at a time.
const HOSTS: u32 = 4;

const DECISION: Decision = Decision {
    name: "",
    prepare: |_| None,
    is_made: |_| true,
    is_answer: |_| true,
    durable: Durable::Answered,
    step: &[],
    again: Again::Same,
    holds: |_| Ok(()),
};

/// Every one of them.
const ALL: &[Decision] = &[
    Decision {
        name: "create",
        prepare: |server| {
            groups(server, "");
            Some(write("create", &format!("{}---\n{}", channel("one", "1.0.1"), channel("two", "1.0.2"))))
        },
        is_made: |view| view["/v1/one/version"] == "1.0.1\n" && view["/v1/two/version"] == "1.0.2\n",
        ..DECISION
    },
    Decision {
        name: "version",
        prepare: |server| {
            started(server, "");
            Some(write("replace", &version("1.1.0", "1.2.0")))
        },
        is_made: |view| view["rollout"]["spec"]["target_version"] == "1.2.0" && view["rollouts"][0]["spec"].is_object(),
        ..DECISION
    },
    Decision {
        name: "remove",
        prepare: |server| {
            server.done(&write_as(1, "create", &channel("one", "1.0.1")));
            Some(Request::delete(&format!("/v1/fleet/resources/fleet_channel/one?id={ID}")))
        },
        is_made: |view| view["/v1/one/version"] != "1.0.1\n" && view["fleet_channel"] == json!([]),
        ..DECISION
    },
    Decision {
        name: "start-update",
        prepare: |server| {
            groups(server, "");
            Some(command(ID, &start()))
        },
        is_made: |view| is_told(view) && states(view) == ["active", "unstarted"],
        ..DECISION
    },
    Decision {
        name: "halt-all",
        prepare: |server| {
            started(server, "");
            Some(command(ID, &halt()))
        },
        is_made: |view| !is_told(view) && states(view) == ["halted", "halted"],
        ..DECISION
    },
    Decision {
        name: "run-all",
        prepare: |server| {
            started(server, "");
            server.done(&command(&id(1), &halt()));
            Some(command(ID, &json!({ "run": { "groups": [], "all": true } })))
        },
        is_made: |view| is_told(view) && states(view) == ["active", "unstarted"],
        ..DECISION
    },
    Decision {
        name: "rollback",
        prepare: |server| {
            started(server, "");
            let back = json!({ "rollback": { "groups": ["dev"], "all_started": false, "at_once": false } });
            Some(command(ID, &back))
        },
        is_made: |view| states(view)[0] == "rolledback" && view[DEV]["agent_version"] == "1.0.0",
        ..DECISION
    },
    Decision {
        name: "told",
        prepare: |server| {
            started(server, ", max_in_flight: 25%");
            let next = hosts(server).into_iter().find(|(_, state)| state == "let_go").map(|(host, _)| host);
            Some(Request::host(&question(&next.expect("a host is let go"))))
        },
        is_made: |view| {
            let hosts = view["hosts?limit=1000"]["hosts"].as_array();
            hosts.is_some_and(|hosts| hosts.iter().any(|host| host["state"] == "told"))
        },
        is_answer: |answer| answer.json()["agent_auto_update"] == true,
        durable: Durable::Soon,
        step: &[],
        again: Again::Alike,
        holds: |server| {
            let is_told = |host: &u32| {
                let answer = server.ask(&Request::host(&question(&id(*host))));
                answer.is_some_and(|answer| answer.json()["agent_auto_update"] == true)
            };
            let told = (1..=HOSTS).filter(is_told).count();
            if told == 1 { Ok(()) } else { Err(format!("{told} hosts are told to update at a time, 1 is the cap")) }
        },
    },
    Decision {
        name: "hold",
        prepare: |server| {
            started(server, "");
            let held = json!({ "id": ID, "decision": "hold" });
            Some(Request::post(&format!("/v1/fleet/hosts/{}", id(1)), &held))
        },
        is_made: |view| {
            let hosts = view["hosts?limit=1000"]["hosts"].as_array();
            hosts.is_some_and(|hosts| hosts.iter().filter(|host| host["held"] == true).count() == 1)
        },
        // What the host is told, and since when, is of the time of the answer.
        again: Again::Alike,
        ..DECISION
    },
    Decision {
        name: "report",
        prepare: |server| {
            groups(server, "");
            Some(write("create", &report()))
        },
        is_made: |view| view["autoupdate_agent_report"][0]["name"] == "elsewhere",
        ..DECISION
    },
    Decision {
        name: "host-report",
        prepare: |server| {
            groups(server, "");
            Some(host::report(server, &id(1), 1, &Value::Null))
        },
        is_made: |view| {
            let host = &view["hosts?limit=1000"]["hosts"][0];
            host["version"] == "1.0.0" && present(view) == 1
        },
        durable: Durable::Stepped,
        again: Again::Old,
        ..DECISION
    },
    Decision {
        name: "host-report-halts",
        prepare: |server| {
            groups(server, ", max_failed_before_halt: 0%");
            for number in 1..=HOSTS {
                server.done(&host::report(server, &id(number), 1, &Value::Null));
            }
            server.done(&command(&id(91), &start()));
            let failed = json!({
                "from": "1.0.0", "to": "1.1.0", "at": "2026-01-05T12:00:00Z", "outcome": "rolled_back", "code": "unhealthy",
            });
            Some(host::report(server, &id(1), 2, &failed))
        },
        is_made: |view| states(view)[0] == "halted",
        durable: Durable::Stepped,
        step: &[DEV, "audit"],
        again: Again::Old,
        ..DECISION
    },
    Decision {
        name: "token",
        prepare: |_| {
            Some(Request::post(
                "/v1/fleet/tokens",
                &json!({ "id": ID, "name": "ci", "role": "operator", "expires": null }),
            ))
        },
        is_made: |view| view["tokens"][0]["name"] == "ci",
        is_answer: |answer| answer.json()["secret"].as_str().is_some_and(|secret| secret.starts_with("tfleet_")),
        again: Again::Refused,
        ..DECISION
    },
    Decision {
        name: "token-removal",
        prepare: |server| {
            let token = json!({ "id": id(1), "name": "ci", "role": "operator", "expires": null });
            server.done(&Request::post("/v1/fleet/tokens", &token));
            Some(Request::delete(&format!("/v1/fleet/tokens/ci?id={ID}")))
        },
        is_made: |view| view["tokens"] == json!([]),
        ..DECISION
    },
    Decision {
        name: "backup",
        prepare: |server| {
            started(server, "");
            Some(Request::get("/v1/fleet/backup"))
        },
        is_answer: is_database,
        durable: Durable::Never,
        again: Again::Alike,
        ..DECISION
    },
    Decision {
        name: "start",
        prepare: |server| {
            started(server, "");
            server.done(&command(&id(1), &halt()));
            None
        },
        is_made: |view| !is_told(view) && states(view) == ["halted", "halted"],
        ..DECISION
    },
];

/// Their names.
pub const NAMES: [&str; ALL.len()] = {
    let mut names = [""; ALL.len()];
    let mut index = 0;
    while index < ALL.len() {
        names[index] = ALL[index].name;
        index += 1;
    }
    names
};

/// The decision of this name.
///
/// # Panics
/// If there is none.
pub fn decision(name: &str) -> Decision {
    *ALL.iter().find(|known| known.name == name).unwrap_or_else(|| panic!("there is no decision {name}"))
}

/// What a stranger asks of the first group, as a view has it.
const DEV: &str = "/v1/webapi/find?group=dev";

fn is_told(view: &Value) -> bool {
    view[DEV]["agent_auto_update"] == true
}

fn states(view: &Value) -> Vec<&str> {
    let groups = view["rollout"]["status"]["groups"].as_array();
    groups.into_iter().flatten().filter_map(|group| group["state"].as_str()).collect()
}

/// Hosts that are counted in the first group.
fn present(view: &Value) -> u64 {
    view["rollout"]["status"]["groups"][0]["present_count"].as_u64().unwrap_or_default()
}

/// UUIDs of hosts, and of requests that prepare.
fn id(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

fn question(host: &str) -> String {
    format!("/v1/webapi/find?host={host}&group=dev")
}

fn write(how: &str, text: &str) -> Request {
    Request::post("/v1/fleet/resources", &json!({ "id": ID, "how": how, "text": text }))
}

fn write_as(number: u32, how: &str, text: &str) -> Request {
    Request::post("/v1/fleet/resources", &json!({ "id": id(number), "how": how, "text": text }))
}

fn command(id: &str, command: &Value) -> Request {
    Request::post("/v1/fleet/commands", &json!({ "id": id, "command": command }))
}

fn start() -> Value {
    json!({ "start": { "groups": ["dev"], "force": false } })
}

fn halt() -> Value {
    json!({ "halt": { "groups": [], "all": true } })
}

fn channel(name: &str, version: &str) -> String {
    format!("kind: fleet_channel\nversion: v1\nmetadata: {{name: {name}}}\nspec: {{static_version: {version}}}\n")
}

fn version(start: &str, target: &str) -> String {
    format!(
        "kind: autoupdate_version\nversion: v1\nmetadata: {{name: autoupdate-version}}\nspec:\n  agents: {{start_version: \
         {start}, target_version: {target}, schedule: regular, mode: enabled}}\n"
    )
}

fn report() -> String {
    let now = jiff::Timestamp::now();
    format!(
        "kind: autoupdate_agent_report\nversion: v1\nmetadata: {{name: elsewhere}}\nspec:\n  timestamp: {now}\n  groups:\n    \
         dev: {{versions: {{1.0.0: {{count: 7}}}}}}\n"
    )
}

/// Two groups, neither of which starts by itself while a suite runs. `keys` are further ones of each.
fn groups(server: &Server, keys: &str) {
    // Half a day from now.
    let hour = (jiff::Timestamp::now().as_second() / 3600 + 12) % 24;
    let group = |name| format!("      - {{name: {name}, days: ['*'], start_hour: {hour}{keys}}}\n");
    let config = format!(
        "kind: autoupdate_config\nversion: v1\nmetadata: {{name: autoupdate-config}}\nspec:\n  agents:\n    mode: \
         enabled\n    strategy: halt-on-error\n    schedules:\n      regular:\n{}{}",
        group("dev"),
        group("prod")
    );
    server.done(&write_as(90, "replace", &format!("{config}---\n{}", version("1.0.0", "1.1.0"))));
}

/// The same with hosts that asked, and the first group started.
fn started(server: &Server, keys: &str) {
    groups(server, keys);
    for host in 1..=HOSTS {
        server.done(&Request::host(&question(&id(host))));
    }
    server.until("the hosts are known", || hosts(server).len() == HOSTS as usize);
    server.done(&command(&id(91), &start()));
}

/// Hosts that are known, with their states.
fn hosts(server: &Server) -> Vec<(String, String)> {
    let told = server.done(&Request::get("/v1/fleet/hosts?limit=1000"));
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    told["hosts"].as_array().into_iter().flatten().map(|host| (text(&host["host"]), text(&host["state"]))).collect()
}

/// A whole database, as far as SQLite can say, with its audit log.
fn is_database(answer: &Answer) -> bool {
    let check = || {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("copy.db");
        std::fs::write(&path, &answer.body)?;
        let database = rusqlite::Connection::open(&path)?;
        let found: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0))?;
        let records: u32 = database.query_row("SELECT count(*) FROM audit", [], |row| row.get(0))?;
        Ok::<bool, Box<dyn std::error::Error>>(found == "ok" && records > 0)
    };
    check().unwrap_or(false)
}
