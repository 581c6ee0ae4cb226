//! `version-control-config` and `version-controller`: how directives come to be (DIRECTIVES §§2, 5.4).

use std::collections::BTreeSet;

use jiff::SignedDuration;
use protocol::Version;
use protocol::installer::Installer;

use super::fault::FaultList;
use super::fields::ResourceFields;
use super::keys;
use super::reader::ResourceReader;
use super::selector::{selector_at, words};
use crate::percent::Percent;
use crate::policy::{Rate, Selector};

/// What a `version-control-config` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionControl {
    /// Whether plans are made and directives applied.
    pub enabled: bool,
    /// Defaults of all entries.
    pub rolling_install: RollingInstall,
    /// Where plans come from.
    pub promotion: Promotion,
    /// The draft of which people are told; `None`: none.
    pub notify_from: Option<String>,
    /// Of what they are told.
    pub alert_on: Vec<String>,
    /// Entries of which a controller makes directives.
    pub basic: Vec<BasicDirective>,
}

/// Defaults of a directive's entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RollingInstall {
    pub(super) churn_limit: Limit,
    pub(super) fault_limit: Limit,
    pub(super) rate: Rate,
}

/// A share of hosts or a number of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    Share(Percent),
    Hosts(u32),
}

/// As one that says nothing.
impl Default for VersionControl {
    fn default() -> Self {
        control(&ResourceFields::none(&keys::VERSION_CONTROL, 0, &FaultList::default()))
    }
}

/// How a draft becomes active.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promotion {
    /// New drafts of `from` are planned, and applied where nothing is against it.
    pub is_automatic: bool,
    /// The draft, `KIND/NAME`; empty: none.
    pub from: String,
    /// People who must approve, beside the author.
    pub approvals: u32,
    /// The role that they need.
    pub role: String,
    /// How long a plan is good.
    pub plan_ttl: SignedDuration,
    /// A dry run must have come to a good end.
    pub needs_dry_run: bool,
}

/// An entry of which a controller makes one of a directive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BasicDirective {
    /// Its name.
    pub name: String,
    /// `1.2.*`: which versions, the newest of each; none: the newest of each host's major.
    pub versions: Vec<VersionPattern>,
    /// Whom it takes; any that holds.
    pub selectors: Vec<Selector>,
    /// What installs.
    pub installer: Installer,
}

impl BasicDirective {
    /// Every host, at the newest of its major.
    pub fn everybody() -> Self {
        let selector = Selector { labels: [("*".to_owned(), "*".to_owned())].into(), ..Selector::default() };
        let (name, installer) = ("default".to_owned(), Installer::Update);
        Self { name, versions: Vec::new(), selectors: vec![selector], installer }
    }
}

/// A version, or all of a major or minor: `17.*`, `17.2.*`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VersionPattern {
    numbers: Vec<u64>,
    exact: Option<Version>,
}

impl VersionPattern {
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let Some(numbers) = text.strip_suffix(".*") else {
            return Some(Self { numbers: Vec::new(), exact: Some(text.parse().ok()?) });
        };
        let numbers: Vec<u64> = numbers.split('.').map(str::parse).collect::<Result<_, _>>().ok()?;
        (1..=2).contains(&numbers.len()).then_some(Self { numbers, exact: None })
    }

    /// Whether it means `version`; pre-releases only where one is written.
    pub fn takes(&self, version: &Version) -> bool {
        let [major, minor] = version.major_minor();
        let is_one = self.numbers.iter().zip([major, minor]).all(|(wanted, has)| *wanted == has);
        self.exact.as_ref().map_or(is_one && !version.is_prerelease(), |exact| exact == version)
    }
}

/// What a `version-controller` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Controller {
    /// Where the metadata is.
    pub url: String,
    /// The trusted root, JSON.
    pub root: String,
    /// How often it is asked.
    pub interval: SignedDuration,
    /// Entries of the directives that it makes.
    pub basic: Vec<BasicDirective>,
}

/// Reads `spec` of a `version-control-config`.
pub(super) fn control(fields: &ResourceFields<'_>) -> VersionControl {
    let notification = fields.section("notification");
    for item in notification.items("alert_on") {
        if item.clone().name().is_some_and(|word| !keys::ALERTS.contains(&word)) {
            item.wrong(&keys::ALERTS.join(", "));
        }
    }
    VersionControl {
        enabled: fields.value("enabled"),
        rolling_install: rolling_install(&fields.section("rolling_install")),
        promotion: promotion(&fields.section("promotion")),
        notify_from: draft_at(&notification),
        alert_on: words(&notification, "alert_on", "an event"),
        basic: basic(fields, "basic_directives", false),
    }
}

/// Whether a draft may be called so: `KIND/NAME`.
pub fn is_draft_name(name: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_part = |part: &str| (1..=64).contains(&part.len()) && !part.starts_with('.') && part.bytes().all(is_usual);
    name.split_once('/').is_some_and(|(kind, name)| is_part(kind) && is_part(name))
}

/// The draft that `from` names.
fn draft_at(fields: &ResourceFields<'_>) -> Option<String> {
    let name: Option<String> = fields.get("from");
    if name.as_deref().is_some_and(|name| !name.is_empty() && !is_draft_name(name)) {
        fields.place("from").wrong("a draft's name, KIND/NAME");
    }
    name
}

fn rolling_install(fields: &ResourceFields<'_>) -> RollingInstall {
    let limit = |name| {
        let limit = fields.scalar(name, "a percentage such as 5%, or a number of hosts", |text| {
            Some(match text.strip_suffix('%') {
                Some(percent) => Limit::Share(Percent::new(percent.trim_end().parse().ok()?)?),
                None => Limit::Hosts(text.parse().ok()?),
            })
        });
        limit.unwrap_or(Limit::Hosts(0))
    };
    let rate = fields.scalar("rate", "a rate such as 20%/h, 50/h or 5/m", rate).unwrap_or_default();
    RollingInstall { churn_limit: limit("churn_limit"), fault_limit: limit("fault_limit"), rate }
}

/// `20%/h`, `50/h`, `5/m`.
fn rate(text: &str) -> Option<Rate> {
    let (amount, per) = text.split_once('/')?;
    let factor = match per {
        "h" => 1,
        "m" => 60,
        _ => return None,
    };
    let rate = |base: u32, share| Rate { base, share, factor_hundredths: 100, maximum: u32::MAX };
    match amount.strip_suffix('%') {
        Some(percent) => {
            let share = percent.parse::<u8>().ok()?.checked_mul(factor).or(Some(100))?.min(100);
            (share > 0).then(|| rate(1, Percent::new(share)))
        }
        None => {
            let hosts = amount.parse::<u32>().ok()?.checked_mul(u32::from(factor))?;
            (hosts > 0).then(|| Rate { maximum: hosts, ..rate(hosts, None) })
        }
    }
}

fn promotion(fields: &ResourceFields<'_>) -> Promotion {
    let word = |name: &str| fields.value::<String>(name);
    let promotion = Promotion {
        is_automatic: word("strategy") == "automatic",
        from: draft_at(fields).unwrap_or_default(),
        approvals: fields.value("approvals"),
        role: word("role"),
        plan_ttl: fields.value("plan_ttl"),
        needs_dry_run: word("dry_run") == "required",
    };
    if promotion.is_automatic && promotion.from.is_empty() {
        fields.place("from").needed("the draft that is applied, KIND/NAME");
    }
    promotion
}

/// Entries of `version-control-config`, or templates of a controller.
fn basic(fields: &ResourceFields<'_>, name: &str, is_template: bool) -> Vec<BasicDirective> {
    let mut names = BTreeSet::new();
    let read = |item: ResourceReader<'_>| {
        let entry = fields.fields_at(name, &item.clone().needed("an entry"))?;
        let name: String = entry.value("name");
        if !names.insert(name.clone()) {
            item.at("name").refuse("is the name of another entry as well");
        }
        let pattern = |place: ResourceReader<'_>| {
            place.scalar("a version, v17.2.* or v17.*", |text, _| VersionPattern::parse(text))
        };
        let versions = if is_template {
            let items = entry.items("target_selectors").into_iter();
            let items = items.filter_map(|item| entry.fields_at("target_selectors", &item.needed("{version}")));
            items.filter_map(|fields| pattern(fields.place("version"))).collect()
        } else {
            pattern(entry.place("version")).into_iter().collect()
        };
        let installer: Option<String> = entry.get("installer");
        let installer = match installer.as_deref().map(str::parse) {
            None => Installer::Update,
            Some(Ok(installer)) => installer,
            Some(Err(error)) => {
                entry.place("installer").refuse(protocol::ParseError::to_string(&error));
                Installer::Update
            }
        };
        let key = if is_template { "server_selectors" } else { "selector" };
        let places = if is_template { entry.items(key) } else { vec![entry.place(key)] };
        let places = places.iter().filter_map(ResourceReader::there);
        let selectors: Vec<Selector> = places.filter_map(|place| selector_at(&entry, key, place)).collect();
        let selectors = if selectors.is_empty() { BasicDirective::everybody().selectors } else { selectors };
        Some(BasicDirective { name, versions, selectors, installer })
    };
    fields.items(name).into_iter().filter_map(read).collect()
}

/// Reads `spec` of a `version-controller`.
pub(super) fn controller(fields: &ResourceFields<'_>) -> Option<Controller> {
    let root = fields.place("root");
    let text = root.any_scalar().unwrap_or_default().to_owned();
    let parsed = serde_json::from_str::<serde_json::Value>(&text);
    // A look at the text alone: whether its signatures hold is asked where it is used.
    if text.trim().is_empty() || parsed.is_ok_and(|root| root["signed"]["_type"] != "root") {
        root.wrong("a root of TUF, as root.json has it");
    }
    Some(Controller {
        url: fields.get("url")?,
        root: text,
        interval: fields.value("interval"),
        basic: basic(fields, "directives", true),
    })
}
