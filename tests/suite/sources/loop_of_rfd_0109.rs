//! The loop of seed 001's figure, on a host with a real systemd: critical? agent healthy? within the window?

use crate::support::source::{CHANNEL, closed_window, open_window};
use crate::support::*;

/// A bed whose agent follows a channel that says 1.0.0, with an archive of 1.1.0 as well.
fn following(name: &str) -> Option<Rig> {
    let rig = Rig::up(name)?;
    rig.cluster.publish(&Archive::simple("1.0.0"));
    rig.cluster.publish(&Archive::simple("1.1.0"));
    say(&rig, "1.0.0", false);
    let source = format!("channel+https://{}{CHANNEL}", rig.cluster.addr());
    let base = rig.cluster.base_url();
    let args = ["enable", "--source", &source, "--base-url", &base, "--ca-file", "/root/ca.pem", "--edition", "oss"];
    rig.updater(&args).ok();
    rig.start_agent();
    Some(rig)
}

fn say(rig: &Rig, version: &str, is_critical: bool) {
    rig.cluster.set_page(&format!("{CHANNEL}/version"), &[(200, version)]);
    rig.cluster.set_page(&format!("{CHANNEL}/critical"), &[(200, if is_critical { "yes" } else { "no" })]);
}

/// The settings `config` with this window.
fn set_window(rig: &Rig, config: &str, window: &str) {
    let text = config.replacen("\nspec:\n", &format!("\nspec:\n  window: \"{window}\"\n"), 1);
    rig.bed.write(format!("{VERSIONS}/updates.yaml"), text, 0o644);
}

#[test]
fn an_update_is_attempted_where_the_figure_says_so() {
    let Some(rig) = following("sourceloop") else { return };
    let config = std::fs::read_to_string(rig.path(&format!("{VERSIONS}/updates.yaml"))).unwrap();
    assert!(config.contains(FAST), "{config}");
    // A unit that is killed stays failed.
    rig.drop_in("Restart=no\n");
    for (critical, healthy, within, attempted, why) in [
        (true, true, true, true, "critical"),
        (true, true, false, true, "critical"),
        (true, false, true, true, "critical"),
        (true, false, false, true, "critical"),
        (false, false, true, true, "unhealthy"),
        (false, false, false, true, "unhealthy"),
        (false, true, true, true, "is open"),
        (false, true, false, false, "is closed"),
    ] {
        let case = format!("critical {critical}, healthy {healthy}, within {within}");
        say(&rig, "1.1.0", critical);
        set_window(&rig, &config, &if within { open_window() } else { closed_window() });
        if healthy {
            rig.bed.sh("systemctl reset-failed teleport || true; systemctl start teleport");
            rig.until_ready();
        } else {
            rig.bed.sh("systemctl start teleport; systemctl kill -s KILL teleport; \
                        until systemctl is-failed teleport; do sleep 0.1; done");
        }
        let plan = rig.updater(&["plan", "--format", "json"]).ok().json();
        assert_eq!(plan["action"] == "update", attempted, "{case}: {plan}");
        assert!(plan["reason"].as_str().unwrap().contains(why), "{case}: {plan}");
    }
    // The unhealthy agent is mended by the update, outside of the window.
    rig.bed.sh("systemctl kill -s KILL teleport; until systemctl is-failed teleport; do sleep 0.1; done");
    rig.updater(&["update"]).ok();
    rig.until_ready();
    assert_eq!(rig.status()["agent_version_running"], "1.1.0");
}

#[test]
fn one_restart_is_no_loop_and_two_looks_that_find_one_are() {
    let Some(rig) = following("sourcerestart") else { return };
    let config = std::fs::read_to_string(rig.path(&format!("{VERSIONS}/updates.yaml"))).unwrap();
    set_window(&rig, &config, &closed_window());
    say(&rig, "1.1.0", false);
    let note = format!("{VERSIONS}/.not-ready");
    let is_noted = || rig.path(&note).exists();
    let refused = || {
        let ran = rig.updater(&["update"]).ok();
        assert!(ran.stderr.contains("is closed"), "{ran:#?}");
        assert!(rig.link().contains("/1.0.0/"), "{ran:#?}");
    };
    refused();
    assert!(!is_noted());
    // It ended once, and its next start is far.
    rig.drop_in("Restart=always\nRestartSec=1h\n");
    rig.bed.sh("systemctl kill -s KILL teleport");
    rig.bed.until("systemctl show -p SubState teleport | grep -q auto-restart", SOON);
    refused();
    // A run soon after is no second look, and one that finds the agent well forgets.
    refused();
    assert!(is_noted());
    rig.drop_in("Restart=no\n");
    rig.bed.sh("systemctl restart teleport");
    rig.until_ready();
    refused();
    assert!(!is_noted());
    rig.drop_in("Restart=always\nRestartSec=1h\n");
    rig.bed.sh("systemctl kill -s KILL teleport");
    rig.bed.until("systemctl show -p SubState teleport | grep -q auto-restart", SOON);
    // The run before this one, ten minutes ago, found it so.
    let ago = |minutes: i64| jiff::Timestamp::from_second(jiff::Timestamp::now().as_second() - minutes * 60).unwrap();
    rig.bed.write(&note, format!("{0} {0}\n", ago(10)), 0o644);
    let plan = rig.updater(&["plan", "--format", "json"]).ok().json();
    assert_eq!(plan["reason"], "the agent is unhealthy: it restarts again and again");
    let ran = rig.updater(&["update"]).ok();
    assert!(rig.link().contains("/1.1.0/"), "{ran:#?}");
}

#[test]
fn three_restarts_of_which_the_last_is_a_moment_ago_are_a_loop_at_one_look() {
    let Some(rig) = following("sourcelooping") else { return };
    let config = std::fs::read_to_string(rig.path(&format!("{VERSIONS}/updates.yaml"))).unwrap();
    set_window(&rig, &config, &closed_window());
    say(&rig, "1.1.0", false);
    rig.drop_in("Restart=always\nRestartSec=100ms\n");
    for count in 1..=3 {
        rig.bed.sh("systemctl kill -s KILL teleport");
        rig.bed.until(&format!("test $(systemctl show -p NRestarts --value teleport) = {count}"), SOON);
        rig.until_ready();
    }
    // It has ended once more, and its next start is far: however long the look takes, this was a moment ago.
    rig.drop_in("Restart=always\nRestartSec=1h\n");
    rig.bed.sh("systemctl kill -s KILL teleport");
    rig.bed.until("systemctl show -p SubState teleport | grep -q auto-restart", SOON);
    let plan = rig.updater(&["plan", "--format", "json"]).ok().json();
    assert_eq!(plan["reason"], "the agent is unhealthy: it restarts again and again");
}
