//! The resources that are written, and what they make of the [`RolloutState`].

mod reach;
#[cfg(test)]
mod tests;
mod whole;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use protocol::Version;

use crate::fleet::{Fleet, ReportedCounts};
use crate::policy::{GroupPolicy, Mode, Policy, RolloutTarget, Schedule};
use crate::refusal::Refusal;
use crate::resource::{
    AgentReport, AgentVersions, Config, Directive, Draft, InstallerSpec, Kind, Maintenance, Model, PolicyDialect,
    Release, Resource, VersionControl, VersionSpec, counts_are_good, default_group, read_json,
};
use crate::rollout_state::RolloutState;
use crate::selection::TargetRules;

/// Most releases of a channel. Each may lead to every later one: so many make 31,125 edges, and an answer below the MiB that
/// updaters read (FLEET §9).
pub const MOST_IN_CHANNEL: usize = 250;

/// All resources, by kind and name. A copy costs no copy of them: drafts and plans can be large.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ResourceSet {
    resources: BTreeMap<(Kind, String), Arc<Resource>>,
}

impl ResourceSet {
    /// The resource of this kind and name.
    pub fn get(&self, kind: Kind, name: &str) -> Option<&Resource> {
        self.resources.get(&(kind, name.to_owned())).map(Arc::as_ref)
    }

    /// Every resource, by kind and name.
    pub fn all(&self) -> impl Iterator<Item = &Resource> {
        self.resources.values().map(Arc::as_ref)
    }

    /// What other servers counted, all of them together (`autoupdate_agent_report`); at a time those that are at most a minute old: a
    /// server that is gone counts no more.
    pub fn counted(&self, now: Option<Timestamp>) -> ReportedCounts {
        let is_good = |report: &AgentReport| now.is_none_or(|now| counts_are_good(report.timestamp, now));
        let mut counted = ReportedCounts::new();
        for count in self.models().filter(|report| is_good(report)).flat_map(|report| &report.counts) {
            let versions = counted.entry(count.group.clone()).or_default();
            *versions.entry(count.version.to_string()).or_default() += u64::from(count.count);
        }
        counted
    }

    /// Puts back what a store kept; what it means was kept beside it.
    pub fn put_back(&mut self, resources: Vec<Resource>) {
        for resource in resources {
            self.resources.insert((resource.kind(), resource.metadata().name.clone()), Arc::new(resource));
        }
    }

    /// Forgets the plan of this name: nothing else rests on it.
    pub fn drop_plan(&mut self, name: &str) {
        self.resources.remove(&(Kind::Plan, name.to_owned()));
    }

    /// Takes the resource that came as JSON on `line`; the next step acts by it.
    ///
    /// # Errors
    /// Why not; then nothing changed.
    pub fn put_json(&mut self, json: &serde_json::Value, line: usize, state: &mut RolloutState) -> Result<(), Refusal> {
        self.put_all(vec![read_json(json, line)?], state)
    }

    /// Takes all of `resources` as one change, or nothing.
    ///
    /// # Errors
    /// Why not; then nothing changed.
    pub fn put_all(&mut self, resources: Vec<Resource>, state: &mut RolloutState) -> Result<(), Refusal> {
        self.put_all_for(resources, state, None)
    }

    /// The same for this fleet: a new target is refused that hosts cannot reach from what they run (FLEET §9).
    ///
    /// # Errors
    /// Why not; then nothing changed.
    pub fn put_all_for(
        &mut self,
        resources: Vec<Resource>,
        state: &mut RolloutState,
        fleet: Option<&Fleet>,
    ) -> Result<(), Refusal> {
        let mut next = self.clone();
        let is_version = resources.iter().any(|resource| resource.kind() == Kind::Version);
        let key = |resource: &Resource| (resource.kind(), resource.metadata().name.clone());
        // A file that was applied can be applied again, whatever has become of groups and versions since.
        let is_news =
            |resource: &&Resource| self.resources.get(&key(resource)).is_none_or(|stored| !stored.means(resource));
        let news: Vec<(Kind, String)> = resources.iter().filter(is_news).map(key).collect();
        next.put_back(resources);
        let mut settled = state.clone();
        next.activate(self.directive(), &mut settled)?;
        next.settle(is_version.then(|| self.wanted()), fleet, &mut settled)?;
        next.one_release_a_version()?;
        next.good_channels(&news, &settled)?;
        next.room_in_channels(&news)?;
        (*self, *state) = (next, settled);
        Ok(())
    }

    /// Removes the resource `name`, or the only one, of the kind called `kind`.
    ///
    /// # Errors
    /// There is none.
    pub fn remove(&mut self, kind: &str, state: &mut RolloutState) -> Result<(), Refusal> {
        let (kind, name) = kind.split_once('/').unwrap_or((kind, ""));
        let unknown = || Refusal::new("not_found", format!("{kind:?} is no kind of resource"));
        let kind = Kind::named(kind).ok_or_else(unknown)?;
        let name = kind.only_name().unwrap_or(name);
        let mut next = self.clone();
        if next.resources.remove(&(kind, name.to_owned())).is_none() {
            return Err(Refusal::new("not_found", format!("there is no {kind} {name}").trim_end().to_owned()));
        }
        next.settle((kind == Kind::Version).then(|| self.wanted()), None, state)?;
        *self = next;
        Ok(())
    }

    /// Policy and target as these resources have them. `before` is what was wanted, where an `autoupdate_version` was written or
    /// removed; `fleet` are the hosts that must be able to reach a new target.
    fn settle(
        &self,
        before: Option<Option<&AgentVersions>>,
        fleet: Option<&Fleet>,
        state: &mut RolloutState,
    ) -> Result<(), Refusal> {
        let wanted = self.wanted();
        if let Some(directive) = self.ruling_directive()? {
            return self.direct(directive, state);
        }
        state.rules = TargetRules::default();
        let dialect = wanted.map_or(PolicyDialect::V2, |wanted| wanted.dialect);
        let policy = self.policy(dialect)?;
        let is_as_before = match (before, wanted) {
            (Some(before), Some(wanted)) => before == Some(wanted),
            (Some(_), None) => false,
            (None, _) => state.target.is_some(),
        };
        if let Some(new) = wanted.filter(|_| !is_as_before) {
            self.refuse_blocked(&new.target)?;
            fleet.map_or(Ok(()), |fleet| self.can_reach(&new.target, fleet))?;
        }
        let start = match (&state.target, is_as_before) {
            // What was found when this target came stays.
            (Some(target), true) => Some(target.start.clone()),
            (Some(target), false) => state.last_done.clone().or_else(|| Some(target.target.clone())),
            (None, _) => state.last_done.clone(),
        };
        let target = wanted.map(|wanted| wanted.target(start.as_ref().unwrap_or(&wanted.target)));
        let way = |target: &RolloutTarget| (target.start.clone(), target.target.clone());
        // Whose way stays is no news: its mode can be written though its start was blocked since.
        if let Some(new) = target.as_ref().filter(|new| state.target.as_ref().map(way) != Some(way(new)))
            && let Some(reason) = self.block_of(&new.start)
        {
            return Err(Refusal::conflict(format!(
                "{} is blocked by its fleet_release: {reason}; it is the start version: name another one",
                new.start
            )));
        }
        state.target = target;
        state.blocks = self.blocks();
        state.blocked = wanted.and_then(|wanted| self.block_of(&wanted.target)).map(str::to_owned);
        state.policy = policy;
        Ok(())
    }

    /// The directive, if there is one.
    pub fn directive(&self) -> Option<&Directive> {
        self.only()
    }

    /// The settings of directives; the defaults where nobody wrote them.
    pub fn version_control(&self) -> VersionControl {
        self.only().cloned().unwrap_or_default()
    }

    fn draft(&self, name: &str) -> Option<&Directive> {
        Some(&self.get(Kind::Draft, name)?.model::<Draft>()?.directive)
    }

    /// The draft whose versions are recommended.
    pub(crate) fn recommended(&self) -> Option<&Directive> {
        self.draft(self.version_control().notify_from.as_deref()?)
    }

    /// The draft of which people are told, and its newest version, where that is newer than the directive's.
    pub(crate) fn newer_draft(&self) -> Option<(String, Version)> {
        let name = self.version_control().notify_from?;
        let newest = self.draft(&name)?.newest()?;
        let is_news = self.directive().and_then(Directive::newest).is_none_or(|known| known.precedes(newest));
        is_news.then(|| (name, newest.clone()))
    }

    /// The directive that says what agents run: one that is enabled, or that nothing stands beside.
    fn ruling_directive(&self) -> Result<Option<&Directive>, Refusal> {
        let (directive, is_other) = (self.directive(), self.wanted().is_some());
        match directive {
            Some(directive) if directive.enabled && is_other => Err(Refusal::new(
                "directive_rules",
                "an enabled version-directive and the versions for agents of autoupdate_version cannot both rule: take one \
                 away with `rm version-directive` or `rm autoupdate_version`, or set the directive's status to disabled"
                    .to_owned(),
            )),
            Some(directive) => Ok(Some(directive).filter(|_| !is_other)),
            None => Ok(None),
        }
    }

    /// Counts the activation of a directive that says something new.
    fn activate(&self, before: Option<&Directive>, state: &mut RolloutState) -> Result<(), Refusal> {
        let Some(directive) = self.directive().filter(|directive| before != Some(*directive)) else { return Ok(()) };
        let nonce = directive.nonce.map_or(state.nonce + 1, u64::from);
        if nonce <= state.nonce {
            return Err(Refusal::new(
                "nonce",
                format!("nonce {nonce} is not above the active one, {}: raise it, or leave it out", state.nonce),
            ));
        }
        state.nonce = nonce;
        Ok(())
    }

    /// Policy and target as the directive has them.
    fn direct(&self, directive: &Directive, state: &mut RolloutState) -> Result<(), Refusal> {
        let Some(newest) = directive.newest().cloned() else { return Ok(()) };
        let blocked = directive.groups.iter().flat_map(GroupPolicy::versions);
        // One that was good when it was written is passed over since, by whoever does not run it.
        let is_known = state.target.is_some() && state.policy.as_ref().is_some_and(|policy| policy.directive.is_some());
        let is_news = |version: &&Version| !is_known || !state.has_target(version);
        blocked.filter(is_news).try_for_each(|version| self.refuse_blocked(version))?;
        let rolling = self.version_control().rolling_install;
        let of_before = state.target.as_ref().map(|target| if is_known { &target.start } else { &target.target });
        let start = state.last_done.as_ref().filter(|_| !is_known).or(of_before).unwrap_or(&newest).clone();
        // Whoever suspended a configuration stopped everything, whatever rules since.
        let mode = self.policies().into_iter().map(|(_, policy)| policy.mode).min().unwrap_or(Mode::Enabled);
        state.target = Some(RolloutTarget { start, target: newest, schedule: Schedule::Regular, mode });
        (state.blocks, state.blocked) = (self.blocks(), None);
        state.policy = Some(directive.policy(&rolling));
        state.rules = self.target_rules();
        Ok(())
    }

    /// By what targets are chosen.
    pub fn target_rules(&self) -> TargetRules {
        let scripts = self.all().filter_map(InstallerSpec::of);
        let scripts = scripts.map(|object| (object.metadata.name.clone(), object.model.script.clone()));
        TargetRules { blocks: self.blocks(), ways: self.ways(), scripts: scripts.collect() }
    }

    fn wanted(&self) -> Option<&AgentVersions> {
        self.only::<VersionSpec>()?.agents.as_ref()
    }

    /// What the resource says of a kind of which there is but one.
    pub fn only<T: Model>(&self) -> Option<&T> {
        self.get(T::KIND, T::KIND.only_name()?)?.model()
    }

    /// What the resources of a kind say.
    pub fn models<T: Model + 'static>(&self) -> impl Iterator<Item = &T> {
        self.all().filter_map(Resource::model)
    }

    fn policy(&self, dialect: PolicyDialect) -> Result<Option<Policy>, Refusal> {
        let config = self.only::<Config>().and_then(|config| config.policy.as_ref());
        let maintenance = self.only::<Maintenance>();
        let rfd0169 = maintenance.and_then(|maintenance| maintenance.policy.as_ref());
        let mut policy = ruling(dialect, config, rfd0169).map_err(Refusal::conflict)?;
        // Managed Updates' group for all hosts, in the cluster's maintenance window where there is one.
        let window = maintenance.and_then(|maintenance| maintenance.window.as_ref());
        if rfd0169.is_none()
            && policy.as_ref().is_none_or(|policy| policy.regular.is_empty())
            && let Some(window) = window
        {
            let mut with_window = policy.unwrap_or_else(|| Policy { mode: Mode::Enabled, ..Policy::absent() });
            with_window.regular = vec![default_group(Some(window))];
            policy = Some(with_window);
        }
        Ok(policy)
    }

    /// All releases that were written.
    fn releases(&self) -> impl Iterator<Item = &Release> {
        self.models()
    }

    /// The name of the release that is this version.
    pub(crate) fn release_of(&self, version: &Version) -> Option<&str> {
        let mut releases = self.all().filter_map(Release::of);
        releases.find(|release| release.model.version == *version).map(|release| release.metadata.name.as_str())
    }

    /// Which configuration has the groups of the rollout; `None`: neither was written.
    pub(crate) fn kind_of_groups(&self) -> Option<Kind> {
        let policies = self.policies();
        let with_groups = policies.iter().find(|(_, policy)| policy.all_groups().next().is_some());
        with_groups.or(policies.first()).map(|(kind, _)| *kind)
    }

    /// The configurations whose mode is suspended or disabled.
    pub(crate) fn kinds_below_enabled(&self) -> Vec<Kind> {
        let is_below = |(_, policy): &(Kind, &Policy)| policy.mode != Mode::Enabled;
        self.policies().into_iter().filter(is_below).map(|(kind, _)| kind).collect()
    }

    /// The configurations that have a policy for agents.
    fn policies(&self) -> Vec<(Kind, &Policy)> {
        self.all().filter_map(|resource| Some((resource.kind(), resource.policy()?))).collect()
    }

    /// Why nobody new gets which versions.
    fn blocks(&self) -> BTreeMap<String, String> {
        self.releases().filter_map(|release| Some((release.version.to_string(), release.blocked.clone()?))).collect()
    }

    /// Why nobody new gets `version`; `None`: they do.
    pub fn block_of(&self, version: &Version) -> Option<&str> {
        self.releases().find(|release| release.version == *version)?.blocked.as_deref()
    }

    /// Refuses a version that its release blocks.
    pub(crate) fn refuse_blocked(&self, version: &Version) -> Result<(), Refusal> {
        let Some(reason) = self.block_of(version) else { return Ok(()) };
        Err(Refusal::conflict(format!("{version} is blocked by its fleet_release: {reason}")))
    }
}

/// The policy of a rollout whose version was written in `dialect`: its own dialect's, or the other one's where that alone has
/// groups. The lower of both modes counts. `None` where there is neither; an error where both have groups.
pub(crate) fn ruling(
    dialect: PolicyDialect,
    v2: Option<&Policy>,
    rfd0169: Option<&Policy>,
) -> Result<Option<Policy>, String> {
    let (own, other) = match dialect {
        PolicyDialect::V2 => (v2, rfd0169),
        PolicyDialect::Rfd0169 | PolicyDialect::Directive => (rfd0169, v2),
    };
    let (own, other) = match (own, other) {
        (None, None) => return Ok(None),
        (Some(only), None) | (None, Some(only)) => return Ok(Some(only.clone())),
        (Some(own), Some(other)) => (own, other),
    };
    let has_groups = |policy: &Policy| policy.all_groups().next().is_some();
    let ruling = match (has_groups(own), has_groups(other)) {
        (true, true) => {
            return Err(
                "autoupdate_config and cluster_maintenance_config both have groups: only one of them may".to_owned()
            );
        }
        (false, true) => other,
        _ => own,
    };
    Ok(Some(Policy { mode: own.mode.min(other.mode), ..ruling.clone() }))
}
