//! `pin` and `unpin`: stay on one version, or follow the cluster again.

use super::{Context, enable, recover};
use crate::cli::Install;
use crate::report::Result;

/// Runs `pin`: installs the version now and stays on it.
pub fn run(context: &mut Context, args: &Install) -> Result<u8> {
    let mut args = args.clone();
    // Without a version the present one is pinned.
    if args.force_version.as_deref().is_none_or(str::is_empty) {
        let updates = context.open()?;
        args.force_version = updates.spec().active_version.as_ref().map(ToString::to_string);
    }
    enable::install(context, &args, "pin", &|spec| spec.pinned = true)
}

/// Runs `unpin`.
pub fn unpin(context: &mut Context) -> Result<u8> {
    let updates = context.open()?;
    if !updates.spec().pinned && !recover::is_needed(context) {
        context.report.info("no version is pinned");
        return Ok(0);
    }
    let _lock = context.lock("unpin")?;
    recover::pending(context, false)?;
    let mut updates = context.open()?;
    let mut spec = updates.spec().clone();
    spec.pinned = false;
    spec.pinned_version = None;
    updates.set_spec(&spec);
    updates.write()?;
    context.report.notice("the cluster's version is followed again");
    Ok(0)
}
