//! The timers: the package's, and the Go updater's of the same name.

use std::path::Path;

use crate::context::Context;
use crate::host::systemctl::Systemctl;
use crate::host::{Layout, durable, machine};
use crate::plan::TIMER_UNIT;
use crate::report::Result;

/// What the Go updater's timer for this installation is called, and ours.
pub(super) fn foreign(context: &Context) -> String {
    let suffix = context.layout.suffix.as_ref();
    suffix.map_or(TIMER_UNIT.to_owned(), |suffix| TIMER_UNIT.replace('.', &format!("_{suffix}.")))
}

/// `unit`, where systemd runs it.
pub(super) fn active(layout: &Layout, unit: String) -> Result<Option<String>> {
    if layout.is_image() || !machine::is_systemd_booted() {
        return Ok(None);
    }
    Ok(Systemctl::default().show(&unit)?.is_active().then_some(unit))
}

/// Why updates do not come by themselves on this running host, and what to do; none where the timer is as it should be,
/// and where nothing is known of it.
pub(crate) fn silent_timer(context: &Context) -> Option<String> {
    if context.layout.is_image() || !machine::is_systemd_booted() {
        return None;
    }
    let timer = foreign(context);
    let shown = Systemctl::default().show(&timer).ok()?;
    let (state, unmask) = match shown.unit_file_state.as_str() {
        masked @ ("masked" | "masked-runtime") => (masked, format!("systemctl unmask {timer}; ")),
        _ if shown.load_state == "not-found" => {
            let how = "install the package teleport-update, or run `teleport-update update` from a timer of your own";
            return Some(format!("there is no {timer}, so there are no automatic updates: {how}"));
        }
        "disabled" => ("disabled", String::new()),
        _ if !shown.is_active() => ("stopped", String::new()),
        _ => return None,
    };
    Some(format!("{timer} is {state}, so there are no automatic updates: run `{unmask}systemctl enable --now {timer}`"))
}

/// Whether one of these directories has the unit.
pub(super) fn is_in(layout: &Layout, dirs: &[&str], unit: &str) -> Result<bool> {
    for dir in dirs {
        if durable::exists(&layout.followed(&Path::new(dir).join(unit)))? {
            return Ok(true);
        }
    }
    Ok(false)
}
