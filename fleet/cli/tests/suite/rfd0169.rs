//! RFD 0169's flat spelling of `autoupdate`, as FLEET §6 has it.

use crate::support::{Done, Reply, Server, group, rollout};
use serde_json::{Value, json};
use yaml::Node;

fn kept(kind: &str, revision: &str, yaml: &str) -> Reply {
    let json = Node::parse(yaml).unwrap().to_json();
    Reply::json(&json!([{ "kind": kind, "name": kind, "revision": revision, "yaml": yaml, "json": json }]))
}

fn none() -> Reply {
    Reply::refused(404, "not_found", "there is none")
}

fn written() -> Reply {
    let effects = json!({ "lets_go": 0, "goes_down": 0, "halted_before": false });
    let changed = json!([{
        "kind": "k", "name": "n", "revision": "new", "was_there": true, "takes": "next_step",
    }]);
    Reply::json(&json!({ "changed": changed, "effects": effects }))
}

const UPDATED: &str = "Automatic updates configuration has been updated.\n\
                       updated k/n, takes effect within two seconds; 0 hosts may update now, 0 downgrade\n";
/// Where nothing was written.
const UNCHANGED: &str = "Nothing was different: nothing was written.\n";
/// What each write says behind the sentence.
const EFFECTS: &str = "updated k/n, takes effect within two seconds; 0 hosts may update now, 0 downgrade\n";

const POLICY: &str = "\
kind: cluster_maintenance_config
version: v1
metadata:
  name: cluster-maintenance-config
spec:
  # the window of another product
  agent_upgrades:
    utc_start_hour: 3
  agent_auto_update_groups:
    regular:
      # first these
      - name: staging
        start_hour: 1
        max_in_flight: 20%
      - name: prod
        requires: [staging]
";

/// The document of the write that was asked for at `index`.
fn document(server: &Server, index: usize) -> (Value, Node) {
    let body = server.asked()[index].body.clone();
    let text = body["text"].as_str().unwrap().to_owned();
    (body["how"].clone(), Node::parse(&text).unwrap())
}

#[test]
fn a_groups_setting_changes_that_key_alone_and_keeps_comments() {
    let server = Server::new([kept("cluster_maintenance_config", "r7", POLICY), written()]);
    let arguments = ["autoupdate", "update", "--schedule", "regular", "--group", "staging", "--set-start-hour=3"];
    assert_eq!(server.run(&arguments), Done::ok(UPDATED));
    assert_eq!(server.asked()[0].path, "/v1/fleet/resources/cluster_maintenance_config");
    let (how, document) = document(&server, 1);
    assert_eq!(how, "update");
    let mut wanted = Node::parse(&POLICY.replace("start_hour: 1", "start_hour: 3")).unwrap();
    wanted.set(&["metadata", "revision"], Node::text("r7"));
    assert_eq!(document, wanted);
}

#[test]
fn updates_are_turned_off_where_the_policy_is() {
    let server = Server::new([kept("m", "r1", POLICY), kept("m", "r1", POLICY), written()]);
    assert_eq!(server.run(&["autoupdate", "update", "--set-agent-auto-update=off"]), Done::ok(UPDATED));
    assert_eq!(document(&server, 2).1.to_json()["spec"]["agent_auto_update"], false);

    let v2 = "kind: autoupdate_config\nspec:\n  agents:\n    mode: enabled\n    strategy: halt-on-error\n";
    let server = Server::new([none(), kept("c", "r1", v2), kept("c", "r1", v2), written()]);
    assert_eq!(server.run(&["autoupdate", "update", "--set-agent-auto-update=off"]), Done::ok(UPDATED));
    assert_eq!(document(&server, 3).1.to_json()["spec"]["agents"]["mode"], "disabled");
}

#[test]
fn turning_updates_off_does_not_throw_a_schedule_away() {
    let scheduled = "kind: cluster_maintenance_config\nspec:\n  agent_auto_update:\n    regular: {start_hour: 3}\n";
    let server = Server::new([kept("m", "r1", scheduled), kept("m", "r1", scheduled)]);
    let done = server.run(&["autoupdate", "update", "--set-agent-auto-update=off"]);
    assert_eq!((done.status, done.out.as_str()), (1, ""));
    assert!(done.err.contains("halt --all"), "{}", done.err);
    assert!(server.asked().iter().all(|asked| asked.method == "GET"));
}

#[test]
fn a_version_is_written_with_its_schedule_and_made_where_there_is_none() {
    let server = Server::new([none(), written()]);
    assert_eq!(server.run(&["autoupdate", "update", "--set-agent-version=15.1.2", "--critical"]), Done::ok(UPDATED));
    let (how, document) = document(&server, 1);
    assert_eq!(how, "create");
    assert_eq!(
        document.to_json(),
        json!({
            "kind": "autoupdate_version",
            "version": "v1",
            "metadata": { "name": "autoupdate-version" },
            "spec": { "agent_version": "15.1.2", "agent_version_schedule": "critical" },
        })
    );
}

#[test]
fn who_wrote_in_between_is_not_overwritten_and_it_is_tried_three_times() {
    let stale = || Reply::refused(409, "stale_revision", "read it again");
    let (first, second) = (kept("m", "r1", POLICY), kept("m", "r2", POLICY));
    let arguments = ["autoupdate", "update", "--group", "prod", "--set-jitter-seconds=10"];
    let server = Server::new([first.clone(), stale(), second, written()]);
    assert_eq!(server.run(&arguments), Done::ok(UPDATED));
    let revision = |index| document(&server, index).1.to_json()["metadata"]["revision"].clone();
    assert_eq!([revision(1), revision(3)], ["r1", "r2"]);
    assert_ne!(server.asked()[1].id(), server.asked()[3].id());

    let server = Server::new([first.clone(), stale(), first.clone(), stale(), first, stale()]);
    let done = server.run(&arguments);
    assert_eq!((done.status, done.err.as_str()), (1, "error: read it again\n"));
    assert_eq!(server.asked().len(), 6);
}

#[test]
fn a_group_that_is_not_there_is_not_made() {
    let server = Server::new([kept("m", "r1", POLICY)]);
    let done = server.run(&["autoupdate", "update", "--group", "canary", "--set-start-hour=3"]);
    assert_eq!(done.status, 1);
    assert!(done.err.contains("\"canary\"") && done.err.contains("staging, prod"), "{}", done.err);
}

#[test]
fn reset_removes_the_policy_and_leaves_the_window() {
    let reset = "Automatic updates configuration has been reset to defaults.\n";
    let server = Server::new([kept("m", "r1", POLICY), kept("m", "r1", POLICY), written()]);
    assert_eq!(server.run(&["autoupdate", "reset"]), Done::ok(&format!("{reset}{EFFECTS}")));
    let spec = document(&server, 2).1.to_json()["spec"].clone();
    assert_eq!(spec, json!({ "agent_upgrades": { "utc_start_hour": 3 } }));
    assert_eq!(Server::new([none(), none()]).run(&["autoupdate", "reset"]), Done::ok(&format!("{reset}{UNCHANGED}")));
}

fn seed_rollout() -> Value {
    let at = |time: &str| json!({ "last_update_time": time });
    let waits = json!({
        "why": { "code": "previous_groups_not_done", "group": "other-group", "until": "2024-01-04T23:43:22Z" },
    });
    let mut counts = at("2024-01-03T23:43:22Z");
    for (key, count) in [("updated_count", 230), ("failed_count", 15), ("pending_count", 4), ("silent_count", 6)] {
        counts[key] = count.into();
    }
    let mut resource = rollout(
        "requires",
        "active",
        vec![
            group("staging-group", "done", None, "update_complete", &counts),
            group("prod-group", "unstarted", None, "previous_groups_not_done", &waits),
            group("other-group", "halted", None, "failed_threshold", &at("2024-01-05T22:53:22Z")),
        ],
    );
    resource["spec"]["autoupdate_mode"] = "disabled".into();
    resource
}

#[test]
fn the_status_is_the_seeds() {
    assert_eq!(
        Server::new([Reply::json(&seed_rollout())]).run(&["autoupdate", "status"]),
        Done::ok(
            "Status: disabled\n\
             Version: v1.2.4\n\
             Schedule: regular\n\
             \n\
             Groups:\n\
             staging-group: succeeded at 2024-01-03 23:43:22 UTC\n\
             prod-group: scheduled for 2024-01-04 23:43:22 UTC (depends on other-group)\n\
             other-group: failed at 2024-01-05 22:53:22 UTC\n"
        )
    );
}

#[test]
fn a_groups_status_counts_its_hosts_as_shares_of_all_of_them() {
    // 230, 10 and 15 of 255: 90.2, 3.9 and 5.9 %.
    assert_eq!(
        Server::new([Reply::json(&seed_rollout())]).run(&["autoupdate", "status", "--group", "staging-group"]),
        Done::ok(
            "Status: succeeded\n\
             Date: 2024-01-03 23:43:22 UTC\n\
             Requires: (none)\n\
             \n\
             Upgraded: 230 (90%)\n\
             Unchanged: 10 (4%)\n\
             Failed: 15 (6%)\n\
             Timed-out: 0\n"
        )
    );
}

#[test]
fn a_group_is_run_at_once() {
    let acted = json!({ "groups": ["staging-group"], "rollout": {},
        "effects": { "lets_go": 1, "goes_down": 0, "halted_before": false } });
    let server = Server::new([Reply::json(&acted)]);
    assert_eq!(
        server.run(&["autoupdate", "run", "--group", "staging-group"]),
        Done::ok(
            "Executing auto-update for group 'staging-group' immediately.\n\nOf the fleet: 1 host may update now, 0 downgrade.\n"
        )
    );
    assert_eq!(server.asked()[0].body["command"], json!({ "run": { "groups": ["staging-group"], "all": false } }));
}

#[test]
fn client_tools_are_switched_and_given_a_version() {
    let config = "kind: autoupdate_config\nspec:\n  tools:\n    mode: disabled\n";
    let server = Server::new([kept("c", "r1", config), written()]);
    assert_eq!(
        server.run(&["autoupdate", "client-tools", "enable"]),
        Done::ok(&format!("client tools auto update mode has been changed\n{EFFECTS}"))
    );
    assert_eq!(document(&server, 1).1.to_json()["spec"]["tools"]["mode"], "enabled");

    let server = Server::new([none(), written()]);
    assert_eq!(
        server.run(&["autoupdate", "client-tools", "target", "17.1.0"]),
        Done::ok(&format!("client tools auto update target version has been set\n{EFFECTS}"))
    );
    assert_eq!(document(&server, 1).1.to_json()["spec"], json!({ "tools": { "target_version": "17.1.0" } }));

    let version = "kind: autoupdate_version\nspec:\n  tools:\n    target_version: 17.1.0\n";
    let server = Server::new([kept("v", "r1", version), kept("v", "r1", version), written()]);
    assert_eq!(
        server.run(&["autoupdate", "client-tools", "target", "--clear"]),
        Done::ok(&format!("client tools auto update target version has been cleared\n{EFFECTS}"))
    );
    assert_eq!(document(&server, 2).1.to_json()["spec"], json!({ "tools": {} }));

    let server = Server::new([kept("c", "r1", config), kept("v", "r1", version)]);
    let json = server.run(&["autoupdate", "client-tools", "status", "--format", "json"]).json();
    assert_eq!(json, json!({ "mode": "disabled", "target_version": "17.1.0" }));
}
