//! `/simulate`: what the next release would do to this fleet, and the button that begins it.

use askama::Template;

use super::confirm::Confirm;
use super::frame::Frame;

/// What is assumed, and what would become of it.
#[derive(Debug, Clone, Template)]
#[template(path = "simulate.html")]
pub(crate) struct SimulatePage {
    /// What is around it.
    pub(crate) frame: Frame,
    /// What was asked for, as it was typed.
    pub(crate) asked: SimulateInput,
    /// `None`: nothing was asked yet. An error: why it cannot be simulated.
    pub(crate) told: Option<Result<SimulateResult, String>>,
    /// What beginning it would do; an error: why it cannot begin. `None`: nobody who may asked for a version that can be simulated.
    pub(crate) begin: Option<Result<Confirm, String>>,
    /// The start version where none is typed; empty: there is none.
    pub(crate) start: String,
}

/// What was typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SimulateInput {
    /// The release; empty: the target of the resources.
    pub(crate) to: String,
    /// What hosts run before their turn; empty: what the present rollout says.
    pub(crate) start: String,
    /// How many hosts; empty: those that the server knows.
    pub(crate) hosts: String,
    /// On how many of them the release breaks: `2%`.
    pub(crate) bad: String,
    /// How many never come back: `0%`.
    pub(crate) vanish: String,
    /// From which all lots are drawn.
    pub(crate) seed: String,
}

/// What would happen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SimulateResult {
    /// As `teleport-fleet simulate` prints it.
    pub(crate) text: String,
    /// Its picture.
    pub(crate) svg: String,
}
