//! Hosts with living agents that follow a version directive of a real server.

use testing::crash::live::cell::{SOON, until};
use testing::crash::live::{suite, whole};

use super::crowd::Member;
use super::server::Fleet;
use crate::support::*;

/// A directive of these entries: group, start version and targets. Without a wait.
fn directive(entries: &[(&str, &str, &str)]) -> String {
    let entry = |(group, start, targets): &(&str, &str, &str)| {
        format!(
            "  - {{name: {group}, selectors: [{{group: {group}}}], start_version: {start}, targets: [{targets}], \
             jitter_seconds: 0}}\n"
        )
    };
    format!("kind: version-directive\nspec:\n  directives:\n{}", entries.iter().map(entry).collect::<String>())
}

/// Runs the updater on each until `is_so`: who reports often is heard a little later.
#[track_caller]
fn drive(hosts: &[Member], what: &str, is_so: impl Fn() -> bool) {
    let is_so = || {
        hosts.iter().for_each(|host| drop(host.cell.run("update").unwrap()));
        is_so()
    };
    until(4 * SOON, is_so).unwrap_or_else(|late| panic!("{what}: {late:?}"));
}

impl Fleet {
    /// A plan of this directive; gives its id.
    fn plan(&self, text: &str) -> String {
        let file = self.file("plan.yaml", text);
        let plan: Value =
            serde_json::from_str(&self.ok(&["version-control", "plan", "-f", &file, "--format", "json"])).unwrap();
        plan["id"].as_str().unwrap().to_owned()
    }

    /// What came of the dry run of a plan, without its time.
    fn tried(&self, plan: &str) -> Value {
        let mut plan: Value =
            serde_json::from_str(&self.ok(&["version-control", "show", plan, "--format", "json"])).unwrap();
        plan["dry_run"].as_object_mut().unwrap().remove("begun");
        plan["dry_run"].take()
    }
}

/// What an update would change on a host: versions with their files, settings and database by their bytes, and links.
fn state_of(host: &Member) -> BTreeMap<String, Vec<u8>> {
    fn walk(dir: &Path, found: &mut BTreeMap<String, Vec<u8>>) {
        for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
            let (path, name) = (entry.path(), entry.file_name());
            let kind = entry.file_type().unwrap();
            // The host's key and what it knows of the server; and who has the lock.
            if name == ".fleet-host" || name == ".lock" {
                continue;
            }
            let bytes = match kind {
                kind if kind.is_symlink() => std::fs::read_link(&path).unwrap().into_os_string().into_encoded_bytes(),
                kind if kind.is_file() => std::fs::read(&path).unwrap(),
                _ => Vec::new(),
            };
            found.insert(path.display().to_string(), bytes);
            if kind.is_dir() {
                walk(&path, found);
            }
        }
    }
    let mut found = BTreeMap::new();
    for dir in ["/var/lib/teleport/versions", "/var/lib/teleport/proc", "/usr/local/bin"] {
        walk(&host.cell.path(dir), &mut found);
    }
    assert!(found.keys().any(|path| path.ends_with("sqlite.db")), "{:?}", found.keys());
    found
}

#[test]
fn r17_a_dry_run_finds_problems_early() {
    if !suite::can() {
        return;
    }
    let mut fleet = Fleet::start(&["1.0.0", "2.0.0"]);
    fleet.write("kind: version-control-config\nspec: {promotion: {dry_run: required}}\n");
    fleet.write(&directive(&[("dev", "1.0.0", "{version: 1.0.0}"), ("prod", "1.0.0", "{version: 1.0.0}")]));
    let hosts = Member::bare(&fleet, ["dev", "prod", "prod"].into_iter());
    hosts.iter().for_each(|host| host.join(&fleet));
    let (dev, pinned) = (&hosts[0], &hosts[2]);
    pinned.run("pin", 0);
    drive(&hosts[..2], "all have reported", || {
        hosts.iter().all(|host| fleet.known(&host.uuid)["version"] == "1.0.0")
            && fleet.known(&pinned.uuid)["pinned"] == true
    });
    // What changes with time only: the agents end.
    hosts.iter().for_each(|host| drop(host.cell.sh("kill -KILL $(pidof teleport); sleep 0.2").unwrap()));
    let before: Vec<_> = hosts.iter().map(state_of).collect();
    let bad = fleet.plan(&directive(&[("dev", "1.0.0", "{version: 2.0.0}"), ("prod", "1.0.0", "{version: 2.5.0}")]));
    let refused = |plan: &str| fleet.fails(&["version-control", "apply", plan]);
    assert!(refused(&bad).contains("asks for a dry run of each plan"), "{}", refused(&bad));
    fleet.ok(&["version-control", "dry-run", &bad]);
    let is_told = |host: &Member| host.cell.run("update").unwrap().said.contains("nothing is installed");
    assert!(is_told(dev) && !is_told(pinned), "a pinned host is not asked");
    drive(&hosts, "both have answered", || fleet.tried(&bad)["silent"] == 0);
    assert!(!is_told(dev), "it does it once");
    let missing = json!([{
        "code": "archive_missing", "hosts": 1, "sample": [{ "host": hosts[1].uuid, "hostname": fleet.known(&hosts[1].uuid)["hostname"] }],
    }]);
    let expected = json!({ "asked": 2, "prepared": 1, "silent": 0, "failed": missing });
    assert_eq!(fleet.tried(&bad), expected);
    assert!(refused(&bad).contains("not clean: 2 asked, 1 prepared, 0 silent, 1 archive_missing"), "{}", refused(&bad));
    // The server knows it after a restart too, and nothing of any host is another.
    fleet.kill();
    fleet.begin();
    assert_eq!(fleet.tried(&bad), expected);
    assert!(hosts.iter().map(state_of).collect::<Vec<_>>() == before, "something is left");
    let counts: Value =
        serde_json::from_str(&fleet.ok(&["autoupdate", "agents", "status", "--format", "json"])).unwrap();
    assert!(counts["groups"].as_array().unwrap().iter().all(|group| group["failed_count"] == 0), "{counts:#}");

    let good = fleet.plan(&directive(&[("dev", "1.0.0", "{version: 2.0.0}"), ("prod", "1.0.0", "{version: 2.0.0}")]));
    fleet.ok(&["version-control", "dry-run", &good]);
    drive(&hosts, "both are prepared", || fleet.tried(&good)["prepared"] == 2);
    assert!(hosts.iter().map(state_of).collect::<Vec<_>>() == before, "something is left");
    fleet.ok(&["version-control", "apply", &good]);
    drive(&hosts[..2], "both run it", || hosts[..2].iter().all(|host| host.version() == "2.0.0"));
    assert_eq!(whole::link(&pinned.cell).as_deref(), Some("1.0.0"));
}
