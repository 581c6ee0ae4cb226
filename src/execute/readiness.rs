//! What a change and its way back need of the host, asked before the first step: by then nothing has changed, the agent runs, and
//! nothing is blamed on a version (SPEC §6, asked first). The thing itself is asked where it can be.

use std::path::Path;

use super::Site;
use super::steps::{files, script};
use crate::database;
use crate::host::{durable, machine};
use crate::plan::{Direction, Plan, ServiceAction, Step};
use crate::report::{Code, Error, IoContext, Result};
use crate::service::Service;

/// Asks for all that `plan` and its undo need.
///
/// Errors: `service_failed` where the service manager would refuse; `read_only`, `permission`, `no_space`, `database_invalid`, `io`
/// where a name could not be replaced.
pub(super) fn check(site: &Site<'_>, plan: &Plan) -> Result<()> {
    for place in plan.switch.iter().flat_map(Step::placements) {
        if files::look(&place.path).is_ok_and(|node| node != place.now) {
            can_replace(&place.path)?;
        }
    }
    if !plan.switch.is_empty() && plan.direction != Direction::Uninstall {
        can_replace(&site.layout.config_file())?;
    }
    if plan.snapshot_dir().is_some() {
        database::check_replaceable(&site.database())?;
    }
    if let Some(order) = plan.script() {
        script::read(site, order)?;
    }
    if !site.layout.is_image() && !site.boot {
        ask_service(site, plan)?;
    }
    Ok(())
}

/// Whether the unit may be stopped and started, and whether systemd reads its units again: it refuses to while less than 16 MB of
/// /run are free.
fn ask_service(site: &Site<'_>, plan: &Plan) -> Result<()> {
    let unit = &site.layout.unit;
    let acts = plan.service != ServiceAction::None || plan.switch.contains(&Step::Stop);
    if let (Service::Systemd(systemd), true) = (&site.service, acts) {
        let state = systemd.show()?;
        if state.load_state == "masked" {
            return Err(Error::new(Code::ServiceFailed, format!("{unit} is masked while the agent runs"))
                .advise(format!("run `systemctl unmask {unit}`, or stop the agent (then only files are changed)")));
        }
        if let Some(setting) = state.refuses {
            let what =
                format!("{unit} has {setting}: the agent could not be stopped and started again after a failure");
            return Err(Error::new(Code::ServiceFailed, what)
                .advise(format!("remove this setting (`systemctl edit {unit}`) and run the command again")));
        }
    }
    if plan.switch.contains(&Step::DaemonReload) {
        site.service.daemon_reload()?;
    }
    Ok(())
}

/// Whether something can be renamed to `path`: its directory takes a new name, and what stands there is neither mounted nor
/// protected. A directory that is not there yet is made by the step.
fn can_replace(path: &Path) -> Result<()> {
    if durable::parent(path).is_dir() {
        durable::try_new(durable::parent(path)).at("cannot replace", path)?;
    }
    machine::check_replaceable(path)
}
