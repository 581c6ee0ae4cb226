//! `/login`, and what is shown after a login elsewhere.

use askama::Template;
use fleet_wire::api::Role;

use crate::Frame;

/// The form that takes a token.
#[derive(Debug, Clone, Template)]
#[template(path = "login.html")]
pub struct LoginPage {
    /// What is around it.
    pub frame: Frame,
    /// The path that is shown afterwards.
    pub next: String,
    /// Why the last try failed; empty: there was none.
    pub error: String,
    /// Host and port of the provider by which people log in; empty: by tokens alone.
    pub provider: String,
}

/// Somebody came back from a provider.
#[derive(Debug, Clone, Template)]
#[template(path = "entered.html")]
pub struct Entered {
    /// What is around it.
    pub frame: Frame,
    /// As the audit log names it.
    pub who: String,
    /// What it may do.
    pub role: Role,
    /// The path that is shown next.
    pub next: String,
}
