//! Asks a running server: HTTP/1.1 over its admin socket, or over TLS with a token; a connection a question.

mod answer;
mod connect;
mod target;

use std::cell::Cell;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use ureq::http::{Method, Request, Response, StatusCode};
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::DefaultConnector;
use ureq::{Agent, Body, Error};

use crate::args::GlobalArgs;
use crate::failure::Failure;
pub(crate) use answer::{Answer, AnswerPage};
use connect::ApiConnector;
use target::ServerAddress;
pub use target::trusting;

/// Longest wait for a connection with its TLS handshake, seconds: a host near or far answers within one.
const CONNECT: Duration = Duration::from_secs(5);
/// Longest wait for an answer, seconds: a write may step a million hosts first.
const ANSWER: Duration = Duration::from_secs(30);
/// Waits before a question whose connection broke is sent again: a server that restarts is back within about a second.
const AGAIN: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];
/// What a server says of a path that it does not have: its metrics listener does so, and a server of another version.
const NOWHERE: &str = "there is nothing at this path";
/// Largest answer that is read whole, bytes: a thousand hosts with 64 labels each take less.
const LARGEST: u64 = 32 << 20;

/// A question.
#[derive(Debug, Clone)]
pub(crate) struct ApiCall {
    method: Method,
    /// Path and query.
    path: String,
    body: Option<Vec<u8>>,
    /// It asks what would be, and changes nothing.
    is_dry: bool,
}

impl ApiCall {
    /// Asks for what is at `path`.
    pub(crate) fn get(path: impl Into<String>) -> Self {
        Self { method: Method::GET, path: path.into(), body: None, is_dry: false }
    }

    /// Removes what is at `path`.
    pub(crate) fn delete(path: impl Into<String>) -> Self {
        Self { method: Method::DELETE, path: path.into(), body: None, is_dry: false }
    }

    /// Sends `body`; its id makes that it acts once, however often it is sent.
    ///
    /// # Errors
    /// The body is no JSON: a defect.
    pub(crate) fn post(path: impl Into<String>, body: &impl Serialize) -> Result<Self, Failure> {
        let body = serde_json::to_vec(body).map_err(|error| Failure::local("cannot write the question", error))?;
        Ok(Self { method: Method::POST, path: path.into(), body: Some(body), is_dry: false })
    }

    /// The same, where `body` becomes what is at `path`.
    ///
    /// # Errors
    /// As of [`Self::post`].
    pub(crate) fn put(path: impl Into<String>, body: &impl Serialize) -> Result<Self, Failure> {
        Ok(Self { method: Method::PUT, ..Self::post(path, body)? })
    }

    /// Where `is_dry`, it asks what would be: its body, or its query, says so to the server.
    pub(crate) fn dry(self, is_dry: bool) -> Self {
        Self { is_dry, ..self }
    }

    fn changes(&self) -> bool {
        self.method != Method::GET && !self.is_dry
    }
}

/// Where a question failed: what may have happened decides whether it is sent again.
enum CallFault {
    /// Nothing was sent, or it would be answered alike again.
    Final(Failure),
    /// The connection broke after it was sent.
    Broken(String),
}

/// The server that verbs ask.
#[derive(Debug)]
pub struct ApiClient {
    agent: Agent,
    target: ServerAddress,
    /// A connection was made since a question was sent.
    connected: Arc<AtomicBool>,
    /// The server answered that it changed something.
    has_changed: Cell<bool>,
}

impl ApiClient {
    /// The server that `global` names; `err` is told if others may read its token.
    ///
    /// # Errors
    /// An address that cannot be asked, and a file of token or certificates that cannot be read.
    pub fn new(global: &GlobalArgs, err: &mut dyn Write) -> Result<Self, Failure> {
        let target = ServerAddress::of(global)?;
        if let Some(what) = global.token_file.as_deref().and_then(crate::file::open_to_all) {
            // It is no reason to fail.
            let _ = writeln!(err, "warning: {}: chmod 600", fleet_wire::text::clean(&what));
        }
        let config = Agent::config_builder()
            // The token goes to the server that was named, and to nobody else.
            .proxy(None)
            .max_redirects(0)
            .http_status_as_error(false)
            .max_idle_connections(0)
            .timeout_resolve(Some(CONNECT))
            .timeout_connect(Some(CONNECT))
            .timeout_send_request(Some(ANSWER))
            .timeout_send_body(Some(ANSWER))
            .timeout_recv_response(Some(ANSWER))
            .tls_config(target.tls.clone().unwrap_or_default())
            .build();
        let connected = Arc::new(AtomicBool::new(false));
        let reach = ApiConnector {
            socket: target.socket.clone(),
            network: DefaultConnector::new(),
            connected: connected.clone(),
        };
        let agent = Agent::with_parts(config, reach, DefaultResolver::default());
        Ok(Self { agent, target, connected, has_changed: Cell::new(false) })
    }

    /// Asks, and reads the answer.
    ///
    /// # Errors
    /// The server's refusal; or why it could not be asked, or understood.
    pub(crate) fn ask<T: DeserializeOwned>(&self, question: &ApiCall) -> Result<T, Failure> {
        let bytes = self.until_answered(question)?;
        self.has_changed.set(self.has_changed.get() || question.changes());
        serde_json::from_slice(&bytes).map_err(|error| self.misunderstood(&error.to_string()))
    }

    /// Asks for an answer that is read as it comes, and may never end: a stream of lines, or a file.
    ///
    /// # Errors
    /// As [`ApiClient::ask`].
    pub(crate) fn open(&self, question: &ApiCall) -> Result<impl Read + use<>, Failure> {
        match self.send(question, None) {
            Ok(answer) => Ok(answer.into_body().into_reader()),
            Err(CallFault::Final(failure)) => Err(failure),
            Err(CallFault::Broken(why)) => Err(self.broken(question, &why)),
        }
    }

    /// Whether the server changed something that it was asked to.
    pub(crate) fn has_changed(&self) -> bool {
        self.has_changed.get()
    }

    /// Sends the question again where its connection broke: its id makes that a change is made once.
    fn until_answered(&self, question: &ApiCall) -> Result<Vec<u8>, Failure> {
        let mut again = AGAIN.into_iter();
        let mut broke = false;
        loop {
            let why = match self.once(question) {
                Ok(bytes) => return Ok(bytes),
                // It may have stopped while it answered.
                Err(CallFault::Final(failure)) if broke && failure.code == Failure::UNREACHABLE => failure.message,
                Err(CallFault::Final(failure)) => return Err(failure),
                Err(CallFault::Broken(why)) => why,
            };
            broke = true;
            match again.next() {
                Some(wait) => thread::sleep(wait),
                None => return Err(self.broken(question, &why)),
            }
        }
    }

    fn once(&self, question: &ApiCall) -> Result<Vec<u8>, CallFault> {
        let answer = self.send(question, Some(ANSWER))?;
        self.read(answer).map_err(|error| self.fault(question, error))
    }

    /// Sends the question and waits for the head of its answer, which is no refusal; `body`: the time for the rest.
    fn send(&self, question: &ApiCall, body: Option<Duration>) -> Result<Response<Body>, CallFault> {
        self.connected.store(false, Ordering::Relaxed);
        let answer = self.run(question, body).map_err(|error| self.fault(question, error))?;
        if answer.status().is_success() {
            return Ok(answer);
        }
        let status = answer.status();
        let said = self.read(answer).map_err(|error| self.fault(question, error))?;
        Err(CallFault::Final(self.refusal(status, &said)))
    }

    fn run(&self, question: &ApiCall, body: Option<Duration>) -> Result<Response<Body>, Error> {
        let mut request = Request::builder()
            .method(question.method.clone())
            .uri(format!("{}{}", self.target.url, question.path))
            .header(USER_AGENT, concat!("teleport-fleet/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, "application/json");
        if let Some(token) = &self.target.authorization {
            request = request.header(AUTHORIZATION, token);
        }
        let Some(sent) = &question.body else {
            let request = self.agent.configure_request(request.body(())?).timeout_recv_body(body).build();
            return self.agent.run(request);
        };
        let request = request.header(CONTENT_TYPE, "application/json").body(sent.as_slice())?;
        self.agent.run(self.agent.configure_request(request).timeout_recv_body(body).build())
    }

    fn read(&self, answer: Response<Body>) -> Result<Vec<u8>, Error> {
        answer.into_body().into_with_config().limit(LARGEST).read_to_vec()
    }

    fn fault(&self, question: &ApiCall, error: Error) -> CallFault {
        match error {
            error if !self.connected.load(Ordering::Relaxed) => {
                CallFault::Final(connect::unreachable(&self.target, error))
            }
            Error::BodyExceedsLimit(_) => {
                CallFault::Final(self.misunderstood(&format!("its answer is larger than {LARGEST} bytes")))
            }
            Error::Timeout(_) => CallFault::Final(self.late(question)),
            error => CallFault::Broken(error.into_io().to_string()),
        }
    }

    /// The server's own words; a proxy before it, or another server, has none of them.
    fn refusal(&self, status: StatusCode, body: &[u8]) -> Failure {
        #[derive(serde::Deserialize)]
        struct Refused {
            error: Failure,
        }
        match serde_json::from_slice::<Refused>(body) {
            Ok(Refused { error }) if error.message == NOWHERE => {
                let what = "it does not know this request: look at the port, and at the versions of the two programs";
                self.misunderstood(what)
            }
            Ok(refused) => refused.error,
            Err(_) => self.misunderstood(&format!("it answered HTTP {}", status.as_u16())),
        }
    }

    /// Why what was answered is no answer of the admin API.
    pub(crate) fn misunderstood(&self, what: &str) -> Failure {
        let message = format!("{self} does not answer as a teleport-fleet server: {what}");
        Failure::new(Failure::BAD_ANSWER, message)
    }

    fn late(&self, question: &ApiCall) -> Failure {
        let message =
            format!("{self} did not answer within {} s{}", ANSWER.as_secs(), what_happened(question.changes()));
        Failure::new(Failure::NO_ANSWER, message)
    }

    fn broken(&self, question: &ApiCall, why: &str) -> Failure {
        let message = format!("the connection to {self} broke ({why}){}", what_happened(question.changes()));
        Failure::new(Failure::NO_ANSWER, message)
    }
}

fn what_happened(changes: bool) -> &'static str {
    if changes { ": whether the change was made is not known; look before you try again" } else { "" }
}

impl std::fmt::Display for ApiClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.target.fmt(f)
    }
}
