//! How long nobody answers for the agent, seen from outside: `GET /readyz` on its socket, again and again.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two questions.
const SLICE: Duration = Duration::from_millis(1);
/// An answer takes a tenth of a millisecond.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks until it is told to stop.
#[derive(Debug)]
pub struct Probe {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Gap>,
}

/// The longest time between two good answers, from the end of one to the end of the next.
#[derive(Debug, Clone, Copy, Default)]
pub struct Gap {
    last: Option<Instant>,
    longest: Duration,
}

impl Gap {
    fn answered(&mut self, now: Instant) {
        if let Some(last) = self.last.replace(now) {
            self.longest = self.longest.max(now.duration_since(last));
        }
    }

    /// Seconds.
    pub fn seconds(self) -> f64 {
        self.longest.as_secs_f64()
    }
}

impl Probe {
    /// Begins to ask the agent whose data are in `data`.
    ///
    /// # Errors
    /// The directory cannot be opened.
    pub fn start(data: &Path) -> io::Result<Self> {
        // A socket's path must be short; that of the directory may be long.
        let dir = File::open(data)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let socket = format!("/proc/self/fd/{}/debug.sock", dir.as_raw_fd());
            let mut gap = Gap::default();
            while !stopped.load(Ordering::Relaxed) {
                if is_ready(Path::new(&socket)).unwrap_or(false) {
                    gap.answered(Instant::now());
                }
                std::thread::sleep(SLICE);
            }
            gap
        });
        Ok(Self { stop, thread })
    }

    /// Ends; the longest gap.
    ///
    /// # Errors
    /// The thread broke.
    pub fn end(self) -> io::Result<Gap> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| io::Error::other("the probe broke"))
    }
}

fn is_ready(socket: &Path) -> io::Result<bool> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer)?;
    Ok(&answer == b"HTTP/1.1 200")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_time_between_two_good_answers_counts() {
        let (mut gap, begun) = (Gap::default(), Instant::now());
        for millis in [5, 6, 406, 407] {
            gap.answered(begun + Duration::from_millis(millis));
        }
        assert_eq!(gap.seconds(), 0.4);
        assert_eq!(Gap::default().seconds(), 0.0);
    }
}
