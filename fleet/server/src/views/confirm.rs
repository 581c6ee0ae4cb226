//! `/confirm`: what a change would do, before it is made.

use askama::Template;
use fleet_wire::api::Effects;
use fleet_wire::words::effects;

use super::frame::Frame;

/// What is asked for, and what it would do.
#[derive(Debug, Clone, Template)]
#[template(path = "confirm.html")]
pub(crate) struct Confirm {
    /// What is around it.
    pub(crate) frame: Frame,
    /// `Halt group prod`.
    pub(crate) title: String,
    /// What it means, a sentence.
    pub(crate) means: String,
    /// The groups that it would be carried out on.
    pub(crate) groups: Vec<String>,
    /// How many hosts; `None`: it is about one host.
    pub(crate) effects: Option<Effects>,
    /// What the form sends: names and values.
    pub(crate) fields: Vec<(&'static str, String)>,
    /// It stops or takes back.
    pub(crate) is_stop: bool,
    /// Enter does it: a stop is in a hurry, and nothing else is.
    pub(crate) is_urgent: bool,
    /// The path behind `Cancel`.
    pub(crate) back: String,
}

impl Confirm {
    fn touches(&self) -> String {
        self.effects.as_ref().map_or_else(|| "1 host".to_owned(), effects::effects)
    }
}
