//! What hosts are answered.

use serde_json::json;

use crate::support::{Server, dir, groups, start, version};

const HOST: &str = "11111111-2222-4333-8444-555555555555";

#[test]
fn without_a_rollout_find_says_so_and_after_one_was_removed_the_last_that_was_done_stays() {
    let (_dir, server) = start();
    for path in ["/v1/webapi/find", "/webapi/find", "/webapi/ping"] {
        let (status, body) = server.get(path);
        assert_eq!(status, 404, "{body}");
        assert!(body.contains("\"no_rollout\""), "{body}");
    }
    server.create(&groups(&["dev"]));
    server.create(&version("1.0.0", "1.1.0", "regular"));
    server.agents(&["mark-done", "dev"]);
    server.ok(&["rm", "autoupdate_version"]);
    let answer = server.json("/v1/webapi/find");
    assert_eq!((&answer["agent_version"], &answer["agent_auto_update"]), (&json!("1.1.0"), &json!(false)));
}

#[test]
fn both_dialects_answer_the_same_on_their_paths() {
    let dir = dir();
    let server = Server::with(dir.path(), &["--plain", "--edition", "enterprise-fips", "--cluster-name", "c1"]);
    server.create(&version("1.0.0", "1.1.0", "immediate"));
    let flat = server.json(&format!("/v1/webapi/find?host={HOST}"));
    assert_eq!(flat["agent_version"], "1.1.0");
    assert_eq!(flat["agent_auto_update"], true);
    assert_eq!(flat["server_edition"], "enterprise-fips");
    for path in ["/webapi/find?group=default&update_id=", "/webapi/ping?host="] {
        let nested = server.json(&format!("{path}{HOST}"));
        assert_eq!(nested["auto_update"]["agent_version"], "1.1.0");
        assert_eq!(nested["auto_update"]["agent_auto_update"], true);
        assert_eq!((&nested["edition"], &nested["fips"]), (&json!("ent"), &json!(true)));
        assert_eq!(nested["cluster_name"], "c1");
    }
}

#[test]
fn channels_schedules_and_graphs_answer_on_their_paths() {
    let (_dir, server) = start();
    let channel = "kind: fleet_channel\nversion: v1\nmetadata: {name: stable/rolling}\nspec: {static_version: 1.2.3, critical: true}\n";
    server.create(channel);
    assert_eq!(server.get("/v1/stable/rolling/version"), (200, "1.2.3\n".to_owned()));
    assert_eq!(server.get("/v1/stable/rolling/critical"), (200, "yes".to_owned()));
    let webapi = "/webapi/automaticupgrades/channel/stable/rolling/version";
    assert_eq!(server.get(webapi), (200, "v1.2.3".to_owned()));
    assert_eq!(server.get("/v1/other/version").0, 404);
    assert_eq!(server.get("/v1/maintenance-schedule?kind=cron").0, 400);
    let (status, body) = server.get("/v1/graph");
    assert_eq!(status, 400, "{body}");
    assert_eq!(server.get("/v1/nothing").0, 404);
    assert_eq!(server.get("/nothing").0, 404);
}
