//! The server's side of each source: channels, the update graph and the maintenance schedule of the real server, followed by
//! real hosts.

use super::server::{Fleet, Host};
use crate::support::*;

impl Fleet {
    /// A host in `group` that follows `source` from `version` on; the cluster is not asked.
    #[track_caller]
    fn follower(&self, number: u8, source: &str, version: &str) -> Host {
        let host = self.bare_host(number);
        let trusted = self.trusted_file();
        let base = self.cluster.base_url();
        let words = ["enable", "--source", source, "--base-url", &base, "--ca-file", &trusted, "--group", "dev"];
        host.run(&[&words[..], &["--edition", "oss", "--force-version", version]].concat()).ok();
        host
    }
}

fn reason(host: &Host) -> String {
    let status: Value = host.run(&["status", "--format", "json"]).ok().json();
    status["source_reason"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_host_follows_a_channel_and_its_critical_mark() {
    let fleet = Fleet::start(&["1.0.0", "1.1.0", "1.2.0"]);
    let channel = |version: &str, critical: bool| {
        fleet.write(&format!(
            "kind: fleet_channel\nversion: v1\nmetadata: {{name: stable/cloud}}\nspec: {{static_version: {version}, critical: {critical}}}\n"
        ));
    };
    channel("1.0.0", false);
    let host = fleet.follower(1, &format!("channel+https://{}/v1/stable/cloud", fleet.proxy()), "1.0.0");
    // The group's window is half a day away.
    fleet.groups(&["dev", "prod"]);
    channel("1.1.0", false);
    assert_eq!(host.update(), "1.0.0");
    assert!(reason(&host).contains("is closed and opens at"), "{}", reason(&host));
    channel("1.1.0", true);
    assert_eq!(reason(&host), "1.1.0 is critical");
    assert_eq!(host.update(), "1.1.0");
    // A proxy's path, which answers with `v`.
    let source = format!("channel+https://{}/webapi/automaticupgrades/channel/stable/cloud", fleet.proxy());
    host.run(&["enable", "--source", &source]).ok();
    channel("1.2.0", true);
    assert_eq!(host.update(), "1.2.0");
    // Reports and questions are for the find source alone.
    assert_eq!(fleet.known(host.uuid()), Value::Null);
}

#[test]
fn the_windows_of_its_group_are_those_of_the_maintenance_schedule() {
    let fleet = Fleet::start(&["1.0.0", "1.1.0"]);
    fleet.write("kind: fleet_channel\nversion: v1\nmetadata: {name: c}\nspec: {static_version: 1.1.0}\n");
    let host = fleet.follower(1, &format!("channel+https://{}/v1/c", fleet.proxy()), "1.0.0");
    let config = |mode: &str, hours: i64| {
        let hour = (jiff::Timestamp::now().as_second() / 3600 + hours).rem_euclid(24);
        fleet.write(&format!(
            "kind: autoupdate_config\nversion: v1\nmetadata: {{name: autoupdate-config}}\nspec:\n  agents:\n    mode: {mode}\n    \
             strategy: time-based\n    maintenance_window_duration: 3h\n    schedules:\n      regular:\n      - {{name: dev, days: \
             ['*'], start_hour: {hour}}}\n"
        ));
    };
    config("disabled", 12);
    assert_eq!(host.update(), "1.0.0");
    assert!(reason(&host).ends_with("is closed"), "{}", reason(&host));
    config("enabled", 12);
    assert_eq!(host.update(), "1.0.0");
    assert!(reason(&host).contains("is closed and opens at"), "{}", reason(&host));
    // Longer than an hour: the window that began an hour ago lasts three.
    config("enabled", -1);
    assert_eq!(host.update(), "1.1.0");
}

#[test]
fn a_host_follows_the_update_graph_past_barriers_and_never_to_a_blocked_release() {
    let fleet = Fleet::start(&["1.0.0", "1.1.0", "1.2.0", "1.3.0"]);
    let release = |version: &str, rest: &str| {
        format!(
            "kind: fleet_release\nversion: v1\nmetadata: {{name: {version}}}\nspec: {{version: {version}, channels: [stable], {rest}}}\n"
        )
    };
    let out = "rollout: {start: \"2020-01-01T00:00:00Z\", start_value: 1.0}";
    let releases = [
        release("1.0.0", out),
        release("1.1.0", "barrier: true"),
        release("1.2.0", out),
        release("1.3.0", &format!("{out}, blocked: {{reason: bad}}")),
    ];
    fleet.write(&releases.join("---\n"));
    for (number, path) in ["/v1/graph?channel=stable", "/v1/graph?stream=stable"].into_iter().enumerate() {
        let source = format!("cincinnati+https://{}{path}", fleet.proxy());
        let host = fleet.follower(number as u8 + 1, &source, "1.0.0");
        assert_eq!([host.update(), host.update(), host.update()], ["1.1.0", "1.2.0", "1.2.0"], "{path}");
    }
}

/// The digests of its archives by edition and architecture: what the server knows of a release must hold, whatever the mirror says.
#[test]
fn an_archive_must_have_the_digest_that_the_server_knows_of_its_release() {
    let fleet = Fleet::start(&["1.0.0", "2.0.0"]);
    let release = |digest: &str| {
        let digests = format!("{{oss/amd64: {digest}, oss/arm64: {digest}}}");
        let out = "rollout: {start: \"2020-01-01T00:00:00Z\", start_value: 1.0}";
        let of = |version: &str, rest: &str| {
            format!(
                "kind: fleet_release\nversion: v1\nmetadata: {{name: {version}}}\nspec: {{version: {version}, channels: [stable], {out}{rest}}}\n"
            )
        };
        fleet.write(&format!("{}---\n{}", of("1.0.0", ""), of("2.0.0", &format!(", digests: {digests}"))));
    };
    release(&"ab".repeat(32));
    fleet.groups(&["dev"]);
    fleet.wish("1.0.0", "2.0.0");
    let of_rollout = fleet.host(1, "dev");
    assert_eq!(of_rollout.update(), "1.0.0");
    fleet.agents("start-update", "dev");
    let of_graph = fleet.follower(2, &format!("cincinnati+https://{}/v1/graph", fleet.proxy()), "1.0.0");
    for host in [&of_rollout, &of_graph] {
        let ran = host.run(&["update", "--now"]).fails(1, "the source names abab");
        assert_eq!((host.version(), ran.stderr.contains("2.0.0")), ("1.0.0".to_owned(), true));
    }
    release(&fleet.cluster.publish(&Archive::simple("2.0.0")).sha256);
    for host in [&of_rollout, &of_graph] {
        host.run(&["update", "--now"]).ok();
        assert_eq!(host.version(), "2.0.0");
    }
}

#[test]
fn what_a_rollout_server_said_is_forgotten_with_another_source_and_its_group_goes_on_without_the_host() {
    let fleet = Fleet::start(&["1.0.0", "2.0.0"]);
    fleet.groups(&["dev"]);
    fleet.wish("1.0.0", "2.0.0");
    let host = fleet.host(1, "dev");
    assert_eq!(host.update(), "1.0.0");
    fleet.write("kind: fleet_channel\nversion: v1\nmetadata: {name: c}\nspec: {static_version: 1.0.0}\n");
    let channel = format!("channel+https://{}/v1/c", fleet.proxy());
    host.run(&["enable", "--source", &channel]).ok();
    fleet.agents("start-update", "dev");
    assert_eq!(host.update(), "1.0.0", "the channel is asked, and not the rollout");
    host.run(&["enable", "--source", "default"]).ok();
    assert_eq!(host.update(), "2.0.0");
}
