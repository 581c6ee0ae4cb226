//! The server's good and bad manners, seen by a raw TLS client.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use testing::cluster::{Auth, Cluster, Dialect, Elsewhere, Find, FindPath, Misbehaviour, Proxy};

const NAME: &str = "teleport-v1.0.0-linux-amd64-bin.tar.gz";

struct Client(BufReader<StreamOwned<ClientConnection, TcpStream>>);

struct Answer {
    status: u16,
    head: String,
    body: Vec<u8>,
    /// How the body ended.
    end: io::Result<()>,
}

impl Client {
    fn new(cluster: &Cluster) -> Self {
        Self::over(cluster, TcpStream::connect(("127.0.0.1", cluster.port())).unwrap())
    }

    fn over(cluster: &Cluster, tcp: TcpStream) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(cluster.ca_pem().as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let connection = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
        Self(BufReader::new(StreamOwned::new(connection, tcp)))
    }

    fn ask(&mut self, method: &str, target: &str, headers: &str) -> io::Result<Answer> {
        write!(self.0.get_mut(), "{method} {target} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")?;
        self.0.get_mut().flush()?;
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).map(|n| n.parse().unwrap());
        let mut body = Vec::new();
        let end = match length {
            Some(_) if method == "HEAD" => Ok(()),
            Some(length) => {
                let read = self.0.by_ref().take(length).read_to_end(&mut body);
                read.and_then(
                    |read| if read as u64 == length { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) },
                )
            }
            None if head.contains("chunked") => self.chunks(&mut body),
            None => self.0.read_to_end(&mut body).map(drop),
        };
        Ok(Answer { status, head, body, end })
    }

    fn chunks(&mut self, body: &mut Vec<u8>) -> io::Result<()> {
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line)?;
            let length = u64::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
            self.0.by_ref().take(length).read_to_end(body)?;
            self.0.read_line(&mut String::new())?;
            if length == 0 {
                return Ok(());
            }
        }
    }
}

fn cluster() -> (tempfile::TempDir, Cluster, Vec<u8>) {
    let directory = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(directory.path());
    let bytes: Vec<u8> = (0..300_000_u32).map(|number| (number % 251) as u8).collect();
    cluster.publish_bytes(NAME, &bytes);
    (directory, cluster, bytes)
}

fn get(cluster: &Cluster, headers: &str) -> Answer {
    Client::new(cluster).ask("GET", &format!("/cdn/{NAME}"), headers).unwrap()
}

#[test]
fn find_is_answered_in_both_dialects_and_on_the_path_that_was_set() {
    let (_directory, cluster, _) = cluster();
    cluster.set_directive(Find { edition: "enterprise-fips".into(), jitter: 30, ..Find::version("1.2.3") });
    let mut client = Client::new(&cluster);
    let answer = client.ask("GET", "/v1/webapi/find?host=a%20b&group=g", "").unwrap();
    assert_eq!(
        String::from_utf8(answer.body).unwrap(),
        r#"{"server_edition":"enterprise-fips","agent_version":"1.2.3","agent_auto_update":true,"agent_update_jitter_seconds":30}"#
    );
    assert_eq!(client.ask("GET", "/webapi/find", "").unwrap().status, 404);
    cluster.set_dialect(Dialect::Today);
    cluster.set_find_path(FindPath::Old, Elsewhere::Html);
    let answer = client.ask("GET", "/webapi/find", "").unwrap();
    assert!(String::from_utf8(answer.body).unwrap().contains(r#""edition":"ent","fips":true"#));
    assert!(client.ask("GET", "/v1/webapi/find", "").unwrap().body.starts_with(b"<!DOCTYPE"));
    assert_eq!(cluster.requests()[0].parameter("host"), Some("a b"));
}

#[test]
fn a_range_is_served_while_the_file_is_the_same() {
    let (_directory, cluster, bytes) = cluster();
    let mut client = Client::new(&cluster);
    let target = format!("/cdn/{NAME}");
    let head = client.ask("HEAD", &target, "").unwrap().head;
    let etag = head.lines().find_map(|line| line.strip_prefix("ETag: ")).unwrap();
    let part = client.ask("GET", &target, &format!("Range: bytes=100000-\r\nIf-Range: {etag}\r\n")).unwrap();
    assert_eq!(part.status, 206);
    assert!(part.head.contains("Content-Range: bytes 100000-299999/300000"));
    assert_eq!(part.body, bytes[100_000..]);
    let whole = client.ask("GET", &target, "Range: bytes=100000-\r\nIf-Range: \"other\"\r\n").unwrap();
    assert_eq!((whole.status, whole.body), (200, bytes));
}

#[test]
fn a_cut_body_can_be_resumed_behind_the_cut() {
    let (_directory, cluster, bytes) = cluster();
    cluster.misbehave("tar.gz$", Misbehaviour::CutAfter { bytes: 123_456 });
    let first = get(&cluster, "");
    assert!(first.end.is_err());
    assert_eq!(first.body, bytes[..123_456]);
    let rest = get(&cluster, "Range: bytes=123456-\r\n");
    rest.end.unwrap();
    assert_eq!(rest.body, bytes[123_456..]);
}

#[test]
fn bodies_come_in_chunks_or_without_a_length_or_with_a_wrong_one() {
    let (_directory, cluster, bytes) = cluster();
    cluster.misbehave_times("tar.gz$", Misbehaviour::Chunked, 1);
    let answer = get(&cluster, "");
    assert!(answer.head.contains("chunked"));
    assert_eq!(answer.body, bytes);
    cluster.misbehave_times("tar.gz$", Misbehaviour::NoLength, 1);
    assert_eq!(get(&cluster, "").body, bytes);
    cluster.misbehave_times("tar.gz$", Misbehaviour::WrongLength(10), 1);
    let answer = get(&cluster, "");
    assert!(answer.end.is_err());
    assert_eq!(answer.body, bytes);
    cluster.misbehave_times("tar.gz$", Misbehaviour::WrongLength(-10), 1);
    assert_eq!(get(&cluster, "").body, bytes[..bytes.len() - 10]);
    assert_eq!(get(&cluster, "").body, bytes);
}

#[test]
fn a_mirror_that_compresses_again_says_so() {
    let (_directory, cluster, bytes) = cluster();
    cluster.misbehave("tar.gz$", Misbehaviour::ContentEncodingGzip);
    let answer = get(&cluster, "");
    assert!(answer.head.contains("Content-Encoding: gzip"));
    let mut inflated = Vec::new();
    flate2::read::GzDecoder::new(answer.body.as_slice()).read_to_end(&mut inflated).unwrap();
    assert_eq!(inflated, bytes);
}

#[test]
fn a_file_that_changes_midway_has_another_tag_and_other_bytes() {
    let (_directory, cluster, bytes) = cluster();
    cluster.misbehave("tar.gz$", Misbehaviour::ChangedMidway);
    cluster.misbehave_times("tar.gz$", Misbehaviour::CutEvery { bytes: 1000 }, 1);
    let first = get(&cluster, "");
    assert_eq!(first.body, bytes[..1000]);
    let etag = first.head.lines().find_map(|line| line.strip_prefix("ETag: ")).unwrap();
    let second = get(&cluster, &format!("Range: bytes=1000-\r\nIf-Range: {etag}\r\n"));
    assert_eq!(second.status, 200);
    assert_eq!(second.body.len(), bytes.len());
    assert_ne!(second.body, bytes);
}

#[test]
fn a_stalled_body_ends_when_the_client_leaves() {
    let (_directory, cluster, bytes) = cluster();
    cluster.misbehave("tar.gz$", Misbehaviour::Stall { after_bytes: 2000 });
    let mut client = Client::new(&cluster);
    write!(client.0.get_mut(), "GET /cdn/{NAME} HTTP/1.1\r\n\r\n").unwrap();
    let mut start = Vec::new();
    while !start.ends_with(&bytes[1990..2000]) {
        start.extend(client.0.fill_buf().unwrap());
        let length = client.0.buffer().len();
        client.0.consume(length);
    }
    // Dropping the cluster with a client still stalled must not hang.
    drop(cluster);
    assert!(client.0.fill_buf().map(<[u8]>::is_empty).unwrap_or(true));
}

#[test]
fn statuses_and_redirects_replace_the_answer_as_often_as_was_said() {
    let (_directory, cluster, _) = cluster();
    cluster.misbehave_times("tar.gz$", Misbehaviour::Status(503, Some(7)), 1);
    let answer = get(&cluster, "");
    assert_eq!(answer.status, 503);
    assert!(answer.head.contains("Retry-After: 7"));
    cluster.misbehave_times("tar.gz$", Misbehaviour::RedirectLoop, 1);
    assert!(get(&cluster, "").head.contains(&format!("Location: /cdn/{NAME}")));
    assert_eq!(get(&cluster, "").status, 200);
    assert_eq!(cluster.requests_to("tar.gz$").len(), 3);
}

#[test]
fn connections_are_reset_refused_or_meet_a_foreign_certificate() {
    let (_directory, mut cluster, _) = cluster();
    let status = |cluster: &Cluster| Client::new(cluster).ask("GET", "/", "").map(|answer| answer.status);
    cluster.misbehave("", Misbehaviour::ConnectionRefusedFor(1));
    assert!(status(&cluster).is_err());
    cluster.misbehave_times("", Misbehaviour::BadTls, 1);
    assert!(status(&cluster).unwrap_err().to_string().contains("certificate"));
    assert_eq!(status(&cluster).unwrap(), 404);
    cluster.go_down();
    assert!(TcpStream::connect(("127.0.0.1", cluster.port())).is_err());
    cluster.come_up();
    assert_eq!(status(&cluster).unwrap(), 404);
}

#[test]
fn the_cdn_asks_for_credentials_and_the_proxy_for_its_own() {
    let (_directory, cluster, bytes) = cluster();
    cluster.require_auth(Some(Auth::Bearer("token".into())));
    assert_eq!(get(&cluster, "").status, 401);
    assert_eq!(get(&cluster, "Authorization: Bearer token\r\n").status, 200);

    let proxy = Proxy::start();
    proxy.require("user", "password");
    proxy.route("cdn.example:443", &cluster.addr());
    let connect = |headers: &str| {
        let mut tcp = TcpStream::connect(proxy.url().trim_start_matches("http://")).unwrap();
        write!(tcp, "CONNECT cdn.example:443 HTTP/1.1\r\n{headers}\r\n").unwrap();
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            tcp.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        (String::from_utf8(head).unwrap(), tcp)
    };
    assert!(connect("").0.contains(" 407 "));
    let (head, tcp) = connect("Proxy-Authorization: Basic dXNlcjpwYXNzd29yZA==\r\n");
    assert!(head.contains(" 200 "));
    let target = format!("/cdn/{NAME}");
    let answer = Client::over(&cluster, tcp).ask("GET", &target, "Authorization: Bearer token\r\n").unwrap();
    assert_eq!(answer.body, bytes);
    assert_eq!(proxy.targets(), ["cdn.example:443"]);
    assert_eq!(proxy.refused(), 1);
}
