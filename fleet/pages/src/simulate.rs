//! `/simulate`: what a release would do to this fleet.

use askama::Template;

use crate::Frame;

/// What is assumed, and what would become of it.
#[derive(Debug, Clone, Template)]
#[template(path = "simulate.html")]
pub struct SimulatePage {
    /// What is around it.
    pub frame: Frame,
    /// What was asked for, as it was typed.
    pub asked: SimulateInput,
    /// `None`: nothing was asked yet. An error: why it cannot be simulated.
    pub told: Option<Result<SimulateResult, String>>,
}

/// What was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulateInput {
    /// The release; empty: the target of the resources.
    pub to: String,
    /// How many hosts; empty: those that the server knows.
    pub hosts: String,
    /// On how many of them the release breaks: `2%`.
    pub bad: String,
    /// How many never come back: `0%`.
    pub vanish: String,
    /// From which all lots are drawn.
    pub seed: String,
}

/// What would happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SimulateResult {
    /// As `teleport-fleet simulate` prints it.
    pub text: String,
    /// Its picture.
    pub svg: String,
}
