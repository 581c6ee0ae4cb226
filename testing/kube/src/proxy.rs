//! A proxy before the API server: plain HTTP on loopback. It counts and notes requests, and fails as told.
//!
//! Each request has a connection of its own, in two threads: an answer that streams (a watch) goes through as it comes.

use std::fmt;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::json;

use crate::bed::KubeBed;

/// Longest that a body of a request may be, bytes.
const MAX_BODY: usize = 8 << 20;
/// A part of an answer, bytes.
const PART: usize = 16 << 10;

/// A request that came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiCall {
    /// Its number, from 1.
    pub number: usize,
    /// `PATCH` and the like.
    pub method: String,
    /// With the query.
    pub path: String,
    /// Its `User-Agent`.
    pub user_agent: String,
    /// Its body.
    pub body: String,
    /// What the client was answered; `None`: nothing.
    pub status: Option<u16>,
    /// What the API server answered; `None`: it was not asked, or has not yet answered.
    pub answered: Option<u16>,
}

/// What happens to a request.
#[derive(Clone)]
pub enum ApiFault {
    /// The API server is not asked, and this status answered: 429 (with `Retry-After: 1`), 500, 503.
    Answer(u16),
    /// It goes on after so long.
    Delay(Duration),
    /// The connection ends before it.
    Cut,
    /// The API server does it, and the answer is lost.
    Lose,
    /// This is called before it, and the connection ends: to kill whoever sent it.
    Before(Arc<dyn Fn() + Send + Sync>),
    /// The API server does it, then this is called, and the connection ends.
    After(Arc<dyn Fn() + Send + Sync>),
}

impl fmt::Debug for ApiFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer(status) => write!(f, "Answer({status})"),
            Self::Delay(delay) => write!(f, "Delay({delay:?})"),
            Self::Cut => f.write_str("Cut"),
            Self::Lose => f.write_str("Lose"),
            Self::Before(_) => f.write_str("Before"),
            Self::After(_) => f.write_str("After"),
        }
    }
}

struct Order {
    matches: Box<dyn Fn(&ApiCall) -> bool + Send>,
    which: Range<usize>,
    seen: usize,
    fault: ApiFault,
}

/// A proxy on loopback. It ends with the value, and with it the connections through it.
pub struct ApiProxy {
    /// Where it listens, such as `http://127.0.0.1:40001`.
    pub url: String,
    shared: Arc<Shared>,
}

struct Shared {
    server: SocketAddr,
    tls: Arc<ClientConfig>,
    calls: Mutex<Vec<ApiCall>>,
    orders: Mutex<Vec<Order>>,
    renames: Mutex<Vec<(String, String)>>,
    open: Mutex<Option<Vec<TcpStream>>>,
}

impl ApiProxy {
    /// One before the API server of a bed.
    ///
    /// # Panics
    /// If no port is free.
    pub fn start(bed: &KubeBed) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(bed.ca_pem().as_bytes()).unwrap()).unwrap();
        let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let shared = Arc::new(Shared {
            server: bed.client.url.trim_start_matches("https://").parse().unwrap(),
            tls: Arc::new(tls),
            calls: Mutex::default(),
            orders: Mutex::default(),
            renames: Mutex::default(),
            open: Mutex::new(Some(Vec::new())),
        });
        let url = format!("http://{}", listener.local_addr().unwrap());
        let own = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                match own.open.lock().unwrap().as_mut() {
                    Some(open) => open.extend(client.try_clone()),
                    None => return,
                }
                let own = Arc::clone(&own);
                std::thread::spawn(move || {
                    // A client may go at any time.
                    let _ = own.serve(&client);
                    let _ = client.shutdown(Shutdown::Both);
                });
            }
        });
        Self { url, shared }
    }

    /// From now on, of the requests that match, those with such numbers (the first is 1) meet this fault; the newest order that
    /// fits counts.
    pub fn on(&self, matches: impl Fn(&ApiCall) -> bool + Send + 'static, which: Range<usize>, fault: ApiFault) {
        self.shared.orders.lock().unwrap().push(Order { matches: Box::new(matches), which, seen: 0, fault });
    }

    /// All requests, from now on.
    pub fn on_all(&self, fault: ApiFault) {
        self.on(|_| true, 1..usize::MAX, fault);
    }

    /// The `number`-th request from now on.
    pub fn at(&self, number: usize, fault: ApiFault) {
        self.on(|_| true, number..number + 1, fault);
    }

    /// From now on the API server is asked for paths with `to` where a client says `from`.
    pub fn rename(&self, from: &str, to: &str) {
        self.shared.renames.lock().unwrap().push((from.to_owned(), to.to_owned()));
    }

    /// From now on nothing fails.
    pub fn heal(&self) {
        self.shared.orders.lock().unwrap().clear();
    }

    /// Ends the connections that are open, watches among them.
    pub fn cut_open(&self) {
        for stream in self.shared.open.lock().unwrap().iter_mut().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// What came so far.
    pub fn calls(&self) -> Vec<ApiCall> {
        self.shared.calls.lock().unwrap().clone()
    }

    /// How many came so far.
    pub fn count(&self) -> usize {
        self.shared.calls.lock().unwrap().len()
    }

    /// Forgets what came; the next request is the first.
    pub fn forget(&self) {
        self.shared.calls.lock().unwrap().clear();
    }
}

impl fmt::Debug for ApiProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiProxy").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Drop for ApiProxy {
    fn drop(&mut self) {
        self.cut_open();
        *self.shared.open.lock().unwrap() = None;
        // Whoever accepts sees it.
        let _ = TcpStream::connect(self.url.trim_start_matches("http://"));
    }
}

/// A request as it came: its lines without those of the connection, and its body.
struct Request {
    head: String,
    body: Vec<u8>,
    call: ApiCall,
}

impl Shared {
    fn serve(&self, client: &TcpStream) -> std::io::Result<()> {
        client.set_nodelay(true)?;
        let Some(mut request) = read_request(client)? else { return Ok(()) };
        for (from, to) in self.renames.lock().unwrap().iter() {
            request.head = request.head.replacen(from, to, 1);
        }
        let (at, fault) = self.note(request.call);
        match &fault {
            Some(ApiFault::Cut) => return Ok(()),
            Some(ApiFault::Before(call)) => {
                call();
                return Ok(());
            }
            Some(ApiFault::Answer(status)) => {
                self.set(at, |call| call.status = Some(*status));
                return answer(client, *status);
            }
            Some(ApiFault::Delay(delay)) => std::thread::sleep(*delay),
            _ => {}
        }
        let name = ServerName::from(self.server.ip());
        let connection = ClientConnection::new(Arc::clone(&self.tls), name).map_err(std::io::Error::other)?;
        let server = TcpStream::connect(self.server)?;
        server.set_nodelay(true)?;
        let mut server = StreamOwned::new(connection, server);
        server.write_all(request.head.as_bytes())?;
        server.write_all(&request.body)?;
        server.flush()?;
        let mut server = BufReader::with_capacity(PART, server);
        let mut head = String::new();
        server.read_line(&mut head)?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        self.set(at, |call| call.answered = status);
        match fault {
            Some(ApiFault::Lose) => return Ok(()),
            Some(ApiFault::After(call)) => {
                call();
                return Ok(());
            }
            _ => self.set(at, |call| call.status = status),
        }
        let mut client = client;
        client.write_all(head.as_bytes())?;
        loop {
            let part = server.fill_buf()?;
            if part.is_empty() {
                return Ok(());
            }
            client.write_all(part)?;
            let length = part.len();
            server.consume(length);
        }
    }

    /// Where it is noted, and what is to happen to it.
    fn note(&self, mut call: ApiCall) -> (usize, Option<ApiFault>) {
        let mut calls = self.calls.lock().unwrap();
        call.number = calls.len() + 1;
        let mut fault = None;
        for order in self.orders.lock().unwrap().iter_mut() {
            if (order.matches)(&call) {
                order.seen += 1;
                if order.which.contains(&order.seen) {
                    fault = Some(order.fault.clone());
                }
            }
        }
        calls.push(call);
        (calls.len() - 1, fault)
    }

    fn set(&self, at: usize, change: impl FnOnce(&mut ApiCall)) {
        if let Some(call) = self.calls.lock().unwrap().get_mut(at) {
            change(call);
        }
    }
}

/// `None`: the client went, or sent what is no request with a length.
fn read_request(client: &TcpStream) -> std::io::Result<Option<Request>> {
    let mut lines = BufReader::new(client);
    let (mut head, mut length, mut user_agent) = (String::new(), 0, String::new());
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let (name, value) = line.split_once(':').map_or(("", ""), |(name, value)| (name, value.trim()));
        match name.to_ascii_lowercase().as_str() {
            "content-length" => length = value.parse().unwrap_or(MAX_BODY + 1),
            "transfer-encoding" => length = MAX_BODY + 1,
            "user-agent" => value.clone_into(&mut user_agent),
            "connection" => continue,
            _ => {}
        }
        if line.trim().is_empty() {
            head += "Connection: close\r\n\r\n";
            break;
        }
        head += &line;
    }
    if length > MAX_BODY {
        answer(client, 501)?;
        return Ok(None);
    }
    let mut body = vec![0; length];
    lines.read_exact(&mut body)?;
    let mut words = head.split(' ').map(str::to_owned);
    let call = ApiCall {
        number: 0,
        method: words.next().unwrap_or_default(),
        path: words.next().unwrap_or_default(),
        user_agent,
        body: String::from_utf8_lossy(&body).into_owned(),
        status: None,
        answered: None,
    };
    Ok(Some(Request { head, body, call }))
}

/// An answer as the API server's own.
fn answer(mut client: &TcpStream, code: u16) -> std::io::Result<()> {
    let (reason, more) = match code {
        429 => ("TooManyRequests", "Retry-After: 1\r\n"),
        403 => ("Forbidden", ""),
        409 => ("Conflict", ""),
        503 => ("ServiceUnavailable", ""),
        _ => ("InternalError", ""),
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "told by a test", "reason": reason, "code": code,
    });
    let body = status.to_string();
    write!(
        client,
        "HTTP/1.1 {code} {reason}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n{more}Connection: close\r\n\r\n{body}",
        body.len()
    )
}
