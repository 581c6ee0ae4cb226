//! A stand-in for the scheduler and the kubelets of a namespace: it binds pods to nodes, writes their status as their images' lives
//! have it, and ends those that are deleted.

mod life;
mod status;

use std::collections::HashMap;
use std::io::BufRead;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{ApiClient, PatchKind};
pub use life::{PodLife, PodLives};
use status::Course;

/// Between two looks at what time alone changes.
const TICK: Duration = Duration::from_millis(20);
/// After the server did not answer.
const RETRY: Duration = Duration::from_millis(100);

/// It, at work in two threads.
#[derive(Debug)]
pub(crate) struct Kubelet {
    shared: Arc<Shared>,
    worker: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    nodes: Mutex<Vec<String>>,
    restarts: Mutex<Vec<String>>,
    ends: AtomicBool,
}

/// What is known of a pod.
struct Known {
    /// As the server last told.
    pod: Value,
    course: Course,
    /// When it was first seen to be ending.
    ending: Option<Instant>,
    /// The status that was written last.
    written: Value,
}

struct Worker {
    client: ApiClient,
    pods: String,
    lives: PodLives,
    shared: Arc<Shared>,
    known: HashMap<String, Known>,
    bound: usize,
}

impl Kubelet {
    pub(crate) fn start(client: ApiClient, namespace: &str, lives: PodLives) -> Self {
        let shared = Arc::new(Shared::default());
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let (sender, events) = channel();
        let (own, list, watcher) = (Arc::clone(&shared), pods.clone(), client.clone());
        // It ends with the next event after the end, of which there is one: the namespace goes.
        std::thread::spawn(move || {
            while !own.ends.load(Ordering::Relaxed) {
                if watch(&watcher, &list, &sender).is_none() {
                    return;
                }
            }
        });
        let mut worker = Worker { client, pods, lives, shared: Arc::clone(&shared), known: HashMap::new(), bound: 0 };
        let worker = std::thread::spawn(move || worker.work(&events));
        Self { shared, worker: Some(worker) }
    }

    pub(crate) fn nodes(&self) -> Vec<String> {
        self.shared.nodes.lock().unwrap().clone()
    }

    pub(crate) fn add_node(&self, name: &str) {
        self.shared.nodes.lock().unwrap().push(name.to_owned());
    }

    pub(crate) fn restart(&self, pod: &str) {
        self.shared.restarts.lock().unwrap().push(pod.to_owned());
    }

    pub(crate) fn end(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(worker) = self.worker.take() {
            let _ = worker.join();
        }
    }
}

/// The pods as they are, then their changes; until the watch ends. `None`: nobody wants them any more.
fn watch(client: &ApiClient, pods: &str, events: &Sender<Value>) -> Option<()> {
    let Ok(mut list) = client.get(pods) else {
        std::thread::sleep(RETRY);
        return events.send(Value::Null).ok();
    };
    let version = list["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    events.send(json!({"type": "LIST", "object": list["items"].take()})).ok()?;
    let Ok(lines) = client.watch(&format!("{pods}?watch=1&timeoutSeconds=300&resourceVersion={version}")) else {
        return Some(());
    };
    for line in lines.lines() {
        let Some(event) = line.ok().and_then(|line| serde_json::from_str::<Value>(&line).ok()) else { break };
        if event["type"] == "ERROR" {
            break;
        }
        events.send(event).ok()?;
    }
    Some(())
}

fn uid(pod: &Value) -> String {
    pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned()
}

impl Worker {
    fn work(&mut self, events: &Receiver<Value>) {
        while !self.shared.ends.load(Ordering::Relaxed) {
            match events.recv_timeout(TICK) {
                Ok(event) => self.take(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while let Ok(event) = events.try_recv() {
                self.take(event);
            }
            let restarts = std::mem::take(&mut *self.shared.restarts.lock().unwrap());
            for known in self
                .known
                .values_mut()
                .filter(|known| restarts.iter().any(|name| known.pod["metadata"]["name"] == **name))
            {
                known.course.restart();
            }
            let all: Vec<String> = self.known.keys().cloned().collect();
            all.iter().for_each(|uid| self.look_after(uid));
        }
    }

    fn take(&mut self, mut event: Value) {
        let mut object = event["object"].take();
        match (event["type"].as_str(), object.as_array_mut()) {
            (Some("LIST"), Some(pods)) => {
                let pods = std::mem::take(pods);
                self.known.retain(|known, _| pods.iter().any(|pod| uid(pod) == *known));
                pods.into_iter().for_each(|pod| self.see(pod));
            }
            (Some("DELETED"), _) => drop(self.known.remove(&uid(&object))),
            (Some("ADDED" | "MODIFIED"), _) => self.see(object),
            _ => {}
        }
    }

    fn see(&mut self, pod: Value) {
        let new =
            || Known { course: Course::new(&pod), pod: Value::Null, ending: None, written: pod["status"].clone() };
        let known = self.known.entry(uid(&pod)).or_insert_with(new);
        if known.ending.is_none() && !pod["metadata"]["deletionTimestamp"].is_null() {
            known.ending = Some(Instant::now());
        }
        known.pod = pod;
    }

    /// Does what is due for a pod.
    fn look_after(&mut self, uid: &str) {
        let Some(known) = self.known.get_mut(uid) else { return };
        let path = format!("{}/{}", self.pods, known.pod["metadata"]["name"].as_str().unwrap_or_default());
        if let Some(ending) = known.ending {
            if ending.elapsed() >= self.lives.end_of(&known.pod) {
                let options = json!({"gracePeriodSeconds": 0, "preconditions": {"uid": uid}});
                // Another may have been quicker, and a later look tries again.
                if self.client.delete(&path, &options).is_ok() {
                    self.known.remove(uid);
                }
            }
            return;
        }
        if known.pod["spec"]["nodeName"].is_null() && !self.lives.is_unschedulable(&known.pod) {
            let Some(node) = wanted_node(&known.pod).or_else(|| {
                let nodes = self.shared.nodes.lock().unwrap();
                self.bound += 1;
                nodes.get(self.bound % nodes.len().max(1)).cloned()
            }) else {
                return;
            };
            let binding = json!({
                "apiVersion": "v1", "kind": "Binding", "metadata": {"name": known.pod["metadata"]["name"], "uid": uid},
                "target": {"apiVersion": "v1", "kind": "Node", "name": node},
            });
            if self.client.create_at(&format!("{path}/binding"), &binding).is_err() {
                return;
            }
            known.pod["spec"]["nodeName"] = node.into();
            known.course.begin();
        }
        let status = known.course.status(&known.pod, &self.lives);
        if status != known.written {
            let patch = json!({"metadata": {"uid": uid}, "status": status});
            if self.client.patch(&format!("{path}/status"), PatchKind::Merge, &patch).is_ok() {
                known.written = status;
            }
        }
    }
}

/// The node that a DaemonSet made this pod for.
fn wanted_node(pod: &Value) -> Option<String> {
    let affinity = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    let field = &affinity["nodeSelectorTerms"][0]["matchFields"][0];
    (field["key"] == "metadata.name").then(|| field["values"][0].as_str().map(str::to_owned)).flatten()
}
