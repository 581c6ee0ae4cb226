//! `/hosts`.

use askama::Template;
use fleet_wire::api::{HostList as Found, HostsQuery};

use super::frame::Frame;

/// The states by which hosts are found, and their words.
pub(crate) const STATES: [(&str, &str); 9] = [
    ("pending", "pending"),
    ("let_go", "may update"),
    ("told", "updating"),
    ("updated", "updated"),
    ("failed", "failed"),
    ("timed_out", "timed out"),
    ("silent", "silent"),
    ("excluded", "excluded"),
    ("unassigned", "in no group"),
];

/// A table of hosts.
#[derive(Debug, Clone, Template)]
#[template(path = "hosts.html")]
pub(crate) struct HostsPage {
    /// What is around it.
    pub(crate) frame: Frame,
    /// What was asked for.
    pub(crate) query: HostsQuery,
    /// What was found.
    pub(crate) found: Found,
    /// Names of groups to choose from.
    pub(crate) groups: Vec<String>,
}

impl HostsPage {
    fn group(&self) -> &str {
        self.query.group.as_deref().unwrap_or_default()
    }

    /// It is asked for a group that is not among those to choose from.
    fn is_other_group(&self) -> bool {
        !self.group().is_empty() && !self.groups.iter().any(|name| name == self.group())
    }

    fn state(&self) -> &str {
        self.query.state.as_deref().unwrap_or_default()
    }

    fn version(&self) -> &str {
        self.query.version.as_deref().unwrap_or_default()
    }

    fn last(&self) -> Option<&str> {
        self.found.hosts.last().filter(|_| self.found.more).map(|host| host.host.as_str())
    }

    fn is_filtered(&self) -> bool {
        let query = &self.query;
        [&query.group, &query.state, &query.version, &query.code, &query.after].iter().any(|part| part.is_some())
    }
}

/// The word of a host's state.
pub(crate) fn state_word(state: &str) -> String {
    let known = STATES.iter().find(|(name, _)| *name == state);
    known.map_or_else(|| state.to_owned(), |(_, word)| (*word).to_owned())
}
