//! An interrupted run that its recovery has not ended yet.

use super::reference::Reference;
use super::world::Rev;

/// A run that was interrupted, and what its recovery must make of the host.
pub(super) struct Pending {
    /// The reference, when it was interrupted.
    pub(super) state: Reference,
    /// The target, where the run is to be undone; true: the agent's link was touched.
    pub(super) undone: Option<(Rev, bool)>,
    /// A boot came in between: whether the agent runs depends on how far that recovery came.
    pub(super) booted: bool,
}
