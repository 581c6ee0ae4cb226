//! The commonest way to us: a host whose agent came with Teleport's package and runs, then `enable` with a rollout server, its
//! first rollout, a broken release, a downgrade. It is never excluded, and never without an agent.

use super::server::Fleet;
use crate::packaging::old_packages::toys::{self, Layout, Toy};
use crate::support::*;

/// For a first `enable` with the waits that are set without settings.
const PATIENCE: Duration = Duration::from_secs(60);

/// A host with the package of 0.9.0 and its agent, which has a `host_uuid` and wrote no settings of ours.
fn packaged(name: &str) -> Option<Rig> {
    let rig = Rig::up(name)?;
    let dir = tempfile::tempdir().unwrap();
    toys::apt_repository(&rig.bed, &[Toy::new("teleport", "0.9.0", Layout::Plain).deb(dir.path())]);
    rig.bed.sh(&format!("rm -r {VERSIONS} && apt-get install -y -q teleport"));
    rig.start_agent();
    Some(rig)
}

/// The agent of `version` is the unit's main process, whose path and database fit.
#[track_caller]
fn runs(rig: &Rig, version: &str, after: &Ran) {
    rig.until_ready();
    let pid = rig.bed.sh("systemctl show -p MainPID --value teleport");
    let exe = rig.bed.sh(&format!("readlink /proc/{}/exe", pid.trim()));
    assert_eq!(exe.trim(), look::binary(version, "teleport"), "{after:#?}");
    assert_eq!(rig.sql("PRAGMA user_version"), [version.split('.').next().unwrap()], "{after:#?}");
    assert_eq!(rig.status()["recovery_pending"], false);
}

/// The server takes what this host says, and counts it.
#[track_caller]
fn is_counted(fleet: &Fleet, rig: &Rig) {
    let report = rig.status()["report"].as_str().unwrap_or_default().to_owned();
    // This host lives faster than any: some reports of it come too often, and wait.
    assert!(report.starts_with("taken ") || report.contains("too_often"), "{report}\n{}", fleet.log());
    let known = fleet.known(&uuid(rig));
    assert!(!known["state"].is_null() && known["state"] != "excluded", "{known}\n{}", fleet.log());
    let audit = fleet.ok(&["audit", "--format", "json"]);
    assert!(!audit.contains("key_conflict"), "{audit}");
}

fn uuid(rig: &Rig) -> String {
    std::fs::read_to_string(rig.path("/var/lib/teleport/host_uuid")).unwrap().trim().to_owned()
}

fn by_the_unit(rig: &Rig) -> Ran {
    Ran::of(&rig.bed.run(&["systemctl", "start", "teleport-update.service"]))
}

/// What `enable` is given: as an operator writes it, a source or a proxy.
fn migrates(name: &str, where_from: &[&str]) {
    let fleet = Fleet::start(&["1.0.0"]);
    fleet.cluster.publish(&Archive::simple("2.0.0").schema(2));
    fleet.cluster.publish(&Archive::simple("3.0.0").schema(3).behaviour("corrupts-schema"));
    fleet.groups(&["dev"]);
    fleet.wish("1.0.0", "2.0.0");
    let Some(rig) = packaged(name) else { return };
    rig.bed.write("/root/trusted.pem", fleet.trusted(), 0o644);
    rig.note("from before the migration");

    let (proxy, base) = (fleet.proxy(), fleet.cluster.base_url());
    let source = format!("https://{proxy}");
    let words: Vec<&str> =
        where_from.iter().map(|word| word.replace("PROXY", &proxy).replace("SOURCE", &source).leak() as &str).collect();
    let words =
        [&["enable", "--group", "dev", "--base-url", &base, "--ca-file", "/root/trusted.pem"], &words[..]].concat();
    // It has committed, and watches as long as an agent is watched by itself.
    rig.updater_in_background("enable", &words.join(" "));
    let committed = format!(
        "grep -q '^    until:' {VERSIONS}/updates.yaml && test ! -e {VERSIONS}/.journal || systemctl is-failed -q enable"
    );
    rig.bed.until(&committed, PATIENCE);
    rig.bed.sh("systemctl stop enable");
    let told = Ran { status: 0, stdout: String::new(), stderr: rig.bed.sh("journalctl -o cat -u enable") };
    runs(&rig, "1.0.0", &told);
    assert!(rig.has_note("from before the migration"));
    rig.edit(&format!("{VERSIONS}/updates.yaml"), "\nspec:\n", &format!("\nspec:\n{FAST}"));

    // The report of the next run, with the key of the first.
    let ran = rig.updater(&["update"]).ok();
    runs(&rig, "1.0.0", &ran);
    is_counted(&fleet, &rig);

    fleet.agents("start-update", "dev");
    let ran = by_the_unit(&rig);
    runs(&rig, "2.0.0", &ran);
    is_counted(&fleet, &rig);
    look::until("the rollout is done", || {
        rig.updater(&["update"]).ok();
        fleet.known(&uuid(&rig))["state"] == "updated"
    });

    fleet.wish("2.0.0", "3.0.0");
    fleet.agents("start-update", "dev");
    let ran = by_the_unit(&rig);
    assert_ne!(ran.status, 0, "{ran:#?}");
    runs(&rig, "2.0.0", &ran);
    assert!(rig.has_note("from before the migration"));
    is_counted(&fleet, &rig);

    fleet.wish("2.0.0", "1.0.0");
    fleet.agents("start-update", "dev");
    let ran = by_the_unit(&rig);
    runs(&rig, "1.0.0", &ran);
    assert!(rig.has_note("from before the migration"));
    is_counted(&fleet, &rig);
    rig.updater(&["verify"]).ok();
    rig.assert_tidy();
}

tests_of! { migrates:
    a_host_with_teleports_package_migrates_to_a_rollout_server_that_it_calls_its_proxy(
        "migration", &["--proxy", "PROXY"]);
    a_host_with_teleports_package_migrates_to_a_rollout_server_beside_its_proxy(
        "migration-source", &["--source", "SOURCE", "--proxy", "PROXY"]);
}
