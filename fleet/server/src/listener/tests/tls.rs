//! TLS, and certificates that are replaced.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::listener::{Listener, ListenerLimits, Tcp, Tls};
use rcgen::{CertificateParams, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, HandshakeKind, ProtocolVersion, RootCertStore};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::support::{Client, SHORT, Server, unlimited, within};

/// A certificate and its key in a directory of their own.
struct Files {
    directory: TempDir,
}

/// A certificate for localhost that is its own authority.
struct Pair {
    cert: String,
    key: String,
    der: CertificateDer<'static>,
}

impl Pair {
    fn new() -> Self {
        let key = KeyPair::generate().unwrap();
        let cert = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
        Self { cert: cert.pem(), key: key.serialize_pem(), der: cert.der().clone() }
    }

    /// A client that trusts this certificate alone.
    fn client(&self) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth()
    }
}

impl Files {
    fn with(pair: &Pair) -> Self {
        let files = Self { directory: tempfile::tempdir().unwrap() };
        files.write(pair);
        files
    }

    fn write(&self, pair: &Pair) {
        std::fs::write(self.cert(), &pair.cert).unwrap();
        std::fs::write(self.key(), &pair.key).unwrap();
    }

    fn cert(&self) -> PathBuf {
        self.directory.path().join("cert.pem")
    }

    fn key(&self) -> PathBuf {
        self.directory.path().join("key.pem")
    }

    fn load(&self) -> Tls {
        Tls::load(&self.cert(), &self.key()).unwrap()
    }

    fn error(&self) -> String {
        Tls::load(&self.cert(), &self.key()).unwrap_err().to_string()
    }
}

fn start(tls: Tls, limits: ListenerLimits) -> (Server, SocketAddr) {
    let tcp = Tcp::bind("127.0.0.1:0".parse().unwrap(), Some(tls)).unwrap();
    let address = tcp.local_addr().unwrap();
    (Server::new(Listener::Tcp(tcp), limits), address)
}

async fn handshake(address: SocketAddr, config: ClientConfig) -> std::io::Result<TlsStream<TcpStream>> {
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    within("a handshake", TlsConnector::from(Arc::new(config)).connect(name, stream)).await
}

async fn get(address: SocketAddr, config: ClientConfig) -> Option<String> {
    let stream = handshake(address, config).await.ok()?;
    Some(Client::over(stream).get("/").await.unwrap().body)
}

#[tokio::test]
async fn requests_are_answered_over_tls_1_2_and_1_3() {
    let pair = Pair::new();
    let files = Files::with(&pair);
    let (_server, address) = start(files.load(), unlimited());
    assert_eq!(get(address, pair.client()).await.as_deref(), Some("hello"));
    for (version, number) in
        [(&rustls::version::TLS12, ProtocolVersion::TLSv1_2), (&rustls::version::TLS13, ProtocolVersion::TLSv1_3)]
    {
        let mut roots = RootCertStore::empty();
        roots.add(pair.der.clone()).unwrap();
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[version])
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let stream = handshake(address, config.clone()).await.unwrap();
        let session = stream.get_ref().1;
        assert_eq!((session.protocol_version(), session.alpn_protocol()), (Some(number), Some(&b"http/1.1"[..])));
        assert_eq!(session.handshake_kind(), Some(HandshakeKind::Full));
        assert_eq!(Client::over(stream).get("/").await.unwrap().body, "hello");
        // The ticket came with the answer.
        let stream = handshake(address, config).await.unwrap();
        assert_eq!(stream.get_ref().1.handshake_kind(), Some(HandshakeKind::Resumed), "{number:?}");
    }
}

#[tokio::test]
async fn who_speaks_only_http_2_is_refused() {
    let pair = Pair::new();
    let files = Files::with(&pair);
    let (_server, address) = start(files.load(), unlimited());
    let mut config = pair.client();
    config.alpn_protocols = vec![b"h2".to_vec()];
    assert!(handshake(address, config).await.is_err());
}

#[test]
fn keys_of_all_kinds_are_read() {
    let keys = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/keys");
    for (cert, key) in [
        ("rsa.cert.pem", "rsa.pkcs8.pem"),
        ("rsa.cert.pem", "rsa.pkcs1.pem"),
        ("ec.cert.pem", "ec.pkcs8.pem"),
        ("ec.cert.pem", "ec.sec1.pem"),
        ("ed25519.cert.pem", "ed25519.pkcs8.pem"),
    ] {
        if let Err(error) = Tls::load(&keys.join(cert), &keys.join(key)) {
            panic!("{key}: {error}");
        }
    }
    for (cert, key) in [("rsa.cert.pem", "ec.sec1.pem"), ("ec.cert.pem", "ed25519.pkcs8.pem")] {
        let (cert, key) = (keys.join(cert), keys.join(key));
        let expected = format!("the key in {} does not belong to the certificate in {}", key.display(), cert.display());
        assert_eq!(Tls::load(&cert, &key).unwrap_err().to_string(), expected);
    }
    let error = Tls::load(&keys.join("ec.cert.pem"), &keys.join("ec.encrypted.pem")).unwrap_err().to_string();
    assert!(error.ends_with("ec.encrypted.pem has no private key; it must be PEM and not encrypted"), "{error}");
}

#[test]
fn a_bad_file_is_named_in_one_line() {
    let pair = Pair::new();
    let files = Files::with(&pair);
    let half = |text: &str| text[..text.len() / 2].to_owned();
    let (cert, key) = (files.cert(), files.key());
    let not_der = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned();
    let no_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n".to_owned();
    for (file, content, expected) in [
        (&cert, String::new(), "has no certificate"),
        (&cert, pair.key.clone(), "has no certificate"),
        (&cert, half(&pair.cert), "is not complete PEM"),
        (&cert, not_der, "the certificate in"),
        (&key, String::new(), "has no private key"),
        (&key, pair.cert.clone(), "has no private key"),
        (&key, half(&pair.key), "is not complete PEM"),
        (&key, no_key, "cannot use the key in"),
    ] {
        files.write(&pair);
        std::fs::write(file, &content).unwrap();
        let error = files.error();
        assert!(error.contains(expected) && error.contains(&*file.to_string_lossy()), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
    for file in [&cert, &key] {
        files.write(&pair);
        std::fs::remove_file(file).unwrap();
        assert!(files.error().starts_with(&format!("cannot read {}: ", file.display())), "{}", files.error());
    }
}

#[tokio::test]
async fn a_reload_changes_new_connections_and_leaves_the_others() {
    let (old, new) = (Pair::new(), Pair::new());
    let files = Files::with(&old);
    let tls = files.load();
    let (_server, address) = start(tls.clone(), unlimited());
    let mut going_on = Client::over(handshake(address, old.client()).await.unwrap());
    assert_eq!(going_on.get("/").await.unwrap().body, "hello");

    files.write(&new);
    tls.reload().unwrap();
    assert_eq!(get(address, new.client()).await.as_deref(), Some("hello"));
    assert_eq!(get(address, old.client()).await, None);
    assert_eq!(going_on.get("/").await.unwrap().body, "hello");
}

#[tokio::test]
async fn a_session_does_not_outlive_its_certificate() {
    let (old, new) = (Pair::new(), Pair::new());
    let files = Files::with(&old);
    let tls = files.load();
    let (_server, address) = start(tls.clone(), unlimited());
    let client = old.client();
    assert!(get(address, client.clone()).await.is_some());
    files.write(&new);
    tls.reload().unwrap();
    assert_eq!(get(address, client).await, None);
}

#[tokio::test]
async fn a_bad_reload_keeps_the_old() {
    let (old, new) = (Pair::new(), Pair::new());
    let files = Files::with(&old);
    let tls = files.load();
    let (_server, address) = start(tls.clone(), unlimited());
    std::fs::write(files.cert(), &new.cert).unwrap();
    assert!(tls.reload().unwrap_err().to_string().contains("does not belong"));
    std::fs::write(files.key(), &new.key[..new.key.len() / 2]).unwrap();
    assert!(tls.reload().unwrap_err().to_string().contains("is not complete PEM"));
    assert_eq!(get(address, old.client()).await.as_deref(), Some("hello"));
    std::fs::write(files.key(), &new.key).unwrap();
    tls.reload().unwrap();
    assert_eq!(get(address, new.client()).await.as_deref(), Some("hello"));
}

#[tokio::test]
async fn replaced_files_are_noticed() {
    let (old, new) = (Pair::new(), Pair::new());
    let files = Files::with(&old);
    let (_server, address) = start(files.load(), unlimited());
    let mut going_on = Client::over(handshake(address, old.client()).await.unwrap());
    assert_eq!(going_on.get("/").await.unwrap().body, "hello");
    // As certificate managers do: one after the other, by renaming.
    for (name, content) in [(files.cert(), &new.cert), (files.key(), &new.key)] {
        let beside = name.with_extension("new");
        std::fs::write(&beside, content).unwrap();
        std::fs::rename(&beside, &name).unwrap();
    }
    within("the new certificate", async {
        while get(address, new.client()).await.is_none() {
            tokio::time::sleep(SHORT).await;
        }
    })
    .await;
    assert_eq!(going_on.get("/").await.unwrap().body, "hello");
}

#[tokio::test]
async fn garbage_and_silence_end_and_disturb_nobody() {
    let pair = Pair::new();
    let files = Files::with(&pair);
    let (_server, address) = start(files.load(), ListenerLimits { handshake: SHORT, ..unlimited() });
    for bytes in [
        &b""[..],
        b"\x16",
        b"\x16\x03\x01\x00\x05",
        b"\x16\x03\x01\x00\x05garba",
        b"\x16\x03\x01\xff\xffgarbage",
        b"\x16\x16\x16\x16\x16\x16\x16\x16\x16\x16\x16\x16",
        b"\0\0\0\0",
    ] {
        let mut client = Client::connect(address).await;
        client.send(bytes).await;
        assert_eq!(get(address, pair.client()).await.as_deref(), Some("hello"));
        client.closed().await;
    }
}

#[tokio::test]
async fn a_caller_in_clear_is_told_to_use_https() {
    let pair = Pair::new();
    let files = Files::with(&pair);
    let (_server, address) = start(files.load(), unlimited());
    let response = Client::connect(address).await.get("/").await.unwrap();
    assert_eq!(response.status, 400);
    assert_eq!(response.body, "this port speaks HTTPS: use https:// instead");
}

#[tokio::test]
async fn a_tls_caller_of_a_plain_port_fails_and_disturbs_nobody() {
    let (_server, address) = Server::plain(unlimited());
    assert!(handshake(address, Pair::new().client()).await.is_err());
    super::support::assert_answered(address).await;
}

#[tokio::test]
async fn a_stop_ends_handshakes() {
    let files = Files::with(&Pair::new());
    let (mut server, address) = start(files.load(), unlimited());
    let mut client = Client::connect(address).await;
    client.send(b"\x16\x03\x01").await;
    server.stop();
    client.closed().await;
    assert_eq!(server.ended().await, 0);
}
