//! What is said and written down of a change that ended.

use super::request::RunRequest;
use crate::config::Updates;
use crate::config::status::{Outcome, Status};
use crate::context::Context;
use crate::database::directory;
use crate::host::machine;
use crate::plan::{Direction, Plan, ServiceAction};
use crate::report::{Code, Error};
use crate::run::record;
use protocol::Revision;

/// Writes down that `left` was gone back from, for `reason`, and keeps what it wrote.
pub(super) fn refuse_outgoing(
    context: &Context,
    request: &RunRequest<'_>,
    plan: &Plan,
    status: &mut Status,
    left: &Revision,
    reason: &str,
) {
    if let Some(last) = &mut status.last_result {
        last.outcome = Outcome::RolledBack;
        last.message = Some(reason.to_owned());
        last.error_code = request.trusted_snapshot.as_ref().map(|_| Code::Unhealthy.as_str().to_owned());
    }
    status.refused.retain(|refused| plan.to.as_ref() != Some(&refused.revision));
    record::add_refusal(status, left, reason, "rolled_back", context.host.now());
    // A fall of the version gone back to must not lead forward to the one just refused.
    status.watch = None;
    for (dir, _) in plan.snapshots().filter(|(_, is_failed)| *is_failed) {
        record::add_kept_database(status, left, &directory::of(&context.layout.versions.join(dir)));
    }
}

pub(super) fn say_done(context: &Context, plan: &Plan) {
    let to = plan.to.as_ref().map(ToString::to_string).unwrap_or_default();
    match (&plan.from, plan.direction) {
        (_, Direction::Same) => context.report.notice(&format!("{to} is active and in order")),
        (None, _) => context.report.notice(&format!("{to} is active")),
        (Some(from), _) => context.report.notice(&format!("{from} -> {to}: done")),
    }
    let how_to_start = plan.direction == Direction::First && plan.service == ServiceAction::None;
    if how_to_start && !context.layout.is_image() && machine::is_systemd_booted() {
        let unit = context.layout.unit.trim_end_matches(".service");
        context
            .report
            .info(&format!("the agent is not running yet: configure it, then run `systemctl enable --now {unit}`"));
    }
}

/// A failure that no journal tells of (network, archive, refusal) is written down for `status`. Where one is open its
/// recovery has the say: settings that it committed must not look older than this note.
/// `cost`: an archive had come in part, and this digest was announced for it. What is urgent waits after each failure, or every
/// run of the timer would try it.
pub(super) fn note_failure(context: &Context, request: &RunRequest<'_>, error: &Error, cost: Option<Option<String>>) {
    // After an `uninstall` there is no status to write to.
    let is_gone = request.basis.as_ref().is_some_and(|basis| basis.is_gone(context).unwrap_or(true));
    if error.recorded || is_gone || context.is_interrupted() || matches!(error.code, Code::Interrupted | Code::LockHeld)
    {
        return;
    }
    let written = Updates::read(&context.layout.config_file()).and_then(|mut updates| {
        let (target, now) = (&request.target, context.host.now());
        record::failed(&mut updates, error, Some(target), now);
        if let Some(digest) = cost.or(request.terms.urgent.then_some(None)) {
            let mut status = updates.status().clone();
            record::add_delay(&mut status, target, &error.what, error.code.as_str(), digest, now);
            updates.set_status(&status);
        }
        updates.write()
    });
    if let Err(error) = written {
        context.report.debug(&error.to_string());
    }
}
