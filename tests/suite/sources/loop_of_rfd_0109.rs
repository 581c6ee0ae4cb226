//! The loop of seed 001's figure, on a host with a real systemd: critical? agent healthy? within the window?

use super::host::{CHANNEL, closed_window, open_window};
use crate::support::{FAST, Rig};
use test_cluster::archive::Archive;

#[test]
fn an_update_is_attempted_where_the_figure_says_so() {
    let Some(rig) = Rig::up("sourceloop") else { return };
    rig.cluster.publish(&Archive::simple("1.0.0"));
    rig.cluster.publish(&Archive::simple("1.1.0"));
    let say = |version: &str, critical: &str| {
        rig.cluster.set_page(&format!("{CHANNEL}/version"), &[(200, version)]);
        rig.cluster.set_page(&format!("{CHANNEL}/critical"), &[(200, critical)]);
    };
    say("1.0.0", "no");
    let source = format!("channel+https://{}{CHANNEL}", rig.cluster.addr());
    let base = rig.cluster.base_url();
    let args = ["enable", "--source", &source, "--base-url", &base, "--ca-file", "/root/ca.pem", "--edition", "oss"];
    rig.updater(&args).ok();
    rig.start_agent();
    let config = std::fs::read_to_string(rig.path("/var/lib/teleport/versions/updates.yaml")).unwrap();
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
        say("1.1.0", if critical { "yes" } else { "no" });
        let window = if within { open_window() } else { closed_window() };
        let text = config.replacen("\nspec:\n", &format!("\nspec:\n  window: \"{window}\"\n"), 1);
        rig.bed.write("/var/lib/teleport/versions/updates.yaml", text, 0o644);
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
