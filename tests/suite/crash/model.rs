//! A model test on the real program: random lives of an image, with kills, damage and edits, against the account that the
//! pure rules are held to as well (`src/model/reference.rs`).
//!
//! `MODEL_SEEDS` says how many lives are lived.

#[path = "../../../src/model/reference.rs"]
#[allow(dead_code, reason = "an image has no service, and is never uninstalled here")]
mod reference;
#[path = "../../../src/model/world.rs"]
#[allow(dead_code, reason = "the real releases know their own files")]
mod world;

use std::os::unix::process::ExitStatusExt;
use std::time::{SystemTime, UNIX_EPOCH};

use reference::{Answer, Kept, Reference, Snap, Whole};
use testing::crash::host::words;
use testing::crash::injector::{self, Action, Scope};
use testing::crash::release::small;
use testing::crash::{Host, Random, database};
use world::{DAY, Database, Nature, Rev, VERSIONS};

use crate::support::*;

/// Lives of a short run.
const SEEDS: u64 = 4;
/// What happens in a life, count.
const LENGTH: usize = 25;
const DATABASE: &str = "var/lib/teleport/proc/sqlite.db";
const DIR: &str = "var/lib/teleport/versions";

/// An image and its account.
struct Life {
    host: Host,
    account: Reference,
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
        for (version, _) in &VERSIONS[1..] {
            host.cluster.publish(&small(version));
        }
        host.run(&host.enable_args());
        let account = Reference {
            active: Some(Rev::default()),
            kept: [(Rev::default(), whole())].into(),
            database: Some(of_schema(1)),
            enabled: true,
            max_age: 365 * DAY,
            window: true,
            published: (0..VERSIONS.len()).map(|at| (rev(at), Nature::Healthy)).collect(),
            ..Reference::default()
        };
        database::migrate(&host.path(DATABASE), 1);
        Self { host, account, random: Random::new(seed), story: vec![format!("seed {seed}")] }
    }

    fn go_on(&mut self) {
        let at = self.random.below(VERSIONS.len());
        let version = VERSIONS[at].0;
        match self.random.below(24) {
            0..4 => {
                self.say(format!("the cluster names {version}"));
                self.account.wanted = rev(at);
                self.host.name(version);
            }
            4..10 => self.command("update", |account| account.update(false)),
            10 => self.command("update --now", |account| account.update(true)),
            11 => self.command("disable", |account| {
                account.enabled = false;
                Answer::Fine
            }),
            12..14 => {
                let args = self.host.enable_args();
                self.command(&args.join(" "), Reference::enable);
            }
            14 => self.command(&format!("pin --force-version {version}"), |account| account.pin(Some(rev(at)))),
            15 => self.command("unpin", |account| {
                account.pinned = None;
                Answer::Fine
            }),
            16..18 => self.command("rollback", Reference::rollback),
            18 => {
                // A snapshot cannot be made again.
                let is_possible = (0..VERSIONS.len()).all(|at| self.snapshot_bytes_are_good(at));
                self.command("verify --repair", |account| match account.repair() {
                    Answer::Fine if !is_possible => Answer::Fails(BTreeSet::new()),
                    answer => answer,
                });
            }
            19 => self.damage(at),
            20 => self.spoil_snapshot(at),
            21 => self.date_snapshot(at),
            22 => {
                self.say("the agent migrates its database".into());
                let schema = self.active().schema();
                self.account.database = Some(of_schema(schema));
                database::migrate(&self.host.path(DATABASE), schema);
            }
            _ => {
                let floor = self.random.below(2);
                let version = VERSIONS[floor].0;
                self.say(format!("min_version: {version}"));
                self.account.floor = Some(floor);
                self.edit(|text| {
                    let kept: Vec<&str> = text.lines().filter(|line| !line.contains("min_version:")).collect();
                    let line = format!("spec:\n  min_version: {version}\n");
                    format!("{}\n", kept.join("\n")).replacen("spec:\n", &line, 1)
                });
            }
        }
        self.check();
    }

    /// Runs a command, in every third case killed at some change; then the account must say what is there.
    fn command(&mut self, line: &str, account: impl Fn(&mut Reference) -> Answer) {
        let args = words(line);
        let kill = (self.random.below(3) == 0).then(|| 1 + self.random.below(140));
        self.account.now = now();
        let before = self.account.clone();
        let mut after = before.clone();
        let succeeds = account(&mut after) == Answer::Fine;
        after.marks.clear();
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
        // A target whose run was interrupted three times is refused, whatever it is.
        let refused = refused(&status);
        let with_refusals = |account: &Reference| {
            let mut account = account.clone();
            for at in &refused {
                account.refused.entry(rev(*at)).or_insert((account.now, 1));
            }
            account
        };
        let found =
            [&after, &before].map(with_refusals).into_iter().find(|account| self.is(account, &status).is_none());
        self.account = found.unwrap_or_else(|| {
            let why = [&before, &after].map(|account| self.is(account, &status));
            panic!("neither before nor after: {why:?}\n{:#?}", self.story)
        });
        // What a run that was undone leaves: a snapshot of the version that stays, evidence of the one that goes, and a
        // download that was cut short or is whole.
        for at in 0..VERSIONS.len() {
            if !self.version_dir(at).is_dir() {
                continue;
            }
            let (snap, is_whole) = (self.snapshot(at), self.looks_whole(at));
            let is_active = self.account.active == Some(rev(at));
            let kept = self.account.kept.entry(rev(at)).or_insert(whole());
            kept.whole = if is_whole { Whole::Yes } else { Whole::Visibly };
            if !is_active && snap.is_some() {
                kept.snap = snap;
            }
        }
    }

    /// Why the image is not what `account` says.
    fn is(&self, account: &Reference, status: &Value) -> Option<String> {
        let differs = |what: &str, is: &dyn std::fmt::Debug, should: &dyn std::fmt::Debug| {
            let (is, should) = (format!("{is:?}"), format!("{should:?}"));
            (is != should).then(|| format!("{what} is {is}, not {should}"))
        };
        let version = account.active.map_or("none", name);
        let link = std::fs::read_link(self.host.path("usr/local/bin/teleport")).unwrap_or_default();
        let schema = database::read(&self.host.path(DATABASE)).unwrap().map(|database| database.schema);
        let text = |key: &str| status[key].as_str().map(str::to_owned);
        differs("the link", &link, &PathBuf::from(format!("/{DIR}/{version}/bin/teleport")))
            .or_else(|| differs("installed", &text("agent_version_installed"), &Some(version)))
            .or_else(|| differs("linked", &text("agent_version_linked"), &Some(version)))
            .or_else(|| differs("previous", &text("agent_version_previous"), &account.previous.map(name)))
            .or_else(|| differs("the schema", &schema, &account.database.as_ref().map(|database| database.schema)))
            .or_else(|| differs("enabled", &status["agent_updates_enabled"], &Value::from(account.enabled)))
            .or_else(|| differs("pinned", &status["pinned"], &Value::from(account.pinned.is_some())))
            .or_else(|| {
                differs("refused", &refused(status), &account.refused.keys().map(|rev| rev.at).collect::<BTreeSet<_>>())
            })
            .or_else(|| differs("recovery pending", &status["recovery_pending"], &Value::from(false)))
    }

    fn check(&mut self) {
        let status = self.status();
        if let Some(why) = self.is(&self.account, &status) {
            panic!("{why}\n{:#?}\n{status:#}", self.story);
        }
        // Links wholly of one version, each to a file that is there.
        let version = name(self.active());
        for entry in std::fs::read_dir(self.host.path("usr/local/bin")).unwrap().flatten() {
            if let Ok(target) = std::fs::read_link(entry.path()) {
                assert!(target.starts_with(format!("/{DIR}/{version}")), "{target:?}\n{:#?}", self.story);
                assert!(self.host.path(target.to_str().unwrap()).exists(), "{target:?}\n{:#?}", self.story);
            }
        }
        let verified = self.host.run_on(&self.host.root(), &words("verify"));
        let is_whole = self.account.kept[&self.active()].whole == Whole::Yes;
        let snapshots_good = (0..VERSIONS.len()).all(|at| self.snapshot_bytes_are_good(at));
        assert_eq!(verified.status.success(), is_whole && snapshots_good, "{verified:?}\n{:#?}", self.story);
        // What is on disk: the last working version stays, and what was removed is nobody's.
        if let Some(previous) = self.account.previous {
            assert!(self.version_dir(previous.at).is_dir(), "{} is gone\n{:#?}", name(previous), self.story);
        }
        let host = &self.host;
        self.account.kept.retain(|rev, _| host.path(DIR).join(name(*rev)).is_dir());
    }

    fn active(&self) -> Rev {
        self.account.active.expect("an image with an agent")
    }

    /// Changes what the account says of the snapshot of a version.
    fn of_snapshot(&mut self, at: usize, change: impl FnOnce(&mut Snap)) {
        self.account.kept.get_mut(&rev(at)).and_then(|kept| kept.snap.as_mut()).map(change);
    }

    fn damage(&mut self, at: usize) {
        let file = self.version_dir(at).join("bin/tsh");
        if file.exists() {
            self.say(format!("tsh of {} is cut", VERSIONS[at].0));
            std::fs::write(&file, "cut").unwrap();
            self.account.kept.entry(rev(at)).or_insert(whole()).whole = Whole::Visibly;
        }
    }

    fn spoil_snapshot(&mut self, at: usize) {
        let file = self.version_dir(at).join("backup/sqlite.db");
        if let Ok(mut bytes) = std::fs::read(&file) {
            self.say(format!("the snapshot of {} is spoilt", VERSIONS[at].0));
            let middle = bytes.len() / 2;
            // Not inverted: spoilt twice it would be as it was.
            bytes[middle] = bytes[middle].wrapping_add(1);
            std::fs::write(&file, bytes).unwrap();
            self.of_snapshot(at, |snap| snap.good = false);
        }
    }

    /// As if the clock had been somewhere else when it was taken.
    fn date_snapshot(&mut self, at: usize) {
        let file = self.version_dir(at).join("backup/backup.yaml");
        let (year, time) = [("2001", 1_000_000_000), ("2199", 7_200_000_000)][self.random.below(2)];
        if let Ok(text) = std::fs::read_to_string(&file) {
            self.say(format!("the snapshot of {} is from {year}", VERSIONS[at].0));
            let lines = text.lines().map(|line| {
                if line.contains("creation_time:") {
                    format!("  creation_time: {year}-01-02T03:04:05+00:00")
                } else {
                    line.to_owned()
                }
            });
            std::fs::write(&file, lines.collect::<Vec<_>>().join("\n") + "\n").unwrap();
            self.of_snapshot(at, |snap| snap.time = time);
        }
    }

    fn snapshot(&self, at: usize) -> Option<Snap> {
        let dir = self.version_dir(at).join("backup");
        let text = std::fs::read_to_string(dir.join("backup.yaml")).ok()?;
        let is_usable = !text.contains(": 2001-") && !text.contains(": 2199-") && self.snapshot_bytes_are_good(at);
        let schema = rusqlite::Connection::open(dir.join("sqlite.db"))
            .and_then(|database| database.query_row("PRAGMA user_version", [], |row| row.get(0)));
        Some(Snap {
            database: Some(of_schema(schema.unwrap_or_default())),
            time: self.account.now,
            proxy: String::new(),
            failed: text.contains("failed: true"),
            good: is_usable,
            described: true,
        })
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
        self.host.path(DIR).join(VERSIONS[at].0)
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

fn rev(at: usize) -> Rev {
    Rev { at, enterprise: false }
}

fn name(rev: Rev) -> &'static str {
    VERSIONS[rev.at].0
}

fn of_schema(schema: u32) -> Database {
    Database { schema, rows: BTreeSet::new() }
}

/// A version on disk.
fn whole() -> Kept {
    Kept { whole: Whole::Yes, nature: Nature::Healthy, snap: None }
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs() as i64
}

fn refused(status: &Value) -> BTreeSet<usize> {
    let entries = status["refused"].as_array().cloned().unwrap_or_default();
    let at = |entry: &Value| VERSIONS.iter().position(|(version, _)| entry["version"].as_str() == Some(version));
    entries.iter().filter_map(at).collect()
}
