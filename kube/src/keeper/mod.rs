//! One agent: looks, plans, and does the one thing that is next (KUBE §3 to §6).

mod change;
mod telling;

use std::path::PathBuf;
use std::sync::Arc;

use http_client::Client;
use jiff::{SignedDuration, Timestamp};
use protocol::Version;
use protocol::report::{Change, Outcome};
use registry::{CosignKey, Registry};
use serde_json::json;
use tokio::sync::Mutex;
use tokio::task::{JoinError, JoinHandle};
use tokio::time::{Duration, Instant};

use crate::account::account;
use crate::api::{Api, ApiFault, KubeResult};
use crate::ask::{SourceAnswer, SourceQuestion, ask};
use crate::config::{KubeAgent, KubeConfig, WriteMode};
use crate::hands::{FieldOwner, Hand};
use crate::image;
use crate::plan::{
    AgentLook, AgentPlan, BESIDE_REST, Beginning, Beside, NextStep, SourceSays, UNHEALTHY, WantedVersion,
};
use crate::prepare::{ImageRefusal, ProvenImage, prepare};
use crate::report::{change, deliver, is_due, next};
use crate::schedule::exported;
use crate::state::{ChangePhase, FailedVersion, FaultReason, FleetTalk, ImageChange, KeptState};
use crate::store::{StateMap, seed};
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
    /// What is configured.
    pub config: KubeConfig,
    /// This process.
    pub identity: String,
    /// What is told.
    pub numbers: SharedNumbers,
}

/// Keeps one agent at the version that its source wants.
pub struct Keeper {
    shared: Arc<KeeperContext>,
    agent: Arc<KubeAgent>,
    cosign: Vec<CosignKey>,
    key: String,
    events: WorkloadEvents,
    mine: KeeperMemory,
}

/// What this process alone remembers of an agent: another one begins anew.
#[derive(Default)]
struct KeeperMemory {
    pods: Memory,
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
    may_not_delete: bool,
    /// At the last look nothing was to be done.
    rests: bool,
}

/// The workload and its pods, as they were seen.
struct SeenWorkload {
    workload: Option<Workload>,
    pods: Vec<Pod>,
    listed_at: Instant,
}

/// What a part of a look gives.
type Result<T, E = LookEnd> = std::result::Result<T, E>;

/// Why a look ended early.
enum LookEnd {
    /// Somebody else swapped the state: once more.
    Again,
    /// API server or state cannot be used: the code, and why.
    Cannot(&'static str, String),
}

impl From<ApiFault> for LookEnd {
    fn from(fault: ApiFault) -> Self {
        match fault {
            ApiFault::Conflict(_) => Self::Again,
            ApiFault::Denied(what) => Self::Cannot("api_denied", what),
            fault => Self::Cannot("api_unavailable", fault.to_string()),
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
        Ok(Self { shared, agent: Arc::new(agent), cosign, key, events, mine: KeeperMemory::default() })
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
            self.mine.pods.forget();
            self.mine.pods.rest(Timestamp::now());
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
                self.mine.looked_at = Some((Instant::now(), Timestamp::now()));
                if is_changing { LOOK_CHANGING } else { LOOK }
            }
            Err(LookEnd::Again) => LOOK_CHANGING,
            // Nothing can be done, which makes the process not ready.
            Err(LookEnd::Cannot(code, what)) => {
                numbers(&self.shared.numbers).agent(&self.key).fault = Some(format!("{}: {code}: {what}", self.key));
                self.say(code, &what, true);
                if code == "state_invalid" { LOOK } else { LOOK_CHANGING }
            }
        }
    }

    /// Nobody looked for long, or the clock was set.
    fn was_away(&self) -> bool {
        self.mine.looked_at.is_none_or(|(at, time)| {
            let passed = SignedDuration::try_from(at.elapsed()).unwrap_or_default();
            at.elapsed() > GAP || (Timestamp::now().duration_since(time) - passed).abs() > JUMP
        })
    }

    /// A line in the log, if it is news.
    fn say(&mut self, code: &str, what: &str, is_warning: bool) {
        numbers(&self.shared.numbers).agent(&self.key).code = code.to_owned();
        let is_old = self.mine.said.1.is_none_or(|at| Timestamp::now().duration_since(at) > TELL_AGAIN);
        if self.mine.said.0 != code || (is_warning && is_old) {
            log(if is_warning { "warn" } else { "info" }, &self.key, code, what);
            self.mine.said = (code.to_owned(), Some(Timestamp::now()));
        }
    }

    async fn look_once(&mut self) -> Result<bool> {
        let mut state = self.state().await?;
        if state.update_id.is_empty() {
            state.update_id = uuid::Uuid::new_v4().to_string();
            self.swap(&state).await?;
        }
        let seen = self.see(&state).await?;
        let result = self.act(state, &seen).await;
        self.mine.seen = Some(seen);
        result
    }

    async fn state(&self) -> Result<KeptState> {
        let mut store = self.shared.store.lock().await;
        store.refresh().await?;
        store.state(&self.key).map_err(|why| LookEnd::Cannot("state_invalid", why))
    }

    async fn swap(&self, state: &KeptState) -> KubeResult<()> {
        self.shared.store.lock().await.swap(&self.key, state).await
    }

    /// Reads the workload, and its pods where they may have changed.
    async fn see(&mut self, state: &KeptState) -> KubeResult<SeenWorkload> {
        let workload = self.shared.api.workload(&self.agent).await?;
        let version = |of: &Option<Workload>| of.as_ref().map(|workload| workload.metadata.resource_version.clone());
        let known = self.mine.seen.take().filter(|seen| {
            let is_same = version(&seen.workload) == version(&workload);
            state.attempt.is_none() && seen.listed_at.elapsed() < LIST && is_same
        });
        if let Some(known) = known {
            return Ok(SeenWorkload { workload, ..known });
        }
        let pods = self.shared.api.pods(workload.as_ref(), &self.agent).await?;
        Ok(SeenWorkload { workload, pods, listed_at: Instant::now() })
    }

    async fn act(&mut self, state: KeptState, seen: &SeenWorkload) -> Result<bool> {
        let (agent, before) = (self.agent.clone(), state.clone());
        let mut look = self.shared.look(&agent, state, (seen.workload.as_ref(), &seen.pods));
        self.note_hands(&mut look).await;
        self.ask_source(&mut look).await;
        look.hear(self.mine.heard.as_ref().map_or(SourceSays::Unasked, |heard| heard.word.clone()));
        look.tag_moved = self.mine.tag_moved;
        if look.state != before {
            self.swap(&look.state).await?;
        }
        self.shared.look_beside(&mut look, &mut self.mine.pods).await;
        let plan = look.plan();
        self.count(&look, &plan);
        let is_changing = match &plan.step {
            NextStep::GoOn => self.go_on(&mut look).await?,
            NextStep::Begin(begin) => self.begin(&mut look, &plan, begin).await?,
            NextStep::Nothing => {
                self.mine.rests = true;
                if plan.code == "up_to_date" && look.is_asked() {
                    look.state.wish = None;
                }
                self.told(&mut look, &plan).await?;
                false
            }
        };
        self.report(&mut look).await?;
        // What was asked will be answered soon.
        Ok(is_changing || self.mine.asking.is_some() || self.mine.reporting.is_some() || look.state.wish.is_some())
    }

    async fn note_hands(&mut self, look: &mut AgentLook<'_>) {
        let Some((code, what)) = account(look) else { return };
        log("warn", &self.key, code, &what);
        self.event(look, if code == "set_back_by_hand" { "Refused" } else { "Contested" }, &what, true).await;
    }

    fn count(&self, look: &AgentLook<'_>, plan: &AgentPlan) {
        let mut shared = numbers(&self.shared.numbers);
        let numbers = shared.agent(&self.key);
        numbers.version = look.own().map(|version| version.to_string()).unwrap_or_default();
        numbers.group = look.agent.group.clone().unwrap_or_default();
        let wanted = look.workload.map_or(0, Workload::replicas);
        numbers.pods = (look.pods.iter().filter(|pod| pod.is_ready).count(), wanted);
        numbers.code = plan.code.to_owned();
        if let Some(target) = look.word.target() {
            numbers.wanted = target.said.version.to_string();
        }
    }

    /// Asks the source when it is time, in a thread of its own; takes what it said.
    async fn ask_source(&mut self, look: &mut AgentLook<'_>) {
        if let Some(heard) = ended(&mut self.mine.asking).await {
            self.hear(&mut look.state, heard);
        }
        if let Some(moved) = ended(&mut self.mine.moved).await {
            self.mine.tag_moved = moved;
        }
        let is_now = look.state.wish(look.now).is_some() && self.mine.asked_at.is_some_and(|at| at.elapsed() > LOOK);
        let is_due = self.mine.asked_at.is_none_or(|at| at.elapsed() >= ASK) || is_now;
        if self.mine.asking.is_some() || !is_due {
            return;
        }
        let exported = exported(&self.shared.api, look).await;
        if self.mine.seed.is_none() {
            let seed = seed(&self.shared.api, &self.shared.name, &self.key).await;
            self.mine.seed = seed.map_err(|fault| log("warn", &self.key, "key", &fault.to_string())).ok();
        }
        let fleet = look.state.fleet.clone().unwrap_or_default();
        let signed = self.mine.seed.clone().filter(|_| fleet.at.is_some());
        let asking = SourceQuestion {
            signed: signed.map(|seed| (seed, fleet.epoch, next(fleet.sequence, look.now))),
            is_look: false,
            named: self.mine.heard.as_ref().and_then(|heard| heard.named.clone()),
            ..SourceQuestion::new(look, exported)
        };
        let shared = self.shared.clone();
        self.mine.asked_at = Some(Instant::now());
        self.mine.asking = Some(tokio::task::spawn_blocking(move || ask(&shared.client, &asking, Timestamp::now())));
        self.look_at_tag(look.present());
    }

    fn hear(&mut self, state: &mut KeptState, heard: SourceAnswer) {
        let server = heard.fleet.filter(|fleet| fleet.report.is_some()).and_then(|_| self.agent.source.origin());
        if let Some(origin) = server.filter(|origin| state.fleet.as_ref().is_none_or(|fleet| fleet.origin != *origin)) {
            state.fleet = Some(FleetTalk { origin, ..FleetTalk::default() });
        }
        self.mine.heard = Some(heard);
    }

    /// Whether the tag of an image that has a digest names other bytes now.
    fn look_at_tag(&mut self, present: &str) {
        let Some(image) = present.parse::<registry::ImageReference>().ok() else { return };
        let (Some(digest), Some(tag)) = (image.digest(), image.tag()) else { return };
        let Ok(tagged) = image.with_tag(tag) else { return };
        let shared = self.shared.clone();
        let look = move || shared.registry.announced(&tagged).ok().flatten().is_some_and(|now| now != digest);
        self.mine.moved = Some(tokio::task::spawn_blocking(look));
    }

    async fn told(&mut self, look: &mut AgentLook<'_>, plan: &AgentPlan) -> Result<()> {
        let AgentPlan { code, why, until, who, .. } = plan;
        let (state, now) = (&mut look.state, look.now);
        if state.wish(now).is_none() {
            state.wish = None;
        }
        let before = state.told.as_ref();
        let is_other = before.is_none_or(|before| before.code != *code || before.until != *until);
        let is_reworded = before.is_some_and(|before| before.why != *why);
        let is_old = self.mine.said.1.is_none_or(|at| now.duration_since(at) > TELL_AGAIN);
        let is_news = is_other || (is_reworded && is_old);
        if is_news && state.tell(code, why, *until, who, now) {
            self.swap(state).await?;
            self.say(code, why, matches!(*code, "both_unhealthy" | "contested" | "signature" | "source_unreachable"));
            if matches!(*code, "not_let_go" | "outside_window" | "in_flight" | "failed_beside" | "jitter") {
                self.event(look, "Waiting", why, false).await;
            }
        }
        Ok(())
    }

    /// An event on the workload, where there is one.
    async fn event(&mut self, look: &AgentLook<'_>, reason: &str, note: &str, is_warning: bool) {
        if let Some(workload) = look.workload {
            self.events.say(workload, reason, note, is_warning).await;
        }
    }

    fn outcome(&self, name: &'static str) {
        *numbers(&self.shared.numbers).agent(&self.key).outcomes.entry(name).or_default() += 1;
    }
}

/// What came of a task that is over.
async fn ended<T>(task: &mut Option<JoinHandle<T>>) -> Option<T> {
    task.take_if(|task| task.is_finished())?.await.ok()
}

/// How long it is left at what a registry refused.
fn rest(refused: &ImageRefusal) -> SignedDuration {
    if refused.code == "registry_unreachable" { REGISTRY_REST } else { ASK_AGAIN }
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

impl KeeperContext {
    /// A look at an agent, before its source and the others are heard. `seen`: its workload and pods.
    pub fn look<'a>(
        &self,
        agent: &'a KubeAgent,
        state: KeptState,
        seen: (Option<&'a Workload>, &'a [Pod]),
    ) -> AgentLook<'a> {
        let (workload, pods) = seen;
        let owner = workload.and_then(|it| FieldOwner::of_image(it, &agent.container, &self.api.manager));
        AgentLook {
            now: Timestamp::now(),
            agent,
            workload,
            pods,
            owner,
            state,
            word: SourceSays::Unasked,
            beside: Beside::default(),
            max_in_flight: self.config.max_in_flight,
            other_rollout: false,
            complaint: None,
            tag_moved: false,
        }
    }

    /// Adds what the other agents of the file are about, and what the pods say.
    pub async fn look_beside(&self, look: &mut AgentLook<'_>, memory: &mut Memory) {
        let wanted = look.word.target().map(|target| &target.said.version);
        look.beside = beside(&*self.store.lock().await, self, &look.agent.key(), wanted, look.now);
        if let Some(workload) = look.workload.filter(|_| look.state.attempt.is_none()) {
            let patience = &look.agent.patience;
            look.other_rollout = memory.other_rollout(workload, look.pods, patience.progress_deadline, look.now);
            look.complaint = memory.complaint(look.pods, patience, look.now);
        }
    }
}

/// What the agents of the file but `own` are about; `version`: the one that is wanted.
fn beside(store: &StateMap, shared: &KeeperContext, own: &str, version: Option<&Version>, now: Timestamp) -> Beside {
    let mut beside = Beside::default();
    for (key, other) in store.others(&shared.keys).filter(|(key, _)| *key != own) {
        let waits = other.told.as_ref().is_some_and(|told| NOT_GOING_ON.contains(&told.code.as_str()));
        if other.attempt.is_some() && !waits {
            beside.changing.push(key.to_owned());
        }
        let failed = other.failed.filter(|failed| Some(&failed.version) == version);
        if let Some(failed) = failed.filter(|failed| now.duration_since(failed.at) < BESIDE_REST) {
            beside.failed = Some((key.to_owned(), failed.at));
        }
    }
    beside
}
