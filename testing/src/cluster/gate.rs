//! Holds answers back until they may go on.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// A gate that answers stand at, and whoever waits for them.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// How often it was opened.
    opened: u64,
    /// How many answers stand at it.
    held: usize,
}

/// An answer's way through a gate as it is now: the next opening lets it go on.
#[derive(Debug, Clone)]
pub(crate) struct Pass {
    gate: Arc<Gate>,
    opened: u64,
}

impl Gate {
    pub(crate) fn pass(self: &Arc<Self>) -> Pass {
        Pass { gate: Arc::clone(self), opened: self.state().opened }
    }

    /// Lets go on what stands at it.
    pub(crate) fn open(&self) {
        self.state().opened += 1;
        self.changed.notify_all();
    }

    /// Waits until an answer stands at it; false if none does within `timeout`.
    pub(crate) fn is_held_within(&self, timeout: Duration) -> bool {
        let waited = self.changed.wait_timeout_while(self.state(), timeout, |state| state.held == 0);
        waited.is_ok_and(|(state, _)| state.held > 0)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

impl Pass {
    /// Stands at the gate until it is opened.
    pub(crate) fn wait(&self) {
        let mut state = self.gate.state();
        state.held += 1;
        self.gate.changed.notify_all();
        let waited = self.gate.changed.wait_while(state, |state| state.opened == self.opened);
        waited.unwrap().held -= 1;
    }
}
