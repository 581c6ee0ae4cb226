//! The dry run of a plan (DIRECTIVES §3): done by hosts beside what they are told, counted beside the plan. One
//! goes on at a time, so what a host said of it is a word in its record, which a restart and other servers know.

use fleet_engine::dry_run::{DryRunOrders, DryRunPlan, DryRunResults};
use fleet_engine::host::HostId;
use fleet_engine::promotion;
use fleet_engine::refusal::Refusal;
use fleet_engine::resource::{DirectivePlan, Kind, Resource};
use fleet_engine::rollout_state::RolloutState;
use fleet_wire::answers::ids;
use protocol::dry_run::DryRunResult;
use serde_json::Value;

use super::CoreState;

/// The plan whose dry run goes on, and what it would be: the hosts whose turn it is are to be asked.
pub(super) fn due(state: &CoreState) -> Option<(RolloutState, DryRunPlan)> {
    let (plan, resource) = open(state)?;
    // What cannot be applied now may be again.
    Some((imagined(state, resource).ok()?, plan))
}

/// What hosts are to try.
pub(super) fn orders(state: &CoreState) -> Option<DryRunOrders> {
    let (imagined, plan) = due(state)?;
    Some(imagined.dry_run_orders(&state.fleet, plan.0, state.now()))
}

/// Takes what a host says of its dry run.
pub(super) fn take(state: &mut CoreState, host: HostId, done: &DryRunResult) {
    let plan = ids::uuid(&done.plan).filter(|_| done.has_code());
    if let Some(plan) = plan.filter(|plan| open(state).is_some_and(|((known, _), _)| known == *plan)) {
        state.fleet.answer_dry_run(host, plan, &done.code);
    }
}

/// What came of the dry run of a plan; `None`: none was begun.
pub(super) fn results(state: &CoreState, resource: &Resource, plan: &DirectivePlan) -> Option<DryRunResults> {
    Some(state.fleet.dry_run_results(key(resource, plan)?))
}

/// The plan whose dry run goes on.
fn open(state: &CoreState) -> Option<(DryRunPlan, &Resource)> {
    let plans = state.resources.all().filter_map(as_plan).filter(|(_, plan)| plan.is_open(state.now()));
    plans.filter_map(|(resource, plan)| Some((key(resource, plan)?, resource))).max_by_key(|((_, begun), _)| *begun)
}

pub(super) fn key(resource: &Resource, plan: &DirectivePlan) -> Option<DryRunPlan> {
    Some((ids::uuid(&resource.metadata().name)?, plan.dry_run?))
}

/// A resource that is a plan.
pub(super) fn as_plan(resource: &Resource) -> Option<(&Resource, &DirectivePlan)> {
    Some((resource, resource.model()?))
}

/// What would rule if `plan` were applied now.
///
/// # Errors
/// It cannot be.
pub(super) fn imagined(state: &CoreState, plan: &Resource) -> Result<RolloutState, Refusal> {
    let only = Kind::Directive.only_name().unwrap_or_default();
    let directive = promotion::made(Kind::Directive, only, &Value::Null, plan)?;
    let (mut all, mut rollouts) = (state.resources.clone(), state.rollouts.clone());
    all.put_all_for(vec![directive], &mut rollouts, Some(&state.fleet))?;
    Ok(rollouts)
}
