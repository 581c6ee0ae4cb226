//! What is around every page.

use fleet_wire::api::Role;
use jiff::Timestamp;

use fleet_wire::text;
use fleet_wire::words::fleet::FleetSummary;

/// What is around a page.
#[derive(Debug, Clone)]
pub(crate) struct Frame {
    /// Who looks at it; `None`: somebody who is not logged in.
    pub(crate) user: Option<User>,
    /// The server's version, which names style and script: a new server has new ones.
    pub(crate) build: String,
    /// When it was made.
    pub(crate) at: Timestamp,
    /// How the fleet is, on pages that are about that.
    pub(crate) summary: Option<FleetSummary>,
    /// What everybody should know first, such as a store that does not answer.
    pub(crate) warnings: Vec<String>,
}

/// Somebody who is logged in.
#[derive(Debug, Clone)]
pub(crate) struct User {
    /// As the audit log names it: `token NAME`.
    pub(crate) name: String,
    /// What it may do.
    pub(crate) role: Role,
    /// What forms of this session carry.
    pub(crate) csrf: String,
}

impl Frame {
    /// Whether the user may change what the fleet does.
    pub(crate) fn may_act(&self) -> bool {
        self.user.as_ref().is_some_and(|user| user.role >= Role::Operator)
    }

    /// Whether the user decides which keys are right.
    pub(crate) fn is_admin(&self) -> bool {
        self.user.as_ref().is_some_and(|user| user.role >= Role::Admin)
    }

    /// What forms carry.
    pub(crate) fn csrf(&self) -> &str {
        self.user.as_ref().map_or("", |user| &user.csrf)
    }

    /// How long ago a time in RFC 3339 was, or in how long it will be.
    pub(crate) fn ago(&self, at: &str) -> String {
        text::ago(at, self.at)
    }

    /// A time in RFC 3339.
    #[expect(clippy::unused_self, reason = "templates have the frame, and no paths to functions that take references")]
    pub(crate) fn second(&self, at: &Timestamp) -> String {
        text::second(*at)
    }

    /// When the page was made: `2025-01-15 02:00:00`.
    pub(crate) fn time(&self) -> String {
        text::time(self.at)
    }
}

/// A button that leads to a confirmation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PageAction {
    /// What is done, as the form says it.
    pub(crate) verb: &'static str,
    /// What stands on the button.
    pub(crate) label: &'static str,
    /// For whom does not see beside what it stands.
    pub(crate) on: String,
    /// A group's name; empty: all.
    pub(crate) group: String,
    /// A host's UUID; empty: none.
    pub(crate) host: String,
    /// What was seen, where that is approved.
    pub(crate) digest: Option<String>,
    /// In spite of a freeze.
    pub(crate) ignore_blackout: bool,
}

impl PageAction {
    /// On a group.
    pub(crate) fn on_group(verb: &'static str, label: &'static str, group: &str) -> Self {
        Self { verb, label, on: format!("group {group}"), group: group.to_owned(), ..Self::default() }
    }

    /// On the whole rollout.
    pub(crate) fn on_all(verb: &'static str, label: &'static str) -> Self {
        Self { verb, label, on: "all groups".to_owned(), ..Self::default() }
    }

    /// On a host of this name.
    pub(crate) fn on_host(verb: &'static str, label: &'static str, host: &str, name: &str) -> Self {
        Self { verb, label, on: format!("host {name}"), host: host.to_owned(), ..Self::default() }
    }
}
