//! To which group a host belongs: by its labels where the group has expressions, else by the name that it declares.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use crate::host::{HOSTNAME, Host};
use crate::labels::Labelled;
use crate::names::{Name, NameTable};
use crate::policy::{Members, Selector};
use crate::selection::{BUILD, Build};

/// Managed Updates' group where nobody wrote one.
pub(crate) const DEFAULT_GROUP: &str = "default";

/// Who belongs to which group, as a rollout had it while some of its groups were held.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Membership {
    /// Those of its groups that are held.
    pub held: BTreeSet<String>,
    /// Its groups in order: the first that takes a host has it.
    pub groups: Vec<Rule>,
    /// The group of hosts that none of them takes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rest: Option<String>,
}

/// Whom a group takes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Its name.
    pub name: String,
    /// By label; `None`: who declares its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub members: Option<Members>,
}

impl Membership {
    /// The held group to which a host belongs.
    pub(crate) fn holds(&self, host: &MembershipFacts<'_>) -> Option<&str> {
        let found = self.groups.iter().find(|rule| host.is_member(&rule.name, rule.members.as_ref()));
        let name = found.map(|rule| &rule.name).or(self.rest.as_ref())?;
        self.held.get(name).map(String::as_str)
    }
}

/// What decides to which group a host belongs.
pub(crate) struct MembershipFacts<'a> {
    pub(crate) group: &'a str,
    /// `None`: only its group is known.
    pub(crate) labels: Option<&'a [u8]>,
    /// The label of this key, where it has none; empty: it has no name.
    pub(crate) hostname: &'a str,
    pub(crate) names: &'a NameTable,
}

impl<'a> MembershipFacts<'a> {
    /// Of `host` in the group of this name.
    pub(crate) fn of(host: &'a Host, group: Name, names: &'a NameTable) -> Self {
        let (labels, hostname) = (Some(names.said.labels(host.said)), names.said.name(host.said));
        Self { group: names.text(group), labels, hostname, names }
    }

    /// Of whom only the group is known.
    pub(crate) fn of_name(group: &'a str, names: &'a NameTable) -> Self {
        Self { group, labels: None, hostname: "", names }
    }

    /// By labels where the group has expressions, else by name. Of whom no labels are known no expression holds that asks
    /// for them.
    pub(crate) fn is_member(&self, name: &str, members: Option<&Members>) -> bool {
        members.map_or_else(|| name == self.group, |members| self.fits(members))
    }

    fn fits(&self, members: &Members) -> bool {
        if !members.selectors.is_empty() {
            return members.selectors.iter().any(|selector| self.is_selected(selector));
        }
        let mut expressions = [&members.node, &members.instance].into_iter().flatten().peekable();
        if self.labels.is_none() && expressions.peek().is_none() {
            return false;
        }
        expressions.all(|expression| (self.labels.is_some() || !expression.asks_for_labels()) && expression.holds(self))
    }

    /// Whether all of a selector holds. Of whom no labels are known only a group is, and that it is one of all hosts.
    fn is_selected(&self, selector: &Selector) -> bool {
        let Selector { labels, services, group, expression, permit_prerelease: _ } = selector;
        let is_known = self.labels.is_some();
        let has = |(key, wanted): (&String, &String)| match (key.as_str(), wanted.as_str()) {
            ("*", "*") => true,
            (key, "*") => self.value(key).is_some(),
            (key, wanted) => self.value(key) == Some(wanted),
        };
        let runs = |wanted: &[&str]| self.build().services().any(|service| wanted.contains(&service));
        let fits_services = match services.as_slice() {
            [] => !runs(&["auth", "proxy"]),
            wanted => is_known && runs(&wanted.iter().map(String::as_str).collect::<Vec<_>>()),
        };
        let fits_labels = labels.iter().all(|pair| (is_known || pair.0 == "*") && has(pair));
        let fits_group = group.as_ref().is_none_or(|group| group == self.group);
        let fits_expression = expression.as_ref().is_none_or(|expression| is_known && expression.holds(self));
        fits_labels && fits_services && fits_group && fits_expression
    }

    /// Whether a selector that takes it lets hosts on a pre-release go.
    pub(crate) fn permits_prerelease(&self, members: Option<&Members>) -> bool {
        let selectors = members.map(|members| members.selectors.as_slice()).unwrap_or_default();
        selectors.iter().any(|selector| selector.permit_prerelease && self.is_selected(selector))
    }

    /// What it says of its build.
    pub(crate) fn build(&self) -> Build<'a> {
        self.value(BUILD).map(Build::read).unwrap_or_default()
    }

    /// The value of a label, or of what stands for it.
    pub(crate) fn value(&self, key: &str) -> Option<&'a str> {
        let mut labels = self.names.said.pairs(self.labels.unwrap_or_default());
        let said = labels.find(|(name, _)| self.names.text(*name) == key).map(|(_, value)| self.names.text(value));
        said.or((key == HOSTNAME && !self.hostname.is_empty()).then_some(self.hostname))
    }
}

impl Labelled for MembershipFacts<'_> {
    fn label(&self, key: &str) -> Option<&str> {
        self.value(key)
    }

    fn group(&self) -> &str {
        self.group
    }
}
