//! From facts to the one thing that is done next (KUBE §3): the first case that holds. Pure; `plan` shows its value.

use jiff::{SignedDuration, Timestamp};
use protocol::{Digest, Version};
use sources::Said;

use crate::config::KubeAgent;
use crate::hands::{FieldOwner, Hand};
use crate::image;
use crate::state::{Contested, KeptState, WishKind};
use crate::workload::{Pod, Workload};

/// An unhealthy agent is updated out of turn at most so often.
const FORCED_REST: SignedDuration = SignedDuration::from_mins(30);
/// The code of a change out of turn: the agent is not well.
pub const UNHEALTHY: &str = "unhealthy";
/// How long the other agents of a file wait before they try a version that failed on one of them.
pub const BESIDE_REST: SignedDuration = SignedDuration::from_hours(1);

/// What the source says.
#[derive(Debug, Clone, PartialEq)]
pub enum SourceSays {
    /// It has not been asked yet.
    Unasked,
    /// It does not answer, or with nonsense: why.
    Silent(String),
    /// No update: why.
    Nothing(String),
    /// A version.
    Target(Box<WantedVersion>),
}

/// A version that a source names, and when.
#[derive(Debug, Clone, PartialEq)]
pub struct WantedVersion {
    /// The version, and what any source may say beside it.
    pub said: Said,
    /// It may be installed now.
    pub may_go: bool,
    /// Why, or why not.
    pub reason: String,
    /// When that may change.
    pub until: Option<Timestamp>,
    /// A lower major is refused.
    pub keeps_major: bool,
    /// It comes from `find`: an unhealthy agent gets its version as a new installation would.
    pub is_find: bool,
    /// The version that the rollout server will name later.
    pub waits_for: Option<Version>,
    /// Before this time it is not this agent's turn.
    pub turn: Option<Timestamp>,
    /// The rollout and the attempt.
    pub told: Option<(u64, u32)>,
}

/// The other agents of the file.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Beside {
    /// Those that are being changed.
    pub changing: Vec<String>,
    /// The wanted version failed there: the name, and when.
    pub failed: Option<(String, Timestamp)>,
}

/// One look at an agent: all that a plan follows from.
#[derive(Debug)]
pub struct AgentLook<'a> {
    /// The time.
    pub now: Timestamp,
    /// The agent's settings.
    pub agent: &'a KubeAgent,
    /// The workload; `None`: there is none of that name.
    pub workload: Option<&'a Workload>,
    /// Its pods.
    pub pods: &'a [Pod],
    /// Whose the image is.
    pub owner: Option<FieldOwner>,
    /// What is remembered, and from now on.
    pub state: KeptState,
    /// What the source says.
    pub word: SourceSays,
    /// The others.
    pub beside: Beside,
    /// At most so many agents change at once.
    pub max_in_flight: usize,
    /// Another's rollout is under way, and goes on.
    pub other_rollout: bool,
    /// What is wrong with the agent, if it has been for long enough.
    pub complaint: Option<String>,
    /// The tag of the image that runs names other bytes now.
    pub tag_moved: bool,
}

/// What is done next.
#[derive(Debug, Clone, PartialEq)]
pub enum NextStep {
    /// Nothing.
    Nothing,
    /// The change that is under way goes on.
    GoOn,
    /// A change begins.
    Begin(Box<Beginning>),
}

/// A change that begins.
#[derive(Debug, Clone, PartialEq)]
pub struct Beginning {
    /// The image, its digest still to be found; of a way back the exact one.
    pub image: String,
    /// Its version.
    pub version: Version,
    /// What the source said; `None`: an operator goes back.
    pub target: Option<WantedVersion>,
}

/// What is done, and why.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentPlan {
    /// What.
    pub step: NextStep,
    /// A code of KUBE §3.
    pub code: &'static str,
    /// For people.
    pub why: String,
    /// The earliest time at which that could change.
    pub until: Option<Timestamp>,
    /// Who can change it.
    pub who: &'static str,
}

/// Who can change how something is.
pub(crate) mod who {
    pub(crate) const NOBODY: &str = "nobody needs to";
    pub(crate) const TIME: &str = "time";
    pub(crate) const OWNER: &str = "who manages the workload";
    pub(crate) const OPERATOR: &str = "an operator: teleport-kube-update release";
    pub(crate) const SOURCE: &str = "who runs the source of versions";
    pub(crate) const SETTINGS: &str = "who writes kube.yaml";
}

pub(crate) fn nothing(code: &'static str, why: impl Into<String>, who: &'static str) -> AgentPlan {
    AgentPlan { step: NextStep::Nothing, code, why: why.into(), until: None, who }
}

impl AgentPlan {
    pub(crate) fn until(self, until: Option<Timestamp>) -> Self {
        Self { until, ..self }
    }

    fn step(self, begin: Beginning) -> Self {
        Self { step: NextStep::Begin(Box::new(begin)), ..self }
    }
}

impl SourceSays {
    /// The version that it names, if it does.
    pub fn target(&self) -> Option<&WantedVersion> {
        if let Self::Target(target) = self { Some(target) } else { None }
    }
}

impl<'a> AgentLook<'a> {
    /// The image that the workload has; empty: there is none.
    pub fn present(&self) -> &'a str {
        self.workload.and_then(|workload| workload.image(&self.agent.container)).unwrap_or_default()
    }

    /// The workload's generation; 0: there is no workload.
    pub fn generation(&self) -> i64 {
        self.workload.map_or(0, Workload::generation)
    }

    /// Takes what the source says, and note of the version.
    pub fn hear(&mut self, word: SourceSays) {
        if let Some(target) = word.target() {
            self.state.note_wanted(&target.said.version);
        }
        self.word = word;
    }

    /// What to add so that the image's owner leaves it alone, as the end of a sentence.
    pub fn remedy(&self) -> String {
        let remedy = self.owner.as_ref().and_then(|owner| owner.remedy(self.agent.kind));
        remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default()
    }

    /// The plan.
    pub fn plan(&self) -> AgentPlan {
        self.hindered().or_else(|| self.asked_by_hand()).unwrap_or_else(|| match &self.word {
            SourceSays::Unasked => nothing("source_unasked", "the source has not been asked yet", who::TIME),
            SourceSays::Silent(why) => {
                nothing("source_unreachable", format!("the source does not answer: {why}"), who::SOURCE)
            }
            SourceSays::Nothing(why) => nothing("no_update", why.clone(), who::SOURCE),
            SourceSays::Target(target) => self.towards(target),
        })
    }

    /// What keeps from any change, whatever the source says.
    fn hindered(&self) -> Option<AgentPlan> {
        let KubeAgent { kind, name, container, .. } = self.agent;
        let Some(workload) = self.workload else {
            return Some(nothing("absent", format!("there is no {kind} {name}"), who::SETTINGS));
        };
        if workload.image(container).is_none() {
            return Some(nothing("absent", format!("{kind} {name} has no container {container}"), who::SETTINGS));
        }
        if workload.is_on_delete() {
            let why = "its update strategy is OnDelete: pods are replaced by hand";
            return Some(nothing("on_delete", why, who::OWNER));
        }
        if workload.is_paused() {
            return Some(nothing("paused", "the Deployment is paused", who::OWNER));
        }
        if workload.replicas() == 0 {
            return Some(nothing("scaled_to_zero", "it has no replicas", who::OWNER));
        }
        if self.state.attempt.is_some() {
            let plan = nothing("progressing", "a change is under way", who::TIME);
            return Some(AgentPlan { step: NextStep::GoOn, ..plan });
        }
        if workload.is_skipped() {
            let why = format!("the workload has the annotation {}: \"true\"", crate::workload::SKIP);
            return Some(nothing("held", why, who::OWNER));
        }
        if let Some(since) = self.state.held {
            return Some(nothing("held", format!("an operator holds it since {since}"), who::OPERATOR));
        }
        if let Some(pin) = self.agent.pin.as_ref().filter(|pin| self.own().as_ref() == Some(pin) && !self.tag_moved) {
            return Some(nothing("pinned", format!("{pin} runs, to which kube.yaml pins it"), who::SETTINGS));
        }
        if let Some(contested) = &self.state.contested {
            let Contested { by, version, .. } = contested;
            let why = format!("{by} replaced {version} three times in 24 hours{}", self.remedy());
            return Some(nothing("contested", why, who::OPERATOR));
        }
        let is_beside = |owner: &&FieldOwner| owner.hand == Hand::Beside && !self.state.takes_over;
        if let Some(owner) = self.owner.as_ref().filter(is_beside) {
            let why = format!("another updater writes this image: {}", owner.manager);
            return Some(nothing("other_updater", why, who::OPERATOR));
        }
        if self.other_rollout && self.state.set_back.is_empty() {
            return Some(nothing("other_rollout", "another's rollout of this workload is under way", who::TIME));
        }
        None
    }

    /// What an operator asked for, where no source is needed for it.
    fn asked_by_hand(&self) -> Option<AgentPlan> {
        if self.state.wish(self.now) != Some(WishKind::Rollback) {
            return None;
        }
        let image = self.state.previous.as_ref()?;
        let version = self.agent.version(image)?;
        if let Some(floor) = self.agent.min_version.as_ref().filter(|floor| version.precedes(floor)) {
            let why = format!("an operator asked to go back to {version}, which is below the min_version {floor}");
            return Some(nothing("downgrade", why, who::SETTINGS));
        }
        let begin = Beginning { image: image.clone(), version, target: None };
        Some(nothing("rollback", "an operator asked to go back", who::TIME).step(begin))
    }

    /// The version that runs, where the image says it.
    pub fn own(&self) -> Option<Version> {
        self.agent.version(self.present())
    }

    /// An operator asked for an update now.
    pub fn is_asked(&self) -> bool {
        self.state.wish(self.now) == Some(WishKind::Update)
    }

    fn towards(&self, target: &WantedVersion) -> AgentPlan {
        let version = self.agent.pin.as_ref().unwrap_or(&target.said.version);
        if self.own().as_ref() == Some(version) {
            return self.up_to_date(target, version);
        }
        let digest = target.digest(self.present()).map(|digest| format!("sha256:{digest}"));
        if !self.is_asked()
            && let Some(refusal) = self.state.refusal(version, digest.as_deref(), target.told, self.now)
        {
            let count = if refusal.count > 1 { format!(", {} times", refusal.count) } else { String::new() };
            let why = format!("{version} was refused here{count}: {}", refusal.failure.reason);
            // An alarm lasts as long as its cause.
            let is_alarm = self.state.last.as_ref().is_some_and(|last| last.code == "both_unhealthy")
                && self.pods.iter().any(|pod| !pod.is_ready);
            let code = match refusal.until {
                None => "set_back_by_hand",
                Some(_) if is_alarm => "both_unhealthy",
                Some(_) => "refused",
            };
            return nothing(code, why, who::OPERATOR).until(refusal.until);
        }
        let hindrance = self.unfit(target, version).or_else(|| self.waits_for_others(version));
        hindrance.unwrap_or_else(|| self.when(target, version))
    }

    fn up_to_date(&self, target: &WantedVersion, version: &Version) -> AgentPlan {
        if self.tag_moved {
            let why = format!("{version} runs; its tag names other bytes now, which are not followed");
            return nothing("tag_moved", why, who::OWNER);
        }
        if let Some(next) = target.waits_for.as_ref().filter(|next| *next != version) {
            let why = format!("{version} runs, and {next} waits: {}", target.reason);
            return nothing("not_let_go", why, who::SOURCE).until(target.until);
        }
        match &self.complaint {
            Some(complaint) => nothing("unhealthy", format!("{version} runs, but {complaint}"), who::OWNER),
            None => nothing("up_to_date", format!("{version} runs"), who::NOBODY),
        }
    }

    /// Why the version does not fit the agent.
    fn unfit(&self, target: &WantedVersion, version: &Version) -> Option<AgentPlan> {
        for (floor, whose) in
            [(self.agent.min_version.as_ref(), "kube.yaml"), (target.said.floor.as_ref(), "the source")]
        {
            if let Some(floor) = floor.filter(|floor| version.precedes(floor)) {
                let why = format!("{version} is below the min_version {floor} of {whose}");
                return Some(nothing("downgrade", why, who::SETTINGS));
            }
        }
        if let Some(own) = self.own().filter(|own| version.precedes(own)) {
            if target.keeps_major && version.major() < own.major() {
                let why = format!("a channel must not go down to a lower major ({own} to {version})");
                return Some(nothing("downgrade", why, who::SOURCE));
            }
            let has_data = self.workload.is_some_and(|workload| workload.has_data(&self.agent.container));
            if has_data && !self.agent.allow_downgrade {
                let why = format!(
                    "{version} is below {own}, the agent keeps data on a volume, and no snapshot of it is made; set \
                     allow_downgrade: true if {version} can read it"
                );
                return Some(nothing("downgrade", why, who::SETTINGS));
            }
        }
        let repository = self.agent.image.as_deref().unwrap_or(self.present());
        let why = image::edition_fault(repository, self.present(), target.said.edition?)?;
        Some(nothing("edition", why, who::SETTINGS))
    }

    fn waits_for_others(&self, version: &Version) -> Option<AgentPlan> {
        if self.beside.changing.len() >= self.max_in_flight {
            let names = self.beside.changing.join(", ");
            let why = format!("{names} is being changed, and max_in_flight is {}", self.max_in_flight);
            return Some(nothing("in_flight", why, who::TIME));
        }
        let (name, at) = self.beside.failed.as_ref()?;
        let until = at.checked_add(BESIDE_REST).ok().filter(|until| *until > self.now)?;
        let why = format!("{version} failed on {name}");
        Some(nothing("failed_beside", why, who::TIME).until(Some(until)))
    }

    fn when(&self, target: &WantedVersion, version: &Version) -> AgentPlan {
        let own = self.own();
        let begin = |code, why: String| {
            let begin = Beginning::of(self.agent, self.present(), target.clone(), version.clone());
            nothing(code, why, who::TIME).step(begin)
        };
        if self.is_asked() {
            return begin("update_now", format!("an operator asked for {version} now"));
        }
        if target.said.critical && self.agent.pin.is_none() {
            return begin("critical", format!("{version} is critical"));
        }
        let is_below_floor = |floor: &&Version| own.as_ref().is_some_and(|own| own.precedes(floor));
        if let Some(floor) = target.said.floor.as_ref().filter(is_below_floor) {
            let why = format!("this agent's version is below the source's min_version {floor}");
            return begin("below_min_version", why);
        }
        let rests_until = self.state.forced_at.and_then(|at| at.checked_add(FORCED_REST).ok());
        if let Some(complaint) = self.complaint.as_ref().filter(|_| rests_until.is_none_or(|until| until <= self.now)) {
            return begin(UNHEALTHY, complaint.clone());
        }
        if !target.may_go {
            let code = if target.is_find { "not_let_go" } else { "outside_window" };
            return nothing(code, format!("{version} waits: {}", target.reason), who::SOURCE).until(target.until);
        }
        // A digest alone says no version: such an agent is changed only when somebody tells it to.
        if own.is_none() && !target.is_find {
            let why = "its image has no version in its tag: it is updated only when told (update --now)";
            return nothing("version_unknown", why, who::OPERATOR);
        }
        if let Some(turn) = target.turn.filter(|turn| *turn > self.now) {
            return nothing("jitter", format!("{version} waits for this agent's turn"), who::TIME).until(Some(turn));
        }
        begin("let_go", format!("{version} may be installed now: {}", target.reason))
    }
}

impl Beginning {
    /// The rollout and the attempt in which the server told of it.
    pub fn told(&self) -> Option<(u64, u32)> {
        self.target.as_ref()?.told
    }

    /// Of the image of `agent` that `version` has, where `present` runs.
    pub fn of(agent: &KubeAgent, present: &str, target: WantedVersion, version: Version) -> Self {
        let image = image::tagged(agent.image.as_deref(), present, agent.tag.as_deref(), &version);
        Self { image, version, target: Some(target) }
    }
}

impl WantedVersion {
    /// The digest that the rollout server names for the repository of `image`.
    pub fn digest(&self, image: &str) -> Option<Digest> {
        self.said.digests.of_image(&image::repository_name(image))
    }
}

#[cfg(test)]
mod tests;
