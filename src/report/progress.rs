//! The progress of a download: a bar with speed and remaining time on a terminal, a line now and then elsewhere.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Lines in a log: one in this time, so that a download of some seconds has none.
const LOG_PACE: Duration = Duration::from_secs(10);
/// Redraws a second on a terminal: enough to look alive, few enough for a serial console.
const REDRAWS_HZ: u8 = 8;

/// Columns beside the bar at their widest: `   99 %  1023.99 KiB of 999.99 MiB  1023.99 KiB/s  59m left`.
const FIGURES: u16 = 66;
/// Columns of a bar that says more than its percentage does, and of one that says no more when it grows.
const NARROWEST_BAR: u16 = 8;
const WIDEST_BAR: u16 = 32;
/// Columns of a terminal that does not tell.
const USUAL: u16 = 80;

/// What is under way: the progress of one download, or a wait.
#[derive(Debug)]
pub(crate) struct Bar {
    bar: Option<ProgressBar>,
    colour: bool,
    /// When the last line was due.
    logged: Instant,
}

impl Bar {
    /// A bar; `terminal` decides whether it is drawn.
    pub(crate) fn new(terminal: bool, colour: bool) -> Self {
        let bar = terminal.then(|| {
            let bar = ProgressBar::no_length();
            bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(REDRAWS_HZ));
            bar
        });
        Self { bar, colour, logged: Instant::now() }
    }

    /// A line on the terminal about what is waited for.
    pub(crate) fn waiting(text: &str) -> Self {
        let bar = ProgressBar::no_length();
        bar.set_draw_target(ProgressDrawTarget::stderr_with_hz(REDRAWS_HZ));
        if let Ok(style) = ProgressStyle::with_template("  {msg}") {
            bar.set_style(style);
        }
        bar.set_message(text.to_owned());
        bar.tick();
        Self { bar: Some(bar), colour: false, logged: Instant::now() }
    }

    /// Takes it off the screen while `write` writes a line.
    pub(crate) fn suspend(&self, write: impl FnOnce()) {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Moves the bar. Returns the line to be logged, if one is due.
    pub(crate) fn update(&mut self, done: u64, total: Option<u64>) -> Option<String> {
        if let Some(bar) = &self.bar {
            if bar.length() != total || done == 0 {
                let paint = if self.colour { ".cyan" } else { "" };
                let width = columns().saturating_sub(FIGURES).min(WIDEST_BAR);
                let template = match total {
                    Some(_) if width >= NARROWEST_BAR => format!(
                        "  {{bar:{width}{paint}}} {{percent:>3}} %  {{bytes}} of {{total_bytes}}  {{bytes_per_sec}}  {{eta}} left"
                    ),
                    // A line that wraps would be drawn again and again below itself.
                    Some(_) => "  {percent:>3} %  {bytes_per_sec}  {eta} left".to_owned(),
                    None => "  {bytes}  {bytes_per_sec}".to_owned(),
                };
                if let Ok(style) = ProgressStyle::with_template(&template) {
                    bar.set_style(style.progress_chars("━╸─"));
                }
                match total {
                    Some(total) => bar.set_length(total),
                    None => bar.unset_length(),
                }
            }
            bar.set_position(done);
            return None;
        }
        (self.logged.elapsed() >= LOG_PACE).then(|| {
            self.logged = Instant::now();
            match total.filter(|&total| total > 0) {
                Some(total) => format!("downloaded {} % of {}", done.saturating_mul(100) / total, megabytes(total)),
                None => format!("downloaded {}", megabytes(done)),
            }
        })
    }

    /// Takes it off the screen.
    pub(crate) fn finish(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The width of the terminal on standard error.
fn columns() -> u16 {
    rustix::termios::tcgetwinsize(std::io::stderr()).map_or(USUAL, |size| size.ws_col).max(1)
}

/// A size for people: `17.6 MB`.
pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}
