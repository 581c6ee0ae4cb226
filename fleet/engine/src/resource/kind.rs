//! Kinds of resources, and their names.

use serde::{Deserialize, Serialize};
use yaml::Node;

named! { as_str[] self:
/// A kind of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// `autoupdate_config`.
    Config = "autoupdate_config",
    /// `autoupdate_version`.
    Version = "autoupdate_version",
    /// `autoupdate_agent_rollout`: made by the server, never read from a text.
    Rollout = "autoupdate_agent_rollout",
    /// `autoupdate_agent_report`.
    Report = "autoupdate_agent_report",
    /// `cluster_maintenance_config`.
    Maintenance = "cluster_maintenance_config",
    /// `fleet_channel`.
    Channel = "fleet_channel",
    /// `fleet_release`.
    Release = "fleet_release",
}
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Config, Self::Version, Self::Rollout, Self::Report, Self::Maintenance, Self::Channel, Self::Release];

    /// The kind of this name; its plural does as well, as on `tctl`'s command line.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| [name, name.strip_suffix('s').unwrap_or(name)].contains(&kind.as_str()))
    }

    /// Why nobody writes resources of this kind; `None`: operators do.
    pub const fn is_made_here(self) -> Option<&'static str> {
        match self {
            Self::Rollout => Some(
                "autoupdate_agent_rollout is made by the server and cannot be written; change it with start, mark-done, rollback, \
                 halt or run",
            ),
            _ => None,
        }
    }

    /// The name of the only resource of this kind, where there is but one.
    pub const fn only_name(self) -> Option<&'static str> {
        match self {
            Self::Config => Some("autoupdate-config"),
            Self::Version => Some("autoupdate-version"),
            Self::Rollout => Some("autoupdate-agent-rollout"),
            Self::Maintenance => Some("cluster-maintenance-config"),
            Self::Report | Self::Channel | Self::Release => None,
        }
    }
}

impl Kind {
    /// The only resource of this kind, as a document that says nothing yet.
    pub fn document(self) -> Node {
        let name = self.only_name().unwrap_or_default();
        Node::mapping([
            ("kind", Some(Node::text(self.as_str()))),
            ("version", Some(Node::text("v1"))),
            ("metadata", Some(Node::mapping([("name", Some(Node::text(name)))]))),
            ("spec", Some(Node::mapping([]))),
        ])
    }
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
