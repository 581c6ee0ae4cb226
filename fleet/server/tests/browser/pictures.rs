//! `make pictures`: the pages, for docs/rollouts.md.

use std::path::PathBuf;

use crate::driver::{Browser, DESK, Look, PHONE};
use crate::support::{Server, dir};

/// A rollout as it is after some hours: one group done, one under way, one that waits, one that is stopped.
fn fleet(server: &Server) {
    let groups = [("staging", 4), ("europe", 5), ("america", 12), ("production", 5)];
    let group = |(name, hour): &(&str, u32)| {
        format!("      - {{name: {name}, days: ['*'], start_hour: {hour}, max_in_flight: 10%}}\n")
    };
    let groups: String = groups.iter().map(group).collect();
    server.create(&format!(
        "kind: autoupdate_config\nversion: v1\nmetadata: {{name: autoupdate-config}}\nspec:\n  agents:\n    mode: enabled\n    \
         strategy: halt-on-error\n    schedules:\n      regular:\n{groups}---\nkind: autoupdate_version\nversion: v1\n\
         metadata: {{name: autoupdate-version}}\nspec:\n  agents: {{start_version: 17.2.0, target_version: 17.2.1, schedule: \
         regular, mode: enabled}}\n"
    ));
    for number in 0..40 {
        let group = ["staging", "europe", "america", "production"][number % 4];
        server.json(&format!("/v1/webapi/find?host=5f9b6f3e-2c5a-4b0e-9d3b-{number:012}&group={group}"));
    }
    server.until("all are known", || server.ok(&["hosts"]).lines().count() >= 42);
    server.ok(&["autoupdate", "agents", "start-update", "staging"]);
    server.ok(&["autoupdate", "agents", "mark-done", "staging"]);
    server.ok(&["autoupdate", "agents", "start-update", "europe"]);
    server.ok(&["autoupdate", "agents", "halt", "america"]);
}

#[test]
#[ignore = "it writes docs/pictures: make pictures"]
fn pictures_of_the_pages() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures");
    std::fs::create_dir_all(&folder).unwrap();
    let dir = dir();
    let server = Server::start(dir.path());
    fleet(&server);
    let told = server.ok(&["tokens", "create", "alice", "--role", "operator"]);
    let token = told.split_whitespace().find(|word| word.starts_with("tfleet_")).unwrap().to_owned();
    let desk = Look { width: 1000, ..DESK };
    let shots = [("rollout", desk, "/"), ("rollout-phone", PHONE, "/"), ("confirm", desk, "/")];
    for (name, look, page) in shots {
        let browser = Browser::start(look).expect("Chromium");
        browser.open(&format!("http://{}/login?next={page}", server.addr));
        browser.fill("#token", &token);
        browser.click("main button", "Log out");
        if name == "confirm" {
            browser.click("main form:has(input[value='run']) button", "Of the fleet");
        }
        std::fs::write(folder.join(format!("{name}.png")), browser.picture()).unwrap();
    }
}
