//! A group of either dialect: all keys of both and ours, with the dialect's defaults.

use std::sync::LazyLock;

use super::dialect::PolicyDialect;
use super::fault::FaultList;
use super::fields::ResourceFields;
use super::keys;
use super::reader::ResourceReader;
use crate::calendar::{Blackout, WindowOpening};
use crate::policy::{External, GroupPolicy, Members, Rate};

/// Reads a group; after a fault, as much of it as others can be checked against.
pub(super) fn read(fields: &ResourceFields<'_>) -> GroupPolicy {
    let mut group = GroupPolicy::of_keys(fields);
    (group.name, group.members) = (own_name(fields), members(fields));
    group.gate.requires = requires(fields);
    group.gate.blackout = fields.items("blackout").iter().filter_map(|item| blackout(fields, item)).collect();
    let external =
        |gate: ResourceFields<'_>| External { url: gate.value("url"), timeout_seconds: gate.value("timeout_seconds") };
    group.gate.external = fields.fields("gate").map(external);
    group.pace.rate = fields.fields("rate").and_then(|rate| self::rate(&rate));
    let (what, refused) = if fields.is_of(PolicyDialect::Directive) {
        ("stands in no directive: give selectors", &["agents"][..])
    } else {
        ("stands in a version-directive alone", &["selectors", "targets", "installers", "start_version"][..])
    };
    for name in refused.iter().filter(|name| fields.place(name).is_there()) {
        fields.place(name).refuse(what);
    }
    group
}

/// A name that stands for nothing else on a command line or in an address.
fn own_name(fields: &ResourceFields<'_>) -> String {
    let name: String = fields.value("name");
    if name.starts_with('-') || matches!(name.as_str(), "." | "..") {
        fields.place("name").wrong("a name that does not begin with `-`, and is neither `.` nor `..`");
    }
    name
}

impl GroupPolicy {
    /// A group as Managed Updates v2 has it where nothing is said but its `name` and when it may start.
    pub fn v2(name: &str, opening: WindowOpening) -> Self {
        static V2: LazyLock<GroupPolicy> = LazyLock::new(|| {
            let found = FaultList::default();
            read(&ResourceFields::none(&keys::GROUP, PolicyDialect::V2.column(), &found))
        });
        let mut group = V2.clone();
        (group.name, group.gate.opening) = (name.to_owned(), opening);
        group
    }
}

/// By labels where `agents` is written. Else v2's groups are named by their hosts, and the RFD's hold all connected agents.
fn members(fields: &ResourceFields<'_>) -> Option<Members> {
    if fields.is_of(PolicyDialect::Directive) {
        return None;
    }
    if !fields.place("agents").is_there() {
        return fields.is_of(PolicyDialect::Rfd0169).then(Members::default);
    }
    let agents = fields.fields("agents")?;
    let (node, instance) = (agents.get("node_labels_expression"), agents.get("instance_labels_expression"));
    Some(Members { node, instance, ..Members::default() })
}

/// `days`, `start_hour` and `timezone`.
pub(super) fn opening(fields: &ResourceFields<'_>) -> WindowOpening {
    WindowOpening { days: fields.value("days"), hour: fields.value("start_hour"), zone: fields.value("timezone") }
}

fn requires(fields: &ResourceFields<'_>) -> Vec<String> {
    let name = |item: ResourceReader<'_>| item.needed("a group's name").name().unwrap_or_default().to_owned();
    fields.items("requires").into_iter().map(name).collect()
}

fn blackout<'a>(group: &ResourceFields<'a>, item: &ResourceReader<'a>) -> Option<Blackout> {
    let fields = group.fields_at("blackout", &item.clone().needed("a freeze, {from, to, reason}"))?;
    let (from, to) = (fields.get("from"), fields.get("to"));
    let (from, to) = (from?, to?);
    if to <= from {
        fields.place("to").wrong("later than from");
    }
    Some(Blackout { from, to, reason: fields.value("reason") })
}

fn rate(fields: &ResourceFields<'_>) -> Option<Rate> {
    let base = fields.get("base");
    let factor_hundredths = fields.value("factor");
    let most = fields.place("maximum");
    // A rate that grows must end somewhere; one that does not ends where it begins.
    let most = if factor_hundredths > 100 { most.needed("where the growth ends, in hosts an hour") } else { most };
    let maximum = fields.get("maximum");
    let base = base?;
    if maximum.is_some_and(|maximum| maximum < base) {
        most.wrong(&format!("at least the base, {base}"));
    }
    Some(Rate { base, share: None, factor_hundredths, maximum: maximum.unwrap_or(base) })
}
