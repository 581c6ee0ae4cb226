//! `/confirm`: what a change would do, before it is made.

use askama::Template;
use fleet_wire::api::Effects;
use fleet_wire::words::effects;

use crate::Frame;

/// What is asked for, and what it would do.
#[derive(Debug, Clone, Template)]
#[template(path = "confirm.html")]
pub struct Confirm {
    /// What is around it.
    pub frame: Frame,
    /// `Halt group prod`.
    pub title: String,
    /// What it means, a sentence.
    pub means: String,
    /// The groups that it would be carried out on.
    pub groups: Vec<String>,
    /// How many hosts; `None`: it is about one host.
    pub effects: Option<Effects>,
    /// What the form sends: names and values.
    pub fields: Vec<(&'static str, String)>,
    /// It stops or takes back.
    pub is_stop: bool,
    /// Enter does it: a stop is in a hurry, and nothing else is.
    pub is_urgent: bool,
    /// The path behind `Cancel`.
    pub back: String,
}

impl Confirm {
    fn touches(&self) -> String {
        self.effects.as_ref().map_or_else(|| "1 host".to_owned(), effects::effects)
    }
}
