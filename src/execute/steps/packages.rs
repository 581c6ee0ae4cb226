//! Steps on packages; they follow the commit and have no undo.

use std::time::Duration;

use super::super::Site;
use super::files::{look, put};
use crate::host::{durable, package};
use crate::plan::Placement;
use crate::report::Result;
use crate::service::Service;
use crate::store::UNMANAGED;

/// How long a package manager that is at work is waited for, seconds: unattended upgrades take minutes.
const PACKAGE_LOCK: Duration = Duration::from_secs(300);

/// Below `.unmanaged`: copies of what must survive a package's removal.
pub(in crate::execute) const PACKAGE_COPIES: &str = "package";

pub(in crate::execute) fn remove_package(site: &Site<'_>, name: &str) -> Result<()> {
    let root = site.layout.is_image().then_some(site.layout.root.as_path());
    let copies = site.layout.versions.join(UNMANAGED).join(PACKAGE_COPIES);
    // A removal that was cut short has the only good copies of what must survive it.
    package::restore_kept(&copies)?;
    let Some(package) = package::installed(root)?.into_iter().find(|package| package.name == name) else {
        return Ok(());
    };
    durable::create_dir_all(durable::parent(&copies))?;
    let keep = package::Keep {
        files: std::slice::from_ref(&site.layout.agent_config),
        dirs: std::slice::from_ref(&site.data_dir),
        copies: &copies,
        link_dir: &site.layout.link_dir,
    };
    let tell = |words: &str| site.report.info(words);
    package::purge(&package, keep, root, package::Waiting::at_most(PACKAGE_LOCK, &tell))
}

/// The package manager may have deleted links or the unit that stood under its own names: made again at once. Its
/// scripts may have stopped and disabled the agent: as it was before.
pub(in crate::execute) fn reassert(site: &Site<'_>, places: &[Placement], enabled: bool, running: bool) -> Result<()> {
    let mut placed = Ok(false);
    for place in places {
        placed = placed.and_then(|again| {
            let is_gone = look(&place.path)? != place.now;
            if is_gone { put(place, &place.now).map(|()| true) } else { Ok(again) }
        });
    }
    // Each is tried, whatever became of the one before: above all the agent runs.
    let reloaded = placed.and_then(|again| if again { site.service.daemon_reload() } else { Ok(()) });
    if site.layout.is_image() {
        return reloaded;
    }
    let state = site.service.state(&site.stop_proof())?;
    let again = if enabled && !state.enabled { site.systemctl().tell("enable", &site.layout.unit) } else { Ok(()) };
    let is_down = running && !state.running && site.service != Service::None;
    let started = if is_down { site.service.ensure_started() } else { Ok(()) };
    started.and(reloaded).and(again)
}
