//! FLEET §2: every write says when it acts, on how many hosts, and what is unwise in it; and what is held is seen.

use serde_json::Value;

use crate::reports::host::{Host, epoch};
use crate::support::{Server, done, groups, restore, rolling, start, version};

const HOST: &str = "11111111-2222-4333-8444-555555555555";

/// The resource with `keys` in `spec.agents`.
fn with(keys: &str) -> String {
    groups(&["dev", "prod"]).replace("    mode: enabled", &format!("    {keys}\n    mode: enabled"))
}

#[test]
fn a_change_of_what_acts_with_the_next_rollout_says_so() {
    let (_dir, server) = start();
    server.create(&groups(&["dev", "prod"]));
    server.create(&version("1.0.0", "1.1.0", "regular"));
    let told = server.create(&with("unassigned: hold"));
    assert!(told.contains("takes effect with the next rollout"), "{told}");
    let paced = |text: &str| text.replace("name: prod,", "name: prod, max_in_flight: 10%,");
    let told = server.create(&paced(&with("unassigned: hold")));
    assert!(told.contains("takes effect within two seconds;"), "{told}");
    // Pace at once, and where hosts without a group go with the next rollout.
    let told = server.create(&groups(&["dev", "prod"]));
    assert!(told.contains("within two seconds (mode, pace, thresholds, freezes), and with the next rollout"), "{told}");
}

#[test]
fn a_write_gives_the_advice_of_lint() {
    let (_dir, server) = start();
    let told = server.create(&groups(&["dev", "prod"]));
    assert!(told.contains("\nadvice: line ") && told.contains("[no_canary]\n"), "{told}");
    let write = ["create", "--force", "-f", "-", "--dry-run", "--format", "json"];
    let json: Value = serde_json::from_str(&done(&server.cli_with(&write, &groups(&["dev", "prod"])))).unwrap();
    let codes: Vec<&Value> = json["advice"].as_array().unwrap().iter().map(|advice| &advice["code"]).collect();
    assert!(codes.contains(&&"no_canary".into()), "{json}");
    assert_eq!(json["advice"][0]["kind"], "autoupdate_config");
}

#[test]
fn several_files_are_one_change_all_or_nothing() {
    let (dir, server) = start();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (policy, bad) =
        (file("p.yaml", &groups(&["dev"])), file("bad.yaml", "kind: autoupdate_version\nspec: {agents: 3}\n"));
    let refused = server.cli(&["create", "-f", &policy, "-f", &bad]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains(&format!("{bad}: line 2")), "{said}");
    assert!(!server.cli(&["get", "autoupdate_config"]).status.success(), "nothing was written");
    let good = file("v.yaml", &version("1.0.0", "1.1.0", "regular"));
    let told = server.ok(&["create", "-f", &policy, &good]);
    assert!(told.contains("created autoupdate_config/") && told.contains("\ntogether: "), "{told}");
    assert!(crate::support::program(&["lint", "-f", &policy, &good]).output().unwrap().status.success());
}

#[test]
fn the_commands_of_the_rfd_say_what_they_do_to_the_fleet() {
    let (_dir, server) = start();
    let told = server.ok(&["autoupdate", "update", "--set-agent-version=1.1.0"]);
    let (sentence, effects) = told.split_once('\n').unwrap();
    assert_eq!(sentence, "Automatic updates configuration has been updated.");
    assert!(
        effects.contains("begins a new rollout") && effects.contains("0 hosts may update now, 0 downgrade"),
        "{told}"
    );
    server.ok(&["autoupdate", "update", "--set-agent-auto-update=off"]);
    let told = server.ok(&["autoupdate", "reset"]);
    assert!(
        told.contains("cluster_maintenance_config/") && told.contains("0 hosts may update now, 0 downgrade"),
        "{told}"
    );
}

#[test]
fn a_hold_is_seen_without_a_rollout_and_after_a_restore_as_that() {
    let (dir, server) = start();
    server.agents(&["halt", "--all"]);
    let status = server.agents(&["status"]);
    assert!(status.contains("everything is held by an operator") && status.contains("run --all"), "{status}");
    server.agents(&["run", "--all"]);
    assert!(!server.agents(&["status"]).contains("held"));
    server.create(&format!("{}---\n{}", groups(&["dev", "prod"]), version("1.0.0", "1.1.0", "regular")));
    let backup = dir.path().join("backup.db");
    server.ok(&["backup", backup.to_str().unwrap()]);
    assert_eq!(server.stop(), Some(0));
    done(&restore(dir.path(), &backup, &["--force"]));
    let server = Server::start(dir.path());
    let status = server.agents(&["status"]);
    assert!(status.contains("halted (restored): by a restore"), "{status}");
    assert!(!status.contains("by an operator"), "{status}");
}

#[test]
fn the_present_rollout_is_listed_first() {
    let (_dir, server) = rolling(&["dev"]);
    let row = |told: &str| told.lines().skip(2).map(str::to_owned).collect::<Vec<_>>();
    let first = row(&server.ok(&["rollouts"]));
    assert!(first.len() == 1 && first[0].starts_with('1') && first[0].contains("unstarted, present"), "{first:?}");
    server.create(&version("1.0.0", "1.2.0", "regular"));
    let both = row(&server.ok(&["rollouts"]));
    assert!(both.len() == 2 && both[0].starts_with('2') && both[1].starts_with('1'), "{both:?}");
    assert!(both[0].contains("present") && !both[1].contains("present"), "{both:?}");
    assert_eq!(row(&server.ok(&["rollouts", "--before", "2"])).len(), 1);
}

#[test]
fn a_host_that_was_never_heard_of_is_held_when_it_comes() {
    let (_dir, server) = rolling(&["dev", "prod"]);
    let told = server.ok(&["host", HOST, "hold"]);
    assert!(told.contains("Set: held") && told.contains("Last seen: never"), "{told}");
    server.agents(&["start-update", "dev"]);
    let find = server.json(&format!("/v1/webapi/find?host={HOST}&group=dev"));
    assert_eq!((&find["agent_auto_update"], &find["fleet"]["why"]["code"]), (&false.into(), &"held".into()));
    server.ok(&["host", HOST, "release"]);
    let other = HOST.replace('1', "2");
    server.ok(&["host", &other, "hold"]);
    let told = server.ok(&["host", &other, "release"]);
    assert!(told.contains("this host was never seen"), "{told}");
    assert!(!server.ok(&["hosts"]).contains(&other));
}

/// Hosts that were told are on their way to the target, though they run the start version yet: a rollback is about them.
#[test]
fn a_rollback_counts_those_that_are_on_their_way() {
    let (_dir, server) = rolling(&["dev", "prod"]);
    let epoch = epoch(&server);
    let hosts: Vec<Host> = (1..=4).map(|number| Host::new(number, "dev")).collect();
    for host in &hosts {
        assert_eq!(host.sends(server.addr, &host.says(epoch, "1.0.0", None)).0, 200);
    }
    server.agents(&["start-update", "dev"]);
    // One does not ask, and one has arrived.
    for host in &hosts[..3] {
        assert!(host.asks(&server, Some(epoch)).1);
    }
    assert_eq!(hosts[2].sends(server.addr, &hosts[2].says(epoch, "1.1.0", Some(("updated", "1.1.0", "")))).0, 200);
    let told = || server.ok(&["hosts", "--group", "dev", "--state", "told"]);
    server.until("two are told", || hosts[..2].iter().all(|host| told().contains(&host.id)));
    let done = server.agents(&["rollback", "dev"]);
    assert!(done.contains("3 hosts may update now, 3 downgrade"), "{done}");
}
