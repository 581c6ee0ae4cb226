//! From a draft over a plan to the directive that is active: the rules, for the server and for scripts (DIRECTIVES §3). Pure.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use yaml::Node;

use crate::dry_run::DryRunResults;
use crate::refusal::Refusal;
use crate::resource::{self, Directive, DirectivePlan, Faults, Kind, Promotion, Resource, VersionControl};
use crate::resource_set::ResourceSet;

/// How far a plan is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[allow(rustdoc::broken_intra_doc_links, reason = "the schema of the API has this text")]
pub enum PlanState {
    /// It can be applied, or waits for what [`PlanView::against`] says.
    Pending,
    /// Somebody denied it.
    Denied,
    /// Its time is over.
    Expired,
    /// It was applied.
    Applied,
}

impl DirectivePlan {
    /// A plan of `directive`, made at `now`, with what is `written` of it.
    pub fn freeze(
        author: &str,
        draft: &str,
        (directive, written): (&Directive, &Node),
        (nonce, promotion): (u64, &Promotion),
        now: Timestamp,
    ) -> Self {
        Self {
            draft: draft.to_owned(),
            author: author.to_owned(),
            time: now,
            expires: now + promotion.plan_ttl,
            for_nonce: counted(nonce),
            digest: digest(written),
            approved: Vec::new(),
            denied: String::new(),
            dry_run: None,
            applied: false,
            directive: directive.clone(),
        }
    }

    /// How far it is at `now`.
    pub fn state(&self, now: Timestamp) -> PlanState {
        match self {
            _ if self.applied => PlanState::Applied,
            _ if !self.denied.is_empty() => PlanState::Denied,
            _ if now < self.expires => PlanState::Pending,
            _ => PlanState::Expired,
        }
    }

    /// Whether people can still decide on it.
    pub fn is_open(&self, now: Timestamp) -> bool {
        self.state(now) == PlanState::Pending
    }

    /// Whether people can decide on it, and it can be applied while `nonce` is active.
    pub fn waits(&self, nonce: u64, now: Timestamp) -> bool {
        self.is_open(now) && u64::from(self.for_nonce) == nonce
    }

    /// Takes a voice: one a person, none its author's. A denial ends it.
    ///
    /// # Errors
    /// `own_plan`, `not_approved` for one that was denied, `plan_expired`, `conflict` for one that was applied.
    pub fn review(&mut self, who: &str, approves: bool, reason: &str, now: Timestamp) -> Result<(), Refusal> {
        if self.author == who {
            let message = format!("{who} made this plan: somebody else has to review it");
            return Err(Refusal::new("own_plan", message));
        }
        self.check_open(now)?;
        if !approves {
            self.denied = if reason.is_empty() { who.to_owned() } else { format!("{who}: {reason}") };
        } else if !self.approved.iter().any(|known| known == who) {
            self.approved.push(who.to_owned());
        }
        Ok(())
    }

    /// Begins its dry run; one that was begun goes on.
    ///
    /// # Errors
    /// As of [`Self::review`].
    pub fn begin_dry_run(&mut self, now: Timestamp) -> Result<(), Refusal> {
        self.check_open(now)?;
        self.dry_run.get_or_insert(now);
        Ok(())
    }

    fn check_open(&self, now: Timestamp) -> Result<(), Refusal> {
        match self.state(now) {
            PlanState::Pending => Ok(()),
            PlanState::Denied => Err(self.denied()),
            PlanState::Expired => Err(self.expired()),
            PlanState::Applied => Err(Refusal::conflict("this plan was applied")),
        }
    }

    fn denied(&self) -> Refusal {
        Refusal::new("not_approved", format!("the plan was denied by {}", self.denied))
    }

    fn expired(&self) -> Refusal {
        Refusal::new("plan_expired", format!("the plan could be applied until {}: plan it again", self.expires))
    }

    /// What keeps it from being applied at `now`, where `nonce` is active and `tried` came of its dry run; the weightiest first.
    pub fn against(
        &self,
        resources: &ResourceSet,
        nonce: u64,
        tried: Option<&DryRunResults>,
        now: Timestamp,
    ) -> Vec<Refusal> {
        let VersionControl { promotion, .. } = resources.version_control();
        let mut wrong = Vec::new();
        wrong.extend((!self.denied.is_empty()).then(|| self.denied()));
        wrong.extend((self.expires <= now).then(|| self.expired()));
        if self.for_nonce != counted(nonce) {
            let made = self.for_nonce;
            let message = format!("the plan was made while nonce {made} was active, and {nonce} is now: plan it again");
            wrong.push(Refusal::new("plan_outdated", message));
        }
        if let Some(end) = self.directive.stale_after.filter(|end| *end <= now) {
            let message = format!("its stale_after is past, {end}: whoever made it has to make it anew");
            wrong.push(Refusal::new("draft_stale", message));
        }
        wrong.extend(is_enabled(resources).err());
        let groups = &self.directive.groups;
        let mut targets = groups.iter().flat_map(|group| &group.targets);
        wrong.extend(targets.find_map(|target| resources.refuse_blocked(&target.version).err()));
        let rules = resources.target_rules();
        let lacking = groups.iter().find_map(|group| Some((group, group.lacks(&rules).into_iter().next()?)));
        let lacking = lacking.map(|(group, lacks)| format!("{}: target {lacks}", group.name));
        wrong.extend(lacking.map(|message| Refusal::new("target_incomplete", message)));
        if promotion.needs_dry_run && !tried.is_some_and(DryRunResults::is_clean) {
            let message = tried.map_or_else(
                || "this fleet asks for a dry run of each plan: teleport-fleet version-control dry-run ID".to_owned(),
                |tried| format!("its dry run is not clean: {tried}"),
            );
            wrong.push(Refusal::new("dry_run_missing", message));
        }
        let approvals = self.approved.len();
        if counted(approvals as u64) < promotion.approvals {
            let message = format!("{approvals} of {} people approved this plan", promotion.approvals);
            wrong.push(Refusal::new("not_approved", message));
        }
        wrong
    }

    /// The plan as a resource, with what `source` says.
    ///
    /// # Errors
    /// What it would say is no plan.
    pub fn resource(&self, id: &str, source: &Resource) -> Result<Resource, Faults> {
        made(Kind::Plan, id, &json!(self), source)
    }
}

/// Errors: nothing is planned or applied, as `version-control-config` says.
pub fn is_enabled(resources: &ResourceSet) -> Result<(), Refusal> {
    let message = "version-control-config has enabled: false: nothing is planned or applied";
    if resources.version_control().enabled { Ok(()) } else { Err(Refusal::conflict(message)) }
}

/// A resource of this kind with the directive that `source` says, and `spec` beside it.
///
/// # Errors
/// It is none, or `source` has no directive.
pub fn made(kind: Kind, name: &str, spec: &Value, source: &Resource) -> Result<Resource, Faults> {
    let none = || yaml::Fault { line: 1, what: format!("{} has no directive", source.kind()) };
    let (_, directive) = source.directive().ok_or_else(none)?;
    let mut document = kind.document();
    document.set(&["metadata", "name"], Node::text(name));
    if kind == Kind::Directive {
        document.set(&["spec"], directive.clone());
    } else {
        document.set(&["spec"], Node::from_json(spec, 1)?);
        document.set(&["spec", "directive"], directive.clone());
    }
    // What the store keeps it has to read again.
    let made = resource::read(&document.emit())?.pop();
    made.ok_or_else(|| yaml::Fault { line: 1, what: format!("{kind} {name} says nothing") }.into())
}

/// SHA-256 of what is written, as JSON with its keys in order: whoever writes the same otherwise means the same.
pub fn digest(written: &Node) -> String {
    protocol::Digest::of(in_order(written.to_json()).to_string().as_bytes()).to_string()
}

fn in_order(value: Value) -> Value {
    match value {
        Value::Object(keys) => {
            let mut keys: Vec<(String, Value)> = keys.into_iter().map(|(key, value)| (key, in_order(value))).collect();
            keys.sort_by(|one, other| one.0.cmp(&other.0));
            Value::Object(keys.into_iter().collect())
        }
        Value::Array(items) => items.into_iter().map(in_order).collect(),
        value => value,
    }
}

fn counted(nonce: u64) -> u32 {
    u32::try_from(nonce).unwrap_or(u32::MAX)
}
