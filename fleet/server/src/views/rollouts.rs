//! `/rollouts`.

use askama::Template;
use fleet_wire::rollout::AgentRollout;
use fleet_wire::text;
use jiff::Timestamp;

use super::audit::AuditRow;
use super::frame::Frame;

/// Rollouts, the newest first.
#[derive(Debug, Clone, Template)]
#[template(path = "rollouts.html")]
pub(crate) struct RolloutsPage {
    /// What is around it.
    pub(crate) frame: Frame,
    /// A page of them.
    pub(crate) lines: Vec<RolloutRow>,
    /// The number before which the next page begins; `None`: there is none.
    pub(crate) next: Option<u64>,
    /// The newest are among them.
    pub(crate) is_first: bool,
}

/// A rollout, as a row.
#[derive(Debug, Clone)]
pub(crate) struct RolloutRow {
    /// Its number.
    pub(crate) number: u64,
    /// The rollout as the API shows it.
    pub(crate) rollout: AgentRollout,
    /// In RFC 3339.
    pub(crate) began: String,
    /// The same; empty: it goes on.
    pub(crate) ended: String,
    /// How it ended, or how it is.
    pub(crate) state: String,
    /// Each group with its state: `dev done, prod halted`.
    pub(crate) groups: String,
}

impl RolloutRow {
    /// Of a rollout as the API shows it; `ended`: when it was stepped last, `None` for the present one.
    pub(crate) fn of(rollout: &AgentRollout, ended: Option<Timestamp>) -> Self {
        let status = &rollout.status;
        let groups = status.groups.iter().map(|group| format!("{} {}", group.name, group.state)).collect::<Vec<_>>();
        Self {
            number: rollout.metadata.number.unwrap_or_default(),
            began: status.start_time.clone().unwrap_or_default(),
            ended: ended.map(text::second).unwrap_or_default(),
            state: status.state.clone().unwrap_or_default(),
            groups: groups.join(", "),
            rollout: rollout.clone(),
        }
    }
}

/// A rollout that is past, or goes on: its groups as they were last, and what happened.
#[derive(Debug, Clone, Template)]
#[template(path = "past.html")]
pub(crate) struct PastRollout {
    /// What is around it.
    pub(crate) frame: Frame,
    /// The rollout.
    pub(crate) row: RolloutRow,
    /// The first hosts on which it failed: UUID, name, and what was reported.
    pub(crate) failures: Vec<(String, String, String)>,
    /// There are more.
    pub(crate) has_more: bool,
    /// What was decided, the newest first.
    pub(crate) records: Vec<AuditRow>,
}

impl PastRollout {
    /// `28 of 30 hosts`.
    fn updated(&self) -> String {
        let status = &self.row.rollout.status;
        format!("{} of {}", status.updated_count, text::hosts(status.host_count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_how_each_group_ended_and_the_present_one_has_no_end() {
        let shown = serde_json::from_value(serde_json::json!({
            "metadata": { "number": 7 },
            "spec": { "start_version": "1.0.0", "target_version": "1.1.0", "strategy": "halt-on-error" },
            "status": {
                "start_time": "2025-01-15T02:00:00Z",
                "state": "halted",
                "groups": [{ "name": "dev", "state": "done" }, { "name": "prod", "state": "halted" }],
            },
        }))
        .unwrap();
        let past = RolloutRow::of(&shown, Some("2025-01-16T03:00:00Z".parse().unwrap()));
        assert_eq!((past.number, past.groups.as_str(), past.state.as_str()), (7, "dev done, prod halted", "halted"));
        assert_eq!((past.began.as_str(), past.ended.as_str()), ("2025-01-15T02:00:00Z", "2025-01-16T03:00:00Z"));
        assert_eq!(RolloutRow::of(&shown, None).ended, "");
    }
}
