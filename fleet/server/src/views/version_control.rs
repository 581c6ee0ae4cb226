//! `/version-control`: the active directive, its drafts and plans, and the inventory.

use askama::Template;
use fleet_engine::inventory::{InstallCounts, VersionAlert};
use fleet_engine::resource::Draft;
use fleet_wire::api::{PlanView, VersionControlStatus};
use fleet_wire::lenient::word;
use fleet_wire::text;
use jiff::Timestamp;

use super::frame::Frame;

/// The kind of alerts that a plan waits.
const WAITS: &str = "plan_waiting";

/// How versions are controlled.
#[derive(Debug, Clone, Template)]
#[template(path = "version_control.html")]
pub(crate) struct VersionControlPage {
    /// What is around it, without the alerts.
    pub(crate) frame: Frame,
    /// The directive, installers, inventory and alerts.
    pub(crate) status: VersionControlStatus,
    /// The drafts, by name.
    pub(crate) drafts: Vec<DraftRow>,
    /// The plans, the newest first.
    pub(crate) plans: Vec<PlanView>,
}

/// A draft, as a row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DraftRow {
    /// `KIND/NAME`.
    pub(crate) name: String,
    /// Who wrote it.
    pub(crate) author: String,
    /// When, in RFC 3339.
    pub(crate) at: String,
    /// The newest version that it names; empty: it names none.
    pub(crate) newest: String,
    /// From then on it is not applied any more, in RFC 3339; empty: never.
    pub(crate) stale_after: String,
    /// That is past.
    pub(crate) is_stale: bool,
}

impl DraftRow {
    /// Of a draft of this name.
    pub(crate) fn of(name: &str, draft: &Draft, now: Timestamp) -> Self {
        let stale = draft.directive.stale_after;
        Self {
            name: name.to_owned(),
            author: draft.author.clone(),
            at: text::second(draft.time),
            newest: draft.directive.newest().map(ToString::to_string).unwrap_or_default(),
            stale_after: stale.map(text::second).unwrap_or_default(),
            is_stale: stale.is_some_and(|stale| stale <= now),
        }
    }
}

impl VersionControlPage {
    /// `manual, 1 approval beside the author`.
    fn promotion(&self) -> String {
        let VersionControlStatus { promotion, promotion_from: from, approvals, .. } = &self.status;
        let from = if from.is_empty() { String::new() } else { format!(" from {from}") };
        format!("{promotion}{from}, {} beside the author", text::counted(u64::from(*approvals), "approval"))
    }

    /// Those that are about versions of hosts.
    fn versions(&self) -> Vec<&VersionAlert> {
        self.status.alerts.iter().filter(|alert| alert.count > 0).collect()
    }

    /// All others; plans that wait are among the plans.
    fn others(&self) -> Vec<&VersionAlert> {
        self.status.alerts.iter().filter(|alert| alert.count == 0 && alert.kind != WAITS).collect()
    }
}

/// What stands of alerts on every page: of versions and plans how many there are, which may be hundreds.
pub(crate) fn banner(alerts: &[VersionAlert]) -> Vec<String> {
    let hosts = |kind: &str| alerts.iter().filter(|alert| alert.kind == kind).map(|alert| alert.count).sum::<u64>();
    let due = |kind: &str, one: &str, many: &str| match hosts(kind) {
        0 => None,
        1 => Some(format!("1 host {one}: see Directives")),
        count => Some(format!("{count} hosts {many}: see Directives")),
    };
    let waiting = match alerts.iter().filter(|alert| alert.kind == WAITS).count() {
        0 => None,
        1 => Some("1 plan waits: see Directives".to_owned()),
        count => Some(format!("{count} plans wait: see Directives")),
    };
    let others = alerts.iter().filter(|alert| alert.count == 0 && alert.kind != WAITS);
    due("security_patch", "lacks a security patch", "lack a security patch")
        .into_iter()
        .chain(due("end_of_life", "runs a version past its end of life", "run versions past their end of life"))
        .chain(others.map(|alert| alert.text.clone()))
        .chain(waiting)
        .collect()
}

/// The word of a plan's state.
pub(crate) fn state(plan: &PlanView) -> String {
    word(&plan.state)
}

/// `1 of 2`.
pub(crate) fn approvals(plan: &PlanView) -> String {
    format!("{} of {}", plan.approved.len(), plan.approvals)
}

/// The columns of counts.
pub(crate) const COUNTS: [&str; 4] = ["Recent installs", "Installing", "Faults", "Churned"];

/// These counts, each with its column.
pub(crate) fn counts(counts: &InstallCounts) -> impl Iterator<Item = (&'static str, u64)> {
    let InstallCounts { recent, installing, faults, churned, .. } = *counts;
    COUNTS.into_iter().zip([recent, installing, faults, churned])
}
