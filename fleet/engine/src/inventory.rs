//! What is said of the hosts where versions are controlled by directives: each host's state of installation, what is due, and who is
//! warned (DIRECTIVES §6). Pure.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use protocol::Version;
use protocol::installer::Installer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::fleet::Fleet;
use crate::host::Host;
use crate::names::Name;
use crate::resource::{CriticalFloor, Kind, Resource};
use crate::resource_set::ResourceSet;
use crate::rollout::{Rollout, State};
use crate::rollout_state::RolloutState;
use crate::selection::Choice;
use crate::tally::{HostState, TallyContext};

/// A host that came to its target so long ago is a recent install.
const RECENT: SignedDuration = SignedDuration::from_hours(1);

named! { name[] self:
/// How far the installation of a host's target is (RFD 0090).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub enum InstallState {
    /// It runs its target, or there is none for it.
    #[default]
    VersionParity = "version_parity",
    /// It shall run another version, and was not told yet.
    NeedsInstall = "needs_install",
    /// It was told.
    InstallTriggered = "install_triggered",
    /// It came to its target within the hour.
    RecentInstall = "recent_install",
    /// It was told, and has not been seen for three report intervals.
    ChurnedDuringInstall = "churned_during_install",
    /// It took too long, and was heard of.
    ImplicitInstallFault = "implicit_install_fault",
    /// It reported that it failed.
    ExplicitInstallFault = "explicit_install_fault",
}
}

/// A host, as `inventory ls` shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Instance {
    /// How far the installation of its target is: a name of [`InstallState`].
    pub install_state: String,
    /// The version that it shall run; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_target: Option<String>,
    /// What installs it, such as `update`; empty: nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub installer: String,
    /// The least version that it must run, where it runs less than the critical floor allows; absent: it may stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub must_install: Option<String>,
    /// Why it must: `eol` (end of life) or `sec` (a security patch); empty: it may stay.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub must_because: String,
    /// Teleport's services that run on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// In a line: `installing -> 17.2.1 (17s ago)`, `online (32s ago)`.
    pub status: String,
}

/// What people are warned of.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct VersionAlert {
    /// `security_patch`, `end_of_life`, `directive_stale`, `draft_stale`, `plan_waiting`, `new_version_available`.
    pub kind: String,
    /// The version that it is about, or the name of a draft or plan; empty: the directive.
    pub subject: String,
    /// The sentence.
    pub text: String,
    /// How many hosts; 0: it is about none.
    pub count: u64,
}

/// Hosts of one case: what they run, what they shall run and what installs that.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct InstallCounts {
    /// All of them.
    pub count: u64,
    /// [`InstallState::RecentInstall`].
    pub recent: u64,
    /// [`InstallState::InstallTriggered`].
    pub installing: u64,
    /// Both kinds of faults.
    pub faults: u64,
    /// [`InstallState::ChurnedDuringInstall`].
    pub churned: u64,
}

impl InstallCounts {
    fn add(&mut self, state: InstallState) {
        use InstallState as S;
        self.count += 1;
        match state {
            S::RecentInstall => self.recent += 1,
            S::InstallTriggered => self.installing += 1,
            S::ImplicitInstallFault | S::ExplicitInstallFault => self.faults += 1,
            S::ChurnedDuringInstall => self.churned += 1,
            S::VersionParity | S::NeedsInstall => {}
        }
    }
}

/// The counts of the whole inventory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct InventorySummary {
    /// By what hosts run, and what they shall run (empty: nothing else).
    pub versions: BTreeMap<(String, String), InstallCounts>,
    /// By installer.
    pub installers: BTreeMap<String, InstallCounts>,
}

/// What the inventory is judged by, at one time.
pub struct Inventory<'a> {
    rollout: Option<&'a Rollout>,
    fleet: &'a Fleet,
    floor: CriticalFloor,
    /// The draft whose versions are recommended, as a rollout that nobody carries out.
    recommended: Option<Rollout>,
    /// The active directive's.
    nonce: u64,
    now: Timestamp,
}

impl<'a> Inventory<'a> {
    /// Of this state at `now`.
    pub fn new(state: &'a RolloutState, resources: &ResourceSet, fleet: &'a Fleet, now: Timestamp) -> Self {
        let floor = resources.directive().map(|directive| directive.floor.clone()).unwrap_or_default();
        let recommended = resources.recommended().map(|directive| {
            let policy = directive.policy(&resources.version_control().rolling_install);
            Rollout::imagined(directive.newest(), &policy, resources.target_rules(), now)
        });
        Self {
            rollout: state.rollout.as_ref(),
            fleet,
            floor,
            recommended: recommended.flatten(),
            nonce: state.nonce,
            now,
        }
    }

    /// A host.
    pub fn instance(&self, host: &Host) -> Instance {
        let (state, target, installer) = self.of_rollout(host);
        let version = self.fleet.names.text(host.version).parse::<Version>().ok();
        let must = version.as_ref().and_then(|version| self.floor.must_reach(version));
        let recommended = self.recommended.as_ref().and_then(|rollout| {
            let place = rollout.place_of(host, &self.fleet.names);
            let (choice, _) = rollout.choose(host, place, &self.fleet.names);
            rollout.target_of(rollout.group(place)?, choice).cloned()
        });
        let is_recommended = host.flags.told_nothing && host.choice.is_some();
        let recommended = target.clone().filter(|_| is_recommended).or(recommended);
        let recommended = recommended.filter(|wanted| version.as_ref() != Some(wanted));
        let status = self.status(host, state, (target.as_ref(), recommended.as_ref()), must.as_ref());
        Instance {
            install_state: state.name().to_owned(),
            install_target: target.map(|target| target.to_string()),
            installer,
            must_because: must.as_ref().map_or("", |(_, is_over)| if *is_over { "eol" } else { "sec" }).to_owned(),
            must_install: must.map(|(version, _)| version.to_string()),
            services: self.fleet.build(host).services().map(str::to_owned).collect(),
            status,
        }
    }

    fn of_rollout(&self, host: &Host) -> (InstallState, Option<Version>, String) {
        let found = self.rollout.and_then(|rollout| Some((rollout, rollout.group(host.place)?)));
        let Some((rollout, group)) = found else { return Default::default() };
        let look = TallyContext::new(rollout, group, self.fleet, self.now);
        let state = look.state(host);
        // Who is sent back goes to the start; who is pinned, disabled or held goes nowhere.
        let target = match host.choice {
            Choice::NO_TARGET | Choice::NO_INSTALLER => None,
            _ if host.flags.pinned || host.flags.disabled || host.flags.is_held() => None,
            _ if group.state == State::RolledBack => Some(rollout.start_of(group).clone()),
            choice => rollout.target_of(group, choice).cloned(),
        };
        let installer = group.policy.installer_of(host.choice).as_ref().map_or_else(String::new, Installer::to_string);
        let state = match state {
            HostState::Excluded | HostState::Silent => InstallState::VersionParity,
            HostState::Updated if self.is_recent(&look, host) => InstallState::RecentInstall,
            HostState::Updated => InstallState::VersionParity,
            HostState::Failed => InstallState::ExplicitInstallFault,
            state if look.has_churned(host, state) => InstallState::ChurnedDuringInstall,
            HostState::TimedOut => InstallState::ImplicitInstallFault,
            HostState::Told => InstallState::InstallTriggered,
            HostState::LetGo | HostState::Pending => InstallState::NeedsInstall,
        };
        (state, target, installer)
    }

    fn is_recent(&self, look: &TallyContext<'_>, host: &Host) -> bool {
        let arrived = look.mark(host).and_then(|mark| mark.arrived);
        arrived.is_some_and(|arrived| self.now.duration_since(arrived.time()) < RECENT)
    }

    /// The first that holds.
    fn status(
        &self,
        host: &Host,
        state: InstallState,
        (target, recommended): (Option<&Version>, Option<&Version>),
        must: Option<&(Version, bool)>,
    ) -> String {
        let age = |since: Timestamp| format!("({} ago)", age(self.now.duration_since(since)));
        let heard = age(host.heard.time());
        let told = host.mark().map_or_else(|| heard.clone(), |mark| age(mark.told.time()));
        let to = target.map(|target| format!(" -> {target}")).unwrap_or_default();
        let is_offline = self.rollout.is_some_and(|rollout| {
            let silent = crate::tally::silent_after(self.fleet.terms.interval);
            rollout.listening(self.now).is_over(host.heard, silent)
        });
        match (state, must) {
            _ if host.is_expected() => "never seen".to_owned(),
            (InstallState::InstallTriggered, _) => format!("installing{to} {told}"),
            (InstallState::ChurnedDuringInstall, _) => format!("churned during install{to} {heard}"),
            (InstallState::ExplicitInstallFault, _) => {
                let code = self.rollout.and_then(|rollout| {
                    let look = TallyContext::new(rollout, rollout.group(host.place)?, self.fleet, self.now);
                    Some(self.fleet.names.text(look.failure_code(host)))
                });
                format!("install failed ({}){to} {heard}", code.filter(|code| !code.is_empty()).unwrap_or("unknown"))
            }
            (InstallState::ImplicitInstallFault, _) => format!("install failed (timed_out){to} {heard}"),
            _ if is_offline => format!("offline {heard}"),
            (_, Some((version, is_over))) => {
                format!("online, must install >= {version} ({}) {heard}", if *is_over { "eol" } else { "sec" })
            }
            (InstallState::NeedsInstall, _) => format!("online, install soon{to} {heard}"),
            _ => match recommended {
                Some(version) => format!("online, install recommended -> {version} {heard}"),
                None => format!("online {heard}"),
            },
        }
    }

    /// The counts of all hosts.
    pub fn summary(&self) -> InventorySummary {
        let mut summary = InventorySummary::default();
        for host in self.fleet.hosts().iter().filter(|host| !host.is_expected()) {
            let (state, target, installer) = self.of_rollout(host);
            let version = self.fleet.names.text(host.version);
            let target = target.map_or_else(String::new, |target| target.to_string());
            let target = if target == version { String::new() } else { target };
            summary.versions.entry((version.to_owned(), target)).or_default().add(state);
            if !installer.is_empty() {
                summary.installers.entry(installer).or_default().add(state);
            }
        }
        summary
    }

    /// Who is past the critical floor, by version.
    fn below_floor(&self) -> Vec<VersionAlert> {
        let mut running: BTreeMap<Name, u64> = BTreeMap::new();
        for host in self.fleet.hosts().iter().filter(|host| !host.version.is_none()) {
            *running.entry(host.version).or_default() += 1;
        }
        let of_version = |(name, count): (Name, u64)| {
            let text = self.fleet.names.text(name);
            let (least, is_over) = self.floor.must_reach(&text.parse().ok()?)?;
            let hosts = if count == 1 { "host runs" } else { "hosts run" };
            let (kind, why) = if is_over {
                ("end_of_life", "is past its end of life")
            } else {
                ("security_patch", "lacks a security patch")
            };
            let text_of = format!("{count} {hosts} {text}, which {why}: install {least} or later");
            Some(VersionAlert { kind: kind.to_owned(), subject: text.to_owned(), text: text_of, count })
        };
        running.into_iter().filter_map(of_version).collect()
    }

    /// What people are warned of.
    pub fn alerts(&self, resources: &ResourceSet) -> Vec<VersionAlert> {
        // Where nobody controls versions by directives.
        let is_of_it = |kind: Kind| matches!(kind, Kind::Directive | Kind::VersionControl | Kind::Draft | Kind::Plan);
        if self.floor == CriticalFloor::default() && !resources.all().any(|resource| is_of_it(resource.kind())) {
            return Vec::new();
        }
        let mut alerts = self.below_floor();
        let is_past = |stale: Option<Timestamp>| stale.is_some_and(|stale| stale <= self.now);
        let mut add = |kind: &str, subject: &str, text: String| {
            alerts.push(VersionAlert { kind: kind.to_owned(), subject: subject.to_owned(), text, count: 0 });
        };
        if resources.directive().is_some_and(|directive| is_past(directive.stale_after)) {
            add("directive_stale", "", "the version-directive is stale: nobody renewed it in time".to_owned());
        }
        for resource in resources.all() {
            match resource {
                Resource::Draft(draft) if is_past(draft.model.directive.stale_after) => {
                    let name = &draft.metadata.name;
                    add("draft_stale", name, format!("the draft {name} is stale: nobody renewed it in time"));
                }
                Resource::Plan(plan) if plan.model.waits(self.nonce, self.now) => {
                    let name = &plan.metadata.name;
                    let what = format!("the plan {name} waits: teleport-fleet version-control show {name}");
                    add("plan_waiting", name, what);
                }
                _ => {}
            }
        }
        if let Some((draft, newest)) = resources.newer_draft() {
            let what = format!("version {newest} is available: draft {draft}");
            add("new_version_available", &newest.to_string(), what);
        }
        let wanted = resources.version_control().alert_on;
        let is_wanted = |alert: &VersionAlert| {
            let word = match alert.kind.as_str() {
                "new_version_available" => "new-version",
                "security_patch" => "security-patch",
                "end_of_life" => "end-of-life",
                "plan_waiting" => return true,
                _ => "stale",
            };
            wanted.is_empty() || wanted.iter().any(|named| named == word)
        };
        alerts.retain(is_wanted);
        alerts
    }
}

/// A length of time in one unit: `17s`, `6m`, `3h`, `2d`.
fn age(length: SignedDuration) -> String {
    let seconds = length.as_secs().max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}
