//! Resources: what operators write, read and checked (FLEET §2, §9, §12). Pure.
//!
//! A text in YAML or JSON becomes [`Resource`]s: the engine's model beside what was written, which is kept for printing.
//! Whatever is wrong is told with line, key, what was found and what is allowed; nothing is ignored.

mod chain;
mod channel;
mod check;
mod config;
mod dialect;
mod directive;
mod envelope;
mod fault;
mod fields;
mod group;
mod hours;
mod installer;
mod key;
mod keys;
mod kind;
mod maintenance;
mod nearest;
mod plan;
mod reader;
mod release;
mod report;
mod schema;
mod selector;
mod shown;
#[cfg(test)]
mod tests;
mod url;
mod value;
mod version;
mod version_control;

use std::collections::HashMap;

use yaml::Node;

use crate::policy::Policy;

pub use channel::{Channel, ChannelSource};
pub use config::Config;
pub use dialect::PolicyDialect;
pub use directive::{CriticalFloor, Directive};
pub use fault::{Faults, ResourceFault};
pub use hours::{longest_chain, minimum_rollout_hours};
pub use installer::InstallerSpec;
pub use keys::{MOST_GROUPS, MOST_VERSIONS};
pub use kind::Kind;
pub(crate) use maintenance::default_group;
pub use maintenance::{Maintenance, MaintenanceWindow};
pub use plan::{DirectivePlan, Draft};
pub use release::{Phased, Release};
pub use report::counts_are_good;
pub use report::{AgentReport, Omitted, VersionCount};
pub use schema::schema;
pub use url::check as check_url;
pub use version::{AgentVersions, VersionSpec};
pub use version_control::{
    BasicDirective, Controller, Promotion, RollingInstall, VersionControl, VersionPattern, is_draft_name,
};

use fault::FaultList;

/// Resources by kind: what the `spec` of each means.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident($model:ty),)*) => {
        /// A resource of any kind that can be written.
        #[derive(Debug, Clone, PartialEq)]
        pub enum Resource { $($(#[$doc])* $kind(Object<$model>),)* }

        impl Resource {
            /// Its kind.
            pub fn kind(&self) -> Kind {
                match self { $(Self::$kind(_) => Kind::$kind,)* }
            }

            /// Its name and revision.
            pub fn metadata(&self) -> &Metadata {
                match self { $(Self::$kind(object) => &object.metadata,)* }
            }

            /// The document as it was written, in the usual order, with name and revision.
            pub fn written(&self) -> &Node {
                match self { $(Self::$kind(object) => &object.written,)* }
            }

            /// Puts another revision into metadata and document.
            pub fn set_revision(&mut self, revision: &str) {
                match self { $(Self::$kind(object) => object.set_revision(revision),)* }
            }

            /// Whether it says what `other` says, whatever the two are called and however they are written.
            pub(crate) fn means(&self, other: &Self) -> bool {
                match (self, other) {
                    $((Self::$kind(one), Self::$kind(other)) => one.model == other.model,)*
                    _ => false,
                }
            }
        }

        $(impl Model for $model {
            const KIND: Kind = Kind::$kind;

            fn of(resource: &Resource) -> Option<&Object<Self>> {
                match resource {
                    Resource::$kind(object) => Some(object),
                    _ => None,
                }
            }
        })*
    };
}

kinds! {
    /// `autoupdate_config`.
    Config(Config),
    /// `autoupdate_version`.
    Version(VersionSpec),
    /// `cluster_maintenance_config`.
    Maintenance(Maintenance),
    /// `fleet_channel`.
    Channel(Channel),
    /// `fleet_release`.
    Release(Release),
    /// `autoupdate_agent_report`.
    Report(AgentReport),
    /// `version-directive`.
    Directive(Directive),
    /// `version-control-config`.
    VersionControl(VersionControl),
    /// `version-controller`.
    Controller(Controller),
    /// `installer`.
    Installer(InstallerSpec),
    /// `version-directive-draft`.
    Draft(Draft),
    /// `version-directive-plan`.
    Plan(DirectivePlan),
}

/// What resources of a kind mean.
pub trait Model: Sized {
    /// That kind.
    const KIND: Kind;

    /// `resource`, if it is of that kind.
    fn of(resource: &Resource) -> Option<&Object<Self>>;
}

/// What a resource means, beside what was written.
#[derive(Debug, Clone, PartialEq)]
pub struct Object<T> {
    /// Its name and revision.
    pub metadata: Metadata,
    /// What `spec` means, defaults filled in.
    pub model: T,
    /// The document as it was written: `kind`, `version`, `metadata` with the name, `spec` without defaults.
    pub written: Node,
}

/// What is said about a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// Its name, unique in its kind.
    pub name: String,
    /// Which of its writings this is: an update with another one than the stored is refused.
    pub revision: Option<String>,
}

/// Reads all resources of a text: YAML documents, JSON, or lists of them. No kind has two of a name.
pub fn read(text: &str) -> Result<Vec<Resource>, Faults> {
    resources(Node::parse_all(text)?)
}

/// Reads the resource that came as JSON on `line` of a script.
pub fn read_json(json: &serde_json::Value, line: usize) -> Result<Resource, Faults> {
    let found = FaultList::default();
    let resource = envelope::read(Node::from_json(json, line)?, &found);
    found.end(resource)?.ok_or_else(|| Faults::from(yaml::Fault { line, what: "there is no resource".to_owned() }))
}

fn resources(roots: Vec<Node>) -> Result<Vec<Resource>, Faults> {
    let found = FaultList::default();
    let documents = roots.into_iter().flat_map(|root| match root.value {
        // `get --format json` writes a list.
        yaml::Value::Sequence(items) => items,
        _ => vec![root],
    });
    let mut known: HashMap<(Kind, String), usize> = HashMap::new();
    let mut resources = Vec::new();
    for document in documents {
        let line = document.line.max(1);
        let Some(resource) = envelope::read(document, &found) else { continue };
        let (kind, name) = (resource.kind(), resource.metadata().name.clone());
        let shown = shown::escaped(&name);
        if let Some(first) = known.insert((kind, name), line) {
            let what = format!("{kind} {shown} stands");
            found.add(ResourceFault { line, key: "metadata.name".to_owned(), what, before: Some(first) });
        }
        resources.push(resource);
    }
    let resources = found.end(resources)?;
    if resources.is_empty() {
        return Err(yaml::Fault { line: 1, what: "there is no resource in this text".to_owned() }.into());
    }
    Ok(resources)
}

impl Resource {
    /// What a directive, a draft or a plan says as `spec` of a directive, as it was written; `None`: it is none of them.
    pub fn directive(&self) -> Option<(&Directive, &Node)> {
        match self {
            Self::Directive(object) => Some((&object.model, object.written.get("spec")?)),
            Self::Draft(object) => Some((&object.model.directive, object.written.at(&["spec", "directive"])?)),
            Self::Plan(object) => Some((&object.model.directive, object.written.at(&["spec", "directive"])?)),
            _ => None,
        }
    }

    /// The addresses that the server asks because of it: external checks, channels elsewhere, repositories of controllers.
    pub fn asks(&self) -> Vec<&str> {
        match self {
            Self::Channel(Object { model: Channel { source: ChannelSource::Forward(url), .. }, .. })
            | Self::Controller(Object { model: Controller { url, .. }, .. }) => return vec![url],
            _ => {}
        }
        let groups = self.policy().into_iter().flat_map(Policy::all_groups);
        groups.filter_map(|group| Some(group.gate.external.as_ref()?.url.as_str())).collect()
    }

    /// What it says of agents, where it is a configuration.
    pub(crate) fn policy(&self) -> Option<&Policy> {
        match self {
            Self::Config(object) => object.model.policy.as_ref(),
            Self::Maintenance(object) => object.model.policy.as_ref(),
            _ => None,
        }
    }

    /// What it means, if it is of the kind with this model.
    pub fn model<T: Model>(&self) -> Option<&T> {
        T::of(self).map(|object| &object.model)
    }

    /// The document as YAML, comments included; [`read`] reads it back.
    pub fn to_yaml(&self) -> String {
        self.written().emit()
    }

    /// The document as JSON.
    pub fn to_json(&self) -> serde_json::Value {
        self.written().to_json()
    }
}

impl<T> Object<T> {
    fn set_revision(&mut self, revision: &str) {
        self.metadata.revision = Some(revision.to_owned());
        self.written.set(&["metadata", "revision"], Node::text(revision));
    }
}
