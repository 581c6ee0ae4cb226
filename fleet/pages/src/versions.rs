//! `/versions`: what hosts run, and the resources that say what they shall run.

use askama::Template;
use fleet_wire::api::{KeptResource, StateCounts};

use crate::Frame;

/// Counts of hosts, and resources.
#[derive(Debug, Clone, Template)]
#[template(path = "versions.html")]
pub struct VersionsPage {
    /// What is around it.
    pub frame: Frame,
    /// Hosts by group and version.
    pub counts: StateCounts,
    /// The resources, by kind.
    pub kept: Vec<KeptResource>,
}
