//! What is known: a value, which the store has as well. Decisions change it, in transactions.

use std::collections::HashSet;

use fleet_engine::fleet::Fleet;
use fleet_engine::host::HostId;
use fleet_engine::resource;
use fleet_engine::resource_set::ResourceSet;
use fleet_engine::rollout_state::RolloutState;
use fleet_store::{News, StoreState, StoredResource, StoredToken};
use fleet_wire::api::{ApiError, Code};
use jiff::Timestamp;
use protocol::report::MAX_NUMBER;

use super::enrolments::{EnrolledKeys, Members, Now};
use crate::tokens::TokenSet;

/// Most different names of groups that only questions made; one more that nobody wrote is not kept.
pub(super) const MOST_NAMES: usize = 65_536;

/// What is known.
#[derive(Default)]
pub(crate) struct CoreState {
    /// How many decisions were kept: the next one is made from this one.
    pub(super) revision: u64,
    /// What is wanted, and the rollouts.
    pub(super) rollouts: RolloutState,
    /// Policies and versions, as they were written.
    pub(super) resources: ResourceSet,
    /// Hosts.
    pub(super) fleet: Fleet,
    /// Whose reports are trusted.
    pub(super) enrolments: Members,
    /// Who may use the admin API.
    pub(super) tokens: TokenSet,
}

impl CoreState {
    /// What the store has is what is known. Gives its epoch.
    ///
    /// # Errors
    /// A resource cannot be read: without it another policy would rule, and hosts would go that it keeps.
    pub(super) fn take(&mut self, (stored, keys, fleet): (StoreState, EnrolledKeys, Fleet)) -> Result<u64, String> {
        let resources = read_resources(&stored.resources)?;
        self.rollouts = stored.book.unwrap_or_default();
        if self.rollouts.seed == 0 {
            self.rollouts.seed = crate::random::number();
        }
        self.tokens.set(stored.tokens);
        (self.resources, self.fleet, self.revision) = (resources, fleet, stored.revision);
        let epoch = epoch(&stored.epoch);
        self.enrolments.set(keys, stored.candidates, stored.joins, epoch);
        self.fleet.terms.is_proven = self.enrolments.is_proven();
        self.fleet.drop_imported(|id| self.enrolments.key(id).is_some());
        self.fleet.set_all_unproven(|id| self.enrolments.is_unproven(id));
        Ok(epoch)
    }

    /// What other servers wrote. Gives the hosts of which something is another now, and whether a decision is.
    ///
    /// # Errors
    /// A resource cannot be read: a newer version wrote it.
    pub(super) fn learn(&mut self, news: &mut News) -> Result<(Vec<HostId>, bool), String> {
        let resources = news.resources.take().map(|stored| read_resources(&stored)).transpose()?;
        let is_decision = news.book.is_some() || resources.is_some();
        self.adopt(news.book.take(), resources, Vec::new());
        if let Some(tokens) = news.tokens.take() {
            self.tokens.set(tokens);
        }
        self.revision = news.revision;
        if !news.forgotten.is_empty() {
            let gone: HashSet<HostId> = news.forgotten.iter().copied().collect();
            self.fleet.forget(|host| gone.contains(&host.id));
            self.enrolments.forget(&news.forgotten);
        }
        // Before the hosts: what follows for them from the decision, such as a new place behind all, is in their records.
        let time = self.now();
        self.rollouts.arrange(&mut self.fleet, time);
        let mut changed: Vec<HostId> = news.hosts.iter().map(|host| host.id).collect();
        for host in std::mem::take(&mut news.hosts) {
            self.fleet.put_record(host, news.arrivals, self.rollouts.rollout.as_ref());
        }
        self.fleet.raise_arrivals(news.arrivals);
        let enrolled: Vec<(HostId, bool)> =
            news.enrolled.iter().map(|member| (member.host, member.is_unproven)).collect();
        for (host, is_unproven) in enrolled {
            self.fleet.set_unproven(host, is_unproven);
            changed.push(host);
        }
        let now = Now { time: self.now(), up: crate::clock::up() };
        self.enrolments.learn(news, now);
        self.fleet.free_names_if_many();
        // All of it is what the store has.
        let _ = self.fleet.take_changed();
        Ok((changed, is_decision))
    }

    /// What was decided: `None` stays as it is.
    pub(super) fn adopt(
        &mut self,
        rollouts: Option<RolloutState>,
        resources: Option<ResourceSet>,
        tokens: Vec<(String, Option<StoredToken>)>,
    ) {
        if let Some(rollouts) = rollouts {
            self.rollouts = rollouts;
        }
        if let Some(resources) = resources {
            self.resources = resources;
        }
        self.tokens.change(tokens);
    }

    /// The present time: never before the last step's.
    pub(super) fn now(&self) -> Timestamp {
        let now = crate::clock::now();
        self.rollouts.last_step.map_or(now, |last| last.max(now))
    }

    /// The groups of the rollout, and of the policy for the next one.
    pub(super) fn group_names(&self) -> impl Iterator<Item = &str> {
        let rollout = self.rollouts.rollout.iter().flat_map(|rollout| &rollout.groups).map(|group| &group.policy);
        let policy = self.rollouts.policy.iter().flat_map(|policy| policy.regular.iter().chain(&policy.critical));
        let mut known = HashSet::new();
        rollout.chain(policy).map(|group| group.name.as_str()).filter(move |name| known.insert(*name))
    }

    /// Whether a group is called so, in the rollout or in the policy for the next one.
    ///
    /// # Errors
    /// None is.
    pub(super) fn is_group(&self, name: &str) -> Result<(), ApiError> {
        let mut names: Vec<&str> = self.group_names().collect();
        if names.contains(&name) {
            return Ok(());
        }
        names.sort_unstable();
        let names =
            if names.is_empty() { "there is none yet".to_owned() } else { format!("there are {}", names.join(", ")) };
        Err(ApiError::new(Code::NotFound, format!("there is no group {name:?}: {names}")))
    }

    /// Whether who asks as this host is taken notice of: anybody, or where hosts enrol by token or approval, one that did.
    pub(super) fn may_meet(&self, id: HostId) -> bool {
        !self.fleet.terms.is_proven || self.fleet.host(id).is_some_and(|host| host.enrolled.is_some())
    }

    /// Whether the name of a group that a question has is kept. Of those that only questions made there are so many; a group of ours,
    /// and one that an enrolled host declares, is one though strangers have used them up.
    pub(super) fn may_keep(&self, group: &str) -> bool {
        let held = self.rollouts.holds.groups.iter().map(String::as_str);
        self.fleet.names_of_questions() < MOST_NAMES
            || self.fleet.names.find(group).is_some()
            || self.group_names().chain(held).any(|name| name == group)
    }
}

fn read_resources(stored: &[StoredResource]) -> Result<ResourceSet, String> {
    let mut resources = ResourceSet::default();
    for StoredResource { kind, name, yaml, .. } in stored {
        let read = resource::read(yaml).map_err(|faults| {
            format!(
                "the stored {kind}/{name} cannot be read; start the version of teleport-fleet that wrote it: {faults}"
            )
        });
        resources.put_back(read?);
    }
    Ok(resources)
}

/// The number of an epoch, of the UUID that the store has: as many of its bits as a whole number of JSON.
fn epoch(uuid: &str) -> u64 {
    let bits = uuid::Uuid::parse_str(uuid).map_or(0, |uuid| uuid.as_u64_pair().1);
    bits & MAX_NUMBER
}
