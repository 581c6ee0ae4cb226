//! Asks a running server: HTTP/1.1 over its admin socket, or over TLS with a token; a connection a question.

mod body;
mod connect;
mod group;
mod target;
mod tls;

use std::cell::Cell;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use hyper::{Method, Response, StatusCode};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use crate::args::Global;
use crate::failure::Failure;
use target::Target;

pub(crate) use body::Chunks;

/// Longest wait for a connection with its TLS handshake, seconds: a host near or far answers within one.
const CONNECT: Duration = Duration::from_secs(5);
/// Longest wait for an answer, seconds: a write may step a million hosts first.
const ANSWER: Duration = Duration::from_secs(30);
/// Waits before a question whose connection broke is sent again: a server that restarts is back within about a second.
const AGAIN: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];
/// What a server says of a path that it does not have: its metrics listener does so, and a server of another version.
const NOWHERE: &str = "there is nothing at this path";
/// Largest answer that is read whole, bytes: a thousand hosts with 64 labels each take less.
const LARGEST: usize = 32 << 20;

/// A question.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    method: Method,
    /// Path and query.
    path: String,
    body: Option<Vec<u8>>,
    /// It asks what would be, and changes nothing.
    is_dry: bool,
}

impl Question {
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

    /// Where `is_dry`, it asks what would be: its body, or its query, says so to the server.
    pub(crate) fn dry(self, is_dry: bool) -> Self {
        Self { is_dry, ..self }
    }

    fn changes(&self) -> bool {
        self.method != Method::GET && !self.is_dry
    }
}

/// Where a question failed: what may have happened decides whether it is sent again.
enum Fault {
    /// Nothing was sent, or it would be answered alike again.
    Final(Failure),
    /// The connection broke after it was sent.
    Broken(String),
}

/// The server that verbs ask.
#[derive(Debug)]
pub struct Client {
    runtime: Runtime,
    target: Target,
    /// The server answered that it changed something.
    has_changed: Cell<bool>,
}

impl Client {
    /// The server that `global` names.
    ///
    /// # Errors
    /// An address that cannot be asked, and a file of token or certificates that cannot be read.
    pub fn new(global: &Global) -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::local("cannot start", error))?;
        Ok(Self { runtime, target: Target::of(global)?, has_changed: Cell::new(false) })
    }

    /// Asks, and reads the answer.
    ///
    /// # Errors
    /// The server's refusal; or why it could not be asked, or understood.
    pub(crate) fn ask<T: DeserializeOwned>(&self, question: &Question) -> Result<T, Failure> {
        let bytes = self.runtime.block_on(self.until_answered(question))?;
        self.has_changed.set(self.has_changed.get() || question.changes());
        serde_json::from_slice(&bytes).map_err(|error| self.misunderstood(&error.to_string()))
    }

    /// Asks for an answer that is read as it comes: a stream of lines, or a file.
    ///
    /// # Errors
    /// As [`Client::ask`].
    pub(crate) fn open(&self, question: &Question) -> Result<Chunks<'_>, Failure> {
        let opened = self.runtime.block_on(async {
            let answer = self.send(question).await?;
            if answer.status().is_success() {
                return Ok(answer.into_body());
            }
            let (status, bytes) = self.read(answer).await?;
            Err(Fault::Final(self.refusal(status, &bytes)))
        });
        match opened {
            Ok(body) => Ok(Chunks::new(&self.runtime, body)),
            Err(Fault::Final(failure)) => Err(failure),
            Err(Fault::Broken(why)) => Err(self.broken(question, &why)),
        }
    }

    /// Whether the server changed something that it was asked to.
    pub(crate) fn has_changed(&self) -> bool {
        self.has_changed.get()
    }

    /// Waits, so that a server may come back.
    pub(crate) fn wait(&self, time: Duration) {
        self.runtime.block_on(async { tokio::time::sleep(time).await });
    }

    /// The server's name in messages.
    pub(crate) fn name(&self) -> String {
        self.target.to_string()
    }

    /// Sends the question again where its connection broke: its id makes that a change is made once.
    async fn until_answered(&self, question: &Question) -> Result<Bytes, Failure> {
        let mut again = AGAIN.into_iter();
        let mut broke = false;
        loop {
            let why = match self.once(question).await {
                Ok(bytes) => return Ok(bytes),
                // It may have stopped while it answered.
                Err(Fault::Final(failure)) if broke && failure.code == Failure::UNREACHABLE => failure.message,
                Err(Fault::Final(failure)) => return Err(failure),
                Err(Fault::Broken(why)) => why,
            };
            broke = true;
            match again.next() {
                Some(wait) => tokio::time::sleep(wait).await,
                None => return Err(self.broken(question, &why)),
            }
        }
    }

    async fn once(&self, question: &Question) -> Result<Bytes, Fault> {
        let answer = self.send(question).await?;
        match timeout(ANSWER, self.read(answer)).await {
            Ok(Ok((status, bytes))) if status.is_success() => Ok(bytes),
            Ok(Ok((status, bytes))) => Err(Fault::Final(self.refusal(status, &bytes))),
            Ok(Err(fault)) => Err(fault),
            Err(_) => Err(Fault::Final(self.late(question))),
        }
    }

    /// Sends the question and waits for the head of its answer.
    async fn send(&self, question: &Question) -> Result<Response<Incoming>, Fault> {
        let stream = connect::connect(&self.target, CONNECT).await.map_err(Fault::Final)?;
        let broken = |error: hyper::Error| Fault::Broken(error.to_string());
        let (mut sender, connection) = hyper::client::conn::http1::handshake(stream).await.map_err(broken)?;
        tokio::spawn(connection);
        let request = self.request(question)?;
        match timeout(ANSWER, sender.send_request(request)).await {
            Ok(answer) => answer.map_err(broken),
            Err(_) => Err(Fault::Final(self.late(question))),
        }
    }

    fn request(&self, question: &Question) -> Result<hyper::Request<Full<Bytes>>, Fault> {
        let mut request = hyper::Request::builder()
            .method(question.method.clone())
            .uri(&question.path)
            .header(HOST, self.target.host())
            .header(USER_AGENT, concat!("teleport-fleet/", env!("CARGO_PKG_VERSION")))
            .header(ACCEPT, "application/json");
        if let Some(token) = self.target.authorization() {
            request = request.header(AUTHORIZATION, token);
        }
        if question.body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = Full::new(Bytes::from(question.body.clone().unwrap_or_default()));
        request.body(body).map_err(|error| Fault::Final(Failure::local("cannot write the question", error)))
    }

    async fn read(&self, answer: Response<Incoming>) -> Result<(StatusCode, Bytes), Fault> {
        let status = answer.status();
        match body::whole(answer.into_body(), LARGEST).await {
            Ok(Some(bytes)) => Ok((status, bytes)),
            Ok(None) => {
                let what = format!("its answer is larger than {LARGEST} bytes");
                Err(Fault::Final(self.misunderstood(&what)))
            }
            Err(error) => Err(Fault::Broken(error.to_string())),
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

    fn misunderstood(&self, what: &str) -> Failure {
        let message = format!("{self} does not answer as a teleport-fleet server: {what}");
        Failure::new(Failure::BAD_ANSWER, message)
    }

    fn late(&self, question: &Question) -> Failure {
        let message =
            format!("{self} did not answer within {} s{}", ANSWER.as_secs(), what_happened(question.changes()));
        Failure::new(Failure::NO_ANSWER, message)
    }

    fn broken(&self, question: &Question, why: &str) -> Failure {
        let message = format!("the connection to {self} broke ({why}){}", what_happened(question.changes()));
        Failure::new(Failure::NO_ANSWER, message)
    }
}

fn what_happened(changes: bool) -> &'static str {
    if changes { ": whether the change was made is not known; look before you try again" } else { "" }
}

impl std::fmt::Display for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.target.fmt(f)
    }
}
