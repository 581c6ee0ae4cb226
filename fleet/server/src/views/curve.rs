//! A group's hosts over time, as a picture and as a table.

use fleet_engine::curve::{Point, RolloutCurve};
use fleet_wire::rollout::{RolloutGroup, RolloutSpec};
use fleet_wire::text;

/// The picture is stretched to its place; in it everything is per mille.
const WHOLE: u64 = 1000;
/// Where nought is, and how far above it the highest is: lines at the edge would be cut.
const BASE: u64 = 980;
const HEIGHT: u64 = 960;
/// Rows of the table: what fits on a screen.
const ROWS: usize = 16;

/// See the head of this file.
#[derive(Debug, Clone)]
pub(crate) struct Drawing {
    /// The lines.
    pub(crate) lines: [CurveLine; 3],
    /// How many hosts the picture's upper edge stands for.
    pub(crate) most: u64,
    /// When it begins, and ends, in UTC.
    pub(crate) ends: (String, String),
    /// Of the times in UTC, what the lines count; not more than fit on a screen.
    pub(crate) rows: Vec<(String, [u64; 3])>,
}

/// One of the lines.
#[derive(Debug, Clone)]
pub(crate) struct CurveLine {
    /// How it looks: `told`, `updated` or `bad`.
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
        let counts: [fn(&Point) -> u64; 3] = [|point| point.told, |point| point.updated, |point| point.failed];
        let most = counts.iter().map(|count| count(last)).max().unwrap_or(0).max(all);
        let names = [told.to_owned(), format!("on {}", text::clean(version)), "failed or timed out".to_owned()];
        let mut classes = ["told", "updated", "bad"].into_iter().zip(names);
        let lines = counts.map(|count| {
            let (class, name) = classes.next().unwrap_or_default();
            CurveLine { class, name, count: count(last), path: path(&curve.points, most, count) }
        });
        let time = |point: &Point| format!("{} UTC", text::time(point.at));
        let rows = thinned(&curve.points).map(|point| (text::time(point.at), counts.map(|count| count(point))));
        Some(Self { lines, most, ends: (time(first), time(last)), rows: rows.collect() })
    }

    /// `1 host`, `40 hosts`.
    pub(crate) fn hosts(&self) -> String {
        text::hosts(self.most)
    }
}

/// Steps up, each at its time.
fn path(points: &[Point], most: u64, count: impl Fn(&Point) -> u64) -> String {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return String::new() };
    if count(last) == 0 {
        return String::new();
    }
    let seconds = |point: &Point| u64::try_from(point.at.duration_since(first.at).as_secs()).unwrap_or(0);
    let y = |point: &Point| BASE - HEIGHT * count(point) / most.max(1);
    let mut path = format!("M0 {}", y(first));
    let mut height = y(first);
    for point in points.iter().filter(|point| count(point) > 0) {
        if y(point) != height {
            height = y(point);
            path.push_str(&format!("H{}V{height}", WHOLE * seconds(point) / seconds(last).max(1)));
        }
    }
    path.push_str(&format!("H{WHOLE}"));
    path
}

/// Some of the points, evenly; the first and the last among them.
fn thinned(points: &[Point]) -> impl Iterator<Item = &Point> {
    let rows = points.len().min(ROWS);
    (0..rows).filter_map(move |row| points.get(row * (points.len() - 1) / (rows - 1).max(1)))
}

#[cfg(test)]
mod tests {
    use jiff::{SignedDuration, Timestamp};

    use super::*;

    fn curve(points: impl IntoIterator<Item = (i64, u64, u64, u64)>) -> RolloutCurve {
        let at = |second| Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second);
        let point = |(second, told, updated, failed)| Point { at: at(second), told, updated, failed };
        RolloutCurve { points: points.into_iter().map(point).collect() }
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
        let shown = drawing.lines.each_ref().map(|line| (line.name.as_str(), line.count, line.path.as_str()));
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
        assert_eq!(drawing.ends, ("1970-01-01 00:00:00 UTC".to_owned(), "1970-01-01 00:16:40 UTC".to_owned()));
    }

    #[test]
    fn a_group_that_goes_back_counts_those_that_are_back() {
        let drawing = drawing(&curve([(0, 0, 1, 0), (60, 2, 3, 0)]), "rolledback", 3).unwrap();
        let names = drawing.lines.each_ref().map(|line| line.name.as_str());
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
