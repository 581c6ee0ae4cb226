//! What the server asks of others: forwarded channels and external checks.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::loopback::{Loopback, Stream};
use crate::support::{start, whole_request};

/// Another server on loopback: it answers everything with what it was given last, and counts.
struct Other {
    addr: SocketAddr,
    answer: Arc<Mutex<String>>,
    asked: Arc<AtomicU32>,
    last: Arc<Mutex<String>>,
    _server: Loopback,
}

impl Other {
    fn start(answer: &str) -> Self {
        let (answer, last) = (Arc::new(Mutex::new(answer.to_owned())), Arc::<Mutex<String>>::default());
        let asked = Arc::<AtomicU32>::default();
        let (own, count, told) = (Arc::clone(&answer), Arc::clone(&asked), Arc::clone(&last));
        let server = Loopback::start(Loopback::place(), None, move |stream: &mut dyn Stream, _| {
            let Some((head, body)) = whole_request(stream) else { return };
            *told.lock().unwrap() = format!("{head}\r\n\r\n{body}");
            count.fetch_add(1, Ordering::SeqCst);
            stream.write_all(own.lock().unwrap().as_bytes()).ok();
        });
        Self { addr: server.addr, answer, asked, last, _server: server }
    }

    fn set(&self, answer: &str) {
        answer.clone_into(&mut self.answer.lock().unwrap());
    }
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn a_forwarded_channel_is_asked_once_a_minute_and_its_last_good_answer_stays() {
    let other = Other::start(&ok("v1.2.3\n"));
    let (_dir, server) = start();
    let url = format!("http://{}/v1/stable", other.addr);
    server.create(&format!(
        "kind: fleet_channel\nversion: v1\nmetadata: {{name: stable}}\nspec: {{forward_url: '{url}'}}\n"
    ));
    for _ in 0..5 {
        assert_eq!(server.get("/v1/stable/version"), (200, "1.2.3\n".to_owned()));
    }
    assert_eq!(other.asked.load(Ordering::SeqCst), 1);
    other.set("HTTP/1.1 500 Broken\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
    assert_eq!(server.get("/v1/stable/version").0, 200);
    assert_eq!(server.get("/v1/stable/critical"), (200, "no".to_owned()), "what cannot be asked is not critical");
}

#[test]
fn a_forwarded_channel_that_redirects_lies_or_is_not_there_has_no_version() {
    for answer in [
        "HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            .to_owned(),
        ok("latest"),
        ok(&"1".repeat(100_000)),
        "garbage".to_owned(),
    ] {
        let other = Other::start(&answer);
        let (_dir, server) = start();
        let url = format!("http://{}/x", other.addr);
        server.create(&format!(
            "kind: fleet_channel\nversion: v1\nmetadata: {{name: c}}\nspec: {{forward_url: '{url}'}}\n"
        ));
        let (status, body) = server.get("/v1/c/version");
        assert_eq!(status, 502, "{body}");
    }
}

/// A group whose window is open and that waits for its check alone.
#[test]
fn an_external_check_opens_the_gate_and_stop_halts_the_group() {
    for (answer, state) in [("{\"answer\":\"go\"}", "done_or_active"), ("{\"answer\":\"stop\"}", "halted")] {
        let other = Other::start(&ok(answer));
        let (_dir, server) = start();
        // A critical version knows no windows.
        let config = format!(
            "kind: cluster_maintenance_config\nversion: v1\nspec:\n  agent_auto_update: on\n  agent_auto_update_groups:\n    \
             regular:\n      - {{name: dev, gate: {{url: 'http://{}/gate', timeout_seconds: 5}}}}\n",
            other.addr
        );
        let version = "kind: autoupdate_version\nversion: v1\nspec: {agent_start_version: 1.0.0, agent_version: 1.1.0, \
                       agent_version_schedule: critical}\n";
        server.create(&format!("{config}---\n{version}"));
        server.until("the answer", || {
            let status = server.agents(&["status", "--format", "json"]);
            let status: serde_json::Value = serde_json::from_str(&status).unwrap();
            let found = status["groups"][0]["state"].as_str().unwrap().to_owned();
            if state == "halted" { found == state } else { ["active", "done"].contains(&found.as_str()) }
        });
        let asked = other.last.lock().unwrap().clone();
        assert!(asked.starts_with("POST /gate ") && asked.contains("\"target_version\":\"1.1.0\""), "{asked}");
    }
}
