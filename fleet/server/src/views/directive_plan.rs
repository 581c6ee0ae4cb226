//! `/version-control/UUID`: a plan, what it would do, and what people say of it.

use askama::Template;
use fleet_engine::planned::PlannedEntry;
use fleet_wire::api::{PlanState, PlanView};
use fleet_wire::words::planned;

use super::frame::Frame;

/// A plan.
#[derive(Debug, Clone, Template)]
#[template(path = "directive_plan.html")]
pub(crate) struct PlanPage {
    /// What is around it.
    pub(crate) frame: Frame,
    /// The plan, with what it would do.
    pub(crate) plan: PlanView,
    /// The same as a resource.
    pub(crate) yaml: String,
    /// Whether who looks may review it; else why not.
    pub(crate) review: Result<(), String>,
}

impl PlanPage {
    fn is_pending(&self) -> bool {
        self.plan.state == PlanState::Pending.into()
    }

    /// Who looks has approved it.
    fn is_approved(&self) -> bool {
        self.frame.user.as_ref().is_some_and(|user| self.plan.approved.contains(&user.name))
    }

    /// For whom does not see beside what a button stands.
    fn name(&self) -> String {
        format!("plan {}", self.plan.id)
    }

    fn may_apply(&self) -> bool {
        self.is_pending() && self.frame.may_act() && self.plan.against.is_empty()
    }

    fn summary(&self) -> Vec<String> {
        self.plan.effects.as_ref().map(planned::summary).unwrap_or_default()
    }
}

/// What stands below a sub-directive's name: who stays, who has nothing and why, what lacks.
fn lines(entry: &PlannedEntry) -> Vec<String> {
    let (none, lacks) = (entry.none.iter().map(planned::none), entry.lacks.iter().map(planned::lacks));
    planned::stay(entry).into_iter().chain(none).chain(lacks).collect()
}
