//! An error.

use askama::Template;

use crate::Frame;

/// One line, and its code.
#[derive(Debug, Clone, Template)]
#[template(path = "refused.html")]
pub struct RefusedPage {
    /// What is around it.
    pub frame: Frame,
    /// A stable code, as the API's.
    pub code: String,
    /// What failed, and what to do.
    pub message: String,
    /// The path that is shown next.
    pub back: String,
}
