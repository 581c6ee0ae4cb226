//! A client that keeps its connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};

use super::SOON;

/// One connection.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    /// Connects.
    pub(crate) fn new(addr: SocketAddr) -> Self {
        let stream = TcpStream::connect(addr).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.set_nodelay(true).unwrap();
        Self(BufReader::new(stream))
    }

    /// The body of a GET that must succeed.
    pub(crate) fn get(&mut self, path: &str) -> String {
        let question = format!("GET {path} HTTP/1.1\r\nhost: test\r\n\r\n");
        self.0.get_mut().write_all(question.as_bytes()).unwrap();
        let (mut head, mut length) = (String::new(), 0);
        while !head.ends_with("\r\n\r\n") {
            let start = head.len();
            assert!(self.0.read_line(&mut head).unwrap() > 0, "{head}");
            if let Some(value) = head[start..].to_ascii_lowercase().strip_prefix("content-length: ") {
                length = value.trim().parse().unwrap();
            }
        }
        assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).unwrap();
        String::from_utf8(body).unwrap()
    }
}
