//! A server that was down for longer than a day heard nobody: its hosts have not departed by that.

use serde_json::{Value, json};

use crate::hostile::disk::sql;
use crate::reports::host::{Host, epoch, together};
use crate::support::{Server, groups, start, version};

/// Hosts that the group has.
const HOSTS: u8 = 20;
/// How long the server was down, seconds: a day and an hour.
const DOWN: i64 = 90_000;

/// Everything that the store knows happened so long ago; false: there is no `sqlite3`.
fn make_older(dir: &std::path::Path) -> bool {
    let then = jiff::Timestamp::now() - jiff::SignedDuration::from_secs(DOWN);
    let paths =
        ["$.last_step", "$.rollout.last_step", "$.rollout.start_time"].map(|path| format!("'{path}', '{then}'"));
    let book = format!("UPDATE book SET json = json_set(json, {})", paths.join(", "));
    let hosts = format!("UPDATE host SET record = json_set(record, '$.heard', record ->> '$.heard' - {DOWN})");
    sql(dir, &book) && sql(dir, &hosts)
}

#[test]
fn hosts_of_a_server_that_was_down_for_a_day_are_let_go_by_canaries_all_the_same() {
    let (dir, server) = start();
    let policy = groups(&["dev", "prod"]).replace("name: dev,", "name: dev, canary_count: 2,");
    server.create(&format!("{policy}---\n{}", version("1.0.0", "1.1.0", "regular")));
    let said = |server: &Server, host: &Host| {
        let mut says = host.says(epoch(server), "1.0.0", None);
        says["update_id"] = host.id.replace("00000000-", "50000000-").into();
        assert_eq!(host.sends(server.addr, &says).0, 200);
    };
    let hosts: Vec<Host> = (1..=HOSTS).map(|number| Host::new(number, "dev")).collect();
    together(&hosts, |host| said(&server, host));
    assert_eq!(server.stop(), Some(0));
    if !make_older(dir.path()) {
        return;
    }
    let server = Server::start(dir.path());
    server.agents(&["start-update", "dev"]);
    let group = server.group("dev");
    assert_eq!((&group["state"], &group["initial_count"]), (&json!("canary"), &json!(HOSTS)), "{group}");
    together(&hosts, |host| said(&server, host));
    server.steps();
    server.until("both canaries are chosen", || server.group("dev")["canaries"].as_array().map(Vec::len) == Some(2));
    let canaries: Vec<Value> = server.group("dev")["canaries"].as_array().cloned().unwrap_or_default();
    let is_canary = |host: &Host| canaries.iter().any(|canary| canary["host_id"] == host.id.as_str());
    for host in &hosts {
        assert_eq!(host.asks(&server, Some(epoch(&server))).1, is_canary(host), "{}", host.id);
    }
}
