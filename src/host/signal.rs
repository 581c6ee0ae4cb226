//! SIGINT, SIGTERM and the SIGHUP of a lost terminal become a flag that is asked at safe points (SPEC §7).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use rustix::event::{Timespec, poll};

use signal_hook::SigId;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use crate::report::{IoContext, Result};

pub(crate) use http_client::Cancelled;

/// The signals that this run received. Clones share the same flag.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    received: Arc<AtomicUsize>,
    /// What is done on SIGHUP, to be taken back.
    hangup: Option<SigId>,
}

impl Signals {
    /// Catches SIGINT, SIGTERM and (unless nohup(1) had it ignored) SIGHUP of this process from now on. SIGPIPE is
    /// ignored by Rust's start-up code.
    pub fn install() -> Result<Self> {
        let mut signals = Self::default();
        let catch = |signal: i32| {
            signal_hook::flag::register_usize(signal, Arc::clone(&signals.received), signal as usize)
                .at("cannot catch", format!("signal {signal}"))
        };
        catch(SIGINT)?;
        catch(SIGTERM)?;
        signals.hangup = if is_ignored(SIGHUP) { None } else { Some(catch(SIGHUP)?) };
        // A write beyond `ulimit -f` is an error like any other; a handler, as below.
        signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).at("cannot catch", "SIGXFSZ")?;
        Ok(signals)
    }

    /// Signals that never come, for tests and for work that nothing may interrupt.
    pub fn never() -> Self {
        Self::default()
    }

    /// Lets this process outlive its terminal: the agent that is stopped may carry the session it was started from.
    ///
    /// A handler and not SIG_IGN, so that programs we start have the default again.
    pub fn ignore_hangup(&self) -> Result<()> {
        signal_hook::flag::register(SIGHUP, Arc::new(AtomicBool::new(false))).at("cannot catch", "SIGHUP")?;
        self.hangup.map(signal_hook::low_level::unregister);
        Ok(())
    }

    /// True once a signal came: end at the next safe point.
    pub fn cancelled(&self) -> bool {
        self.received.load(Ordering::SeqCst) != 0
    }

    /// The number of the last signal.
    pub fn received(&self) -> Option<i32> {
        i32::try_from(self.received.load(Ordering::SeqCst)).ok().filter(|signal| *signal != 0)
    }

    /// Acts as if `signal` had come.
    pub fn raise(&self, signal: i32) {
        self.received.store(usize::try_from(signal).unwrap_or(0), Ordering::SeqCst);
    }
}

/// Takes back what whoever started this process made of its signals, before it has threads: with SIGCHLD ignored the kernel
/// keeps no child's end for its parent, and a blocked SIGTERM never comes. SIGHUP stays as it is, for nohup(1).
pub fn begin_anew() {
    let mut none = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: the set is filled by the first call and read by the second; the third hands over no function of ours.
    unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), std::ptr::null_mut());
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
    }
}

/// Whether this process was started with `signal` ignored (proc(5), `SigIgn`: signal n is bit n-1).
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).map(str::trim);
    mask.and_then(|mask| u64::from_str_radix(mask, 16).ok()).is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Waits for `duration`, or until a signal to us.
pub(crate) fn pause(duration: Duration) {
    let _ = poll(&mut [], Timespec::try_from(duration).ok().as_ref());
}

#[cfg(test)]
mod tests {
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[test]
    fn a_process_that_was_started_deaf_hears_its_children_end_and_its_signals() {
        let mut all = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: as in the function that is tested.
        unsafe {
            libc::sigfillset(all.as_mut_ptr());
            libc::sigprocmask(libc::SIG_SETMASK, all.as_ptr(), std::ptr::null_mut());
            libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        }
        let child = || std::process::Command::new("true").status();
        assert!(child().is_err() && is_ignored(libc::SIGCHLD));
        begin_anew();
        assert!(child().unwrap().success() && !is_ignored(libc::SIGCHLD));
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        assert!(status.contains("SigBlk:\t0000000000000000"), "{status}");
    }

    #[test]
    fn a_signal_sets_the_flag_and_a_hangup_that_is_to_be_outlived_does_not() {
        let signals = Signals::install().unwrap();
        signals.ignore_hangup().unwrap();
        kill_process(getpid(), Signal::HUP).unwrap();
        assert!(!signals.cancelled());
        kill_process(getpid(), Signal::TERM).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        while !signals.cancelled() {
            assert!(std::time::Instant::now() < deadline);
            std::thread::yield_now();
        }
        assert_eq!(signals.received(), Some(SIGTERM));
    }
}
