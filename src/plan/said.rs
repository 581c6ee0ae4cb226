//! What a run says: one line for each phase, not one for each step. The steps themselves are said with `--debug`.

use std::time::Duration;

use super::{Direction, Plan, Step};

/// A phase that took less is not worth its time in the line.
const SHORT: Duration = Duration::from_secs(1);

impl Plan {
    /// The line for the steps of the switch up to `index`, which is done; `None` where a later step's line tells it.
    /// `took`: since the line before, or since the agent's stop.
    pub(crate) fn said_in_switch(&self, index: usize, took: Duration) -> Option<String> {
        let step = self.switch.get(index)?;
        let downtime = self.downtime();
        if downtime.contains(&index) {
            return None;
        }
        if *step == Step::Start && !downtime.is_empty() {
            let parts = downtime.filter_map(|index| self.own_line(index)).collect::<Vec<_>>();
            return Some(format!("stopped the agent for {}: {}", seconds(took), parts.join(", ")));
        }
        let line = self.own_line(index).or_else(|| self.last_line(index))?;
        Some(with_time(line, took))
    }

    /// What the step at `index` says for itself.
    fn own_line(&self, index: usize) -> Option<String> {
        Some(match self.switch.get(index)? {
            Step::Snapshot { dir, .. } if !self.switch.contains(&Step::Install { dir: dir.clone() }) => {
                format!("backed up the database to {dir}/backup")
            }
            Step::Install { dir } => format!("backed up the database to {dir}/backup"),
            Step::Restore { dir } => format!("restored the database from {dir}/backup"),
            Step::LinkAgent { .. } => format!("linked {} ({})", self.name(), self.names_set(0..=index)),
            Step::Stop if self.downtime().is_empty() && self.switch.contains(&Step::RecordAgent { running: true }) => {
                "stopped the agent".into()
            }
            Step::Start => "started the agent".into(),
            Step::Reload => "reloaded the agent (SIGHUP)".into(),
            Step::Health { .. } => format!("{} is healthy", self.name()),
            Step::StopTimer { unit } => format!("stopped {unit}"),
            Step::DisableUnit { unit } => format!("disabled {unit}"),
            Step::Fetch { .. }
            | Step::Verify { .. }
            | Step::RecordAgent { .. }
            | Step::Place(_)
            | Step::PrepareSnapshot { .. }
            | Step::Snapshot { .. }
            | Step::Describe { .. }
            | Step::PrepareRestore { .. }
            | Step::Stop
            | Step::DaemonReload
            | Step::KeepLink { .. }
            | Step::RemovePackage { .. }
            | Step::SetAside { .. }
            | Step::Reassert { .. }
            | Step::GrantTraverse { .. }
            | Step::EnableTimer { .. }
            | Step::Retire { .. } => return None,
        })
    }

    /// At the switch's end: names that were set since the last line, and that no line has told.
    fn last_line(&self, index: usize) -> Option<String> {
        if index + 1 != self.switch.len() {
            return None;
        }
        let told = (0..index).rev().find(|index| matches!(self.switch.get(*index), Some(Step::LinkAgent { .. })));
        let is_untold = |step: &Step| matches!(step, Step::Place(_));
        let since = told.map_or(0, |told| told + 1);
        self.switch.get(since..=index)?.iter().any(is_untold).then(|| {
            let done = if self.direction == Direction::Uninstall { "removed" } else { "set" };
            format!("{done} {}", self.names_set(since..=index))
        })
    }

    fn names_set(&self, range: std::ops::RangeInclusive<usize>) -> String {
        let is_name = |step: &&Step| matches!(step, Step::Place(_) | Step::LinkAgent { .. });
        match self.switch.get(range).unwrap_or_default().iter().filter(is_name).count() {
            1 => "1 link or unit".into(),
            count => format!("{count} links and units"),
        }
    }

    fn name(&self) -> String {
        self.to.as_ref().map_or_else(|| "the earlier agent".into(), ToString::to_string)
    }
}

impl Step {
    /// The line for a step before the switch or after the commit, which is done and took `took`; `None` where it is not worth
    /// one.
    pub(crate) fn said(&self, took: Duration) -> Option<String> {
        let line = match self {
            Step::Verify { dir } => format!("checked every file of {dir}"),
            Step::RemovePackage { name } => format!("removed the package {name}"),
            Step::EnableTimer { unit } => format!("enabled {unit}"),
            Step::Retire { dir } => format!("removed {dir}"),
            _ => return None,
        };
        Some(with_time(line, took))
    }
}

fn with_time(line: String, took: Duration) -> String {
    if took < SHORT { line } else { format!("{line} ({})", seconds(took)) }
}

/// `0.21 s`, `3.1 s`.
pub(crate) fn seconds(took: Duration) -> String {
    let digits = if took < SHORT { 2 } else { 1 };
    format!("{:.digits$} s", took.as_secs_f64())
}
