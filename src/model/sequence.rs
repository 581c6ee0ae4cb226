//! A sequence of what happens to a host, run by the program's rules and by the reference, compared after each command.

use std::collections::BTreeMap;
use std::path::Path;

use proptest::prelude::*;

use super::host::{Host, Stop, UNIT_FILE, WANTS};
use super::op::{Command, Damage, Edit, Op, Service, account, drive};
use super::pending::Pending;
use super::reference::{Answer, Reference, Stage, Whole, Why};
use super::seen::{open_journal, same, seen};
use super::updater::Did;
use super::world::{DAY, Nature, PROXIES, Rev, VERSIONS};
use crate::report::Code;

/// Host and reference side by side.
pub(super) struct World {
    pub(super) host: Host,
    pub(super) reference: Reference,
    pub(super) pending: Option<Pending>,
    natures: BTreeMap<Rev, Nature>,
    next_row: u32,
    /// The database was left by an uninstalled version: the first one installed after it takes what it finds.
    pub(super) found: bool,
    /// The clock was set back at least once.
    pub(super) set_back: bool,
    _dir: tempfile::TempDir,
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
        self.host.arm(kill);
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
        // With `keep: 1` the run may have ended a watch first, and removed the version that it was then to go back to.
        let is_missing = matches!(&done, Err(Stop::Failed(error)) if error.code == Code::BackupMissing);
        if is_missing && expected.keep == 1 && expected.watched.is_some() {
            let kept = seen(&self.host).kept;
            expected.kept.retain(|rev, _| Some(*rev) != expected.previous || kept.contains_key(rev));
        }
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
                let may_retire = pending.is_some() || marks.iter().any(|mark| mark.stage != Stage::Before);
                self.reconcile(&mut expected, &seen(&self.host), pending.as_ref(), may_retire)?;
                self.reference = expected;
                self.at_rest()
            }
        }
    }

    fn reboot(&mut self, kill: Option<u32>) -> Result<(), TestCaseError> {
        self.host.process = None;
        self.host.arm(kill);
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
                // No boot starts an agent whose link an uninstall that is to be undone has taken away.
                if pending.undone.is_none() && (self.host.process.is_some() || self.host.failed) {
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

    /// Recovers and compares, at the end of a sequence.
    pub(super) fn finish(&mut self) -> Result<(), TestCaseError> {
        self.run(Command::Recover, None)
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
