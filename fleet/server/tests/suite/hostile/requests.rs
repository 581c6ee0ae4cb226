//! Broken requests, floods of connections, and clients that leave.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::{find, started};
use crate::support::{SOON, Server, request, start};

/// Idle connections of a flood; fewer where the test may not have as many descriptors.
const IDLE: usize = 10_000;

/// Descriptors that the test, and the server, need for something else.
const OTHER_DESCRIPTORS: usize = 300;

/// How many descriptors a process of this test may have.
fn descriptors() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().parse().unwrap_or(usize::MAX)
}

#[test]
fn find_and_an_operator_are_answered_beside_ten_thousand_idle_and_half_requests() {
    let (_dir, server) = started();
    let count = IDLE.min(descriptors().saturating_sub(OTHER_DESCRIPTORS));
    let mut idle = Vec::new();
    for number in 0..count {
        let Ok(mut stream) = TcpStream::connect(server.addr) else { panic!("connection {number} of {count}") };
        let start: &[u8] = match number % 4 {
            0 => b"",
            1 => b"GET /webapi/find HT",
            2 => b"POST /v1/webapi/find HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\nhalf",
            _ => b"GET /webapi/find HTTP/1.1\r\nhost: x\r\n\r\n",
        };
        stream.write_all(start).ok();
        idle.push(stream);
    }
    assert_eq!(find(&server, "group=dev"), ("1.1.0".to_owned(), true));
    server.agents(&["halt", "--all"]);
    assert!(!find(&server, "group=dev").1);
    assert_eq!(request(server.metrics, "GET", "/readyz", "", "").0, 200);
    drop(idle);
}

/// The bytes of an answer on a connection of its own.
fn raw(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.addr).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    // It may answer before it has read everything.
    stream.write_all(bytes).ok();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok();
    String::from_utf8_lossy(&answer).into_owned()
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
}

#[test]
fn broken_requests_are_client_errors_and_the_server_goes_on() {
    let (_dir, server) = started();
    let get = |path: &str, headers: &str| {
        format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{headers}\r\n").into_bytes()
    };
    let cases: [(&str, Vec<u8>, &[u16]); 13] = [
        ("a TLS greeting", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03aaaaaaaaaaaaaaaaaaaa\r\n\r\n".to_vec(), &[400]),
        ("a huge header", get("/webapi/find", &format!("a: {}\r\n", "x".repeat(200_000))), &[431]),
        ("many headers", get("/webapi/find", &"a: b\r\n".repeat(2000)), &[431]),
        ("a huge address", get(&format!("/webapi/find?{}", "x".repeat(200_000)), ""), &[414, 431]),
        ("two lengths", get("/webapi/find", "content-length: 5\r\ncontent-length: 6\r\n"), &[400]),
        ("chunks that are none", b"POST /v1/fleet/commands HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\nconnection: close\r\n\r\nZZ\r\n".to_vec(), &[400, 401]),
        ("two slashes", get("//webapi/find", ""), &[404]),
        ("an encoded slash", get("/webapi%2ffind", ""), &[404]),
        ("no UTF-8", get("/v1/%ff/version", ""), &[404]),
        ("a path up", get("/../../etc/passwd", ""), &[404]),
        ("another method", b"BREW /webapi/find HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_vec(), &[405]),
        ("no token", get("/v1/fleet/hosts", ""), &[401]),
        ("a token that is none", get("/v1/fleet/hosts", "authorization: Bearer \u{1f600}\r\n"), &[401]),
    ];
    for (what, bytes, expected) in cases {
        let answer = raw(&server, &bytes);
        assert!(expected.contains(&status(&answer)), "{what}: {answer}");
    }
    assert_eq!(status(&raw(&server, b"GET http://elsewhere/webapi/find HTTP/1.0\r\n\r\n")), 200);
    let head = raw(&server, b"HEAD /webapi/find HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    assert!(status(&head) == 200 && head.ends_with("\r\n\r\n"), "{head}");
    assert_eq!(find(&server, "group=dev"), ("1.1.0".to_owned(), true));
}

#[test]
fn who_leaves_takes_a_forwarded_channel_from_nobody() {
    let other = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = other.local_addr().unwrap().port();
    let (asked, was_asked) = std::sync::mpsc::channel();
    let (go, gone) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        for stream in other.incoming().map_while(Result::ok) {
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).ok();
            asked.send(()).ok();
            // Until the first who asked has left.
            gone.recv_timeout(SOON).ok();
            (&stream).write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\nconnection: close\r\n\r\nv1.5.0\n").ok();
        }
    });
    let (_dir, server) = start();
    server.create(&format!(
        "kind: fleet_channel\nversion: v1\nmetadata: {{name: st/cloud}}\nspec: {{forward_url: 'http://127.0.0.1:{port}/v1/x'}}\n"
    ));
    let mut stream = TcpStream::connect(server.addr).unwrap();
    stream.write_all(b"GET /v1/st/cloud/version HTTP/1.1\r\nhost: x\r\n\r\n").unwrap();
    was_asked.recv_timeout(SOON).unwrap();
    drop(stream);
    // The server has noticed when it answers others beside; nothing else shows it.
    for _ in 0..20 {
        assert_eq!(server.get("/healthz").0, 200);
    }
    drop(go);
    let end = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = server.get("/v1/st/cloud/version");
        if answer == (200, "1.5.0\n".to_owned()) {
            return;
        }
        assert!(Instant::now() < end, "{answer:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}
