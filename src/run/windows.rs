//! The maintenance windows that this host knows: its operator's, and the one that the agent exports (RFD 0109).

use std::path::Path;

use jiff::tz::TimeZone;
use sources::Window;

use crate::config::Spec;
use crate::context::Context;
use crate::host::{Layout, durable};
use crate::report::{Code, Error, Result};

/// Where the agent writes its maintenance schedule, in the order in which it is looked for.
const EXPORTED: [&str; 2] =
    ["/etc/teleport-upgrade.d/schedule", "/etc/systemd/system/teleport-upgrade.timer.d/override.conf"];
/// How long a window is that the agent exports.
const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);
/// What to do about a schedule that cannot be read: without it the host would update at any time.
const MEND: &str = "remove it; the agent writes it again";
/// Longest file that is read, bytes: the agent's is a line.
const MAX_FILE: u64 = 64 << 10;
/// Longest file of a time zone, bytes; the largest has 3,500.
const MAX_ZONE: u64 = 64 << 10;

/// The window of `updates.yaml`. Errors: `config_invalid`.
pub(crate) fn of_settings(context: &Context, spec: &Spec) -> Result<Option<Window>> {
    let Some(text) = &spec.window else { return Ok(None) };
    let wrong = |why| {
        let file = context.layout.config_file();
        Error::new(Code::ConfigInvalid, format!("window in {} is no calendar expression: {why}", file.display()))
            .advise("write it as in `Tue,Wed *-*-* 00:00:00 UTC` (systemd.time(7))")
    };
    Window::parse(text, spec.window_length, &|name| zone(name, &context.layout)).map(Some).map_err(wrong)
}

/// The window that the agent exports; `None` where there is none. Errors: `config_invalid`, `permission`, `io`.
pub(crate) fn exported(context: &Context) -> Result<Option<Window>> {
    for inside in EXPORTED {
        let (name, file) = (context.layout.real_path(Path::new(inside)), context.layout.followed(Path::new(inside)));
        // A drop-in that is a link to /dev/null is masked (systemd.unit(5)).
        if !durable::exists(&name)? || file.ends_with("dev/null") {
            continue;
        }
        let odd = |why| Error::new(Code::ConfigInvalid, format!("{inside} cannot be read as a schedule: {why}"));
        // A pipe in its place would be waited for.
        let bytes = if file.is_file() { durable::read_limited(&file, MAX_FILE)? } else { None };
        let bytes = bytes.ok_or_else(|| odd("it is not a file, or a link to nothing").advise(MEND))?;
        let text = String::from_utf8_lossy(&bytes);
        let starts = starts(&text);
        if !starts.is_empty() {
            if let Some(window) = Window::listed(&starts) {
                return Ok(Some(window));
            }
            let wrong = |why| Error::new(Code::ConfigInvalid, format!("{inside} holds no windows: {why}"));
            return Window::parse(&starts.join("\n"), HOUR, &|name| zone(name, &context.layout))
                .map(Some)
                .map_err(wrong);
        }
    }
    Ok(None)
}

/// Whether somebody else's schedule still counts: with the last of its windows long over there is none.
pub(crate) fn counts(context: &Context, window: &Window) -> bool {
    let now = context.host.now();
    let is_gone = window.is_gone(now);
    if let Some(why) = window.stale(now).filter(|_| is_gone) {
        context.report.warn(&format!("{why}: it no longer counts"));
    }
    !is_gone
}

/// The time zone called `name` on the host or image; the empty name is its local time.
pub(crate) fn zone(name: &str, layout: &Layout) -> Option<TimeZone> {
    let inside = match name {
        "UTC" => return Some(TimeZone::UTC),
        "" => "/etc/localtime".to_owned(),
        _ => {
            let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'_' | b'-' | b'+');
            if !name.bytes().all(is_letter) || name.starts_with('/') {
                return None;
            }
            format!("/usr/share/zoneinfo/{name}")
        }
    };
    let file = layout.followed(Path::new(&inside));
    // A pipe in its place would be waited for.
    let bytes = if file.is_file() { durable::read_limited(&file, MAX_ZONE).ok().flatten() } else { None };
    match bytes {
        Some(bytes) => TimeZone::tzif(name, &bytes).ok(),
        // A host that names no zone has UTC (localtime(5)).
        None => name.is_empty().then_some(TimeZone::UTC),
    }
}

/// The calendar expressions of a timer's drop-in, or of a file with nothing else in it. An empty `OnCalendar=` forgets those
/// before it (systemd.timer(5)).
fn starts(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for line in text.lines().map(str::trim) {
        match line.split_once('=').map(|(key, value)| (key.trim(), value.trim())) {
            _ if line.is_empty() || line.starts_with(['#', ';', '[']) => {}
            Some(("OnCalendar", "")) => found.clear(),
            Some(("OnCalendar", value)) => found.push(value),
            Some(_) => {}
            None => found.push(line),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drop_in_and_a_bare_line_are_both_schedules() {
        let drop_in = "# by the agent\n[Timer]\nOnBootSec=\nOnUnitActiveSec=\nOnCalendar=\nOnCalendar=Tue,Wed *-*-* 00:00:00 UTC\n";
        assert_eq!(starts(drop_in), ["Tue,Wed *-*-* 00:00:00 UTC"]);
        assert_eq!(starts("Mon 02:00\n\n"), ["Mon 02:00"]);
        assert_eq!(starts("OnCalendar=Mon 02:00\nOnCalendar=\n"), [""; 0]);
        assert_eq!(starts("[Timer]\nOnBootSec=5m\n"), [""; 0]);
    }
}
