//! The dry run of a plan (DIRECTIVES §3): begun by a person, done by hosts beside what they are told, counted beside the plan. One
//! goes on at a time, so what a host said of it is a word in its record, which a restart and other servers know.

use fleet_engine::dry_run::{DryRunOrders, DryRunPlan, DryRunResults};
use fleet_engine::host::HostId;
use fleet_engine::resource::{DirectivePlan, Resource};
use fleet_wire::answers::ids;
use fleet_wire::api::{ApiError, BeginDryRun, PlanView};
use protocol::dry_run::DryRunResult;

use super::directives::{as_plan, found, imagined, not_promoted, plan_view, remade, store};
use super::tx::{RequestedAction, Tx};
use super::{Actor, CoreState};

/// Begins the dry run of a plan, and ends that of another one which is pending.
///
/// # Errors
/// Why not; that is on record as well.
pub(crate) fn begin(tx: &mut Tx<'_>, actor: &Actor, id: &str, begin: &BeginDryRun) -> Result<PlanView, ApiError> {
    let subject = format!("plan {id}");
    let asked = RequestedAction { actor, action: "plan_dry_run", subject: &subject, is_dry: false };
    tx.once(&asked, &begin.id, &(id, "dry-run"), |tx| {
        let (state, now) = (tx.state(), tx.state().now());
        let (resource, plan) = found(state, id)?;
        let mut next = plan.clone();
        next.begin_dry_run(now).map_err(not_promoted)?;
        let imagined = imagined(state, resource)?;
        let name = &resource.metadata().name;
        let ended = |(other, plan): (&Resource, &DirectivePlan)| {
            let goes_on = plan.is_open(now) && plan.dry_run.is_some() && other.metadata().name != *name;
            let ended = DirectivePlan { dry_run: None, ..plan.clone() };
            goes_on.then(|| remade(&other.metadata().name, &ended, other))
        };
        let mut written =
            state.resources.all().filter_map(as_plan).filter_map(ended).collect::<Result<Vec<_>, ApiError>>()?;
        let resource = remade(name, &next, resource)?;
        written.push(resource.clone());
        let plan = key(&resource, &next);
        store(tx, &written.iter().collect::<Vec<_>>(), &[]);
        if let Some(plan) = plan {
            let (_, fleet) = tx.change();
            fleet.keep_dry_runs_of(plan.0);
            imagined.ask_for_dry_run(fleet, plan, now);
        }
        plan_view(tx.state(), &resource, true)
    })
}

/// Asks the hosts whose turn it is.
pub(super) fn ask(tx: &mut Tx<'_>) {
    let (state, now) = (tx.state(), tx.state().now());
    let Some((plan, resource)) = open(state) else { return };
    // What cannot be applied now may be again.
    let Ok(imagined) = imagined(state, resource) else { return };
    imagined.ask_for_dry_run(tx.change().1, plan, now);
}

/// What hosts are to try.
pub(super) fn orders(state: &CoreState) -> Option<DryRunOrders> {
    let (plan, resource) = open(state)?;
    Some(imagined(state, resource).ok()?.dry_run_orders(&state.fleet, plan.0, state.now()))
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

fn key(resource: &Resource, plan: &DirectivePlan) -> Option<DryRunPlan> {
    Some((ids::uuid(&resource.metadata().name)?, plan.dry_run?))
}
