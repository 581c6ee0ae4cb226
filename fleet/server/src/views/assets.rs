//! What pages load besides themselves.

/// The style sheet.
pub(crate) const STYLE: &str = include_str!("../../assets/style.css");
/// The script: it keeps a page fresh. Every page works without it.
pub(crate) const SCRIPT: &str = include_str!("../../assets/live.js");
