//! `/login`.

use askama::Template;

use crate::Frame;

/// The form that takes a token.
#[derive(Debug, Clone, Template)]
#[template(path = "login.html")]
pub struct Login {
    /// What is around it.
    pub frame: Frame,
    /// The path that is shown afterwards.
    pub next: String,
    /// Why the last try failed; empty: there was none.
    pub error: String,
}
