//! Codes of reasons.

use fleet_engine::reason::Why;

/// The stable code of a reason, as resources have it, without writing its names and counts.
pub fn code(why: &Why) -> &'static str {
    match why {
        Why::NoRollout => "no_rollout",
        Why::Disabled => "disabled",
        Why::Suspended => "suspended",
        Why::OutsideWindow => "outside_window",
        Why::RolloutChangedDuringWindow => "rollout_changed_during_window",
        Why::PreviousGroupsNotDone { .. } => "previous_groups_not_done",
        Why::WaitHours { .. } => "wait_hours",
        Why::SoakHours { .. } => "soak_hours",
        Why::Blackout { .. } => "blackout",
        Why::Approval { .. } => "approval",
        Why::Gate { .. } => "gate",
        Why::WaitingForCanaries { .. } => "waiting_for_canaries",
        Why::MaxInFlight { .. } => "max_in_flight",
        Why::Rate { .. } => "rate",
        Why::UpdateInProgress { .. } => "update_in_progress",
        Why::NoReports { .. } => "no_reports",
        Why::Empty => "empty",
        Why::Shrunk { .. } => "shrunk",
        Why::Halted { .. } => "halted",
        Why::RolledBack => "rolled_back",
        Why::Done => "done",
        Why::LetGo => "let_go",
        Why::Updated => "updated",
        Why::SentBack => "sent_back",
        Why::WentBack => "went_back",
        Why::NotYet => "not_yet",
        Why::NextPass => "next_pass",
        Why::Pinned => "pinned",
        Why::HostDisabled => "host_disabled",
        Why::Held => "held",
        Why::FailedHere { .. } => "failed_here",
        Why::TimedOut => "timed_out",
        Why::Unassigned => "unassigned",
        Why::StoreUnavailable => "store_unavailable",
    }
}
