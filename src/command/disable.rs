//! `disable`: `enabled: false`, nothing else.

use super::{Context, recover};
use crate::report::Result;

/// Stops updating.
pub(crate) fn run(context: &mut Context) -> Result<u8> {
    if !context.open()?.spec().enabled && !recover::is_needed(context) {
        context.report.info("updates are already disabled");
        return Ok(0);
    }
    let _lock = context.lock("disable")?;
    recover::pending(context, false)?;
    let mut updates = context.open()?;
    let mut spec = updates.spec().clone();
    spec.enabled = false;
    updates.set_spec(&spec);
    updates.write()?;
    context.report.notice("updates are now disabled; the agent is not affected");
    Ok(0)
}
