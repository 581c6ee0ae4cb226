//! The commands on an abstract host: the walk of `run::change` and its neighbours, with the program's own rules,
//! its own journal and its own record.

use jiff::SignedDuration;

use super::host::{Act, Entry, Host, LINK_DIR, Stop, fails};
use super::world::{Nature, Rev};
use crate::config::status::Outcome;
use crate::config::{Spec, Updates};
use crate::database::SnapshotId;
use crate::execute::journal::tests::opening;
use crate::execute::journal::{Journal, Opening, Record};
use crate::plan::decide::{self, Decision, Request};
use crate::plan::facts::Facts;
use crate::plan::{self, Database, Direction, Plan, Snapshot, Step, Target, retention};
use crate::report::{Code, Error};
use crate::run::record;
use protocol::Revision;

/// What a command did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Did {
    /// Nothing, for a reason that is no error.
    Waited,
    /// What it should.
    Done,
}

/// A run towards a revision.
pub(super) struct RunRequest<'a> {
    /// The command.
    pub command: &'static str,
    /// The revision.
    pub target: Revision,
    /// The window is open or does not matter.
    pub in_window: bool,
    /// The operator forced.
    pub force: bool,
    /// Every byte of the active version is looked at.
    pub every_byte: bool,
    /// What the commit changes in the settings.
    pub change: &'a dyn Fn(&mut Spec),
    /// The version left is refused.
    pub refuse_outgoing: bool,
    /// The snapshot that is asked for nothing but its digest.
    pub trusted: Option<SnapshotId>,
}

impl<'a> RunRequest<'a> {
    /// Towards `target`, insisting, as operators do.
    pub(super) fn new(command: &'static str, target: Revision, change: &'a dyn Fn(&mut Spec)) -> Self {
        let (refuse_outgoing, trusted) = (false, None);
        Self { command, target, in_window: true, force: true, every_byte: false, change, refuse_outgoing, trusted }
    }
}

/// An operator's target.
pub(super) fn target(revision: Revision, trust_snapshot: bool) -> Target {
    Target { revision, url: "https://cdn/archive".into(), trust_snapshot, over: plan::Over::Foreign }
}

impl Host {
    /// `update`.
    pub(super) fn update(&mut self, now: bool) -> Act<Did> {
        self.recover(false)?;
        if !self.updates.spec().enabled {
            return Ok(Did::Waited);
        }
        if self.resume_watch()? {
            return fails(Code::Unhealthy, "it fell during its watch");
        }
        if self.updates.spec().pinned {
            return Ok(Did::Waited);
        }
        let target = self.wanted.revision();
        let is_linked = |name: &String| self.files.contains_key(&std::path::Path::new(LINK_DIR).join(name));
        let current = self.wanted.binaries().iter().all(is_linked)
            && self.updates.spec().active().as_ref() == Some(&target)
            && self.active() == Some(self.wanted)
            && self.versions.values().any(|version| version.rev == self.wanted && version.marker && version.sizes);
        if current {
            return Ok(Did::Waited);
        }
        let request =
            RunRequest { in_window: self.window || now, force: now, ..RunRequest::new("update", target, &|_| {}) };
        self.apply(&request)
    }

    /// `enable`.
    pub(super) fn enable(&mut self) -> Act<Did> {
        self.recover(false)?;
        let pinned = self.updates.spec().pinned_version.clone().filter(|_| self.updates.spec().pinned);
        let wanted = self.wanted.revision();
        let edition = self.active().map_or(wanted.edition, |active| active.revision().edition);
        let target = pinned.map_or(wanted, |version| Revision { version, edition });
        self.install("enable", target, &|spec| spec.enabled = true)
    }

    /// `pin`, to `rev` or the present version.
    pub(super) fn pin(&mut self, rev: Option<Rev>) -> Act<Did> {
        self.recover(false)?;
        let Some(active) = self.active() else {
            return fails(Code::EditionUnknown, "nothing is installed");
        };
        let target = rev.map_or(active, |rev| Rev { enterprise: active.enterprise, ..rev }).revision();
        let version = target.version.clone();
        self.install("pin", target, &move |spec| {
            spec.pinned = true;
            spec.pinned_version = Some(version.clone());
        })
    }

    fn install(&mut self, command: &'static str, target: Revision, change: &dyn Fn(&mut Spec)) -> Act<Did> {
        if self.updates.spec().min_version.as_ref().is_some_and(|floor| target.version < *floor) {
            return fails(Code::BelowMinVersion, "below min_version");
        }
        self.apply(&RunRequest::new(command, target, change))
    }

    /// `unpin` and `disable`.
    pub(super) fn settings(&mut self, change: &dyn Fn(&mut Spec)) -> Act<Did> {
        self.recover(false)?;
        let mut spec = self.updates.spec().clone();
        change(&mut spec);
        self.tick()?;
        self.updates.set_spec(&spec);
        Ok(Did::Done)
    }

    /// `rollback`.
    pub(super) fn rollback(&mut self) -> Act<Did> {
        self.recover(false)?;
        let status = self.updates.status();
        let is_refused = |previous: &Revision| status.refused.iter().any(|refused| refused.revision == *previous);
        let Some(previous) = status.previous.clone().filter(|previous| !is_refused(previous)) else {
            return fails(Code::NoPrevious, "there is no last working version");
        };
        let version = previous.version.clone();
        let change = |spec: &mut Spec| spec.follow(&version);
        self.apply(&RunRequest { refuse_outgoing: true, ..RunRequest::new("rollback", previous, &change) })
    }

    /// `verify --repair`.
    pub(super) fn repair(&mut self) -> Act<Did> {
        self.recover(false)?;
        let Some(active) = self.active() else {
            return fails(Code::Damaged, "no version is active");
        };
        let spec = self.updates.spec().clone();
        if plan::move_to(&self.facts(&spec, None, true), &target(active.revision(), false))?.is_empty() {
            return Ok(Did::Waited);
        }
        self.apply(&RunRequest { every_byte: true, ..RunRequest::new("verify --repair", active.revision(), &|_| {}) })
    }

    /// `uninstall --force`.
    pub(super) fn uninstall(&mut self) -> Act<Did> {
        self.recover(false)?;
        let facts = self.facts(&self.updates.spec().clone(), None, false);
        let plan = plan::uninstall(&facts, &[]);
        self.execute(&plan, "uninstall", "", &|_, _, _| {})?;
        Ok(Did::Done)
    }

    /// Finishes or undoes what was interrupted.
    pub(super) fn recover(&mut self, boot: bool) -> Act {
        let opened = Journal::open(&self.journal_dir, std::path::Path::new("/"))?;
        if let Some(mut journal) = opened {
            let plan = journal.opening()?.plan.clone();
            let pending = !journal.is_closed();
            if !pending {
                journal.close()?;
            } else if journal.is_committed() {
                self.finish(&plan, journal, boot)?;
            } else {
                self.append(&mut journal, Record::Recover)?;
                self.undo_run(&plan, journal, &Error::new(Code::Interrupted, "interrupted"), false, boot)?;
            }
            if pending {
                self.step_clock(1);
            }
        }
        if !boot {
            self.prepared = None;
        }
        self.recovered = Some(Box::new(self.clone()));
        Ok(())
    }

    fn apply(&mut self, request: &RunRequest<'_>) -> Act<Did> {
        let facts = self.facts_for(request);
        let ask = Request {
            wanted: request.target.clone(),
            in_window: request.in_window,
            force: request.force,
            announced: None,
            terms: decide::Terms::default(),
        };
        match decide::decide(&facts, &ask, self.updates.spec().min_version.as_ref()) {
            Decision::Wait(_) => return Ok(Did::Waited),
            Decision::Refuse(error) => return Err(error.into()),
            Decision::Proceed => {}
        }
        let mut plan = self.replan(request, &facts)?;
        if !plan.prepare.is_empty() {
            match self.prepare(&plan) {
                Err(Stop::Failed(error)) if error.code == Code::Damaged => {
                    let mut facts = self.facts_for(request);
                    let same = |known: &&mut plan::facts::Installed| known.revision == request.target;
                    facts.installed.iter_mut().filter(same).for_each(|known| known.intact = false);
                    plan = self.replan(request, &facts)?;
                    self.prepare(&plan)?;
                }
                other => other?,
            }
            plan = self.replan(request, &self.facts_for(request))?;
            plan.prepare.clear();
        }
        if plan.is_empty() {
            return self.commit_without_move(request);
        }
        let mut spec = self.updates.spec().clone();
        (request.change)(&mut spec);
        let proxy = spec.proxy.unwrap_or_default();
        self.execute(&plan, request.command, &proxy, &|updates, snapshot, now| {
            let refused = updates.status().refused.clone();
            record::committed(updates, &plan, request.change, snapshot, now);
            if let (true, Some(left)) = (request.refuse_outgoing, &plan.from) {
                let mut status = updates.status().clone();
                if let Some(last) = &mut status.last_result {
                    last.outcome = Outcome::RolledBack;
                }
                status.refused = refused;
                status.refused.retain(|refused| plan.to.as_ref() != Some(&refused.revision));
                record::add_refusal(&mut status, left, "left", "rolled_back", now);
                status.watch = None;
                updates.set_status(&status);
            }
        })?;
        let watches = plan.switch.iter().any(|step| matches!(step, Step::Health { failing: false, .. }));
        if watches && plan.direction != Direction::Same && self.watch()? {
            return fails(Code::Unhealthy, "it fell during its watch");
        }
        Ok(Did::Done)
    }

    fn facts_for(&self, request: &RunRequest<'_>) -> Facts {
        let mut spec = self.updates.spec().clone();
        (request.change)(&mut spec);
        self.facts(&spec, request.trusted, request.every_byte)
    }

    fn replan(&self, request: &RunRequest<'_>, facts: &Facts) -> Act<Plan> {
        let target = target(request.target.clone(), request.trusted.is_some());
        let plan = plan::move_to(facts, &target)?;
        if plan.database == Database::Keep {
            return Ok(plan);
        }
        let kept = plan.to_dir.as_ref().and_then(|dir| self.versions.get(dir)?.backup.as_ref());
        if kept.is_some_and(|kept| kept.good) {
            return Ok(plan);
        }
        let mut facts = facts.clone();
        facts.installed.iter_mut().filter(|known| known.revision == request.target).for_each(|known| {
            known.snapshot = Snapshot::Unusable(Error::new(Code::BackupInvalid, "other bytes"));
        });
        Ok(plan::move_to(&facts, &target)?)
    }

    fn prepare(&mut self, plan: &Plan) -> Act {
        plan.prepare.iter().try_for_each(|step| self.perform(plan, step, "").map(|_| ()))
    }

    fn commit_without_move(&mut self, request: &RunRequest<'_>) -> Act<Did> {
        let mut spec = self.updates.spec().clone();
        (request.change)(&mut spec);
        spec.active_version = Some(request.target.version.clone());
        spec.active_edition = Some(request.target.edition);
        self.tick()?;
        self.updates.set_spec(&spec);
        if request.force && self.updates.status().watch.is_none() {
            let mut status = self.updates.status().clone();
            status.refused.retain(|refused| refused.revision != request.target);
            self.updates.set_status(&status);
        }
        Ok(Did::Done)
    }

    fn execute(
        &mut self,
        plan: &Plan,
        command: &str,
        proxy: &str,
        commit_settings: &dyn Fn(&mut Updates, Option<SnapshotId>, jiff::Timestamp),
    ) -> Act {
        self.tick()?;
        let opening = Opening { command: command.to_owned(), time: self.now, ..opening(plan) };
        let mut journal = Journal::create(&self.journal_dir, opening)?;
        match self.switch(plan, &mut journal, proxy, commit_settings) {
            Ok(()) => self.finish(plan, journal, false),
            Err(Stop::Failed(error)) => {
                self.undo_run(plan, journal, &error, error.code == Code::Unhealthy, false)?;
                Err(error.into())
            }
            Err(Stop::Killed) => Err(Stop::Killed),
        }
    }

    fn switch(
        &mut self,
        plan: &Plan,
        journal: &mut Journal,
        proxy: &str,
        commit_settings: &dyn Fn(&mut Updates, Option<SnapshotId>, jiff::Timestamp),
    ) -> Act {
        self.tick()?;
        for (index, step) in plan.switch.iter().enumerate() {
            self.append(journal, Record::Intent { step: index })?;
            let note = self.perform(plan, step, proxy)?;
            self.append(journal, Record::Done { step: index, note })?;
        }
        if plan.direction != Direction::Uninstall {
            let mut next = self.updates.clone();
            commit_settings(&mut next, journal.snapshot(), self.now);
            self.next = Some(next);
            self.tick()?;
        }
        self.append(journal, Record::Commit)
    }

    /// Undoes all steps of a run, records its failure and ends its journal.
    fn undo_run(&mut self, plan: &Plan, mut journal: Journal, error: &Error, blame: bool, boot: bool) -> Act {
        if journal.undo_reason().is_none() {
            let record = Record::Undo { code: error.code.as_str().to_owned(), reason: error.what.clone(), blame };
            self.append(&mut journal, record)?;
        }
        for index in journal.to_undo() {
            self.undo(&plan.switch[index], &mut journal, boot)?;
            self.append(&mut journal, Record::Undone { step: index })?;
        }
        self.remove_unmanaged();
        self.next = None;
        self.tick()?;
        self.show_evidence();
        record::undone(&journal, &mut self.updates, &self.journal_dir, self.now)?;
        self.tick()?;
        self.append(&mut journal, Record::Closed)?;
        Ok(journal.close()?)
    }

    fn finish(&mut self, plan: &Plan, mut journal: Journal, boot: bool) -> Act {
        if let Some(next) = self.next.take() {
            self.updates = next;
        }
        self.tick()?;
        for step in &plan.after {
            if boot && matches!(step, Step::Retire { .. }) {
                return Ok(());
            }
            self.perform(plan, step, "")?;
        }
        if plan.direction == Direction::Uninstall {
            self.updates = Updates::empty(self.updates.file());
        }
        self.remove_unmanaged();
        self.append(&mut journal, Record::Closed)?;
        Ok(journal.close()?)
    }

    /// The watch that follows a commit. True: the version fell and the one before is back.
    fn watch(&mut self) -> Act<bool> {
        self.tick()?;
        if self.updates.status().watch.is_none() {
            return Ok(false);
        }
        if self.nature() == Some(Nature::Falls) && self.process.is_some() {
            self.process = None;
            self.failed = true;
            return self.back();
        }
        self.end_watch()?;
        Ok(false)
    }

    fn resume_watch(&mut self) -> Act<bool> {
        let Some(watch) = self.updates.status().watch.clone() else { return Ok(false) };
        if self.updates.spec().active().as_ref() != Some(&watch.revision) {
            return Ok(false);
        }
        if self.failed {
            return self.back();
        }
        if watch.until > self.now { self.watch() } else { self.end_watch().map(|()| false) }
    }

    fn end_watch(&mut self) -> Act {
        let mut status = self.updates.status().clone();
        if let Some(watch) = status.watch.take() {
            status.refused.retain(|refused| refused.revision != watch.revision);
            self.tick()?;
            self.updates.set_status(&status);
        }
        let facts = self.facts(&self.updates.spec().clone(), None, false);
        if facts.keep == 1 {
            for dir in retention::after_watch(&facts) {
                self.tick()?;
                self.versions.remove(&dir);
            }
        }
        Ok(())
    }

    fn back(&mut self) -> Act<bool> {
        let Some(watch) = self.updates.status().watch.clone() else { return Ok(false) };
        let Some(previous) = watch.previous else {
            return fails(Code::Unhealthy, "there is no version before it");
        };
        let version = previous.version.clone();
        let change = |spec: &mut Spec| spec.follow(&version);
        let request = RunRequest {
            refuse_outgoing: true,
            trusted: watch.snapshot,
            ..RunRequest::new("watch", previous, &change)
        };
        self.apply(&request)?;
        Ok(true)
    }

    /// Sets the clock.
    pub(super) fn step_clock(&mut self, seconds: i64) {
        self.now = self.now.saturating_add(SignedDuration::from_secs(seconds)).unwrap();
    }

    /// Removes a link that the version in use needs.
    pub(super) fn lose_link(&mut self, name: &str) {
        let path = std::path::Path::new(LINK_DIR).join(name);
        if matches!(self.files.get(&path), Some(Entry::Link(_))) {
            self.files.remove(&path);
        }
    }
}
