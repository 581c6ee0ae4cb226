//! How a receiver is reached.

use super::event::Event;

/// How an event reaches a receiver.
pub(super) trait Way: Send {
    /// Tells it; it may take seconds.
    ///
    /// # Errors
    /// Why the receiver did not take it: one line.
    fn tell(&self, event: &Event) -> Result<(), String>;

    /// Whether it is for the audit log's head as well, which comes each hour.
    fn takes_heads(&self) -> bool;
}
