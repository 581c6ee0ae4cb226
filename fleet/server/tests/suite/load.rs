//! More requests than can be in work at a time.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crate::support::visitor::Visitor;
use crate::support::{SOON, request, rolling, start};

/// Who may wait for other servers at a time.
const WAITING: usize = 256;
/// Pages that may be in work at a time.
const PAGES: usize = 256;
/// So many more ask.
const SURPLUS: usize = 44;

/// A server that takes questions and answers none: its address, and what says that it was asked.
fn silent() -> (String, Receiver<()>) {
    let other = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1/x", other.local_addr().unwrap());
    let (asked, was_asked) = channel();
    std::thread::spawn(move || {
        let mut kept = Vec::new();
        for stream in other.incoming().map_while(Result::ok) {
            asked.send(()).ok();
            kept.push(stream);
        }
    });
    (url, was_asked)
}

#[test]
fn who_finds_no_place_comes_again_later_and_everybody_else_is_served() {
    let (url, was_asked) = silent();
    let (_dir, server) = rolling(&["dev"]);
    server.create(&format!(
        "kind: fleet_channel\nversion: v1\nmetadata: {{name: slow}}\nspec: {{forward_url: '{url}'}}\n"
    ));
    let ask = |_| {
        let mut stream = TcpStream::connect(server.addr).unwrap();
        stream.write_all(b"GET /v1/slow/version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").unwrap();
        stream.set_nonblocking(true).unwrap();
        (stream, Vec::new())
    };
    let mut streams: Vec<(TcpStream, Vec<u8>)> = (0..WAITING + SURPLUS).map(ask).collect();
    was_asked.recv_timeout(SOON).unwrap();
    let end = Instant::now() + SOON;
    let refused = |streams: &mut Vec<(TcpStream, Vec<u8>)>| -> Vec<String> {
        for (stream, answer) in streams.iter_mut() {
            let mut part = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut part) {
                answer.extend_from_slice(&part[..count]);
            }
        }
        let whole = streams.iter().map(|(_, answer)| String::from_utf8_lossy(answer).into_owned());
        whole.filter(|answer| answer.starts_with("HTTP/1.1 503 ") && answer.contains("\"overloaded\"")).collect()
    };
    while refused(&mut streams).len() < SURPLUS {
        assert!(Instant::now() < end, "{} were refused", refused(&mut streams).len());
        std::thread::sleep(Duration::from_millis(5));
    }
    // Meanwhile.
    assert_eq!(server.json("/v1/webapi/find?group=dev")["agent_version"], "1.0.0");
    assert_eq!(server.get("/v1/dev/version"), (200, "1.0.0\n".to_owned()));
    assert_eq!((server.get("/healthz").0, server.get("/readyz").0), (200, 200));
    assert_eq!(request(server.metrics, "GET", "/readyz", "", "").0, 200);
    assert_eq!(request(server.metrics, "GET", "/metrics", "", "").0, 200);
    server.agents(&["halt", "--all"]);
    assert_eq!(request(server.addr, "GET", "/v1/fleet/rollout", "", "").0, 401, "the admin API has its own places");

    let refused = refused(&mut streams);
    assert_eq!(refused.len(), SURPLUS, "as many as find no place, and no more");
    let after = |answer: &String| -> u32 {
        let line = answer.lines().find_map(|line| line.strip_prefix("retry-after: "));
        line.unwrap_or_else(|| panic!("{answer}")).parse().unwrap()
    };
    let mut after: Vec<u32> = refused.iter().map(after).collect();
    assert!(after.iter().all(|after| (5..=30).contains(after)), "{after:?}");
    after.sort_unstable();
    after.dedup();
    assert!(after.len() >= 20, "they would come again together: {after:?}");
    // Places are given back by who leaves.
    drop(streams);
    server.until("there are places again", || {
        server.get("/v1/slow/version").0 == 502 || server.get("/v1/slow/version").0 == 200
    });
}

/// Who sends slowly takes no place: more of them than pages have places, and everybody else is served.
#[test]
fn forms_that_do_not_come_keep_nobody_out() {
    let (_dir, server) = start();
    let token = &server.token("o", "operator");
    let head = format!(
        "POST /login HTTP/1.1\r\nhost: x\r\norigin: http://{0}\r\ncontent-type: application/x-www-form-urlencoded\r\n\
         content-length: 100\r\nexpect: 100-continue\r\n\r\n",
        server.addr
    );
    let half = |_| {
        let mut stream = TcpStream::connect(server.addr).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        // The server says so once it waits for the body; it may as well refuse at once.
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        (stream, answer)
    };
    let halves: Vec<(TcpStream, [u8; 12])> = (0..PAGES + SURPLUS).map(half).collect();
    assert!(halves.iter().all(|(_, answer)| answer == b"HTTP/1.1 100"), "{:?}", halves.first());
    let mut visitor = Visitor::new(&server);
    assert_eq!(visitor.get("/login").status, 200);
    assert_eq!(visitor.login(token).status, 303);
    assert_eq!(visitor.get("/").status, 200);
    assert_eq!(request(server.addr, "POST", "/v1/webapi/agents/report", "", "{}").0, 401, "it has no signature");
}
