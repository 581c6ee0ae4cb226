//! `make pictures`: the pages, for docs/rollouts.md.

use std::path::PathBuf;

use serde_json::{Value, json};

use crate::directives::waiting;
use crate::driver::{Browser, DESK, Look, PHONE};
use crate::host::{Host, epoch};
use crate::support::{Server, dir};

/// Hosts of each group.
const HOSTS: u8 = 8;
/// The groups, in their order.
const GROUPS: [&str; 4] = ["staging", "europe", "america", "production"];
const FROM: &str = "17.2.0";
const TO: &str = "17.2.1";
/// A picture's largest size, bytes: the pages of docs/ show several.
const MOST: usize = 250_000;
/// Its largest height, CSS pixels: a group's page with three records.
const HIGHEST: u32 = 1700;
/// The same of pages whose end is like their middle.
const PART: u32 = 1000;
/// The same on a phone, where pages are long.
const PHONE_HIGHEST: u32 = 2000;

/// A host's report; `last` is outcome and code of its last change.
fn says(host: &Host, epoch: u64, version: &str, last: Option<(&str, &str)>) -> Value {
    let mut report = host.says(epoch, version, last.map(|(outcome, code)| (outcome, TO, code)));
    report["labels"] = json!({ "env": host.group, "os": "debian-12", "team": "payments" });
    report["time"] = jiff::Timestamp::now().to_string().into();
    if last.is_some() {
        report["last"]["from"] = FROM.into();
        report["last"]["at"] = jiff::Timestamp::now().to_string().into();
    }
    report
}

/// Has hosts of a group that were let go ask, as many as there are.
fn ask(server: &Server, hosts: &[Host], epoch: u64, many: usize) {
    server.until("they are told", || hosts.iter().filter(|host| host.asks(server, Some(epoch)).1).count() >= many);
}

fn send(server: &Server, host: &Host, report: &Value) {
    assert_eq!(host.sends(server.addr, report).0, 200, "{}", host.id);
}

/// A rollout as it is after some hours: one group done, one under way, one that failures halted, one that waits. The hosts by group.
pub(crate) fn fleet(server: &Server) -> Vec<Vec<Host>> {
    let group = |(name, hour): (&str, u32)| {
        let bounds = "max_in_flight: 100%, max_failed_before_halt: 20%";
        format!("      - {{name: {name}, days: ['*'], start_hour: {hour}, {bounds}}}\n")
    };
    // Half a day from now on: none starts by itself.
    let hour = u32::try_from(jiff::Timestamp::now().as_second() / 3600 % 24).unwrap() + 12;
    let groups: String = GROUPS.into_iter().zip(0..).map(|(name, at)| group((name, (hour + at) % 24))).collect();
    server.create(&format!(
        "kind: autoupdate_config\nversion: v1\nmetadata: {{name: autoupdate-config}}\nspec:\n  agents:\n    mode: enabled\n    \
         strategy: halt-on-error\n    schedules:\n      regular:\n{groups}---\nkind: autoupdate_version\nversion: v1\n\
         metadata: {{name: autoupdate-version}}\nspec:\n  agents: {{start_version: {FROM}, target_version: {TO}, schedule: \
         regular, mode: enabled}}\n"
    ));
    let epoch = epoch(server);
    let named = |number: u8, group| {
        let mut host = Host::new(number, group);
        host.hostname = format!("web{number:02}");
        host
    };
    let numbers = |at: u8| at * HOSTS + 1..=(at + 1) * HOSTS;
    let hosts: Vec<Vec<Host>> =
        (0..).zip(GROUPS).map(|(at, group)| numbers(at).map(|number| named(number, group)).collect()).collect();
    hosts.iter().flatten().for_each(|host| send(server, host, &says(host, epoch, FROM, None)));
    let (all, start) = (usize::from(HOSTS), |group: &str| {
        server.ok(&["autoupdate", "agents", "start-update", group, "--force"]);
    });
    start("staging");
    ask(server, &hosts[0], epoch, all);
    hosts[0].iter().for_each(|host| send(server, host, &says(host, epoch, TO, Some(("updated", "")))));
    server.until("it is done", || server.group("staging")["state"] == "done");
    start("europe");
    ask(server, &hosts[1][..6], epoch, 6);
    hosts[1][..5].iter().for_each(|host| send(server, host, &says(host, epoch, TO, Some(("updated", "")))));
    send(server, &hosts[1][5], &says(&hosts[1][5], epoch, FROM, Some(("rolled_back", "download_failed"))));
    start("america");
    ask(server, &hosts[2], epoch, all);
    hosts[2][..2].iter().for_each(|host| send(server, host, &says(host, epoch, TO, Some(("updated", "")))));
    for host in &hosts[2][2..5] {
        send(server, host, &says(host, epoch, FROM, Some(("rolled_back", "unhealthy"))));
    }
    server.until("it is halted", || server.group("america")["state"] == "halted");
    hosts
}

/// Writes a page as `token` sees it to `docs/pictures`.
fn shoot(server: &Server, token: &str, (name, look, page, highest): (&str, Look, &str, u32)) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    let Some(browser) = Browser::start(look) else { panic!("pictures need Chromium") };
    browser.open(&format!("http://{}/login", server.addr));
    browser.fill("#token", token);
    browser.click("main button", "Log out");
    browser.open(&format!("http://{}{page}", server.addr));
    if name == "confirm" {
        browser.click("main form:has(input[value='run']) button", "Of the fleet");
    }
    let picture = browser.picture(highest);
    assert!(picture.len() < MOST, "{name}: {} bytes", picture.len());
    std::fs::write(folder.join(format!("{name}.png")), picture).unwrap();
}

#[test]
#[ignore = "it writes docs/pictures: make pictures"]
fn pictures_of_the_pages() {
    let dir = dir();
    let server = Server::start(dir.path());
    let hosts = fleet(&server);
    let token = server.token("alice", "operator");
    let (desk, host) = (Look { width: 1040, ..DESK }, format!("/hosts/{}", hosts[2][2].id));
    let simulated = "/simulate?to=&hosts=2000&bad=2%25&vanish=0.5%25&seed=1";
    for shown in [
        ("rollout", desk, "/", HIGHEST),
        ("rollout-phone", PHONE, "/", PHONE_HIGHEST),
        ("confirm", desk, "/", HIGHEST),
        ("group", desk, "/groups/america", HIGHEST),
        ("host", desk, &host, HIGHEST),
        ("versions", desk, "/versions", PART),
        ("audit", DESK, "/audit", PART),
        ("simulation", DESK, simulated, PART),
    ] {
        shoot(&server, &token, shown);
    }
    let (_dir, server, [anna, _], id) = waiting();
    shoot(&server, &anna, ("directives", desk, "/version-control", HIGHEST));
    shoot(&server, &anna, ("plan", desk, &format!("/version-control/{id}"), HIGHEST));
}
