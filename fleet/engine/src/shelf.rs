//! The resources that are written, and what they make of the [`Book`].

use std::collections::BTreeMap;
use std::fmt;

use crate::book::Book;
use crate::fleet::Counted;
use crate::policy::{Mode, Policy};
use crate::resource::{Dialect, Kind, Resource, Versions, Wanted, default_group, read_json, ruling};

/// All resources, by kind and name.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Shelf {
    resources: BTreeMap<(Kind, String), Resource>,
}

/// Why a resource was not taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// It is not one, or its values are wrong: a line each.
    Faults(String),
    /// It does not go with another one.
    Conflict(String),
    /// There is none.
    NotFound(String),
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Faults(what) | Self::Conflict(what) | Self::NotFound(what) => f.write_str(what),
        }
    }
}

impl Shelf {
    /// The resource of this kind and name.
    pub fn get(&self, kind: Kind, name: &str) -> Option<&Resource> {
        self.resources.get(&(kind, name.to_owned()))
    }

    /// Every resource, by kind and name.
    pub fn all(&self) -> impl Iterator<Item = &Resource> {
        self.resources.values()
    }

    /// What other servers counted, all of them together (`autoupdate_agent_report`).
    pub fn counted(&self) -> Counted {
        let mut counted = Counted::new();
        for resource in self.all() {
            let Resource::Report(object) = resource else { continue };
            for count in &object.model.counts {
                let versions = counted.entry(count.group.clone()).or_default();
                *versions.entry(count.version.to_string()).or_default() += u64::from(count.count);
            }
        }
        counted
    }

    /// Takes the resource that came as JSON on `line`; the next step acts by it.
    ///
    /// # Errors
    /// Why not; then nothing changed.
    pub fn put_json(&mut self, json: &serde_json::Value, line: usize, book: &mut Book) -> Result<(), Refused> {
        let resource = read_json(json, line).map_err(|faults| Refused::Faults(faults.to_string()))?;
        self.put(resource, book)
    }

    /// Takes `resource`; the next step acts by it.
    ///
    /// # Errors
    /// Why not; then nothing changed.
    pub fn put(&mut self, resource: Resource, book: &mut Book) -> Result<(), Refused> {
        let key = (resource.kind(), resource.metadata().name.clone());
        let kind = resource.kind();
        let mut next = self.clone();
        let before = next.resources.insert(key, resource);
        next.settle(kind, before.as_ref(), book)?;
        *self = next;
        Ok(())
    }

    /// Removes the resource `name`, or the only one, of the kind called `kind`.
    ///
    /// # Errors
    /// There is none.
    pub fn remove(&mut self, kind: &str, book: &mut Book) -> Result<(), Refused> {
        let (kind, name) = kind.split_once('/').unwrap_or((kind, ""));
        let unknown = || Refused::NotFound(format!("{kind:?} is no kind of resource"));
        let kind = Kind::named(kind).ok_or_else(unknown)?;
        let name = kind.only_name().unwrap_or(name);
        let mut next = self.clone();
        let Some(before) = next.resources.remove(&(kind, name.to_owned())) else {
            return Err(Refused::NotFound(format!("there is no {kind} {name}").trim_end().to_owned()));
        };
        next.settle(kind, Some(&before), book)?;
        *self = next;
        Ok(())
    }

    /// Policy and target as these resources have them. `before` stood in the place of what was `written`.
    fn settle(&self, written: Kind, before: Option<&Resource>, book: &mut Book) -> Result<(), Refused> {
        let wanted = self.wanted();
        let dialect = wanted.map_or(Dialect::V2, |wanted| wanted.dialect);
        let policy = self.policy(dialect)?;
        let is_as_before = match (before, wanted) {
            (Some(Resource::Version(object)), Some(wanted)) => object.model.agents.as_ref() == Some(wanted),
            _ => written != Kind::Version && book.target.is_some(),
        };
        if let Some(reason) = wanted.filter(|_| !is_as_before).and_then(|wanted| self.blocked(wanted)) {
            return Err(Refused::Conflict(reason));
        }
        let start = match (&book.target, is_as_before) {
            // What was found when this target came stays.
            (Some(target), true) => Some(target.start.clone()),
            (Some(target), false) => book.last_done.clone().or_else(|| Some(target.target.clone())),
            (None, _) => book.last_done.clone(),
        };
        book.target = wanted.map(|wanted| wanted.target(start.as_ref().unwrap_or(&wanted.target)));
        book.policy = policy;
        Ok(())
    }

    fn wanted(&self) -> Option<&Wanted> {
        match self.get(Kind::Version, Kind::Version.only_name()?)? {
            Resource::Version(object) => {
                let Versions { agents, .. } = &object.model;
                agents.as_ref()
            }
            _ => None,
        }
    }

    fn policy(&self, dialect: Dialect) -> Result<Option<Policy>, Refused> {
        let config = match self.get(Kind::Config, Kind::Config.only_name().unwrap_or_default()) {
            Some(Resource::Config(object)) => object.model.policy.clone(),
            _ => None,
        };
        let maintenance = match self.get(Kind::Maintenance, Kind::Maintenance.only_name().unwrap_or_default()) {
            Some(Resource::Maintenance(object)) => Some(&object.model),
            _ => None,
        };
        let rfd0169 = maintenance.and_then(|maintenance| maintenance.policy.as_ref());
        let mut policy = ruling(dialect, config.as_ref(), rfd0169).map_err(Refused::Conflict)?;
        // Managed Updates' group for all hosts, in the cluster's maintenance window where there is one.
        let window = maintenance.and_then(|maintenance| maintenance.window.as_ref());
        if rfd0169.is_none()
            && policy.as_ref().is_none_or(|policy| policy.regular.is_empty())
            && let Some(window) = window
        {
            let mut with_window = policy.unwrap_or_else(|| Policy { mode: Mode::Enabled, ..Policy::absent() });
            with_window.regular = vec![default_group(Some(window))];
            policy = Some(with_window);
        }
        Ok(policy)
    }

    /// Why the version that is wanted may not be rolled out.
    fn blocked(&self, wanted: &Wanted) -> Option<String> {
        self.all().find_map(|resource| match resource {
            Resource::Release(object) if object.model.version == wanted.target => {
                let reason = object.model.blocked.as_ref()?;
                Some(format!("{} is blocked by its fleet_release: {reason}", wanted.target))
            }
            _ => None,
        })
    }
}
