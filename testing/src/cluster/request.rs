//! A request as it came in, also the form in which it is logged.

use std::io::{self, BufRead, Read};

/// Bytes of a request's head; more is no client of ours.
const HEAD: u64 = 64 << 10;

/// One request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// `GET`, `HEAD`, `POST`, `CONNECT`.
    pub method: String,
    /// Without the query.
    pub path: String,
    /// Decoded, in order.
    pub query: Vec<(String, String)>,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// Empty but for `POST`.
    pub body: Vec<u8>,
}

impl Request {
    /// Reads the next request; `None` at the end of the connection.
    ///
    /// # Errors
    /// What the connection says, or that this is not HTTP/1.
    pub fn read(reader: &mut impl BufRead) -> io::Result<Option<Self>> {
        let mut head = reader.by_ref().take(HEAD);
        let mut first = String::new();
        if head.read_line(&mut first)? == 0 {
            return Ok(None);
        }
        let mut words = first.split_whitespace();
        let (Some(method), Some(target)) = (words.next(), words.next()) else {
            return Err(io::Error::other(format!("not HTTP: {first:?}")));
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut request = Self {
            method: method.to_owned(),
            path: path.to_owned(),
            query: parse_query(query),
            headers: Vec::new(),
            body: Vec::new(),
        };
        loop {
            let mut line = String::new();
            head.read_line(&mut line)?;
            let line = line.trim_end();
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').unwrap_or((line, ""));
            request.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        if let Some(length) = request.header("content-length").and_then(|length| length.parse().ok()) {
            request.body.resize(length, 0);
            reader.read_exact(&mut request.body)?;
        }
        Ok(Some(request))
    }

    /// The first header of this name, given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The first query parameter of this name.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.query.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

fn parse_query(query: &str) -> Vec<(String, String)> {
    let pairs = query.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| pair.split_once('=').unwrap_or((pair, "")))
        .map(|(key, value)| (decode(key), decode(value)))
        .collect()
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let hex = tail.get(..2).and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        let (byte, after) = match (first, hex) {
            (b'%', Some(byte)) => (byte, &tail[2..]),
            (b'+', _) => (b' ', tail),
            _ => (first, tail),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
