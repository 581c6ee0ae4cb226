//! `/confirm`: what a change would do, before it is made.

use askama::Template;

use super::frame::Frame;

/// What is asked for, on a page of its own.
#[derive(Debug, Clone, Template)]
#[template(path = "confirm.html")]
pub(crate) struct ConfirmPage {
    /// What is around it.
    pub(crate) frame: Frame,
    /// What is asked for.
    pub(crate) asked: Confirm,
}

/// What is asked for, what it would do, and the form that does it.
#[derive(Debug, Clone)]
pub(crate) struct Confirm {
    /// `Halt group prod`.
    pub(crate) title: String,
    /// What it means, a sentence.
    pub(crate) means: String,
    /// The groups that it would be carried out on.
    pub(crate) groups: Vec<String>,
    /// What it would do, and to how many hosts.
    pub(crate) touches: Vec<String>,
    /// What the form sends: names and values.
    pub(crate) fields: Vec<(&'static str, String)>,
    /// It stops or takes back.
    pub(crate) is_stop: bool,
    /// Enter does it: a stop is in a hurry, and nothing else is.
    pub(crate) is_urgent: bool,
    /// The path behind `Cancel`.
    pub(crate) back: String,
}
