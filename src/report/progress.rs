//! The progress of a download: a bar with speed and remaining time on a terminal, a line now and then elsewhere.

use std::io::Write;
use std::time::{Duration, Instant};

/// Lines in a log: one in this time, so that a download of some seconds has none.
const LOG_PACE: Duration = Duration::from_secs(10);
/// Between two redraws on a terminal: often enough to look alive, seldom enough for a serial console.
const REDRAW: Duration = Duration::from_millis(125);

/// Columns beside the bar at their widest: `   99 %  1023.9 MB of 9999.9 MB  1023.9 MB/s  59 min left`.
const FIGURES: u16 = 64;
/// Columns of a bar that says more than its percentage does, and of one that says no more when it grows.
const NARROWEST_BAR: u16 = 8;
const WIDEST_BAR: u16 = 32;
/// Columns of a terminal that does not tell.
const USUAL: u16 = 80;
/// How much of the speed shown is that of the last moment: one part in this many.
const SMOOTHING: u64 = 8;

/// What is under way: the progress of one download, or a wait.
#[derive(Debug)]
pub(crate) struct Bar {
    terminal: bool,
    colour: bool,
    /// The line on the terminal.
    shown: String,
    /// When the last line was due.
    logged: Instant,
    /// When the bar was last drawn, how much was there then, and the speed shown, bytes a second.
    drawn: (Instant, u64, u64),
}

impl Bar {
    /// A bar; `terminal` decides whether it is drawn.
    pub(crate) fn new(terminal: bool, colour: bool) -> Self {
        let now = Instant::now();
        Self { terminal, colour, shown: String::new(), logged: now, drawn: (now, 0, 0) }
    }

    /// A line on the terminal about what is waited for.
    pub(crate) fn waiting(text: &str) -> Self {
        let mut bar = Self::new(true, false);
        bar.draw(format!("  {text}"));
        bar
    }

    /// Takes it off the screen while `write` writes a line.
    pub(crate) fn suspend(&self, write: impl FnOnce()) {
        if self.shown.is_empty() {
            return write();
        }
        put("");
        write();
        put(&self.shown);
    }

    /// Moves the bar. Returns the line to be logged, if one is due.
    pub(crate) fn update(&mut self, done: u64, total: Option<u64>) -> Option<String> {
        let total = total.filter(|&total| total > 0);
        if self.terminal {
            let (last, before, speed) = self.drawn;
            let since = last.elapsed();
            if since >= REDRAW || self.shown.is_empty() {
                let now = speed_of(done.saturating_sub(before), since);
                let speed = if speed == 0 { now } else { (speed * (SMOOTHING - 1) + now) / SMOOTHING };
                self.drawn = (Instant::now(), done, speed);
                self.draw(line(done, total, speed, columns(), self.colour));
            }
            return None;
        }
        (self.logged.elapsed() >= LOG_PACE).then(|| {
            self.logged = Instant::now();
            match total {
                Some(total) => format!("downloaded {} % of {}", percent(done, total), megabytes(total)),
                None => format!("downloaded {}", megabytes(done)),
            }
        })
    }

    /// Takes it off the screen.
    pub(crate) fn finish(self) {
        if !self.shown.is_empty() {
            put("");
        }
    }

    fn draw(&mut self, line: String) {
        put(&line);
        self.shown = line;
    }
}

/// Puts `line` in place of the terminal's last one.
fn put(line: &str) {
    let mut terminal = std::io::stderr().lock();
    // Nobody listens any more: not a reason to stop half-way.
    let _ = write!(terminal, "\r\x1b[K{line}");
    let _ = terminal.flush();
}

/// The bar with its figures, in at most `columns`: a line that wraps would be drawn again and again below itself.
fn line(done: u64, total: Option<u64>, speed: u64, columns: u16, colour: bool) -> String {
    let pace = format!("{}/s", megabytes(speed));
    let Some(total) = total else { return format!("  {}  {pace}", megabytes(done)) };
    let (percent, left) = (percent(done, total), left(total.saturating_sub(done), speed));
    let width = columns.saturating_sub(FIGURES).min(WIDEST_BAR);
    if width < NARROWEST_BAR {
        return format!("  {percent:>3} %  {pace}  {left}");
    }
    let width = usize::from(width);
    let full = usize::try_from(percent).unwrap_or(0).min(100) * width / 100;
    let bar = match full {
        full if full == width => "━".repeat(width),
        full => "━".repeat(full) + "╸" + &"─".repeat(width - full - 1),
    };
    let bar = if colour { format!("\x1b[36m{bar}\x1b[0m") } else { bar };
    format!("  {bar} {percent:>3} %  {} of {}  {pace}  {left}", megabytes(done), megabytes(total))
}

/// Bytes a second.
fn speed_of(bytes: u64, time: Duration) -> u64 {
    let micros = time.as_micros().max(1);
    u64::try_from(u128::from(bytes) * 1_000_000 / micros).unwrap_or(u64::MAX)
}

fn left(bytes: u64, speed: u64) -> String {
    match bytes.checked_div(speed) {
        None => "-".to_owned(),
        Some(seconds @ 0..120) => format!("{seconds} s left"),
        Some(seconds @ 120..7200) => format!("{} min left", seconds / 60),
        Some(seconds) => format!("{} h left", seconds / 3600),
    }
}

fn percent(done: u64, total: u64) -> u64 {
    done.saturating_mul(100) / total.max(1)
}

/// The width of the terminal on standard error.
fn columns() -> u16 {
    rustix::termios::tcgetwinsize(std::io::stderr()).map_or(USUAL, |size| size.ws_col).max(1)
}

/// A size for people: `17.6 MB`.
pub(crate) fn megabytes(bytes: u64) -> String {
    let tenths = bytes.saturating_add(50_000) / 100_000;
    format!("{}.{} MB", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_share_sizes_speed_and_time_left() {
        let shown = line(50_000_000, Some(200_000_000), 10_000_000, 120, false);
        let bar = "━".repeat(8) + "╸" + &"─".repeat(23);
        assert_eq!(shown, format!("  {bar}  25 %  50.0 MB of 200.0 MB  10.0 MB/s  15 s left"));
        assert!(line(200, Some(200), 1, 120, true).contains(&format!("\x1b[36m{}\x1b[0m 100 %", "━".repeat(32))));
        assert_eq!(line(1_250_000, None, 0, 120, false), "  1.3 MB  0.0 MB/s");
        assert_eq!(line(0, Some(200_000_000), 0, 50, false), "    0 %  0.0 MB/s  -");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for columns in 40..200 {
            let shown = line(900_000_000, Some(9_999_900_000), 1_999_900_000, columns, false);
            assert!(shown.chars().count() <= usize::from(columns), "{columns}: {shown}");
        }
    }

    #[test]
    fn a_long_rest_is_told_in_minutes_or_hours() {
        assert_eq!(
            [119, 120, 7199, 7200].map(|seconds| left(seconds, 1)),
            ["119 s left", "2 min left", "119 min left", "2 h left"]
        );
    }
}
