//! Hours of rollouts and faults, and what servers need meanwhile.

use std::path::Path;
use std::time::{Duration, Instant};

use super::rounds::Run;
use super::world::Plan;

/// Slow hosts, rare faults: a fifth of a processor.
fn slow() -> Plan {
    Plan {
        asks: (2000, 6000),
        updates: (1000, 4000),
        commands: (5000, 30_000),
        pauses: (10_000, 40_000),
        lasts: (1000, 8000),
        troubled: Duration::from_secs(120),
        reports: Duration::from_secs(60),
        turns: false,
        spares_first: true,
    }
}

/// Between two samples.
const SAMPLE_EVERY: Duration = Duration::from_secs(60);
/// What a server needs until it has done everything once.
const WARM_UP: Duration = Duration::from_secs(900);
/// Memory at the end, ÷ most of it until the warm-up was over; and descriptors that come and go with connections.
const MOST_GROWTH: (f64, usize) = (1.25, 16);

/// What a process has.
#[derive(Debug, Clone, Copy)]
struct Sample {
    at: Duration,
    kib: usize,
    descriptors: usize,
}

fn sample(pid: u32, at: Duration) -> Option<Sample> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.split_whitespace().next()?.parse().ok()?;
    Some(Sample { at, kib, descriptors: std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() })
}

/// Runs `nodes` servers (1: with a file) for `lasts`. Gives a table of what the first one had, and what must not have been; `None`,
/// and said: there is no PostgreSQL here.
pub fn soak(program: &Path, nodes: usize, lasts: Duration) -> Option<(String, Vec<String>)> {
    let mut run = Run::start(program, slow(), nodes, 1)?;
    let (begun, pid) = (Instant::now(), run.world.nodes[0].pid()?);
    let samples = std::thread::spawn(move || {
        let mut samples = Vec::new();
        while let Some(sample) = sample(pid, begun.elapsed()).filter(|_| begun.elapsed() < lasts) {
            eprintln!(
                "{nodes} nodes, {} s: {} KiB, {} descriptors",
                sample.at.as_secs(),
                sample.kib,
                sample.descriptors
            );
            samples.push(sample);
            std::thread::sleep(SAMPLE_EVERY.min(lasts / 10));
        }
        samples
    });
    let mut seed = 0;
    while begun.elapsed() < lasts {
        seed += 1;
        run.round(seed);
    }
    let is_same = run.world.nodes[0].pid() == Some(pid);
    let figures = run.end();
    let samples = samples.join().unwrap();
    let mut wrong: Vec<String> = figures.violations().cloned().collect();
    if !is_same {
        wrong.push("the first node is another process".to_owned());
    }
    let warm = WARM_UP.min(lasts / 4);
    let most = |samples: &mut dyn Iterator<Item = &Sample>| {
        samples.fold((0, 0), |(kib, fds), sample| (sample.kib.max(kib), sample.descriptors.max(fds)))
    };
    let early = most(&mut samples.iter().filter(|sample| sample.at <= warm));
    let late = most(&mut samples.iter().filter(|sample| sample.at > lasts * 3 / 4));
    if late.0 as f64 > early.0 as f64 * MOST_GROWTH.0 || late.1 > early.1 + MOST_GROWTH.1 {
        wrong.push(format!("it grows: {early:?} KiB and descriptors in the first {warm:?}, then {late:?}"));
    }
    let hours = begun.elapsed().as_secs_f64() / 3600.0;
    let line = format!(
        "{nodes} nodes, {hours:.2} h: {} KiB and {} descriptors at most in the first {} min, {} and {} in the last quarter\n",
        early.0,
        early.1,
        warm.as_secs() / 60,
        late.0,
        late.1
    );
    Some((line + &figures.table(), wrong))
}
