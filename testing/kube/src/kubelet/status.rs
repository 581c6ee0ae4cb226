//! The status of a pod, as a kubelet writes it.

use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::life::{PodLife, PodLives};

/// Until a container runs. With a real kubelet it is seconds.
const CREATING: Duration = Duration::from_millis(40);
/// How long one that crashes runs.
const RUN: Duration = Duration::from_millis(100);
/// How long it waits until the next run. A real kubelet waits 10 seconds, then longer.
const BACK_OFF: Duration = Duration::from_millis(300);
/// How long each of the two words for a missing image stands.
const PULL: Duration = Duration::from_millis(500);

/// What happened to a pod, without which its status cannot be told.
pub(super) struct Course {
    containers: Vec<Container>,
    /// When it became ready, or no longer, or the first of it.
    turned: String,
    is_ready: bool,
    bound: Timestamp,
}

/// Since when a container has its life, and its restarts before.
struct Container {
    name: String,
    image: String,
    life: Option<PodLife>,
    since: Instant,
    at: Timestamp,
    before: usize,
}

/// A container at a moment.
struct Moment {
    /// The reason why it waits; `None`: it runs.
    waits: Option<&'static str>,
    is_ready: bool,
    restarts: usize,
    /// When it began to run, after its life began.
    started: Duration,
    /// When the last run that ended began and ended.
    last: (Duration, Duration),
}

impl Course {
    pub(super) fn new(pod: &Value) -> Self {
        let (since, at) = (Instant::now(), Timestamp::now());
        let word = |container: &Value, key: &str| container[key].as_str().unwrap_or_default().to_owned();
        let container = |container: &Value| Container {
            name: word(container, "name"),
            image: word(container, "image"),
            life: None,
            since,
            at,
            before: 0,
        };
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten().map(container).collect();
        Self { containers, turned: text(at), is_ready: false, bound: at }
    }

    /// It is bound now.
    pub(super) fn begin(&mut self) {
        self.bound = Timestamp::now();
        for container in &mut self.containers {
            (container.since, container.at) = (Instant::now(), self.bound);
        }
    }

    /// Its containers end, and begin again.
    pub(super) fn restart(&mut self) {
        for container in &mut self.containers {
            container.before += container.now().restarts + 1;
            (container.since, container.at) = (Instant::now(), Timestamp::now());
        }
    }

    /// Its status now.
    pub(super) fn status(&mut self, pod: &Value, lives: &PodLives) -> Value {
        if pod["spec"]["nodeName"].is_null() {
            return self.unscheduled();
        }
        let mut statuses = Vec::new();
        let (mut all_ready, mut all_run) = (true, true);
        for container in &mut self.containers {
            // An image that an updater changed in place, or a life that a test changed.
            container.live(lives);
            let now = container.now();
            all_ready &= now.is_ready;
            all_run &= now.waits.is_none() || container.before + now.restarts > 0;
            statuses.push(container.status(&now, lives));
        }
        if all_ready != self.is_ready {
            (self.is_ready, self.turned) = (all_ready, text(Timestamp::now()));
        }
        let begun = text(self.bound);
        let condition = |name: &str, is_so: bool, since: &str| {
            let mut condition = json!({"type": name, "status": if is_so { "True" } else { "False" }, "lastProbeTime": null, "lastTransitionTime": since});
            if !is_so {
                let names: Vec<&str> = statuses
                    .iter()
                    .filter(|one| one["ready"] == false)
                    .filter_map(|one| one["name"].as_str())
                    .collect();
                condition["reason"] = "ContainersNotReady".into();
                condition["message"] = format!("containers with unready status: [{}]", names.join(" ")).into();
            }
            condition
        };
        json!({
            "phase": if all_run { "Running" } else { "Pending" },
            "conditions": [
                condition("Initialized", true, &begun),
                condition("Ready", all_ready, &self.turned),
                condition("ContainersReady", all_ready, &self.turned),
                condition("PodScheduled", true, &begun),
            ],
            "hostIP": "10.0.1.1", "podIP": "10.0.2.1", "podIPs": [{"ip": "10.0.2.1"}],
            "startTime": begun,
            "containerStatuses": statuses,
        })
    }

    fn unscheduled(&self) -> Value {
        json!({"phase": "Pending", "conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/2 nodes are available: 2 Insufficient cpu.",
            "lastProbeTime": null, "lastTransitionTime": self.turned,
        }]})
    }
}

impl Container {
    /// Takes the life that the table has now; a new one begins now.
    fn live(&mut self, lives: &PodLives) {
        let life = lives.of(&self.image);
        match self.life {
            Some(known) if known == life => {}
            Some(_) => {
                self.before += self.now().restarts;
                (self.life, self.since, self.at) = (Some(life), Instant::now(), Timestamp::now());
            }
            None => self.life = Some(life),
        }
    }

    fn now(&self) -> Moment {
        moment(self.life.unwrap_or_default(), self.since.elapsed(), self.before > 0)
    }

    fn status(&self, now: &Moment, lives: &PodLives) -> Value {
        let (restarts, runs) = (self.before + now.restarts, now.waits.is_none());
        let id = |number: usize| format!("containerd://{}-{number}", self.name);
        let moment = |after: Duration| text(self.at + SignedDuration::try_from(after).unwrap_or_default());
        let mut status = json!({
            "name": self.name, "image": self.image, "imageID": "", "ready": now.is_ready, "started": runs, "restartCount": restarts,
            "lastState": {},
        });
        if runs {
            status["state"] = json!({"running": {"startedAt": moment(now.started)}});
        } else {
            status["state"] = json!({"waiting": {"reason": now.waits, "message": message(now.waits.unwrap_or_default(), &self.image)}});
        }
        if runs || restarts > 0 {
            status["imageID"] = lives.id_of(&self.image).into();
            status["containerID"] = id(restarts).into();
        }
        if restarts > 0 {
            let ended = id(restarts.saturating_sub(usize::from(runs)));
            status["lastState"] = json!({"terminated": {
                "exitCode": 1, "reason": "Error", "startedAt": moment(now.last.0), "finishedAt": moment(now.last.1), "containerID": ended,
            }});
        }
        status
    }
}

fn message(reason: &str, image: &str) -> String {
    match reason {
        "CrashLoopBackOff" => "back-off 10s restarting failed container".to_owned(),
        "ErrImagePull" => format!("failed to pull and unpack image \"{image}\": not found"),
        "ImagePullBackOff" => format!("Back-off pulling image \"{image}\""),
        "InvalidImageName" => format!("Failed to apply default image tag \"{image}\": couldn't parse image reference"),
        _ => String::new(),
    }
}

/// A container of this life so long after it began.
fn moment(life: PodLife, age: Duration, was_there: bool) -> Moment {
    let pulls =
        if (age.as_millis() / PULL.as_millis()).is_multiple_of(2) { "ErrImagePull" } else { "ImagePullBackOff" };
    let (waits, is_ready) = match life {
        PodLife::InvalidImageName => (Some("InvalidImageName"), false),
        PodLife::Missing => (Some(pulls), false),
        PodLife::Creating | PodLife::Unschedulable => (Some("ContainerCreating"), false),
        _ if age < CREATING && !was_there => (Some("ContainerCreating"), false),
        PodLife::Ready => (None, true),
        PodLife::Unready => (None, false),
        PodLife::Late(after) => (None, age >= after),
        PodLife::Crashing => return crash(RUN, age, false),
        PodLife::CrashAfterReady(after) => return crash(after, age, true),
    };
    Moment { waits, is_ready, restarts: 0, started: Duration::ZERO, last: Default::default() }
}

/// One that ends after each `run`: the first restart comes at once, the others after a pause.
fn crash(run: Duration, age: Duration, is_ready: bool) -> Moment {
    if age < run {
        return Moment { waits: None, is_ready, restarts: 0, started: Duration::ZERO, last: Default::default() };
    }
    let round = run + BACK_OFF;
    let number = u32::try_from((age - run).as_nanos() / round.as_nanos()).unwrap_or(u32::MAX);
    let started = run + round * number;
    let runs = age - started < run;
    let before = if number == 0 { Duration::ZERO } else { started - round };
    let began = if runs { before } else { started };
    Moment {
        waits: (!runs).then_some("CrashLoopBackOff"),
        is_ready: is_ready && runs,
        restarts: number as usize + 1,
        started,
        last: (began, began + run),
    }
}

/// To the second, as the API has it.
fn text(at: Timestamp) -> String {
    Timestamp::from_second(at.as_second()).unwrap_or(at).to_string()
}
