//! An HTTP proxy that knows CONNECT only.

use std::collections::HashMap;
use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use crate::cluster::request::Request;

/// A proxy that runs until the process ends.
#[derive(Debug, Clone)]
pub struct Proxy {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    targets: Vec<String>,
    refused: u64,
    credentials: Option<String>,
    routes: HashMap<String, String>,
}

impl Proxy {
    /// Starts on a free port of 127.0.0.1.
    ///
    /// # Panics
    /// If it cannot listen.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::<Mutex<State>>::default();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                std::thread::spawn(move || tunnel(client, &shared));
            }
        });
        Self { address, state }
    }

    /// `http://127.0.0.1:PORT`, as `HTTPS_PROXY` takes it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The same with credentials in it.
    pub fn url_with(&self, user: &str, password: &str) -> String {
        format!("http://{user}:{password}@{}", self.address)
    }

    /// Asks for Basic credentials from now on.
    pub fn require(&self, user: &str, password: &str) {
        let credentials = format!("Basic {}", BASE64_STANDARD.encode(format!("{user}:{password}")));
        self.state.lock().unwrap().credentials = Some(credentials);
    }

    /// Connects `target` (`host:port`) to `address` instead: a name that only the proxy can resolve.
    pub fn route(&self, target: &str, address: &str) {
        self.state.lock().unwrap().routes.insert(target.to_owned(), address.to_owned());
    }

    /// Every target that was connected to, as asked for.
    pub fn targets(&self) -> Vec<String> {
        self.state.lock().unwrap().targets.clone()
    }

    /// How many requests came without the right credentials.
    pub fn refused(&self) -> u64 {
        self.state.lock().unwrap().refused
    }
}

fn tunnel(client: TcpStream, state: &Mutex<State>) {
    let mut client = BufReader::new(client);
    let Ok(Some(request)) = Request::read(&mut client) else { return };
    let server = {
        let mut state = state.lock().unwrap();
        if state.credentials.is_some() && request.header("proxy-authorization") != state.credentials.as_deref() {
            state.refused += 1;
            Err("407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"proxy\"")
        } else if request.method != "CONNECT" {
            Err("405 Method Not Allowed")
        } else {
            state.targets.push(request.path.clone());
            Ok(state.routes.get(&request.path).cloned().unwrap_or_else(|| request.path.clone()))
        }
    };
    let server = server.and_then(|address| TcpStream::connect(address).map_err(|_| "502 Bad Gateway"));
    match server {
        Ok(server) => {
            let _ = client.get_mut().write_all(b"HTTP/1.1 200 Connection established\r\n\r\n");
            let (Ok(up), Ok(down)) = (server.try_clone(), client.get_ref().try_clone()) else { return };
            std::thread::spawn(move || pump(server, down));
            pump(client, up);
        }
        Err(status) => {
            let text = format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            let _ = client.get_mut().write_all(text.as_bytes());
        }
    }
}

fn pump(mut from: impl io::Read, mut to: TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    let _ = to.shutdown(Shutdown::Write);
}
