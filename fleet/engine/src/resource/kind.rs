//! Kinds of resources, and their names.

/// A kind of resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `autoupdate_config`.
    Config,
    /// `autoupdate_version`.
    Version,
    /// `autoupdate_agent_rollout`: made by the server, never read from a text.
    Rollout,
    /// `autoupdate_agent_report`.
    Report,
    /// `cluster_maintenance_config`.
    Maintenance,
    /// `fleet_channel`.
    Channel,
    /// `fleet_release`.
    Release,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::Config, Self::Version, Self::Rollout, Self::Report, Self::Maintenance, Self::Channel, Self::Release];

    /// Its name in `kind`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Config => "autoupdate_config",
            Self::Version => "autoupdate_version",
            Self::Rollout => "autoupdate_agent_rollout",
            Self::Report => "autoupdate_agent_report",
            Self::Maintenance => "cluster_maintenance_config",
            Self::Channel => "fleet_channel",
            Self::Release => "fleet_release",
        }
    }

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

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}
