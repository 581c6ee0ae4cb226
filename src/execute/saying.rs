//! Says what a run has done: a line for each phase, each step with `--debug`, nothing while the agent is stopped.

use std::ops::Range;
use std::time::Instant;

use super::Site;
use super::journal::Note;
use crate::database::SnapshotId;
use crate::plan::{Plan, Seen, Step};
use crate::report::Result;

/// The voice of one switch.
pub(super) struct Saying<'a> {
    site: &'a Site<'a>,
    plan: &'a Plan,
    downtime: Range<usize>,
    /// The steps of the downtime: a terminal that takes no lines must not keep the agent waiting.
    unsaid: Vec<String>,
    since: Instant,
    seen: Seen,
}

impl<'a> Saying<'a> {
    pub(super) fn new(site: &'a Site<'a>, plan: &'a Plan) -> Self {
        let (downtime, since) = (plan.downtime(), Instant::now());
        Self { site, plan, downtime, unsaid: Vec::new(), since, seen: Seen::default() }
    }

    /// Before a step.
    pub(super) fn before(&self, step: &Step) {
        if let Step::Health { .. } = step {
            self.site.report.waiting(&format!("waiting until {} is healthy", self.plan.name()));
        }
    }

    /// After the step at `index`.
    pub(super) fn after(&mut self, index: usize, step: &Step, performed: &Result<Note>) {
        self.unsaid.extend(performed.is_ok().then(|| step.describe()));
        if performed.is_ok() && self.downtime.contains(&index) {
            return self.notice(step, performed);
        }
        self.unsaid.drain(..).for_each(|line| self.site.report.debug(&format!("done: {line}")));
        self.notice(step, performed);
        let stopped = self.site.stopped_at.get().filter(|_| index == self.downtime.end);
        self.seen.took = stopped.unwrap_or(self.since).elapsed();
        if let Some(line) = performed.as_ref().ok().and_then(|_| self.plan.said_in_switch(index, &self.seen)) {
            self.site.report.done(&line);
            self.since = Instant::now();
        }
    }

    fn notice(&mut self, step: &Step, performed: &Result<Note>) {
        let Ok(note) = performed else { return };
        self.seen.no_database |= note.snapshot == Some(SnapshotId::Absent);
        self.seen.none_restored |= matches!(step, Step::PrepareRestore { .. }) && note.file.is_none();
        self.seen.restarted |= self.site.restarted.get();
    }
}
