//! When a host may update: windows of a calendar, or windows with beginning and end.

use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use yaml::scalar::time_text;
use yaml::view::LONGEST_WINDOW;

use super::calendar::Calendar;
use super::find::excerpt;

/// Longest text that tells of windows, bytes, and most lines of it: whoever has more would keep a host at work for minutes.
const MAX_TEXT: usize = 4 << 10;
const MAX_LINES: usize = 64;
/// After its last window a schedule that names no other is out of date: agents export the windows of days ahead.
const STALE: SignedDuration = SignedDuration::from_hours(24);
/// After its last window a schedule counts no more: upstream, too, takes its agent for one that lost its cluster.
const GONE: SignedDuration = SignedDuration::from_hours(7 * 24);

/// The time zones by their names (`Europe/Berlin`), and the local one as the empty name.
pub type Zones<'a> = &'a dyn Fn(&str) -> Option<TimeZone>;

/// Windows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Window {
    /// They begin by a calendar, and are of one length.
    Calendar {
        /// The expressions: each begins windows.
        starts: Vec<Calendar>,
        /// How long each is open.
        length: SignedDuration,
        /// As it was written.
        text: String,
    },
    /// These.
    Listed(Vec<(Timestamp, Timestamp)>),
}

impl Window {
    /// Reads calendar expressions, one a line; `length`: how long each window is. `zone_of` knows the time zones.
    ///
    /// Errors: what is wrong with them.
    pub fn parse(text: &str, length: Duration, zone_of: Zones<'_>) -> Result<Self, String> {
        check_length(text)?;
        let read =
            |line: &str| Calendar::parse(line, zone_of).map_err(|why| format!("{:?}: {why}", excerpt(line.as_bytes())));
        let starts =
            text.lines().map(str::trim).filter(|line| !line.is_empty()).map(read).collect::<Result<Vec<_>, _>>()?;
        if starts.is_empty() {
            return Err("it is empty".to_owned());
        }
        let length = SignedDuration::try_from(length.min(LONGEST_WINDOW)).unwrap_or(SignedDuration::ZERO);
        let text = text.lines().map(str::trim).collect::<Vec<_>>().join(", ");
        Ok(Self::Calendar { starts, length, text })
    }

    /// Reads `START STOP` in seconds since the epoch, a window a line, as the agent exports it for systemd (RFD 0109). `None`:
    /// it is something else.
    pub fn listed(lines: &[&str]) -> Option<Self> {
        let time = |text: &str| Timestamp::from_second(text.parse().ok()?).ok();
        let read = |line: &&str| {
            let (start, stop) = line.split_once([' ', '\t'])?;
            time(start).zip(time(stop.trim_start())).filter(|(start, stop)| start < stop)
        };
        (lines.len() <= MAX_LINES).then(|| lines.iter().map(read).collect::<Option<_>>()).flatten().map(Self::Listed)
    }

    /// Reads `{"windows":[{"start","stop"}]}`, as the agent exports it for Kubernetes (RFD 0109) and servers tell it; times are of
    /// RFC 3339.
    ///
    /// Errors: what is wrong with it. A window that ends before it begins is.
    pub fn exported(json: &str) -> Result<Self, String> {
        let value: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
        let windows = value.get("windows").and_then(Value::as_array).ok_or("it has no windows")?;
        let time = |window: &Value, key: &str| window.get(key)?.as_str()?.parse::<Timestamp>().ok();
        let read = |window: &Value| {
            let (start, stop) = time(window, "start").zip(time(window, "stop")).ok_or("a window has no times")?;
            if start <= stop { Ok((start, stop)) } else { Err("a window ends before it begins".to_owned()) }
        };
        windows.iter().map(read).collect::<Result<_, String>>().map(Self::Listed)
    }

    /// Whether one is open.
    pub fn is_open(&self, now: Timestamp) -> bool {
        match self {
            Self::Calendar { starts, length, .. } => starts.iter().any(|start| start.is_open(now, *length)),
            Self::Listed(windows) => windows.iter().any(|(start, stop)| *start <= now && now < *stop),
        }
    }

    /// When the next one opens, as far as that is known.
    pub fn next(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Calendar { starts, .. } => starts.iter().filter_map(|start| start.next(now)).min(),
            Self::Listed(windows) => windows.iter().map(|(start, _)| *start).filter(|start| *start > now).min(),
        }
    }

    /// Since when the last one is over; `None`: one is open, or will be. Of a window that there has never been: for ever.
    pub fn over_since(&self, now: Timestamp) -> Option<Timestamp> {
        let ends: Vec<_> = match self {
            _ if self.is_open(now) || self.next(now).is_some() => return None,
            Self::Calendar { starts, length, .. } => {
                let lasts = starts.iter().filter_map(|start| start.last(now));
                lasts.filter_map(|last| last.checked_add(*length).ok()).collect()
            }
            Self::Listed(windows) if windows.is_empty() => return None,
            Self::Listed(windows) => windows.iter().map(|(_, stop)| *stop).collect(),
        };
        Some(ends.into_iter().max().unwrap_or(Timestamp::MIN))
    }

    /// Why it may never open again: who writes its schedule may have stopped.
    pub fn stale(&self, now: Timestamp) -> Option<String> {
        let over = self.over_since(now).filter(|over| now.duration_since(*over) >= STALE)?;
        let since = if over == Timestamp::MIN { String::new() } else { format!(" since {}", time_text(over)) };
        Some(format!("the schedule of maintenance windows has no later one{since}, and is out of date"))
    }

    /// Whether somebody else's schedule counts no more: the last of its windows is long over.
    pub fn is_gone(&self, now: Timestamp) -> bool {
        self.over_since(now).is_some_and(|over| now.duration_since(over) >= GONE)
    }

    /// For people: `the window "Tue 03:00" is open`.
    pub fn told(&self, now: Timestamp) -> String {
        let name = match self {
            Self::Calendar { text, .. } => format!("the window {:?}", excerpt(text.as_bytes())),
            Self::Listed(_) => "the maintenance window".to_owned(),
        };
        match (self.is_open(now), self.next(now)) {
            (true, _) => format!("{name} is open"),
            (false, Some(next)) => {
                let next = Timestamp::from_second(next.as_second()).unwrap_or(next);
                format!("{name} is closed and opens at {next}")
            }
            (false, None) if matches!(self, Self::Listed(windows) if !windows.is_empty()) => {
                format!("{name} is closed, and the schedule has no later one: it may be out of date")
            }
            (false, None) if matches!(self, Self::Calendar { .. }) => {
                format!("{name} is closed and does not open again within ten years: correct it")
            }
            (false, None) => format!("{name} is closed"),
        }
    }
}

fn check_length(text: &str) -> Result<(), String> {
    if text.len() > MAX_TEXT || text.lines().nth(MAX_LINES).is_some() {
        return Err(format!("it has more than {MAX_LINES} lines or {MAX_TEXT} bytes"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schedule_is_stale_a_day_after_the_end_of_its_last_window() {
        let now: Timestamp = "2026-11-24T12:00:00Z".parse().unwrap();
        let ended = |hours: i64| {
            let second = |hours: i64| (now.as_second() - hours * 3600).to_string();
            let line = format!("{} {}", second(hours + 1), second(hours));
            Window::listed(&["1000 2000", &line]).unwrap()
        };
        let calendar = |text: &str| Window::parse(text, Duration::from_secs(3600), &|_| Some(TimeZone::UTC)).unwrap();
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
            assert_eq!(window.stale(now).is_some(), is_stale, "{window:?}");
        }
    }
}
