//! An axis of time without the times in which nothing changes.

use jiff::Timestamp;

use super::{Forecast, later};

/// Nothing has changed for longer than this: it is cut out, seconds.
const IDLE: u64 = 45 * 60;
/// What is kept on both sides of a cut, seconds.
const AROUND: u64 = 4 * 60;
/// The same behind a lone event at the beginning.
const ALONE: u64 = 60;
/// Widths of what is cut out, and the least of what is kept, in pixels.
const GAP: f64 = 46.0;
const LEAST: f64 = 54.0;
/// Between two ticks, in pixels.
const APART: f64 = 62.0;
/// What may be between two ticks, seconds.
const STEPS: [u64; 14] = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800];

/// A piece of the axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Piece {
    /// Seconds since the beginning.
    pub(super) at: (u64, u64),
    /// Pixels.
    pub(super) x: (f64, f64),
    /// It is cut out.
    pub(super) is_gap: bool,
}

impl Piece {
    fn seconds(&self) -> f64 {
        (self.at.1 - self.at.0).max(1) as f64
    }

    /// In pixels.
    pub(super) fn width(&self) -> f64 {
        self.x.1 - self.x.0
    }

    /// The place of a time in it, or of the nearest that is.
    fn x(&self, at: u64) -> f64 {
        let within = at.clamp(self.at.0, self.at.1) - self.at.0;
        self.x.0 + self.width() * (within as f64 / self.seconds())
    }
}

/// The axis.
pub(super) struct Axis(Vec<Piece>);

/// A tick of the axis.
pub(super) struct Tick {
    pub(super) x: f64,
    pub(super) clock: String,
    /// The first of its piece names the day.
    pub(super) day: Option<String>,
}

impl Axis {
    /// For a forecast, between two places in pixels.
    pub(super) fn of(forecast: &Forecast, left: f64, right: f64) -> Self {
        let of_curves = forecast.groups.iter().flat_map(|group| group.curve.samples()).map(|sample| sample.at);
        let of_load = forecast.load.minutes.iter().map(|(minute, ..)| minute * 60);
        let of_groups = forecast.groups.iter().flat_map(|group| [group.start, group.done]);
        let of_halts = forecast.groups.iter().filter_map(|group| group.halt.as_ref()).map(|halt| halt.at);
        let of_spans = forecast.spans.iter().flat_map(|(_, from, to)| [*from, *to]);
        let times = of_groups.flatten().chain(of_halts).chain(of_spans).chain([forecast.begin]);
        let mut times: Vec<u64> = of_curves.chain(of_load).chain(times.map(|at| forecast.second(at))).collect();
        times.sort_unstable();
        Self::between(&pieces(&times), left, right)
    }

    /// Gives each piece its pixels: gaps a fixed width, the others by their lengths.
    fn between(pieces: &[(u64, u64, bool)], left: f64, right: f64) -> Self {
        let (gaps, kept): (Vec<_>, Vec<_>) = pieces.iter().partition(|(.., is_gap)| *is_gap);
        // Lengths are far below 2^52.
        let seconds: f64 = kept.iter().map(|(from, to, _)| (to - from) as f64).sum();
        let (gaps, kept) = (gaps.len() as f64, kept.len() as f64);
        // Where there are many pieces, all get narrower.
        let narrow = ((right - left) / (kept * LEAST + gaps * GAP)).min(1.0);
        let free = (right - left) - (kept * LEAST + gaps * GAP) * narrow;
        let mut x = left;
        let placed = pieces.iter().map(|(from, to, is_gap)| {
            let share = if seconds > 0.0 { (to - from) as f64 / seconds } else { 1.0 };
            let width = if *is_gap { GAP * narrow } else { LEAST * narrow + free * share };
            let begin = x;
            x += width;
            Piece { at: (*from, *to), x: (begin, x), is_gap: *is_gap }
        });
        Self(placed.collect())
    }

    /// The pieces that are cut out.
    pub(super) fn gaps(&self) -> impl Iterator<Item = &Piece> {
        self.0.iter().filter(|piece| piece.is_gap)
    }

    /// The place of a time.
    pub(super) fn x(&self, at: u64) -> f64 {
        let piece = self.0.iter().find(|piece| at < piece.at.1).or(self.0.last());
        piece.map_or(0.0, |piece| piece.x(at))
    }

    /// Ticks at round times, and at least one in each piece that is wide enough.
    pub(super) fn ticks(&self, begin: Timestamp) -> Vec<Tick> {
        let kept = || self.0.iter().filter(|piece| !piece.is_gap);
        let is_fit = |step: &&u64| {
            kept().all(|piece| piece.width() / piece.seconds() * (**step as f64) >= APART || piece.width() < APART)
        };
        let step = STEPS.iter().find(is_fit).copied().unwrap_or(604_800);
        let offset = u64::try_from(begin.as_second().rem_euclid(604_800)).unwrap_or(0);
        let mut ticks: Vec<Tick> = Vec::new();
        let mut last_day = String::new();
        for piece in kept() {
            let first = ((piece.at.0 + offset).div_ceil(step) * step).saturating_sub(offset);
            let mut times: Vec<u64> = (0..).map(|nth| first + nth * step).take_while(|at| *at <= piece.at.1).collect();
            if times.is_empty() {
                times.push(piece.at.0);
            }
            for at in times {
                let x = piece.x(at);
                if ticks.last().is_some_and(|last| x - last.x < APART * 0.8) {
                    continue;
                }
                let time = later(begin, at);
                let day = time.strftime("%a %-d %b").to_string();
                let is_new = last_day != day;
                last_day.clone_from(&day);
                ticks.push(Tick { x, clock: time.strftime("%H:%M").to_string(), day: is_new.then_some(day) });
            }
        }
        ticks
    }
}

/// Pieces from the first time to the last; from, to, whether nothing changes in it.
fn pieces(times: &[u64]) -> Vec<(u64, u64, bool)> {
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return vec![(0, AROUND, false)] };
    let mut pieces = Vec::new();
    let mut from = *first;
    for pair in times.windows(2) {
        let [before, after] = pair else { continue };
        if after - before > IDLE {
            // Of a lone event little is seen.
            let end = before + if from == *before { ALONE } else { AROUND };
            pieces.push((from, end, false));
            pieces.push((end, after - AROUND, true));
            from = after - AROUND;
        }
    }
    pieces.push((from, last + AROUND, false));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_times_are_cut_out_and_the_rest_is_to_scale() {
        // Two hours of nothing between two quarters of an hour.
        let times = [0, 600, 900, 8100, 9000];
        let cut = [(0, 1140, false), (1140, 7860, true), (7860, 9240, false)];
        assert_eq!(pieces(&times), cut);
        let axis = Axis::between(&cut, 0.0, 1000.0);
        assert!(axis.gaps().next().is_some());
        assert!((axis.x(0) - 0.0).abs() < 1e-6 && (axis.x(9240) - 1000.0).abs() < 1e-6);
        let [one, gap, two] = &axis.0[..] else { panic!("three pieces") };
        assert!((gap.x.1 - gap.x.0 - GAP).abs() < 1e-6);
        // (1000 − 2 × 54 − 46) pixels are divided 1140 : 1380.
        assert!((one.x.1 - (54.0 + 846.0 * 1140.0 / 2520.0)).abs() < 1e-6, "{one:?}");
        assert!((two.x.1 - 1000.0).abs() < 1e-6);
        // No time is before an earlier one.
        let places: Vec<f64> = (0..9300).map(|at| axis.x(at)).collect();
        assert!(places.windows(2).all(|pair| pair[0] <= pair[1]));
    }

    #[test]
    fn ticks_are_round_and_apart() {
        let begin: Timestamp = "2026-01-05T00:07:00Z".parse().unwrap();
        let axis = Axis::between(&[(0, 7200, false)], 76.0, 976.0);
        let ticks = axis.ticks(begin);
        let clocks: Vec<&str> = ticks.iter().map(|tick| tick.clock.as_str()).collect();
        // 7.5 pixels a minute: ten minutes are 75.
        assert_eq!(
            clocks,
            [
                "00:10", "00:20", "00:30", "00:40", "00:50", "01:00", "01:10", "01:20", "01:30", "01:40", "01:50",
                "02:00"
            ]
        );
        assert_eq!(ticks[0].day.as_deref(), Some("Mon 5 Jan"));
        assert!(ticks[1].day.is_none());
    }

    #[test]
    fn many_pieces_stay_within_the_picture() {
        let times: Vec<u64> = (0..60).map(|day| day * 86_400).collect();
        let axis = Axis::between(&pieces(&times), 76.0, 976.0);
        assert!((axis.0.last().unwrap().x.1 - 976.0).abs() < 1e-6);
    }
}
