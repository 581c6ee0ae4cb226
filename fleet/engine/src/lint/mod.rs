//! What is legal and unwise in a configuration (FLEET §6, policy at a glance). Pure: resources in, advice out.

mod freezes;
mod groups;
mod matching;
mod place;
mod release;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use jiff::Timestamp;
use protocol::Version;
use serde::Serialize;

use crate::fleet::Fleet;
use crate::host::GroupPlace;
use crate::resource::{Config, Maintenance, Object, Resource, VersionSpec};

use place::DocumentPlace;

/// Something that is legal and unwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The kind of the resource.
    pub kind: String,
    /// The line of its text; `None`: it is about something that is not written.
    pub line: Option<usize>,
    /// The key, such as `spec.agents.schedules.regular[1].max_in_flight`.
    pub key: String,
    /// A stable code.
    pub code: &'static str,
    /// What is unwise.
    pub what: String,
    /// What to do.
    pub advice: String,
}

/// What is known besides the resources; what is not known is not judged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Known {
    /// How many hosts there are.
    pub hosts: Option<u64>,
    /// How many of them are in each group.
    pub by_group: Option<BTreeMap<String, u64>>,
    /// Now.
    pub now: Option<Timestamp>,
    /// The version from which the present rollout starts.
    pub start: Option<Version>,
}

impl Known {
    /// What a fleet shows: its size, and where its hosts are in the groups of a rollout with these names.
    pub fn of(fleet: &Fleet, groups: &[String], now: Timestamp) -> Self {
        let mut by_group: BTreeMap<String, u64> = groups.iter().map(|name| (name.clone(), 0)).collect();
        for host in fleet.hosts() {
            let GroupPlace::Group(index) = host.place else { continue };
            if let Some(count) = groups.get(usize::from(index)).and_then(|name| by_group.get_mut(name)) {
                *count += 1;
            }
        }
        let hosts = u64::try_from(fleet.hosts().len()).ok();
        Self { hosts, by_group: (!fleet.hosts().is_empty()).then_some(by_group), now: Some(now), start: None }
    }
}

/// Advice for one resource, in the order of its lines.
pub fn of_resource(resource: &Resource, known: &Known) -> Vec<Advice> {
    let mut found = Found { kind: resource.kind().as_str(), advice: Vec::new() };
    let root = DocumentPlace::root(resource.written());
    root.ignored(&mut found);
    let spec = root.key("spec");
    match resource {
        Resource::Config(Object { model: Config { policy: Some(policy), .. }, .. }) => {
            let agents = spec.key("agents");
            release::mode(&agents.key("mode"), policy.mode, &mut found);
            groups::lists(&agents.key("schedules"), policy, known, &mut found);
        }
        Resource::Maintenance(Object { model: Maintenance { policy: Some(policy), window }, .. }) => {
            release::mode(&spec.key("agent_auto_update"), policy.mode, &mut found);
            groups::lists(&spec.key("agent_auto_update_groups"), policy, known, &mut found);
            if window.is_some() && !policy.regular.is_empty() {
                let what = "does not count beside groups, which have hours of their own";
                found.add(&spec.key("agent_upgrades"), "ignored_field", what, "leave it out");
            }
        }
        Resource::Version(Object { model: VersionSpec { agents: Some(wanted), .. }, .. }) => {
            release::version(&spec, wanted, &mut found);
        }
        Resource::Release(object) => release::release(&spec, &object.model, known, &mut found),
        _ => {}
    }
    found.advice.sort_by_key(|advice| advice.line);
    found.advice
}

/// Where checks put what they find.
struct Found {
    kind: &'static str,
    advice: Vec<Advice>,
}

impl Found {
    fn add(&mut self, at: &DocumentPlace<'_>, code: &'static str, what: impl Into<String>, advice: impl Into<String>) {
        self.advice.push(Advice {
            kind: self.kind.to_owned(),
            line: at.line,
            key: at.path.clone(),
            code,
            what: what.into(),
            advice: advice.into(),
        });
    }
}

impl std::fmt::Display for Advice {
    /// `line 7: spec.…: what: advice [code]`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        write!(f, "{}: {}: {} [{}]", self.key, self.what, self.advice, self.code)
    }
}
