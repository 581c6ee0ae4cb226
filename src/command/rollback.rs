//! `rollback`: back to the last working version; the one that is left is refused until told otherwise.

use crate::config::Updates;
use crate::context::Context;
use crate::inspect;
use crate::report::{Code, Error, Result};
use crate::run::apply;
use crate::run::change::{self, Basis, Fetched, RunRequest};
use protocol::Revision;

/// Why a version is refused that an operator left.
pub(super) const BY_OPERATOR: &str = "rolled back by the operator";

/// Runs the command.
pub(crate) fn run(context: &mut Context) -> Result<u8> {
    // The version that the operator wants to be rid of, and where he goes: what a run that was at work makes active is another.
    let mut meant: Option<(Option<Revision>, Revision)> = None;
    change::rounds(context, |context, fetched| {
        let updates = inspect::open(context)?;
        let active = updates.spec().active();
        let target = match &meant {
            None => previous(&updates)?,
            Some((left, target)) if *left == active || Some(target) == active.as_ref() => target.clone(),
            Some(_) => {
                let (what, advice) = match active {
                    Some(now) => (
                        format!("{now} became active while this command was running; it was not rolled back"),
                        "run `teleport-update rollback` again to go back from it",
                    ),
                    None => (
                        "no version is active any more: another command changed that while this one was running; \
                         nothing was rolled back"
                            .to_owned(),
                        "see `teleport-update status`",
                    ),
                };
                return Err(Error::new(Code::Overtaken, what).advise(advice));
            }
        };
        meant = Some((active, target.clone()));
        go(context, &updates, target, fetched)
    })
}

/// The last working version, if it may be gone back to.
fn previous(updates: &Updates) -> Result<Revision> {
    let status = updates.status();
    let is_refused = |previous: &Revision| status.refused.iter().any(|refused| refused.revision == *previous);
    let previous = status.previous.clone().filter(|previous| !is_refused(previous));
    previous.ok_or_else(|| {
        Error::new(Code::NoPrevious, "there is no last working version to go back to")
            .advise("see `teleport-update status`; `pin --force-version` installs any version")
    })
}

fn go(context: &mut Context, updates: &Updates, target: Revision, fetched: &mut Fetched) -> Result<Option<u8>> {
    let basis = Some(Basis::of(context, updates)?);
    let version = target.version.clone();
    if updates.spec().pinned && updates.spec().active().as_ref() != Some(&target) {
        context.report.notice(&format!("a version is pinned: after this rollback the pinned version is {version}"));
    }
    apply(
        context,
        &RunRequest {
            change: &|spec| spec.follow(&version),
            refuse_outgoing: Some(BY_OPERATOR.into()),
            basis,
            ..RunRequest::new("rollback", target)
        },
        fetched,
    )
}
