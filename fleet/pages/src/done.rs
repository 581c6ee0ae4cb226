//! What a change did.

use askama::Template;

use crate::Frame;

/// A sentence, and what it did to hosts.
#[derive(Debug, Clone, Template)]
#[template(path = "done.html")]
pub struct Done {
    /// What is around it.
    pub frame: Frame,
    /// `Successfully halted all agent groups.`
    pub sentence: String,
    /// `12 hosts are let go, 0 go down`; empty: it is about one host.
    pub touched: String,
    /// The path that is shown next.
    pub back: String,
}
