//! Thirty hosts, each a cell with a living agent that writes to its database, in three groups of a rollout server. Nothing
//! happens by itself: the test is every host's timer.

use std::sync::atomic::{AtomicUsize, Ordering};

use testing::crash::live::cell::{Cell, SOON, until};
use testing::crash::live::rows::{self, Row};
use testing::crash::live::{flows, suite, whole};

use super::server::Fleet;
use crate::support::*;

/// The groups, in the order of the rollout.
pub(super) const GROUPS: [&str; 3] = ["dev", "staging", "prod"];
/// Hosts of a group.
pub(super) const SIZE: usize = 10;
/// Of each group every so manieth host has [`LEGACY`] in its agent's configuration.
const EVERY: usize = 5;
/// What stands in a configuration, and a release does not know any more.
const LEGACY: &str = "legacy_storage";
/// Hosts that are at work at the same time.
const AT_ONCE: usize = 4;
/// Milliseconds between two rows of an agent: thirty of them share a machine.
const PACE: u64 = 100;

/// The hosts and their server.
pub(super) struct Crowd {
    /// The server.
    pub fleet: Fleet,
    members: Vec<Member>,
}

/// A host.
pub(super) struct Member {
    /// Its agent's UUID.
    pub uuid: String,
    /// The group that it declares.
    pub group: &'static str,
    pub cell: Cell,
}

/// A release whose database has a schema of its own.
pub(super) fn release(number: i64) -> Archive {
    flows::version(number).trailer_field("pace_ms", PACE.into())
}

/// The same, broken: where [`LEGACY`] is configured it migrates the database and dies.
pub(super) fn broken_release(number: i64) -> Archive {
    release(number).trailer_field("refuses", LEGACY.into())
}

impl Crowd {
    /// Every host runs 1.0.0 and has reported; `policy` is written. `None` where there are no cells.
    pub(super) fn up(policy: &str) -> Option<Self> {
        if !suite::can() {
            return None;
        }
        let fleet = Fleet::start(&[]);
        fleet.cluster.publish(&release(1));
        fleet.write(policy);
        fleet.wish("1.0.0", "2.0.0");
        let groups = (0..GROUPS.len() * SIZE).map(|number| GROUPS[number / SIZE]);
        let crowd = Self { members: Member::bare(&fleet, groups), fleet };
        crowd.each(&crowd.all(), |member| member.join(&crowd.fleet));
        look::until("every host has reported", || crowd.in_state("pending").len() == crowd.members.len());
        Some(crowd)
    }

    /// Every host.
    pub(super) fn all(&self) -> Vec<&Member> {
        self.members.iter().collect()
    }

    /// Those of a group.
    pub(super) fn of(&self, group: &str) -> Vec<&Member> {
        self.members.iter().filter(|member| member.group == group).collect()
    }

    /// The hosts with these UUIDs.
    pub(super) fn named(&self, uuids: &BTreeSet<String>) -> Vec<&Member> {
        self.members.iter().filter(|member| uuids.contains(&member.uuid)).collect()
    }

    /// Does something on these hosts, a few at a time.
    pub(super) fn each(&self, members: &[&Member], work: impl Fn(&Member) + Sync) {
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                scope.spawn(|| {
                    while let Some(member) = members.get(next.fetch_add(1, Ordering::Relaxed)) {
                        work(member);
                    }
                });
            }
        });
    }

    /// The hosts that the server has in this state.
    pub(super) fn in_state(&self, state: &str) -> BTreeSet<String> {
        let hosts: Value =
            serde_json::from_str(&self.fleet.ok(&["hosts", "--state", state, "--format", "json"])).unwrap();
        hosts.as_array().unwrap().iter().map(|host| host["host"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits until the group is in `state`, and so many of its hosts are under way. The timers of `members` come meanwhile: who has
    /// reported often is heard a little later.
    #[track_caller]
    pub(super) fn until_group(&self, group: &str, state: &str, in_flight: u64, members: &[&Member]) {
        let is_so = || {
            let found = self.fleet.group(group);
            let is_so = found["state"] == state && found["in_flight_count"] == in_flight;
            if !is_so {
                self.each(members, |member| member.run("update", 0));
            }
            is_so
        };
        let hosts = || self.fleet.ok(&["hosts", "--group", group]);
        until(2 * SOON, is_so).unwrap_or_else(|late| panic!("{late:?}: {:#}\n{}", self.fleet.group(group), hosts()));
    }

    /// Gives every fifth host of each group what [`broken_release`] refuses; none of `spared`. Who that is.
    pub(super) fn configure_legacy(&self, spared: &BTreeSet<String>) -> BTreeSet<String> {
        let mut chosen = BTreeSet::new();
        for group in GROUPS {
            let could = self.of(group).into_iter().filter(|member| !spared.contains(&member.uuid));
            chosen.extend(could.take(SIZE / EVERY).map(|member| member.uuid.clone()));
        }
        for member in self.named(&chosen) {
            member.configure(&format!("  {LEGACY}: true\n"));
        }
        chosen
    }

    /// Takes it out of their configurations.
    pub(super) fn repair(&self, broken: &BTreeSet<String>) {
        for member in self.named(broken) {
            member.configure("");
        }
    }

    /// Lets the timers of all hosts come that the server has let go in `group`, never more of them than `cap` at a time, until
    /// the server says `state` and nobody is under way. Each run ends with 0, or with 1 on hosts of `broken`.
    #[track_caller]
    pub(super) fn drive(&self, group: &str, state: &str, cap: u64, broken: &BTreeSet<String>) {
        let end = std::time::Instant::now() + 4 * SOON;
        loop {
            let found = self.fleet.group(group);
            let in_flight = found["in_flight_count"].as_u64().unwrap();
            assert!(in_flight <= cap, "{found:#}");
            let is_over = in_flight == 0 && (state == "halted" || found["pending_count"] == 0);
            if found["state"] == state && is_over {
                return;
            }
            assert!(std::time::Instant::now() < end, "it does not become {state}: {found:#}");
            let mut under_way = self.in_state("let_go");
            under_way.extend(self.in_state("told"));
            self.each(&self.named(&under_way), |member| {
                let ran = member.cell.run("update").unwrap();
                let may_fail = broken.contains(&member.uuid);
                assert!(ran.code == Some(0) || may_fail && ran.code == Some(1), "{}: {ran:#?}", member.uuid);
            });
        }
    }

    /// What the agents of these hosts have acknowledged so far.
    pub(super) fn written(&self, members: &[&Member]) -> Vec<Vec<Row>> {
        members.iter().map(|member| rows::acknowledged(&member.cell)).collect()
    }

    /// Each host is wholly on `version`: links, settings, one running agent, and a database of its schema.
    #[track_caller]
    pub(super) fn are_whole(&self, members: &[&Member], version: &str) {
        self.each(members, |member| {
            whole::check(&member.cell, Some(version), true)
                .unwrap_or_else(|violation| panic!("{} {}: {violation}", member.group, member.uuid));
        });
    }

    /// Each host has the rows that were `written` there: in the live database, or (`also_kept`) in a snapshot.
    #[track_caller]
    pub(super) fn have_rows(&self, members: &[&Member], written: &[Vec<Row>], also_kept: bool) {
        for (member, written) in members.iter().zip(written) {
            let mut found = rows::live(&member.cell).unwrap();
            if also_kept {
                found.extend(rows::kept(&member.cell).unwrap());
            }
            let lost = written.iter().filter(|row| !found.contains(*row)).count();
            assert!(lost == 0 && !written.is_empty(), "{}: {lost} of {} rows are lost", member.uuid, written.len());
        }
    }

    /// Waits until each of these agents has acknowledged a row of `version`.
    pub(super) fn until_written(&self, members: &[&Member], version: &str) {
        for member in members {
            let has = || rows::acknowledged(&member.cell).iter().any(|(by, _)| by == version);
            until(SOON, has).unwrap_or_else(|late| panic!("{}: {late:?}", member.uuid));
        }
    }
}

impl Member {
    /// Hosts of these groups that have enabled nothing yet. By this thread: a cell ends with the thread that made it.
    pub(super) fn bare(fleet: &Fleet, groups: impl Iterator<Item = &'static str>) -> Vec<Self> {
        let template = Cell::skeleton().unwrap();
        let root = template.path().join("root");
        std::fs::create_dir_all(root.join("var/lib/teleport/versions")).unwrap();
        std::fs::write(root.join("var/lib/teleport/versions/updates.yaml"), flows::settings("6s", "0s")).unwrap();
        std::fs::write(root.join("root/ca.pem"), fleet.trusted()).unwrap();
        let program = Updater::new(&updater());
        let member = |(number, group)| {
            let cell = Cell::copy_of(template.path(), &program).unwrap();
            let uuid = format!("3000{number:04}-0000-4000-8000-000000000000");
            std::fs::write(cell.path("/var/lib/teleport/host_uuid"), &uuid).unwrap();
            std::fs::write(cell.path("/etc/machine-id"), format!("{number:032x}\n")).unwrap();
            Self { uuid, group, cell }
        };
        groups.enumerate().map(member).collect()
    }

    /// Enables, and starts the agent: from here on the host says that it runs.
    #[track_caller]
    pub(super) fn join(&self, fleet: &Fleet) {
        let (proxy, base, group) = (fleet.proxy(), fleet.cluster.base_url(), self.group);
        self.run(&format!("enable --proxy {proxy} --group {group} --base-url {base} --ca-file /root/ca.pem"), 0);
        self.cell.start_agent().unwrap();
        self.run("update", 0);
    }

    /// Runs the updater, which ends with `code`.
    #[track_caller]
    pub(super) fn run(&self, line: &str, code: i32) {
        let ran = self.cell.run(line).unwrap();
        assert_eq!(ran.code, Some(code), "{}: {ran:#?}", self.uuid);
    }

    /// The version that is active.
    pub(super) fn version(&self) -> String {
        whole::link(&self.cell).unwrap_or_default()
    }

    fn configure(&self, more: &str) {
        let text = format!("teleport:\n  data_dir: /var/lib/teleport\n{more}");
        std::fs::write(self.cell.path("/etc/teleport.yaml"), text).unwrap();
    }
}
