//! Kinds of resources, and their names.

use serde::{Deserialize, Serialize};
use yaml::Node;

named! { as_str[] self of 13:
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
    /// `version-directive`.
    Directive = "version-directive",
    /// `version-control-config`.
    VersionControl = "version-control-config",
    /// `version-controller`.
    Controller = "version-controller",
    /// `installer`.
    Installer = "installer",
    /// `version-directive-draft`: made of a `version-directive`.
    Draft = "version-directive-draft",
    /// `version-directive-plan`: made of a draft.
    Plan = "version-directive-plan",
}
}

impl Kind {
    /// The kind of this name; its plural does as well, as on `tctl`'s command line.
    pub fn named(name: &str) -> Option<Self> {
        let is_it =
            |kind: &Self| [name, name.strip_suffix('s').unwrap_or(name)].iter().any(|name| kind.is_called(name));
        Self::ALL.into_iter().find(is_it)
    }

    /// Whether it is called so; `_` does for `-`.
    pub fn is_called(self, name: &str) -> bool {
        name == self.as_str() || name == self.as_str().replace('-', "_")
    }

    /// Why nobody writes resources of this kind; `None`: operators do.
    pub const fn is_made_here(self) -> Option<&'static str> {
        match self {
            Self::Rollout => Some(
                "autoupdate_agent_rollout is made by the server and cannot be written; change it with start, mark-done, rollback, \
                 halt or run",
            ),
            Self::Draft => Some("a draft is written by create-draft FILE"),
            Self::Plan => Some("a plan is made by `version-control plan`, and does not change"),
            _ => None,
        }
    }

    /// Whether somebody may remove resources of this kind.
    pub const fn can_go(self) -> bool {
        !matches!(self, Self::Rollout)
    }

    /// Its sub-kinds, of which a document names one; none: it has none.
    pub const fn sub_kinds(self) -> &'static [&'static str] {
        match self {
            Self::Controller => &["tuf"],
            Self::Installer => &["local-script", "script"],
            _ => &[],
        }
    }

    /// The name of the only resource of this kind, where there is but one.
    pub const fn only_name(self) -> Option<&'static str> {
        match self {
            Self::Config => Some("autoupdate-config"),
            Self::Version => Some("autoupdate-version"),
            Self::Rollout => Some("autoupdate-agent-rollout"),
            Self::Maintenance => Some("cluster-maintenance-config"),
            Self::Directive => Some("version-directive"),
            Self::VersionControl => Some("version-control-config"),
            _ => None,
        }
    }

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
