//! Hosts over time, as a picture and as a table.

use fleet_engine::curve::{RolloutCurve, VersionCurve};
use fleet_wire::rollout::{RolloutGroup, RolloutSpec};
use fleet_wire::text;
use jiff::{SignedDuration, Timestamp};

/// The picture is stretched to its place; in it everything is per mille.
const WHOLE: u64 = 1000;
/// Where nought is, and how far above it the highest is: lines at the edge would be cut.
const BASE: u64 = 980;
const HEIGHT: u64 = 960;
/// Rows of the table: what fits on a screen.
const ROWS: usize = 16;

/// Times below the picture.
const TICKS: usize = 5;

/// See the head of this file.
#[derive(Debug, Clone)]
pub(crate) struct Drawing {
    /// What it shows: `Hosts over time`.
    pub(crate) title: &'static str,
    /// The lines.
    pub(crate) lines: Vec<CurveLine>,
    /// How many hosts the picture's upper edge stands for.
    pub(crate) most: u64,
    /// Times in UTC, evenly from its beginning to its end.
    pub(crate) ticks: Vec<String>,
    /// What happened, when, and where that is, per mille.
    pub(crate) marks: Vec<(String, u64)>,
    /// Of the times in UTC, what the lines count; not more than fit on a screen.
    pub(crate) rows: Vec<(String, Vec<u64>)>,
}

/// One of the lines.
#[derive(Debug, Clone)]
pub(crate) struct CurveLine {
    /// How it looks: `told`, `updated`, `bad`, or `v0` to `v4`.
    pub(crate) class: &'static str,
    /// What it counts.
    pub(crate) name: String,
    /// How many at the end.
    pub(crate) count: u64,
    /// Its path; empty: it has not left nought.
    pub(crate) path: String,
}

impl Drawing {
    /// Of `group` in a rollout of `spec`; `all`: its hosts. `None`: nothing has happened yet.
    pub(crate) fn of(curve: &RolloutCurve, group: &RolloutGroup, spec: &RolloutSpec, all: u64) -> Option<Self> {
        let (first, last) = (curve.points.first()?, curve.points.last()?);
        if last.told + last.updated + last.failed == 0 {
            return None;
        }
        let (told, version) = match group.state.as_str() {
            "rolledback" => ("going back", &spec.start_version),
            _ => ("allowed to update", &spec.target_version),
        };
        let points: Vec<(Timestamp, Vec<u64>)> =
            curve.points.iter().map(|point| (point.at, vec![point.told, point.updated, point.failed])).collect();
        let names = [told.to_owned(), format!("on {}", text::clean(version)), "failed or timed out".to_owned()];
        let lines = ["told", "updated", "bad"].into_iter().zip(names).collect();
        let mut drawing = Self::draw("Hosts over time", &points, lines, all)?;
        let place = |at| WHOLE * seconds(first.at, at) / seconds(first.at, last.at).max(1);
        let mark = |at: Timestamp| (format!("halted at {} UTC", text::time(at)), place(at).min(WHOLE));
        drawing.marks = curve.halted.map(mark).into_iter().collect();
        Some(drawing)
    }

    /// Of versions. `None`: no host has changed its version yet.
    pub(crate) fn of_versions(curve: &VersionCurve) -> Option<Self> {
        let name = |version: &String| {
            if version.is_empty() { "on others".to_owned() } else { format!("on {}", text::clean(version)) }
        };
        let lines = ["v0", "v1", "v2", "v3", "v4"].into_iter().zip(curve.versions.iter().map(name)).collect();
        Self::draw("Hosts by version over time", &curve.points, lines, 0)
    }

    /// `least`: how many hosts the upper edge stands for at least.
    fn draw(
        title: &'static str,
        points: &[(Timestamp, Vec<u64>)],
        lines: Vec<(&'static str, String)>,
        least: u64,
    ) -> Option<Self> {
        let ((begin, _), (end, _)) = (points.first()?, points.last()?);
        let most = points.iter().flat_map(|(_, counts)| counts).copied().max().unwrap_or(0).max(least);
        let line = |(nth, (class, name)): (usize, (&'static str, String))| {
            let of: Vec<(u64, u64)> = points
                .iter()
                .map(|(at, counts)| (seconds(*begin, *at), counts.get(nth).copied().unwrap_or(0)))
                .collect();
            CurveLine { class, name, count: of.last().map_or(0, |(_, count)| *count), path: path(&of, most) }
        };
        let rows = thinned(points).map(|(at, counts)| (text::time(*at), counts.clone())).collect();
        let lines = lines.into_iter().enumerate().map(line).collect();
        Some(Self { title, lines, most, ticks: ticks(*begin, *end), marks: Vec::new(), rows })
    }

    /// `1 host`, `40 hosts`.
    pub(crate) fn hosts(&self) -> String {
        text::hosts(self.most)
    }
}

fn seconds(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_secs()).unwrap_or(0)
}

/// The first with its day; a day's hours alone, where all is within one.
fn ticks(begin: Timestamp, end: Timestamp) -> Vec<String> {
    const DAY: u64 = 86_400;
    let span = seconds(begin, end);
    let format = match span {
        ..600 => "%H:%M:%S",
        600..DAY => "%H:%M",
        _ => "%b %-d %H:%M",
    };
    let at = |nth: usize| {
        let part = span * u64::try_from(nth).unwrap_or(0) / u64::try_from(TICKS - 1).unwrap_or(1);
        begin.checked_add(SignedDuration::from_secs(i64::try_from(part).unwrap_or(0))).unwrap_or(end)
    };
    let mut ticks: Vec<String> = (1..TICKS).map(|nth| at(nth).strftime(format).to_string()).collect();
    ticks.insert(0, begin.strftime("%Y-%m-%d %H:%M UTC").to_string());
    ticks
}

/// Steps of (seconds, hosts), each at its time; empty where there never was a host.
fn path(points: &[(u64, u64)], most: u64) -> String {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return String::new() };
    if points.iter().all(|(_, count)| *count == 0) {
        return String::new();
    }
    let y = |count: u64| BASE - HEIGHT * count / most.max(1);
    let mut height = y(first.1);
    let mut path = format!("M0 {height}");
    for (at, count) in points {
        if y(*count) != height {
            height = y(*count);
            path.push_str(&format!("H{}V{height}", WHOLE * at / last.0.max(1)));
        }
    }
    path.push_str(&format!("H{WHOLE}"));
    path
}

/// Some of the points, evenly; the first and the last among them.
fn thinned(points: &[(Timestamp, Vec<u64>)]) -> impl Iterator<Item = &(Timestamp, Vec<u64>)> {
    let rows = points.len().min(ROWS);
    (0..rows).filter_map(move |row| points.get(row * (points.len() - 1) / (rows - 1).max(1)))
}

#[cfg(test)]
mod tests {
    use fleet_engine::curve::Point;

    use super::*;

    fn curve(points: impl IntoIterator<Item = (i64, u64, u64, u64)>) -> RolloutCurve {
        let at = |second| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second);
        let point = |(second, told, updated, failed)| Point { at: at(second), told, updated, failed };
        RolloutCurve { points: points.into_iter().map(point).collect(), halted: Some(at(250)) }
    }

    fn drawing(curve: &RolloutCurve, state: &str, all: u64) -> Option<Drawing> {
        let spec = RolloutSpec {
            start_version: "1.0.0".to_owned(),
            target_version: "2.0.0".to_owned(),
            ..RolloutSpec::default()
        };
        Drawing::of(curve, &RolloutGroup { state: state.to_owned(), ..RolloutGroup::default() }, &spec, all)
    }

    #[test]
    fn lines_rise_at_their_times_and_end_at_their_counts() {
        let curve = curve([(0, 0, 0, 0), (100, 4, 0, 0), (500, 4, 2, 1), (1000, 4, 2, 1)]);
        let drawing = drawing(&curve, "active", 8).unwrap();
        let shown: Vec<_> =
            drawing.lines.iter().map(|line| (line.name.as_str(), line.count, line.path.as_str())).collect();
        // Half of eight is half of the height, which is 960 above 980.
        assert_eq!(
            shown,
            [
                ("allowed to update", 4, "M0 980H100V500H1000"),
                ("on 2.0.0", 2, "M0 980H500V740H1000"),
                ("failed or timed out", 1, "M0 980H500V860H1000"),
            ]
        );
        assert_eq!(drawing.hosts(), "8 hosts");
        assert_eq!(drawing.ticks, ["1970-01-01 00:00 UTC", "00:04", "00:08", "00:12", "00:16"]);
        assert_eq!(drawing.marks, [("halted at 1970-01-01 00:04:10 UTC".to_owned(), 250)]);
    }

    #[test]
    fn a_group_that_goes_back_counts_those_that_are_back() {
        let drawing = drawing(&curve([(0, 0, 1, 0), (60, 2, 3, 0)]), "rolledback", 3).unwrap();
        let names: Vec<_> = drawing.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["going back", "on 1.0.0", "failed or timed out"]);
        assert_eq!(drawing.lines[1].path, "M0 660H1000V20H1000", "the first was there from the beginning");
        assert_eq!(drawing.lines[2].path, "", "nobody failed");
    }

    #[test]
    fn nothing_is_drawn_before_anything_happened() {
        assert!(drawing(&curve([(0, 0, 0, 0), (1000, 0, 0, 0)]), "active", 5).is_none());
        assert!(drawing(&curve([]), "active", 5).is_none());
    }

    #[test]
    fn all_in_one_second_and_far_more_than_fit_are_drawn_too() {
        assert_eq!(drawing(&curve([(7, 1, 1, 0), (7, 1, 1, 0)]), "done", 1).unwrap().lines[1].path, "M0 20H1000");
        let many = curve((0..200).map(|second| (second, u64::try_from(second).unwrap(), 0, 0)));
        let rows = drawing(&many, "active", 200).unwrap().rows;
        assert_eq!(rows.len(), ROWS);
        assert_eq!((rows[0].1[0], rows[ROWS - 1].1[0]), (0, 199));
        assert!(rows.is_sorted_by(|one, other| one.1 < other.1), "{rows:?}");
    }
}
