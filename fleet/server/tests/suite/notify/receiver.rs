//! A receiver of notifications on loopback, which can misbehave.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::support::loopback::{Loopback, Over, Stream};
use crate::support::whole_request;

/// How it answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum How {
    /// Takes it.
    Take,
    /// With this status and these header lines.
    Refuse(String),
    /// It closes the connection.
    Close,
    /// It says nothing, for ever.
    Hang,
    /// A header without end.
    EndlessHeader,
    /// It takes it, with a body without end.
    EndlessBody,
}

/// A request.
#[derive(Debug, Clone)]
pub(super) struct Told {
    head: String,
    /// Its body.
    pub(super) body: String,
    /// It was answered with 200.
    pub(super) is_taken: bool,
}

impl Told {
    /// A header's value.
    pub(super) fn header(&self, name: &str) -> String {
        let mut lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).unwrap_or_default()
    }

    /// Its body.
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }

    /// What it is about.
    pub(super) fn kind(&self) -> String {
        self.json()["kind"].as_str().unwrap().to_owned()
    }
}

/// See the module.
pub(super) struct Receiver {
    /// Where it listens.
    pub(super) addr: SocketAddr,
    shared: Arc<Shared>,
    _server: Loopback,
}

struct Shared {
    how: Mutex<How>,
    told: Mutex<Vec<Told>>,
}

impl Receiver {
    /// One that speaks plain HTTP.
    pub(super) fn start(how: How) -> Self {
        Self::with(how, None)
    }

    /// With TLS, where there is a configuration.
    pub(super) fn with(how: How, tls: Option<Arc<rustls::ServerConfig>>) -> Self {
        let shared = Arc::new(Shared { how: Mutex::new(how), told: Mutex::default() });
        let own = Arc::clone(&shared);
        let server = Loopback::start(Loopback::place(), tls, move |stream, over| own.answer(stream, over));
        Self { addr: server.addr, shared, _server: server }
    }

    /// From now on it answers so.
    pub(super) fn set(&self, how: How) {
        *self.shared.how.lock().unwrap() = how;
    }

    /// All requests so far.
    pub(super) fn told(&self) -> Vec<Told> {
        self.shared.told.lock().unwrap().clone()
    }

    /// Those that it took, without the heads of the audit log.
    pub(super) fn taken(&self) -> Vec<Told> {
        self.told().into_iter().filter(|told| told.is_taken && told.kind() != "audit_head").collect()
    }

    /// What those are about.
    pub(super) fn kinds(&self) -> Vec<String> {
        self.taken().iter().map(Told::kind).collect()
    }
}

impl Shared {
    fn answer(&self, stream: &mut dyn Stream, over: &Over) {
        let Some((head, body)) = whole_request(stream) else { return };
        // One lock: what is set afterwards is for later requests.
        let how = {
            let how = self.how.lock().unwrap();
            let is_taken = matches!(*how, How::Take | How::EndlessBody);
            self.told.lock().unwrap().push(Told { head, body, is_taken });
            how.clone()
        };
        match how {
            How::Take => drop(stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 2\r\n\r\nok")),
            How::Refuse(status) => {
                let answer = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
                stream.write_all(answer.as_bytes()).ok();
            }
            How::Close => {}
            How::Hang => over.hang(),
            How::EndlessHeader => {
                stream.write_all(b"HTTP/1.1 200 OK\r\nx: ").ok();
                over.flood(stream);
            }
            How::EndlessBody => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").ok();
                over.flood(stream);
            }
        }
        stream.flush().ok();
    }
}
