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

/// What everybody gets, but for `bad`, whose version dies at once. Whoever writes it anew says how long it is good.
fn newest(stale_after: usize) -> String {
    format!(
        "kind: version-directive\nspec:\n  stale_after: 2100-01-01T00:00:{stale_after:02}Z\n  directives:\n  \
         - {{name: bad, selectors: [{{group: bad}}], targets: [{{version: 3.3.0}}], max_in_flight: 50%, jitter_seconds: 0}}\n  \
         - {{name: all, selectors: [{{labels: {{'*': '*'}}}}], targets: [{{version: 3.2.1}}, {{version: 2.4.0}}], jitter_seconds: 0, \
         max_in_flight: 100%}}\n"
    )
}

#[test]
fn r29_r48_one_directive_leads_by_stepping_stones_and_a_halted_entry_stays_so_however_often_it_is_written() {
    if !suite::can() {
        return;
    }
    let fleet = Fleet::start(&[]);
    for (version, schema) in [("1.9.0", 1), ("2.4.0", 2), ("3.2.0", 3), ("3.2.1", 3)] {
        fleet.cluster.publish(&Archive::simple(version).schema(schema));
    }
    fleet.cluster.publish(&Archive::simple("3.3.0").schema(3).behaviour("exit-at-once"));
    fleet.write("kind: version-control-config\nspec: {rolling_install: {rate: 100%/h, fault_limit: 0}}\n");
    let begun = ["1.9.0", "2.4.0", "3.2.0", "3.2.0", "3.2.0"];
    let groups = ["old", "mid", "new", "bad", "bad"];
    let entries = [0, 1, 2, 3].map(|at| (groups[at], begun[at], format!("{{version: {}}}", begun[at])));
    fleet.write(&directive(&entries.each_ref().map(|(group, start, target)| (*group, *start, target.as_str()))));
    let hosts = Member::bare(&fleet, groups.into_iter());
    hosts.iter().for_each(|host| host.join(&fleet));
    assert_eq!(hosts.iter().map(Member::version).collect::<Vec<_>>(), begun);
    let known = |host: &Member, key: &str| fleet.known(&host.uuid)[key].as_str().unwrap_or_default().to_owned();
    let have =
        |versions: [&str; 5]| hosts.iter().zip(versions).all(|(host, version)| known(host, "version") == version);
    drive(&hosts, "all have reported", || have(begun));

    let (ways, written) = (std::cell::RefCell::new(vec![Vec::new(); hosts.len()]), std::cell::Cell::new(0));
    let write = || {
        written.set(written.get() + 1);
        fleet.write(&newest(written.get()));
    };
    let note = || {
        for (host, way) in hosts.iter().zip(ways.borrow_mut().iter_mut()) {
            way.push(host.version());
            way.dedup();
        }
    };
    note();
    write();
    drive(&hosts, "all but the bad ones arrive", || {
        note();
        write();
        fleet.state("bad") == "halted" && have(["3.2.1", "3.2.1", "3.2.1", "3.2.0", "3.2.0"])
    });
    let told = |group: &Value| (group["state"].clone(), group["attempt"].clone(), group["failed_count"].clone());
    let halted = told(&fleet.group("bad"));
    assert_eq!((&halted.0, &halted.2), (&json!("halted"), &json!(1)), "{:#}", fleet.group("bad"));
    for _ in 0..6 {
        write();
        hosts.iter().for_each(|host| drop(host.cell.run("update").unwrap()));
        note();
        assert_eq!(told(&fleet.group("bad")), halted, "no write ends a stop");
    }
    let arrived = [&["1.9.0", "2.4.0", "3.2.1"][..], &["2.4.0", "3.2.1"], &["3.2.0", "3.2.1"], &["3.2.0"], &["3.2.0"]];
    assert_eq!(*ways.borrow(), arrived, "by its stepping stone, and nobody else by 3.3.0");
    let tried = |host: &&Member| host.cell.path("/var/lib/teleport/versions/3.3.0").exists();
    assert_eq!(hosts.iter().filter(tried).count(), 1, "one host has met 3.3.0");
    hosts.iter().zip(["3.2.1", "3.2.1", "3.2.1", "3.2.0", "3.2.0"]).for_each(|(host, version)| {
        whole::check(&host.cell, Some(version), true).unwrap_or_else(|violation| panic!("{}: {violation}", host.uuid));
    });
    assert!(written.get() >= 8);
}
