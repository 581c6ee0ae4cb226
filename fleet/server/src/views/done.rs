//! What a change did.

use askama::Template;

use super::frame::Frame;

/// A sentence, and what it did to hosts.
#[derive(Debug, Clone, Template)]
#[template(path = "done.html")]
pub(crate) struct Done {
    /// What is around it.
    pub(crate) frame: Frame,
    /// `Successfully halted all agent groups.`
    pub(crate) sentence: String,
    /// `12 hosts may update now, 0 downgrade`; empty: it is about one host.
    pub(crate) touched: String,
    /// The path that is shown next.
    pub(crate) back: String,
}
