//! Which target of its group a host gets, and what installs it there (DIRECTIVES §2). Pure: `f(host) -> (target, installer)`.

use std::collections::BTreeMap;

use protocol::Version;
use protocol::installer::{Installer, InstallerOrder};
use serde::{Deserialize, Serialize};

pub use crate::choice::Choice;
use crate::policy::{GroupPolicy, Target};
use crate::reason::{Misfit, Why};

/// Where a host's build stands among its labels: a host cannot have a label of this key, since control characters are no part of one.
pub const BUILD: &str = "\u{1}";
/// Most bytes of a part of a build.
const MAX_PART: usize = 512;

/// What a host says of its build, beside its labels. Parts that are not known are empty.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Build<'a> {
    /// `amd64`, `arm64`.
    pub arch: &'a str,
    /// `oss`, `enterprise`, `enterprise-fips`.
    pub edition: &'a str,
    /// Teleport's services, with commas between.
    pub services: &'a str,
    /// What may install, with commas between; empty: `update` alone.
    pub installers: &'a str,
}

impl<'a> Build<'a> {
    /// The value at [`BUILD`], from which it can be read; empty: nothing is known.
    pub fn text(&self) -> String {
        let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"-_,/".contains(&byte);
        let part = |text: &'a str| if text.len() <= MAX_PART && text.bytes().all(is_usual) { text } else { "" };
        let parts = [self.arch, self.edition, self.services, self.installers].map(part);
        if parts == [""; 4] { String::new() } else { parts.join("|") }
    }

    pub(crate) fn read(text: &'a str) -> Self {
        let mut parts = text.split('|');
        let mut next = || parts.next().unwrap_or_default();
        Self { arch: next(), edition: next(), services: next(), installers: next() }
    }

    /// Its services.
    pub fn services(&self) -> impl Iterator<Item = &'a str> {
        self.services.split(',').filter(|service| !service.is_empty())
    }

    fn lets(&self, installer: &Installer) -> bool {
        let text = installer.to_string();
        let known = if self.installers.is_empty() { "update" } else { self.installers };
        known.split(',').any(|known| known == text) || *installer == Installer::Notify
    }
}

/// What is known of releases and installers, by which targets are chosen.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TargetRules {
    /// Why nobody new gets these versions.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) blocks: BTreeMap<String, String>,
    /// Releases that are barriers or dead ends, or are reached from some versions alone.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) ways: Vec<ReleaseWay>,
    /// What is written of scripts, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) scripts: BTreeMap<String, Script>,
}

impl TargetRules {
    /// Whether an installer counts, whatever hosts say.
    pub fn is_enabled(&self, installer: &Installer) -> bool {
        !matches!(installer, Installer::LocalScript(name) if !self.scripts.get(name).is_some_and(|script| script.enabled))
    }
}

/// How a release may be reached and left (`fleet_release`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReleaseWay {
    /// The release.
    pub version: Version,
    /// Nobody goes past it without having run it.
    #[serde(default)]
    pub barrier: bool,
    /// Nobody leaves it.
    #[serde(default)]
    pub deadend: bool,
    /// It is reached from these alone; empty: from any.
    #[serde(default)]
    pub requires_from: Vec<Version>,
}

/// A script of hosts, as the resource `installer` describes it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Script {
    /// Whether it counts.
    pub enabled: bool,
    /// What hosts are told of it; `{target.ATTRIBUTE}` in its variables stands for an attribute of the target.
    pub order: InstallerOrder,
}

/// Why a version cannot be left, or another one reached from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WayBar<'a> {
    /// It is a dead end.
    DeadEnd,
    /// This barrier lies before it.
    Barrier(&'a Version),
    /// It is reached from these alone.
    From(&'a [Version]),
}

/// What keeps a host that runs `version` from `target`; `None`: nothing does.
pub(crate) fn bar<'a>(ways: &'a [ReleaseWay], version: &Version, target: &Version) -> Option<WayBar<'a>> {
    if !version.precedes(target) {
        return None;
    }
    if ways.iter().any(|way| way.deadend && way.version == *version) {
        return Some(WayBar::DeadEnd);
    }
    let is_between = |way: &&ReleaseWay| way.barrier && version.precedes(&way.version) && way.version.precedes(target);
    if let Some(barrier) = ways.iter().filter(is_between).map(|way| &way.version).min() {
        return Some(WayBar::Barrier(barrier));
    }
    let required = &ways.iter().find(|way| way.version == *target)?.requires_from;
    (!required.is_empty() && !required.contains(version)).then_some(WayBar::From(required))
}

/// A host, as targets are chosen for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chooser<'a> {
    /// What it runs; `None`: it does not say.
    pub(crate) version: Option<&'a Version>,
    /// The version to which a change goes on; `None`: none does.
    pub(crate) goes_to: Option<&'a str>,
    pub(crate) build: Build<'a>,
    /// Its selector lets hosts on a pre-release go.
    pub(crate) permits_prerelease: bool,
    pub(crate) rules: &'a TargetRules,
}

impl Chooser<'_> {
    /// What it gets in `group`. Whoever is on the way to a version of the list stays with that.
    pub(crate) fn choose(&self, group: &GroupPolicy) -> Choice {
        if group.targets.is_empty() {
            return Choice::default();
        }
        let fits = |target: &&Target| self.misfit(target).is_none();
        let goes_there = |target: &&Target| self.goes_to.is_some_and(|to| to == target.version.to_string());
        let place = |is_it: &dyn Fn(&&Target) -> bool| group.targets.iter().position(|target| is_it(&target));
        let under_way = place(&|target| goes_there(target) && self.differs(target).is_none());
        let Some(target) = under_way.or_else(|| place(&fits)) else { return Choice::NO_TARGET };
        let installers = group.installers();
        let installer = installers.iter().position(|installer| self.refuses(installer).is_none());
        installer.map_or(Choice::NO_INSTALLER, |installer| Choice::of(target, installer))
    }

    /// Why no target fits, or no installer acts.
    pub(crate) fn why_none(&self, group: &GroupPolicy) -> Why {
        let misfits = |target: &Target| Some(Misfit { of: target.version.to_string(), why: self.misfit(target)? });
        let targets: Vec<Option<Misfit>> = group.targets.iter().map(misfits).collect();
        if targets.iter().all(Option::is_some) {
            return Why::NoTarget { targets: targets.into_iter().flatten().collect() };
        }
        let refusals = group.installers().into_iter().filter_map(|installer| {
            Some(Misfit { of: installer.to_string(), why: self.refuses(&installer)?.to_owned() })
        });
        Why::NoInstaller { installers: refusals.collect() }
    }

    fn misfit(&self, target: &Target) -> Option<String> {
        let to = &target.version;
        if let Some(version) = self.version {
            let (major, wanted) = (version.major(), to.major());
            if version.is_prerelease() && !self.permits_prerelease {
                return Some(format!("{version} is a pre-release, and no selector has permit_prerelease"));
            }
            let next = major.saturating_add(1);
            if wanted != major && wanted != next {
                return Some(format!("major {wanted} is neither {major} nor {next}"));
            }
            if wanted == major && to.precedes(&Version::first_of(major)) {
                return Some(format!("it is below {major}.0.0"));
            }
            match (version != to).then(|| bar(&self.rules.ways, version, to)).flatten() {
                None => {}
                Some(WayBar::DeadEnd) => return Some(format!("{version} is a dead end")),
                Some(WayBar::Barrier(barrier)) => return Some(format!("{barrier} must run before, a barrier")),
                Some(WayBar::From(versions)) => {
                    let versions: Vec<String> = versions.iter().map(Version::to_string).collect();
                    return Some(format!("it is reached from {} alone", versions.join(" or ")));
                }
            }
        }
        let runs_it = self.version == Some(to);
        if let Some(reason) = self.rules.blocks.get(&to.to_string()).filter(|_| !runs_it) {
            return Some(format!("it is blocked: {reason}"));
        }
        self.differs(target)
    }

    /// The attribute of the target that is another one on this host; what is not known differs from nothing.
    fn differs(&self, target: &Target) -> Option<String> {
        let Build { arch, edition, .. } = self.build;
        let fips = if edition == "enterprise-fips" { "yes" } else { "no" };
        let known = [("arch", arch), ("edition", edition), ("fips", if edition.is_empty() { "" } else { fips })];
        known.into_iter().find_map(|(name, has)| {
            let wanted = target.attributes.get(name).filter(|wanted| !has.is_empty() && *wanted != has)?;
            Some(format!("its {name} is {wanted}, the host's {has}"))
        })
    }

    fn refuses(&self, installer: &Installer) -> Option<&'static str> {
        match installer {
            Installer::LocalScript(name) if !self.rules.scripts.contains_key(name) => {
                Some("there is no installer of this name")
            }
            _ if !self.rules.is_enabled(installer) => Some("it is disabled"),
            _ if !self.build.lets(installer) => Some("the host does not let it act"),
            _ => None,
        }
    }
}

impl GroupPolicy {
    /// Its installers in order; `update` where none is written.
    pub fn installers(&self) -> Vec<Installer> {
        if self.installers.is_empty() { vec![Installer::Update] } else { self.installers.clone() }
    }

    /// The target of a choice; `None`: the rollout's, or none.
    pub fn target_of(&self, choice: Choice) -> Option<&Target> {
        self.targets.get(choice.target()?)
    }

    /// The installer of a choice; `None`: none.
    pub fn installer_of(&self, choice: Choice) -> Option<Installer> {
        self.installers().get(choice.installer()?).cloned()
    }

    /// What hosts of a choice are told beside the version: nothing where that is the updater's usual way.
    pub(crate) fn order_of(&self, choice: Choice, rules: &TargetRules) -> Option<InstallerOrder> {
        let (target, installer) = (self.target_of(choice)?, self.installer_of(choice)?);
        let kind = installer.kind().to_owned();
        let name = match installer {
            Installer::Update => return None,
            Installer::Tuf | Installer::Notify => return Some(InstallerOrder { kind, ..InstallerOrder::default() }),
            Installer::LocalScript(name) => name,
        };
        let order = rules.scripts.get(&name).map(|script| script.order.clone()).unwrap_or_default();
        let env = order.env.iter().map(|(variable, text)| (variable.clone(), target.fill(text))).collect();
        Some(InstallerOrder { kind, name, env, ..order })
    }

    /// What its installers need and a target does not have: an attribute for a script's variable, or what `tuf` is given.
    pub fn lacks(&self, rules: &TargetRules) -> Vec<Misfit> {
        let mut lacking = Vec::new();
        for installer in self.installers() {
            for target in &self.targets {
                let wanted = match &installer {
                    Installer::Tuf => vec!["length".to_owned(), "sha256".to_owned()],
                    Installer::LocalScript(name) => {
                        let env = rules.scripts.get(name).map(|script| script.order.env.values());
                        env.into_iter().flatten().filter_map(|text| attribute_of(text)).map(str::to_owned).collect()
                    }
                    Installer::Update | Installer::Notify => Vec::new(),
                };
                let missing =
                    wanted.into_iter().find(|name| name != "version" && !target.attributes.contains_key(name));
                lacking.extend(missing.map(|name| Misfit {
                    of: target.version.to_string(),
                    why: format!("{installer} needs its attribute {name}"),
                }));
            }
        }
        lacking
    }
}

/// The attribute that the value of a variable stands for.
pub(crate) fn attribute_of(text: &str) -> Option<&str> {
    text.strip_prefix("{target.")?.strip_suffix('}')
}

impl Target {
    /// A variable's value: the attribute that it stands for, or itself. What a shell could take for more than a word becomes nothing.
    fn fill(&self, text: &str) -> String {
        let version = self.version.to_string();
        let value = match attribute_of(text) {
            Some("version") => &version,
            Some(name) => self.attributes.get(name).map_or("", String::as_str),
            None => text,
        };
        if protocol::installer::is_value(value) { value.to_owned() } else { String::new() }
    }
}

#[cfg(test)]
mod tests;
