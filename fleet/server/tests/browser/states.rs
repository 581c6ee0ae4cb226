//! Pages of a server that knows nothing, and of one that knows a lot: long names, failures, many records, every question before a change.

use std::collections::BTreeSet;

use serde_json::json;
use tempfile::TempDir;

use crate::driver::{Browser, axe};
use crate::host::{Host, epoch};
use crate::pages::{LOOKS, check, logged_in};
use crate::support::{PAGES, Server, dir, version};

/// As long as names of groups are where nobody thinks of pages.
const LONG: &str = "production-eu-central-1-databases-and-everything-that-must-not-stop";
/// The forms that lead to a question.
const FORMS: &str = "document.querySelectorAll(\"form[action='/confirm']\")";
/// What each of them is about.
const BUTTONS: &str = "return [...document.querySelectorAll(\"form[action='/confirm']\")].map((form) => form.elements.do.value \
                       + (form.elements.host ? ' a host' : form.elements.group ? ' a group' : ' all'))";
/// All that there are.
const KINDS: [&str; 10] = [
    "approve a group",
    "assign a host",
    "halt a group",
    "halt all",
    "hold a host",
    "mark_done a group",
    "rollback a group",
    "rollback all",
    "run a group",
    "start a group",
];
/// Hosts that report.
const HOSTS: u8 = 6;

fn token(server: &Server, role: &str) -> String {
    let told = server.ok(&["tokens", "create", role, "--role", role]);
    told.split_whitespace().find(|word| word.starts_with("tfleet_")).unwrap().to_owned()
}

/// A group with a long name is halted by a failure; one is under way, one waits for an approval; a host has many labels and changes;
/// there are more records than a page has.
fn full() -> (TempDir, Server, Vec<Host>) {
    let dir = dir();
    let server = Server::start(dir.path());
    let hour = (jiff::Timestamp::now().as_second() / 3600 + 12) % 24;
    let group = |name: &str, more: &str| format!("      - {{name: {name}, days: ['*'], start_hour: {hour}{more}}}\n");
    let prod = group("prod", ", approval: operator, wait_hours: 24");
    let groups = [group(LONG, ""), group("dev", ""), prod, group("last", "")].concat();
    server.create(&format!(
        "kind: autoupdate_config\nversion: v1\nmetadata: {{name: autoupdate-config}}\nspec:\n  agents:\n    mode: enabled\n    \
         strategy: halt-on-error\n    schedules:\n      regular:\n{groups}---\n{}",
        version("1.0.0", "1.1.0", "regular")
    ));
    let epoch = epoch(&server);
    let hosts: Vec<Host> = (1..=HOSTS).map(|number| Host::new(number, LONG)).collect();
    let labels = || (0..20).map(|number| (format!("label-{number}"), json!("x".repeat(40)))).collect();
    for host in &hosts {
        let mut report = host.says(epoch, "1.0.0", None);
        report["labels"] = labels();
        assert_eq!(host.sends(server.addr, &report).0, 200);
    }
    server.ok(&["autoupdate", "agents", "start-update", LONG]);
    server.ok(&["autoupdate", "agents", "start-update", "dev"]);
    for host in &hosts {
        server.until("its turn has come", || host.asks(&server, Some(epoch)).1);
    }
    let told = || server.ok(&["hosts", "--state", "told"]).matches("-4000-").count();
    server.until("all were told", || told() == usize::from(HOSTS));
    for number in 0..4 {
        let mut failed = hosts[0].says(epoch, "1.0.0", Some(("rolled_back", "1.1.0", &"unhealthy_".repeat(6))));
        failed["labels"] = labels();
        failed["last"]["at"] = format!("2026-01-05T12:00:0{number}Z").into();
        assert_eq!(hosts[0].sends(server.addr, &failed).0, 200);
    }
    server.until("the group halts", || server.ok(&["autoupdate", "agents", "status"]).contains("failed_threshold"));
    for _ in 0..60 {
        assert!(!server.cli(&["autoupdate", "agents", "halt", "nobody"]).status.success());
    }
    (dir, server, hosts)
}

#[test]
fn a_server_that_knows_nothing_says_on_every_page_what_comes_next() {
    let dir = dir();
    let server = Server::start(dir.path());
    let (token, axe) = (token(&server, "operator"), axe());
    for look in LOOKS {
        let Some(browser) = Browser::start(look) else { return };
        browser.open(&format!("http://{}/", server.addr));
        browser.fill("#token", &token);
        browser.click("main button", "<h1>No rollout</h1>");
        for page in PAGES.into_iter().chain(["/simulate?to=1.0.0", "/simulate?hosts=many"]) {
            browser.open(&format!("http://{}{page}", server.addr));
            check(&browser, axe.as_deref(), look, page);
        }
        assert_eq!(browser.complaints().iter().filter(|line| !line.contains("status of 40")).count(), 0);
    }
}

#[test]
fn a_server_that_knows_a_lot_fits_and_so_does_every_question_before_a_change() {
    let (_dir, server, hosts) = full();
    let (token, axe) = (token(&server, "operator"), axe());
    let (group, host) = (format!("/groups/{LONG}"), format!("/hosts/{}", hosts[0].id));
    for look in LOOKS {
        let Some(browser) = logged_in(&server, &token, look) else { return };
        let open = |page: &str| browser.open(&format!("http://{}{page}", server.addr));
        let check = |page: &str| check(&browser, axe.as_deref(), look, page);
        for page in ["/", &group, "/groups/prod", &host, "/hosts", "/versions", "/audit", "/audit?before=50"] {
            open(page);
            check(page);
        }
        open(&group);
        browser.click("summary", "Hosts over time");
        check("a group's curve as a table");
        open(&host);
        let page = browser.source();
        assert!(page.contains("unhealthy_unhealthy") && page.contains("label-19") && page.contains("<li>"), "{page}");
        // Every kind of button that changes something.
        let mut seen = BTreeSet::new();
        for page in ["/", &group, "/groups/dev", "/groups/prod", "/groups/last", &host] {
            open(page);
            let buttons = browser.run(BUTTONS);
            for (index, button) in buttons.as_array().unwrap().iter().enumerate() {
                if !seen.insert(button.as_str().unwrap().to_owned()) {
                    continue;
                }
                open(page);
                browser.run(&format!("{FORMS}[{index}].querySelector('button').click()"));
                browser.until("Of the fleet");
                check(button.as_str().unwrap());
            }
        }
        let kinds: Vec<&str> = seen.iter().map(String::as_str).collect();
        assert_eq!(kinds, KINDS);
        open("/audit?before=x");
        check("/audit?before=x");
        for refused in ["/groups/nobody", "/hosts/none", "/hosts?state=strange"] {
            open(refused);
            assert!(browser.source().contains("role=\"alert\""), "{refused}");
            check(refused);
        }
    }
}

#[test]
fn what_was_done_and_what_was_refused_fit_and_a_viewer_has_no_buttons() {
    let (_dir, server, _hosts) = full();
    let (operator, viewer, axe) = (token(&server, "operator"), token(&server, "viewer"), axe());
    for look in LOOKS {
        let Some(browser) = logged_in(&server, &operator, look) else { return };
        let open = |page: &str| browser.open(&format!("http://{}{page}", server.addr));
        open("/groups/dev");
        browser.click("main form:has(input[value='halt']) button", "Of the fleet");
        browser.click("form[action='/act'] button", "<h1>Done</h1>");
        check(&browser, axe.as_deref(), look, "done");
        open("/groups/dev");
        browser.click("main form:has(input[value='run']) button", "Of the fleet");
        browser.run("document.querySelector(\"input[name='group']\").value = 'nobody'");
        browser.click("form[action='/act'] button", "<h1>Not found</h1>");
        check(&browser, axe.as_deref(), look, "not found");
        open("/groups/dev");
        browser.click("main form:has(input[value='run']) button", "Of the fleet");
        browser.run("document.querySelector(\"input[name='rollout']\").value = '0'");
        browser.click("form[action='/act'] button", "<h1>Refused</h1>");
        check(&browser, axe.as_deref(), look, "refused");
        server.ok(&["autoupdate", "agents", "run", "dev"]);
        let Some(browser) = logged_in(&server, &viewer, look) else { return };
        for page in PAGES {
            browser.open(&format!("http://{}{page}", server.addr));
            assert!(!browser.source().contains("action=\"/confirm\""), "{page}");
            check(&browser, axe.as_deref(), look, page);
        }
    }
}

#[test]
fn without_scripts_everything_is_stopped_and_goes_on_and_started_groups_go_back() {
    let (_dir, server, _hosts) = full();
    let look = crate::driver::Look { has_scripts: false, ..crate::driver::PHONE };
    let Some(browser) = logged_in(&server, &token(&server, "operator"), look) else { return };
    let act = |page: &str, form: &str, done: &str| {
        browser.open(&format!("http://{}{page}", server.addr));
        browser.click(&format!("{form} button"), "Of the fleet");
        browser.click("form[action='/act'] button", "<h1>Done</h1>");
        assert!(browser.source().contains(done), "{form}: {}", browser.source());
    };
    act("/", "header form:has(input[value='halt'])", "Successfully halted all agent groups.");
    act("/", "main > .row form:has(input[value='run'])", "Successfully ended the hold of all agent groups.");
    act("/groups/prod", "main form:has(input[value='approve'])", "pproved");
    act("/", "main > .row form:has(input[value='rollback'])", "Successfully rolled back");
}
