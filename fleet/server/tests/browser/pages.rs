//! Each page and each thing to do, with a script and without one, on a phone, in the dark, and by the keyboard alone.

use serde_json::Value;
use tempfile::TempDir;

use crate::driver::{Browser, DESK, Look, PHONE, axe};
use crate::support::{PAGES, Server, dir, groups, version};

pub(crate) const HOST: &str = "11111111-2222-4333-8444-555555555555";
pub(crate) const TAB: &str = "\u{e004}";
pub(crate) const ENTER: &str = "\u{e007}";
/// A page that has computed something.
const SIMULATED: &str = "/simulate?to=&hosts=200&bad=2%25&vanish=&seed=1";

/// A server with two groups, of which the first has started, one known host, and an operator's token.
pub(crate) fn started() -> (TempDir, Server, String) {
    started_by(&groups(&["dev", "prod"]))
}

/// The same with this policy.
pub(crate) fn started_by(policy: &str) -> (TempDir, Server, String) {
    let dir = dir();
    let server = Server::start(dir.path());
    server.create(&format!("{policy}---\n{}", version("1.0.0", "1.1.0", "regular")));
    server.ok(&["autoupdate", "agents", "start-update", "dev"]);
    server.json(&format!("/v1/webapi/find?host={HOST}&group=dev"));
    server.until("the host is known", || server.ok(&["hosts"]).contains(HOST));
    let told = server.ok(&["tokens", "create", "alice", "--role", "operator"]);
    let token = told.split_whitespace().find(|word| word.starts_with("tfleet_")).unwrap().to_owned();
    (dir, server, token)
}

/// A browser that is logged in, at the rollout.
pub(crate) fn logged_in(server: &Server, token: &str, look: Look) -> Option<Browser> {
    let browser = Browser::start(look)?;
    browser.open(&format!("http://{}/", server.addr));
    assert_eq!(browser.path(), "/login");
    browser.fill("#token", token);
    browser.click("main button", "Rollout to 1.1.0");
    Some(browser)
}

/// What axe-core finds or cannot decide, of every level that it knows (WCAG A to AAA, and what is good practice).
pub(crate) fn faults(browser: &Browser, axe: &str) -> Vec<String> {
    browser.run(axe);
    let found = browser.wait_for(
        "const runOnly = ['wcag2a', 'wcag2aa', 'wcag2aaa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']; \
         return axe.run(document, { runOnly }).then((found) => [...found.violations, ...found.incomplete].map((one) => \
         ({ id: one.id, impact: one.impact, at: one.nodes.filter((node) => !/too short to determine/.test(node.failureSummary)) \
         .map((node) => node.target.join(' ') + ' ' + node.failureSummary) })).filter((one) => one.at.length > 0))",
    );
    found.as_array().unwrap().iter().map(Value::to_string).collect()
}

/// Looks of which each must do.
pub(crate) const LOOKS: [Look; 4] = [PHONE, DESK, Look { is_dark: true, ..DESK }, Look { is_dark: false, ..PHONE }];

/// The open page is no wider than the window and has nothing that axe-core finds.
pub(crate) fn check(browser: &Browser, axe: Option<&str>, look: Look, page: &str) {
    let widths =
        browser.run("const page = document.documentElement; return [page.scrollWidth, page.clientWidth, innerWidth]");
    assert!(widths[0].as_u64() <= widths[1].as_u64(), "{page} is too wide: {widths}, {look:?}");
    assert_eq!(widths[2].as_u64(), Some(u64::from(look.width)), "{page}");
    assert_eq!(browser.run("return matchMedia('(prefers-color-scheme: dark)').matches"), look.is_dark);
    let cut = browser.run(
        "return [...document.querySelectorAll('.cards')].filter((part) => part.scrollWidth > part.clientWidth).length",
    );
    assert_eq!(cut, 0, "tables of {page} are cut, {look:?}");
    let faults = axe.map(|axe| faults(browser, axe)).unwrap_or_default();
    assert!(faults.is_empty(), "{page}, {look:?}: {faults:#?}");
}

#[test]
fn every_page_fits_a_phone_and_a_desk_and_shuts_nobody_out() {
    let (_dir, server, token) = started();
    let axe = axe();
    for look in LOOKS {
        let Some(browser) = logged_in(&server, &token, look) else { return };
        let open = |page: &str| browser.open(&format!("http://{}{page}", server.addr));
        let check = |page: &str| check(&browser, axe.as_deref(), look, page);
        for page in PAGES.into_iter().chain([SIMULATED]) {
            open(page);
            check(page);
        }
        open("/");
        browser.click("header .stop", "Stop everything?");
        check("/confirm");
        assert_eq!(browser.complaints(), [""; 0], "{look:?}");
        open("/nothing");
        check("/nothing");
        open("/");
        browser.click("header form[action='/logout'] button", "<h1>Log in</h1>");
        check("/login");
        browser.fill("#token", "wrong");
        browser.click("main button", "the token is not known");
        check("/login, refused");
    }
}

#[test]
fn without_scripts_everything_can_be_done() {
    let (_dir, server, token) = started();
    let Some(browser) = logged_in(&server, &token, Look { has_scripts: false, ..PHONE }) else { return };
    assert!(browser.source().contains("id=\"live\" hidden=\"\""), "no script ran");
    let act = |page: &str, verb: &str, done: &str| {
        browser.open(&format!("http://{}{page}", server.addr));
        browser.click(&format!("main form:has(input[value='{verb}']) button"), "Of the fleet");
        browser.click("form[action='/act'] button", "<h1>Done</h1>");
        assert!(browser.source().contains(done), "{verb}: {}", browser.source());
        browser.click("main a", "<h1>");
        assert_eq!(browser.path(), page);
    };
    act("/groups/dev", "halt", "Successfully halted agent groups: [dev].");
    act("/groups/dev", "run", "Successfully resumed agent groups: [dev].");
    act("/groups/dev", "mark_done", "Successfully marked agent groups as completed: [dev].");
    act("/groups/prod", "start", "Successfully started updating agents groups: [prod].");
    act("/groups/prod", "rollback", "Successfully rolled back the following agent groups: [prod].");
    let host = format!("/hosts/{HOST}");
    act(&host, "hold", "done.");
    act(&host, "release", "done.");
    let assigned = "<dt>Assigned to group</dt><dd>prod</dd>";
    let assign = |to: &str| {
        browser.open(&format!("http://{}{host}", server.addr));
        if !to.is_empty() {
            browser.fill("#to", to);
        }
        browser.click("main form:has(input[value='assign']) button", "Of the fleet");
        browser.click("form[action='/act'] button", "<h1>Done</h1>");
        browser.click("main a", "<h1>Host");
        browser.source().contains(assigned)
    };
    assert!(assign("prod") && !assign(""), "it is put into a group, and taken out of it");
    for (page, has) in
        [("/versions", "autoupdate_version"), ("/audit", "group rolled back"), ("/simulate", "<h1>Next release</h1>")]
    {
        browser.open(&format!("http://{}{page}", server.addr));
        browser.until(has);
    }
    browser.fill("#hosts", "200");
    browser.click("main button", "What would happen</h2>");
    browser.open(&format!("http://{}/hosts", server.addr));
    browser.fill("#version", "9.9.9");
    browser.click("main button", "No host is like this");
    // What changed meanwhile is shown by the link.
    browser.open(&format!("http://{}/", server.addr));
    server.ok(&["autoupdate", "agents", "halt", "--all"]);
    assert!(!browser.source().contains("everything is held by an operator"));
    browser.click("#reload", "everything is held by an operator");
}

#[test]
fn with_scripts_a_page_follows_the_server_and_keeps_what_is_in_use() {
    let (_dir, server, token) = started();
    let Some(browser) = logged_in(&server, &token, DESK) else { return };
    browser.until("id=\"live\">");
    let focused = "return document.activeElement.innerText";
    browser.run("document.querySelector('main form button').focus()");
    let before = browser.run(focused);
    server.ok(&["autoupdate", "agents", "halt", "prod"]);
    browser.until("halted (manual_halt): by an operator");
    assert_eq!(browser.run(focused), before, "whoever is at a button stays there");
    browser.open(&format!("http://{}/groups/dev", server.addr));
    browser.until("id=\"live\">");
    browser.run("document.querySelector('summary').click()");
    server.ok(&["autoupdate", "agents", "halt", "dev"]);
    browser.until("halted (manual_halt): by an operator");
    assert_eq!(browser.run("return document.querySelector('details').open"), true, "what was opened stays open");
    // Elsewhere it is logged out: the page does not go on as if nothing had happened.
    server.ok(&["tokens", "rm", "alice"]);
    browser.until("<h1>Log in</h1>");
    assert_eq!(browser.complaints(), [""; 0]);
}

#[test]
fn everything_is_stopped_by_the_keyboard_alone() {
    let (_dir, server, token) = started();
    let Some(browser) = Browser::start(DESK) else { return };
    browser.open(&format!("http://{}/", server.addr));
    // The field for the token has the focus.
    browser.press(&token);
    browser.press(ENTER);
    browser.until("Rollout to 1.1.0");
    let focused = "const at = document.activeElement; return [at.innerText, getComputedStyle(at).outlineStyle]";
    browser.press(TAB);
    assert_eq!(browser.run(focused)[0], "Skip to the content");
    let mut seen = Vec::new();
    while browser.run(focused)[0] != "Stop everything" {
        let at = browser.run(focused);
        assert_ne!(at[1], "none", "it is seen where the keyboard is: {at}");
        seen.push(at);
        assert!(seen.len() < 20, "{seen:?}");
        browser.press(TAB);
    }
    browser.press(ENTER);
    browser.until("Stop everything?");
    // So does the second button.
    browser.press(ENTER);
    browser.until("Successfully halted all agent groups.");
    assert!(server.ok(&["autoupdate", "agents", "status"]).contains("everything is held by an operator"));
}
