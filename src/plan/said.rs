//! What a run says: one line for each phase, not one for each step. The steps themselves are said with `--debug`.

use std::time::Duration;

use super::{Plan, ServiceAction, Step};

/// A phase that took less is not worth its time in the line.
const SHORT: Duration = Duration::from_secs(1);

/// What a plan does not know of its own run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen {
    /// Since the line before, or since the agent's stop.
    pub took: Duration,
    /// There was no database to be backed up.
    pub no_database: bool,
    /// The version had no database when it was left: there is none again.
    pub none_restored: bool,
    /// The agent could not be reloaded: a warning has said that it was restarted.
    pub restarted: bool,
}

impl Plan {
    /// The line for the steps of the switch up to `index`, which is done; `None` where a later step's line tells it.
    pub(crate) fn said_in_switch(&self, index: usize, seen: &Seen) -> Option<String> {
        let downtime = self.downtime();
        if downtime.contains(&index) {
            return None;
        }
        if !downtime.is_empty() && index == downtime.end {
            let mut parts = downtime.filter_map(|index| self.own_line(index, seen)).collect::<Vec<_>>();
            // It had failed, and was not running before.
            if self.service == ServiceAction::Start {
                parts.push("started the agent".into());
                return Some(parts.join(", "));
            }
            return Some(format!("stopped the agent for {}: {}", seconds(seen.took), parts.join(", ")));
        }
        Some(with_time(self.own_line(index, seen)?, seen.took))
    }

    /// What the step at `index` says for itself.
    fn own_line(&self, index: usize, seen: &Seen) -> Option<String> {
        let is_kept = |step: &Step| matches!(step, Step::KeepLink { .. } | Step::SetAside { .. });
        Some(match self.switch.get(index)? {
            Step::Snapshot { .. } | Step::Install { .. } if seen.no_database => return None,
            Step::Snapshot { dir, .. } if !self.switch.contains(&Step::Install { dir: dir.clone() }) => {
                format!("backed up the database to {dir}/backup")
            }
            Step::Install { dir } => format!("backed up the database to {dir}/backup"),
            Step::Restore { dir } if seen.none_restored => format!("removed the database ({dir} had none)"),
            Step::Restore { dir } => format!("restored the database from {dir}/backup"),
            Step::LinkAgent { .. } if self.downtime().contains(&index) => format!("linked {}", self.name()),
            Step::LinkAgent { .. } => format!("linked {}: {}", self.name(), self.names_set()),
            Step::Place(_) if self.tells_names_at(index) => format!("changed {}", self.names_set()),
            step if is_kept(step) && !self.switch.get(index + 1).is_some_and(is_kept) => {
                "kept the earlier updater's files for `uninstall`".into()
            }
            Step::Stop if self.downtime().is_empty() && self.switch.contains(&Step::RecordAgent { running: true }) => {
                "stopped the agent".into()
            }
            Step::Start => "started the agent".into(),
            Step::Reload if !seen.restarted => "reloaded the agent".into(),
            Step::Health { .. } => format!("{} is healthy", self.name()),
            Step::Script { order } => format!("ran local-script/{}: the agent runs {}", order.name, self.name()),
            Step::StopTimer { unit } => format!("stopped {unit}"),
            Step::DisableUnit { unit } => format!("disabled {unit}"),
            _ => return None,
        })
    }

    /// Whether the last name that is set is the one at `index`, and no link of the agent tells of them all after it.
    fn tells_names_at(&self, index: usize) -> bool {
        let is_linked = |step: &Step| matches!(step, Step::LinkAgent { .. });
        let tells = self.downtime().is_empty() && self.switch.iter().any(is_linked);
        !tells && self.switch.iter().rposition(|step| matches!(step, Step::Place(_))) == Some(index)
    }

    fn names_set(&self) -> String {
        let in_downtime = self.downtime();
        let is_name = |(index, step): &(usize, &Step)| match step {
            Step::Place(_) => true,
            Step::LinkAgent { .. } => !in_downtime.contains(index),
            _ => false,
        };
        match self.switch.iter().enumerate().filter(is_name).count() {
            1 => "1 link or unit".into(),
            count => format!("{count} links and units"),
        }
    }

    /// What the plan leads to, for people.
    pub(crate) fn name(&self) -> String {
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
            Step::GrantTraverse { path } => format!("allowed other users to enter {} (chmod o+x)", path.display()),
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
    let millis = took.as_millis();
    if took < SHORT {
        let hundredths = (millis + 5) / 10;
        format!("{}.{:02} s", hundredths / 100, hundredths % 100)
    } else {
        let tenths = (millis + 50) / 100;
        format!("{}.{} s", tenths / 10, tenths % 10)
    }
}
