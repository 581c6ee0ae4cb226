//! A run that is cut short, and what its recovery must make of the host.

use std::path::Path;

use proptest::prelude::*;

use super::pending::Pending;
use super::reference::{Mark, Reference, Stage, Whole};
use super::seen::{copy_of, open_journal, same, seen};
use super::sequence::World;
use super::world::Rev;
use crate::execute::journal::{Journal, Record};
use crate::plan::Step;

impl World {
    /// What the recovery of `pending` must make of the host, run or boot aside.
    pub(super) fn recovered(&self, pending: &Pending) -> Reference {
        let mut state = pending.state.clone();
        if let Some((target, touched)) = pending.undone {
            state.undone(target, touched);
        }
        state
    }

    /// A run was killed: what must its recovery make of the host?
    pub(super) fn killed(
        &mut self,
        pending: Option<Pending>,
        is_recovered: bool,
        base: Reference,
        expected: Reference,
        marks: &[Mark],
    ) -> Result<(), TestCaseError> {
        if !open_journal(&self.host) {
            // Between runs: one of the states that were passed.
            let mut candidates: Vec<Reference> = marks.iter().map(|mark| mark.state.clone()).collect();
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
            let mut found = marks.iter().rev().filter(|mark| mark.command == command && mark.stage == stage);
            found.next().map(|mark| mark.state.clone())
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
    pub(super) fn reconcile(
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
        // An active version that is not watched is refused nothing: its earlier failure goes with the next commit, be it that
        // only a link is put right.
        if let Some(active) =
            expected.active.filter(|rev| expected.watched.is_none() && !seen.refused.contains_key(rev))
        {
            expected.refused.remove(&active);
        }
        // The time at which it was written down lies in a recovery that may itself have been killed. Where the clock is set
        // back by seconds in between, a failure can be taken for the one before it, or be counted twice.
        let near = |count: u32, expected: u32| count == expected || (self.set_back && count.abs_diff(expected) == 1);
        for (rev, refused) in &mut expected.refused {
            let found = seen.refused.get(rev).filter(|(_, count)| near(*count, refused.1));
            if let Some(&found) = found.filter(|_| pending.is_some() || self.set_back) {
                *refused = found;
            }
        }
        let Some(pending) = pending else { return Ok(()) };
        // A failed agent that is to run is started again by an undo.
        if pending.booted || (expected.failed && expected.starts_at_boot) {
            expected.running = seen.running;
            expected.failed = seen.failed;
            // Whom a boot has started the undo leaves running, or starts again; unless the run then went on to a version that fell.
            let went_on = expected.active != pending.state.active;
            if pending.booted && expected.systemd && expected.starts_at_boot && pending.undone.is_some() && !went_on {
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
        for rev in pending.undone.iter().map(|(rev, _)| *rev) {
            let count = |state: &Reference| state.interrupted.get(&rev).copied().unwrap_or_default();
            if near(count(seen), count(expected)) {
                expected.interrupted.clone_from(&seen.interrupted);
            }
        }
        Ok(())
    }
}
