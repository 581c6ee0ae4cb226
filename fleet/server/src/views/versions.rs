//! `/versions`: what hosts run, and the resources that say what they shall run.

use askama::Template;
use fleet_wire::api::{KeptResource, StateCounts};

use super::frame::Frame;

/// Counts of hosts, and resources.
#[derive(Debug, Clone, Template)]
#[template(path = "versions.html")]
pub(crate) struct VersionsPage {
    /// What is around it.
    pub(crate) frame: Frame,
    /// Hosts by group and version.
    pub(crate) counts: StateCounts,
    /// The resources, by kind.
    pub(crate) kept: Vec<KeptResource>,
}
