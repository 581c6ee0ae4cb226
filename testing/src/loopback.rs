//! A tiny plain-HTTP server on loopback for unit tests: one thread a connection, one request a connection.

use std::io::{BufRead, BufReader, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A request as it came.
#[derive(Debug, Clone)]
pub struct Request {
    /// `GET`.
    pub method: String,
    /// With the query.
    pub path: String,
    /// Requests before this one.
    pub count: usize,
    head: Vec<String>,
}

impl Request {
    /// A header field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.head.iter().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    }

    /// N of `Range: bytes=N-`.
    pub fn range_start(&self) -> Option<usize> {
        self.field("range")?.strip_prefix("bytes=")?.strip_suffix('-')?.parse().ok()
    }
}

/// What is answered.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
    framing: Framing,
    is_silent: bool,
    sends_header: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Framing {
    Length(usize),
    Chunked,
    Close,
    Endless,
}

impl Reply {
    /// 200.
    pub fn ok(body: &[u8]) -> Self {
        let framing = Framing::Length(body.len());
        Self { status: 200, headers: Vec::new(), body: body.to_owned(), framing, is_silent: false, sends_header: true }
    }

    /// With another status.
    pub fn with_status(self, status: u16) -> Self {
        Self { status, ..self }
    }

    /// A status without a body.
    pub fn status(status: u16) -> Self {
        Self { status, ..Self::ok(b"") }
    }

    /// Accepts the request and says nothing until the client goes away.
    pub fn silence() -> Self {
        Self { is_silent: true, sends_header: false, ..Self::ok(b"") }
    }

    /// 206 with the bytes from `start` on.
    pub fn part(whole: &[u8], start: usize) -> Self {
        let range = format!("bytes {start}-{}/{}", whole.len() - 1, whole.len());
        Self { status: 206, ..Self::ok(&whole[start..]) }.header("Content-Range", &range)
    }

    /// With a header field.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Announces the whole length but closes after `bytes`.
    pub fn cut_after(mut self, bytes: usize) -> Self {
        self.body.truncate(bytes);
        self
    }

    /// In chunks.
    pub fn chunked(self) -> Self {
        Self { framing: Framing::Chunked, ..self }
    }

    /// Chunks of blanks until the client goes away.
    pub fn endless() -> Self {
        Self { framing: Framing::Endless, ..Self::ok(b"") }
    }

    /// Its end is the end of the connection.
    pub fn without_length(self) -> Self {
        Self { framing: Framing::Close, ..self }
    }

    /// Sends the body and then leaves the connection open in silence.
    pub fn then_silence(self) -> Self {
        Self { is_silent: true, ..self }
    }

    fn send(&self, mut stream: &TcpStream, head_only: bool) -> std::io::Result<()> {
        if self.is_silent && !self.sends_header {
            return Ok(());
        }
        let mut head = format!("HTTP/1.1 {} X\r\nConnection: close\r\n", self.status);
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        match self.framing {
            Framing::Length(length) => head += &format!("Content-Length: {length}\r\n"),
            Framing::Chunked | Framing::Endless => head += "Transfer-Encoding: chunked\r\n",
            Framing::Close => {}
        }
        head += "\r\n";
        stream.write_all(head.as_bytes())?;
        if head_only {
            return Ok(());
        }
        if self.framing == Framing::Endless {
            loop {
                stream.write_all(format!("8000\r\n{:32768}\r\n", "").as_bytes())?;
            }
        }
        if self.framing == Framing::Chunked {
            for chunk in self.body.chunks(1000) {
                stream.write_all(format!("{:x}\r\n", chunk.len()).as_bytes())?;
                stream.write_all(chunk)?;
                stream.write_all(b"\r\n")?;
            }
            stream.write_all(b"0\r\n\r\n")
        } else {
            stream.write_all(&self.body)
        }
    }
}

/// The server; it lives as long as the process.
pub struct Server {
    address: std::net::SocketAddr,
    seen: Arc<Mutex<Vec<Request>>>,
}

impl Server {
    /// Answers each request with what `answer` says.
    pub fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (log, answer) = (seen.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (log, answer) = (log.clone(), answer.clone());
                std::thread::spawn(move || serve(&stream.unwrap(), &log, &*answer));
            }
        });
        Self { address, seen }
    }

    /// The URL of `path`.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The requests until now.
    pub fn requests(&self) -> Vec<Request> {
        self.seen.lock().unwrap().clone()
    }
}

fn serve(stream: &TcpStream, log: &Mutex<Vec<Request>>, answer: &dyn Fn(&Request) -> Reply) {
    let mut lines = BufReader::new(stream).lines();
    let Some(Ok(first)) = lines.next() else { return };
    let head: Vec<String> = lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
    let mut words = first.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let request = {
        let mut log = log.lock().unwrap();
        let count = log.len();
        log.push(Request { method, path, count, head });
        log.last().unwrap().clone()
    };
    let reply = answer(&request);
    let _ = reply.send(stream, request.method == "HEAD");
    if reply.is_silent {
        let _ = lines.next();
    }
    let _ = stream.shutdown(Shutdown::Write);
    // Until the client has closed: otherwise unread bytes turn the end into a reset.
    while let Some(Ok(_)) = lines.next() {}
}
