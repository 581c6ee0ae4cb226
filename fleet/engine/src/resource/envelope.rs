//! What all resources have in common: `kind`, `version`, `metadata` and `spec`.

use jiff::Timestamp;
use yaml::{Node, Value};

use super::fault::FaultList;
use super::fields::ResourceFields;
use super::keys;
use super::kind::Kind;
use super::reader::ResourceReader;
use super::shown::alternatives;
use super::{
    Metadata, Object, Resource, channel, config, directive, installer, maintenance, nearest, plan, release, report,
    version, version_control,
};

/// Reads a document. `None` only after a fault.
pub(super) fn read(document: Node, found: &FaultList) -> Option<Resource> {
    let document = document.merged();
    let root = ResourceReader::root(&document, found);
    root.mapping()?;
    let kind = kind(&root.at("kind").needed("a kind such as autoupdate_config"))?;
    // Teleport's own resource counts its writings with it; here the revision does.
    let fields = root.fields_and(&keys::DOCUMENT, 0, (kind == Kind::Maintenance).then_some("nonce"))?;
    fields.get::<String>("version");
    root.at("nonce").any_scalar();
    let sub_kind = fields.place("sub_kind").any_scalar().unwrap_or_default();
    match kind.sub_kinds() {
        [] if !sub_kind.is_empty() => root.at("sub_kind").refuse(format!("is not empty: {kind} has no sub-kinds")),
        known @ [_, ..] if !known.contains(&sub_kind) => root.at("sub_kind").refuse(alternatives(known)),
        _ => {}
    }
    let (name, revision) = metadata(&fields, kind);
    let spec = fields.place("spec");
    if !fields.place("status").is_empty() {
        root.at("status").refuse("is written by the server alone");
    }
    if !spec.is_there() {
        return None;
    }
    let head = Head { document: &document, root, kind, name, revision };
    let (table, column) = keys::spec_of(kind)?;
    let fields = spec.fields(table, column)?;
    match kind {
        Kind::Config => head.object(config::read(&fields), None).map(Resource::Config),
        Kind::Version => head.object(version::read(&fields), None).map(Resource::Version),
        Kind::Maintenance => head.object(maintenance::read(&fields), None).map(Resource::Maintenance),
        Kind::Channel => head.object(channel::read(&fields)?, None).map(Resource::Channel),
        Kind::Report => head.object(report::read(&fields)?, None).map(Resource::Report),
        Kind::Release => {
            let release = release::read(&fields)?;
            let name = release.version.to_string();
            head.object(release, Some(name)).map(Resource::Release)
        }
        Kind::Directive => head.object(directive::directive(&fields), None).map(Resource::Directive),
        Kind::VersionControl => head.object(version_control::control(&fields), None).map(Resource::VersionControl),
        Kind::Controller => head.object(version_control::controller(&fields)?, None).map(Resource::Controller),
        Kind::Installer => head.object(installer::installer(&fields), None).map(Resource::Installer),
        Kind::Draft => head.object(plan::draft(&fields)?, None).map(Resource::Draft),
        Kind::Plan => head.object(plan::plan(&fields)?, None).map(Resource::Plan),
        Kind::Rollout => None,
    }
}

/// All of a document but `spec`.
struct Head<'a> {
    document: &'a Node,
    root: ResourceReader<'a>,
    kind: Kind,
    name: Option<String>,
    revision: Option<String>,
}

impl Head<'_> {
    /// The object of this model; `otherwise` is its name where none is written.
    fn object<T>(self, model: T, otherwise: Option<String>) -> Option<Object<T>> {
        let Some(name) = self.name.or(otherwise) else {
            self.root.at("metadata").at("name").needed("its name");
            return None;
        };
        let written = arranged(self.document, self.kind, &name);
        Some(Object { metadata: Metadata { name, revision: self.revision }, model, written })
    }
}

fn kind(reader: &ResourceReader<'_>) -> Option<Kind> {
    let name = reader.text()?;
    let names = Kind::ALL.map(Kind::as_str);
    let found = Kind::ALL.into_iter().find(|kind| kind.is_called(name));
    // What the server makes of other texts it keeps as a text of its own.
    if let Some(why) = found.filter(|kind| *kind == Kind::Rollout).and_then(Kind::is_made_here) {
        reader.refuse(why.to_owned());
        return None;
    }
    if found.is_none() {
        match nearest::of(name, &names) {
            Some(near) => reader.wrong(&format!("a kind; did you mean {near}?")),
            None => reader.wrong(&alternatives(&names)),
        }
    }
    found
}

/// Name and revision. The name of a kind with one resource is filled in, and no other is taken.
fn metadata(document: &ResourceFields<'_>, kind: Kind) -> (Option<String>, Option<String>) {
    let only = kind.only_name();
    let Some(fields) = document.fields("metadata") else { return (only.map(str::to_owned), None) };
    let place = fields.place("name");
    let name = match kind {
        Kind::Channel => channel::name(&place),
        Kind::Installer => installer::installer_name(&place),
        Kind::Draft => plan::draft_name(&place),
        _ => fields.get("name"),
    };
    if let (Some(only), Some(name)) = (only, &name)
        && name != only
    {
        place.wrong(&format!("{only}, the name of the only {kind}"));
    }
    let revision = fields.get("revision");
    // Kept for those who write them; they mean nothing here.
    fields.get::<Timestamp>("expires");
    fields.get::<String>("description");
    fields.pairs("labels");
    (only.map(str::to_owned).or(name), revision)
}

/// The document in the usual order, with version and name, and without what is empty.
fn arranged(document: &Node, kind: Kind, name: &str) -> Node {
    let mut document = document.clone();
    document.set(&["kind"], Node::text(kind.as_str()));
    document.set(&["version"], Node::text("v1"));
    document.set(&["metadata", "name"], Node::text(name));
    let order = ["kind", "sub_kind", "version", "metadata", "spec"];
    if kind.sub_kinds().is_empty() {
        document.remove(&["sub_kind"]);
    }
    if let Value::Mapping(pairs) = &mut document.value {
        let place = |key: &Node| order.iter().position(|name| key.as_str() == Some(name));
        pairs.retain(|(key, _)| place(key).is_some());
        pairs.sort_by_key(|(key, _)| place(key));
    }
    document
}
