//! What pages show, and how.

use std::io::{Read, Write};
use std::net::TcpStream;

use super::{PAGES, started, token};
use crate::reports::host::{Host, epoch};
use crate::support::visitor::Visitor;
use crate::support::{SOON, groups, start, version};

#[test]
fn the_rollout_says_why_in_the_words_of_the_command_line() {
    let (_dir, server) = started();
    server.json("/v1/webapi/find?host=11111111-2222-4333-8444-555555555555&group=dev");
    server.agents(&["start-update", "dev"]);
    let visitor = Visitor::with(&server, &token(&server, "viewer"));
    server.until("the host is known", || visitor.get("/hosts").body.contains("11111111-2222-4333"));
    let page = visitor.get("/").body;
    let said = server.agents(&["status"]);
    let line = said.lines().find(|line| line.starts_with("prod: ")).unwrap();
    let sentence = line.strip_prefix("prod: ").unwrap().split(", since").next().unwrap();
    assert_eq!(sentence, "group dev is not done");
    let advice = line.split("; ").last().unwrap();
    for part in [sentence, advice, "Rollout to 1.1.0", "Active", "Unstarted", "href=\"/groups/dev\""] {
        assert!(page.contains(part), "{part:?}: {page}");
    }
    let explained = visitor.get("/hosts/11111111-2222-4333-8444-555555555555").body;
    assert!(explained.contains("update to 1.1.0") && explained.contains("it may update now"), "{explained}");
    let group = visitor.get("/groups/dev").body;
    assert!(group.contains("group started") || group.contains("<td>start</td>"), "{group}");
    server.agents(&["halt", "--all"]);
    let group = visitor.get("/groups/dev").body;
    let (all, own) = (group.find("<td>all groups</td>").unwrap(), group.find("<td>start</td>").unwrap());
    assert!(all < own, "the newest first: {group}");
    let versions = visitor.get("/versions").body;
    assert!(versions.contains("autoupdate_config") && versions.contains("target_version: 1.1.0"), "{versions}");
    let audit = visitor.get("/audit").body;
    assert!(audit.contains("is whole. Keep its head elsewhere"), "{audit}");
}

#[test]
fn without_a_rollout_pages_say_so() {
    let (_dir, server) = start();
    let visitor = Visitor::with(&server, &token(&server, "operator"));
    assert!(visitor.get("/").body.contains("No rollout"));
    assert_eq!(visitor.get("/groups/dev").status, 404);
    let host = visitor.get("/hosts/11111111-2222-4333-8444-555555555555");
    assert_eq!(host.status, 200);
    assert!(host.body.contains("hosts get no version"), "{host:?}");
    for page in ["/hosts", "/versions", "/audit"] {
        assert_eq!(visitor.get(page).status, 200, "{page}");
    }
}

#[test]
fn past_rollouts_are_listed_with_their_end_and_older_ones_have_a_page() {
    let (_dir, server) = started();
    let visitor = Visitor::with(&server, &token(&server, "viewer"));
    assert!(visitor.get("/").body.contains("href=\"/rollouts\""));
    let rows = |page: &str| visitor.get(page).body.matches("<th scope=\"row\">").count();
    assert_eq!(rows("/rollouts"), 1);
    server.create(&version("1.1.0", "1.2.0", "regular"));
    server.until("the second rollout is there", || visitor.get("/").body.contains("Rollout to 1.2.0"));
    let page = visitor.get("/rollouts").body;
    let (new, old) = (page.find("<td>1.2.0</td>").unwrap(), page.find("<td>1.0.0</td>").unwrap());
    assert!(new < old && page.matches("it goes on").count() == 1, "{page}");
    assert_eq!((rows("/rollouts"), rows("/rollouts?before=2"), rows("/rollouts?before=1")), (2, 1, 0));
    assert!(!visitor.get("/rollouts?before=2").body.contains("it goes on"));
    assert_eq!(visitor.get("/rollouts?before=x").status, 404);
}

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

#[test]
fn a_simulation_says_what_the_command_line_says_and_what_cannot_be_simulated_is_said_in_place() {
    let (_dir, server) = started();
    let visitor = Visitor::with(&server, &token(&server, "viewer"));
    let page = visitor.get("/simulate?to=1.1.0&hosts=300&bad=100%25&vanish=&seed=7");
    assert_eq!(page.status, 200, "{page:?}");
    for part in ["for 300 hosts", "(seed 7)", "halted", "src=\"data:image/svg+xml,%3Csvg"] {
        assert!(page.body.contains(part), "{part}: {page:?}");
    }
    for (query, says) in [
        ("hosts=20001", "Hosts: give 1 to 20000"),
        ("hosts=x", "Hosts: give 1 to 20000"),
        ("bad=200%25", "is no share of hosts"),
        ("seed=-1", "Seed: give a whole number"),
        ("to=%3Cb%3E", "Version: "),
    ] {
        let page = visitor.get(&format!("/simulate?{query}"));
        assert_eq!(page.status, 400, "{query}: {page:?}");
        assert!(
            page.body.contains(says) && page.body.contains("role=\"alert\"") && !page.body.contains("<b>"),
            "{page:?}"
        );
    }
}

/// The network that fails after it changes nothing of what the version did there.
#[test]
fn a_group_shows_the_failures_for_which_it_halts_and_the_hosts_behind_each() {
    let (_dir, server) = started();
    let failed = crate::reports::first_fails(&server);
    let epoch = epoch(&server);
    server.until("the group halts", || server.group("dev")["state"] == "halted");
    let network = failed.says(epoch, "1.0.0", Some(("failed", "1.1.0", "network")));
    assert_eq!(failed.sends(server.addr, &network).0, 200);
    let last = server.ok(&["host", &failed.id]);
    assert!(last.contains("Last change: failed, to 1.1.0 (network)"), "{last}");
    let visitor = Visitor::with(&server, &token(&server, "viewer"));
    let page = visitor.get("/groups/dev").body;
    assert_eq!(server.group("dev")["why"]["error"], "unhealthy");
    let link = "/hosts?group=dev&amp;code=unhealthy";
    assert!(page.contains(&format!("href=\"{link}\"")) && !page.contains("code=network"), "{page}");
    // Over time: who was told, and who failed of those.
    assert!(page.contains(" allowed to update</span>") && page.contains(" 1 failed or timed out</span>"), "{page}");
    let other = Host::new(2, "dev").id;
    let behind = visitor.get(&link.replace("&amp;", "&")).body;
    assert!(behind.contains(&failed.id) && !behind.contains(&other), "{behind}");
    assert!(behind.contains("failed</span> (unhealthy)"), "not that of the last change: {behind}");
    assert!(behind.contains("<code>unhealthy</code>"), "what it is asked for is said: {behind}");
    let found = |code: &str| server.ok(&["hosts", "--group", "dev", "--code", code]);
    assert!(found("unhealthy").contains(&failed.id) && !found("unhealthy").contains(&other), "{}", found("unhealthy"));
    assert!(found("unhealthy").contains(" failed (unhealthy) "), "{}", found("unhealthy"));
    let json = server.parsed(&["hosts", "--code", "unhealthy"]);
    let host = &json[0];
    assert_eq!((&host["failed_with"], &host["error_code"]), (&"unhealthy".into(), &"network".into()), "{json:#}");
    for code in ["network", ""] {
        assert_eq!(found(code), "No host is known that matches.\n", "{code:?}");
        let page = visitor.get(&format!("/hosts?code={code}")).body;
        assert!(page.contains("No host is like this."), "{code:?}: {page}");
    }
}

/// By the time somebody types it another key may wait: the command names the one that was looked at.
#[test]
fn the_page_of_a_host_names_the_key_that_it_advises_to_accept() {
    let (_dir, server) = started();
    let (first, second) = (Host::new(1, "dev"), Host::with_key(1, "dev", 9));
    let epoch = epoch(&server);
    for (host, status) in [(&first, 200), (&second, 409)] {
        assert_eq!(host.sends(server.addr, &host.says(epoch, "1.0.0", None)).0, status);
    }
    let key = second.key().to_string();
    let command = format!("teleport-fleet host {} accept --key {}", first.id, &key[..16]);
    let visitor = Visitor::with(&server, &token(&server, "viewer"));
    let page = visitor.get(&format!("/hosts/{}", first.id)).body;
    assert!(page.contains(&format!("<code>{command}</code>")), "{page}");
    let told = server.ok(&["host", &first.id]);
    assert!(told.contains(&format!("if it is right: {command}\n")), "{told}");
}
