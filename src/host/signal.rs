//! SIGINT and SIGTERM become a flag that is asked at safe points (SPEC §7); SIGHUP can be outlived.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};

use crate::report::{IoContext, Result};

/// The signals that this run received. Clones share the same flag.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    received: Arc<AtomicUsize>,
}

impl Signals {
    /// Catches SIGINT and SIGTERM of this process from now on. SIGPIPE is ignored by Rust's start-up code.
    pub fn install() -> Result<Self> {
        let signals = Self::default();
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_usize(signal, Arc::clone(&signals.received), signal as usize)
                .at("cannot catch", format!("signal {signal}"))?;
        }
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

#[cfg(test)]
mod tests {
    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[test]
    fn a_signal_sets_the_flag_and_a_hangup_does_not() {
        let signals = Signals::install().unwrap();
        signals.ignore_hangup().unwrap();
        kill_process(getpid(), Signal::HUP).unwrap();
        assert!(!signals.cancelled());
        kill_process(getpid(), Signal::TERM).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
        while !signals.cancelled() {
            assert!(std::time::Instant::now() < deadline);
            std::thread::yield_now();
        }
        assert_eq!(signals.received(), Some(SIGTERM));
    }
}
