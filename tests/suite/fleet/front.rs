//! What stands between hosts and a server that knows only the path of today's proxies: TLS ends here, and RFD 0169's path
//! is not found.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rustls::{ServerConfig, ServerConnection, StreamOwned};
use testing::cluster::tls::Authority;

/// Ends with the process.
pub(super) struct Front {
    authority: Authority,
    port: u16,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Front {
    /// Passes on to `server`.
    pub(super) fn start(server: SocketAddr) -> Self {
        Self::with(server, str::to_owned)
    }

    /// The same; the server is asked as today's updaters ask, who send `group` and `update_id` and name no host.
    pub(super) fn start_without_host(server: SocketAddr) -> Self {
        Self::with(server, |path| {
            let (path, query) = path.split_once('?').unwrap();
            let query: Vec<&str> = query.split('&').filter(|pair| !pair.starts_with("host=")).collect();
            format!("{path}?{}", query.join("&"))
        })
    }

    fn with(server: SocketAddr, asks: fn(&str) -> String) -> Self {
        let authority = Authority::new();
        let config = authority.server(&["localhost"]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let paths = Arc::clone(&asked);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (config, paths) = (Arc::clone(&config), Arc::clone(&paths));
                std::thread::spawn(move || converse(stream.unwrap(), config, (server, asks), &paths));
            }
        });
        Self { authority, port, asked }
    }

    /// The address as `--proxy` takes it.
    pub(super) fn proxy(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// The certificate that hosts have to trust.
    pub(super) fn ca_pem(&self) -> &str {
        self.authority.pem()
    }

    /// The paths that were asked for, with their queries, since the last call.
    pub(super) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

/// One question a connection.
fn converse(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    (server, asks): (SocketAddr, fn(&str) -> String),
    paths: &Mutex<Vec<String>>,
) {
    let mut stream = StreamOwned::new(ServerConnection::new(config).unwrap(), stream);
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        // A host that hangs up has no question.
        if !matches!(stream.read(&mut byte), Ok(1)) {
            return;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let path = head.split(' ').nth(1).unwrap();
    let is_passed_on = path.starts_with("/webapi/find?");
    let path = if is_passed_on { asks(path) } else { path.to_owned() };
    paths.lock().unwrap().push(path.clone());
    let answer = if is_passed_on {
        let mut behind = TcpStream::connect(server).unwrap();
        write!(behind, "GET {path} HTTP/1.1\r\nhost: fleet\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        behind.read_to_end(&mut answer).unwrap();
        answer
    } else {
        b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nconnection: close\r\n\r\n".to_vec()
    };
    stream.write_all(&answer).unwrap();
    stream.conn.send_close_notify();
    stream.flush().unwrap();
}
