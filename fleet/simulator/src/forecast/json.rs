//! For programs.

use serde_json::{Value, json};

use super::{Forecast, Group};

impl Forecast {
    /// The forecast as JSON. Times are RFC 3339, lengths seconds, counts hosts.
    ///
    /// `outcome` (`done`, `halted`, `rolled_back`, `stuck`, `unfinished`), `from` and `to` (versions), `begin`, `decided` (done or
    /// first halted, else null), `end`, `seconds` (from begin to decided, else to the end), `hosts`, `at_risk` (hosts on which the
    /// release is bad or that would never come back), `blast_radius` (those of them that were allowed to update, whatever the time),
    /// `hit_before_halt`, `seed`, `notes`; `load` (`downloads`, `bytes`, `peak_bits_per_second`, `peak_downloads_per_minute`,
    /// `peak_at`, `peak_reports_per_minute`, `questions_per_second`); `groups`, in order: `name`, `hosts`, `state` (as in
    /// `autoupdate_agent_rollout`, and `halted`), `start`, `end` (null: not done), `halt` (null, or `at`, `rule`, `count`, `of`,
    /// `hit_before`, `rolls_back`), `why`, `canaries`, `cap` (null: all at once), `most_in_flight`, `told`, `updated`, `broken`,
    /// `lost`, `hit` (broken and lost: the group's blast radius), `timed_out`, and `curve`: `[second, let_go, updated, failed]` for
    /// each time at which something changed.
    pub fn json(&self) -> Value {
        let load = &self.load;
        let (_, downloads) = load.busiest();
        json!({
            "outcome": self.outcome,
            "from": self.versions.0,
            "to": self.versions.1,
            "begin": self.begin,
            "decided": self.decided,
            "end": self.end,
            "seconds": self.took().as_secs(),
            "hosts": self.hosts,
            "at_risk": self.at_risk,
            "blast_radius": self.hit(),
            "hit_before_halt": self.hit_before_halt(),
            "load": {
                "downloads": load.downloads(),
                "bytes": load.downloads().saturating_mul(load.size),
                "peak_bits_per_second": load.bits_per_second(),
                "peak_downloads_per_minute": downloads,
                "peak_at": (downloads > 0).then(|| self.busiest()),
                "peak_reports_per_minute": load.most_reports(),
                "questions_per_second": exact(load.questions()),
            },
            "groups": self.groups.iter().map(group).collect::<Vec<_>>(),
            "seed": self.seed,
            "notes": self.notes,
        })
    }
}

fn group(group: &Group) -> Value {
    let sample = |sample: &super::CurveSample| json!([sample.at, sample.let_go, sample.updated, sample.failed]);
    json!({
        "name": group.name,
        "hosts": group.hosts,
        "state": group.state,
        "start": group.start,
        "end": group.done,
        "halt": group.halt,
        "why": group.why,
        "canaries": group.canaries,
        "cap": group.cap,
        "most_in_flight": group.most_in_flight,
        "told": group.told,
        "updated": group.updated,
        "broken": group.broken,
        "lost": group.lost,
        "hit": group.hit(),
        "timed_out": group.timed_out,
        "curve": group.curve.samples().iter().map(sample).collect::<Vec<_>>(),
    })
}

/// Hundredths as a number: whole where it is.
fn exact(hundredths: u64) -> Value {
    if hundredths.is_multiple_of(100) {
        return json!(hundredths / 100);
    }
    // A u32 is exact in an f64.
    json!(f64::from(u32::try_from(hundredths).unwrap_or(u32::MAX)) / 100.0)
}
