//! The plain account of SPEC §5 to §8: what a command makes of a host, at once and without steps. It calls no rule of the
//! program. `tests/suite/crash/model.rs` holds the real program to the same account.

use std::collections::{BTreeMap, BTreeSet};

use super::world::{DAY, Database, Nature, Rev};

/// Clocks that are synchronised are stepped by a little, seconds (SPEC §6: not from the future).
const SKEW: i64 = 60;
/// How long a committed version is watched, seconds.
const WATCH: i64 = 60;

/// What a version's files are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whole {
    /// All as installed.
    Yes,
    /// A look at names and sizes shows that they are not.
    Visibly,
    /// Only their digests show it.
    Secretly,
}

/// A snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Snap {
    /// What it holds; `None`: that there was no database.
    pub database: Option<Database>,
    /// When it was taken, seconds since 1970.
    pub time: i64,
    /// The cluster it belongs to.
    pub proxy: String,
    /// A failed version left it.
    pub failed: bool,
    /// Its bytes are those it was taken with.
    pub good: bool,
    /// Its description can be read.
    pub described: bool,
}

/// A version on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    /// Its files.
    pub whole: Whole,
    /// How its agent behaves.
    pub nature: Nature,
    /// Its snapshot.
    pub snap: Option<Snap>,
}

/// A version that is watched after its commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Watched {
    /// It.
    pub rev: Rev,
    /// The one before.
    pub previous: Option<Rev>,
    /// The end of the watch.
    pub until: i64,
}

/// Why a command did not do what it should.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Why {
    /// Below the local floor.
    Floor,
    /// No snapshot.
    Missing,
    /// One of another age.
    Expired,
    /// One that is not what it should be.
    Invalid,
    /// There is no archive.
    NoArchive,
    /// The new version failed.
    Unhealthy,
    /// Nowhere to go back to.
    NoPrevious,
    /// Nothing is installed.
    NothingActive,
}

/// How a command ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// Exit 0, whether something was done or not.
    Fine,
    /// Exit 1 for one of these reasons.
    Fails(BTreeSet<Why>),
}

/// A state on the way of a command, as a kill may leave it once it is recovered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Mark {
    /// The command whose run it belongs to.
    pub command: &'static str,
    /// Where in the run.
    pub stage: Stage,
    /// The state.
    pub state: Reference,
}

/// Where in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// Nothing but a download has happened.
    Before,
    /// The run was committed.
    Committed,
    /// The run was given up because its version failed, and is undone.
    GivenUp,
    /// Nothing is left to do.
    Over,
}

/// What a run is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked {
    /// The command.
    pub command: &'static str,
    /// The target.
    pub target: Rev,
    /// The operator forced.
    pub force: bool,
    /// The window is open or does not matter.
    pub in_window: bool,
    /// It goes back because the present version failed.
    pub back: bool,
    /// The version left is refused.
    pub refuse_outgoing: bool,
    /// Every byte of the active version is looked at.
    pub every_byte: bool,
    /// What the commit changes.
    pub change: Change,
}

/// What a commit changes in the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Nothing.
    None,
    /// `enabled: true`.
    Enable,
    /// `pinned: true` at the target.
    Pin,
}

/// The state of a host as SPEC speaks of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Reference {
    /// The clock, seconds since 1970.
    pub now: i64,
    /// What the links lead to.
    pub active: Option<Rev>,
    /// The last working version.
    pub previous: Option<Rev>,
    /// What is on disk.
    pub kept: BTreeMap<Rev, Kept>,
    /// The live database.
    pub database: Option<Database>,
    /// The agent runs (the active version).
    pub running: bool,
    /// It starts at boot.
    pub starts_at_boot: bool,
    /// It ended by itself.
    pub failed: bool,
    /// There is a service manager.
    pub systemd: bool,
    /// `enabled`.
    pub enabled: bool,
    /// `pinned`, with the version.
    pub pinned: Option<usize>,
    /// `keep`.
    pub keep: u32,
    /// `min_version`.
    pub floor: Option<usize>,
    /// `backup_max_age`, seconds.
    pub max_age: i64,
    /// `proxy`.
    pub proxy: String,
    /// Refused versions: when they failed and how often.
    pub refused: BTreeMap<Rev, (i64, u32)>,
    /// Runs of a target that were interrupted after the agent's link had been touched.
    pub interrupted: BTreeMap<Rev, u32>,
    /// The watch.
    pub watched: Option<Watched>,
    /// Somebody removed links that the active version needs.
    pub links_lost: bool,
    /// What the cluster names.
    pub wanted: Rev,
    /// Its window.
    pub window: bool,
    /// Archives.
    pub published: BTreeMap<Rev, Nature>,
    /// The states that this command passed.
    pub marks: Vec<Mark>,
}

fn fails(why: Why) -> Answer {
    Answer::Fails(BTreeSet::from([why]))
}

/// The wait after the `count`th failure, seconds: an hour, doubled each time, a week at most.
pub(super) fn wait(count: u32) -> i64 {
    let mut wait = 3600;
    for _ in 1..count.min(20) {
        wait *= 2;
    }
    wait.min(7 * DAY)
}

impl Reference {
    /// `update`.
    pub(super) fn update(&mut self, now: bool) -> Answer {
        if !self.enabled {
            return Answer::Fine;
        }
        if self.watched.as_ref().is_some_and(|watched| Some(watched.rev) == self.active) {
            if self.failed {
                return self.back();
            }
            match self.watch(self.watched.as_ref().is_some_and(|watched| watched.until > self.now)) {
                Answer::Fine => {}
                other => return other,
            }
        }
        if self.pinned.is_some() {
            return Answer::Fine;
        }
        let asked = self.asked("update", self.wanted);
        self.go(Asked { force: now, in_window: self.window || now, ..asked })
    }

    /// `enable`.
    pub(super) fn enable(&mut self) -> Answer {
        let enterprise = self.active.map_or(self.wanted.enterprise, |active| active.enterprise);
        let target = self.pinned.map_or(self.wanted, |at| Rev { at, enterprise });
        let asked = self.asked("enable", target);
        self.go(Asked { change: Change::Enable, ..asked })
    }

    /// `pin`.
    pub(super) fn pin(&mut self, rev: Option<Rev>) -> Answer {
        let Some(active) = self.active else { return fails(Why::NothingActive) };
        let target = rev.map_or(active, |rev| Rev { enterprise: active.enterprise, ..rev });
        let asked = self.asked("pin", target);
        self.go(Asked { change: Change::Pin, ..asked })
    }

    /// `rollback`.
    pub(super) fn rollback(&mut self) -> Answer {
        match self.previous.filter(|previous| !self.refused.contains_key(previous)) {
            None => fails(Why::NoPrevious),
            Some(previous) => {
                let asked = self.asked("rollback", previous);
                self.go(Asked { refuse_outgoing: true, ..asked })
            }
        }
    }

    /// `verify --repair`.
    pub(super) fn repair(&mut self) -> Answer {
        let Some(active) = self.active else { return fails(Why::NothingActive) };
        if !self.links_lost && self.kept[&active].whole == Whole::Yes {
            // A link to the updater of another version, which is damaged, can be all that changes.
            self.mark("verify --repair", Stage::Before);
            self.mark("verify --repair", Stage::Committed);
            return Answer::Fine;
        }
        let asked = self.asked("verify --repair", active);
        self.go(Asked { every_byte: true, ..asked })
    }

    /// `uninstall --force`.
    pub(super) fn uninstall(&mut self) -> Answer {
        self.mark("uninstall", Stage::Before);
        self.active = None;
        self.kept.clear();
        self.running = false;
        self.starts_at_boot = false;
        self.enabled = false;
        self.pinned = None;
        self.previous = None;
        self.refused.clear();
        self.interrupted.clear();
        self.watched = None;
        self.links_lost = false;
        self.keep = 2;
        self.floor = None;
        self.max_age = 365 * DAY;
        self.proxy.clear();
        self.mark("uninstall", Stage::Committed);
        Answer::Fine
    }

    /// Somebody starts the agent.
    pub(super) fn start(&mut self) {
        if let Some(active) = self.active {
            self.running = self.comes_up(active);
            self.failed = !self.running;
        }
    }

    /// The power came back.
    pub(super) fn boot(&mut self) {
        self.running = false;
        self.failed = false;
        if self.systemd && self.starts_at_boot {
            self.start();
        }
    }

    /// A watch ends when another run was at work; the run back itself is tried again.
    pub(super) fn overtakes_watch(&mut self, command: &str) {
        if command != "watch" {
            self.watched = None;
        }
    }

    /// An interrupted run of `target` has been undone.
    pub(super) fn undone(&mut self, target: Rev, touched: bool) {
        if !touched {
            return;
        }
        let count = self.interrupted.entry(target).or_default();
        *count += 1;
        if *count >= 3 {
            self.refuse(target);
        }
    }

    fn asked(&self, command: &'static str, target: Rev) -> Asked {
        Asked {
            command,
            target,
            force: true,
            in_window: true,
            back: false,
            refuse_outgoing: false,
            every_byte: false,
            change: Change::None,
        }
    }

    /// The state without its marks, for a later look.
    fn mark(&mut self, command: &'static str, stage: Stage) {
        let state = Self { marks: Vec::new(), ..self.clone() };
        self.marks.push(Mark { command, stage, state });
    }

    fn refuse(&mut self, rev: Rev) {
        let count = self.refused.get(&rev).map_or(0, |(_, count)| *count) + 1;
        self.refused.insert(rev, (self.now, count));
    }

    /// A refused version waits: since its failure less than its wait has passed. A failure that lies in the future, by
    /// more than a wait, was dated by a wrong clock and says nothing.
    fn waits(&self, rev: Rev) -> bool {
        self.refused.get(&rev).is_some_and(|&(time, count)| {
            let wait = wait(count);
            self.now < time + wait && time <= self.now + wait
        })
    }

    fn go(&mut self, asked: Asked) -> Answer {
        let to = asked.target;
        // What is there already may be put right, but not asked for by name.
        let is_named = ["enable", "pin"].contains(&asked.command);
        if self.floor.is_some_and(|floor| to.at < floor) && (is_named || self.active != Some(to)) {
            return fails(Why::Floor);
        }
        if asked.command == "update" && self.is_in_order(to) {
            return Answer::Fine;
        }
        if !asked.in_window || (!asked.force && self.waits(to)) {
            return Answer::Fine;
        }
        let before = self.clone();
        let restored = match self.database_for(asked) {
            Ok(restored) => restored,
            Err(why) => return Answer::Fails(why),
        };
        // On disk, or downloaded. What is moved to is hashed first.
        let looked_at = self.active != Some(to) || asked.every_byte;
        let whole = self.kept.get(&to).map_or(Whole::Visibly, |kept| kept.whole);
        if whole == Whole::Visibly || (whole == Whole::Secretly && looked_at) {
            let Some(&nature) = self.published.get(&to) else { return fails(Why::NoArchive) };
            let snap = self.kept.get(&to).and_then(|kept| kept.snap.clone());
            self.kept.insert(to, Kept { whole: Whole::Yes, nature, snap });
        }
        self.mark(asked.command, Stage::Before);
        if self.active == Some(to) {
            // Put right, not moved: only what the operator says counts, and failures of what is watched.
            self.change(asked);
            self.links_lost = false;
            if asked.force && self.watched.is_none() {
                self.refused.remove(&to);
            }
            self.mark(asked.command, Stage::Committed);
            return Answer::Fine;
        }
        let from = self.active;
        self.leave(from, asked);
        let restores = restored.is_some();
        if let Some(database) = restored {
            self.database = database;
        }
        self.active = Some(to);
        let (was_running, was_failing) = (self.running, self.failed);
        let watches = self.systemd && was_running;
        if watches || (self.systemd && self.starts_at_boot && was_failing) {
            self.start();
        }
        if watches && !self.running {
            self.give_up(before, asked, restores);
            return fails(Why::Unhealthy);
        }
        self.previous = from.or(self.previous);
        if asked.refuse_outgoing {
            self.refused.remove(&to);
            if let Some(left) = from {
                self.refuse(left);
            }
        } else {
            self.refused.retain(|rev, _| watches && *rev == to);
        }
        self.interrupted.clear();
        self.watched =
            (watches && !asked.refuse_outgoing).then_some(Watched { rev: to, previous: from, until: self.now + WATCH });
        self.links_lost = false;
        self.change(asked);
        self.mark(asked.command, Stage::Committed);
        // Whoever was gone back to is not watched: its fall must not lead forward again.
        if self.watched.is_some() { self.watch(true) } else { Answer::Fine }
    }

    /// Nothing to do: active, and whole as far as a look goes.
    fn is_in_order(&self, to: Rev) -> bool {
        let is_whole = self.kept.get(&to).is_some_and(|kept| kept.whole != Whole::Visibly);
        self.active == Some(to) && is_whole && !self.links_lost
    }

    /// The table of SPEC §6: the database that the move restores (`Some(None)`: that there was none), if any.
    #[allow(clippy::option_option, reason = "no restore, a restore of nothing, a restore of a database")]
    fn database_for(&self, asked: Asked) -> Result<Option<Option<Database>>, BTreeSet<Why>> {
        let (Some(from), to) = (self.active, asked.target) else { return Ok(None) };
        let down = to.at < from.at;
        let snap = self.kept.get(&to).and_then(|kept| kept.snap.as_ref());
        let Some(snap) = snap else {
            return if down { Err(BTreeSet::from([Why::Missing])) } else { Ok(None) };
        };
        let mut wrong = BTreeSet::new();
        if !asked.back {
            if snap.failed || snap.proxy != self.proxy {
                wrong.insert(Why::Invalid);
            }
            if snap.time > self.now + SKEW || self.now - snap.time >= self.max_age {
                wrong.insert(Why::Expired);
            }
        }
        if !snap.described || (!snap.good && snap.database.is_some()) {
            wrong.insert(Why::Invalid);
        }
        if to.at == from.at {
            let back = asked.back && wrong.is_empty() && snap.database.is_some();
            return Ok(back.then(|| snap.database.clone()));
        }
        match (down, &snap.database) {
            (true, _) if !wrong.is_empty() => Err(wrong),
            (true, None) if self.database.is_none() => Ok(None),
            (true, None) if !asked.back => Err(BTreeSet::from([Why::Missing])),
            (false, None) => Ok(None),
            (false, Some(_)) if !wrong.is_empty() => Ok(None),
            (_, database) => Ok(Some(database.clone())),
        }
    }

    /// The version left keeps its database.
    fn leave(&mut self, from: Option<Rev>, asked: Asked) {
        let snap = self.snap(asked.back);
        if let Some(kept) = from.and_then(|from| self.kept.get_mut(&from)) {
            kept.snap = Some(snap);
        }
    }

    fn snap(&self, failed: bool) -> Snap {
        Snap {
            database: self.database.clone(),
            time: self.now,
            // What a failed version left belongs to nobody.
            proxy: if failed { String::new() } else { self.proxy.clone() },
            failed,
            good: true,
            described: true,
        }
    }

    /// The new version failed: the old one, its database and its process are back; what the new one wrote stays.
    fn give_up(&mut self, before: Self, asked: Asked, restores: bool) {
        let to = asked.target;
        let evidence = self.database.is_some().then(|| self.snap(true));
        let kept = std::mem::take(&mut self.kept);
        let marks = std::mem::take(&mut self.marks);
        *self = Self { kept, marks, ..before };
        if !restores && let (Some(evidence), Some(kept)) = (evidence, self.kept.get_mut(&to)) {
            kept.snap = Some(evidence);
        }
        self.overtakes_watch(asked.command);
        self.refuse(to);
        // The old agent is started again and is what it was.
        self.running = self.active.is_some_and(|active| self.comes_up(active));
        self.failed = !self.running;
        self.mark(asked.command, Stage::GivenUp);
    }

    /// The watch that follows a commit.
    fn watch(&mut self, lasts: bool) -> Answer {
        let nature = self.active.map(|active| self.kept[&active].nature);
        if lasts && self.running && nature == Some(Nature::Falls) {
            self.running = false;
            self.failed = true;
            return self.back();
        }
        if let Some(watched) = self.watched.take() {
            self.refused.remove(&watched.rev);
        }
        self.mark("watch", Stage::Over);
        Answer::Fine
    }

    fn back(&mut self) -> Answer {
        let Some(previous) = self.watched.as_ref().and_then(|watched| watched.previous) else {
            return fails(Why::Unhealthy);
        };
        let asked = self.asked("watch", previous);
        match self.go(Asked { back: true, refuse_outgoing: true, ..asked }) {
            Answer::Fine => fails(Why::Unhealthy),
            other => other,
        }
    }

    /// Starts `rev`'s agent on the live database.
    fn comes_up(&mut self, rev: Rev) -> bool {
        let nature = self.kept[&rev].nature;
        if nature == Nature::Dies {
            return false;
        }
        match &mut self.database {
            Some(database) if database.schema > rev.schema() => return false,
            Some(database) => database.schema = rev.schema(),
            None => self.database = Some(Database { schema: rev.schema(), rows: BTreeSet::new() }),
        }
        nature != Nature::MigratesAndDies
    }

    fn change(&mut self, asked: Asked) {
        match asked.change {
            // A host that goes back is pinned to where it goes.
            Change::None if asked.refuse_outgoing => self.pinned = self.pinned.map(|_| asked.target.at),
            Change::None => {}
            Change::Enable => self.enabled = true,
            Change::Pin => self.pinned = Some(asked.target.at),
        }
    }
}
