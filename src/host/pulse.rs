//! Signs of life of an updater that was handed a command, and its last word (SPEC §5, Re-exec): the one that handed over
//! hears them through a pipe, and does the work itself if they end.

use std::fs::File;
use std::io::Write;
use std::os::fd::{FromRawFd, RawFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{FileType, fstat};
use rustix::io::{FdFlags, fcntl_setfd};

use crate::report::{Code, Error};

/// The variable that names the descriptor to write to.
pub const PIPE: &str = "TELEPORT_UPDATE_PULSE";
/// Between two signs of life: small against any limit.
pub const EVERY: Duration = Duration::from_secs(5);
/// A sign of life.
const BEAT: &[u8] = b".\n";
/// Last word of a command that came to its own end: its status stands.
const ENDED: &str = "ended";

static PULSE: OnceLock<Pulse> = OnceLock::new();

struct Pulse {
    pipe: File,
    begun: Instant,
    /// When the next sign is due, milliseconds after the beginning.
    next: AtomicU64,
}

/// Begins to give signs through the descriptor that `named`, the variable's value, says. Programs we start do not inherit it.
pub fn begin(named: Option<&str>) {
    let Some(descriptor) = named.and_then(|named| named.parse::<RawFd>().ok()).filter(|descriptor| *descriptor > 2)
    else {
        return;
    };
    // SAFETY: it is looked at and nothing more; a number that is not open is an error.
    let pipe = unsafe { std::os::fd::BorrowedFd::borrow_raw(descriptor) };
    // The variable outlives the pipe in programs that are started by us.
    let is_pipe = fstat(pipe).is_ok_and(|found| FileType::from_raw_mode(found.st_mode) == FileType::Fifo);
    if !is_pipe || fcntl_setfd(pipe, FdFlags::CLOEXEC).is_err() {
        return;
    }
    // SAFETY: the parent opened it for us, and nothing else here knows it.
    let pipe = unsafe { File::from_raw_fd(descriptor) };
    let _ = PULSE.set(Pulse { pipe, begun: Instant::now(), next: AtomicU64::new(0) });
    beat();
}

/// Gives a sign of life, if one is due. Called wherever a run waits or may be told to end.
pub fn beat() {
    let Some(pulse) = PULSE.get() else { return };
    let now = u64::try_from(pulse.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
    let next = pulse.next.load(Ordering::Relaxed);
    if now < next {
        return;
    }
    pulse.next.store(now.saturating_add(u64::try_from(EVERY.as_millis()).unwrap_or(u64::MAX)), Ordering::Relaxed);
    let _ = (&pulse.pipe).write_all(BEAT);
}

/// Says the last word: how the command ended is what it meant, and no accident.
pub fn end(error: Option<&Error>) {
    if let Some(pulse) = PULSE.get() {
        let word = error.map_or(ENDED, |error| error.code.as_str());
        let _ = (&pulse.pipe).write_all(format!("{word}\n").as_bytes());
    }
}

/// Whether what was heard ends with a last word that is known here.
pub fn is_last_word(heard: &[u8]) -> bool {
    let text = String::from_utf8_lossy(heard);
    let last = text.lines().next_back().unwrap_or_default();
    last == ENDED || Code::ALL.iter().any(|code| code.as_str() == last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_error_code_or_the_end_of_a_command_is_a_last_word() {
        for (heard, is_word) in [
            ("", false),
            (".\n.\n", false),
            (".\nended\n", true),
            ("checksum_mismatch\n", true),
            (".\nno_such_code\n", false),
            ("ended\n.\n", false),
        ] {
            assert_eq!(is_last_word(heard.as_bytes()), is_word, "{heard:?}");
        }
    }

    #[test]
    fn a_descriptor_that_is_no_pipe_is_left_alone() {
        begin(Some("1"));
        begin(Some("999"));
        begin(Some("many"));
        let file = tempfile::tempfile().unwrap();
        begin(Some(&std::os::fd::AsRawFd::as_raw_fd(&file).to_string()));
        beat();
        end(None);
        assert_eq!(file.metadata().unwrap().len(), 0);
        assert!(PULSE.get().is_none());
    }
}
