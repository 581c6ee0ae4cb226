//! One request on a connection of its own, and whether its answer came whole.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

/// For an answer, on a loaded machine.
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// Who is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// The admin socket.
    Admin,
    /// The address of hosts.
    Public,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Request {
    /// Who is asked.
    pub on: On,
    /// GET, POST, DELETE.
    pub method: &'static str,
    /// The path, with its query.
    pub path: String,
    /// Its own headers, each with its end of line.
    pub headers: String,
    /// Its body; empty: none.
    pub body: String,
}

impl Request {
    /// A question on the admin socket.
    pub fn get(path: &str) -> Self {
        Self { on: On::Admin, method: "GET", path: path.to_owned(), headers: String::new(), body: String::new() }
    }

    /// JSON for the admin socket.
    pub fn post(path: &str, body: &Value) -> Self {
        Self { method: "POST", body: body.to_string(), ..Self::get(path) }
    }

    /// The removal of something, on the admin socket.
    pub fn delete(path: &str) -> Self {
        Self { method: "DELETE", ..Self::get(path) }
    }

    /// What a host asks.
    pub fn host(path: &str) -> Self {
        Self { on: On::Public, ..Self::get(path) }
    }
}

/// An answer that came whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The HTTP status.
    pub status: u16,
    /// The body, without the marks of its chunks.
    pub body: Vec<u8>,
}

impl Answer {
    /// The body as JSON; null where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Asks on the Unix socket; `None`: no answer came, or not all of it.
pub(crate) fn on_socket(socket: &Path, request: &Request, patience: Duration) -> Option<Answer> {
    let stream = UnixStream::connect(socket).ok()?;
    stream.set_read_timeout(Some(patience)).ok()?;
    exchange(stream, request)
}

/// The same over TCP.
pub(crate) fn on_address(address: &str, request: &Request, patience: Duration) -> Option<Answer> {
    let stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(patience)).ok()?;
    exchange(stream, request)
}

fn exchange(mut stream: impl Read + Write, request: &Request) -> Option<Answer> {
    let Request { method, path, headers, body, .. } = request;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n"
    );
    stream.write_all((head + body).as_bytes()).ok()?;
    let mut bytes = Vec::new();
    // A connection that is torn down has not told all.
    stream.read_to_end(&mut bytes).ok()?;
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let body = &bytes[end + 4..];
    let status = head.split(' ').nth(1)?.parse().ok()?;
    let header =
        |name: &str| head.lines().find_map(|line| line.strip_prefix(name)).map(|value| value.trim().to_owned());
    if header("transfer-encoding:").is_some_and(|value| value == "chunked") {
        return Some(Answer { status, body: unchunked(body)? });
    }
    let is_whole = header("content-length:")?.parse() == Ok(body.len());
    is_whole.then(|| Answer { status, body: body.to_vec() })
}

/// `None` where the last chunk, the empty one, is missing.
fn unchunked(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let end = bytes.windows(2).position(|two| two == b"\r\n")?;
        let size = usize::from_str_radix(std::str::from_utf8(&bytes[..end]).ok()?.trim(), 16).ok()?;
        bytes = &bytes[end + 2..];
        if size == 0 {
            return Some(whole);
        }
        whole.extend_from_slice(bytes.get(..size)?);
        bytes = bytes.get(size + 2..)?;
    }
}
