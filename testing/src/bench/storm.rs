//! A fleet that is told of a new version: who asks, downloads and reloads in which second. The place of a host in the
//! jitter is the updater's own function; the rest is the timer's arithmetic.

use protocol::{Edition, Revision, Version};

use crate::crash::Random;

/// Hosts.
pub const FLEET: usize = 100_000;
/// `agent_update_jitter_seconds` that are compared.
pub const JITTERS: [u32; 4] = [0, 60, 600, 3600];
/// Seconds a download takes: 180 MB at 10 MB/s, what a host of a fleet may get.
const DOWNLOAD: u32 = 18;
/// Bits per second of a download.
const RATE: f64 = 80e6;
/// Seconds from the last byte to the reload: checks, links, the copy of the database.
const SWITCH: u32 = 2;
/// Seconds that the run goes on after the reload: verdict and watch.
const WATCH: u32 = 66;
/// Of `teleport-update.timer`, seconds.
const ON_BOOT: u32 = 120;
/// The same.
const INTERVAL: u32 = 600;
/// The same: `RandomizedDelaySec`.
const RANDOM: u32 = 120;
/// Seconds: after a longer wait for its turn a host asks once more (`STALE_AFTER_SECONDS` of the command).
const STALE: u32 = 5;
/// Seconds that are looked at: the longest jitter, an interval, and what an update takes.
const HORIZON: usize = 3600 + 900;

/// How the hosts come to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The fleet has been up for long: the first to ask after the announcement are spread over the timer's interval.
    Steady,
    /// Power comes back: all boot in one second, and the version is waiting for them.
    Boot,
    /// Somebody runs `teleport-update update` on all of them in one second.
    AtOnce,
}

impl Start {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Steady, Self::Boot, Self::AtOnce];

    /// In a table.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Steady => "announced to a running fleet",
            Self::Boot => "all hosts boot in one second",
            Self::AtOnce => "`update` on all hosts in one second",
        }
    }
}

/// What a fleet does, second by second.
#[derive(Debug, Clone)]
pub struct Load {
    /// Find requests.
    pub asks: Vec<u32>,
    /// Downloads that begin.
    pub downloads: Vec<u32>,
    /// Downloads going on.
    pub concurrent: Vec<u32>,
    /// Agents that reload.
    pub reloads: Vec<u32>,
}

impl Load {
    /// Of `hosts` hosts that meet a new version with this jitter, seconds. Always the same.
    pub fn simulate(start: Start, jitter: u32, hosts: usize) -> Self {
        let target = target();
        let mut random = Random::new(1);
        let mut load = Self {
            asks: vec![0; HORIZON],
            downloads: vec![0; HORIZON],
            concurrent: vec![0; HORIZON],
            reloads: vec![0; HORIZON],
        };
        let count = |of: &mut Vec<u32>, second: u32| {
            if let Some(here) = of.get_mut(second as usize) {
                *here += 1;
            }
        };
        for host in 0..hosts {
            let mut upto = |end: u32| random.below(end as usize) as u32;
            let mut now = match start {
                Start::Steady => upto(INTERVAL + RANDOM / 2),
                Start::Boot => ON_BOOT + upto(RANDOM),
                Start::AtOnce => 0,
            };
            count(&mut load.asks, now);
            let wait = protocol::turn::seconds(&host_id(host), &target, jitter);
            now += wait;
            if wait > STALE {
                count(&mut load.asks, now);
            }
            count(&mut load.downloads, now);
            for second in now..now + DOWNLOAD {
                count(&mut load.concurrent, second);
            }
            now += DOWNLOAD + SWITCH;
            count(&mut load.reloads, now);
            now += WATCH;
            while (now as usize) < HORIZON {
                now += INTERVAL + upto(RANDOM);
                count(&mut load.asks, now);
            }
        }
        load
    }

    /// Gbit/s in the busiest second.
    pub fn gigabits(&self) -> f64 {
        f64::from(peak(&self.concurrent)) * RATE / 1e9
    }

    /// The second in which the last host has reloaded.
    pub fn end(&self) -> usize {
        self.reloads.iter().rposition(|&hosts| hosts > 0).unwrap_or(0)
    }
}

/// The busiest second of one kind.
fn peak(of: &[u32]) -> u32 {
    of.iter().copied().max().unwrap_or(0)
}

/// The rows of the table: a start and a jitter, and the busiest second of each kind.
pub fn table(hosts: usize) -> String {
    let mut rows = String::from(
        "| | jitter, s | find requests/s | downloads begun/s | at a time | Gbit/s | reloads/s | last host done, min |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|\n",
    );
    for start in Start::ALL {
        for jitter in JITTERS {
            let load = Load::simulate(start, jitter, hosts);
            rows += &format!(
                "| {} | {jitter} | {} | {} | {} | {:.0} | {} | {:.0} |\n",
                start.describe(),
                peak(&load.asks),
                peak(&load.downloads),
                peak(&load.concurrent),
                load.gigabits(),
                peak(&load.reloads),
                load.end() as f64 / 60.0,
            );
        }
    }
    rows
}

fn target() -> Revision {
    let version: Version = "18.3.1".parse().expect("a version");
    Revision { version, edition: Edition::Enterprise }
}

/// In the form of a random UUID, which host UUIDs and update ids are.
fn host_id(host: usize) -> String {
    let mut random = Random::new(host as u64 + 1);
    let mut part = || random.below(1 << 32);
    let (a, b, c, d) = (part(), part(), part(), part());
    format!("{a:08x}-{:04x}-4{:03x}-8{:03x}-{c:08x}{:04x}", b >> 16, b & 0xfff, d >> 20, d & 0xffff)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::statistics::{chi_square, chi_square_limit};

    /// One in a million by chance; the hosts are always the same, so that it passes always or never.
    const DOUBT: f64 = 4.753;

    #[test]
    fn the_jitter_is_uniform_over_a_fleet() {
        let target = target();
        for longest in [1, 60, 600, 3600] {
            let mut places = vec![0_u64; longest + 1];
            for host in 0..FLEET {
                places[protocol::turn::seconds(&host_id(host), &target, longest as u32) as usize] += 1;
            }
            let (found, limit) = (chi_square(&places), chi_square_limit(places.len(), DOUBT));
            assert!(found < limit, "jitter {longest}: chi-square {found:.0}, at most {limit:.0}");
        }
    }

    #[test]
    fn a_hosts_place_in_one_rollout_tells_nothing_of_its_place_in_the_next() {
        let next = Revision { version: "18.3.2".parse().unwrap(), ..target() };
        let mut pairs = vec![0_u64; 100];
        for host in 0..FLEET {
            let id = host_id(host);
            let [first, second] = [&target(), &next].map(|target| protocol::turn::seconds(&id, target, 9) as usize);
            pairs[first * 10 + second] += 1;
        }
        assert!(chi_square(&pairs) < chi_square_limit(pairs.len(), DOUBT));
    }

    #[test]
    fn every_host_downloads_and_reloads_once_and_a_longer_jitter_is_a_flatter_curve() {
        let hosts = 2000;
        for start in Start::ALL {
            let mut last = hosts as u32;
            for jitter in JITTERS {
                let load = Load::simulate(start, jitter, hosts);
                let sum = |of: &[u32]| of.iter().sum::<u32>() as usize;
                assert_eq!((sum(&load.downloads), sum(&load.reloads)), (hosts, hosts), "{start:?} {jitter}");
                assert_eq!(sum(&load.concurrent), hosts * DOWNLOAD as usize);
                let most = *load.concurrent.iter().max().unwrap();
                assert!(most <= last + last / 4, "{start:?} {jitter}: {most} after {last}");
                last = most;
            }
        }
    }

    #[test]
    fn the_pages_table_is_the_simulations() {
        let page = include_str!("../../../docs/performance.md");
        assert!(page.contains(&table(FLEET)), "not in docs/performance.md:\n{}", table(FLEET));
    }
}
