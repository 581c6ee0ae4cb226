//! `pin` and `unpin`: stay on one version, or follow the cluster again.

use super::{Context, enable, recover};
use crate::cli::Install;
use crate::config::Spec;
use crate::report::Result;
use protocol::Version;

/// Runs `pin`: installs the version now and stays on it.
pub(crate) fn run(context: &mut Context, args: &Install) -> Result<u8> {
    enable::install(context, args, enable::Kind::Pin)
}

/// A pinned host that goes back to `version` is pinned to that from now on: settings that name the version that was left would
/// lead there again with the next `enable`.
pub(crate) fn follow(spec: &mut Spec, version: &Version) {
    if spec.pinned {
        spec.pinned_version = Some(version.clone());
    }
}

/// Runs `unpin`.
pub(crate) fn unpin(context: &mut Context) -> Result<u8> {
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
    context.report.notice("no version is pinned any more; updates follow the cluster again");
    Ok(0)
}
