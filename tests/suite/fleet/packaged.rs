//! A host as its package leaves it, with systemd and a living agent, in a rollout.

use super::front::Front;
use super::server::Fleet;
use crate::support::*;

#[test]
fn a_packaged_updater_follows_and_goes_back_where_the_release_is_broken() {
    let Some(rig) = Rig::with_deb("bookworm", "fleet", "1.0.0") else { return };
    let fleet = Fleet::start(&["1.0.0", "2.0.0"]);
    fleet.cluster.publish(&Archive::simple("3.0.0").behaviour("exit-at-once").schema(3));
    fleet.groups(&["dev", "prod"]);
    fleet.wish("1.0.0", "2.0.0");
    rig.bed.write("/root/fleet.pem", fleet.trusted(), 0o644);
    let (proxy, base) = (fleet.proxy(), fleet.cluster.base_url());
    rig.updater(&["enable", "--proxy", &proxy, "--group", "dev", "--base-url", &base, "--ca-file", "/root/fleet.pem"])
        .ok();
    rig.start_agent();
    // The agent made its UUID when it first started: from here on the host is known by it.
    let uuid = std::fs::read_to_string(rig.path("/var/lib/teleport/host_uuid")).unwrap();
    let run = || rig.bed.run(&["systemctl", "start", "teleport-update.service"]).status.success();
    assert!(run());
    assert_eq!(rig.running(), "1.0.0");
    let update_id = rig.bed.sh("sed -n 's/^ *update_id: //p' /var/lib/teleport/versions/updates.yaml");
    look::until("the host is known by both ids", || {
        fleet.known(&uuid)["update_id"] == update_id.trim().trim_matches('"')
    });

    fleet.agents("start-update", "dev");
    assert!(run());
    assert_eq!(rig.running(), "2.0.0");
    rig.until_ready();
    let known = fleet.known(&uuid);
    assert_eq!((&known["group"], &known["state"]), (&"dev".into(), &"updated".into()), "{known}");
    assert_eq!(known["version"], "2.0.0");

    fleet.wish("2.0.0", "3.0.0");
    fleet.agents("start-update", "dev");
    assert!(!run(), "rolled back");
    assert_eq!(rig.running(), "2.0.0");
    // It says so, perhaps in a later run: it has reported often. That is one of one, and the group stops by itself.
    look::until("the host is known to have failed", || {
        run();
        fleet.known(&uuid)["state"] == "failed"
    });
    look::until("its group is halted", || fleet.state("dev") == "halted");
    assert!(run());
    rig.bed.until("systemctl is-active -q teleport", Duration::from_secs(30));
    assert_eq!(rig.running(), "2.0.0");
}

/// In the dialect of today's proxies, and asked for as by today's updaters: by group and update id.
#[test]
fn a_packaged_updater_follows_in_todays_dialect_though_no_host_is_named() {
    let Some(rig) = Rig::with_deb("bookworm", "nested", "1.0.0") else { return };
    let fleet = Fleet::start_plain(&["1.0.0", "2.0.0"]);
    fleet.groups(&["dev", "prod"]);
    fleet.wish("1.0.0", "2.0.0");
    let front = Front::start_without_host(fleet.addr);
    fleet.trust(front.ca_pem());
    rig.bed.write("/root/fleet.pem", fleet.trusted(), 0o644);
    let (proxy, base) = (front.proxy(), fleet.cluster.base_url());
    rig.updater(&["enable", "--proxy", &proxy, "--group", "prod", "--base-url", &base, "--ca-file", "/root/fleet.pem"])
        .ok();
    rig.start_agent();
    let run = || rig.bed.run(&["systemctl", "start", "teleport-update.service"]).status.success();
    fleet.agents("start-update", "dev");
    assert!(run());
    assert_eq!(rig.running(), "1.0.0", "the turn of another group has come");
    fleet.agents("mark-done", "dev");
    fleet.agents("start-update", "prod");
    front.asked();
    assert!(run());
    assert_eq!(rig.running(), "2.0.0");
    let found: Vec<String> = front.asked().into_iter().filter(|path| path.starts_with("/webapi/find")).collect();
    assert!(!found.is_empty());
    for path in found {
        assert!(path.starts_with("/webapi/find?group=prod&update_id=") && !path.contains("host="), "{path}");
    }
}
