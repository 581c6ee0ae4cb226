//! How the server is asked, and what is said where it cannot be.

use std::fs::{self, Permissions};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::thread;

use crate::support::{Asked, Done, Reply, Server, carry_out, group, rollout, socket};
use fleet_cli::Editor;
use serde_json::{Value, json};

const STATUS: [&str; 3] = ["autoupdate", "agents", "status"];
const HALT: [&str; 4] = ["autoupdate", "agents", "halt", "--all"];

fn acted() -> Reply {
    let effects = json!({ "lets_go": 0, "goes_down": 0, "halted_before": false });
    let rollout = rollout("halt-on-error", "active", vec![group("a", "halted", None, "manual_halt", &json!({}))]);
    Reply::json(&json!({ "groups": ["a"], "rollout": rollout, "effects": effects }))
}

fn ids(server: &Server) -> Vec<String> {
    server.asked().iter().map(Asked::id).collect()
}

#[test]
fn a_change_is_sent_again_with_the_same_id_where_the_connection_broke() {
    for broken in [vec![Reply::Break], vec![Reply::Break, Reply::Cut(b"{".to_vec())]] {
        let count = broken.len();
        let server = Server::new(broken.into_iter().chain([acted()]));
        let done = server.run(&HALT);
        assert_eq!((done.status, done.err.as_str()), (0, ""));
        let ids = ids(&server);
        assert_eq!(ids.len(), count + 1);
        assert!(ids.iter().all(|id| *id == ids[0] && id.len() == 36), "{ids:?}");
    }
}

#[test]
fn it_is_sent_at_most_three_times_and_then_nobody_knows() {
    let server = Server::new([Reply::Break, Reply::Break, Reply::Break, acted()]);
    let done = server.run(&HALT);
    assert_eq!((done.status, done.out.as_str()), (1, ""));
    assert!(done.err.contains("whether the change was made is not known"), "{}", done.err);
    assert_eq!(done.err.lines().count(), 1);
    assert_eq!(server.asked().len(), 3);
}

#[test]
fn each_change_has_an_id_of_its_own() {
    let server = Server::new([acted(), acted()]);
    server.run(&HALT);
    server.run(&HALT);
    let ids = ids(&server);
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn no_server_is_said_with_its_socket() {
    let server = Server::new([]);
    let other = tempfile::tempdir().unwrap();
    for path in [socket(&server.directory), socket(&other)] {
        fs::remove_file(socket(&server.directory)).unwrap_or_default();
        let path = path.to_str().unwrap();
        let arguments = ["teleport-fleet", "autoupdate", "agents", "status", "--admin-socket", path];
        let done = carry_out(&arguments, "", Editor { command: "false".into(), directory: "/nowhere".into() });
        assert_eq!(done.status, 1);
        assert_eq!(done.err.lines().count(), 1);
        assert!(done.err.contains(path) && done.err.contains("is teleport-fleet running?"), "{}", done.err);
    }
}

/// Its queue is full, and it takes nobody in.
#[test]
fn a_server_that_hangs_is_not_waited_for_without_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("admin.sock");
    let _hangs = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let (waits, queued) = std::sync::mpsc::channel();
    let to = path.clone();
    thread::spawn(move || while waits.send(std::os::unix::net::UnixStream::connect(&to)).is_ok() {});
    // The next one waits when none comes for a second.
    let _queue: Vec<_> = std::iter::from_fn(|| queued.recv_timeout(std::time::Duration::from_secs(1)).ok()).collect();
    let path = path.to_str().unwrap();
    let arguments = ["teleport-fleet", "autoupdate", "agents", "status", "--admin-socket", path];
    let done = carry_out(&arguments, "", Editor { command: "false".into(), directory: "/nowhere".into() });
    assert!(done.status == 1 && done.err.contains("no connection within 5 s"), "{}", done.err);
}

#[test]
fn an_answer_that_is_too_large_is_not_kept_in_memory() {
    let server = Server::new([Reply::Answer(200, vec![b' '; (32 << 20) + 1])]);
    let done = server.run(&STATUS);
    assert_eq!(done.status, 1);
    assert!(done.err.contains("larger than 33554432 bytes"), "{}", done.err);
}

fn at(url: &str, more: &[&str]) -> Done {
    let arguments: Vec<&str> = ["teleport-fleet", "--server", url].iter().chain(more).chain(&STATUS).copied().collect();
    carry_out(&arguments, "", Editor { command: "false".into(), directory: "/nowhere".into() })
}

#[test]
fn a_server_at_an_address_gets_the_token_of_the_file() {
    let (server, url) =
        Server::at_an_address([Reply::refused(404, "no_rollout", ""), Reply::refused(404, "not_found", "")]);
    let file = server.directory.path().join("token");
    fs::write(&file, "secret-token\n").unwrap();
    fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
    let done = at(&url, &["--token-file", file.to_str().unwrap()]);
    assert_eq!(done.status, 0, "{}", done.err);
    let warning = format!("warning: {} has mode 644, so others may read or change it: chmod 600\n", file.display());
    assert_eq!(done.err, warning);
    let asked = server.asked().remove(0);
    assert_eq!(asked.header("authorization"), Some("Bearer secret-token"));
    assert_eq!(asked.header("host"), url.strip_prefix("http://"));
}

#[test]
fn a_token_that_is_none_is_refused_before_anything_is_sent() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("token");
    for text in ["", "two words", "a\r\nX-Evil: 1"] {
        fs::write(&file, text).unwrap();
        let done = at("http://127.0.0.1:9", &["--token-file", file.to_str().unwrap()]);
        assert!(done.err.contains("cannot read the token"), "{}", done.err);
    }
}

/// A TLS server with a certificate that it made itself.
fn over_tls(replies: Vec<Reply>) -> (String, String, Arc<Mutex<Vec<Asked>>>) {
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
    use rustls::{ServerConfig, ServerConnection, StreamOwned};
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = config.with_no_client_auth().with_single_cert(vec![made.cert.der().clone()], key).unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let asked = Arc::new(Mutex::new(Vec::new()));
    let seen = asked.clone();
    thread::spawn(move || {
        for reply in replies {
            let (stream, _) = listener.accept().unwrap();
            let mut stream = StreamOwned::new(ServerConnection::new(config.clone()).unwrap(), stream);
            // A client that trusts nobody ends the handshake.
            if stream.conn.complete_io(&mut stream.sock).is_ok() {
                crate::support::serve(&mut stream, &reply, &seen);
            }
        }
    });
    (url, made.cert.pem(), asked)
}

#[test]
fn a_server_elsewhere_must_show_a_certificate_that_is_trusted() {
    let none = || Reply::refused(404, "no_rollout", "");
    let (url, pem, asked) = over_tls(vec![none(), none(), none()]);
    let done = at(&url, &[]);
    assert_eq!(done.status, 1);
    let says_what_to_do = done.err.contains("name the authority of its certificate with --ca-file\n");
    assert!(says_what_to_do || done.err.contains("no certificate authority"), "{}", done.err);
    assert!(asked.lock().unwrap().is_empty());
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ca.pem");
    fs::write(&file, pem).unwrap();
    // Where the system trusts nobody at all, the first connection was never made: the server still waits for it.
    let done = at(&url, &["--ca-file", file.to_str().unwrap()]);
    assert_eq!((done.status, done.err.as_str()), (1, "error: \n"), "it asks, and is answered");
    let asked: Vec<Asked> = asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 2);
    assert_eq!(asked[0].body, Value::Null);
}

#[test]
fn what_is_no_such_server_is_told_with_what_to_look_at() {
    let (_server, address) = Server::at_an_address([Reply::refused(404, "not_found", "there is nothing at this path")]);
    let done = at(&address, &[]);
    assert_eq!(
        done.err,
        format!(
            "error: {address} does not answer as a teleport-fleet server: it does not know this request: look at the port, \
             and at the versions of the two programs\n"
        )
    );
}

#[test]
fn https_to_a_port_without_tls_is_told_as_that() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let _ = stream.read(&mut [0; 64]).and_then(|_| stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
    });
    let done = at(&url, &[]);
    let trusts_nobody = done.err.contains("no certificate authority");
    assert!(trusts_nobody || done.err.contains(": that port speaks no TLS; look at the port, "), "{}", done.err);
}

#[test]
fn an_address_that_cannot_be_asked_is_status_2_and_told_to_programs_as_usage() {
    for url in ["foo", "http://example.com", "https://me@localhost"] {
        let done = at(url, &["--format", "json"]);
        assert_eq!((done.status, done.err.lines().count()), (2, 1), "{}", done.err);
        assert_eq!(done.json()["error"]["code"], "usage");
    }
}
