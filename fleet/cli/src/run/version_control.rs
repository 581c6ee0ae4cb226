//! `version-control status`, and what people are warned of (DIRECTIVES §6).

use fleet_wire::api::{Code, VersionControlStatus};

use crate::client::{Answer, ApiCall, ApiClient};
use crate::console::Screen;
use crate::failure::Failure;
use crate::show::{value, version_control as shown};

/// Where the status is.
const STATUS: &str = "/v1/fleet/version-control";

/// `version-control status`.
pub(super) fn status(client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    let status: Answer<VersionControlStatus> = client.ask(&ApiCall::get(STATUS.to_owned()))?;
    value::show(screen, &status, |out, look| Ok(shown::status(out, &status, look.is_colourful)?))?;
    warn(&status, screen)
}

/// The warnings below a table, on standard error.
pub(super) fn warn_of_versions(client: &ApiClient, screen: &mut Screen<'_>) -> Result<(), Failure> {
    match client.ask::<Answer<VersionControlStatus>>(&ApiCall::get(STATUS.to_owned())) {
        Ok(status) => warn(&status, screen),
        // A controller lists hosts, and looks at nothing else.
        Err(failure) if failure.is(Code::Forbidden) => Ok(()),
        Err(failure) => Err(failure),
    }
}

fn warn(status: &VersionControlStatus, screen: &mut Screen<'_>) -> Result<(), Failure> {
    for line in shown::warnings(&status.alerts) {
        writeln!(screen.console.err, "{line}")?;
    }
    Ok(())
}
