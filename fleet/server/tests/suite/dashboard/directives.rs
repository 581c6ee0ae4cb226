//! Version directives on pages: one person plans, another approves and applies.

use super::token;
use crate::reports::host::{Host, epoch};
use crate::support::visitor::{Answer, Visitor};
use crate::support::{Server, start};

const CONTROL: &str = "kind: version-control-config\nspec: {promotion: {approvals: 1}}\n";
const DRAFT: &str = "static/default";

/// A directive of this version, with `more` in its spec.
fn directive(version: &str, more: &str) -> String {
    format!(
        "kind: version-directive\nspec: {{directives: [{{name: all, selectors: [{{labels: {{'*': '*'}}}}], targets: [{{version: \
         {version}}}]}}]{more}}}\n"
    )
}

fn draft(server: &Server, text: &str) {
    let written = server.cli_with(&["create-draft", "-"], text);
    assert!(written.status.success(), "{written:?}");
}

/// Reports of hosts of these names and versions.
fn report(server: &Server, hosts: &[(&str, &str)]) {
    let epoch = epoch(server);
    for (number, (name, version)) in (1..).zip(hosts) {
        let mut host = Host::new(number, "dev");
        host.hostname = (*name).to_owned();
        let mut report = host.says(epoch, version, None);
        report["services"] = serde_json::json!(["ssh"]);
        assert_eq!(host.sends(server.addr, &report).0, 200);
    }
}

/// The page before something is done: `verb` on a draft or plan.
fn asked(visitor: &Visitor, verb: &str, fields: &[(&str, &str)]) -> Answer {
    let csrf = visitor.csrf();
    visitor.post("/confirm", &[&[("csrf", csrf.as_str()), ("do", verb)], fields].concat())
}

/// Sends the form of that page.
fn done(visitor: &Visitor, asked: &Answer) -> Answer {
    assert_eq!(asked.status, 200, "{asked:?}");
    let mut fields = asked.form("/act");
    // As a browser reads them.
    for (escaped, char) in [("&#60;", "<"), ("&#62;", ">"), ("&#38;", "&")] {
        fields.iter_mut().for_each(|(_, value)| *value = value.replace(escaped, char));
    }
    visitor.post("/act", &fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect::<Vec<_>>())
}

/// Plans the draft, and gives the plan's UUID.
fn planned(visitor: &Visitor) -> String {
    let answer = done(visitor, &asked(visitor, "plan", &[("draft", DRAFT)]));
    assert_eq!(answer.status, 200, "{answer:?}");
    let (_, id) = answer.body.split_once("<a href=\"/version-control/").unwrap();
    id.split('"').next().unwrap().to_owned()
}

/// Nothing was done, and the page says why, with the API's code.
fn refused(answer: &Answer, status: u16, code: &str, sentence: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert!(answer.body.contains(&format!("<code>{code}</code>")), "{answer:?}");
    assert!(answer.body.contains(sentence), "{sentence}: {answer:?}");
}

#[test]
fn one_person_plans_another_approves_and_applies() {
    let (_dir, server) = start();
    server.create(&directive("1.0.0", ""));
    server.create(CONTROL);
    report(&server, &[("web01", "1.0.0"), ("web02", "1.2.0"), ("web03", "5.0.0")]);
    draft(&server, &directive("1.1.0", ""));
    let [anna, bert] = ["anna", "bert"].map(|name| Visitor::with(&server, &server.token(name, "operator")));
    let page = anna.get("/version-control").body;
    assert!(page.contains(DRAFT) && page.contains(">1.1.0</td>") && page.contains("value=\"plan\""), "{page}");
    let question = asked(&anna, "plan", &[("draft", DRAFT)]);
    assert!(question.body.contains("2 hosts would get another version; without a target"), "{question:?}");
    assert!(question.body.contains("WARNING: 1 host is downgraded"), "{question:?}");
    assert!(!server.ok(&["version-control", "pending"]).contains(DRAFT), "a question changes nothing");
    let id = planned(&anna);
    let place = format!("/version-control/{id}");
    let page = bert.get(&place).body;
    for shown in [
        "1.0.0</th><td data-label=\"To\">1.1.0</td><td data-label=\"Hosts\">1</td><td data-label=\"Installer\">update</td>",
        "1.2.0</th><td data-label=\"To\">1.1.0 <span class=\"bad\">(down)</span>",
        "web03 (",
        "0 of 1 people approved this plan <code>not_approved</code>",
        "value=\"approve_plan\"",
        "value=\"deny_plan\"",
        "<dd>0 of 1</dd>",
    ] {
        assert!(page.contains(shown), "{shown}: {page}");
    }
    assert!(!page.contains("value=\"apply_plan\""), "{page}");
    let page = anna.get(&place).body;
    assert!(page.contains("token anna made this plan: somebody else has to review it."), "{page}");
    assert!(!page.contains("value=\"approve_plan\"") && !page.contains("value=\"deny_plan\""), "{page}");
    let of_plan = [("plan", id.as_str())];
    refused(&asked(&bert, "apply_plan", &of_plan), 409, "not_approved", "0 of 1 people approved this plan");
    let answer = done(&bert, &asked(&bert, "approve_plan", &of_plan));
    assert!(answer.body.contains(&format!("Approve plan {}: done.", &id[..8])), "{answer:?}");
    let page = bert.get(&place).body;
    assert!(page.contains("<dd>1 of 1: token bert</dd>") && page.contains("You approved this plan."), "{page}");
    let question = asked(&bert, "apply_plan", &of_plan);
    assert!(question.body.contains("takes effect within two seconds; 1 host may update now"), "{question:?}");
    // Whose turn is first is drawn; the host without a target has none, and does not downgrade.
    let is_one = |part: &str| question.body.contains(part);
    let (now, later) = (is_one("now, 1 downgrades"), is_one("1 host that waits runs a later version"));
    assert!(now != later && !is_one("hosts that wait run a later version"), "{question:?}");
    assert_eq!(done(&bert, &question).status, 200);
    assert!(bert.get(&place).body.contains("<span class=\"state applied\">applied</span>"));
    let page = bert.get("/version-control").body;
    assert!(page.contains("<dt>Source</dt><dd>static</dd>") && page.contains("state applied"), "{page}");
    let host = "/hosts/00000000-0000-4000-8000-000000000001";
    server.until("the host has its target", || bert.get(host).body.contains("<dt>Target</dt><dd>1.1.0 by update</dd>"));
    assert!(bert.get(host).body.contains("<dt>Services</dt><dd>ssh</dd>"));
    let page = bert.get("/hosts?state=no_target").body;
    assert!(page.contains("web03") && page.contains("1 host matches") && page.contains("no target fits"), "{page}");
    let records = server.records();
    let who = |action: &str| records.iter().find(|record| record["action"] == action).map(|record| &record["who"]);
    let anna_and_bert = ["plan", "plan_approved", "plan_applied"].map(|action| who(action).unwrap().as_str().unwrap());
    assert_eq!(anna_and_bert, ["token anna", "token bert", "token bert"]);
}

#[test]
fn what_the_api_refuses_the_pages_refuse_with_a_sentence() {
    let (_dir, server) = start();
    server.create(CONTROL);
    draft(&server, &directive("1.1.0", ""));
    let [anna, bert] = ["anna", "bert"].map(|name| Visitor::with(&server, &server.token(name, "operator")));
    let viewer = Visitor::with(&server, &token(&server, "viewer"));
    let id = planned(&anna);
    let of_plan = [("plan", id.as_str())];
    let own = "token anna made this plan: somebody else has to review it";
    refused(&asked(&anna, "approve_plan", &of_plan), 409, "own_plan", own);
    refused(&asked(&anna, "deny_plan", &of_plan), 409, "own_plan", own);
    // The second form by itself.
    let csrf = anna.csrf();
    let (other, act) = ("11111111-2222-4333-8444-555555555556", |csrf: &str, verb: &str, fields: &[(&str, &str)]| {
        let id = "11111111-2222-4333-8444-555555555557";
        anna.post("/act", &[&[("csrf", csrf), ("do", verb), ("id", id)], fields].concat())
    });
    refused(&act(&csrf, "approve_plan", &of_plan), 409, "own_plan", own);
    refused(&act(&csrf, "apply_plan", &of_plan), 409, "not_approved", "0 of 1 people");
    refused(&act(&csrf, "apply_plan", &[("plan", other)]), 404, "not_found", other);
    refused(&act(&csrf, "plan", &[("draft", "tuf/none")]), 404, "not_found", "tuf/none");
    refused(&act(&csrf, "apply_plan", &[("plan", "<script>")]), 400, "bad_request", "is no UUID of a plan");
    let told = server.records();
    assert!(told.iter().any(|record| record["action"] == "plan_approved" && record["done"] == false), "{told:?}");
    for (verb, fields) in [("plan", [("draft", DRAFT)]), ("approve_plan", of_plan), ("apply_plan", of_plan)] {
        for path in ["/confirm", "/act"] {
            for csrf in ["", "wrong"] {
                let sent =
                    [&[("csrf", csrf), ("do", verb), ("id", other), ("rollout", "0")], fields.as_slice()].concat();
                refused(&bert.post(path, &sent), 403, "forbidden", "the form is not of this session");
            }
        }
        refused(&asked(&viewer, verb, &fields), 403, "forbidden", "this");
    }
    for page in ["/version-control", &format!("/version-control/{id}")] {
        let page = viewer.get(page);
        assert!(page.status == 200 && !page.body.contains("action=\"/confirm\""), "{page:?}");
    }
    refused(&viewer.get("/version-control/none"), 400, "bad_request", "is no UUID of a plan");
    refused(&viewer.get(&format!("/version-control/{other}")), 404, "not_found", "");
    // A denial ends it, and says why.
    let question = asked(&bert, "deny_plan", &[of_plan[0], ("reason", " not <b>on</b> Friday ")]);
    assert!(question.body.contains("Reason: not &#60;b&#62;on&#60;/b&#62; Friday"), "{question:?}");
    assert_eq!(done(&bert, &question).status, 200);
    let page = anna.get(&format!("/version-control/{id}")).body;
    assert!(page.contains("<dd>token bert: not &#60;b&#62;on&#60;/b&#62; Friday</dd>"), "{page}");
    assert!(page.contains("state denied") && !page.contains("value=\"deny_plan\""), "{page}");
    refused(&asked(&bert, "approve_plan", &of_plan), 409, "not_approved", "the plan was denied by token bert");
    // Another was activated meanwhile.
    let [first, second] = [planned(&anna), planned(&anna)];
    for id in [&first, &second] {
        assert_eq!(done(&bert, &asked(&bert, "approve_plan", &[("plan", id)])).status, 200);
    }
    let question = asked(&anna, "apply_plan", &[("plan", &first)]);
    assert_eq!(done(&anna, &asked(&anna, "apply_plan", &[("plan", &second)])).status, 200);
    refused(&done(&anna, &question), 409, "plan_outdated", "plan it again");
}

#[test]
fn a_target_without_what_its_installer_needs_is_named_and_not_applied() {
    let (_dir, server) = start();
    draft(&server, &directive("1.1.0", "").replace("targets:", "installers: [{kind: tuf}], targets:"));
    let anna = Visitor::with(&server, &server.token("anna", "operator"));
    let id = planned(&anna);
    let page = anna.get(&format!("/version-control/{id}")).body;
    assert!(page.contains("<li>would fail: target 1.1.0") && page.contains("<code>target_incomplete</code>"), "{page}");
    assert!(!page.contains("value=\"apply_plan\""), "{page}");
    refused(&asked(&anna, "apply_plan", &[("plan", &id)]), 409, "target_incomplete", "all: target 1.1.0");
}

#[test]
fn a_viewer_reviews_where_the_configuration_says_so_and_does_nothing_else() {
    let (_dir, server) = start();
    server.create("kind: version-control-config\nspec: {promotion: {approvals: 1, role: viewer}}\n");
    draft(&server, &directive("1.1.0", ""));
    let anna = Visitor::with(&server, &server.token("anna", "operator"));
    let viewer = Visitor::with(&server, &token(&server, "viewer"));
    let id = planned(&anna);
    let page = viewer.get(&format!("/version-control/{id}")).body;
    assert!(page.contains("value=\"approve_plan\"") && !page.contains("value=\"apply_plan\""), "{page}");
    assert_eq!(done(&viewer, &asked(&viewer, "approve_plan", &[("plan", &id)])).status, 200);
    let page = viewer.get(&format!("/version-control/{id}")).body;
    assert!(page.contains("1 of 1: token viewer") && !page.contains("value=\"apply_plan\""), "{page}");
    refused(&asked(&viewer, "apply_plan", &[("plan", &id)]), 403, "forbidden", "this needs the role operator");
}

#[test]
fn alerts_are_on_every_page_once_and_nothing_of_a_directive_is_markup() {
    let (_dir, server) = start();
    let evil = "<img src=x onerror=alert(1)>";
    let floor = format!(
        ", config_id: \"{evil}\", stale_after: 2020-01-01T00:00:00Z, critical_floor: {{end_of_life: v1, security_patches: \
         [{{version: 5.1.0, desc: \"{evil}\"}}]}}"
    );
    server.create(&directive("1.1.0", &floor));
    server.create(CONTROL);
    report(&server, &[("<script>alert(1)</script>", "5.0.0"), ("web01", "1.0.0")]);
    draft(&server, &directive("1.2.0", &floor));
    let anna = Visitor::with(&server, &server.token("anna", "operator"));
    let id = planned(&anna);
    let stale = "the version-directive is stale: nobody renewed it in time";
    let [over, waits] = ["1 host runs a version past its end of life: see Directives", "1 plan waits: see Directives"];
    let plan = format!("/version-control/{id}");
    for path in ["/", "/hosts", "/versions", "/audit", "/simulate", &plan] {
        let page = anna.get(path).body;
        for alert in [stale, over, waits] {
            assert_eq!(page.matches(alert).count(), 1, "{path}: {alert}: {page}");
        }
        assert!(!page.contains("<img") && !page.contains("<script>"), "{path}: {page}");
    }
    // There each stands where it belongs, once.
    let page = anna.get("/version-control").body;
    for (alert, times) in [(stale, 1), ("1 host runs 1.0.0, which is past its end of life", 1), (over, 0), (waits, 0)] {
        assert_eq!(page.matches(alert).count(), times, "{alert}: {page}");
    }
    assert!(page.contains(&id) && !page.contains("<img") && !page.contains("<script>"), "{page}");
    let page = anna.get(&plan).body;
    assert!(page.contains("&#60;script&#62;alert(1)&#60;/script&#62; (") && page.contains("&#60;img src=x"), "{page}");
    let page = anna.get("/version-control").body;
    assert!(page.contains("<dt>Source</dt><dd>&#60;img src=x onerror=alert(1)&#62;</dd>"), "{page}");
    let stranger = Visitor::new(&server).get("/login").body;
    assert!(![stale, over, waits].iter().any(|alert| stranger.contains(alert)), "{stranger}");
}
