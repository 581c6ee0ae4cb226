//! What pages show, and how.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{PAGES, started, token};
use crate::support::visitor::Visitor;
use crate::support::{SOON, groups, start, version};

#[test]
fn hosts_are_found_by_group_and_state_and_come_in_pages() {
    let (_dir, server) = started();
    for number in 0..120 {
        let group = if number % 2 == 0 { "dev" } else { "prod" };
        server.json(&format!("/v1/webapi/find?host=00000000-0000-4000-8000-{number:012}&group={group}"));
    }
    let visitor = Visitor::with(&server, &token(&server, "viewer"));
    let rows = |page: &str| page.matches("<th scope=\"row\">").count();
    server.until("all are known", || visitor.get("/").body.contains("<a href=\"/hosts\">120</a>"));
    let first = visitor.get("/hosts").body;
    assert_eq!(rows(&first), 100);
    let (_, next) = first.split_once("rel=\"next\" href=\"").unwrap();
    let next = next.split('"').next().unwrap().replace("&amp;", "&");
    assert_eq!(rows(&visitor.get(&next).body), 20);
    assert_eq!(rows(&visitor.get("/hosts?group=dev&state=&version=").body), 60);
    assert_eq!(rows(&visitor.get("/hosts?group=dev&state=failed").body), 0);
    assert_eq!(visitor.get("/hosts?state=strange").status, 400);
    assert_eq!(visitor.get("/hosts?unknown=1").status, 400);
}

#[test]
fn what_hosts_and_policies_say_is_text_and_nothing_else() {
    let (_dir, server) = start();
    let evil = "<script>alert(1)</script>";
    let config = groups(&["dev"]).replace("name: dev,", "name: \"a<b>'&\\\"\", blackout: [{from: 2020-01-01T00:00:00Z, to: 2100-01-01T00:00:00Z, reason: \"<img src=x onerror=alert(1)>\"}],");
    server.create(&format!("{config}---\n{}", version("1.0.0", "1.1.0", "regular")));
    let named = "%3Cscript%3Ealert(1)%3C/script%3E%1B%5B2J%E2%80%AE";
    server.json(&format!("/v1/webapi/find?host=11111111-2222-4333-8444-555555555555&group={named}"));
    let visitor = Visitor::with(&server, &token(&server, "operator"));
    server.until("the host is known", || visitor.get("/hosts").body.contains("11111111-2222-4333"));
    let host = visitor.get("/hosts/11111111-2222-4333-8444-555555555555").body;
    assert!(host.contains("&#60;script&#62;alert(1)&#60;/script&#62;\\u001b[2J\\u202e"), "{host}");
    let pages = [
        host,
        visitor.get("/").body,
        visitor.get("/hosts").body,
        visitor.get(&format!("/hosts?group={named}&version=%22%3E%3Cscript%3Ealert(1)")).body,
        visitor.get("/groups/a%3Cb%3E%27%26%22").body,
        visitor.get(&format!("/groups/{named}")).body,
        visitor.get("/versions").body,
        visitor.get(&format!("/login?next=/%22%3E{named}")).body,
        visitor.post("/confirm", &[("csrf", &visitor.csrf()), ("do", evil), ("group", evil)]).body,
        visitor.post("/confirm", &[("csrf", &visitor.csrf()), ("do", "halt"), ("group", evil)]).body,
    ];
    for page in pages {
        assert!(page.contains("</html>"), "{page}");
        assert!(!page.contains("<script>") && !page.contains("<img") && !page.contains("a<b>"), "{page}");
        assert!(!page.contains(['\u{1b}', '\u{202e}']), "{page}");
    }
    let group = visitor.get("/groups/a%3Cb%3E%27%26%22");
    assert_eq!(group.status, 200);
    assert!(group.body.contains("a freeze period lasts (&#60;img"), "{group:?}");
}

#[test]
fn head_is_answered_as_get_is_and_what_is_nowhere_is_404() {
    let (_dir, server) = started();
    let visitor = Visitor::with(&server, &token(&server, "viewer"));
    for page in PAGES {
        let answer = visitor.ask("HEAD", page, "accept: text/html\r\n", "");
        assert_eq!((answer.status, answer.body.as_str()), (200, ""), "{page}");
    }
    let page = visitor.get("/nothing");
    assert_eq!(page.status, 404);
    assert!(page.body.contains("there is nothing at this path"), "{page:?}");
    // Programs read JSON.
    let answer = visitor.ask("GET", "/nothing", "accept: */*\r\n", "");
    assert_eq!(answer.status, 404);
    assert!(answer.body.starts_with("{\"error\""), "{answer:?}");
    assert_eq!(visitor.get("/hosts/none").status, 400);
    // Forms' addresses, after a reload.
    for form in ["/confirm", "/act", "/logout"] {
        assert_eq!(visitor.get(form).header("location"), Some("/"), "{form}");
    }
}

#[test]
fn a_page_is_told_of_changes_until_its_session_ends() {
    let (_dir, server) = started();
    let visitor = Visitor::with(&server, &token(&server, "viewer"));
    let csrf = visitor.csrf();
    let mut stream = TcpStream::connect(server.addr).unwrap();
    stream.set_read_timeout(Some(SOON)).unwrap();
    let cookie = visitor.cookie.clone().unwrap();
    write!(stream, "GET /events HTTP/1.1\r\nhost: test\r\ncookie: {cookie}\r\n\r\n").unwrap();
    let mut heard = String::new();
    let mut until = |mark: &str| {
        let mut bytes = [0; 512];
        while !heard.contains(mark) {
            let count = stream.read(&mut bytes).unwrap();
            assert!(count > 0, "the stream ended: {heard}");
            heard.push_str(std::str::from_utf8(&bytes[..count]).unwrap());
        }
        heard.clear();
    };
    until(": hello");
    server.agents(&["start-update", "dev"]);
    until("event: changed");
    visitor.post("/logout", &[("csrf", &csrf)]);
    let mut rest = Vec::new();
    // Its last chunk, and then nothing: the connection itself may go on.
    while !rest.ends_with(b"0\r\n\r\n") {
        let mut byte = [0];
        assert_eq!(stream.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&rest));
        rest.push(byte[0]);
    }
    let rest = String::from_utf8(rest).unwrap();
    assert!(rest.contains("event: ended"), "{rest}");
}
