//! The pages of version directives: in each look, by the keyboard alone, and without a script.

use serde_json::json;
use tempfile::TempDir;

use crate::driver::{Browser, DESK, Look, PHONE, axe};
use crate::host::{Host, epoch};
use crate::keyboard::{reach, walk};
use crate::pages::{ENTER, LOOKS, TAB, check};
use crate::support::{Server, dir};

/// A directive with two entries, a critical floor, and `more`.
fn directive(version: &str, more: &str) -> String {
    format!(
        "kind: version-directive\nspec:\n  config_id: tuf/default\n  stale_after: 2100-01-01T00:00:00Z\n  critical_floor: {{end_of_life: \
         v1, security_patches: [{{version: 2.1.0, desc: x}}]}}\n  directives:\n  - {{name: databases-of-the-whole-of-europe, \
         selectors: [{{labels: {{env: db}}}}], targets: [{{version: {version}}}, {{version: 1.9.0}}]}}\n  - {{name: all, \
         selectors: [{{labels: {{'*': '*'}}}}], targets: [{{version: {version}}}]}}\n{more}"
    )
}

/// An active directive, hosts of several versions, a draft, a plan that waits for two people and one that was denied; two people's tokens.
pub(crate) fn waiting() -> (TempDir, Server, [String; 2], String) {
    let dir = dir();
    let server = Server::start(dir.path());
    server.create(&directive("2.0.0", ""));
    server.create("kind: version-control-config\nspec: {promotion: {approvals: 2}}\n");
    let epoch = epoch(&server);
    for (number, version) in (1..).zip(["1.8.0", "2.0.0", "2.1.0", "2.0.0-rc.1", "5.0.0", "2.2.0", "2.3.0-dev.2"]) {
        let mut host = Host::new(number, "dev");
        host.hostname = format!("web{number:02}");
        let mut report = host.says(epoch, version, None);
        report["labels"] = json!({ "env": if number % 3 == 0 { "db" } else { "web" } });
        report["services"] = json!(["ssh", "app", "kubernetes"]);
        assert_eq!(host.sends(server.addr, &report).0, 200);
    }
    let draft = |name: &str, version: &str| {
        let written = server.cli_with(&["create-draft", "-", "--name", name], &directive(version, ""));
        assert!(written.status.success(), "{written:?}");
    };
    draft("tuf/default", "2.1.0");
    draft("static/the-draft-of-a-person-who-likes-long-names", "2.2.0");
    let plan = |name: &str| {
        let told = server.ok(&["version-control", "plan", name]);
        told.split_whitespace().nth(1).unwrap().to_owned()
    };
    let (denied, waiting) = (plan("tuf/default"), plan("tuf/default"));
    let tokens = ["anna", "bert"].map(|name| server.token(name, "operator"));
    let header = format!("authorization: Bearer {}\r\n", tokens[0]);
    let body =
        json!({ "id": "11111111-2222-4333-8444-555555555557", "approve": false, "reason": "year end ".repeat(20) });
    let place = format!("/v1/fleet/directive-plans/{denied}/review");
    let (status, answer) = crate::support::request(server.addr, "POST", &place, &header, &body.to_string());
    assert_eq!(status, 200, "{answer}");
    (dir, server, tokens, waiting)
}

fn logged_in(server: &Server, token: &str, look: Look) -> Option<Browser> {
    let browser = Browser::start(look)?;
    browser.open(&format!("http://{}/version-control", server.addr));
    browser.fill("#token", token);
    browser.click("main button", "<h1>Version directives</h1>");
    Some(browser)
}

#[test]
fn drafts_and_plans_and_each_question_fit_and_shut_nobody_out() {
    let (_dir, server, [anna, _], id) = waiting();
    let axe = axe();
    let place = format!("/version-control/{id}");
    for look in LOOKS {
        let Some(browser) = logged_in(&server, &anna, look) else { return };
        let open = |page: &str| browser.open(&format!("http://{}{page}", server.addr));
        let check = |page: &str| check(&browser, axe.as_deref(), look, page);
        for page in ["/version-control", &place, "/hosts/00000000-0000-4000-8000-000000000001"] {
            open(page);
            check(page);
        }
        browser.open(&format!("http://{}{place}", server.addr));
        browser.click("summary", "version-directive-plan");
        check("the plan as it is kept");
        for (page, verb) in [("/version-control", "plan"), (&place, "approve_plan"), (&place, "deny_plan")] {
            open(page);
            if verb == "deny_plan" {
                browser.fill("#reason", &"not today ".repeat(20));
            }
            browser.click(&format!("main form:has(input[value='{verb}']) button"), "Of the fleet");
            check(verb);
        }
        assert_eq!(browser.complaints(), [""; 0], "{look:?}");
    }
}

#[test]
fn a_plan_is_approved_and_applied_by_the_keyboard_alone_and_without_a_script() {
    let (_dir, server, [anna, bert], id) = waiting();
    let place = format!("/version-control/{id}");
    let without = Look { has_scripts: false, ..PHONE };
    let open = |browser: &Browser, page: &str| browser.open(&format!("http://{}{page}", server.addr));
    let act = |browser: &Browser, page: &str, verb: &str, left: &str| {
        open(browser, page);
        walk(browser, page);
        open(browser, page);
        reach(browser, &format!("main form:has(input[value='{verb}']) button"), |browser| browser.press(TAB));
        browser.press(ENTER);
        browser.until("Of the fleet");
        walk(browser, verb);
        reach(browser, "form[action='/act'] button", Browser::press_back);
        browser.press(ENTER);
        browser.until("<h1>Done</h1>");
        reach(browser, "main p a", |browser| browser.press(TAB));
        browser.press(ENTER);
        browser.until(left);
        assert!(browser.path().starts_with("/version-control/"), "{}", browser.path());
    };
    let Some(browser) = logged_in(&server, &anna, DESK) else { return };
    act(&browser, "/version-control", "plan", "token anna made this plan");
    act(&browser, &place, "approve_plan", "You approved this plan.");
    let Some(browser) = logged_in(&server, &bert, without) else { return };
    open(&browser, &place);
    browser.click("main form:has(input[value='approve_plan']) button", "Of the fleet");
    browser.click("form[action='/act'] button", "<h1>Done</h1>");
    browser.click("main p a", "You approved this plan.");
    browser.click("main form:has(input[value='apply_plan']) button", "Of the fleet");
    browser.click("form[action='/act'] button", "<h1>Done</h1>");
    browser.click("main p a", "state applied");
}
