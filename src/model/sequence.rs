//! A sequence of what happens to a host, run by the program's rules and by the reference, compared after each command.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use proptest::prelude::*;

use super::host::{Entry, Host, LINK_DIR, Stop, UNIT_FILE, VERSIONS_DIR, WANTS, unit_of};
use super::reference::{Answer, Kept, MarkBox, Reference, Snap, Stage, Watched, Whole, Why, wait};
use super::updater::Did;
use super::world::{DAY, Nature, PROXIES, Rev, VERSIONS};
use crate::execute::journal::{self, Journal, Record};
use crate::plan::{self, Part, Step, Target};
use crate::report::Code;
use crate::store::{UNMANAGED, VersionDir};

/// What happens.
#[derive(Debug, Clone)]
pub(super) enum Op {
    /// The cluster names a revision, whose archive can be downloaded.
    Publish(Rev),
    /// An archive is taken away again.
    Withdraw(Rev),
    /// The cluster's window opens or closes.
    Window(bool),
    /// A command, killed after so many changes.
    Run(Command, Option<u32>),
    /// The power goes and comes back; the boot's recovery may itself be killed.
    Reboot(Option<u32>),
    /// The operator edits `updates.yaml`.
    Edit(Edit),
    /// The clock is stepped by so many seconds.
    Clock(i64),
    /// Something is damaged: in which version, what.
    Damage(Rev, Damage),
    /// The agent acknowledges a row.
    Row,
    /// The operator deals with the agent's service.
    Service(Service),
}

/// A command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are the program's own commands")]
pub(super) enum Command {
    Update,
    UpdateNow,
    Enable,
    Disable,
    Pin(Option<Rev>),
    Unpin,
    Rollback,
    Recover,
    Repair,
    Uninstall,
}

/// An edit.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "they are the settings' own names")]
pub(super) enum Edit {
    Keep(u32),
    MinVersion(Option<usize>),
    MaxAge(i64),
    Proxy(usize),
}

/// A damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Damage {
    /// A file has another size.
    Size,
    /// A file has other bytes of the same size.
    Bytes,
    /// The marker is gone.
    Marker,
    /// The snapshot has other bytes.
    Snapshot,
    /// `backup.yaml` cannot be read.
    Description,
    /// The snapshot is gone.
    NoSnapshot,
    /// A link is gone.
    Link,
}

/// What an operator does with systemctl, or the agent by itself.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "they are systemctl's own words")]
pub(super) enum Service {
    Enable,
    Start,
    Stop,
    Crash,
}

/// Host and reference side by side.
pub(super) struct World {
    host: Host,
    reference: Reference,
    pending: Option<Pending>,
    natures: BTreeMap<Rev, Nature>,
    next_row: u32,
    /// The database was left by an uninstalled version: the first one installed after it takes what it finds.
    found: bool,
    /// The clock was set back at least once.
    set_back: bool,
    _dir: tempfile::TempDir,
}

/// A run that was interrupted, and what its recovery must make of the host.
struct Pending {
    state: Reference,
    /// The target, where the run is to be undone; true: the agent's link was touched.
    undone: Option<(Rev, bool)>,
    /// A boot came in between: whether the agent runs depends on how far that recovery came.
    booted: bool,
}

impl World {
    /// A host; `natures` say how each release behaves.
    pub(super) fn new(systemd: bool, plain: bool, natures: &[Nature]) -> Self {
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let host = Host::new(dir.path(), systemd, plain);
        let revs = (0..VERSIONS.len()).flat_map(|at| [false, true].map(|enterprise| Rev { at, enterprise }));
        let natures = revs.zip(natures.iter().copied()).collect();
        let reference = seen(&host);
        Self { host, reference, pending: None, natures, next_row: 1, found: false, set_back: false, _dir: dir }
    }

    /// Lets `op` happen.
    pub(super) fn step(&mut self, op: &Op) -> Result<(), TestCaseError> {
        match op {
            Op::Publish(rev) => {
                let nature = self.natures[rev];
                self.host.published.insert(*rev, nature);
                self.host.wanted = *rev;
                self.each(|reference| {
                    reference.published.insert(*rev, nature);
                    reference.wanted = *rev;
                });
            }
            Op::Withdraw(rev) => {
                self.host.published.remove(rev);
                self.each(|reference| {
                    reference.published.remove(rev);
                });
            }
            Op::Window(open) => {
                self.host.window = *open;
                self.each(|reference| reference.window = *open);
            }
            Op::Clock(seconds) => {
                self.host.step_clock(*seconds);
                self.each(|reference| reference.now += seconds);
                self.set_back |= *seconds < 0;
            }
            Op::Run(command, kill) => {
                // No two runs begin in the same second.
                self.host.step_clock(1);
                self.each(|reference| reference.now += 1);
                self.run(*command, *kill)?;
            }
            Op::Reboot(kill) => self.reboot(*kill)?,
            // The rest happens to a host at rest.
            _ if self.pending.is_some() => {}
            Op::Edit(edit) => self.edit(*edit),
            Op::Damage(rev, damage) => self.damage(*rev, *damage),
            Op::Row => {
                if self.host.process.is_some()
                    && let (Some(database), Some(same)) = (&mut self.host.database, &mut self.reference.database)
                {
                    database.rows.insert(self.next_row);
                    same.rows.insert(self.next_row);
                    self.next_row += 1;
                }
            }
            Op::Service(service) => self.service(*service),
        }
        self.whole_between_runs()
    }

    fn each(&mut self, change: impl Fn(&mut Reference)) {
        change(&mut self.reference);
        if let Some(pending) = &mut self.pending {
            change(&mut pending.state);
        }
    }

    fn edit(&mut self, edit: Edit) {
        let mut spec = self.host.updates.spec().clone();
        match edit {
            Edit::Keep(keep) => {
                spec.keep = keep;
                self.reference.keep = keep;
            }
            Edit::MinVersion(floor) => {
                spec.min_version = floor.map(|at| VERSIONS[at].0.parse().unwrap());
                self.reference.floor = floor;
            }
            Edit::MaxAge(days) => {
                spec.backup_max_age = std::time::Duration::from_secs((days * DAY) as u64);
                self.reference.max_age = days * DAY;
            }
            Edit::Proxy(at) => {
                spec.proxy = Some(PROXIES[at].to_owned());
                self.reference.proxy = PROXIES[at].to_owned();
            }
        }
        self.host.updates.set_spec(&spec);
    }

    fn damage(&mut self, rev: Rev, damage: Damage) {
        if damage == Damage::Link {
            for name in ["tsh", "tctl"] {
                self.host.lose_link(name);
            }
            self.reference.links_lost |= self.reference.active.is_some();
            return;
        }
        let Some(dir) = self.host.dir(rev).cloned() else { return };
        let (version, kept) =
            (self.host.versions.get_mut(&dir).unwrap(), self.reference.kept.get_mut(&rev).expect("the same versions"));
        match damage {
            Damage::Size | Damage::Marker => {
                if damage == Damage::Size {
                    version.sizes = false
                } else {
                    version.marker = false
                }
                kept.whole = Whole::Visibly;
            }
            Damage::Bytes => {
                version.bytes = false;
                if kept.whole == Whole::Yes {
                    kept.whole = Whole::Secretly;
                }
            }
            Damage::Snapshot => {
                version.backup.iter_mut().for_each(|kept| kept.good = false);
                kept.snap.iter_mut().for_each(|snap| snap.good = false);
            }
            Damage::Description => {
                version.backup.iter_mut().for_each(|kept| kept.described = false);
                kept.snap.iter_mut().for_each(|snap| snap.described = false);
            }
            Damage::NoSnapshot => {
                version.backup = None;
                kept.snap = None;
            }
            Damage::Link => {}
        }
    }

    fn service(&mut self, service: Service) {
        if !self.host.systemd || self.host.linked().is_none() {
            return;
        }
        match service {
            Service::Enable => {
                if let Some(entry) = self.host.files.get(Path::new(UNIT_FILE)).cloned() {
                    self.host.files.insert(WANTS.into(), entry);
                    self.reference.starts_at_boot = true;
                }
            }
            Service::Start => {
                self.host.start();
                self.reference.start();
            }
            Service::Stop => {
                self.host.process = None;
                self.host.failed = false;
                self.reference.running = false;
                self.reference.failed = false;
            }
            Service::Crash => {
                if self.host.process.take().is_some() {
                    self.host.failed = true;
                    self.reference.running = false;
                    self.reference.failed = true;
                }
            }
        }
    }

    fn run(&mut self, command: Command, kill: Option<u32>) -> Result<(), TestCaseError> {
        self.found |= command == Command::Uninstall;
        self.host.fuse = kill;
        self.host.ticks = 0;
        self.host.recovered = None;
        let pending = self.pending.take();
        let mut expected = match &pending {
            Some(pending) => self.recovered(pending),
            None => self.reference.clone(),
        };
        if pending.is_some() {
            // What follows a recovery comes after it.
            expected.now += 1;
        }
        let done = drive(&mut self.host, command);
        self.host.fuse = None;
        let recovered = self.host.recovered.take();
        if let (Some(pending), Some(recovered)) = (&pending, &recovered) {
            let seen = seen(recovered);
            self.reconcile(&mut expected, &seen, Some(pending), true)?;
            same(&seen, &expected, "after the recovery")?;
        }
        let base = expected.clone();
        expected.marks.clear();
        let answer = account(&mut expected, command);
        self.host.now = jiff::Timestamp::from_second(base.now).unwrap();
        let marks = std::mem::take(&mut expected.marks);
        match done {
            Err(Stop::Killed) => self.killed(pending, recovered.is_some(), base, expected, &marks),
            done => {
                let done = done.map_err(|stop| match stop {
                    Stop::Failed(error) => error,
                    Stop::Killed => unreachable!("handled above"),
                });
                agrees(command, &done, &answer)?;
                let may_retire = pending.is_some() || marks.iter().any(|mark| mark.0.stage != Stage::Before);
                self.reconcile(&mut expected, &seen(&self.host), pending.as_ref(), may_retire)?;
                self.reference = expected;
                self.at_rest()
            }
        }
    }

    fn reboot(&mut self, kill: Option<u32>) -> Result<(), TestCaseError> {
        self.host.process = None;
        self.host.fuse = kill;
        self.host.ticks = 0;
        self.host.recovered = None;
        let done = self.host.recover(true);
        self.host.fuse = None;
        let left = open_journal(&self.host);
        // In any case.
        self.host.power_on();
        match (done, self.pending.take()) {
            (Err(Stop::Failed(error)), _) => return Err(TestCaseError::fail(format!("boot: {error}"))),
            (_, Some(mut pending)) if left => {
                pending.booted = true;
                pending.state.now = self.host.now.as_second();
                if pending.undone.is_none() {
                    pending.state.boot();
                }
                self.pending = Some(pending);
                return Ok(());
            }
            (_, Some(pending)) => {
                let mut state = self.recovered(&pending);
                state.now = self.host.now.as_second();
                state.boot();
                self.reconcile(&mut state, &seen(&self.host), Some(&pending), true)?;
                self.reference = state;
            }
            (_, None) => self.reference.boot(),
        }
        self.at_rest()
    }

    /// What the recovery of `pending` must make of the host, run or boot aside.
    fn recovered(&self, pending: &Pending) -> Reference {
        let mut state = pending.state.clone();
        if let Some((target, touched)) = pending.undone {
            state.undone(target, touched);
        }
        state
    }

    /// A run was killed: what must its recovery make of the host?
    fn killed(
        &mut self,
        pending: Option<Pending>,
        is_recovered: bool,
        base: Reference,
        expected: Reference,
        marks: &[MarkBox],
    ) -> Result<(), TestCaseError> {
        if !open_journal(&self.host) {
            // Between runs: one of the states that were passed.
            let mut candidates: Vec<Reference> = marks.iter().map(|mark| mark.0.state.clone()).collect();
            candidates.extend([base, expected]);
            let seen = seen(&self.host);
            let mut reasons = Vec::new();
            for mut candidate in candidates {
                self.unsettled_download(&mut candidate, &seen);
                match self
                    .reconcile(&mut candidate, &seen, pending.as_ref(), true)
                    .and_then(|()| same(&seen, &candidate, "killed"))
                {
                    Ok(()) => {
                        self.reference = candidate;
                        return Ok(());
                    }
                    Err(error) => reasons.push(error.to_string()),
                }
            }
            return Err(TestCaseError::fail(format!("killed between runs, in no known state: {reasons:#?}")));
        }
        if !is_recovered && let Some(mut pending) = pending {
            pending.state.now = base.now;
            self.pending = Some(pending);
            return Ok(());
        }
        let opened = Journal::open(copy_of(&self.host).path(), Path::new("/")).unwrap().unwrap();
        let command = opened.opening().unwrap().command.clone();
        let find = |stage| {
            let mut found = marks.iter().rev().filter(|mark| mark.0.command == command && mark.0.stage == stage);
            found.next().map(|mark| mark.0.state.clone())
        };
        let blamed = opened.undo_reason().is_some_and(|(_, _, blame)| blame);
        let records = opened.records();
        let committed = records.contains(&Record::Commit) && opened.undo_reason().is_none();
        let plan = &opened.opening().unwrap().plan;
        let touched = records.iter().any(|record| match record {
            Record::Intent { step } => matches!(plan.switch[*step], Step::LinkAgent { .. }),
            _ => false,
        });
        let target = plan.to.as_ref().map(Rev::of);
        let (state, undone) = match (committed, blamed) {
            (true, _) => (find(Stage::Committed), None),
            (_, true) => (find(Stage::GivenUp), None),
            _ => {
                let before = find(Stage::Before).map(|mut state| {
                    state.overtakes_watch(&command);
                    state
                });
                (before, target.map(|target| (target, touched)))
            }
        };
        let Some(state) = state else {
            return Err(TestCaseError::fail(format!("the reference knows no such run of {command}: {records:#?}")));
        };
        self.pending = Some(Pending { state, undone, booted: false });
        Ok(())
    }

    /// A kill in the middle of unpacking: the version is not there, not whole, or whole.
    fn unsettled_download(&self, candidate: &mut Reference, seen: &Reference) {
        for (rev, kept) in &seen.kept {
            let known = candidate.kept.get(rev).map(|known| known.whole);
            if kept.whole == Whole::Visibly && known == Some(Whole::Yes) && candidate.published.contains_key(rev) {
                candidate.kept.get_mut(rev).unwrap().whole = Whole::Visibly;
            }
            if known.is_none() && kept.snap.is_none() && candidate.published.contains_key(rev) {
                candidate.kept.insert(*rev, kept.clone());
            }
        }
    }

    /// Takes over what SPEC leaves open: which versions beyond the needed ones were removed; after an interruption, the
    /// snapshots that its run had made.
    fn reconcile(
        &self,
        expected: &mut Reference,
        seen: &Reference,
        pending: Option<&Pending>,
        may_retire: bool,
    ) -> Result<(), TestCaseError> {
        let gone: Vec<Rev> = expected.kept.keys().filter(|rev| !seen.kept.contains_key(rev)).copied().collect();
        for rev in gone {
            let watched = expected.watched.as_ref().and_then(|watched| watched.previous);
            let needed = expected.active == Some(rev)
                || (expected.previous == Some(rev) && expected.keep > 1)
                || watched == Some(rev);
            prop_assert!(may_retire && !needed, "{:?} was removed: {:?}", rev, expected);
            expected.kept.remove(&rev);
        }
        let Some(pending) = pending else { return Ok(()) };
        // A failed agent that is to run is started again by an undo.
        if pending.booted || (expected.failed && expected.starts_at_boot) {
            expected.running = seen.running;
            expected.failed = seen.failed;
            // Whom a boot has started the undo leaves running, or starts again.
            if pending.booted && expected.systemd && expected.starts_at_boot && pending.undone.is_some() {
                let mut started = expected.clone();
                started.boot();
                prop_assert_eq!(seen.running, started.running, "the undo of a run after a boot");
            }
            // It may have been started, and then migrated its database.
            let mut started = expected.clone();
            started.start();
            if seen.database == started.database {
                expected.database = started.database;
            }
        }
        for (rev, kept) in &mut expected.kept {
            let Some(found) = seen.kept.get(rev).and_then(|found| found.snap.clone()) else { continue };
            let was = [&expected.database, &pending.state.database];
            let own = expected.active == Some(*rev) && was.contains(&&found.database);
            // The recovery takes it, at its own time.
            let again = kept.snap.as_ref().is_some_and(|snap| snap.failed && snap.database == found.database);
            let evidence = found.failed && (again || pending.undone.is_some_and(|(target, _)| target == *rev));
            if own || evidence {
                kept.snap = Some(found);
            }
        }
        // The time at which it was written down lies in a recovery that may itself have been killed. Where the clock is set
        // back by seconds in between, a failure can be taken for the one before it, or be counted twice.
        let near = |count: u32, expected: u32| count == expected || (self.set_back && count.abs_diff(expected) == 1);
        for (rev, refused) in &mut expected.refused {
            if let Some(&(time, count)) = seen.refused.get(rev).filter(|(_, count)| near(*count, refused.1)) {
                *refused = (time, count);
            }
        }
        for rev in pending.undone.iter().map(|(rev, _)| *rev) {
            let count = |state: &Reference| state.interrupted.get(&rev).copied().unwrap_or_default();
            if near(count(seen), count(expected)) {
                expected.interrupted.clone_from(&seen.interrupted);
            }
        }
        Ok(())
    }

    /// What must hold at every instant.
    fn whole_between_runs(&self) -> Result<(), TestCaseError> {
        for (path, entry) in &self.host.files {
            if let Entry::Link(target) = entry {
                let dir = Host::dir_of(target).expect("ours");
                prop_assert!(self.host.versions.contains_key(&dir), "{} dangles: {dir}", path.display());
            }
        }
        if let Some(dir) = &self.host.process {
            prop_assert!(self.host.versions.contains_key(dir), "the running {} is gone", dir);
        }
        Ok(())
    }

    /// What must hold when no run is interrupted.
    fn at_rest(&self) -> Result<(), TestCaseError> {
        let host = &self.host;
        self.whole_between_runs()?;
        same(&seen(host), &self.reference, "at rest")?;
        prop_assert!(!open_journal(host) && host.next.is_none());
        prop_assert!(host.prepared.is_none() && host.unmanaged.is_none());
        let kept = Path::new(VERSIONS_DIR).join(UNMANAGED);
        prop_assert!(!host.files.keys().any(|path| path.starts_with(&kept)), "something is left in .unmanaged");
        if host.systemd {
            prop_assert_eq!(&host.loaded, &host.files.get(Path::new(UNIT_FILE)).cloned(), "systemd knows another unit");
        }
        let Some(active) = self.reference.active else {
            let ours = host.files.values().filter(|entry| matches!(entry, Entry::Link(_))).count();
            prop_assert_eq!(ours, 0, "links of ours on a host without an active version");
            return Ok(());
        };
        let dir = host.dir(active).expect("the active version is on disk").clone();
        if let Some(process) = &host.process {
            prop_assert_eq!(process, &dir, "another version runs");
        }
        if let Some(database) = &host.database
            && host.process.is_some()
        {
            prop_assert_eq!(database.schema, active.schema(), "the database is another version's");
        }
        let is_older = host.database.as_ref().is_none_or(|database| database.schema <= active.schema());
        prop_assert!(is_older || self.found, "the database is a newer version's");
        prop_assert_eq!(host.files.get(Path::new(UNIT_FILE)), Some(&Entry::Link(unit_of(&dir))));
        if let Some(entry) = host.files.get(Path::new(WANTS)) {
            prop_assert_eq!(entry, &Entry::Link(unit_of(&dir)), "the unit is enabled from another version");
        }
        self.links(active, &dir)?;
        // A plan after success is empty.
        let marked = self.reference.kept.values().all(|kept| kept.whole != Whole::Visibly);
        if !self.reference.links_lost && marked && self.reference.kept[&active].whole == Whole::Yes {
            let target = Target {
                revision: active.revision(),
                url: String::new(),
                bytes: None,
                trust_snapshot: false,
                over: plan::Over::Foreign,
            };
            let again = plan::move_to(&host.facts(host.updates.spec(), None, true), &target);
            // An undone run leaves the links as they were, and can have made whole a version whose updater may be linked.
            let only_updater = |plan: &plan::Plan| {
                let is_updater = |step: &Step| match step {
                    Step::Place(place) => place.part == Part::Updater,
                    other => matches!(other, Step::RecordAgent { .. } | Step::DaemonReload),
                };
                plan.prepare.is_empty() && plan.after.is_empty() && plan.switch.iter().all(is_updater)
            };
            let is_done = |plan: &plan::Plan| plan.is_empty() || (!active.has_updater() && only_updater(plan));
            prop_assert!(again.as_ref().is_ok_and(is_done), "not done: {:#?}", again);
        }
        Ok(())
    }

    fn links(&self, active: Rev, dir: &VersionDir) -> Result<(), TestCaseError> {
        let bin = |dir: &VersionDir, name: &str| Entry::Link(Path::new(VERSIONS_DIR).join(dir).join("bin").join(name));
        let wanted: BTreeSet<String> = active.binaries().into_iter().filter(|name| name != "teleport-update").collect();
        for name in &wanted {
            let found = self.host.files.get(&Path::new(LINK_DIR).join(name));
            let lost = found.is_none() && self.reference.links_lost;
            prop_assert!(lost || found == Some(&bin(dir, name)), "{} is {:?}", name, found);
        }
        for (path, entry) in self.host.files.iter().filter(|(path, _)| path.starts_with(LINK_DIR)) {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let ours = matches!(entry, Entry::Link(_));
            prop_assert!(!ours || name == "teleport-update" || wanted.contains(&name), "{} should not be there", name);
        }
        // Our own link: the active version's updater, else any that speaks our protocol.
        let updater = self.host.link_dir_of(&Path::new(LINK_DIR).join("teleport-update"));
        match updater {
            Some(found) if active.has_updater() => prop_assert_eq!(&found, dir),
            Some(found) => prop_assert!(self.host.versions[&found].rev.has_updater(), "a foreign updater is linked"),
            None => prop_assert!(!active.has_updater(), "no updater is linked"),
        }
        Ok(())
    }

    /// Recovers and compares, at the end of a sequence.
    pub(super) fn finish(&mut self) -> Result<(), TestCaseError> {
        self.run(Command::Recover, None)
    }
}

fn drive(host: &mut Host, command: Command) -> Result<Did, Stop> {
    match command {
        Command::Update => host.update(false),
        Command::UpdateNow => host.update(true),
        Command::Enable => host.enable(),
        Command::Disable => host.settings(&|spec| spec.enabled = false),
        Command::Pin(rev) => host.pin(rev),
        Command::Unpin => host.settings(&|spec| {
            spec.pinned = false;
            spec.pinned_version = None;
        }),
        Command::Rollback => host.rollback(),
        Command::Recover => host.recover(false).map(|()| Did::Waited),
        Command::Repair => host.repair(),
        Command::Uninstall => host.uninstall(),
    }
}

fn account(reference: &mut Reference, command: Command) -> Answer {
    match command {
        Command::Update => reference.update(false),
        Command::UpdateNow => reference.update(true),
        Command::Enable => reference.enable(),
        Command::Disable => {
            reference.enabled = false;
            Answer::Fine
        }
        Command::Pin(rev) => reference.pin(rev),
        Command::Unpin => {
            reference.pinned = None;
            Answer::Fine
        }
        Command::Rollback => reference.rollback(),
        Command::Recover => Answer::Fine,
        Command::Repair => reference.repair(),
        Command::Uninstall => reference.uninstall(),
    }
}

fn agrees(command: Command, done: &Result<Did, crate::report::Error>, answer: &Answer) -> Result<(), TestCaseError> {
    let why = match done {
        Ok(_) => {
            prop_assert_eq!(answer, &Answer::Fine, "{:?} succeeded", command);
            return Ok(());
        }
        Err(error) => match error.code {
            Code::BelowMinVersion => Why::Floor,
            Code::BackupMissing => Why::Missing,
            Code::BackupExpired => Why::Expired,
            Code::BackupInvalid => Why::Invalid,
            Code::ArchiveMissing => Why::NoArchive,
            Code::Unhealthy => Why::Unhealthy,
            Code::NoPrevious => Why::NoPrevious,
            Code::Damaged | Code::EditionUnknown => Why::NothingActive,
            _ => return Err(TestCaseError::fail(format!("{command:?}: {error}"))),
        },
    };
    let agrees = matches!(answer, Answer::Fails(known) if known.contains(&why));
    prop_assert!(agrees, "{:?}: {:?}, the reference says {:?}", command, done, answer);
    Ok(())
}

fn same(seen: &Reference, expected: &Reference, when: &str) -> Result<(), TestCaseError> {
    if seen == expected {
        return Ok(());
    }
    let fields = |state: &Reference| -> Vec<String> {
        let parts: [(&str, &dyn std::fmt::Debug); 20] = [
            ("now", &state.now),
            ("active", &state.active),
            ("previous", &state.previous),
            ("kept", &state.kept),
            ("database", &state.database),
            ("running", &state.running),
            ("starts_at_boot", &state.starts_at_boot),
            ("failed", &state.failed),
            ("enabled", &state.enabled),
            ("pinned", &state.pinned),
            ("keep", &state.keep),
            ("floor", &state.floor),
            ("max_age", &state.max_age),
            ("proxy", &state.proxy),
            ("refused", &state.refused),
            ("interrupted", &state.interrupted),
            ("watched", &state.watched),
            ("links_lost", &state.links_lost),
            ("wanted", &state.wanted),
            ("published", &state.published),
        ];
        parts.iter().map(|(name, value)| format!("{name}: {value:?}")).collect()
    };
    let differing = fields(seen).into_iter().zip(fields(expected)).filter(|(seen, expected)| seen != expected);
    let lines: Vec<String> = differing.map(|(seen, expected)| format!("  is {seen}\n  not {expected}")).collect();
    Err(TestCaseError::fail(format!("{when}:\n{}", lines.join("\n"))))
}

fn open_journal(host: &Host) -> bool {
    journal::is_open(&host.journal_dir)
}

/// A copy of the journal, to look at without a change.
fn copy_of(host: &Host) -> tempfile::TempDir {
    let dir = tempfile::tempdir_in(host.journal_dir.parent().unwrap()).unwrap();
    if let Ok(bytes) = std::fs::read(host.journal_dir.join(journal::NAME)) {
        crate::host::durable::write(&dir.path().join(journal::NAME), &bytes, 0o644).unwrap();
    }
    dir
}

/// The host in the reference's words.
fn seen(host: &Host) -> Reference {
    let (spec, status) = (host.updates.spec(), host.updates.status());
    let at = |version: &protocol::Version| {
        VERSIONS.iter().position(|(known, _)| *known == version.to_string()).expect("a known version")
    };
    let kept = host.versions.values().map(|version| {
        let snap = version.backup.as_ref().map(|kept| Snap {
            database: kept.database.clone(),
            time: kept.backup.creation_time.as_second(),
            // What a failed version left belongs to nobody.
            proxy: if kept.backup.failed { String::new() } else { kept.backup.proxy.clone() },
            failed: kept.backup.failed,
            good: kept.good,
            described: kept.described,
        });
        let whole = match (version.marker && version.sizes, version.bytes) {
            (false, _) => Whole::Visibly,
            (true, false) => Whole::Secretly,
            (true, true) => Whole::Yes,
        };
        (version.rev, Kept { whole, nature: version.nature, snap })
    });
    for refused in &status.refused {
        assert_eq!(
            refused.retry_at.as_second() - refused.time.as_second(),
            wait(refused.count),
            "a wait out of its bounds"
        );
    }
    Reference {
        now: host.now.as_second(),
        active: host.active(),
        previous: status.previous.as_ref().map(Rev::of),
        kept: kept.collect(),
        database: host.database.clone(),
        running: host.process.is_some(),
        starts_at_boot: host.enabled(),
        failed: host.failed,
        systemd: host.systemd,
        enabled: spec.enabled,
        pinned: spec.pinned.then(|| spec.pinned_version.as_ref().map(at)).flatten(),
        keep: spec.keep,
        floor: spec.min_version.as_ref().map(at),
        max_age: spec.backup_max_age.as_secs() as i64,
        proxy: spec.proxy.clone().unwrap_or_default(),
        refused: status
            .refused
            .iter()
            .map(|refused| (Rev::of(&refused.revision), (refused.time.as_second(), refused.count)))
            .collect(),
        interrupted: status.attempts.iter().map(|attempt| (Rev::of(&attempt.revision), attempt.count)).collect(),
        watched: status.watch.as_ref().map(|watch| Watched {
            rev: Rev::of(&watch.revision),
            previous: watch.previous.as_ref().map(Rev::of),
            until: watch.until.as_second(),
        }),
        links_lost: host.active().is_some()
            && ["tsh", "tctl"].iter().any(|name| !host.files.contains_key(&Path::new(LINK_DIR).join(name))),
        wanted: host.wanted,
        window: host.window,
        published: host.published.clone(),
        marks: Vec::new(),
    }
}
