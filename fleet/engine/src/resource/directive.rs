//! `version-directive`: what runs where (DIRECTIVES §2).

use std::collections::BTreeMap;

use jiff::Timestamp;
use protocol::Version;
use protocol::installer::Installer;

use super::fields::ResourceFields;
use super::key::KeyKind;
use super::reader::ResourceReader;
use super::selector::selector_at;
use super::version_control::{Limit, RollingInstall};
use super::{check, group};
use crate::percent::Percent;
use crate::policy::{DirectiveTerms, GroupPolicy, Members, Mode, Policy, Strategy, Target};

/// Longest name of an attribute, bytes.
const LONGEST_ATTRIBUTE: usize = 32;

/// Longest value of an attribute, bytes.
const LONGEST_VALUE: usize = 256;

/// What a `version-directive` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// Grows at each activation; `None`: the server counts.
    pub nonce: Option<u32>,
    /// Whether anybody is told.
    pub enabled: bool,
    /// Who made it, as it says.
    pub version_controller: String,
    /// From what.
    pub config_id: String,
    /// From then on people are warned.
    pub stale_after: Option<Timestamp>,
    /// Nobody is told before.
    pub not_before: Option<Timestamp>,
    /// Nobody is told from then on.
    pub not_after: Option<Timestamp>,
    /// What is past its end of life, and what lacks a patch.
    pub floor: CriticalFloor,
    /// Its entries, as groups.
    pub groups: Vec<GroupPolicy>,
    /// The keys of each that are not written, and have defaults in `version-control-config`.
    unwritten: Vec<[bool; 3]>,
}

/// What people are warned of, whatever the targets are.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CriticalFloor {
    /// This major and those below it are over.
    pub end_of_life: Option<u64>,
    /// Hosts of a patch's major must run it or a later one; and why.
    pub security_patches: Vec<(Version, String)>,
}

impl CriticalFloor {
    /// The version that a host of this one must reach at least, and whether its major is over (else it lacks a patch); `None`: it may
    /// stay.
    pub fn must_reach(&self, version: &Version) -> Option<(Version, bool)> {
        let major = version.major();
        let over = self
            .end_of_life
            .filter(|over| major <= *over)
            .map(|over| (Version::first_of(over.saturating_add(1)), true));
        let lacks = |(patch, _): &&(Version, String)| patch.major() == major && version.precedes(patch);
        let patches = self.security_patches.iter().filter(lacks).map(|(patch, _)| patch);
        over.or_else(|| Some((patches.max()?.clone(), false)))
    }
}

/// Reads `spec` of a directive.
pub(super) fn directive(fields: &ResourceFields<'_>) -> Directive {
    let mut placed = Vec::new();
    let items = fields.items("directives");
    if items.is_empty() {
        fields.place("directives").refuse("has no entry; give at least one");
    }
    let mut unwritten = Vec::new();
    for item in items {
        let item = item.needed("an entry");
        let Some(entry) = fields.fields_at("directives", &item) else { continue };
        let is_absent = |name| !entry.place(name).is_there();
        unwritten.push([
            is_absent("max_churned_before_halt"),
            is_absent("max_failed_before_halt") && is_absent("min_failed_before_halt"),
            is_absent("rate"),
        ]);
        placed.push((item, self::entry(&entry)));
    }
    check::groups(&fields.place("directives"), Strategy::Requires, &placed);
    let (not_before, not_after) = (fields.get("not_before"), fields.get::<Timestamp>("not_after"));
    if let (Some(start), Some(end)) = (not_before, not_after)
        && end <= start
    {
        fields.place("not_after").wrong("later than not_before");
    }
    let config_id: String = fields.value("config_id");
    let misspelt: String = fields.value("confid_id");
    Directive {
        nonce: fields.get("nonce"),
        enabled: fields.value::<Mode>("status") == Mode::Enabled,
        version_controller: fields.value("version_controller"),
        config_id: if config_id.is_empty() { misspelt } else { config_id },
        stale_after: fields.get("stale_after"),
        not_before,
        not_after,
        floor: fields.fields("critical_floor").map(|floor| critical_floor(&floor)).unwrap_or_default(),
        groups: placed.into_iter().map(|(_, group)| group).collect(),
        unwritten,
    }
}

fn entry(fields: &ResourceFields<'_>) -> GroupPolicy {
    let mut group = group::read(fields);
    group.gate.at_any_time = !fields.place("days").is_there() && !fields.place("start_hour").is_there();
    let selectors =
        fields.items("selectors").iter().filter_map(|item| selector_at(fields, "selectors", item)).collect();
    group.members = Some(Members { selectors, ..Members::default() });
    group.targets = fields.items("targets").iter().filter_map(target).collect();
    for name in ["selectors", "targets"].into_iter().filter(|name| fields.items(name).is_empty()) {
        fields.place(name).refuse("is empty; give at least one");
    }
    group.installers = installers(fields);
    group.start = fields.get("start_version");
    group
}

/// `version`, and attributes.
fn target(item: &ResourceReader<'_>) -> Option<Target> {
    let item = item.clone().needed("a target");
    item.mapping()?;
    let version = item.at("version").needed("its version").read(&KeyKind::Version);
    let mut attributes = BTreeMap::new();
    for (name, place) in item.pairs_up_to(LONGEST_ATTRIBUTE + 1, "attributes") {
        if name == "version" {
            continue;
        }
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if !(1..=LONGEST_ATTRIBUTE).contains(&name.len()) || !name.bytes().all(is_name) {
            place.refuse(format!("its name is not 1 to {LONGEST_ATTRIBUTE} of a-z, 0-9 and `_`"));
        }
        let is_value = |byte: u8| byte.is_ascii_alphanumeric() || b"._:+-".contains(&byte);
        match place.clone().needed("the attribute's value").any_scalar() {
            Some(value) if value.len() <= LONGEST_VALUE && value.bytes().all(is_value) => {
                attributes.insert(name.to_owned(), known(&place, name, value));
            }
            Some(_) => place.wrong(&format!("0 to {LONGEST_VALUE} of A-Z, a-z, 0-9 and `. _ : + -`")),
            None => {}
        }
    }
    Some(Target { version: version?, attributes })
}

/// The value of an attribute, in one spelling where it is one that we know.
fn known(place: &ResourceReader<'_>, name: &str, value: &str) -> String {
    match (name, value) {
        ("fips", "true") => return "yes".to_owned(),
        ("fips", "false") => return "no".to_owned(),
        ("fips", "yes" | "no") => {}
        ("fips", _) => place.wrong("yes or no"),
        ("length", _) if value.parse::<u64>().is_err() => place.wrong("a number of bytes"),
        ("sha256", _) if value.parse::<protocol::Digest>().is_err() => place.wrong("a SHA-256 in hex"),
        _ => {}
    }
    value.to_owned()
}

/// `{kind, name}` each; `update` where none is written.
fn installers(entry: &ResourceFields<'_>) -> Vec<Installer> {
    let mut found = Vec::new();
    for item in entry.items("installers") {
        let Some(fields) = entry.fields_at("installers", &item.clone().needed("an installer, {kind, name}")) else {
            continue;
        };
        let (kind, name): (String, String) = (fields.value("kind"), fields.value("name"));
        let kind = if kind == "script" { "local-script".to_owned() } else { kind };
        let text = if name.is_empty() { kind } else { format!("{kind}/{name}") };
        match text.parse::<Installer>() {
            Ok(installer) if found.contains(&installer) => item.refuse("is there twice"),
            Ok(installer) => found.push(installer),
            Err(error) => item.refuse(error.to_string()),
        }
    }
    found
}

fn critical_floor(fields: &ResourceFields<'_>) -> CriticalFloor {
    let major = |text: &str| text.strip_prefix('v').unwrap_or(text).parse().ok();
    let end_of_life = fields.place("end_of_life").scalar("a major, such as v16", |text, _| major(text));
    let patches = fields.items("security_patches").into_iter().filter_map(|item| {
        let patch = fields.fields_at("security_patches", &item.needed("a patch, {version, desc}"))?;
        Some((patch.get("version")?, patch.value("desc")))
    });
    CriticalFloor { end_of_life, security_patches: patches.collect() }
}

impl Directive {
    /// When it lets hosts go at all.
    fn terms(&self) -> DirectiveTerms {
        DirectiveTerms { disabled: !self.enabled, not_before: self.not_before, not_after: self.not_after }
    }

    /// The same without what changes each time that a program says it anew: its nonce, and until when it is good.
    pub fn lasting(&self) -> Self {
        Self { nonce: None, stale_after: None, ..self.clone() }
    }

    /// Those of its targets.
    pub fn versions(&self) -> impl Iterator<Item = &Version> {
        self.groups.iter().flat_map(|group| &group.targets).map(|target| &target.version)
    }

    /// The highest of its targets.
    pub fn newest(&self) -> Option<&Version> {
        self.versions().reduce(|one, other| if one.precedes(other) { other } else { one })
    }

    /// Its entries as groups, each with the defaults of `rolling`.
    pub fn groups(&self, rolling: &RollingInstall) -> Vec<GroupPolicy> {
        let with_defaults = |(group, unwritten): (&GroupPolicy, &[bool; 3])| {
            let mut group = group.clone();
            let [churned, failed, rate] = *unwritten;
            let of = |limit| match limit {
                Limit::Share(share) => (share, 1),
                Limit::Hosts(hosts) => (Percent::ZERO, hosts.saturating_add(1)),
            };
            if churned {
                (group.proof.max_churned, group.proof.min_churned) = of(rolling.churn_limit);
            }
            if failed {
                (group.proof.max_failed, group.proof.min_failed) = of(rolling.fault_limit);
            }
            if rate {
                group.pace.rate = Some(rolling.rate);
            }
            group
        };
        self.groups.iter().zip(&self.unwritten).map(with_defaults).collect()
    }

    /// As a policy of the engine.
    pub(crate) fn policy(&self, rolling: &RollingInstall) -> Policy {
        Policy {
            mode: Mode::Enabled,
            strategy: Strategy::Requires,
            regular: self.groups(rolling),
            directive: Some(self.terms()),
            ..Policy::default()
        }
    }
}
