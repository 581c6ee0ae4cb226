//! Whether a version may be installed now: the loop of RFD 0109. Critical? Agent unhealthy? Within a window?

use std::fmt::Display;

use error::Result;
use jiff::Timestamp;
use protocol::Version;

use super::said::Said;
use super::window::Window;

/// Whether a version may be installed now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timing {
    /// It may be.
    pub is_open: bool,
    /// It has to be, whatever the window says.
    pub urgent: bool,
    /// Why.
    pub reason: String,
    /// Why the window may never open again.
    pub stale: Option<String>,
}

/// What follows at `now` from what is `said` for `who` (`this host`), where `own` runs. `complaint`: what is wrong with the agent;
/// `window`: that which counts where the source names none. Each is asked only where it has a say.
///
/// Errors: those of `complaint` and `window`.
pub fn timing<S: Display>(
    said: &Said,
    who: &str,
    own: Option<&Version>,
    now: Timestamp,
    complaint: impl FnOnce() -> Result<Option<S>>,
    window: impl FnOnce() -> Result<Option<Window>>,
) -> Result<Timing> {
    let at_once = |reason| Ok(Timing { is_open: true, urgent: true, reason, stale: None });
    if said.critical {
        return at_once(format!("{} is critical", said.version));
    }
    if let Some(floor) = said.floor.as_ref().filter(|floor| own.is_some_and(|own| own.precedes(floor))) {
        return at_once(format!("{who}'s version is below the source's min_version {floor}"));
    }
    if let Some(complaint) = complaint()? {
        return at_once(format!("the agent is unhealthy: {complaint}"));
    }
    let window = match &said.window {
        Some(window) => Some(window.clone()),
        None => window()?,
    };
    let (is_open, reason, stale) = window.map_or_else(
        || (true, "there is no maintenance window".to_owned(), None),
        |window| (window.is_open(now), window.told(now), window.stale(now)),
    );
    Ok(Timing { is_open, urgent: false, reason, stale })
}
