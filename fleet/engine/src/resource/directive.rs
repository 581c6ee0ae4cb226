//! `version-directive` and what leads to it: `version-control-config`, `version-controller`, `installer`, drafts and plans
//! (DIRECTIVES §§2-4).

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use protocol::Version;
use protocol::installer::{Installer, InstallerOrder, is_script_name, is_value, is_variable};

use super::dialect::PolicyDialect;
use super::fields::ResourceFields;
use super::key::KeyKind;
use super::keys;
use super::reader::ResourceReader;
use super::{check, group};
use crate::percent::Percent;
use crate::policy::{DirectiveTerms, GroupPolicy, Members, Mode, Policy, Rate, Selector, Strategy, Target, Unassigned};
use crate::selection::{BUILD, Script, attribute_of};

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
        let over = self.end_of_life.filter(|over| major <= *over).map(|over| (Version::first_of(over + 1), true));
        let lacks = |(patch, _): &&(Version, String)| patch.major() == major && version.precedes(patch);
        let patches = self.security_patches.iter().filter(lacks).map(|(patch, _)| patch);
        over.or_else(|| Some((patches.max()?.clone(), false)))
    }
}

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
    churn_limit: Limit,
    fault_limit: Limit,
    rate: Rate,
}

/// A share of hosts or a number of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limit {
    Share(Percent),
    Hosts(u32),
}

impl Default for RollingInstall {
    fn default() -> Self {
        let share = |percent| Percent::new(percent).unwrap_or(Percent::ALL);
        let rate = Rate { base: 1, share: Some(share(20)), factor_hundredths: 100, maximum: u32::MAX };
        Self { churn_limit: Limit::Share(share(5)), fault_limit: Limit::Share(share(2)), rate }
    }
}

impl Default for VersionControl {
    fn default() -> Self {
        let (rolling_install, promotion) = (RollingInstall::default(), Promotion::default());
        Self { enabled: true, rolling_install, promotion, notify_from: None, alert_on: Vec::new(), basic: Vec::new() }
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

impl Default for Promotion {
    fn default() -> Self {
        Self {
            is_automatic: false,
            from: String::new(),
            approvals: 0,
            role: "operator".to_owned(),
            plan_ttl: SignedDuration::from_hours(24),
            needs_dry_run: false,
        }
    }
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

/// An `installer`: what the server says of a script of hosts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstallerSpec {
    /// What hosts are told.
    pub script: Script,
    /// The script, for configuration management.
    pub text: String,
}

/// A draft.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// Who wrote it.
    pub author: String,
    /// When.
    pub time: Timestamp,
    /// What it would be.
    pub directive: Directive,
}

/// A plan: a draft that does not change any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectivePlan {
    /// The draft that it was made of; empty: a file.
    pub draft: String,
    /// Who made it.
    pub author: String,
    /// When.
    pub time: Timestamp,
    /// Until when it can be applied.
    pub expires: Timestamp,
    /// The nonce that was active then.
    pub for_nonce: u32,
    /// The digest of what it would be.
    pub digest: String,
    /// Who approved it: names.
    pub approved: Vec<String>,
    /// Who denied it, and why; empty: nobody did.
    pub denied: String,
    /// When a dry run was begun; `None`: none was.
    pub dry_run: Option<Timestamp>,
    /// It was applied.
    pub applied: bool,
    /// What it would be.
    pub directive: Directive,
}

/// Reads `spec` of a directive.
pub(super) fn directive(spec: &ResourceReader<'_>) -> Option<Directive> {
    read_directive(&spec.fields(&keys::DIRECTIVE, PolicyDialect::Directive.column())?)
}

fn read_directive(fields: &ResourceFields<'_>) -> Option<Directive> {
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
    Some(Directive {
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
    })
}

fn entry(fields: &ResourceFields<'_>) -> GroupPolicy {
    let mut group = group::read(fields);
    group.gate.at_any_time = !fields.place("days").is_there() && !fields.place("start_hour").is_there();
    let selectors =
        fields.items("selectors").iter().filter_map(|item| selector_at(fields, "selectors", item)).collect();
    group.members = Some(Members { selectors, ..Members::default() });
    group.targets = fields.items("targets").iter().filter_map(target).collect();
    let given = |name| fields.place(name).is_there();
    for (name, is_empty) in [
        ("selectors", !given("selectors") || fields.items("selectors").is_empty()),
        ("targets", !given("targets") || fields.items("targets").is_empty()),
    ] {
        if is_empty {
            fields.place(name).refuse("is empty; give at least one");
        }
    }
    group.installers = installers(fields);
    group.start = fields.get("start_version");
    group
}

fn selector_at<'a>(entry: &ResourceFields<'a>, key: &str, item: &ResourceReader<'a>) -> Option<Selector> {
    let fields = entry.fields_at(key, &item.clone().needed("a selector"))?;
    let mut labels = BTreeMap::new();
    for (key, place) in fields.pairs("labels") {
        let value = place.needed("the label's value").read::<String>(&KeyKind::Text(""));
        let is_wrong = key == BUILD || (key == "*") && value.as_deref().is_some_and(|value| value != "*");
        if is_wrong {
            fields.place("labels").wrong("'*': '*' for every host, or a label and its value");
        }
        labels.extend(value.map(|value| (key.to_owned(), value)));
    }
    let services = words(&fields, "services", "a service of Teleport");
    let (group, expression) = (fields.get("group"), fields.get("expression"));
    if labels.is_empty() && services.is_empty() && group.is_none() && expression.is_none() {
        item.refuse("selects nobody: give labels, services, group or expression; '*': '*' among labels is every host");
    }
    Some(Selector { labels, services, group, expression, permit_prerelease: fields.value("permit_prerelease") })
}

/// The texts of a list, none twice.
fn words(fields: &ResourceFields<'_>, name: &str, what: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for item in fields.items(name) {
        let Some(word) = item.clone().needed(what).name() else { continue };
        if words.iter().any(|known| known == word) {
            item.refuse("is there twice");
        }
        words.push(word.to_owned());
    }
    words
}

/// `version`, and attributes.
fn target(item: &ResourceReader<'_>) -> Option<Target> {
    let item = item.clone().needed("a target");
    item.mapping()?;
    let version = item.at("version").needed("its version").read(&KeyKind::Version);
    let mut attributes = BTreeMap::new();
    let mut seen = BTreeSet::new();
    for (name, place) in item.pairs_up_to(LONGEST_ATTRIBUTE + 1, "attributes") {
        if !seen.insert(name) {
            place.refuse("is there twice");
        }
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
    let is_good = match name {
        "fips" => {
            return match value {
                "yes" | "true" => "yes".to_owned(),
                "no" | "false" => "no".to_owned(),
                _ => {
                    place.wrong("yes or no");
                    value.to_owned()
                }
            };
        }
        "length" => value.parse::<u64>().is_ok(),
        "sha256" => value.parse::<protocol::Digest>().is_ok(),
        _ => true,
    };
    if !is_good {
        place.wrong(if name == "length" { "a number of bytes" } else { "a SHA-256 in hex" });
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

/// Reads `spec` of a `version-control-config`.
pub(super) fn control(spec: &ResourceReader<'_>) -> Option<VersionControl> {
    let fields = spec.fields(&keys::VERSION_CONTROL, 0)?;
    let promotion = fields.fields("promotion").map(|promotion| self::promotion(&promotion)).unwrap_or_default();
    let notification = fields.fields("notification");
    Some(VersionControl {
        enabled: fields.value("enabled"),
        rolling_install: fields.fields("rolling_install").map(|rolling| rolling_install(&rolling)).unwrap_or_default(),
        promotion,
        notify_from: notification.as_ref().and_then(|notification| notification.get("from")),
        alert_on: notification.map(|notification| words(&notification, "alert_on", "an event")).unwrap_or_default(),
        basic: basic(&fields, "basic_directives", false),
    })
}

fn rolling_install(fields: &ResourceFields<'_>) -> RollingInstall {
    let default = RollingInstall::default();
    let limit = |name, otherwise| {
        let read = |text: &str| match text.strip_suffix('%') {
            Some(percent) => Some(Limit::Share(Percent::new(percent.trim_end().parse().ok()?)?)),
            None => text.parse().ok().map(Limit::Hosts),
        };
        fields
            .place(name)
            .scalar("a percentage such as 5%, or a number of hosts", |text, _| read(text))
            .unwrap_or(otherwise)
    };
    let rate = fields.place("rate").scalar("a rate such as 20%/h, 50/h or 5/m", |text, _| rate(text));
    RollingInstall {
        churn_limit: limit("churn_limit", default.churn_limit),
        fault_limit: limit("fault_limit", default.fault_limit),
        rate: rate.unwrap_or(default.rate),
    }
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
        from: word("from"),
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
pub(super) fn controller(spec: &ResourceReader<'_>) -> Option<Controller> {
    let fields = spec.fields(&keys::CONTROLLER, 0)?;
    let root = fields.place("root");
    let text = root.any_scalar().unwrap_or_default().to_owned();
    if tuf_root_is_wrong(&text) {
        root.wrong("a root of TUF, as root.json has it");
    }
    Some(Controller {
        url: fields.get("url")?,
        root: text,
        interval: fields.value("interval"),
        basic: basic(&fields, "directives", true),
    })
}

/// A look at the text alone: whether its signatures hold is asked where it is used.
fn tuf_root_is_wrong(text: &str) -> bool {
    let parsed = serde_json::from_str::<serde_json::Value>(text);
    parsed.is_ok_and(|root| root["signed"]["_type"] != "root") || text.trim().is_empty()
}

/// Reads `spec` of an `installer`.
pub(super) fn installer(spec: &ResourceReader<'_>) -> Option<InstallerSpec> {
    let fields = spec.fields(&keys::INSTALLER, 0)?;
    let mut env = BTreeMap::new();
    for (name, place) in fields.pairs("env") {
        let Some(text) = place.clone().needed("the variable's value").any_scalar() else { continue };
        let attribute = attribute_of(text);
        if !is_variable(name) {
            place.refuse("its name is not of A-Z, 0-9 and `_`, or is one by which a shell runs something else");
        } else if text.starts_with('{') && attribute.is_none() || !text.starts_with('{') && !is_value(text) {
            place.wrong("0 to 256 of A-Z, a-z, 0-9 and `. _ -`, or {target.ATTRIBUTE}");
        }
        env.insert(name.to_owned(), text.to_owned());
    }
    let timeout: SignedDuration = fields.value("timeout");
    let order = InstallerOrder {
        kind: "local-script".to_owned(),
        name: String::new(),
        env,
        shell: fields.value("shell"),
        sha256: fields.get("sha256"),
        timeout_seconds: u32::try_from(timeout.as_secs()).unwrap_or_default(),
    };
    let text: Option<String> = fields.place("install.sh").any_scalar().map(str::to_owned);
    Some(InstallerSpec { script: Script { enabled: fields.value("enabled"), order }, text: text.unwrap_or_default() })
}

/// The name of an `installer`: that of the host's file.
pub(super) fn installer_name(reader: &ResourceReader<'_>) -> Option<String> {
    let name = reader.text()?;
    if !is_script_name(name) {
        reader.wrong("a script's name: 1 to 64 of a-z, 0-9 and `-`");
        return None;
    }
    Some(name.to_owned())
}

/// The name of a draft or a controller's draft: `KIND/NAME`.
pub(super) fn draft_name(reader: &ResourceReader<'_>) -> Option<String> {
    let name = reader.text()?;
    if !is_draft_name(name) {
        reader.wrong("a draft's name, KIND/NAME of letters, digits, `.`, `_` and `-`");
        return None;
    }
    Some(name.to_owned())
}

/// Whether a draft may be called so: `KIND/NAME`.
pub fn is_draft_name(name: &str) -> bool {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_part = |part: &str| (1..=64).contains(&part.len()) && !part.starts_with('.') && part.bytes().all(is_usual);
    name.split_once('/').is_some_and(|(kind, name)| is_part(kind) && is_part(name))
}

/// Reads `spec` of a draft.
pub(super) fn draft(spec: &ResourceReader<'_>) -> Option<Draft> {
    let fields = spec.fields(&keys::DRAFT, PolicyDialect::Directive.column())?;
    let directive = read_directive(&fields.fields("directive")?)?;
    Some(Draft { author: fields.value("author"), time: fields.get("time")?, directive })
}

/// Reads `spec` of a plan.
pub(super) fn plan(spec: &ResourceReader<'_>) -> Option<DirectivePlan> {
    let fields = spec.fields(&keys::PLAN, PolicyDialect::Directive.column())?;
    Some(DirectivePlan {
        draft: fields.value("draft"),
        author: fields.value("author"),
        time: fields.get("time")?,
        expires: fields.get("expires")?,
        for_nonce: fields.value("for_nonce"),
        digest: fields.value("digest"),
        approved: words(&fields, "approved", "a name"),
        denied: fields.value("denied"),
        dry_run: fields.get("dry_run"),
        applied: fields.value("applied"),
        directive: read_directive(&fields.fields("directive")?)?,
    })
}

impl DirectivePlan {
    /// Whether people can still decide on it.
    pub fn is_open(&self, now: Timestamp) -> bool {
        !self.applied && self.denied.is_empty() && now < self.expires
    }
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

    /// The highest of its targets.
    pub fn newest(&self) -> Option<&Version> {
        let versions = self.groups.iter().flat_map(|group| &group.targets).map(|target| &target.version);
        versions.reduce(|one, other| if one.precedes(other) { other } else { one })
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
            window: SignedDuration::ZERO,
            regular: self.groups(rolling),
            critical: Vec::new(),
            unassigned: Unassigned::Hold,
            ungrouped: None,
            directive: Some(self.terms()),
        }
    }
}
