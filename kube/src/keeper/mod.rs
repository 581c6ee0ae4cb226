//! One agent: looks, plans, and does the one thing that is next (KUBE §3 to §6).

mod change;
mod telling;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use http_client::Client;
use jiff::{SignedDuration, Timestamp};
use protocol::Version;
use protocol::report::{Outcome, Rollout, Versions};
use registry::{CosignKey, Registry};
use serde_json::json;
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant};

use crate::account::{Deed, account};
use crate::api::{Api, ApiFault, KubeResult};
use crate::ask::{SourceAnswer, SourceQuestion, ask};
use crate::config::{KubeAgent, WriteMode};
use crate::hands::{FieldOwner, Hand};
use crate::image;
use crate::plan::{AgentFacts, AgentPlan, BESIDE_REST, Beginning, Beside, NextStep, SourceSays, WantedVersion};
use crate::prepare::{ImageRefusal, ProvenImage, prepare};
use crate::report::{ReportContent, change, deliver, is_due, next};
use crate::state::{AgentReason, ChangePhase, FailedVersion, FaultReason, FleetTalk, ImageChange, KeptState};
use crate::store::{StateMap, missing, seed};
use crate::tell::{SharedNumbers, WorkloadEvents, log, numbers};
use crate::verdict::{ChangedWorkload, Course, Memory, judge};
use crate::workload::{Pod, Workload};

/// How often an agent is looked at.
const LOOK: Duration = Duration::from_secs(30);
/// How often while something changes.
const LOOK_CHANGING: Duration = Duration::from_secs(2);
/// How often the source is asked.
const ASK: Duration = Duration::from_secs(300);
/// How often pods are listed of a workload that has not changed.
const LIST: Duration = Duration::from_secs(120);
/// After so long without a look the pods' time begins anew: in between nobody could see their progress.
const GAP: Duration = Duration::from_secs(60);
/// By so much a clock jumps that is set; from then on, too, the pods' time begins anew.
const JUMP: SignedDuration = SignedDuration::from_secs(5);
/// How long an image that is not there, or not whole, is not asked for again.
const ASK_AGAIN: SignedDuration = SignedDuration::from_mins(10);
/// How long a registry that does not answer is left in peace.
const REGISTRY_REST: SignedDuration = SignedDuration::from_mins(1);
/// How long the sentence of an unchanged state may be old.
const TELL_AGAIN: SignedDuration = SignedDuration::from_mins(5);
/// Tries of one look, where others swap the state at the same time.
const TRIES: u32 = 4;
/// Codes of an agent that has an open change and does not go on with it: it keeps no other agent waiting.
const NOT_GOING_ON: [&str; 5] = ["absent", "on_delete", "paused", "scaled_to_zero", "published"];

/// What all keepers of a configuration share.
pub struct KeeperContext {
    /// The API server.
    pub api: Api,
    /// The states.
    pub store: Mutex<StateMap>,
    /// The name of ConfigMap, Secret and Lease.
    pub name: String,
    /// Asks sources.
    pub client: Client,
    /// Asks registries.
    pub registry: Registry,
    /// Keys of agents.
    pub keys: Vec<String>,
    /// How many may change at once.
    pub max_in_flight: usize,
    /// With which token hosts enrol.
    pub join_token_file: Option<PathBuf>,
    /// This process.
    pub identity: String,
    /// What is told.
    pub numbers: SharedNumbers,
}

/// Keeps one agent at the version that its source wants.
pub struct Keeper {
    shared: Arc<KeeperContext>,
    agent: KubeAgent,
    cosign: Vec<CosignKey>,
    key: String,
    memory: Memory,
    events: WorkloadEvents,
    seen: Option<SeenWorkload>,
    /// What the source said last.
    heard: Option<SourceAnswer>,
    asking: Option<JoinHandle<SourceAnswer>>,
    asked_at: Option<Instant>,
    preparing: Option<(String, JoinHandle<Result<ProvenImage, ImageRefusal>>)>,
    prepared: Option<(String, Timestamp, Result<ProvenImage, ImageRefusal>)>,
    /// The image of an open change that this process itself has looked up and verified.
    proven: Option<String>,
    moved: Option<JoinHandle<bool>>,
    tag_moved: bool,
    reporting: Option<JoinHandle<FleetTalk>>,
    report_after: Option<Instant>,
    seed: Option<String>,
    kernel: String,
    looked_at: Option<(Instant, Timestamp)>,
    said: (String, Option<Timestamp>),
    may_delete: bool,
    /// At the last look nothing was to be done.
    rests: bool,
}

/// The workload and its pods, as they were seen.
struct SeenWorkload {
    workload: Option<Workload>,
    pods: Vec<Pod>,
    listed_at: Instant,
}

/// Why a look ended early.
enum LookEnd {
    /// Somebody else swapped the state: once more.
    Again,
    /// The API server cannot be used.
    Api(ApiFault),
    /// The state cannot be read.
    State(String),
}

impl From<ApiFault> for LookEnd {
    fn from(fault: ApiFault) -> Self {
        match fault {
            ApiFault::Conflict(_) => Self::Again,
            fault => Self::Api(fault),
        }
    }
}

impl Keeper {
    /// Of `agent`.
    ///
    /// Errors: a key that cannot be read.
    pub fn new(shared: Arc<KeeperContext>, agent: KubeAgent) -> error::Result<Self> {
        let cosign = cosign_keys(&agent)?;
        let events = WorkloadEvents::new(shared.api.clone(), &shared.identity);
        let key = agent.key();
        Ok(Self {
            shared,
            agent,
            cosign,
            key,
            memory: Memory::default(),
            events,
            seen: None,
            heard: None,
            asking: None,
            asked_at: None,
            preparing: None,
            prepared: None,
            proven: None,
            moved: None,
            tag_moved: false,
            reporting: None,
            report_after: None,
            seed: None,
            kernel: String::new(),
            looked_at: None,
            said: (String::new(), None),
            may_delete: true,
            rests: false,
        })
    }

    /// Looks once, and does what is next. Gives how long to wait.
    pub async fn look(&mut self) -> Duration {
        if !numbers(&self.shared.numbers).is_leader {
            let mut numbers = numbers(&self.shared.numbers);
            // What the leader cannot do is his to say.
            let agent = numbers.agent(&self.key);
            (agent.code, agent.fault) = ("not_leader".to_owned(), None);
            return LOOK_CHANGING;
        }
        if self.was_away() {
            self.memory.forget();
            self.memory.rest(Timestamp::now());
        }
        let mut result = Err(LookEnd::Again);
        for _ in 0..TRIES {
            result = self.look_once().await;
            if !matches!(result, Err(LookEnd::Again)) {
                break;
            }
        }
        match result {
            Ok(is_changing) => {
                numbers(&self.shared.numbers).agent(&self.key).fault = None;
                self.looked_at = Some((Instant::now(), Timestamp::now()));
                if is_changing { LOOK_CHANGING } else { LOOK }
            }
            Err(LookEnd::Again) => LOOK_CHANGING,
            Err(LookEnd::Api(fault)) => {
                let code = if matches!(fault, ApiFault::Denied(_)) { "api_denied" } else { "api_unavailable" };
                self.cannot(code, fault.what());
                LOOK_CHANGING
            }
            Err(LookEnd::State(why)) => {
                self.cannot("state_invalid", &why);
                LOOK
            }
        }
    }

    /// Nobody looked for long, or the clock was set.
    fn was_away(&self) -> bool {
        self.looked_at.is_none_or(|(at, time)| {
            let passed = SignedDuration::try_from(at.elapsed()).unwrap_or_default();
            at.elapsed() > GAP || (Timestamp::now().duration_since(time) - passed).abs() > JUMP
        })
    }

    /// Nothing can be done, which makes the process not ready.
    fn cannot(&mut self, code: &str, what: &str) {
        numbers(&self.shared.numbers).agent(&self.key).fault = Some(format!("{}: {code}: {what}", self.key));
        self.say(code, what, true);
    }

    /// A line in the log, if it is news.
    fn say(&mut self, code: &str, what: &str, is_warning: bool) {
        numbers(&self.shared.numbers).agent(&self.key).code = code.to_owned();
        let is_old = self.said.1.is_none_or(|at| Timestamp::now().duration_since(at) > TELL_AGAIN);
        if self.said.0 != code || (is_warning && is_old) {
            log(if is_warning { "warn" } else { "info" }, &self.key, code, what);
            self.said = (code.to_owned(), Some(Timestamp::now()));
        }
    }

    async fn look_once(&mut self) -> Result<bool, LookEnd> {
        let now = Timestamp::now();
        let mut state = self.state().await?;
        if state.update_id.is_empty() {
            state.update_id = uuid::Uuid::new_v4().to_string();
            self.swap(&state).await?;
        }
        self.see(&state).await?;
        let seen = self.seen.take();
        let result = self.act(state, seen.as_ref(), now).await;
        self.seen = seen;
        result
    }

    async fn state(&self) -> Result<KeptState, LookEnd> {
        let mut store = self.shared.store.lock().await;
        store.refresh().await?;
        store.state(&self.key).map_err(LookEnd::State)
    }

    async fn swap(&self, state: &KeptState) -> KubeResult<()> {
        self.shared.store.lock().await.swap(&self.key, state).await
    }

    /// Reads the workload, and its pods where they may have changed.
    async fn see(&mut self, state: &KeptState) -> KubeResult<()> {
        let KubeAgent { kind, name, container, .. } = &self.agent;
        let workload = self.shared.api.workload(*kind, name).await?;
        let version =
            |seen: &SeenWorkload| seen.workload.as_ref().map(|workload| workload.metadata.resource_version.clone());
        let is_known = |seen: &&SeenWorkload| {
            state.attempt.is_none()
                && seen.listed_at.elapsed() < LIST
                && version(seen) == workload.as_ref().map(|workload| workload.metadata.resource_version.clone())
        };
        let known = self.seen.as_ref().filter(is_known).map(|seen| (seen.pods.clone(), seen.listed_at));
        let (pods, listed_at) = match (known, &workload) {
            (Some(known), _) => known,
            (None, None) => (Vec::new(), Instant::now()),
            (None, Some(workload)) => {
                let all = self.shared.api.pods(&workload.selector()).await?;
                (workload.own(*kind, &all.items, container), Instant::now())
            }
        };
        self.seen = Some(SeenWorkload { workload, pods, listed_at });
        Ok(())
    }

    fn owner(&self, workload: Option<&Workload>) -> Option<FieldOwner> {
        FieldOwner::of_image(workload?, &self.agent.container, &self.shared.api.manager)
    }

    async fn act(
        &mut self,
        mut state: KeptState,
        seen: Option<&SeenWorkload>,
        now: Timestamp,
    ) -> Result<bool, LookEnd> {
        let workload = seen.and_then(|seen| seen.workload.as_ref());
        let pods = seen.map_or(&[][..], |seen| &seen.pods);
        let owner = self.owner(workload);
        let before = state.clone();
        let present =
            workload.and_then(|workload| workload.image(&self.agent.container)).unwrap_or_default().to_owned();
        if state.attempt.is_none() && !present.is_empty() {
            self.note_hands(&mut state, workload, &present, owner.as_ref(), now).await;
        }
        self.ask_source(&mut state, &present, now).await;
        let word = self.heard.as_ref().map_or(SourceSays::Unasked, |heard| heard.word.clone());
        if let SourceSays::Target(target) = &word {
            state.note_wanted(&target.version);
        }
        if state != before {
            self.swap(&state).await?;
        }
        let version = match &word {
            SourceSays::Target(target) => Some(&target.version),
            _ => None,
        };
        let beside = beside(&self.shared, &self.key, version, now).await;
        let deadline = self.agent.patience.progress_deadline;
        let (mut other_rollout, mut complaint) = (false, None);
        if let Some(workload) = workload.filter(|_| state.attempt.is_none()) {
            other_rollout = self.memory.other_rollout(workload, self.agent.kind, pods, deadline, now);
            complaint = self.memory.complaint(pods, &self.agent.patience, now);
        }
        let facts = AgentFacts {
            now,
            agent: &self.agent,
            is_leader: true,
            workload,
            pods,
            owner,
            state: &state,
            word: &word,
            beside: &beside,
            max_in_flight: self.shared.max_in_flight,
            other_rollout,
            complaint,
            tag_moved: self.tag_moved,
        };
        let plan = facts.plan();
        self.count(workload, pods, &present, &plan);
        let is_changing = match (&plan.step, workload) {
            (NextStep::GoOn, Some(workload)) => self.go_on(&mut state, workload, pods, &word, now).await?,
            (NextStep::Begin(begin), Some(workload)) => self.begin(&mut state, &plan, begin, workload, now).await?,
            _ => {
                self.rests = true;
                self.settle(&mut state, &plan, workload, now).await?;
                false
            }
        };
        self.report(&mut state, workload, pods, &present, now).await?;
        // What was asked will be answered soon.
        Ok(is_changing || self.asking.is_some() || self.reporting.is_some() || state.wish.is_some())
    }

    async fn note_hands(
        &mut self,
        state: &mut KeptState,
        workload: Option<&Workload>,
        present: &str,
        owner: Option<&FieldOwner>,
        now: Timestamp,
    ) {
        let deed = account(state, &self.agent, present, owner, now);
        let remedy = owner.and_then(|owner| owner.remedy(self.agent.kind));
        let remedy = remedy.map(|remedy| format!("; {remedy}")).unwrap_or_default();
        let (code, event, what) = match deed {
            Deed::None => return,
            Deed::Obeyed(what) => ("set_back_by_hand", "Refused", what),
            Deed::SetBack(what) => ("set_back", "Contested", what + &remedy),
            Deed::Contested(what) => ("contested", "Contested", format!("{what}: nothing more is written{remedy}")),
        };
        log("warn", &self.key, code, &what);
        if let Some(workload) = workload {
            self.events.say(self.agent.kind, workload, event, &what, true).await;
        }
    }

    fn count(&self, workload: Option<&Workload>, pods: &[Pod], present: &str, plan: &AgentPlan) {
        let mut shared = numbers(&self.shared.numbers);
        let numbers = shared.agent(&self.key);
        let version = image::version(present, self.agent.tag.as_deref());
        numbers.version = version.map(|version| version.to_string()).unwrap_or_default();
        numbers.group = self.agent.group.clone().unwrap_or_default();
        numbers.pods = (
            pods.iter().filter(|pod| pod.is_ready).count(),
            workload.map_or(0, |workload| workload.replicas(self.agent.kind)),
        );
        numbers.code = plan.code.to_owned();
        if let Some(SourceSays::Target(target)) = self.heard.as_ref().map(|heard| &heard.word) {
            numbers.wanted = target.version.to_string();
        }
    }

    /// Asks the source when it is time, in a thread of its own; takes what it said.
    async fn ask_source(&mut self, state: &mut KeptState, present: &str, now: Timestamp) {
        if let Some(asking) = self.asking.take_if(|asking| asking.is_finished())
            && let Ok(heard) = asking.await
        {
            self.hear(state, heard);
        }
        if let Some(moved) = self.moved.take_if(|moved| moved.is_finished()) {
            self.tag_moved = moved.await.unwrap_or_default();
        }
        let is_now = state.wish(now).is_some() && self.asked_at.is_some_and(|at| at.elapsed() > LOOK);
        let is_due = self.asked_at.is_none_or(|at| at.elapsed() >= ASK) || is_now;
        if self.asking.is_some() || !is_due {
            return;
        }
        let exported = crate::schedule::exported(&self.shared.api, &self.agent, &mut state.schedule_lost, now).await;
        if self.seed.is_none() {
            self.seed = self.read_seed().await;
        }
        let fleet = state.fleet.clone().unwrap_or_default();
        let signed = self.seed.clone().filter(|_| fleet.at.is_some());
        let asking = SourceQuestion {
            signed: signed.map(|seed| (seed, fleet.epoch, next(fleet.sequence, now))),
            is_look: false,
            named: self.heard.as_ref().and_then(|heard| heard.named.clone()),
            ..SourceQuestion::new(&self.agent, state, present, exported)
        };
        let shared = self.shared.clone();
        self.asked_at = Some(Instant::now());
        self.asking = Some(tokio::task::spawn_blocking(move || ask(&shared.client, &asking, Timestamp::now())));
        self.look_at_tag(present);
    }

    fn hear(&mut self, state: &mut KeptState, heard: SourceAnswer) {
        if let (Some(origin), Some(Rollout { report: Some(_), .. })) = (&heard.origin, &heard.fleet) {
            let fleet = state.fleet.get_or_insert_default();
            if fleet.origin != *origin {
                *fleet = FleetTalk { origin: origin.clone(), ..FleetTalk::default() };
            }
        }
        self.heard = Some(heard);
    }

    /// Whether the tag of an image that has a digest names other bytes now.
    fn look_at_tag(&mut self, present: &str) {
        let Some(image) = present.parse::<registry::ImageReference>().ok() else { return };
        let (Some(digest), Some(tag)) = (image.digest(), image.tag()) else { return };
        let Ok(tagged) = image.with_tag(tag) else { return };
        let shared = self.shared.clone();
        let look = move || shared.registry.announced(&tagged).ok().flatten().is_some_and(|now| now != digest);
        self.moved = Some(tokio::task::spawn_blocking(look));
    }

    async fn read_seed(&self) -> Option<String> {
        match seed(&self.shared.api, &self.shared.name, &self.key).await {
            Ok(seed) => Some(seed),
            Err(fault) => {
                log("warn", &self.key, "key", fault.what());
                None
            }
        }
    }

    /// Nothing is to be done: says why.
    async fn settle(
        &mut self,
        state: &mut KeptState,
        plan: &AgentPlan,
        workload: Option<&Workload>,
        now: Timestamp,
    ) -> Result<(), LookEnd> {
        if plan.code == "up_to_date"
            && state.wish.as_ref().is_some_and(|wish| wish.what == crate::state::WishKind::Update)
        {
            state.wish = None;
        }
        self.told(state, plan.code, &plan.why, plan.until, plan.who, workload, now).await
    }

    #[expect(clippy::too_many_arguments, reason = "a plan's parts, and whom they are of")]
    async fn told(
        &mut self,
        state: &mut KeptState,
        code: &str,
        why: &str,
        until: Option<Timestamp>,
        who: &str,
        workload: Option<&Workload>,
        now: Timestamp,
    ) -> Result<(), LookEnd> {
        let before = state.told.clone();
        let told = AgentReason { code: code.to_owned(), why: why.to_owned(), since: now, until, who: who.to_owned() };
        let is_other = before.as_ref().is_none_or(|before| before.code != code || before.until != until);
        let is_reworded = before.as_ref().is_some_and(|before| before.why != why);
        let is_old = self.said.1.is_none_or(|at| now.duration_since(at) > TELL_AGAIN);
        if state.wish.is_some() && state.wish(now).is_none() {
            state.wish = None;
        }
        let is_news = is_other || (is_reworded && is_old);
        if is_news && state.tell(told) {
            self.swap(state).await?;
            self.say(code, why, matches!(code, "both_unhealthy" | "contested" | "signature" | "source_unreachable"));
            let is_waiting = matches!(code, "not_let_go" | "outside_window" | "in_flight" | "failed_beside" | "jitter");
            if let Some(workload) = workload.filter(|_| is_waiting) {
                self.events.say(self.agent.kind, workload, "Waiting", why, false).await;
            }
        }
        Ok(())
    }

    fn outcome(&self, name: &'static str) {
        *numbers(&self.shared.numbers).agent(&self.key).outcomes.entry(name).or_default() += 1;
    }
}

/// How long an answer of a registry is taken as it is.
fn rest(result: &Result<ProvenImage, ImageRefusal>) -> SignedDuration {
    match result {
        Err(refused) if refused.code == "registry_unreachable" => REGISTRY_REST,
        _ => ASK_AGAIN,
    }
}

/// The keys that sign an agent's images.
///
/// Errors: a file that is no key.
pub fn cosign_keys(agent: &KubeAgent) -> error::Result<Vec<CosignKey>> {
    let read = |file: &PathBuf| {
        let wrong = |error: registry::RegistryError| error::Error::new(error::Code::ConfigInvalid, error.to_string());
        CosignKey::from_pem(&file.display().to_string(), &crate::config::pem(file)?).map_err(wrong)
    };
    agent.verify.keys.iter().map(read).collect()
}

/// What the agents of the file but `own` are about; `version`: the one that is wanted.
pub async fn beside(shared: &KeeperContext, own: &str, version: Option<&Version>, now: Timestamp) -> Beside {
    let store = shared.store.lock().await;
    beside_in(&store, &shared.keys, own, version, Some(now))
}

fn beside_in(
    store: &StateMap,
    keys: &[String],
    own: &str,
    version: Option<&Version>,
    now: Option<Timestamp>,
) -> Beside {
    let mut beside = Beside::default();
    for (key, other) in store.others(keys).filter(|(key, _)| *key != own) {
        let waits = other.told.as_ref().is_some_and(|told| NOT_GOING_ON.contains(&told.code.as_str()));
        if other.attempt.is_some() && !waits {
            beside.changing.push(key.to_owned());
        }
        let failed = other.failed.filter(|failed| Some(&failed.version) == version);
        let is_fresh = |at| now.is_some_and(|now| now.duration_since(at) < BESIDE_REST);
        if let Some(failed) = failed.filter(|failed| is_fresh(failed.at)) {
            beside.failed = Some((key.to_owned(), failed.at));
        }
    }
    beside
}
