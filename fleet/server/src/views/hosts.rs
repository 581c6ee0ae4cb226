//! `/hosts`.

use askama::Template;
use fleet_wire::api::{HostList as Found, HostView, HostsQuery};
use fleet_wire::text;
use fleet_wire::words::host;

use super::frame::Frame;

/// The states by which hosts are found, and their words.
pub(crate) const STATES: [(&str, &str); 12] = [
    ("pending", "pending"),
    ("let_go", "may update"),
    ("told", "updating"),
    ("updated", "updated"),
    ("failed", "failed"),
    ("timed_out", "timed out"),
    ("silent", "silent"),
    ("excluded", "excluded"),
    ("unassigned", "in no group"),
    ("no_target", "no target fits"),
    ("no_installer", "no installer acts"),
    ("recommended", "recommended"),
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

    fn search(&self) -> &str {
        self.query.search.as_deref().unwrap_or_default()
    }

    /// The address of the page after this one.
    fn next(&self) -> Option<String> {
        let last = self.found.hosts.last().filter(|_| self.found.more)?;
        Some(address(&HostsQuery { after: Some(last.host.clone()), ..self.query.clone() }))
    }

    /// The address with every error code.
    fn any_code(&self) -> String {
        address(&HostsQuery { code: None, ..self.query.clone() })
    }

    /// `37 hosts match`.
    fn many(&self) -> String {
        let verb = if self.found.count == 1 { "matches" } else { "match" };
        let verb = if self.asked().is_empty() { "known".to_owned() } else { verb.to_owned() };
        format!("{} {verb}", text::hosts(self.found.count))
    }

    /// The filter, as a query.
    fn asked(&self) -> String {
        asked(&HostsQuery { after: None, ..self.query.clone() })
    }
}

/// What makes one host another than all, as a query.
fn asked(query: &HostsQuery) -> String {
    let query = HostsQuery { by_name: false, limit: None, ..query.clone() };
    form_urlencoded::Serializer::new(String::new()).extend_pairs(query.pairs()).finish()
}

fn address(query: &HostsQuery) -> String {
    format!("/hosts?{}", asked(query))
}

/// The name of a host, and the beginning of its UUID.
fn parts(host: &HostView) -> (String, &str) {
    host::parts(&host.hostname, &host.host)
}

/// What stands behind the word of its state.
pub(crate) fn beside(host: &HostView) -> String {
    host::beside_state(host).iter().map(|word| format!(" ({word})")).collect()
}

/// The word of a host's state.
pub(crate) fn state_word(state: &str) -> String {
    let known = STATES.iter().find(|(name, _)| *name == state);
    known.map_or_else(|| state.to_owned(), |(_, word)| (*word).to_owned())
}
