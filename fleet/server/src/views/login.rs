//! `/login`, and what is shown after a login elsewhere.

use askama::Template;
use fleet_wire::api::Role;

use super::frame::Frame;

/// The form that takes a token.
#[derive(Debug, Clone, Template)]
#[template(path = "login.html")]
pub(crate) struct LoginPage {
    /// What is around it.
    pub(crate) frame: Frame,
    /// The path that is shown afterwards.
    pub(crate) next: String,
    /// Why the last try failed; empty: there was none.
    pub(crate) error: String,
    /// Host and port of the provider by which people log in; empty: by tokens alone.
    pub(crate) provider: String,
}

/// Somebody came back from a provider.
#[derive(Debug, Clone, Template)]
#[template(path = "entered.html")]
pub(crate) struct Entered {
    /// What is around it.
    pub(crate) frame: Frame,
    /// As the audit log names it.
    pub(crate) who: String,
    /// What it may do.
    pub(crate) role: Role,
    /// The path that is shown next.
    pub(crate) next: String,
}
