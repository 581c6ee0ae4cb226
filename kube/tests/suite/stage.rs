//! A flow of the updater that meets one fault, and what must hold whatever the fault (KUBE §11).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use kube_bed::{ApiCall, ApiFault, KubeBed, PatchKind, PodLife, image_of};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use teleport_kube_update::state::KeptState;
use testing::cluster::{Cluster, Find, Misbehaviour};
use testing::loopback::Reply;

use crate::scene::{NAME, Scene};

/// Longest that a flow takes with its fault: a dead leader's Lease, a late call and a busy machine.
const LONGEST: Duration = Duration::from_secs(100);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(700);
/// A late call is done when the client has just given up, after ten seconds.
const LATE: Duration = Duration::from_secs(11);
/// A stray one is done when it has long been made again.
const STRAY: Duration = Duration::from_secs(18);
/// How late a registry answers that is slow.
const SLOW: Duration = Duration::from_secs(3);
/// Between two new processes that ask anew what did not answer, in place of minutes.
const ASK_ANEW: Duration = Duration::from_secs(3);

/// What the updater is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Flow {
    Update,
    Rollback,
    StuckForward,
    StuckBack,
    Contested,
    LeaderChange,
    Publish,
    PublishBack,
}

impl Flow {
    pub const ALL: [Self; 8] = [
        Self::Update,
        Self::Rollback,
        Self::StuckForward,
        Self::StuckBack,
        Self::Contested,
        Self::LeaderChange,
        Self::Publish,
        Self::PublishBack,
    ];

    fn agent(self) -> &'static str {
        if matches!(self, Self::Rollback | Self::PublishBack) { "deployment" } else { "agent" }
    }

    /// The new version does not come up.
    fn is_bad(self) -> bool {
        matches!(self, Self::Rollback | Self::StuckBack | Self::PublishBack)
    }

    fn is_publish(self) -> bool {
        matches!(self, Self::Publish | Self::PublishBack)
    }

    /// The version that it ends on.
    fn end(self) -> &'static str {
        if self.is_bad() || self == Self::Contested { "1.0.0" } else { "2.0.0" }
    }
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    Answers500,
    Cut,
    Late,
    Stray,
    Lost,
    KilledBefore,
    KilledAfter,
}

impl Fault {
    const ALL: [Self; 7] =
        [Self::Answers500, Self::Cut, Self::Late, Self::Stray, Self::Lost, Self::KilledBefore, Self::KilledAfter];

    /// Those that calls of a place can meet: what only reads and comes late has no effect, however late it is.
    pub fn of(place: &Place) -> impl Iterator<Item = Self> {
        let writes = matches!(place, Place::Api(kind) if !kind.starts_with("GET"));
        Self::ALL.into_iter().filter(move |fault| writes || *fault != Self::Stray)
    }

    fn is_late(self) -> bool {
        matches!(self, Self::Late | Self::Stray)
    }
}

/// Whom the call goes to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The API server: a kind of call, as [`kind_of`] names it.
    Api(String),
    /// The registry.
    Registry,
    /// A source over TLS on loopback: what its path ends in.
    Source(&'static str),
}

/// The n-th call of a kind in a flow, and its fault.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Point {
    pub flow: Flow,
    pub place: Place,
    /// From 1.
    pub number: usize,
    pub fault: Fault,
}

/// What came of a flow.
#[derive(Debug, Default)]
pub struct Found {
    /// How many calls of each kind the API server had.
    pub calls: BTreeMap<String, usize>,
    /// What the registry was asked.
    pub asked: usize,
    /// The fault was met.
    pub is_met: bool,
    pub violations: BTreeSet<String>,
}

/// It is ready, and does not end.
fn is_ready(pod: &Value) -> bool {
    let conditions = pod["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
    let is_up = conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True");
    is_up && pod["metadata"]["deletionTimestamp"].is_null()
}

/// `PATCH statefulsets`, `GET configmaps/agent-wanted`.
pub fn kind_of(call: &ApiCall) -> String {
    let path = call.path.split('?').next().unwrap();
    let rest =
        path.split_once("/namespaces/").and_then(|(_, rest)| rest.split_once('/')).map_or(path, |(_, rest)| rest);
    let what = if rest.starts_with("configmaps/") { rest } else { rest.split('/').next().unwrap() };
    format!("{} {what}", call.method)
}

/// The updaters that live, to be killed at any moment.
#[derive(Clone, Default)]
struct Killer {
    alive: Arc<Mutex<Vec<Pid>>>,
    has_killed: Arc<AtomicBool>,
}

impl Killer {
    fn kill(&self) {
        for pid in self.alive.lock().unwrap().drain(..) {
            let _ = kill_process(pid, Signal::KILL);
        }
        self.has_killed.store(true, Ordering::SeqCst);
    }

    fn kill_soon(&self) {
        let killer = self.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            killer.kill();
        });
    }
}

struct Stage {
    scene: Scene,
    flow: Flow,
    killer: Killer,
    cluster: Option<Cluster>,
    /// The newest updater.
    newest: usize,
    has_changed_hands: bool,
    has_restarted_at: Instant,
    ever_ready: BTreeSet<String>,
    was_refused: bool,
    violations: BTreeSet<String>,
}

/// Lives a flow; `None`: without a fault.
pub fn live(bed: &KubeBed, flow: Flow, point: Option<&Point>) -> Found {
    let asked = Arc::new(AtomicUsize::new(0));
    let mut stage = Stage::new(bed, flow, point, &asked);
    stage.meet(point);
    stage.launch();
    stage.watch_source(point);
    let has_ended = stage.until_end();
    if has_ended {
        stage.afterwards(point);
    }
    stage.account();
    let mut calls = BTreeMap::new();
    for call in stage.scene.proxy.calls() {
        *calls.entry(kind_of(&call)).or_default() += 1;
    }
    let asked = asked.load(Ordering::SeqCst);
    let is_met = point.is_some_and(|point| match &point.place {
        Place::Api(kind) => calls.get(kind).is_some_and(|count| *count >= point.number),
        Place::Registry => asked >= point.number,
        Place::Source(path) => stage.cluster.as_ref().is_some_and(|cluster| !cluster.requests_to(path).is_empty()),
    });
    Found { calls, asked, is_met, violations: std::mem::take(&mut stage.violations) }
}

/// Lives a flow without a fault, and makes each of its writes once more when all is over, as a call that comes very late. Gives
/// those that had an effect.
pub fn replay(bed: &KubeBed, flow: Flow) -> Vec<String> {
    let mut stage = Stage::new(bed, flow, None, &Arc::default());
    stage.launch();
    assert!(stage.until_end(), "{:?}", stage.violations);
    let is_write = |call: &ApiCall| {
        let kind = kind_of(call);
        call.answered == Some(200)
            && ["PATCH configmaps", "PATCH deployments", "PATCH statefulsets"].iter().any(|of| kind.starts_with(of))
    };
    let mut taken = Vec::new();
    for call in stage.scene.proxy.calls().into_iter().filter(is_write) {
        let body: Value = serde_json::from_str(&call.body).unwrap();
        let kind = if body.is_array() { PatchKind::Json } else { PatchKind::Merge };
        match stage.scene.space.client.patch(&call.path, kind, &body) {
            Ok(_) => taken.push(format!("{flow:?}: {}: {}", kind_of(&call), call.body)),
            Err(status) => assert!([409, 422].contains(&status.code), "{status:?}"),
        }
    }
    taken
}

impl Stage {
    fn new(bed: &KubeBed, flow: Flow, point: Option<&Point>, asked: &Arc<AtomicUsize>) -> Self {
        let killer = Killer::default();
        let fault = point.filter(|point| point.place == Place::Registry).map(|point| (point.number, point.fault));
        let (asked, own) = (Arc::clone(asked), killer.clone());
        let through = move |_: &_, reply: Reply| {
            let number = asked.fetch_add(1, Ordering::SeqCst) + 1;
            match fault.filter(|(which, _)| *which == number) {
                Some((_, fault)) => reply_with(reply, fault, &own),
                None => reply,
            }
        };
        let scene = Scene::through(bed, "fault", &[flow.agent()], through);
        let cluster = point.is_some_and(|point| matches!(point.place, Place::Source(_))).then(|| {
            let cluster = Cluster::start(&scene.folder.path().join("cluster"));
            cluster.set_directive(Find::version("2.0.0"));
            for (path, said) in [("/channel/version", "2.0.0"), ("/channel/critical", "no")] {
                cluster.set_page(path, &[(200, said)]);
            }
            if let Some((path, how)) = point.and_then(|point| source_fault(&point.place, point.fault)) {
                cluster.misbehave_times(path, how, 1);
            }
            cluster
        });
        let mut stage = Self {
            scene,
            flow,
            killer,
            cluster,
            newest: 0,
            has_changed_hands: false,
            has_restarted_at: Instant::now(),
            ever_ready: BTreeSet::new(),
            was_refused: false,
            violations: BTreeSet::new(),
        };
        stage.prepare(point);
        stage
    }

    fn prepare(&mut self, point: Option<&Point>) {
        let (agent, flow) = (self.flow.agent(), self.flow);
        let mut more = BTreeMap::from([("watch", json!("1s")), ("progress_deadline", json!("60s"))]);
        if flow.is_publish() {
            more.insert("write", json!("publish"));
            let meta = json!({"name": format!("{agent}-wanted"), "namespace": self.scene.space.name});
            let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta});
            self.scene.space.client.create(&map).unwrap();
        }
        if flow == Flow::StuckForward {
            // A window that is closed: only that the agent is unhealthy lets it go.
            let hour = (Timestamp::now() + SignedDuration::from_hours(6)).to_zoned(jiff::tz::TimeZone::UTC).hour();
            more.insert("window", json!(format!("*-*-* {hour:02}:00 UTC")));
        }
        if let (Some(cluster), Some(Point { place: Place::Source(path), .. })) = (&self.cluster, point) {
            let is_find = path.contains("find");
            let address = format!("https://{}", cluster.addr());
            more.insert("source", json!(if is_find { address } else { format!("channel+{address}/channel") }));
            self.scene.environment.push(("SSL_CERT_FILE", cluster.ca_file().display().to_string()));
        }
        self.scene.configure(more);
        self.scene.deploy(agent);
        self.scene.want("2.0.0", "");
        match flow {
            flow if flow.is_bad() => self.scene.live("2.0.0", PodLife::InvalidImageName),
            Flow::StuckForward => {
                self.scene.live("1.0.0", PodLife::Unready);
                kube_bed::wait_until(LONGEST, "the agent is unwell", || self.scene.space.ready_pods().is_empty());
            }
            Flow::Contested => self.remember_a_set_back(),
            _ => {}
        }
    }

    /// It had written 2.0.0, and a tool has set it back once before.
    fn remember_a_set_back(&self) {
        let state = KeptState {
            update_id: "00000000-0000-4000-8000-000000000001".to_owned(),
            image: self.scene.image("2.0.0"),
            is_written: true,
            set_back: vec![Timestamp::now() - SignedDuration::from_hours(1)],
            wanted: Some("2.0.0".parse().unwrap()),
            ..KeptState::default()
        };
        let path = self.scene.space.path("v1", &format!("configmaps/{NAME}"));
        let change = json!({"data": {"statefulset.agent": state.json()}});
        self.scene.space.client.patch(&path, PatchKind::Merge, &change).unwrap();
    }

    /// Orders the fault.
    fn meet(&self, point: Option<&Point>) {
        let Some(Point { place: Place::Api(kind), number, fault, .. }) = point else { return };
        let (before, after) = (self.killer.clone(), self.killer.clone());
        let fault = match fault {
            Fault::Answers500 => ApiFault::Answer(500),
            Fault::Cut => ApiFault::Cut,
            Fault::Late => ApiFault::Delay(LATE),
            Fault::Stray => ApiFault::Delay(STRAY),
            Fault::Lost => ApiFault::Lose,
            Fault::KilledBefore => ApiFault::Before(Arc::new(move || before.kill())),
            Fault::KilledAfter => ApiFault::After(Arc::new(move || after.kill())),
        };
        let kind = kind.clone();
        self.scene.proxy.on(move |call| kind_of(call) == kind, *number..*number + 1, fault);
    }

    /// The source's faults are its own.
    fn watch_source(&self, point: Option<&Point>) {
        let (Some(cluster), Some(Point { place: Place::Source(path), fault, .. })) = (&self.cluster, point) else {
            return;
        };
        if matches!(fault, Fault::KilledBefore | Fault::KilledAfter) {
            kube_bed::wait_until(LONGEST, "the source is asked", || !cluster.requests_to(path).is_empty());
            std::thread::sleep(if *fault == Fault::KilledAfter { LOOK } else { Duration::ZERO });
            self.killer.kill();
            cluster.behave();
        }
    }

    fn launch(&mut self) {
        self.newest = self.scene.start();
        self.killer.alive.lock().unwrap().push(self.scene.process(self.newest));
    }

    /// Ends the newest one as kubelet does, and starts another.
    fn relaunch(&mut self) {
        self.end(self.newest);
        self.launch();
        self.has_restarted_at = Instant::now();
    }

    fn end(&mut self, number: usize) {
        let process = self.scene.process(number);
        if self.killer.alive.lock().unwrap().contains(&process) {
            self.scene.stop(number, false);
            self.killer.alive.lock().unwrap().retain(|known| *known != process);
        }
    }

    fn until_end(&mut self) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < LONGEST {
            if self.look() {
                return true;
            }
            std::thread::sleep(LOOK);
        }
        let state = self.scene.state(self.flow.agent());
        let [attempt, told, last] = ["attempt", "told", "last"].map(|key| &state[key]);
        let end = if attempt.is_null() { "it does not end as it should" } else { "an attempt stays open" };
        let present = self.scene.present(self.flow.agent());
        self.violations.insert(format!("{end}: {present}, told {told}, last {last}, attempt {attempt}"));
        false
    }

    /// Takes note of all, does what others do; whether the flow is over.
    fn look(&mut self) -> bool {
        if self.killer.has_killed.swap(false, Ordering::SeqCst) {
            self.rise();
        }
        let agent = self.flow.agent();
        let place = self.scene.space.path("v1", &format!("configmaps/{NAME}"));
        let map = self.scene.space.client.get(&place).unwrap();
        let key = if agent == "agent" { "statefulset.agent" } else { "deployment.deployment" };
        let state = match KeptState::parse(map["data"][key].as_str()) {
            Ok(state) => state,
            Err(why) => {
                self.violations.insert(format!("the state cannot be read: {why}"));
                return false;
            }
        };
        if self.was_refused && state.refused.is_empty() {
            self.violations.insert("a refusal is forgotten".to_owned());
        }
        self.was_refused |= !state.refused.is_empty();
        let pods = self.scene.space.pods();
        let ready = pods.iter().filter(|pod| is_ready(pod));
        self.ever_ready.extend(ready.map(|pod| pod["metadata"]["uid"].as_str().unwrap().to_owned()));
        let present = self.scene.present(agent);
        let old = self.scene.image("1.0.0");
        let is_new =
            present == self.scene.image("2.0.0") || present.starts_with(&(self.scene.image("2.0.0") + "@sha256:"));
        if present != old && !is_new {
            self.violations.insert(format!("a third image: {present}"));
        }
        self.act(&state, &present);
        self.is_over(&state, &present, &pods)
    }

    /// After a kill: as kubelet starts it again; where it is not about leaders, the dead one's Lease is over.
    fn rise(&mut self) {
        if !self.killer.alive.lock().unwrap().is_empty() {
            return;
        }
        if self.flow != Flow::LeaderChange {
            let lease = self.scene.space.path("coordination.k8s.io/v1", &format!("leases/{NAME}"));
            let free = json!({"spec": {"holderIdentity": ""}});
            self.scene.space.client.patch(&lease, PatchKind::Merge, &free).unwrap();
        }
        self.launch();
    }

    /// What people and tools do in this flow.
    fn act(&mut self, state: &KeptState, present: &str) {
        let code = state.told.as_ref().map_or("", |told| told.code.as_str());
        let passing =
            ["source_unreachable", "registry_unreachable", "registry_answer", "registry_denied", "image_absent"];
        if passing.contains(&code) && state.attempt.is_none() && self.has_restarted_at.elapsed() > ASK_ANEW {
            self.relaunch();
        }
        match self.flow {
            Flow::Publish | Flow::PublishBack => self.deliver(present),
            Flow::LeaderChange if state.attempt.is_some() && !self.has_changed_hands => {
                self.has_changed_hands = true;
                let first = self.newest;
                self.launch();
                self.end(first);
            }
            Flow::Contested
                if !self.has_changed_hands
                    && state.attempt.is_none()
                    && state.set_back.len() == 2
                    && state.is_written
                    && state.image == present =>
            {
                self.has_changed_hands = true;
                self.scene.set_image("agent", "1.0.0", "helm/3", "helm");
                self.relaunch();
            }
            _ => {}
        }
    }

    /// Brings what is published to the workload, as Flux does.
    fn deliver(&self, present: &str) {
        let agent = self.flow.agent();
        let map = self.scene.space.path("v1", &format!("configmaps/{agent}-wanted"));
        let map = self.scene.space.client.get(&map).unwrap();
        let Some(wanted) = map["data"]["image"].as_str().filter(|wanted| *wanted != present) else { return };
        let mut workload = self.scene.workload(agent);
        if image_of(&workload, "teleport") == Some(wanted) {
            return;
        }
        workload["spec"]["template"]["spec"]["containers"][0]["image"] = wanted.into();
        let client = self.scene.space.client.named("kustomize-controller/v1", Some("kustomize-controller"));
        // Its controller may have written meanwhile: at the next look.
        let _ = client.replace(&self.scene.place(agent), &workload);
    }

    fn is_over(&self, state: &KeptState, present: &str, pods: &[Value]) -> bool {
        let outcome = state.last.as_ref().map_or("", |last| last.outcome.name());
        let is_told = match self.flow {
            Flow::Contested => state.contested.is_some() && self.has_changed_hands,
            flow if flow.is_bad() => outcome == "rolled_back",
            _ => outcome == "updated",
        };
        let image = self.scene.image(self.flow.end());
        let is_it =
            |pod: &Value| is_ready(pod) && pod["spec"]["containers"][0]["image"].as_str().unwrap().starts_with(&image);
        let has_pods = pods.len() == 2 && pods.iter().all(is_it);
        state.attempt.is_none() && is_told && present.starts_with(&image) && has_pods
    }

    /// What comes late comes; what was refused is so for a new process too.
    fn afterwards(&mut self, point: Option<&Point>) {
        let is_late = point.is_some_and(|point| point.fault.is_late() && matches!(point.place, Place::Api(_)));
        let begun = Instant::now();
        let is_done = |stage: &Self| stage.scene.proxy.calls().iter().all(|call| call.answered.is_some());
        while is_late && !is_done(self) && begun.elapsed() < STRAY + ASK_ANEW {
            self.look();
            std::thread::sleep(LOOK);
        }
        if is_late || self.flow.is_bad() {
            let since = Timestamp::now();
            self.relaunch();
            let begun = Instant::now();
            let mut is_told = false;
            // A look of the new process, and what it does then.
            while begun.elapsed() < LONGEST && !is_told {
                std::thread::sleep(LOOK);
                self.look();
                let state = self.scene.state(self.flow.agent());
                let fields = &self.scene.lease()["spec"];
                let is_new = fields["acquireTime"]
                    .as_str()
                    .and_then(|at| at.parse().ok())
                    .is_some_and(|at: Timestamp| at > since);
                is_told = is_new && (!self.flow.is_bad() || state["told"]["code"] == "refused");
            }
            if !is_told {
                self.violations.insert(format!(
                    "a new process does not lead, or does not refuse what was refused: {}",
                    self.scene.state(self.flow.agent())["told"]
                ));
            }
            std::thread::sleep(ASK_ANEW);
        }
        if !self.look() {
            let state = self.scene.state(self.flow.agent());
            self.violations.insert(format!(
                "it does not stay as it ended: {}, told {}",
                self.scene.present(self.flow.agent()),
                state["told"]
            ));
        }
    }

    /// What the API server did of what it was told.
    fn account(&mut self) {
        let calls = self.scene.proxy.calls();
        let is_done = |call: &&ApiCall| call.answered.is_some_and(|status| (200..300).contains(&status));
        let mut written = BTreeMap::<String, usize>::new();
        for call in calls.iter().filter(is_done) {
            let kind = kind_of(call);
            if call.method == "PATCH" && call.path.contains("/apis/apps/v1/") {
                let patch: Value = serde_json::from_str(&call.body).unwrap();
                let image =
                    patch.as_array().unwrap().iter().find(|step| step["op"] == "replace").unwrap()["value"].clone();
                *written.entry(image.as_str().unwrap().to_owned()).or_default() += 1;
            }
            if kind == "DELETE pods" {
                let options: Value = serde_json::from_str(&call.body).unwrap();
                let conditions = &options["preconditions"];
                if conditions["resourceVersion"].as_str().is_none_or(str::is_empty) {
                    self.violations.insert("a pod is deleted without its resourceVersion".to_owned());
                }
                if self.ever_ready.contains(conditions["uid"].as_str().unwrap_or_default()) {
                    self.violations.insert(format!("a pod that was ready is deleted: {}", call.path));
                }
                if !matches!(self.flow, Flow::StuckForward | Flow::StuckBack) {
                    self.violations.insert(format!("a pod is deleted: {}", call.path));
                }
            }
        }
        for (image, count) in written.iter().filter(|(_, count)| **count > 1) {
            self.violations.insert(format!("{image} is written {count} times"));
        }
        if self.flow.is_publish() && !written.is_empty() {
            self.violations.insert("the workload is written though it is published".to_owned());
        }
    }
}

fn reply_with(reply: Reply, fault: Fault, killer: &Killer) -> Reply {
    match fault {
        Fault::Answers500 => reply.with_status(500),
        Fault::Cut => reply.cut_after(0),
        Fault::Late | Fault::Stray => {
            std::thread::sleep(SLOW);
            reply
        }
        Fault::Lost => reply.cut_after(7),
        Fault::KilledBefore => {
            killer.kill();
            reply
        }
        Fault::KilledAfter => {
            killer.kill_soon();
            reply
        }
    }
}

/// How the source goes wrong.
fn source_fault(place: &Place, fault: Fault) -> Option<(&'static str, Misbehaviour)> {
    let Place::Source(path) = place else { return None };
    let how = match fault {
        Fault::Answers500 => Misbehaviour::Status(500, None),
        Fault::Cut => Misbehaviour::CloseBeforeResponse,
        Fault::Late | Fault::Stray => Misbehaviour::Slow { bytes_per_sec: 40 },
        Fault::Lost => Misbehaviour::CutEvery { bytes: 3 },
        Fault::KilledBefore => Misbehaviour::Stall { after_bytes: 0 },
        Fault::KilledAfter => return None,
    };
    Some((path, how))
}
