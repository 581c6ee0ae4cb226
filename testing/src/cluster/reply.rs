//! An answer, and the ways in which its body comes out wrong.

use std::io::{self, Read, Write};
use std::time::Duration;

use flate2::Compression;
use flate2::read::GzEncoder;

use crate::cluster::connection::Connection;
use crate::cluster::gate::Pass;

/// Bytes moved at a time.
const STRETCH: u64 = 64 << 10;

/// A dripping body comes in so many portions a second.
const PORTIONS: u64 = 20;

/// An answer before it is sent.
pub(crate) struct Reply {
    pub status: u16,
    pub headers: Vec<(&'static str, String)>,
    pub body: Box<dyn Read + Send>,
    pub length: u64,
    /// The body's offset within the file, in answer to a range.
    pub offset: u64,
    pub shape: Shape,
}

/// What is wrong with the body.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shape {
    pub bytes_per_sec: Option<u64>,
    pub stall_after: Option<u64>,
    pub hold: Option<(u64, Pass)>,
    pub cut_at_offset: Option<u64>,
    pub cut_after: Option<u64>,
    pub chunked: bool,
    pub no_length: bool,
    pub length_error: i64,
    pub gzip: bool,
    pub huge_headers: u64,
}

/// What becomes of the connection.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum After {
    KeepAlive,
    Close,
    Cut,
}

impl Reply {
    pub(crate) fn new(status: u16, kind: &str, body: impl Into<Vec<u8>>) -> Self {
        let body: Vec<u8> = body.into();
        let length = body.len() as u64;
        let headers = vec![("Content-Type", kind.to_owned())];
        Self { status, headers, body: Box::new(io::Cursor::new(body)), length, offset: 0, shape: Shape::default() }
    }

    pub(crate) fn json(body: &serde_json::Value) -> Self {
        Self::new(200, "application/json", body.to_string())
    }

    pub(crate) fn text(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self::new(status, "text/plain", body)
    }

    pub(crate) fn html() -> Self {
        Self::new(200, "text/html; charset=utf-8", "<!DOCTYPE html><html><body>Welcome</body></html>\n")
    }

    pub(crate) fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Sends it; `head` leaves the body out.
    pub(crate) fn send(mut self, to: &mut Connection, head: bool) -> io::Result<After> {
        let Shape { chunked, no_length, length_error, gzip, huge_headers, .. } = self.shape;
        let chunked = chunked || gzip;
        let mut text = format!("HTTP/1.1 {} {}\r\n", self.status, reason(self.status));
        if huge_headers > 0 {
            text += &format!("X-Filler: {}\r\n", "x".repeat(usize::try_from(huge_headers).unwrap_or(usize::MAX)));
        }
        for (name, value) in &self.headers {
            text += &format!("{name}: {value}\r\n");
        }
        if gzip {
            text += "Content-Encoding: gzip\r\n";
            self.body = Box::new(GzEncoder::new(self.body, Compression::fast()));
        }
        text += &match (chunked, no_length) {
            (true, _) => "Transfer-Encoding: chunked\r\n".to_owned(),
            (false, true) => "Connection: close\r\n".to_owned(),
            (false, false) => format!("Content-Length: {}\r\n", self.length.saturating_add_signed(length_error)),
        };
        to.write_all((text + "\r\n").as_bytes())?;
        to.flush()?;
        if head {
            return Ok(After::KeepAlive);
        }
        if self.send_body(to, chunked)? == After::Cut {
            return Ok(After::Cut);
        }
        if chunked {
            to.write_all(b"0\r\n\r\n")?;
        }
        to.flush()?;
        let ends_here = (no_length && !chunked) || length_error != 0;
        Ok(if ends_here { After::Close } else { After::KeepAlive })
    }

    fn send_body(&mut self, to: &mut Connection, chunked: bool) -> io::Result<After> {
        let portion = self.shape.bytes_per_sec.map_or(STRETCH, |rate| (rate / PORTIONS).clamp(1, STRETCH));
        let at_offset = self.shape.cut_at_offset.filter(|at| *at > self.offset).map(|at| at - self.offset);
        let cut = [at_offset, self.shape.cut_after].into_iter().flatten().min();
        let stall = self.shape.stall_after;
        let stop = [cut, stall].into_iter().flatten().min();
        let mut hold = self.shape.hold.take();
        let mut sent = 0;
        let mut buffer = vec![0; usize::try_from(portion).unwrap_or(usize::MAX)];
        loop {
            if let Some((_, pass)) = hold.take_if(|(after, _)| sent >= *after) {
                to.flush()?;
                pass.wait();
            }
            let next = [stop, hold.as_ref().map(|(after, _)| *after)].into_iter().flatten().min();
            let room = next.map_or(portion, |next| portion.min(next - sent));
            if room == 0 {
                if stall == stop {
                    to.wait_for_client();
                }
                return Ok(After::Cut);
            }
            let length = self.body.read(&mut buffer[..usize::try_from(room).unwrap_or(usize::MAX)])?;
            if length == 0 {
                return Ok(After::KeepAlive);
            }
            if chunked {
                write!(to, "{length:x}\r\n")?;
            }
            to.write_all(&buffer[..length])?;
            if chunked {
                to.write_all(b"\r\n")?;
            }
            sent += length as u64;
            if self.shape.bytes_per_sec.is_some() {
                to.flush()?;
                std::thread::sleep(Duration::from_secs(1) / u32::try_from(PORTIONS).unwrap_or(1));
            }
        }
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        206 => "Partial Content",
        302 => "Found",
        401 => "Unauthorized",
        404 => "Not Found",
        405 => "Method Not Allowed",
        416 => "Range Not Satisfiable",
        429 => "Too Many Requests",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Whatever",
    }
}
