//! Power cuts: a flow runs on a real file system, on a disk that notes each write and flush; what a cut could have left of
//! it is mounted again, so that the kernel replays its journal, and checked.
//!
//! A cut keeps what was written before the last flush, and of what came later nothing, some writes, some sectors, or all
//! but the end of the last write. Where the command had ended before the cut, its outcome has to be there.
//!
//! Everything is mounted in a mount namespace of one thread, on loop devices that the kernel frees with their last user,
//! over FUSE files that are attached to no path: whatever kills the bed, nothing stays mounted or in use.

pub mod disk;
mod image;
mod loop_device;
mod recording;
mod volume;

use std::path::Path;

pub use disk::{Disk, Event};
pub use image::Image;
pub use recording::{Cut, Fate, Recording};
pub use volume::{Kind, Volume};

use crate::crash::flow::{Flow, Found};
use crate::crash::random::Random;
use crate::crash::suite::{Options, Row, explore};

/// Cuts of a flow from which a recovery is recorded, and cuts of each of these.
const TWICE: (usize, usize) = (10, 12);

/// Most cuts of a flow beside which somebody else syncs: the slower the machine, the more there are.
const BUSY: usize = 400;

/// Power cuts on ext4.
pub fn ext4(options: &Options) -> Vec<Row> {
    on(Kind::Ext4, options, alone)
}

/// Power cuts on ext4 without its ordering of data and metadata.
pub fn ext4_writeback(options: &Options) -> Vec<Row> {
    on(Kind::Ext4Writeback, options, alone)
}

/// Power cuts on xfs.
pub fn xfs(options: &Options) -> Vec<Row> {
    on(Kind::Xfs, options, alone)
}

/// Power cuts on ext4 while somebody else syncs all the time.
pub fn busy(options: &Options) -> Vec<Row> {
    on(Kind::Ext4, options, in_company)
}

/// Power cuts while recovering from a power cut, a sample, on ext4.
pub fn recovery(options: &Options) -> Vec<Row> {
    on(Kind::Ext4, options, twice)
}

/// Why there can be no power cuts on `kind` here, if there can be none.
pub fn cannot(kind: Kind) -> Option<String> {
    volume::cannot().or_else(|| kind.missing())
}

/// Why the suite of that name cannot run here, if it is one of these and cannot.
pub fn cannot_run(suite: &str) -> Option<String> {
    match suite {
        "power-ext4" | "power-busy" | "power-recovery" => cannot(Kind::Ext4),
        "power-writeback" => cannot(Kind::Ext4Writeback),
        "power-xfs" => cannot(Kind::Xfs),
        _ => None,
    }
}

/// A row of each wanted flow on `kind`; none, and a line that says why, where it cannot be had.
fn on(kind: Kind, options: &Options, row: fn(&Flow, Kind, &Image, &Options) -> Row) -> Vec<Row> {
    if let Some(reason) = cannot(kind) {
        println!("skipped: power cuts on {}: {reason}", kind.name());
        return Vec::new();
    }
    in_own_mounts(|| {
        let empty = kind.make().unwrap_or_else(|error| panic!("a new {}: {error}", kind.name()));
        options.all_flows().map(|flow| row(&flow, kind, &empty, options)).collect()
    })
}

/// Runs `work` on a thread with mounts of its own, which those that it starts share.
///
/// # Panics
/// If `work` does, or this process may have no such mounts; see [`cannot`].
pub fn in_own_mounts<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            volume::own_mounts().unwrap();
            work()
        });
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

fn alone(flow: &Flow, kind: Kind, empty: &Image, options: &Options) -> Row {
    once(flow, kind, options, Recording::of_flow(flow, kind, empty, false), usize::MAX)
}

fn in_company(flow: &Flow, kind: Kind, empty: &Image, options: &Options) -> Row {
    once(flow, kind, options, Recording::of_flow(flow, kind, empty, true), BUSY)
}

fn once(flow: &Flow, kind: Kind, options: &Options, recording: Result<Recording, String>, most: usize) -> Row {
    let recording = recording.unwrap_or_else(|reason| panic!("{reason}"));
    let cuts = Random::new(options.seed).some(&recording.cuts(options.seed), most);
    let cuts = taken(cuts, options);
    explore(options, flow.name, &cuts, |cut, boot| try_cut(flow, kind, &recording, cut, "", boot))
}

fn twice(flow: &Flow, kind: Kind, empty: &Image, options: &Options) -> Row {
    let recording = Recording::of_flow(flow, kind, empty, false).unwrap_or_else(|reason| panic!("{reason}"));
    let mut random = Random::new(options.seed);
    let recoveries = random.some(&recording.cuts(options.seed), TWICE.0).into_iter().map(|first| {
        let boot = random.below(2) == 0;
        let recovery = recover(flow, kind, recording.image(&first), boot, first.promised);
        (first, recovery)
    });
    let recoveries: Vec<(Cut, Result<Recording, String>)> = recoveries.collect();
    let mut points = Vec::new();
    for (first, recovery) in &recoveries {
        match recovery {
            Ok(recovery) => {
                let cuts = random.some(&recovery.cuts(options.seed), TWICE.1);
                points.extend(cuts.into_iter().map(|cut| (first, Ok((recovery, cut)))));
            }
            Err(reason) => points.push((first, Err(reason))),
        }
    }
    explore(options, flow.name, &taken(points, options), |(first, second), boot| match second {
        Ok((recovery, cut)) => try_cut(flow, kind, recovery, cut, &format!("{first}, in its recovery "), boot),
        Err(reason) => Err(format!("{}: {}: {first}: {reason}", flow.name, kind.name())),
    })
}

fn taken<T>(all: Vec<T>, options: &Options) -> Vec<T> {
    all.into_iter().enumerate().filter(|(number, _)| options.takes(*number)).map(|(_, one)| one).collect()
}

/// Records the recovery of `flow` on the disk `left`: what it comes to when nothing disturbs it is what it has promised at
/// its end. What the flow itself had `promised` holds all along.
fn recover(flow: &Flow, kind: Kind, left: Image, boot: bool, promised: Option<Found>) -> Result<Recording, String> {
    Recording::of(
        kind,
        left,
        promised,
        |root| {
            let args = crate::crash::host::words(if boot { "recover --boot" } else { "recover" });
            let output = flow.run(root, &args);
            if output.status.success() { Ok(()) } else { Err(format!("{args:?}: {output:?}")) }
        },
        |root| if boot { flow.found_at_boot(root) } else { flow.found(root) },
    )
}

/// Mounts what `cut` left of `recording`, recovers and checks it.
fn try_cut(
    flow: &Flow,
    kind: Kind,
    recording: &Recording,
    cut: &Cut,
    before: &str,
    boot: bool,
) -> Result<Found, String> {
    let what = format!("{}: {before}{cut}", kind.name());
    let volume = Volume::mount(kind, recording.image(cut))
        .map_err(|error| format!("{}: {what}: cannot mount: {error}", flow.name))?;
    let root = volume.root();
    let found = flow.check(&root, &what, boot).map_err(|violation| without(&root, &violation))?;
    match cut.promised {
        Some(promised) if promised != found => {
            Err(format!("{}: {what}: {found:?}, after the command had ended with {promised:?}", flow.name))
        }
        _ => Ok(found),
    }
}

fn without(root: &Path, text: &str) -> String {
    crate::crash::suites::without(root, text)
}
