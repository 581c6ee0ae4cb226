//! A server that answers what a test tells it, in that order, and remembers what it was asked; and a verb carried out against it.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;

use clap::Parser;
use fleet_cli::{Console, Editor, FleetCli};
use serde_json::{Value, json};
use tempfile::TempDir;

/// What the server does with a question.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// Answers with this status and body.
    Answer(u16, Vec<u8>),
    /// Reads the question and closes the connection.
    Break,
    /// Promises a longer body than it sends.
    Cut(Vec<u8>),
}

impl Reply {
    pub(crate) fn json(value: &Value) -> Self {
        Self::Answer(200, value.to_string().into_bytes())
    }

    pub(crate) fn refused(status: u16, code: &str, message: &str) -> Self {
        Self::Answer(status, json!({ "error": { "code": code, "message": message } }).to_string().into_bytes())
    }
}

/// A question as it came.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Lower-case names.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl Asked {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn id(&self) -> String {
        self.body["id"].as_str().unwrap().to_owned()
    }
}

/// The server; its socket is in a directory that goes with it.
pub(crate) struct Server {
    pub(crate) directory: TempDir,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// Gives one reply after the other, one connection each; returns what is asked.
fn serving<S: Read + Write + Send + 'static>(
    mut accept: impl FnMut() -> S + Send + 'static,
    replies: impl IntoIterator<Item = Reply>,
) -> Arc<Mutex<Vec<Asked>>> {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (replies, seen) = (replies.into_iter().collect::<Vec<_>>(), asked.clone());
    thread::spawn(move || replies.iter().for_each(|reply| serve(accept(), reply, &seen)));
    asked
}

pub(crate) fn socket(directory: &TempDir) -> PathBuf {
    directory.path().join("admin.sock")
}

impl Server {
    pub(crate) fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(socket(&directory)).unwrap();
        let asked = serving(move || listener.accept().unwrap().0, replies);
        Self { directory, asked }
    }

    /// The same at an address.
    pub(crate) fn at_an_address(replies: impl IntoIterator<Item = Reply>) -> (Self, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = serving(move || listener.accept().unwrap().0, replies);
        (Self { directory: tempfile::tempdir().unwrap(), asked }, url)
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Carries out what stands behind `teleport-fleet`.
    pub(crate) fn run(&self, arguments: &[&str]) -> Done {
        self.run_with(arguments, "", "false")
    }

    pub(crate) fn run_with(&self, arguments: &[&str], input: &str, editor: &str) -> Done {
        let socket = socket(&self.directory);
        let all = ["teleport-fleet", "--admin-socket", socket.to_str().unwrap()];
        let all: Vec<&str> = all.into_iter().chain(arguments.iter().copied()).collect();
        carry_out(&all, input, Editor { command: editor.into(), directory: self.directory.path().to_owned() })
    }
}

/// How a verb ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) status: u8,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    pub(crate) fn ok(out: &str) -> Self {
        Self { status: 0, out: out.to_owned(), err: String::new() }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap()
    }
}

pub(crate) fn carry_out(arguments: &[&str], input: &str, editor: Editor) -> Done {
    let cli = FleetCli::try_parse_from(arguments).unwrap();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let zone = jiff::tz::TimeZone::UTC;
    let mut input = input.as_bytes();
    let console = Console {
        input: &mut input,
        out: &mut out,
        err: &mut err,
        is_colourful: false,
        is_in_place: false,
        editor,
        zone,
    };
    let status = fleet_cli::run_on(&cli.verb, &cli.global, console);
    Done { status, out: String::from_utf8(out).unwrap(), err: String::from_utf8(err).unwrap() }
}

pub(crate) fn serve(mut stream: impl Read + Write, reply: &Reply, asked: &Mutex<Vec<Asked>>) {
    let question = read(&mut stream);
    asked.lock().unwrap().push(question);
    let (status, body, length) = match reply {
        Reply::Answer(status, body) => (*status, body, body.len()),
        Reply::Cut(body) => (200, body, body.len() + 1),
        Reply::Break => return,
    };
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\ncontent-type: application/json\r\n\r\n");
    // A client that has read enough may be gone.
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body)).and_then(|()| stream.flush());
}

fn read(stream: &mut impl Read) -> Asked {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        headers.push((name.to_lowercase(), value.to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
    Asked { method, path, headers, body }
}

/// A rollout as `fleet_wire::answers::show::rollout` writes it.
pub(crate) fn rollout(strategy: &str, state: &str, groups: Vec<Value>) -> Value {
    json!({
        "kind": "autoupdate_agent_rollout",
        "version": "v1",
        "metadata": { "name": "autoupdate-agent-rollout" },
        "spec": {
            "start_version": "1.2.3",
            "target_version": "1.2.4",
            "schedule": "regular",
            "autoupdate_mode": "enabled",
            "strategy": strategy,
        },
        "status": { "groups": groups, "start_time": "2025-01-15T02:00:00Z", "state": state },
    })
}

/// A group of it; `more` overrides.
pub(crate) fn group(name: &str, state: &str, start: Option<&str>, reason: &str, more: &Value) -> Value {
    let mut group = json!({
        "name": name,
        "state": state,
        "start_time": start,
        "last_update_time": "2025-01-15T02:00:30Z",
        "last_update_reason": reason,
        "config_days": ["*"],
        "config_start_hour": 2,
        "config_wait_hours": 0,
        "initial_count": 0,
        "present_count": 0,
        "up_to_date_count": 0,
        "pending_count": 0,
        "let_go_count": 0,
        "in_flight_count": 0,
        "updated_count": 0,
        "failed_count": 0,
        "timed_out_count": 0,
        "silent_count": 0,
        "excluded_count": 0,
        "attempt": 1,
        "why": { "code": "done", "since": "2025-01-15T02:00:30Z", "until": null, "who": "hosts" },
    });
    for (key, value) in more.as_object().unwrap() {
        group[key] = value.clone();
    }
    group
}
