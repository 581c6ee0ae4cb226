//! Hosts and load over time.

use jiff::Timestamp;

/// A group's hosts over time: one sample for each time at which something changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupCurve(Vec<CurveSample>);

/// A group's hosts at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CurveSample {
    /// Seconds since the beginning.
    pub at: u64,
    /// Hosts that were let go.
    pub let_go: u64,
    /// Hosts that run the target.
    pub updated: u64,
    /// Hosts that failed or timed out.
    pub failed: u64,
}

impl GroupCurve {
    /// Adds a sample, where something is not as before.
    pub(super) fn add(&mut self, sample: CurveSample) -> bool {
        let is_news = self.0.last().is_none_or(|last| CurveSample { at: sample.at, ..*last } != sample);
        self.0.extend(is_news.then_some(sample));
        is_news
    }

    /// Every sample, in the order of time.
    pub fn samples(&self) -> &[CurveSample] {
        &self.0
    }

    /// How it was at `at`, seconds since the beginning.
    pub fn at(&self, at: u64) -> CurveSample {
        let after = self.0.partition_point(|sample| sample.at <= at);
        let last = after.checked_sub(1).and_then(|last| self.0.get(last)).copied();
        CurveSample { at, ..last.unwrap_or_default() }
    }
}

/// What servers carry.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerLoad {
    /// Minutes since the beginning in which something was downloaded or reported: downloads, reports.
    pub minutes: Vec<(u64, u64, u64)>,
    /// What a host downloads, bytes.
    pub size: u64,
    /// Hosts that ask.
    pub hosts: u64,
    /// Seconds between two questions of a host.
    pub every: u64,
}

impl ServerLoad {
    /// Counts a download, or a report, at a time after `begin`.
    pub(super) fn count(&mut self, begin: Timestamp, at: Timestamp, downloads: u64, reports: u64) {
        let minute = super::seconds(begin, at) / 60;
        match self.minutes.last_mut() {
            Some((last, in_it, reported)) if *last == minute => {
                *in_it += downloads;
                *reported += reports;
            }
            _ => self.minutes.push((minute, downloads, reports)),
        }
    }

    /// All downloads.
    pub fn downloads(&self) -> u64 {
        self.minutes.iter().map(|(_, downloads, _)| downloads).sum()
    }

    /// The minute with most downloads, and how many.
    pub fn busiest(&self) -> (u64, u64) {
        let busier = |a: &(u64, u64), b: &(u64, u64)| a.1.cmp(&b.1).then(b.0.cmp(&a.0));
        self.minutes.iter().map(|(minute, downloads, _)| (*minute, *downloads)).max_by(busier).unwrap_or_default()
    }

    /// Most bits a second from the CDN, over the busiest minute.
    pub fn bits_per_second(&self) -> u64 {
        self.busiest().1.saturating_mul(self.size).saturating_mul(8) / 60
    }

    /// Most reports in a minute, beyond those that hosts make anyway.
    pub fn most_reports(&self) -> u64 {
        self.minutes.iter().map(|(_, _, reports)| *reports).max().unwrap_or(0)
    }

    /// Questions a second that all hosts ask, in hundredths.
    pub fn questions(&self) -> u64 {
        (self.hosts * 100).checked_div(self.every).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_keeps_changes_alone_and_tells_what_was_between_them() {
        let mut curve = GroupCurve::default();
        for (at, updated) in [(0, 0), (60, 0), (120, 5), (180, 5), (240, 7)] {
            curve.add(CurveSample { at, updated, ..CurveSample::default() });
        }
        let times: Vec<u64> = curve.samples().iter().map(|sample| sample.at).collect();
        assert_eq!(times, [0, 120, 240]);
        assert_eq!(
            [curve.at(119).updated, curve.at(120).updated, curve.at(239).updated, curve.at(999).updated],
            [0, 5, 5, 7]
        );
        assert_eq!(GroupCurve::default().at(5).updated, 0);
    }

    #[test]
    fn load_is_that_of_the_busiest_minute() {
        let begin: Timestamp = "2026-01-05T00:00:00Z".parse().unwrap();
        let mut load = ServerLoad { size: 180_000_000, hosts: 6000, every: 600, ..ServerLoad::default() };
        for second in [0, 59, 60, 61, 119, 600] {
            load.count(begin, begin + jiff::SignedDuration::from_secs(second), 1, 2);
        }
        assert_eq!((load.downloads(), load.busiest(), load.most_reports()), (6, (1, 3), 6));
        // 3 × 180 MB in a minute.
        assert_eq!(load.bits_per_second(), 72_000_000);
        assert_eq!(load.questions(), 1000);
    }
}
