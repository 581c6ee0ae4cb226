//! What the cluster wants, in the words of both dialects.

use serde_json::{Value, json};

/// The answer to find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Find {
    /// Plain semver.
    pub version: String,
    /// `oss`, `enterprise` or `enterprise-fips`.
    pub edition: String,
    /// Whether the update window is open.
    pub auto_update: bool,
    /// Seconds.
    pub jitter: u64,
}

impl Find {
    /// This version, `oss`, in the window, without jitter.
    pub fn version(version: &str) -> Self {
        Self { version: version.to_owned(), edition: "oss".to_owned(), auto_update: true, jitter: 0 }
    }

    /// The answer's body.
    pub fn to_json(&self, dialect: Dialect) -> Value {
        match dialect {
            Dialect::Rfd => json!({
                "server_edition": self.edition,
                "agent_version": self.version,
                "agent_auto_update": self.auto_update,
                "agent_update_jitter_seconds": self.jitter,
            }),
            Dialect::Today => json!({
                "auth": {"type": "local", "second_factor": "on"},
                "proxy": {"kube": {"enabled": false}, "tls_routing_enabled": true},
                "server_version": self.version,
                "min_client_version": "14.0.0-aa",
                "cluster_name": "localhost",
                "auto_update": {
                    "tools_version": self.version,
                    "tools_auto_update": false,
                    "agent_version": self.version,
                    "agent_auto_update": self.auto_update,
                    "agent_update_jitter_seconds": self.jitter,
                },
                "edition": if self.edition == "oss" { "community" } else { "ent" },
                "fips": self.edition == "enterprise-fips",
            }),
        }
    }
}

/// Whose words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// RFD 0169's flat fields.
    Rfd,
    /// The nested fields of today's proxies.
    Today,
}

/// Where find is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FindPath {
    /// `/v1/webapi/find`.
    V1,
    /// `/webapi/find`.
    Old,
    /// Both.
    Both,
    /// Nowhere.
    None,
}

impl FindPath {
    pub(crate) fn answers(self, path: &str) -> bool {
        match path {
            "/v1/webapi/find" => matches!(self, Self::V1 | Self::Both),
            _ => matches!(self, Self::Old | Self::Both),
        }
    }
}

/// What the find path that does not answer says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elsewhere {
    /// 404.
    NotFound,
    /// 405.
    NotAllowed,
    /// 200 with the web interface's page.
    Html,
}
