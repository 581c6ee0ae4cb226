//! A model test on the real program: random lives of an image, with kills, damage and edits, against a small account of
//! what must result. The pure rules have a larger one (`src/model`).
//!
//! `MODEL_SEEDS` says how many lives are lived.

use std::os::unix::process::ExitStatusExt;

use testing::crash::host::words;
use testing::crash::injector::{self, Action, Scope};
use testing::crash::release::small;
use testing::crash::{Host, Random, database};

use crate::support::*;

/// Lives of a short run.
const SEEDS: u64 = 4;
/// What happens in a life, count.
const LENGTH: usize = 25;
/// Versions, the oldest first; a version's schema is its place, counted from 1.
const VERSIONS: [&str; 4] = ["1.0.0", "2.0.0-rc.1", "2.0.0", "10.1.0"];
const DATABASE: &str = "var/lib/teleport/proc/sqlite.db";
const DIR: &str = "var/lib/teleport/versions";

/// What must be true of the image.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Account {
    active: usize,
    previous: Option<usize>,
    schema: u32,
    /// The snapshot of each version that was left: its schema, and whether it may be restored.
    snapshots: BTreeMap<usize, (u32, bool)>,
    /// Versions whose files were damaged.
    damaged: BTreeSet<usize>,
    refused: BTreeSet<usize>,
    enabled: bool,
    pinned: Option<usize>,
    floor: usize,
}

/// An image and its account.
struct Life {
    host: Host,
    account: Account,
    wanted: usize,
    random: Random,
    story: Vec<String>,
}

#[test]
fn a_random_life_of_an_image_is_what_the_specification_says() {
    let program = Updater::new(&updater());
    let seeds = std::env::var("MODEL_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(SEEDS);
    let first = std::env::var("MODEL_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    for seed in first..first + seeds {
        let mut life = Life::begin(&program, seed);
        for _ in 0..LENGTH {
            life.go_on();
        }
    }
}

#[test]
fn an_agent_that_starts_between_two_recoveries_leaves_the_old_version_its_own_database() {
    let host = Host::new(&Updater::new(&updater()));
    host.run(&host.enable_args());
    database::migrate(&host.path(DATABASE), 1);
    host.release(&small("2.0.0"));
    let new = PathBuf::from(format!("/{DIR}/2.0.0/bin/teleport"));
    let link = |root: &std::path::Path| std::fs::read_link(root.join("usr/local/bin/teleport")).unwrap();
    let killed_at = |root: &std::path::Path, line: &str, number: usize| {
        let output = injector::run(&mut host.command(root, &words(line)), Scope::Changes, |call| {
            if call.number == number { Action::Kill } else { Action::Pass }
        });
        output.status.signal().is_some()
    };
    // An update that is killed before its commit, with the link moved.
    let whole = testing::crash::copy(&host.root());
    let calls =
        injector::run(&mut host.command(whole.path(), &words("update")), Scope::Changes, |_| Action::Pass).calls.len();
    let interrupted = (1..=calls).rev().find_map(|number| {
        let root = testing::crash::copy(&host.root());
        let journal = root.path().join(DIR).join(".journal");
        killed_at(root.path(), "update", number);
        let is_open = std::fs::read(journal).is_ok_and(|bytes| {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            !text.contains(r#"{"record":"commit"}"#)
        });
        (is_open && link(root.path()) == new).then_some(root)
    });
    let interrupted = interrupted.expect("a kill between link and commit");
    let mut between = 0;
    for number in 1.. {
        let root = testing::crash::copy(interrupted.path());
        if !killed_at(root.path(), "recover --boot", number) {
            break;
        }
        if link(root.path()) == new {
            between += 1;
            database::migrate(&root.path().join(DATABASE), 2);
        }
        let output = host.run_on(root.path(), &words("recover"));
        assert!(output.status.success(), "{number}: {output:?}");
        let schema = database::read(&root.path().join(DATABASE)).unwrap().map(|database| database.schema);
        assert_eq!((link(root.path()) == new, schema), (false, Some(1)), "recovery killed at {number}");
    }
    assert!(between > 10, "{between}");
}

impl Life {
    /// 1.0.0 is enabled, and its agent has made its database.
    fn begin(program: &Updater, seed: u64) -> Self {
        let host = Host::new(program);
        for version in &VERSIONS[1..] {
            host.cluster.publish(&small(version));
        }
        host.run(&host.enable_args());
        let account = Account {
            active: 0,
            previous: None,
            schema: 1,
            snapshots: BTreeMap::new(),
            damaged: BTreeSet::new(),
            refused: BTreeSet::new(),
            enabled: true,
            pinned: None,
            floor: 0,
        };
        database::migrate(&host.path(DATABASE), 1);
        Self { host, account, wanted: 0, random: Random::new(seed), story: vec![format!("seed {seed}")] }
    }

    fn go_on(&mut self) {
        let at = self.random.below(VERSIONS.len());
        match self.random.below(24) {
            0..4 => {
                self.say(format!("the cluster names {}", VERSIONS[at]));
                self.wanted = at;
                self.host.name(VERSIONS[at]);
            }
            4..10 => self.command("update", |account, wanted| account.update(wanted, false)),
            10 => self.command("update --now", |account, wanted| account.update(wanted, true)),
            11 => self.command("disable", |account, _| {
                account.enabled = false;
                true
            }),
            12..14 => {
                let args = self.host.enable_args();
                let line = args.join(" ");
                self.command(&line, |account, wanted| account.enable(wanted));
            }
            14 => self.command(&format!("pin --force-version {}", VERSIONS[at]), move |account, _| account.pin(at)),
            15 => self.command("unpin", |account, _| {
                account.pinned = None;
                true
            }),
            16..18 => self.command("rollback", |account, _| account.rollback()),
            18 => {
                // A snapshot cannot be made again.
                let is_possible = (0..VERSIONS.len()).all(|at| self.snapshot_bytes_are_good(at));
                self.command("verify --repair", |account, _| {
                    let active = account.active;
                    account.damaged.remove(&active);
                    account.refused.remove(&active);
                    is_possible
                });
            }
            19 => self.damage(at),
            20 => self.spoil_snapshot(at),
            21 => self.date_snapshot(at),
            22 => {
                self.say("the agent migrates its database".into());
                self.account.schema = self.account.active as u32 + 1;
                database::migrate(&self.host.path(DATABASE), self.account.schema);
            }
            _ => {
                let floor = self.random.below(2);
                self.say(format!("min_version: {}", VERSIONS[floor]));
                self.account.floor = floor;
                self.edit(|text| {
                    let kept: Vec<&str> = text.lines().filter(|line| !line.contains("min_version:")).collect();
                    let line = format!("spec:\n  min_version: {}\n", VERSIONS[floor]);
                    format!("{}\n", kept.join("\n")).replacen("spec:\n", &line, 1)
                });
            }
        }
        self.check();
    }

    /// Runs a command, in every third case killed at some change; then the account must say what is there.
    fn command(&mut self, line: &str, account: impl Fn(&mut Account, usize) -> bool) {
        let args = words(line);
        let kill = (self.random.below(3) == 0).then(|| 1 + self.random.below(140));
        let before = self.account.clone();
        let mut after = before.clone();
        let succeeds = account(&mut after, self.wanted);
        let root = self.host.root();
        let output = injector::run(&mut self.host.command(&root, &args), Scope::Changes, |call| {
            if Some(call.number) == kill { Action::Kill } else { Action::Pass }
        });
        self.say(format!("{line} (kill {kill:?}) -> {:?} {}", output.status, output.stderr.trim()));
        if output.status.signal().is_none() {
            assert_eq!(output.status.success(), succeeds, "{:#?}\n{:#?}", self.story, before);
            self.account = after;
            return;
        }
        // As a boot does, or the next run.
        for recover in [&["recover --boot", "recover"][..], &["recover"]][self.random.below(2)] {
            let output = self.host.run_on(&root, &words(recover));
            assert!(output.status.success(), "{recover}: {output:?}\n{:#?}", self.story);
        }
        let status = self.status();
        let is = |account: &Account| self.is(account, &status).is_none();
        // A target whose run was interrupted three times is refused, whatever it is.
        let refused = refused(&status);
        let with_refusals = |account: &Account| {
            let known = account.refused.is_subset(&refused);
            Account { refused: if known { refused.clone() } else { account.refused.clone() }, ..account.clone() }
        };
        let found = [&after, &before].into_iter().map(with_refusals).find(|account| is(account));
        let found = found.unwrap_or_else(|| {
            let why = [&before, &after].map(|account| self.is(account, &status));
            panic!("neither before nor after: {why:?}\n{:#?}", self.story)
        });
        self.account = found;
        // What a run that was undone leaves: a snapshot of the version that stays, evidence of the one that goes, and a
        // download that was cut short or is whole.
        for at in 0..VERSIONS.len() {
            self.account
                .snapshots
                .extend(self.snapshot(at).filter(|_| at != self.account.active).map(|snap| (at, snap)));
        }
        let is_damaged = |at: &usize| self.version_dir(*at).is_dir() && !self.looks_whole(*at);
        self.account.damaged = (0..VERSIONS.len()).filter(is_damaged).collect();
    }

    /// Why the image is not what `account` says.
    fn is(&self, account: &Account, status: &Value) -> Option<String> {
        let differs = |what: &str, is: &dyn std::fmt::Debug, should: &dyn std::fmt::Debug| {
            let (is, should) = (format!("{is:?}"), format!("{should:?}"));
            (is != should).then(|| format!("{what} is {is}, not {should}"))
        };
        let version = VERSIONS[account.active];
        let link = std::fs::read_link(self.host.path("usr/local/bin/teleport")).unwrap_or_default();
        let schema = database::read(&self.host.path(DATABASE)).unwrap().map(|database| database.schema);
        let text = |key: &str| status[key].as_str().map(str::to_owned);
        differs("the link", &link, &PathBuf::from(format!("/{DIR}/{version}/bin/teleport")))
            .or_else(|| differs("installed", &text("agent_version_installed"), &Some(version)))
            .or_else(|| differs("linked", &text("agent_version_linked"), &Some(version)))
            .or_else(|| differs("previous", &text("agent_version_previous"), &account.previous.map(|at| VERSIONS[at])))
            .or_else(|| differs("the schema", &schema, &Some(account.schema)))
            .or_else(|| differs("enabled", &status["agent_updates_enabled"], &Value::from(account.enabled)))
            .or_else(|| differs("pinned", &status["pinned"], &Value::from(account.pinned.is_some())))
            .or_else(|| differs("refused", &refused(status), &account.refused))
            .or_else(|| differs("recovery pending", &status["recovery_pending"], &Value::from(false)))
    }

    fn check(&mut self) {
        let status = self.status();
        if let Some(why) = self.is(&self.account, &status) {
            panic!("{why}\n{:#?}\n{status:#}", self.story);
        }
        // Links wholly of one version, each to a file that is there.
        let version = VERSIONS[self.account.active];
        for entry in std::fs::read_dir(self.host.path("usr/local/bin")).unwrap().flatten() {
            if let Ok(target) = std::fs::read_link(entry.path()) {
                assert!(target.starts_with(format!("/{DIR}/{version}")), "{target:?}\n{:#?}", self.story);
                assert!(self.host.path(target.to_str().unwrap()).exists(), "{target:?}\n{:#?}", self.story);
            }
        }
        let verified = self.host.run_on(&self.host.root(), &words("verify"));
        let is_whole = !self.account.damaged.contains(&self.account.active);
        let snapshots_good = (0..VERSIONS.len()).all(|at| self.snapshot_bytes_are_good(at));
        assert_eq!(verified.status.success(), is_whole && snapshots_good, "{verified:?}\n{:#?}", self.story);
        // What is on disk: the last working version stays, and what was removed is nobody's.
        if let Some(previous) = self.account.previous {
            assert!(self.version_dir(previous).is_dir(), "{} is gone\n{:#?}", VERSIONS[previous], self.story);
        }
        let there = |at: &usize| self.version_dir(*at).is_dir();
        let gone: Vec<usize> = (0..VERSIONS.len()).filter(|at| !there(at)).collect();
        for at in gone {
            self.account.snapshots.remove(&at);
            self.account.damaged.remove(&at);
        }
    }

    fn damage(&mut self, at: usize) {
        let file = self.version_dir(at).join("bin/tsh");
        if file.exists() {
            self.say(format!("tsh of {} is cut", VERSIONS[at]));
            std::fs::write(&file, "cut").unwrap();
            self.account.damaged.insert(at);
        }
    }

    fn spoil_snapshot(&mut self, at: usize) {
        let file = self.version_dir(at).join("backup/sqlite.db");
        if let Ok(mut bytes) = std::fs::read(&file) {
            self.say(format!("the snapshot of {} is spoilt", VERSIONS[at]));
            let middle = bytes.len() / 2;
            // Not inverted: spoilt twice it would be as it was.
            bytes[middle] = bytes[middle].wrapping_add(1);
            std::fs::write(&file, bytes).unwrap();
            self.account.snapshots.entry(at).and_modify(|snapshot| snapshot.1 = false);
        }
    }

    /// As if the clock had been somewhere else when it was taken.
    fn date_snapshot(&mut self, at: usize) {
        let file = self.version_dir(at).join("backup/backup.yaml");
        let year = ["2001", "2199"][self.random.below(2)];
        if let Ok(text) = std::fs::read_to_string(&file) {
            self.say(format!("the snapshot of {} is from {year}", VERSIONS[at]));
            let lines = text.lines().map(|line| {
                if line.contains("creation_time:") {
                    format!("  creation_time: {year}-01-02T03:04:05+00:00")
                } else {
                    line.to_owned()
                }
            });
            std::fs::write(&file, lines.collect::<Vec<_>>().join("\n") + "\n").unwrap();
            self.account.snapshots.entry(at).and_modify(|snapshot| snapshot.1 = false);
        }
    }

    fn snapshot(&self, at: usize) -> Option<(u32, bool)> {
        let dir = self.version_dir(at).join("backup");
        let text = std::fs::read_to_string(dir.join("backup.yaml")).ok()?;
        let is_usable = !text.contains("failed: true")
            && !text.contains(": 2001-")
            && !text.contains(": 2199-")
            && self.snapshot_bytes_are_good(at);
        let schema = rusqlite::Connection::open(dir.join("sqlite.db"))
            .and_then(|database| database.query_row("PRAGMA user_version", [], |row| row.get(0)));
        Some((schema.unwrap_or_default(), is_usable))
    }

    fn snapshot_bytes_are_good(&self, at: usize) -> bool {
        let dir = self.version_dir(at).join("backup");
        let Ok(text) = std::fs::read_to_string(dir.join("backup.yaml")) else { return true };
        let Ok(bytes) = std::fs::read(dir.join("sqlite.db")) else { return false };
        text.contains(&protocol::Digest::of(&bytes).to_string())
    }

    fn looks_whole(&self, at: usize) -> bool {
        let dir = self.version_dir(at);
        dir.join("sha256").exists() && std::fs::read(dir.join("bin/tsh")).is_ok_and(|bytes| bytes != b"cut")
    }

    fn version_dir(&self, at: usize) -> PathBuf {
        self.host.path(DIR).join(VERSIONS[at])
    }

    fn status(&self) -> Value {
        let output = self.host.run_on(&self.host.root(), &words("status --format json"));
        assert!(output.status.success(), "{output:?}\n{:#?}", self.story);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn edit(&self, change: impl Fn(&str) -> String) {
        let file = self.host.path(DIR).join("updates.yaml");
        std::fs::write(&file, change(&std::fs::read_to_string(&file).unwrap())).unwrap();
    }

    fn say(&mut self, what: String) {
        self.story.push(what);
    }
}

impl Account {
    fn update(&mut self, wanted: usize, insists: bool) -> bool {
        if !self.enabled || self.pinned.is_some() {
            return true;
        }
        if self.active == wanted && !self.damaged.contains(&wanted) {
            return true;
        }
        let is_allowed = wanted >= self.floor || wanted == self.active;
        is_allowed && ((self.refused.contains(&wanted) && !insists) || self.go(wanted))
    }

    fn enable(&mut self, wanted: usize) -> bool {
        let target = self.pinned.unwrap_or(wanted);
        let done = target >= self.floor && self.go(target);
        self.enabled |= done;
        done
    }

    fn pin(&mut self, target: usize) -> bool {
        let done = target >= self.floor && self.go(target);
        if done {
            self.pinned = Some(target);
        }
        done
    }

    fn rollback(&mut self) -> bool {
        let left = self.active;
        let Some(previous) = self.previous.filter(|previous| !self.refused.contains(previous)) else { return false };
        if previous < self.floor {
            return false;
        }
        let refused = self.refused.clone();
        let done = self.go(previous);
        if done {
            self.refused = refused;
            self.refused.remove(&previous);
            self.refused.insert(left);
            // A pinned host that goes back is pinned to where it goes (SPEC §5).
            self.pinned = self.pinned.map(|_| previous);
        }
        done
    }

    /// The table of SPEC §6. A version that is not on disk, or damaged, is downloaded: every archive is there.
    fn go(&mut self, target: usize) -> bool {
        if target == self.active {
            self.damaged.remove(&target);
            self.refused.remove(&target);
            return true;
        }
        let snapshot = self.snapshots.get(&target).filter(|snapshot| snapshot.1).map(|snapshot| snapshot.0);
        if target < self.active && snapshot.is_none() {
            return false;
        }
        self.snapshots.insert(self.active, (self.schema, true));
        self.schema = snapshot.unwrap_or(self.schema);
        self.damaged.remove(&target);
        self.previous = Some(self.active);
        self.active = target;
        self.refused.clear();
        true
    }
}

fn refused(status: &Value) -> BTreeSet<usize> {
    let entries = status["refused"].as_array().cloned().unwrap_or_default();
    let at = |entry: &Value| VERSIONS.iter().position(|version| entry["version"].as_str() == Some(version));
    entries.iter().filter_map(at).collect()
}
