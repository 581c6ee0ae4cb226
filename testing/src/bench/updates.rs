//! The update itself, each way beside the others: time in interleaved rounds; then, in runs that are not timed, memory,
//! disk and system calls.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use serde_json::json;

use crate::bench::host::{Roots, Template};
use crate::bench::lab::{Lab, Sized};
use crate::bench::run::{self, Needs};
use crate::bench::ways::{Ready, Way};

/// The version that hosts are on before.
const BEFORE: &str = "1.0.0";

/// Bytes: with a larger archive only the updater's calls are counted. Those of shell pipes are millions: minutes of strace,
/// and grow as the archive does.
const COUNTED: u64 = 200_000_000;

/// What was measured with an archive of one size.
#[derive(Debug, Clone)]
pub struct Updates {
    /// The archive.
    pub sized: Sized,
    /// Seconds of each round.
    pub times: HashMap<Way, Vec<f64>>,
    /// What a run needs.
    pub needs: HashMap<Way, Needs>,
    /// System calls of a run.
    pub calls: HashMap<Way, u64>,
}

impl Updates {
    /// Seconds of each round of the limit: the larger of its halves.
    pub fn limit(&self) -> Vec<f64> {
        let half = |way| self.times.get(&way).map_or(&[][..], Vec::as_slice);
        half(Way::Inflate).iter().zip(half(Way::Write)).map(|(inflate, write)| inflate.max(*write)).collect()
    }
}

/// Measures archives of these `sizes` (MB), each in so many rounds.
///
/// # Errors
/// A way that fails.
pub fn measure(lab: &Lab, sizes: &[(u64, usize)]) -> io::Result<Vec<Updates>> {
    lab.server.publish(BEFORE, json!({"updater": false}))?;
    let template = Template::new(lab, BEFORE, Roots::System)?;
    let mut found = Vec::new();
    for (number, &(megabytes, rounds)) in sizes.iter().enumerate() {
        eprintln!("update: making an archive of {megabytes} MB");
        let sized = lab.publish(&format!("{}.0.0", number + 2), megabytes)?;
        let ways: Vec<Way> =
            Way::ALL.into_iter().filter(|way| *way != Way::Sysupdate || lab.sysupdate.is_ok()).collect();
        let mut updates = Updates { sized, times: HashMap::new(), needs: HashMap::new(), calls: HashMap::new() };
        for round in 0..rounds {
            eprintln!("update: {megabytes} MB, round {} of {rounds}", round + 1);
            for &way in &ways {
                let took = time(lab, &template, way, &updates.sized)?;
                updates.times.entry(way).or_default().push(took);
            }
        }
        for way in ways.into_iter().filter(|way| way.is_whole()) {
            eprintln!("update: {megabytes} MB, what {} needs", way.label());
            updates.needs.insert(way, needs(lab, &template, way, &updates.sized, lab.memory())?);
            if way != Way::Update && updates.sized.release.size > COUNTED {
                continue;
            }
            let mut ready = Ready::new(lab, &template, way, &updates.sized, lab.memory())?;
            let calls = ready.system_calls();
            updates.calls.insert(way, ready.judge(calls)?);
        }
        found.push(updates);
    }
    Ok(found)
}

fn time(lab: &Lab, template: &Template, way: Way, sized: &Sized) -> io::Result<f64> {
    let mut ready = Ready::new(lab, template, way, sized, lab.work())?;
    lab.settle(sized)?;
    let took = run::timed(|| ready.start());
    ready.judge(took).map(|took| took.as_secs_f64())
}

fn needs(lab: &Lab, template: &Template, way: Way, sized: &Sized, disk: &Path) -> io::Result<Needs> {
    let mut ready = Ready::new(lab, template, way, sized, disk)?;
    lab.settle(sized)?;
    let found = run::needs(disk, || ready.start());
    ready.judge(found)
}
