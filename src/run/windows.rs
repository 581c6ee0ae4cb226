//! The maintenance windows that this host knows: its operator's, and the one that the agent exports (RFD 0109).

use std::path::Path;

use jiff::{SignedDuration, Timestamp};

use crate::cluster::Window;
use crate::config::Spec;
use crate::context::Context;
use crate::host::durable;
use crate::report::{Code, Error, Result};
use crate::yaml::scalar::time_text;

/// Where the agent writes its maintenance schedule, in the order in which it is looked for.
const EXPORTED: [&str; 2] =
    ["/etc/teleport-upgrade.d/schedule", "/etc/systemd/system/teleport-upgrade.timer.d/override.conf"];
/// How long a window is that the agent exports.
const HOUR: std::time::Duration = std::time::Duration::from_secs(3600);
/// After its last window a schedule that names no other is out of date: agents export the windows of days ahead.
const STALE: SignedDuration = SignedDuration::from_hours(24);
/// After its last window a schedule counts no more: upstream, too, takes its agent for one that lost its cluster.
const GONE: SignedDuration = SignedDuration::from_hours(7 * 24);
/// What to do about a schedule that cannot be read: without it the host would update at any time.
const MEND: &str = "remove it; the agent writes it again";
/// Longest file that is read, bytes: the agent's is a line.
const MAX_FILE: u64 = 64 << 10;

/// The window of `updates.yaml`. Errors: `config_invalid`.
pub(crate) fn of_settings(context: &Context, spec: &Spec) -> Result<Option<Window>> {
    let Some(text) = &spec.window else { return Ok(None) };
    let wrong = |why| {
        let file = context.layout.config_file();
        Error::new(Code::ConfigInvalid, format!("window in {} is no calendar expression: {why}", file.display()))
            .advise("write it as in `Tue,Wed *-*-* 00:00:00 UTC` (systemd.time(7))")
    };
    Window::parse(text, spec.window_length, &context.layout).map(Some).map_err(wrong)
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
            return Window::parse(&starts.join("\n"), HOUR, &context.layout).map(Some).map_err(wrong);
        }
    }
    Ok(None)
}

/// Why `window` may never open again: who writes its schedule may have stopped.
pub(crate) fn stale(window: &Window, now: Timestamp) -> Option<String> {
    let over = window.over_since(now).filter(|over| now.duration_since(*over) >= STALE)?;
    let since = if over == Timestamp::MIN { String::new() } else { format!(" since {}", time_text(over)) };
    Some(format!("the schedule of maintenance windows has no later one{since}, and is out of date"))
}

/// Whether somebody else's schedule still counts: with the last of its windows long over there is none.
pub(crate) fn counts(context: &Context, window: &Window) -> bool {
    let now = context.host.now();
    let is_gone = window.over_since(now).is_some_and(|over| now.duration_since(over) >= GONE);
    if let Some(why) = stale(window, now).filter(|_| is_gone) {
        context.report.warn(&format!("{why}: it no longer counts"));
    }
    !is_gone
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
    fn a_schedule_is_stale_a_day_after_the_end_of_its_last_window() {
        let now: Timestamp = "2026-11-24T12:00:00Z".parse().unwrap();
        let layout = crate::host::Layout::new(Path::new("/"), None, None).unwrap();
        let ended = |hours: i64| {
            let second = |hours: i64| (now.as_second() - hours * 3600).to_string();
            let line = format!("{} {}", second(hours + 1), second(hours));
            Window::listed(&["1000 2000", &line]).unwrap()
        };
        let calendar = |text: &str| Window::parse(text, HOUR, &layout).unwrap();
        for (window, is_stale) in [
            (ended(23), false),
            (ended(24), true),
            (ended(1000), true),
            (ended(0), false),
            (ended(-5), false),
            (Window::Listed(Vec::new()), false),
            (calendar("Tue 03:00 UTC"), false),
            (calendar("2026-11-23 10:59 UTC"), true),
            (calendar("2026-11-23 11:01 UTC"), false),
            (calendar("2026-11-23 11:01 UTC\n2026-12-24 11:00 UTC"), false),
            (calendar("*-02-30 00:00 UTC"), true),
        ] {
            assert_eq!(stale(&window, now).is_some(), is_stale, "{window:?}");
        }
    }

    #[test]
    fn a_drop_in_and_a_bare_line_are_both_schedules() {
        let drop_in = "# by the agent\n[Timer]\nOnBootSec=\nOnUnitActiveSec=\nOnCalendar=\nOnCalendar=Tue,Wed *-*-* 00:00:00 UTC\n";
        assert_eq!(starts(drop_in), ["Tue,Wed *-*-* 00:00:00 UTC"]);
        assert_eq!(starts("Mon 02:00\n\n"), ["Mon 02:00"]);
        assert_eq!(starts("OnCalendar=Mon 02:00\nOnCalendar=\n"), [""; 0]);
        assert_eq!(starts("[Timer]\nOnBootSec=5m\n"), [""; 0]);
    }
}
