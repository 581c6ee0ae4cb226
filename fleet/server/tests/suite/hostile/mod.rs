//! What strangers, broken disks and unlucky moments do to the server.

pub(crate) mod disk;
mod moved;
mod operators;
mod requests;

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{SOON, Server, rolling};

/// The id of a request that the tests send.
const ID: &str = "6c1f2a4e-4b0d-4d0e-9a53-0a7d0d1a1ae1";

/// Two groups, the first of which was started by hand.
fn started() -> (TempDir, Server) {
    let (dir, server) = rolling(&["dev", "prod"]);
    server.agents(&["start-update", "dev"]);
    (dir, server)
}

/// One request on the admin socket; `None` where the server ended before its answer was whole.
fn admin(dir: &Path, method: &str, path: &str, body: &str) -> Option<(u16, Value)> {
    let mut stream = UnixStream::connect(dir.join("admin.sock")).ok()?;
    stream.set_read_timeout(Some(SOON)).unwrap();
    let length = body.len();
    let head =
        format!("{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, serde_json::from_str(body).ok()?))
}

fn command(dir: &Path, id: &str, command: &Value) -> Option<(u16, Value)> {
    admin(dir, "POST", "/v1/fleet/commands", &json!({ "id": id, "command": command }).to_string())
}

fn halt_all() -> Value {
    json!({ "halt": { "groups": [], "all": true } })
}

/// The states of the groups.
fn states(dir: &Path) -> Vec<String> {
    let (status, rollout) = admin(dir, "GET", "/v1/fleet/rollout", "").unwrap();
    assert_eq!(status, 200, "{rollout}");
    let groups = rollout["status"]["groups"].as_array().unwrap();
    groups.iter().map(|group| group["state"].as_str().unwrap().to_owned()).collect()
}

/// Version and update of a flat find.
fn find(server: &Server, query: &str) -> (String, bool) {
    let answer = server.json(&format!("/v1/webapi/find?{query}"));
    (answer["agent_version"].as_str().unwrap().to_owned(), answer["agent_auto_update"].as_bool().unwrap())
}

/// The groups of the hosts that are known, by their ids.
fn places(dir: &Path) -> BTreeMap<String, String> {
    let (_, hosts) = admin(dir, "GET", "/v1/fleet/hosts?limit=1000", "").unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    hosts["hosts"].as_array().unwrap().iter().map(|host| (text(&host["host"]), text(&host["group"]))).collect()
}

/// Waits until the server knows so many hosts.
fn until_known(server: &Server, dir: &Path, count: usize) {
    server.until("hosts are known", || places(dir).len() == count);
}

/// Waits until it is on record that this host is known in this group.
fn until_in(server: &Server, dir: &Path, host: &str, group: &str) {
    server.until("the host is placed", || places(dir).get(host).is_some_and(|found| found == group));
}

fn host(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// Records of what was done under this name.
fn records(dir: &Path, action: &str) -> usize {
    let (_, page) = admin(dir, "GET", "/v1/fleet/audit?limit=1000", "").unwrap();
    let entries = page["entries"].as_array().unwrap();
    entries.iter().filter(|entry| entry["action"] == action && entry["done"] == true).count()
}

fn assert_audit_is_whole(dir: &Path) {
    let (status, verified) = admin(dir, "GET", "/v1/fleet/audit/verify", "").unwrap();
    assert_eq!((status, &verified["fault"]), (200, &Value::Null), "{verified}");
}

/// Whether a program is there; the test says what it does not do.
fn has(program: &str) -> bool {
    let found = Command::new(program).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    if !found {
        eprintln!("not tested: there is no {program}");
    }
    found
}
