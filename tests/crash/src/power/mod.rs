//! Power cuts: a flow runs on a real file system, on a disk that notes each write and flush; what a cut could have left of
//! it is mounted again, so that the kernel replays its journal, and checked.
//!
//! A cut keeps what was written before the last flush, and of what came later nothing, some writes, some sectors, or all
//! but the end of the last write.

mod fuse;
mod image;
mod loop_device;
mod recording;
mod volume;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

pub use fuse::{Disk, Event};
pub use image::Image;
pub use recording::{Cut, Fate, Recording};
pub use volume::{Kind, Volume, cannot, own_mounts};

use crate::{Flow, Found, Random};

/// Cuts that are checked at a time.
const WORKERS: usize = 2;

/// What the cuts of one flow came to.
#[derive(Debug, Default)]
pub struct Tally {
    /// Cuts tried.
    pub cuts: usize,
    /// Found in the old state.
    pub old: usize,
    /// Found in the new one.
    pub new: usize,
    /// What was found wrong.
    pub violations: Vec<String>,
}

impl Tally {
    fn add(&mut self, found: Result<Found, String>) {
        self.cuts += 1;
        match found {
            Ok(Found::Old) => self.old += 1,
            Ok(Found::New) => self.new += 1,
            Err(violation) => self.violations.push(violation),
        }
    }
}

/// A recorded flow on a kind of file system.
pub struct Bed<'f> {
    flow: &'f Flow,
    kind: Kind,
    recording: Recording,
}

impl<'f> Bed<'f> {
    /// Records `flow` on the file system `empty`.
    ///
    /// # Errors
    /// See [`Recording::of_flow`].
    pub fn new(flow: &'f Flow, kind: Kind, empty: &Image) -> Result<Self, String> {
        Ok(Self { flow, kind, recording: Recording::of_flow(flow, kind, empty)? })
    }

    /// What was recorded.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// Tries `cuts` of `recording`, in parallel.
    pub fn try_all(&self, recording: &Recording, cuts: &[Cut]) -> Tally {
        let (next, tally) = (AtomicUsize::new(0), Mutex::new(Tally::default()));
        std::thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| {
                    while let Some(cut) = cuts.get(next.fetch_add(1, Ordering::SeqCst)) {
                        let found = self.try_one(recording, cut);
                        tally.lock().unwrap_or_else(PoisonError::into_inner).add(found);
                    }
                });
            }
        });
        tally.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Mounts what `cut` left of `recording`, and checks it.
    ///
    /// # Errors
    /// A violation.
    pub fn try_one(&self, recording: &Recording, cut: &Cut) -> Result<Found, String> {
        let what = format!("{}, {cut}", self.kind.name());
        let volume = Volume::mount(self.kind, recording.image(cut))
            .map_err(|error| format!("{}: {what}: cannot mount: {error}", self.flow.name))?;
        let found = self.flow.check(&volume.root(), &what, cut.boot())?;
        match cut.promised {
            Some(promised) if promised != found => {
                Err(format!("{}: {what}: found {found:?} after {promised:?} had been promised", self.flow.name))
            }
            _ => Ok(found),
        }
    }

    /// Tries cuts of recoveries from cuts: `first` of the flow's own, `second` of each recovery.
    pub fn try_twice(&self, seed: u64, first: usize, second: usize) -> Tally {
        let mut random = Random::new(seed);
        let mut tally = Tally::default();
        for cut in random.some(&self.recording.cuts(seed), first) {
            match self.recording.of_recovery(self.flow, self.kind, &cut) {
                Ok(recovery) => {
                    let cuts = random.some(&recovery.cuts(seed), second);
                    let tried = self.try_all(&recovery, &cuts);
                    tally.cuts += tried.cuts;
                    tally.old += tried.old;
                    tally.new += tried.new;
                    let after = tried.violations.into_iter().map(|violation| format!("after {cut}: {violation}"));
                    tally.violations.extend(after);
                }
                Err(violation) => tally.add(Err(format!("{}: {cut}: {violation}", self.flow.name))),
            }
        }
        tally
    }
}
