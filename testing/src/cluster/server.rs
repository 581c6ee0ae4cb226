//! The cluster: find and a CDN behind TLS on loopback, a thread for each connection.

use std::collections::{HashMap, VecDeque};
use std::fs;
use std::io::{self, BufReader};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::ServerConfig;
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::cluster::archive::{Archive, Written, hex};
use crate::cluster::cdn::{self, Lies};
use crate::cluster::connection::Connection;
use crate::cluster::control::{self, Programs};
use crate::cluster::directive::{Dialect, Elsewhere, Find, FindPath};
use crate::cluster::gate::Gate;
use crate::cluster::misbehaviour::{Misbehaviour, Rule};
use crate::cluster::reply::{After, Reply, Shape};
use crate::cluster::request::Request;
use crate::cluster::tls::Authority;

/// A cluster that runs until it is dropped.
#[derive(Debug)]
pub struct Cluster {
    shared: Arc<Shared>,
    port: u16,
    tls: Option<Listening>,
    plain: Listening,
    ca_pem: String,
    ca_file: PathBuf,
}

/// What `/cdn/` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// User and password.
    Basic(String, String),
    /// A token.
    Bearer(String),
}

impl Cluster {
    /// Starts on a free port, with its files in `directory` (`ca.pem`, `cdn/`).
    ///
    /// # Panics
    /// If it cannot listen or write.
    pub fn start(directory: &Path) -> Self {
        Self::start_as(directory, 0, &[])
    }

    /// Starts on `port` (0: a free one); the certificate is also good for `names`.
    ///
    /// # Panics
    /// If it cannot listen or write.
    pub fn start_as(directory: &Path, port: u16, names: &[&str]) -> Self {
        fs::create_dir_all(directory.join("cdn")).unwrap();
        let authority = Authority::new();
        let shared = Arc::new(Shared {
            cdn: directory.join("cdn"),
            good: authority.server(&[&["localhost", "127.0.0.1"], names].concat()),
            bad: authority.server(&["wrong.example"]),
            state: Mutex::new(State::default()),
            gate: Arc::default(),
        });
        let ca_file = directory.join("ca.pem");
        fs::write(&ca_file, authority.pem()).unwrap();
        let tls = Listening::start(&shared, port, true).unwrap();
        let plain = Listening::start(&shared, 0, false).unwrap();
        let ca_pem = authority.pem().to_owned();
        Self { port: tls.address.port(), tls: Some(tls), shared, plain, ca_pem, ca_file }
    }

    /// `localhost:PORT`, as `--proxy` takes it.
    pub fn addr(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The authority's certificate.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// Its file, as `--ca-file` takes it.
    pub fn ca_file(&self) -> &Path {
        &self.ca_file
    }

    /// `https://localhost:PORT/cdn`, as `--base-url` takes it.
    pub fn base_url(&self) -> String {
        format!("https://localhost:{}/cdn", self.port)
    }

    /// The same CDN without TLS.
    pub fn plain_base_url(&self) -> String {
        format!("http://localhost:{}/cdn", self.plain.address.port())
    }

    /// The directory behind `/cdn/`.
    pub fn cdn(&self) -> &Path {
        &self.shared.cdn
    }

    /// What find answers from now on; the one before is the stale one.
    pub fn set_directive(&self, find: Find) {
        self.shared.set_directive(find);
    }

    /// What find answers to this `group`.
    pub fn set_directive_for_group(&self, group: &str, find: Find) {
        self.shared.state().groups.insert(group.to_owned(), find);
    }

    /// What find answers, byte for byte; `None`: the directive again.
    pub fn set_find_body(&self, body: Option<&[u8]>) {
        self.shared.state().find_body = body.map(<[u8]>::to_vec);
    }

    /// What `path` answers, besides what it does anyway: each of `answers` (status, body) once, the last one for ever. None: what
    /// it answered before is forgotten.
    pub fn set_page(&self, path: &str, answers: &[(u16, &str)]) {
        let answers = answers.iter().map(|(status, body)| (*status, (*body).to_owned())).collect();
        self.shared.state().pages.insert(path.to_owned(), answers);
    }

    /// Whose words find uses; at first RFD 0169's.
    pub fn set_dialect(&self, dialect: Dialect) {
        self.shared.state().dialect = dialect;
    }

    /// Where find answers, and what the other path says; at first `/v1/webapi/find` and 404.
    pub fn set_find_path(&self, path: FindPath, elsewhere: Elsewhere) {
        let mut state = self.shared.state();
        (state.find_path, state.elsewhere) = (path, elsewhere);
    }

    /// Asks for credentials below `/cdn/`.
    pub fn require_auth(&self, auth: Option<Auth>) {
        self.shared.state().auth = auth;
    }

    /// Serves an archive with its digest and signature.
    pub fn publish(&self, archive: &Archive) -> Written {
        archive.write_to(&self.shared.cdn)
    }

    /// Serves bytes as `name` below `/cdn/`, with a true `.sha256` beside them; returns the digest.
    ///
    /// # Panics
    /// If the directory cannot be written.
    pub fn publish_bytes(&self, name: &str, bytes: &[u8]) -> String {
        let sha256 = hex(&Sha256::digest(bytes));
        fs::write(self.shared.cdn.join(name), bytes).unwrap();
        fs::write(self.shared.cdn.join(format!("{name}.sha256")), format!("{sha256}  {name}\n")).unwrap();
        sha256
    }

    /// Misbehaves on every path that contains `path` (ends with it, if it ends in `$`), until [`Cluster::behave`].
    pub fn misbehave(&self, path: &str, how: Misbehaviour) {
        self.shared.add_rule(Rule::new(path, how, None));
    }

    /// Misbehaves for the next `times` matching requests.
    pub fn misbehave_times(&self, path: &str, how: Misbehaviour, times: u64) {
        self.shared.add_rule(Rule::new(path, how, Some(times)));
    }

    /// Forgets every misbehaviour.
    pub fn behave(&self) {
        self.shared.behave();
    }

    /// Waits until an answer is [held](Misbehaviour::Hold).
    ///
    /// # Panics
    /// If none is within `timeout`.
    #[track_caller]
    pub fn until_held(&self, timeout: Duration) {
        assert!(self.shared.gate.is_held_within(timeout), "no answer is held");
    }

    /// Every request so far, in order of arrival.
    pub fn requests(&self) -> Vec<Request> {
        self.shared.state().requests.clone()
    }

    /// The requests whose path contains `path`, or ends with it, if it ends in `$`.
    pub fn requests_to(&self, path: &str) -> Vec<Request> {
        let rule = Rule::new(path, Misbehaviour::Stale, None);
        self.requests().into_iter().filter(|request| rule.matches(&request.path)).collect()
    }

    /// Forgets the requests so far.
    pub fn forget_requests(&self) {
        self.shared.state().requests.clear();
    }

    /// Stops listening and drops every connection: connections are refused until [`Cluster::come_up`].
    pub fn go_down(&mut self) {
        self.tls = None;
    }

    /// Listens again, on the same port.
    ///
    /// # Panics
    /// If the port is taken.
    pub fn come_up(&mut self) {
        if self.tls.is_none() {
            self.tls = Some(Listening::start(&self.shared, self.port, true).unwrap());
        }
    }

    /// Answers `/control/` too; see [`control`].
    pub fn enable_control(&self, programs: Programs) {
        self.shared.state().programs = Some(programs);
    }

    /// Serves until the process ends.
    pub fn wait(mut self) {
        if let Some(thread) = self.tls.as_mut().and_then(|listening| listening.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// A listener with its connections; ends with this value.
#[derive(Debug)]
struct Listening {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    clients: Arc<Mutex<Vec<TcpStream>>>,
    thread: Option<JoinHandle<()>>,
}

impl Listening {
    fn start(shared: &Arc<Shared>, port: u16, tls: bool) -> io::Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", port))?;
        let address = listener.local_addr()?;
        let stop = Arc::new(AtomicBool::new(false));
        let clients = Arc::new(Mutex::new(Vec::<TcpStream>::new()));
        let (shared, stopped, known) = (Arc::clone(shared), Arc::clone(&stop), Arc::clone(&clients));
        let thread = std::thread::spawn(move || {
            for tcp in listener.incoming().flatten() {
                if stopped.load(Ordering::SeqCst) {
                    break;
                }
                let mut known = known.lock().unwrap();
                // Those that have gone are let go, else a long bench runs out of descriptors.
                known.retain(|client| client.peer_addr().is_ok());
                known.extend(tcp.try_clone());
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || {
                    let end = tcp.try_clone();
                    shared.converse(tcp, tls);
                    let _ = end.and_then(|tcp| tcp.shutdown(Shutdown::Both));
                });
            }
        });
        Ok(Self { address, stop, clients, thread: Some(thread) })
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the thread from its accept.
        let _ = TcpStream::connect(self.address);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        for client in self.clients.lock().unwrap().drain(..) {
            let _ = client.shutdown(Shutdown::Both);
        }
    }
}

/// What the connections' threads have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub cdn: PathBuf,
    good: Arc<ServerConfig>,
    bad: Arc<ServerConfig>,
    state: Mutex<State>,
    gate: Arc<Gate>,
}

#[derive(Debug)]
pub(crate) struct State {
    directive: Option<Find>,
    previous: Option<Find>,
    groups: HashMap<String, Find>,
    find_body: Option<Vec<u8>>,
    pages: HashMap<String, VecDeque<(u16, String)>>,
    pub dialect: Dialect,
    find_path: FindPath,
    elsewhere: Elsewhere,
    auth: Option<Auth>,
    pub rules: Vec<Rule>,
    pub requests: Vec<Request>,
    pub programs: Option<Programs>,
}

impl Default for State {
    fn default() -> Self {
        Self {
            directive: None,
            previous: None,
            groups: HashMap::new(),
            find_body: None,
            pages: HashMap::new(),
            dialect: Dialect::Rfd,
            find_path: FindPath::V1,
            elsewhere: Elsewhere::NotFound,
            auth: None,
            rules: Vec::new(),
            requests: Vec::new(),
            programs: None,
        }
    }
}

impl Shared {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    pub(crate) fn behave(&self) {
        self.state().rules.clear();
        self.gate.open();
    }

    pub(crate) fn set_directive(&self, find: Find) {
        let mut state = self.state();
        state.previous = state.directive.replace(find);
    }

    pub(crate) fn add_rule(&self, rule: Rule) {
        self.state().rules.push(rule);
    }

    fn converse(&self, tcp: TcpStream, tls: bool) {
        let config = match self.connection_rule() {
            Some(Misbehaviour::ConnectionRefusedFor(_)) => {
                // Dropped with unread bytes in it, a connection is reset.
                let _ = tcp.peek(&mut [0]);
                return;
            }
            Some(_) => &self.bad,
            None => &self.good,
        };
        let Ok(connection) = Connection::new(tcp, tls.then(|| Arc::clone(config))) else { return };
        let mut reader = BufReader::new(connection);
        while let Ok(Some(request)) = Request::read(&mut reader) {
            let (head, last) = (request.method == "HEAD", request.header("connection") == Some("close"));
            let after = match self.answer(request) {
                Some(reply) => reply.send(reader.get_mut(), head).unwrap_or(After::Cut),
                None => After::Cut,
            };
            match after {
                After::KeepAlive if !last => {}
                After::KeepAlive | After::Close => return reader.get_mut().close(),
                After::Cut => return reader.get_mut().cut(),
            }
        }
        reader.get_mut().close();
    }

    fn connection_rule(&self) -> Option<Misbehaviour> {
        let mut state = self.state();
        state
            .rules
            .iter_mut()
            .filter(|rule| rule.is_of_connection())
            .find_map(|rule| rule.take().then(|| rule.how.clone()))
    }

    /// The answer; `None`: the connection drops.
    fn answer(&self, request: Request) -> Option<Reply> {
        if request.path.starts_with("/control/") {
            return Some(control::answer(self, &request));
        }
        let rules = self.rules_for(&request);
        let mut shape = Shape::default();
        let mut lies = Lies::default();
        let mut replaced = None;
        for rule in rules {
            let first = replaced.is_none();
            match rule.how {
                Misbehaviour::Slow { bytes_per_sec } => shape.bytes_per_sec = Some(bytes_per_sec),
                Misbehaviour::Stall { after_bytes } => shape.stall_after = Some(after_bytes),
                Misbehaviour::Hold { after_bytes } => shape.hold = Some((after_bytes, self.gate.pass())),
                Misbehaviour::CutAfter { bytes } => shape.cut_at_offset = Some(bytes),
                Misbehaviour::CutEvery { bytes } => shape.cut_after = Some(bytes),
                Misbehaviour::Chunked => shape.chunked = true,
                Misbehaviour::NoLength => shape.no_length = true,
                Misbehaviour::WrongLength(error) => shape.length_error = error,
                Misbehaviour::ContentEncodingGzip => shape.gzip = true,
                Misbehaviour::HugeHeaders(bytes) => shape.huge_headers = bytes,
                Misbehaviour::Stale => lies.stale = true,
                Misbehaviour::ChangedMidway => lies.stale |= rule.hits > 1,
                Misbehaviour::IgnoreRange => lies.ignore_range = true,
                Misbehaviour::WrongRange => lies.wrong_range = true,
                Misbehaviour::CloseBeforeResponse => return None,
                Misbehaviour::Status(status, retry_after) if first => {
                    let reply = Reply::text(status, format!("status {status}\n"));
                    replaced = Some(match retry_after {
                        Some(seconds) => reply.header("Retry-After", seconds.to_string()),
                        None => reply,
                    });
                }
                Misbehaviour::Redirect(to) if first => replaced = Some(Reply::text(302, "").header("Location", to)),
                Misbehaviour::RedirectLoop if first => {
                    replaced = Some(Reply::text(302, "").header("Location", request.path.clone()));
                }
                Misbehaviour::WrongType if first => replaced = Some(Reply::html()),
                Misbehaviour::HugeBody(bytes) if first => {
                    let mut reply = Reply::new(200, "application/json", "");
                    (reply.body, reply.length) = (Box::new(io::Read::take(io::repeat(b' '), bytes)), bytes);
                    replaced = Some(reply);
                }
                _ => {}
            }
        }
        let mut reply = replaced.unwrap_or_else(|| self.honest(&request, lies));
        reply.shape = shape;
        Some(reply)
    }

    fn rules_for(&self, request: &Request) -> Vec<Rule> {
        let mut state = self.state();
        state.requests.push(request.clone());
        let rules = state.rules.iter_mut().filter(|rule| !rule.is_of_connection() && rule.matches(&request.path));
        // A file that is only asked for its size has not begun to change.
        let counts = |rule: &&mut Rule| request.method != "HEAD" || rule.how != Misbehaviour::ChangedMidway;
        rules.filter(counts).filter_map(|rule| rule.take().then(|| rule.clone())).collect()
    }

    fn honest(&self, request: &Request, lies: Lies) -> Reply {
        match request.path.as_str() {
            "/v1/webapi/find" | "/webapi/find" => self.find(request, lies.stale),
            path if path.starts_with("/cdn/") => match self.state().auth.clone() {
                Some(auth) if request.header("authorization") != Some(&auth.header()) => {
                    Reply::text(401, "credentials please\n").header("WWW-Authenticate", "Basic realm=\"cdn\"")
                }
                _ => cdn::serve(&self.cdn, request, lies),
            },
            path => self.page(path).unwrap_or_else(|| Reply::text(404, "no such page\n")),
        }
    }

    fn page(&self, path: &str) -> Option<Reply> {
        let mut state = self.state();
        let answers = state.pages.get_mut(path)?;
        let (status, body) = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() }?;
        Some(Reply::new(status, "application/json", body))
    }

    fn find(&self, request: &Request, stale: bool) -> Reply {
        let state = self.state();
        if !state.find_path.answers(&request.path) {
            return match state.elsewhere {
                Elsewhere::NotFound => Reply::text(404, "no such page\n"),
                Elsewhere::NotAllowed => Reply::text(405, "not like this\n"),
                Elsewhere::Html => Reply::html(),
            };
        }
        if let Some(body) = &state.find_body {
            return Reply::new(200, "application/json", body.clone());
        }
        let of_group = request.parameter("group").and_then(|group| state.groups.get(group));
        let find = match (stale, of_group) {
            (true, _) => state.previous.as_ref(),
            (false, Some(find)) => Some(find),
            (false, None) => state.directive.as_ref(),
        };
        Reply::json(&find.map_or(Value::Object(Default::default()), |find| find.to_json(state.dialect)))
    }
}

impl Auth {
    fn header(&self) -> String {
        match self {
            Self::Basic(user, password) => format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}"))),
            Self::Bearer(token) => format!("Bearer {token}"),
        }
    }
}
