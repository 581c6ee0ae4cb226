//! `/versions`: what hosts run, and the resources that say what they shall run.

use askama::Template;
use fleet_wire::api::{KeptResource, StateCounts};

use super::curve::Drawing;
use super::frame::Frame;

/// Counts of hosts, and resources.
#[derive(Debug, Clone, Template)]
#[template(path = "versions.html")]
pub(crate) struct VersionsPage {
    /// What is around it.
    pub(crate) frame: Frame,
    /// Hosts by group and version.
    pub(crate) counts: StateCounts,
    /// The same over time; `None`: no host has changed its version.
    pub(crate) drawing: Option<Drawing>,
    /// Names of groups by which hosts are found.
    pub(crate) groups: Vec<String>,
    /// The resources, by kind.
    pub(crate) kept: Vec<KeptResource>,
}
