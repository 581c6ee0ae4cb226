//! A good release goes through a fleet of thirty hosts with living agents, a broken one does not, and the way back and on.

use super::crowd::{Crowd, GROUPS, Member, SIZE, broken_release, release};
use crate::support::*;

/// At most three of dev's ten hosts update at a time, four of staging's, five of prod's.
const CAPS: [u64; 3] = [3, 4, 5];
/// First hosts of a group.
const CANARIES: usize = 2;

/// Three groups with canaries, a pace and a wait; none starts by itself at the time of the test.
fn policy() -> String {
    // Half a day from now.
    let hour = (jiff::Timestamp::now().as_second() / 3600 + 12) % 24;
    let mut groups = String::new();
    for (name, cap) in GROUPS.into_iter().zip(CAPS) {
        let wait = if name == "dev" { "" } else { "wait_hours: 1, " };
        let pace = format!("canary_count: {CANARIES}, max_in_flight: {cap}0%");
        groups +=
            &format!("      - {{name: {name}, days: ['*'], start_hour: {hour}, {wait}jitter_seconds: 0, {pace}}}\n");
    }
    format!(
        "kind: autoupdate_config\nversion: v1\nmetadata: {{name: autoupdate-config}}\nspec:\n  agents:\n    mode: enabled\n    \
         strategy: halt-on-error\n    schedules:\n      regular:\n{groups}"
    )
}

/// The canaries of a group that was just started.
fn canaries(crowd: &Crowd, group: &str) -> BTreeSet<String> {
    crowd.until_group(group, "canary", CANARIES as u64, &[]);
    crowd.in_state("let_go")
}

/// The timers of all that are not let go come, and nothing happens there.
fn others_stay(crowd: &Crowd, members: &[&Member], version: &str) {
    let let_go = crowd.in_state("let_go");
    let others: Vec<&Member> = members.iter().filter(|member| !let_go.contains(&member.uuid)).copied().collect();
    crowd.each(&others, |member| member.run("update", 0));
    let versions: Vec<String> = others.iter().map(|member| member.version()).collect();
    assert_eq!(versions, vec![version; members.len() - let_go.len()]);
    assert_eq!(crowd.in_state("let_go"), let_go);
}

/// Starts the groups from `first` on, and sees each through, from `from` to `to`.
fn go_through(crowd: &Crowd, first: usize, from: &str, to: &str) {
    for (index, (group, cap)) in GROUPS.into_iter().zip(CAPS).enumerate().skip(first) {
        if index > 0 {
            assert_eq!(crowd.fleet.group(group)["why"]["code"], "wait_hours");
        }
        crowd.fleet.agents("start-update", group);
        see_through(crowd, group, cap, from, to);
    }
}

/// Canaries first, then never more than the cap.
fn see_through(crowd: &Crowd, group: &str, cap: u64, from: &str, to: &str) {
    let members = crowd.of(group);
    let canaries = canaries(crowd, group);
    others_stay(crowd, &members, from);
    crowd.until_group(group, "active", cap, &crowd.named(&canaries));
    others_stay(crowd, &members.iter().filter(|member| member.version() == from).copied().collect::<Vec<_>>(), from);
    crowd.drive(group, "done", cap, &BTreeSet::new());
    assert!(members.iter().all(|member| member.version() == to));
}

#[test]
fn thirty_hosts_take_a_good_release_stop_a_broken_one_go_back_and_go_on_once_it_is_repaired() {
    let Some(crowd) = Crowd::up(&policy()) else { return };
    for archive in [release(2), broken_release(3)] {
        crowd.fleet.cluster.publish(&archive);
    }
    let (all, before) = (crowd.all(), crowd.written(&crowd.all()));
    go_through(&crowd, 0, "1.0.0", "2.0.0");
    crowd.are_whole(&all, "2.0.0");
    crowd.have_rows(&all, &before, false);

    crowd.fleet.wish("2.0.0", "3.0.0");
    crowd.fleet.agents("start-update", "dev");
    let canaries = canaries(&crowd, "dev");
    let broken = crowd.configure_legacy(&canaries);
    crowd.until_written(&all, "2.0.0");
    let before = crowd.written(&all);
    crowd.drive("dev", "halted", CAPS[0], &broken);
    is_stopped(&crowd, &broken);

    // Whoever asks now is told nothing, and nobody outside of dev was.
    crowd.each(&all, |member| member.run("update", 0));
    let has_it: Vec<&Member> = all.iter().filter(|member| member.version() == "3.0.0").copied().collect();
    let on_it: BTreeSet<String> = has_it.iter().map(|member| member.uuid.clone()).collect();
    assert!(canaries.is_subset(&on_it) && on_it.is_disjoint(&broken), "{on_it:?}");
    assert!(has_it.iter().all(|member| member.group == "dev"));

    crowd.until_written(&has_it, "3.0.0");
    crowd.fleet.agents("rollback", "dev");
    crowd.until_group("dev", "rolledback", CAPS[0], &[]);
    crowd.drive("dev", "rolledback", CAPS[0], &BTreeSet::new());
    crowd.are_whole(&all, "2.0.0");
    crowd.have_rows(&all, &before, false);

    crowd.repair(&broken);
    let before = crowd.written(&all);
    crowd.fleet.agents("run", "dev");
    see_through(&crowd, "dev", CAPS[0], "2.0.0", "3.0.0");
    go_through(&crowd, 1, "2.0.0", "3.0.0");
    crowd.are_whole(&all, "3.0.0");
    // Who comes to 3.0.0 again gets the database that it left there.
    crowd.have_rows(&all, &before, true);
    assert_eq!(crowd.in_state("updated").len(), all.len());
}

/// The halt says how many, of how many, with which code, and on which hosts: on the command line, by the API, and on the page.
fn is_stopped(crowd: &Crowd, broken: &BTreeSet<String>) {
    let fleet = &crowd.fleet;
    let hosts: BTreeSet<String> = crowd.in_state("failed");
    assert!(hosts.is_subset(broken) && hosts.len() == SIZE / 5, "{hosts:?}");
    let says = |text: &str| {
        for word in ["failed_threshold", "2 of 10 hosts failed", "unhealthy"] {
            assert!(text.contains(word), "{word}: {text}");
        }
    };
    let names = |text: &str| {
        for host in &hosts {
            assert!(text.contains(&host[..8]), "{host}: {text}");
        }
    };
    says(&fleet.ok(&["autoupdate", "agents", "status"]));
    let failed = fleet.ok(&["hosts", "--failed"]);
    names(&failed);
    assert_eq!(failed.matches("rolled_back 3.0.0 unhealthy").count(), hosts.len(), "{failed}");

    let visitor = fleet.visitor();
    let rollout = visitor.api("/v1/fleet/rollout");
    let group = |name: &str| {
        let groups = rollout["status"]["groups"].as_array().unwrap();
        groups.iter().find(|group| group["name"] == name).unwrap().clone()
    };
    let why = &group("dev")["why"];
    assert_eq!((&why["code"], &why["rule"]), (&json!("halted"), &json!("failed_threshold")));
    assert_eq!((&why["count"], &why["of"], &why["error"]), (&json!(2), &json!(10), &json!("unhealthy")));
    for later in ["staging", "prod"] {
        assert_eq!((&group(later)["state"], &group(later)["let_go_count"]), (&json!("unstarted"), &Value::from(0)));
    }
    let found = visitor.api("/v1/fleet/hosts?failed=true");
    names(&found.to_string());
    for page in ["/", "/groups/dev"] {
        says(&visitor.page(page));
    }
    names(&visitor.page("/hosts?group=dev&state=failed"));
}
