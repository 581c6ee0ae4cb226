//! The resource `autoupdate_agent_rollout` (Managed Updates v2), with ours: reasons, counts of hosts, what would change a reason,
//! and what is held. The server writes it of its engine's values; the command line and the pages read it. What a newer server
//! writes besides is left alone, what an older one does not write is empty.

use std::collections::BTreeSet;

use fleet_engine::advice::Advice;
use fleet_engine::fleet::Fleet;
use fleet_engine::host::HostId;
use fleet_engine::policy::{Mode, Schedule, Strategy};
use fleet_engine::resource_set::ResourceSet;
use fleet_engine::rollout::{Canary, GroupStatus, Rollout};
use fleet_engine::rollout_state::{HaltCause, Holds, RolloutState};
use jiff::{SignedDuration, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids;
use crate::lenient::{Lenient, word};
use crate::reason::{Reason, ReasonProgress};
use crate::text;

/// States of groups, and of a rollout.
pub const STATES: [&str; 6] = ["unstarted", "canary", "active", "done", "rolledback", "halted"];

/// A rollout.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentRollout {
    /// `autoupdate_agent_rollout`.
    pub kind: String,
    /// `v1`.
    pub version: String,
    /// Which it is.
    pub metadata: RolloutMetadata,
    /// What it shall do.
    pub spec: RolloutSpec,
    /// How far it is.
    pub status: RolloutStatus,
}

/// Which it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RolloutMetadata {
    /// `autoupdate-agent-rollout`.
    pub name: String,
    /// Its number, in a list of rollouts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub number: Option<u64>,
    /// In such a list: it goes on.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub present: bool,
    /// Which of its writings this is, outside of such a list.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
}

/// What it shall do.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RolloutSpec {
    /// Where hosts come from, and go back to.
    pub start_version: String,
    /// Where they shall go.
    pub target_version: String,
    /// `regular`, `critical` or `immediate`.
    #[schemars(with = "Schedule")]
    pub schedule: String,
    /// `enabled`, `suspended` or `disabled`.
    #[schemars(with = "Mode")]
    pub autoupdate_mode: String,
    /// How its groups follow each other.
    #[schemars(with = "Strategy")]
    pub strategy: String,
    /// As Go writes it, `2h0m0s`; of the strategy `time-based`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub maintenance_window_duration: Option<String>,
}

/// How far it is.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RolloutStatus {
    /// Its groups, in their order.
    pub groups: Vec<RolloutGroup>,
    /// When it began; null: it did not yet.
    #[schemars(extend("format" = "date-time"))]
    pub start_time: Option<String>,
    /// In which state it is; in the words of Managed Updates v2, or `halted`.
    #[schemars(extend("enum" = STATES))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Of a rollout without groups: why it is as it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Reason>,
    /// How the fleet is, in one sentence; absent: an older server, or it is no matter of now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
    /// Hosts that run the target.
    pub updated_count: u64,
    /// Hosts that shall run it: neither pinned, disabled nor held.
    pub host_count: u64,
    /// What keeps hosts besides it.
    #[serde(flatten)]
    pub stops: Stops,
}

/// What is stopped, each by its name; `run` of that name ends it.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct HoldsView {
    /// Every group.
    pub all: bool,
    /// What stopped every group; absent: an operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Lenient<HaltCause>>,
    /// Beneath a hold that is no operator's an operator's lasts: it has an end of its own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_operator: bool,
    /// These groups.
    pub groups: BTreeSet<String>,
    /// Groups that may update again, by name, while all others are held.
    pub released: BTreeSet<String>,
}

impl HoldsView {
    /// Of the engine's.
    pub fn of(holds: &Holds) -> Self {
        let cause = (holds.cause != HaltCause::Operator).then(|| holds.cause.into());
        let (groups, released) = (holds.groups.clone(), holds.released.clone());
        Self { all: holds.all, cause, by_operator: holds.by_operator, groups, released }
    }
}

/// What keeps every host from updating, beside a rollout or without one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Stops {
    /// What is held.
    #[serde(skip_serializing_if = "fleet_engine::is_default")]
    pub holds: HoldsView,
    /// That the store does not answer; absent: it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub store_unavailable: Option<Reason>,
    /// A stop waits for the store.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub stop_waits: bool,
    /// What waits for a person.
    #[serde(flatten)]
    pub needs: Needs,
}

/// What waits for a person besides groups.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Needs {
    /// Hosts with a key that waits for an admin; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_hosts: Option<u64>,
    /// Hosts that were refused in the last hour because they have no good join token; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub without_token: Option<WithoutToken>,
    /// Groups that hosts declare and the rollout does not have; absent: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unknown_groups: Option<UnknownGroups>,
}

/// Hosts without a good join token where one is needed: they are in no list.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct WithoutToken {
    /// How many.
    pub hosts: u64,
    /// What one of them calls itself; absent: none says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub one: Option<String>,
}

/// Groups that hosts declare and the rollout does not have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UnknownGroups {
    /// How many hosts declare one of them.
    pub hosts: u64,
    /// How many groups they are.
    pub groups: u64,
    /// The first few; those that most hosts declare first.
    pub largest: Vec<UnknownGroup>,
    /// The group in which these hosts are; absent: in none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
}

/// A group that hosts declare and the rollout does not have.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct UnknownGroup {
    /// Its name.
    pub name: String,
    /// How many hosts declare it.
    pub hosts: u64,
}

/// The same as `GET /v1/fleet/holds` answers: with the keys of what is held in one object.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct StopsAlone {
    /// What is held.
    #[serde(flatten)]
    pub holds: HoldsView,
    /// That the store does not answer; absent: it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store_unavailable: Option<Reason>,
    /// A stop waits for the store: until it is decided, no host is allowed to update.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stop_waits: bool,
    /// What waits for a person.
    #[serde(flatten)]
    pub needs: Needs,
}

impl From<StopsAlone> for Stops {
    fn from(StopsAlone { holds, store_unavailable, stop_waits, needs }: StopsAlone) -> Self {
        Self { holds, store_unavailable, stop_waits, needs }
    }
}

/// A group.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RolloutGroup {
    /// Its name.
    pub name: String,
    /// In which state it is; in the words of Managed Updates v2, or `halted`.
    #[schemars(extend("enum" = STATES))]
    pub state: String,
    /// When it began; null: it did not yet.
    #[schemars(extend("format" = "date-time"))]
    pub start_time: Option<String>,
    /// When its state changed last.
    #[schemars(extend("format" = "date-time"))]
    pub last_update_time: Option<String>,
    /// The code of why its state changed last.
    pub last_update_reason: String,
    /// The days of its window.
    pub config_days: Vec<String>,
    /// The hour at which its window opens, in its time zone.
    pub config_start_hour: u8,
    /// Hours after the start of the group before it.
    pub config_wait_hours: u32,
    /// The groups that it requires (RFD 0169); absent: the server does not say.
    pub config_requires: Option<Vec<String>>,
    /// It takes hosts of no other group; absent: v2's rule.
    pub catch_all: Option<bool>,
    /// Hosts that were counted in it when it started.
    pub initial_count: u64,
    /// Hosts that are counted in it now.
    pub present_count: u64,
    /// Those of them that run the target.
    pub up_to_date_count: u64,
    /// Hosts whose turn has not come.
    pub pending_count: u64,
    /// Hosts whose turn came.
    pub let_go_count: u64,
    /// Hosts that take a slot.
    pub in_flight_count: u64,
    /// Hosts that run the target.
    pub updated_count: u64,
    /// Hosts on which the target failed.
    pub failed_count: u64,
    /// Those of them that left the target because somebody on the host went back.
    pub by_hand_count: u64,
    /// Hosts that took too long.
    pub timed_out_count: u64,
    /// Hosts that are not seen any more.
    pub silent_count: u64,
    /// Hosts that are pinned, disabled or held.
    pub excluded_count: u64,
    /// Counted from 1; `run` and `rollback` begin another one.
    pub attempt: u32,
    /// Why it is as it is; absent: the server does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<Reason>,
    /// The role whose approval it needs; empty: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<String>,
    /// What an approval is of: another one after each change of the group's policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_digest: Option<String>,
    /// That was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved: Option<bool>,
    /// How many canaries it wants; 0: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canary_count: Option<u64>,
    /// Those that were chosen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canaries: Option<Vec<RolloutCanary>>,
}

/// A canary.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct RolloutCanary {
    /// Its updater's id.
    pub updater_id: String,
    /// Its UUID.
    pub host_id: String,
    /// Its name: its label `hostname`, else what it calls itself; empty: it has none.
    pub hostname: String,
    /// It runs the target.
    pub success: bool,
}

/// The strategies whose last group takes the hosts of no other.
const WITH_CATCH_ALL: [&str; 2] = ["halt-on-error", "time-based"];

impl AgentRollout {
    /// The present rollout at `now`. `None`: there is none.
    pub fn present(book: &RolloutState, shelf: &ResourceSet, fleet: &Fleet, now: Timestamp) -> Option<Self> {
        let mut shown = Self::past(book.rollout.as_ref()?);
        let status = &mut shown.status;
        let advice = |index| -> Option<Advice> { book.advice(shelf, fleet, index, now) };
        let progress = book.rollout.iter().flat_map(|rollout| rollout.progress(fleet, now)).collect::<Vec<_>>();
        let of = |index: usize, updated| {
            let progress = progress.get(index).and_then(Option::as_ref);
            progress
                .map(|progress| ReasonProgress::of(progress, updated, |host| name_of(fleet, host)))
                .unwrap_or_default()
        };
        for (index, group) in status.groups.iter_mut().enumerate() {
            let updated = group.up_to_date_count;
            if let Some(why) = &mut group.why {
                (why.advice, why.progress) = (Some(advice(index).map(Into::into)), of(index, updated));
            }
            for canary in group.canaries.iter_mut().flatten() {
                let host = ids::uuid(&canary.host_id).and_then(|id| fleet.host(id));
                canary.hostname = host.map_or("", |host| fleet.hostname(host)).to_owned();
            }
        }
        if let Some(why) = &mut status.why {
            (why.advice, why.progress) = (Some(advice(0).map(Into::into)), of(0, 0));
        }
        status.stops.holds = HoldsView::of(&book.holds);
        Some(shown)
    }

    /// A rollout as it was: nothing changes it any more.
    pub fn past(rollout: &Rollout) -> Self {
        let is_immediate = rollout.schedule == Schedule::Immediate;
        let groups = rollout.groups.iter().filter(|_| !is_immediate);
        Self {
            kind: "autoupdate_agent_rollout".to_owned(),
            version: "v1".to_owned(),
            metadata: RolloutMetadata { name: "autoupdate-agent-rollout".to_owned(), ..RolloutMetadata::default() },
            spec: RolloutSpec {
                start_version: rollout.start.to_string(),
                target_version: rollout.target.to_string(),
                schedule: word(&rollout.schedule),
                autoupdate_mode: word(&rollout.mode),
                strategy: word(&rollout.strategy),
                maintenance_window_duration: (rollout.strategy == Strategy::TimeBased)
                    .then(|| duration(rollout.window)),
            },
            status: RolloutStatus {
                groups: groups
                    .map(|group| RolloutGroup::of(group, rollout.id, rollout.rest() == Some(&group.policy.name)))
                    .collect(),
                start_time: Some(text::second(rollout.start_time)),
                state: rollout.state().map(|state| state.name().to_owned()),
                // It has no groups to show: what holds for everybody stands here.
                why: rollout.groups.first().filter(|_| is_immediate).map(|everybody| Reason::of(&everybody.reason)),
                summary: None,
                updated_count: rollout.groups.iter().map(|group| group.tally.updated).sum(),
                host_count: rollout.groups.iter().map(|group| group.tally.of()).sum(),
                stops: Stops::default(),
            },
        }
    }

    /// Whether the group at `index` takes the hosts of no other.
    pub fn is_catch_all(&self, index: usize) -> bool {
        let is_last = index + 1 == self.status.groups.len();
        let by_rule = is_last && WITH_CATCH_ALL.contains(&self.spec.strategy.as_str());
        self.status.groups.get(index).and_then(|group| group.catch_all).unwrap_or(by_rule)
    }

    /// Every host updates at once, without groups.
    pub fn is_immediate(&self) -> bool {
        self.spec.schedule == "immediate"
    }
}

impl RolloutGroup {
    fn of(group: &GroupStatus, rollout: u128, is_catch_all: bool) -> Self {
        let (tally, gate) = (&group.tally, &group.policy.gate);
        let has_canaries = group.policy.pace.canaries > 0;
        let canary = |canary: &Canary| {
            let (updater_id, host_id) = (ids::text(canary.updater_id), ids::text(canary.host_id));
            RolloutCanary { updater_id, host_id, hostname: String::new(), success: canary.success }
        };
        Self {
            name: group.policy.name.clone(),
            state: group.state.name().to_owned(),
            start_time: group.start_time.map(text::second),
            last_update_time: Some(text::second(group.last_update_time)),
            last_update_reason: group.last_update_reason.clone(),
            config_days: gate.opening.days.names().into_iter().map(str::to_owned).collect(),
            config_start_hour: gate.opening.hour,
            config_wait_hours: gate.wait_hours,
            config_requires: Some(gate.requires.clone()),
            catch_all: Some(is_catch_all),
            initial_count: group.initial_count,
            present_count: group.present_count,
            up_to_date_count: group.up_to_date_count,
            pending_count: tally.pending,
            let_go_count: group.let_go_count,
            in_flight_count: tally.in_flight(),
            updated_count: tally.updated,
            failed_count: tally.failed,
            by_hand_count: tally.by_hand,
            timed_out_count: tally.timed_out,
            silent_count: tally.silent,
            excluded_count: tally.excluded,
            attempt: group.attempt,
            why: Some(Reason::of(&group.reason)),
            approval: gate.approval.clone(),
            approval_digest: gate.approval.is_some().then(|| group.shown_digest(rollout)),
            approved: gate.approval.is_some().then(|| group.is_approved()),
            canary_count: has_canaries.then(|| group.policy.pace.canaries.into()),
            canaries: has_canaries.then(|| group.canaries.iter().map(canary).collect()),
        }
    }

    /// Why it is as it is.
    pub fn reason(&self) -> Reason {
        self.why.clone().unwrap_or_default()
    }

    /// It needs an approval that was not given.
    pub fn is_unapproved(&self) -> bool {
        self.approval.is_some() && self.approved != Some(true)
    }

    /// Its canaries that run the target.
    pub fn canary_success_count(&self) -> u64 {
        self.canaries.iter().flatten().map(|canary| u64::from(canary.success)).sum()
    }

    /// Its state as a person reads it; `Canary (2/5)`: two of five are on the target.
    pub fn state_words(&self) -> String {
        let word = state_word(&self.state);
        if self.state == "canary" {
            return format!("{word} ({}/{})", self.canary_success_count(), self.canary_count.unwrap_or_default());
        }
        word
    }
}

/// The word of a state, as `tctl` writes it.
pub fn state_word(state: &str) -> String {
    let mut chars = state.chars();
    match chars.next() {
        Some(first) => first.to_uppercase().chain(chars).collect(),
        None => "Unknown".to_owned(),
    }
}

/// A host's name among those of `fleet`; of one without any the beginning of its UUID.
pub fn name_of(fleet: &Fleet, id: HostId) -> String {
    let name = fleet.host(id).map_or("", |host| fleet.hostname(host));
    if name.is_empty() { ids::text(id).chars().take(8).collect() } else { name.to_owned() }
}

/// As Go writes it: `2h0m0s`.
fn duration(length: SignedDuration) -> String {
    let seconds = length.as_secs();
    format!("{}h{}m{}s", seconds / 3600, seconds / 60 % 60, seconds % 60)
}
