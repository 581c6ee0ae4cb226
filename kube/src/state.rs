//! What is remembered of each agent: one JSON key of one ConfigMap, swapped by its resourceVersion (KUBE §1, §4).

use jiff::{SignedDuration, Timestamp};
use protocol::Version;
use protocol::report::Change;
use serde::{Deserialize, Serialize};

/// How long a version rests that was refused once; twice as long after each further time.
const FIRST_REST: SignedDuration = SignedDuration::from_hours(1);
/// At most so long.
const LONGEST_REST: SignedDuration = SignedDuration::from_hours(24);
/// Refusals that are remembered: of versions that a source goes to and fro between.
const MOST_REFUSED: usize = 8;
/// Set-backs by tools are counted over so long.
pub const CONTEST_PERIOD: SignedDuration = SignedDuration::from_hours(24);

/// What is remembered of an agent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KeptState {
    /// The UUID by which it asks and reports.
    pub update_id: String,
    /// The image that this program last wrote, or found and took note of.
    pub image: String,
    /// This program wrote it.
    pub is_written: bool,
    /// The image before the last update that went well.
    pub previous: Option<String>,
    /// The change that is under way.
    pub attempt: Option<ImageChange>,
    /// What is not tried, and until when.
    pub refused: Vec<VersionRefusal>,
    /// When a tool replaced what this program had written, in the last 24 hours.
    pub set_back: Vec<Timestamp>,
    /// A tool replaced it so often that this program writes no more.
    pub contested: Option<Contested>,
    /// Since when an operator holds it.
    pub held: Option<Timestamp>,
    /// An operator released it from another updater, whose image this program may write.
    pub takes_over: bool,
    /// What an operator asked for and is not done yet.
    pub wish: Option<Wish>,
    /// The version that failed last, and when: the other agents of the file wait an hour before they try it.
    pub failed: Option<FailedVersion>,
    /// When an unhealthy agent was last updated out of turn.
    pub forced_at: Option<Timestamp>,
    /// Since when the schedule that the agents export cannot be used.
    pub schedule_lost: Option<Timestamp>,
    /// The version that the source wanted last.
    pub wanted: Option<Version>,
    /// Why it is as it is.
    pub told: Option<AgentReason>,
    /// The same as Kubernetes has it.
    pub conditions: Vec<AgentCondition>,
    /// The last change, as it is reported.
    pub last: Option<Change>,
    /// What the rollout server was told.
    pub fleet: Option<FleetTalk>,
}

/// Which way a change goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangePhase {
    /// To the new image.
    Forward,
    /// To the old one, because the new one failed.
    Back,
}

/// A change of the image that is under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageChange {
    /// The image before, exactly.
    pub from: String,
    /// The image that it is to be.
    pub to: String,
    /// Its version.
    pub version: Version,
    /// Which way.
    pub phase: ChangePhase,
    /// The workload's generation when it began, or turned back.
    pub generation: i64,
    /// The API server answered the patch of this phase, or the ConfigMap was written.
    pub is_written: bool,
    /// The workload had the image of this phase.
    pub has_arrived: bool,
    /// When it began.
    pub since: Timestamp,
    /// Most pods that were ready at once.
    pub ready: usize,
    /// When that last grew.
    pub progress_at: Timestamp,
    /// The agent was healthy before: what fails then is the version.
    pub was_healthy: bool,
    /// Why it goes back.
    pub failure: Option<FaultReason>,
    /// An operator asked for it: the version that is left is not refused for what it did.
    #[serde(default)]
    pub by_hand: bool,
    /// The rollout and the attempt in which the server told of it.
    pub told: Option<(u64, u32)>,
}

impl ImageChange {
    /// The image of its phase.
    pub fn image(&self) -> &str {
        if self.phase == ChangePhase::Forward { &self.to } else { &self.from }
    }

    /// Takes for the image of its phase what the API server made of it.
    pub fn set_image(&mut self, image: String) {
        *(if self.phase == ChangePhase::Forward { &mut self.to } else { &mut self.from }) = image;
    }

    /// The image that it leaves.
    pub fn other_image(&self) -> &str {
        if self.phase == ChangePhase::Forward { &self.from } else { &self.to }
    }
}

/// Why something failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultReason {
    /// A code of KUBE.
    pub code: String,
    /// For people.
    pub reason: String,
}

/// A version that is not tried.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VersionRefusal {
    /// The version.
    pub version: Version,
    /// `sha256:…`, where it is known.
    pub digest: Option<String>,
    /// Why.
    pub failure: FaultReason,
    /// How often.
    pub count: u32,
    /// Since when.
    pub since: Timestamp,
    /// Until when; none: until `release` or a new target.
    pub until: Option<Timestamp>,
    /// The rollout and the attempt in which it was told of; a later one tries again.
    pub told: Option<(u64, u32)>,
}

/// A fight over the image that this program has left.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contested {
    /// The version that it had written.
    pub version: Version,
    /// Who replaced it.
    pub by: String,
    /// Since when.
    pub since: Timestamp,
}

/// What an operator asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wish {
    /// What.
    pub what: WishKind,
    /// When; after an hour it counts no more.
    pub at: Timestamp,
}

/// What an operator may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WishKind {
    /// The source's version, now, whatever window and refusal say.
    Update,
    /// The image before the last update.
    Rollback,
}

/// The version that failed last.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailedVersion {
    /// The version.
    pub version: Version,
    /// When.
    pub at: Timestamp,
}

/// Why an agent is as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentReason {
    /// A code of KUBE §3 to §6.
    pub code: String,
    /// For people.
    pub why: String,
    /// Since when it is so.
    pub since: Timestamp,
    /// Until when at least, where that is known.
    pub until: Option<Timestamp>,
    /// Who can change it.
    pub who: String,
}

/// A condition, as Kubernetes has them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCondition {
    /// `UpToDate`, `Progressing`, `Degraded`, `Held`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True` or `False`.
    pub status: String,
    /// In one word.
    pub reason: String,
    /// For people.
    pub message: String,
    /// When the status changed.
    pub last_transition_time: Timestamp,
}

/// What the rollout server was told, and what it asked for.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct FleetTalk {
    /// Which server.
    pub origin: String,
    /// Its epoch.
    pub epoch: u64,
    /// The number of the last report or signed question.
    pub sequence: u64,
    /// The last change that it has.
    pub said: Option<Change>,
    /// When it last took a report.
    pub at: Option<Timestamp>,
    /// Why it took none.
    pub refusal: Option<String>,
}

impl KeptState {
    /// Reads what stands in the ConfigMap; nothing: a new agent.
    ///
    /// Errors: a line that says what is wrong.
    pub fn parse(text: Option<&str>) -> Result<Self, String> {
        let Some(text) = text else { return Ok(Self::default()) };
        // Serde takes a list for the fields in their order.
        if !text.trim_start().starts_with('{') {
            return Err("it is no JSON object".to_owned());
        }
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    /// As it is written.
    pub fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The refusal that holds for this version or digest at `now`, in the rollout and attempt `told`.
    pub fn refusal(
        &self,
        version: &Version,
        digest: Option<&str>,
        told: Option<(u64, u32)>,
        now: Timestamp,
    ) -> Option<&VersionRefusal> {
        self.refused.iter().find(|refusal| {
            let is_meant = refusal.version == *version || (digest.is_some() && refusal.digest.as_deref() == digest);
            let is_over = refusal.until.is_some_and(|until| until <= now);
            let is_tried_again = told.is_some() && refusal.told.is_some() && refusal.told != told;
            is_meant && !is_over && !(is_tried_again && refusal.until.is_some())
        })
    }

    /// Remembers that a version failed here.
    pub fn refuse(
        &mut self,
        version: Version,
        digest: Option<String>,
        failure: FaultReason,
        told: Option<(u64, u32)>,
        now: Timestamp,
    ) {
        let before = self.refused.iter().position(|refusal| refusal.version == version);
        let count = before.map_or(0, |index| self.refused.remove(index).count).saturating_add(1);
        let rest = SignedDuration::from_hours(1i64 << (count - 1).min(5)).clamp(FIRST_REST, LONGEST_REST);
        let until = now.checked_add(rest).ok();
        self.refused.push(VersionRefusal { version, digest, failure, count, since: now, until, told });
        let superfluous = self.refused.len().saturating_sub(MOST_REFUSED);
        self.refused.drain(..superfluous);
    }

    /// Remembers that a person left a version: until `release` or a new target.
    pub fn obey(&mut self, version: Version, reason: String, now: Timestamp) {
        self.refused.retain(|refusal| refusal.version != version);
        self.refuse(version, None, FaultReason { code: "set_back_by_hand".to_owned(), reason }, None, now);
        if let Some(refusal) = self.refused.last_mut() {
            refusal.until = None;
        }
    }

    /// Takes note of the version that the source wants: a new target ends what held for the one before.
    pub fn note_wanted(&mut self, version: &Version) {
        if self.wanted.as_ref() != Some(version) {
            self.refused.retain(|refusal| refusal.until.is_some());
            self.contested = None;
            self.set_back.clear();
            self.wanted = Some(version.clone());
        }
    }

    /// Takes note of why it is as it is; whether that is news.
    pub fn tell(&mut self, code: &str, why: &str, until: Option<Timestamp>, who: &str, now: Timestamp) -> bool {
        let since = self.told.as_ref().filter(|before| before.code == code).map_or(now, |before| before.since);
        let told = AgentReason { code: code.to_owned(), why: why.to_owned(), since, until, who: who.to_owned() };
        if self.told.as_ref() == Some(&told) {
            return false;
        }
        for kind in CONDITIONS {
            let status = if condition(code) == kind { "True" } else { "False" };
            let before = self.conditions.iter().find(|condition| condition.kind == kind);
            let changed = before.filter(|before| before.status == status).map(|before| before.last_transition_time);
            let condition = AgentCondition {
                kind: kind.to_owned(),
                status: status.to_owned(),
                reason: told.code.split('_').map(capitalised).collect(),
                message: told.why.clone(),
                last_transition_time: changed.unwrap_or(since),
            };
            self.conditions.retain(|condition| condition.kind != kind);
            self.conditions.push(condition);
        }
        self.told = Some(told);
        true
    }

    /// What an operator asked for and still counts.
    pub fn wish(&self, now: Timestamp) -> Option<WishKind> {
        let wish = self.wish.as_ref()?;
        (now.duration_since(wish.at) < FIRST_REST).then_some(wish.what)
    }
}

/// The conditions that an agent has.
const CONDITIONS: [&str; 4] = ["UpToDate", "Progressing", "Degraded", "Held"];

/// Which of them a code makes true.
fn condition(code: &str) -> &'static str {
    match code {
        "up_to_date" | "pinned" | "tag_moved" => "UpToDate",
        "progressing" | "watching" | "published" | "unschedulable" | "pod_stuck" | "going_back" | "resolving" => {
            "Progressing"
        }
        "absent"
        | "unhealthy"
        | "both_unhealthy"
        | "contested"
        | "image_absent"
        | "signature"
        | "version_mismatch"
        | "source_unreachable"
        | "registry_denied"
        | "registry_answer"
        | "admission_denied"
        | "refused"
        | "config_invalid"
        | "state_invalid"
        | "edition"
        | "downgrade"
        | "registry_unreachable" => "Degraded",
        "held" | "set_back_by_hand" | "paused" | "on_delete" | "scaled_to_zero" | "other_updater" => "Held",
        _ => "",
    }
}

fn capitalised(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn failure() -> FaultReason {
        FaultReason { code: "unhealthy".into(), reason: "3 restarts".into() }
    }

    #[test]
    fn a_refusal_lasts_twice_as_long_each_time_up_to_a_day() {
        let mut state = KeptState::default();
        let now = time("2026-11-29T00:00:00Z");
        let version: Version = "2.0.0".parse().unwrap();
        for hours in [1, 2, 4, 8, 16, 24, 24] {
            state.refuse(version.clone(), None, failure(), Some((1, 1)), now);
            let refusal = state.refusal(&version, None, Some((1, 1)), now).unwrap();
            assert_eq!(refusal.until.unwrap().duration_since(now), SignedDuration::from_hours(hours));
        }
        assert_eq!(state.refused.len(), 1);
        let later = now + SignedDuration::from_hours(24);
        assert_eq!(state.refusal(&version, None, None, later), None);
    }

    #[test]
    fn a_new_attempt_tries_again_but_not_what_a_person_left() {
        let mut state = KeptState::default();
        let now = time("2026-11-29T00:00:00Z");
        let version: Version = "2.0.0".parse().unwrap();
        state.refuse(version.clone(), Some("sha256:ab".into()), failure(), Some((7, 1)), now);
        assert!(state.refusal(&version, None, Some((7, 1)), now).is_some());
        assert!(state.refusal(&version, None, Some((7, 2)), now).is_none());
        // The same bytes under another version.
        let other: Version = "2.0.1".parse().unwrap();
        assert!(state.refusal(&other, Some("sha256:ab"), None, now).is_some());
        assert!(state.refusal(&other, Some("sha256:cd"), None, now).is_none());
        state.obey(version.clone(), "kubectl-set".into(), now);
        let year = now + SignedDuration::from_hours(8760);
        assert!(state.refusal(&version, None, Some((8, 1)), year).is_some());
        state.note_wanted(&other);
        assert!(state.refusal(&version, None, None, year).is_none());
    }

    #[test]
    fn what_is_no_state_is_an_error_and_nothing_is_a_new_agent() {
        assert_eq!(KeptState::parse(None), Ok(KeptState::default()));
        for bad in ["", "[]", "{\"x\":1}", "{\"image\":7}", "{\"attempt\":{\"from\":\"a\"}}"] {
            assert!(KeptState::parse(Some(bad)).is_err(), "{bad}");
        }
        let mut state = KeptState { image: "a:1".into(), ..KeptState::default() };
        state.refuse("1.0.0".parse().unwrap(), None, failure(), None, time("2026-11-29T00:00:00Z"));
        assert_eq!(KeptState::parse(Some(&state.json())), Ok(state));
    }
}
