//! What the server asks of others: forwarded channels and external checks.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use crate::support::{Server, dir};

/// Another server on loopback: it answers everything with what it was given last, and counts.
struct Other {
    addr: SocketAddr,
    answer: Arc<Mutex<String>>,
    asked: Arc<AtomicU32>,
    last: Arc<Mutex<String>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Other {
    fn start(answer: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut other = Self {
            addr: listener.local_addr().unwrap(),
            answer: Arc::new(Mutex::new(answer.to_owned())),
            asked: Arc::default(),
            last: Arc::default(),
            is_over: Arc::default(),
            thread: None,
        };
        let (answer, asked) = (Arc::clone(&other.answer), Arc::clone(&other.asked));
        let (last, is_over) = (Arc::clone(&other.last), Arc::clone(&other.is_over));
        other.thread = Some(std::thread::spawn(move || {
            for stream in listener.incoming() {
                if is_over.load(Ordering::SeqCst) {
                    return;
                }
                let mut stream = stream.unwrap();
                *last.lock().unwrap() = whole(&mut stream);
                asked.fetch_add(1, Ordering::SeqCst);
                stream.write_all(answer.lock().unwrap().as_bytes()).ok();
            }
        }));
        other
    }

    fn set(&self, answer: &str) {
        answer.clone_into(&mut self.answer.lock().unwrap());
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        std::net::TcpStream::connect(self.addr).ok();
        self.thread.take().unwrap().join().ok();
    }
}

/// A request, up to the end of its head, or of its body of JSON.
fn whole(stream: &mut std::net::TcpStream) -> String {
    let mut text = String::new();
    let mut part = [0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut part) {
        text.push_str(&String::from_utf8_lossy(&part[..length]));
        let is_post = text.starts_with("POST");
        if (is_post && text.ends_with('}')) || (!is_post && text.ends_with("\r\n\r\n")) {
            break;
        }
    }
    text
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

#[test]
fn a_forwarded_channel_is_asked_once_a_minute_and_its_last_good_answer_stays() {
    let other = Other::start(&ok("v1.2.3\n"));
    let dir = dir();
    let server = Server::start(dir.path());
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
        let dir = dir();
        let server = Server::start(dir.path());
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
        let dir = dir();
        let server = Server::start(dir.path());
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
            let status = server.ok(&["autoupdate", "agents", "status", "--format", "json"]);
            let status: serde_json::Value = serde_json::from_str(&status).unwrap();
            let found = status["groups"][0]["state"].as_str().unwrap().to_owned();
            if state == "halted" { found == state } else { ["active", "done"].contains(&found.as_str()) }
        });
        let asked = other.last.lock().unwrap().clone();
        assert!(asked.starts_with("POST /gate ") && asked.contains("\"target_version\":\"1.1.0\""), "{asked}");
    }
}
