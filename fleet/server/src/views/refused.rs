//! An error.

use askama::Template;

use super::frame::Frame;

/// One line, and its code.
#[derive(Debug, Clone, Template)]
#[template(path = "refused.html")]
pub(crate) struct RefusedPage {
    /// What is around it.
    pub(crate) frame: Frame,
    /// A stable code, as the API's.
    pub(crate) code: String,
    /// What failed, and what to do.
    pub(crate) message: String,
    /// The path that is shown next.
    pub(crate) back: String,
}
