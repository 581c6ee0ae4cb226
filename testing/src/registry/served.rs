//! The stand-in on loopback, in plain HTTP. What speaks TLS to it is hung up on.

use std::io::{Read, Write};
use std::net::TcpStream;

use protocol::Digest;
use serde_json::Value;

use super::{BodyEnd, RegistryQuestion, RegistryReply, StandInRegistry};
use crate::loopback::{Reply, Request, Server};

impl StandInRegistry {
    /// Listens on a free port of loopback, as long as the process lives. Gives its `HOST:PORT`, as images name it.
    pub fn serve(&self) -> String {
        self.serve_through(|_, reply| reply)
    }

    /// The same; each answer goes `through` this before it is sent.
    pub fn serve_through(&self, through: impl Fn(&Request, Reply) -> Reply + Send + Sync + 'static) -> String {
        let registry = self.clone();
        let server = Server::start(move |request: &Request| {
            let (method, path) = (request.method.clone(), request.path.clone());
            let authorization = request.field("authorization").map(str::to_owned);
            through(request, sent(registry.answer(&RegistryQuestion { method, path, authorization })))
        });
        server.url("").replace("http://", "")
    }
}

fn sent(reply: RegistryReply) -> Reply {
    let RegistryReply { status, headers, mut body, end } = reply;
    let half = body.len();
    let bare = match end {
        BodyEnd::Silence => return Reply::silence(),
        BodyEnd::Endless => Reply::endless(),
        BodyEnd::Whole => Reply::ok(&body),
        BodyEnd::Cut => {
            body.push(b' ');
            Reply::ok(&body).cut_after(half)
        }
    };
    headers.iter().fold(bare.with_status(status), |reply, (name, value)| reply.header(name, value))
}

impl StandInRegistry {
    /// Pushes what a tag names, with all that belongs to it, to a real registry at `host`, in plain HTTP. Gives its digest.
    pub fn copy_to(&self, host: &str, repository: &str, tag: &str) -> Digest {
        let (media_type, bytes) = self.found(repository, tag).expect("a tag that is there");
        let text: Value = serde_json::from_slice(&bytes).unwrap();
        let list = |key: &str| text[key].as_array().cloned().unwrap_or_default();
        for entry in list("manifests") {
            self.copy_to(host, repository, entry["digest"].as_str().unwrap());
        }
        for part in list("layers").into_iter().chain(text.get("config").cloned()) {
            let digest = part["digest"].as_str().unwrap();
            let blob = self.blob(digest.trim_start_matches("sha256:")).expect("a blob that is there");
            let place =
                put(host, "POST", &format!("/v2/{repository}/blobs/uploads/"), "", b"").expect("a place for the blob");
            let place = place.split_once(host).map_or(place.as_str(), |(_, path)| path);
            put(host, "PUT", &format!("{place}&digest={digest}"), "application/octet-stream", &blob);
        }
        put(host, "PUT", &format!("/v2/{repository}/manifests/{tag}"), &media_type, &bytes);
        Digest::of(&bytes)
    }
}

/// Sends a body; gives the answer's `Location`.
fn put(host: &str, method: &str, path: &str, media_type: &str, body: &[u8]) -> Option<String> {
    let mut stream = TcpStream::connect(host).unwrap();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 20"), "{method} {path}: {answer}");
    answer.lines().find_map(|line| line.strip_prefix("Location: ")).map(str::to_owned)
}
