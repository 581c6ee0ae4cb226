//! `pin` and `unpin`: stay on one version, or follow the cluster again.

use crate::context::Context;
use crate::inspect;
use crate::report::Result;
use crate::run::recovery;

/// Runs `unpin`.
pub(crate) fn unpin(context: &mut Context) -> Result<u8> {
    let updates = inspect::open(context)?;
    if !updates.spec().pinned && !context.is_interrupted() {
        context.report.info("no version is pinned");
        return Ok(0);
    }
    let (_lock, mut updates) = recovery::settled(context, "unpin")?;
    let mut spec = updates.spec().clone();
    spec.pinned = false;
    spec.pinned_version = None;
    updates.set_spec(&spec);
    updates.write()?;
    context.report.notice("no version is pinned any more; updates follow the cluster again");
    Ok(0)
}
