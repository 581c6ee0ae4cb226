//! What people do on pages.

use serde_json::Value;

use super::{started, token};
use crate::reports::host::{Host, epoch};
use crate::support::visitor::{Answer, Visitor};
use crate::support::{groups, start, version};

fn done<'a>(records: &'a [Value], action: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["action"] == action && record["done"] == true).collect()
}

fn confirm(visitor: &Visitor<'_>, fields: &[(&str, &str)]) -> Answer {
    let csrf = visitor.csrf();
    let fields: Vec<_> = fields.iter().copied().chain([("csrf", csrf.as_str())]).collect();
    visitor.post("/confirm", &fields)
}

fn send(visitor: &Visitor<'_>, form: &[(String, String)]) -> Answer {
    let fields: Vec<_> = form.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    visitor.post("/act", &fields)
}

#[test]
fn a_form_of_another_page_changes_nothing() {
    let (_dir, server) = started();
    let visitor = Visitor::with(&server, &token(&server, "operator"));
    let csrf = visitor.csrf();
    let id = "11111111-2222-4333-8444-555555555556";
    let with = |csrf: &str, headers: &str| {
        visitor.post_with("/act", &[("csrf", csrf), ("do", "halt"), ("id", id), ("rollout", "1")], headers)
    };
    let other = Visitor::with(&server, &token(&server, "admin")).csrf();
    for (csrf, headers) in [
        ("", ""),
        ("wrong", ""),
        (other.as_str(), ""),
        (&csrf[1..], ""),
        (&csrf, "origin: http://evil.example\r\n"),
        (&csrf, "origin: null\r\n"),
        (&csrf, "sec-fetch-site: cross-site\r\n"),
        (&csrf, "sec-fetch-site: same-site\r\n"),
        (&csrf, "origin: http://test\r\nsec-fetch-site: cross-site\r\n"),
    ] {
        let answer = with(csrf, headers);
        assert_eq!(answer.status, 403, "{headers:?}: {answer:?}");
        assert!(answer.body.contains("<code>forbidden</code>"), "{answer:?}");
    }
    let login = visitor.post_with("/login", &[("token", "x")], "origin: http://evil.example\r\n");
    assert_eq!(login.status, 403, "nobody is logged in as somebody else");
    assert!(done(&server.records(), "halt").is_empty());
    let answer = with(&csrf, "origin: http://test\r\n");
    assert_eq!(answer.status, 200, "{answer:?}");
    assert_eq!(done(&server.records(), "halt").len(), 1);
}

#[test]
fn a_viewer_sees_no_button_and_may_not_act() {
    let (_dir, server) = started();
    let viewer = Visitor::with(&server, &token(&server, "viewer"));
    for page in super::PAGES {
        let page = viewer.get(page).body;
        assert!(!page.contains("/confirm") && !page.contains("Stop everything"), "{page}");
    }
    for form in ["/confirm", "/act"] {
        let csrf = viewer.csrf();
        let answer =
            viewer.post(form, &[("csrf", &csrf), ("do", "halt"), ("id", "11111111-2222-4333-8444-555555555556")]);
        assert_eq!(answer.status, 403, "{form}: {answer:?}");
        assert!(answer.body.contains("needs the role operator"), "{answer:?}");
    }
    let records = server.records();
    let refused: Vec<_> =
        records.iter().filter(|record| record["done"] == false && record["who"] == "token viewer").collect();
    assert_eq!(refused.len(), 2, "{refused:?}");
}

#[test]
fn everything_is_stopped_from_every_page_and_once_however_often_the_form_is_sent() {
    let (_dir, server) = started();
    let operator = Visitor::with(&server, &token(&server, "operator"));
    for page in super::PAGES.into_iter() {
        assert!(operator.get(page).body.contains(">Stop everything</button>"), "{page}");
    }
    let asked = confirm(&operator, &[("do", "halt")]);
    assert_eq!(asked.status, 200, "{asked:?}");
    for part in ["Stop everything?", "0 hosts may update now, 0 downgrade", "dev, prod", ">Cancel<"] {
        assert!(asked.body.contains(part), "{part}: {asked:?}");
    }
    assert!(done(&server.records(), "halt").is_empty(), "it only asks");
    let form = asked.form("/act");
    for _ in 0..3 {
        let answer = send(&operator, &form);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert!(answer.body.contains("Successfully halted all agent groups."), "{answer:?}");
    }
    let records = server.records();
    let halts = done(&records, "halt");
    assert_eq!(halts.len(), 1, "{halts:?}");
    assert_eq!((&halts[0]["who"], &halts[0]["from"]), (&Value::from("token operator"), &Value::from("127.0.0.1")));
    let page = operator.get("/").body;
    assert!(
        page.contains("everything is held by an operator") && page.contains("End the stop of everything"),
        "{page}"
    );
}

#[test]
fn each_thing_that_can_be_done_is_done_as_the_command_line_does_it() {
    let (_dir, server) = started();
    let host = "11111111-2222-4333-8444-555555555555";
    server.json(&format!("/v1/webapi/find?host={host}&group=dev"));
    let operator = Visitor::with(&server, &token(&server, "operator"));
    server.until("the host is known", || operator.get("/hosts").body.contains(host));
    let act = |fields: &[(&str, &str)], says: &str, back: &str| {
        let asked = confirm(&operator, fields);
        assert_eq!(asked.status, 200, "{fields:?}: {asked:?}");
        let is_halt = fields[0].1 == "halt";
        assert_eq!(asked.body.contains("autofocus"), is_halt, "Enter stops, and does nothing else: {fields:?}");
        let answer = send(&operator, &asked.form("/act"));
        assert_eq!(answer.status, 200, "{fields:?}: {answer:?}");
        assert!(answer.body.contains(says), "{fields:?}: {answer:?}");
        assert!(answer.body.contains(&format!("<a href=\"{back}\">Back</a>")), "{fields:?}: {answer:?}");
    };
    let state = |group: &str| operator.get(&format!("/groups/{group}")).body;
    act(&[("do", "start"), ("group", "dev")], "Successfully started updating agents groups: [dev].", "/groups/dev");
    assert!(state("dev").contains("Active"));
    act(&[("do", "halt"), ("group", "dev")], "Successfully halted agent groups: [dev].", "/groups/dev");
    assert!(state("dev").contains("Halted"));
    act(&[("do", "run"), ("group", "dev")], "Successfully resumed agent groups: [dev].", "/groups/dev");
    act(
        &[("do", "mark_done"), ("group", "dev")],
        "Successfully marked agent groups as completed: [dev].",
        "/groups/dev",
    );
    assert!(state("dev").contains("Done"));
    act(&[("do", "rollback"), ("group", "dev")], "rolled back the following agent groups: [dev].", "/groups/dev");
    let path = format!("/hosts/{host}");
    act(&[("do", "hold"), ("host", host)], &format!("Hold host {host}: done."), &path);
    assert!(operator.get(&path).body.contains("an operator holds it"));
    act(&[("do", "release"), ("host", host)], "done.", &path);
    act(&[("do", "assign"), ("host", host), ("group", "prod")], "in group prod: done.", &path);
    assert!(operator.get(&path).body.contains("Assigned to group"));
    act(&[("do", "assign"), ("host", host), ("group", "")], "done.", &path);
    assert!(!operator.get(&path).body.contains("Assigned to group"));
}

#[test]
fn a_refusal_is_shown_in_place_with_its_code() {
    let (_dir, server) = started();
    let operator = Visitor::with(&server, &token(&server, "operator"));
    server.agents(&["start-update", "dev"]);
    for (fields, status, code) in [
        (&[("do", "start"), ("group", "none")][..], 404, "not_found"),
        (&[("do", "start")], 400, "bad_request"),
        (&[("do", "strange"), ("group", "dev")], 400, "bad_request"),
        (&[("do", "hold"), ("host", "x")], 400, "bad_request"),
    ] {
        let answer = confirm(&operator, fields);
        assert_eq!(answer.status, status, "{fields:?}: {answer:?}");
        assert!(
            answer.body.contains("role=\"alert\"") && answer.body.contains(&format!("<code>{code}</code>")),
            "{answer:?}"
        );
    }
}

#[test]
fn what_was_asked_of_one_rollout_is_not_done_to_the_next() {
    let (_dir, server) = started();
    let operator = Visitor::with(&server, &token(&server, "operator"));
    let start = confirm(&operator, &[("do", "start"), ("group", "dev")]).form("/act");
    let halt = confirm(&operator, &[("do", "halt"), ("group", "dev")]).form("/act");
    server.create(&version("1.0.0", "1.2.0", "regular"));
    let answer = send(&operator, &start);
    assert_eq!(answer.status, 409, "{answer:?}");
    assert!(answer.body.contains("another rollout began since this was asked"), "{answer:?}");
    assert!(done(&server.records(), "start").is_empty());
    assert_eq!(send(&operator, &halt).status, 200, "a stop is a stop");
}

/// Five may update, and one has: a stop takes something from the five alone.
#[test]
fn the_question_of_a_stop_says_how_many_hosts_it_stops() {
    let (_dir, server) = started();
    let epoch = epoch(&server);
    for number in 1..=6 {
        let (host, runs) = (Host::new(number, "dev"), if number == 6 { "1.1.0" } else { "1.0.0" });
        assert_eq!(host.sends(server.addr, &host.says(epoch, runs, None)).0, 200);
    }
    server.agents(&["start-update", "dev"]);
    let operator = Visitor::with(&server, &token(&server, "operator"));
    let stops = "5 hosts are stopped: those that have begun may finish";
    for fields in [&[("do", "halt")][..], &[("do", "halt"), ("group", "dev")]] {
        let asked = confirm(&operator, fields);
        assert!(asked.body.contains(stops), "{fields:?}: {asked:?}");
    }
    let prod = confirm(&operator, &[("do", "halt"), ("group", "prod")]);
    assert!(prod.body.contains("0 hosts may update now, 0 downgrade"), "nobody in it may update: {prod:?}");
    let told = server.agents(&["halt", "dev"]);
    assert!(told.contains(stops), "{told}");
    let again = confirm(&operator, &[("do", "halt")]);
    assert!(!again.body.contains("are stopped"), "they are stopped already: {again:?}");
}

#[test]
fn an_approval_is_of_what_was_seen_and_refused_where_the_group_was_changed_since() {
    let (_dir, server) = start();
    let policy = |share: u32| {
        let of = format!("name: dev, approval: operator, max_in_flight: {share}%");
        groups(&["dev"]).replace("name: dev", &of)
    };
    server.create(&format!("{}---\n{}", policy(10), version("1.0.0", "1.1.0", "regular")));
    let operator = Visitor::with(&server, &token(&server, "operator"));
    let seen = server.group("dev")["approval_digest"].as_str().unwrap().to_owned();
    let asked = confirm(&operator, &[("do", "approve"), ("group", "dev")]).form("/act");
    assert!(asked.contains(&("digest".to_owned(), seen.clone())), "{asked:?}");
    let page = operator.get("/groups/dev").body;
    assert!(page.contains(&format!("name=\"digest\" value=\"{seen}\"")), "{page}");
    server.create(&policy(100));
    let now = server.group("dev")["approval_digest"].as_str().unwrap().to_owned();
    assert_ne!(now, seen);
    let changed = "group dev was changed since you looked: look again";
    for answer in
        [send(&operator, &asked), confirm(&operator, &[("do", "approve"), ("group", "dev"), ("digest", &seen)])]
    {
        assert_eq!(answer.status, 409, "{answer:?}");
        assert!(answer.body.contains(changed) && answer.body.contains("<code>conflict</code>"), "{answer:?}");
    }
    assert_eq!(server.group("dev")["approved"], false);
    let done = send(&operator, &confirm(&operator, &[("do", "approve"), ("group", "dev")]).form("/act"));
    assert!(done.body.contains(&format!("version 1.1.0, digest {now}")), "{done:?}");
    assert_eq!(server.group("dev")["approved"], true);
}
