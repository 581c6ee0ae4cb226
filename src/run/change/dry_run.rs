//! A dry run for a rollout server's plan (DIRECTIVES §3): all that comes before a switch, and nothing of it stays. It changes no
//! settings, counts as no attempt, and fails no run.

use protocol::dry_run::{DryRunOrder, PREPARED};
use protocol::find::Directive;
use protocol::installer::InstallerOrder;

use super::planned::{planned, prove, supplied, unproven};
use super::refusals::preflight;
use super::{Planned, RunRequest};
use crate::context::Context;
use crate::execute::{self, prepare};
use crate::host::lock::{self, Download};
use crate::inspect;
use crate::plan::decide::Terms;
use crate::report::{Code, Error, Result};
use crate::run::{fleet, recovery, wanted};

/// Does the dry run that the rollout server asks for, once a plan, where this run has changed nothing. The end of the run reports it.
pub(crate) fn dry_run(context: &mut Context) {
    let order = context.talk.heard.borrow().as_ref().and_then(|heard| heard.dry_run.clone());
    let Some(order) = order.filter(|order| is_due(context, order)) else { return };
    let DryRunOrder { plan, version, .. } = &order;
    context.report.info(&format!("dry run of {version} for plan {plan}: nothing is installed"));
    let code = match tried(context, &order) {
        Ok(()) => PREPARED,
        Err(error) => {
            context.report.warn(&format!("dry run of {version}: {error}"));
            // The next run tries again.
            if context.signals.cancelled() || matches!(error.code, Code::Interrupted | Code::LockHeld) {
                return;
            }
            error.code.as_str()
        }
    };
    *context.talk.dry_run.borrow_mut() = Some(format!("{plan} {code}"));
}

/// Whether this host has not done it yet, and is at work with nothing else.
fn is_due(context: &Context, order: &DryRunOrder) -> bool {
    let talk = &context.talk;
    let is_busy = talk.is_elsewhere.get() || talk.started.get().is_some() || context.is_interrupted();
    let is_plan = uuid::Uuid::try_parse(&order.plan).is_ok();
    is_plan && !is_busy && fleet::outdated(context).is_none() && !fleet::has_tried(context, &order.plan)
}

/// Errors: those that an update would end with before its switch.
fn tried(context: &mut Context, order: &DryRunOrder) -> Result<()> {
    recovery::tidy(context);
    let updates = inspect::open(context)?;
    if !updates.spec().enabled || updates.spec().pinned || updates.status().watch.is_some() {
        return Err(Error::new(Code::LockHeld, "updates are disabled, pinned or watched by now"));
    }
    let edition = context.talk.heard.borrow().as_ref().and_then(|heard| heard.edition);
    let named = Directive { version: order.version.clone(), edition, in_window: true, jitter_seconds: 0 };
    let target = wanted::revision(&named, wanted::active(context, &updates)?.as_ref(), None)?;
    let installer = order.installer.clone().unwrap_or_else(InstallerOrder::usual);
    let terms = Terms { order: Some(Ok(installer)), attributes: order.attributes.clone(), ..Terms::default() };
    let request = RunRequest { terms, ..RunRequest::new("update", target) };
    let (plan, facts) = match planned(context, &updates, &request)? {
        Planned::Wait(why) => return Err(Error::new(Code::LockHeld, why)),
        Planned::Proceed(plan, facts) => (*plan, *facts),
    };
    preflight(context)?;
    if let Some(script) = plan.script() {
        let _lock = context.lock("update")?;
        return execute::dry_run_script(&context.site(&updates, false)?, script);
    }
    if let Some(unproven) = unproven(context, &updates, &request, &facts, &plan)? {
        prove(context, &request, &unproven)?;
    }
    let Some((revision, dir)) = plan.download() else { return prepare::run(&context.site(&updates, false)?, &plan) };
    let begun =
        Download::begin(&context.lock_path(), dir.as_str(), lock::wait_of("update"), &|| context.signals.cancelled());
    let Some(_lock) = begun? else { return Err(Error::new(Code::LockHeld, "another run has downloaded it meanwhile")) };
    let staged = supplied(context, &updates, &request, &facts, |site, supply| {
        Ok(prepare::download(site, &plan, revision, dir, supply))
    })?;
    // What was staged goes with the value.
    staged.map(drop).map_err(|failed| failed.error)
}
