//! What one command did to a disk, and what a power cut could have left of it.

use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use super::disk::Event;
use super::image::Image;
use super::volume::{Kind, Volume};
use crate::crash::flow::{Flow, Found};
use crate::crash::random::Random;

/// Bytes that a disk writes wholly or not at all.
const SECTOR: usize = 512;
/// Bytes at the start of a disk that are never torn: the checksum of ext4's superblock is in another sector than what it
/// covers, and ext4 refuses to mount where only one of them was written.
const SUPERBLOCK: u64 = 4096;

/// The disk before a command, and what happened on it.
pub struct Recording {
    base: Image,
    events: Vec<Event>,
    /// From this many events on this outcome was promised, by the end of a command: recovery must find it.
    promised: [Option<(usize, Found)>; 2],
}

/// What becomes of the writes that no flush has covered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// None of them came to be: the cut is at the flush.
    Dropped,
    /// Each came to be or not, by itself.
    Mixed,
    /// Each of their sectors came to be or not, by itself.
    Scattered,
    /// All came to be, in order, but for the later sectors of the last one.
    Torn,
}

/// One power cut.
#[derive(Debug, Clone)]
pub struct Cut {
    /// The writes that no flush has covered.
    pending: Range<usize>,
    fate: Fate,
    seed: u64,
    /// What recovery must find, if the command had promised it.
    pub promised: Option<Found>,
}

impl std::fmt::Display for Cut {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "power cut, writes {:?} {:?} ({:#x})", self.pending, self.fate, self.seed)
    }
}

impl Recording {
    /// Records a `flow` from its image on, on the file system `empty`; if `busy`, somebody else syncs there all the time, so
    /// that the file system commits at any moment, and not only when the updater asks for it.
    ///
    /// # Errors
    /// The disk cannot be served or mounted here, or the command fails.
    pub fn of_flow(flow: &Flow, kind: Kind, empty: &Image, busy: bool) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {}: {error}", flow.name, kind.name());
        let volume = Volume::mount(kind, empty.clone()).map_err(failed)?;
        std::fs::create_dir(volume.root()).and_then(|()| flow.copy_to(&volume.root())).map_err(failed)?;
        let prepared = volume.unmount().map_err(failed)?;
        let run = |root: &Path| {
            let output = if busy {
                beside_a_neighbour(root, || flow.run(root, &flow.args)).map_err(failed)?
            } else {
                flow.run(root, &flow.args)
            };
            if output.status.success() { Ok(()) } else { Err(format!("{}: {}: {output:?}", flow.name, kind.name())) }
        };
        Self::of(kind, prepared, None, run, |_| Ok(Found::New))
    }

    /// Mounts `base` and records that, and what `run` does to it, until all of it is on the medium. When `run` has ended,
    /// its outcome is promised: what `outcome` then sees. Before that, what was `promised` already.
    ///
    /// # Errors
    /// It cannot be mounted, or `run` or `outcome` fails.
    pub fn of(
        kind: Kind,
        base: Image,
        promised: Option<Found>,
        run: impl FnOnce(&Path) -> Result<(), String>,
        outcome: impl FnOnce(&Path) -> Result<Found, String>,
    ) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", kind.name());
        let volume = Volume::mount(kind, base.clone()).map_err(failed)?;
        run(&volume.root())?;
        let ended = volume.disk().position();
        let promised = [promised.map(|found| (0, found)), Some((ended, outcome(&volume.root())?))];
        volume.sync().map_err(failed)?;
        let events = volume.disk().events();
        volume.unmount().map_err(failed)?;
        Ok(Self { base, events, promised })
    }

    /// The cuts at each flush, and one of each further fate between it and the next.
    pub fn cuts(&self, seed: u64) -> Vec<Cut> {
        let mut cuts = Vec::new();
        let mut random = Random::new(seed);
        let mut start = 0;
        for stretch in self.events.split(|event| matches!(event, Event::Flush)) {
            let pending = start..start + stretch.len();
            start = pending.end + 1;
            let mut cut = |pending: Range<usize>, fate| {
                let promised = self.promised.iter().flatten().filter(|(from, _)| *from <= pending.end);
                let promised = promised.map(|(_, found)| *found).next();
                cuts.push(Cut { pending, fate, seed: random.below(usize::MAX) as u64, promised });
            };
            // Nothing before the next flush: the cut there is the same one. But there is none after the last.
            if !pending.is_empty() || pending.end == self.events.len() {
                cut(pending.clone(), Fate::Dropped);
            }
            if !pending.is_empty() {
                cut(pending.clone(), Fate::Scattered);
                cut(pending.clone(), Fate::Torn);
            }
            if pending.len() > 1 {
                cut(pending, Fate::Mixed);
            }
        }
        cuts
    }

    /// The disk that `cut` leaves.
    pub fn image(&self, cut: &Cut) -> Image {
        let mut image = self.base.clone();
        let mut random = Random::new(cut.seed);
        for event in &self.events[..cut.pending.start] {
            event.apply(&mut image);
        }
        let pending = &self.events[cut.pending.clone()];
        match cut.fate {
            Fate::Dropped => {}
            Fate::Mixed => pending.iter().filter(|_| random.below(2) == 0).for_each(|event| event.apply(&mut image)),
            Fate::Scattered => {
                for event in pending {
                    by_sector(event, &mut image, |_, _| random.below(2) == 0);
                }
            }
            Fate::Torn => {
                let last = random.below(pending.len());
                pending[..last].iter().for_each(|event| event.apply(&mut image));
                let share = random.below(1000);
                by_sector(&pending[last], &mut image, |sector, of| sector * 1000 < of * share);
            }
        }
        image
    }
}

/// Runs `work` while a file beside `root` is written and synced over and over.
fn beside_a_neighbour<T>(root: &Path, work: impl FnOnce() -> T) -> std::io::Result<T> {
    let file = std::fs::File::create(root.with_extension("neighbour"))?;
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let neighbour = scope.spawn(|| {
            let mut length = 0;
            while !ended.load(Ordering::Relaxed) {
                length += 1;
                file.set_len(length)?;
                file.sync_all()?;
            }
            Ok(())
        });
        let done = work();
        ended.store(true, Ordering::Relaxed);
        neighbour.join().unwrap_or_else(|_| Err(std::io::Error::other("the neighbour panicked")))?;
        Ok(done)
    })
}

/// Does what `event` did to those sectors that are `kept` (number of the sector, of how many).
fn by_sector(event: &Event, image: &mut Image, mut kept: impl FnMut(usize, usize) -> bool) {
    match event {
        Event::Write(offset, bytes) => {
            let unit = if *offset < SUPERBLOCK { SUPERBLOCK as usize } else { SECTOR };
            let count = bytes.len().div_ceil(unit);
            for (sector, piece) in bytes.chunks(unit).enumerate() {
                if kept(sector, count) {
                    image.write(offset + (sector * unit) as u64, piece);
                }
            }
        }
        Event::Zero(offset, length) => {
            let count = (*length as usize).div_ceil(SECTOR);
            for sector in (0..count).filter(|sector| kept(*sector, count)) {
                image.zero(offset + (sector * SECTOR) as u64, SECTOR as u64);
            }
        }
        Event::Flush => {}
    }
}
