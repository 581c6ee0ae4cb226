//! `disable`: `enabled: false`, nothing else.

use crate::context::Context;
use crate::inspect;
use crate::report::Result;
use crate::run::recovery;

/// Stops updating.
pub(crate) fn run(context: &mut Context) -> Result<u8> {
    if !inspect::open(context)?.spec().enabled && !context.is_interrupted() {
        context.report.info("updates are already disabled");
        return Ok(0);
    }
    let (_lock, mut updates) = recovery::settled(context, "disable")?;
    let mut spec = updates.spec().clone();
    spec.enabled = false;
    updates.set_spec(&spec);
    updates.write()?;
    context.report.notice("updates are now disabled; the agent is not affected");
    Ok(0)
}
