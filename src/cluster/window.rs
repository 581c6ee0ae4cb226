//! When a host may update: windows of a calendar, or windows with beginning and end.

use std::path::Path;
use std::time::Duration;

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::calendar::Calendar;
use super::find::excerpt;
use crate::host::Layout;
use crate::host::durable;
use crate::yaml::view::LONGEST_WINDOW;

/// Longest text that tells of windows, bytes, and most lines of it: whoever has more would keep a host at work for minutes.
const MAX_TEXT: usize = 4 << 10;
const MAX_LINES: usize = 64;
/// Longest file of a time zone, bytes; the largest has 3,500.
const MAX_ZONE: u64 = 64 << 10;

/// Windows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Window {
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
    /// Reads calendar expressions, one a line; `length`: how long each window is.
    ///
    /// Errors: what is wrong with them.
    pub(crate) fn parse(text: &str, length: Duration, layout: &Layout) -> Result<Self, String> {
        check_length(text)?;
        let zone_of = |name: &str| zone(name, layout);
        let read = |line: &str| {
            Calendar::parse(line, &zone_of).map_err(|why| format!("{:?}: {why}", excerpt(line.as_bytes())))
        };
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
    pub(crate) fn listed(lines: &[&str]) -> Option<Self> {
        let time = |text: &str| Timestamp::from_second(text.parse().ok()?).ok();
        let read = |line: &&str| {
            let (start, stop) = line.split_once([' ', '\t'])?;
            time(start).zip(time(stop.trim_start())).filter(|(start, stop)| start < stop)
        };
        (lines.len() <= MAX_LINES).then(|| lines.iter().map(read).collect::<Option<_>>()).flatten().map(Self::Listed)
    }

    /// Whether one is open.
    pub(crate) fn is_open(&self, now: Timestamp) -> bool {
        match self {
            Self::Calendar { starts, length, .. } => starts.iter().any(|start| start.is_open(now, *length)),
            Self::Listed(windows) => windows.iter().any(|(start, stop)| *start <= now && now < *stop),
        }
    }

    /// When the next one opens, as far as that is known.
    pub(crate) fn next(&self, now: Timestamp) -> Option<Timestamp> {
        match self {
            Self::Calendar { starts, .. } => starts.iter().filter_map(|start| start.next(now)).min(),
            Self::Listed(windows) => windows.iter().map(|(start, _)| *start).filter(|start| *start > now).min(),
        }
    }

    /// Since when the last one is over; `None`: one is open, or will be. Of a window that there has never been: for ever.
    pub(crate) fn over_since(&self, now: Timestamp) -> Option<Timestamp> {
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

    /// For people: `the window "Tue 03:00" is open`.
    pub(crate) fn told(&self, now: Timestamp) -> String {
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

/// The time zone called `name` on the host or image; the empty name is its local time.
fn zone(name: &str, layout: &Layout) -> Option<TimeZone> {
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
