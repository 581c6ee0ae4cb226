//! What a person sees beside `status`: events, log lines, numbers (KUBE §8).

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde_json::json;

use crate::api::Api;
use crate::workload::Workload;

/// Who reports events.
const CONTROLLER: &str = "teleport.dev/kube-update";
/// How often a repeated event is written again, seconds.
const SERIES: i64 = 300;

/// Events of one agent.
pub struct WorkloadEvents {
    api: Api,
    identity: String,
    last: Option<LastEvent>,
}

struct LastEvent {
    name: String,
    reason: String,
    note: String,
    count: u32,
    at: Timestamp,
}

impl WorkloadEvents {
    /// `identity`: of this process.
    pub fn new(api: Api, identity: &str) -> Self {
        Self { api, identity: identity.to_owned(), last: None }
    }

    /// Says what happened to a workload. What the API server does not take is lost: nothing depends on it.
    pub async fn say(&mut self, workload: &Workload, reason: &str, note: &str, is_warning: bool) {
        let now = Timestamp::now();
        let micro = format!("{now:.6}");
        if let Some(last) = self.last.as_mut().filter(|last| last.reason == reason && last.note == note) {
            last.count += 1;
            if now.as_second() - last.at.as_second() >= SERIES {
                last.at = now;
                let change = json!({ "series": { "count": last.count, "lastObservedTime": micro } });
                let _ = self.api.merge("Event", &last.name, change).await;
            }
            return;
        }
        let meta = &workload.metadata;
        let of = meta.name.as_deref().unwrap_or_default();
        let name = format!("{of}.{:x}", now.as_nanosecond());
        let note: String = note.chars().take(1000).collect();
        let body = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": { "name": name, "namespace": self.api.namespace },
            "eventTime": micro, "reportingController": CONTROLLER, "reportingInstance": self.identity,
            "action": reason, "reason": reason, "note": note, "type": if is_warning { "Warning" } else { "Normal" },
            "regarding": {
                "apiVersion": "apps/v1", "kind": workload.kind.name(), "name": of, "namespace": self.api.namespace, "uid": meta.uid,
            },
        });
        if self.api.event(body).await.is_ok() {
            self.last = Some(LastEvent { name, reason: reason.to_owned(), note, count: 1, at: now });
        }
    }
}

/// Says a line: one a decision.
pub fn log(level: &str, agent: &str, code: &str, what: &str) {
    let line = json!({ "time": Timestamp::now(), "level": level, "agent": agent, "code": code, "message": what });
    // Whoever reads them may be gone.
    let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("{line}\n").as_bytes());
}

/// What is known of an agent, for numbers and probes.
#[derive(Debug, Clone, Default)]
pub struct AgentNumbers {
    /// The group; empty: none.
    pub group: String,
    /// The version that runs.
    pub version: String,
    /// The version that the source wants.
    pub wanted: String,
    /// Why it is as it is.
    pub code: String,
    /// Pods that are ready, and that there should be.
    pub pods: (usize, usize),
    /// Why nothing can be done for it, on a line; `None`: something can.
    pub fault: Option<String>,
    /// Updates, returns to the old image, and refusals since the start.
    pub outcomes: BTreeMap<&'static str, u64>,
}

/// What all tasks tell.
#[derive(Debug, Default)]
pub struct Numbers {
    agents: BTreeMap<String, AgentNumbers>,
    /// Why the process is not ready; empty: it is.
    pub unready: BTreeMap<&'static str, String>,
    /// This process has the lease.
    pub is_leader: bool,
}

/// Shared among tasks.
pub type SharedNumbers = Arc<Mutex<Numbers>>;

/// The numbers, whoever panicked while he had them.
pub fn numbers(shared: &SharedNumbers) -> MutexGuard<'_, Numbers> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Numbers {
    /// Those of an agent.
    pub fn agent(&mut self, key: &str) -> &mut AgentNumbers {
        self.agents.entry(key.to_owned()).or_default()
    }

    /// Why the process is not ready, line by line; empty: it is.
    pub fn faults(&self) -> Vec<&str> {
        let agents = self.agents.values().filter_map(|agent| agent.fault.as_deref());
        self.unready.values().map(String::as_str).chain(agents).collect()
    }

    /// Forgets those that are not configured any more.
    pub fn keep(&mut self, keys: &[String]) {
        self.agents.retain(|key, _| keys.contains(key));
    }

    /// In Prometheus' text format.
    pub fn text(&self) -> String {
        let (mut states, mut pods, mut outcomes) = (Vec::new(), Vec::new(), Vec::new());
        for (key, agent) in &self.agents {
            let AgentNumbers { group, version, wanted, code, .. } = agent;
            let labels =
                format!("{{agent={key:?},group={group:?},version={version:?},wanted={wanted:?},code={code:?}}}");
            states.push((labels, 1));
            for (state, count) in [("ready", agent.pods.0), ("wanted", agent.pods.1)] {
                pods.push((format!("{{agent={key:?},state={state:?}}}"), count as u64));
            }
            for (outcome, count) in &agent.outcomes {
                outcomes.push((format!("{{agent={key:?},outcome={outcome:?}}}"), *count));
            }
        }
        let leader = vec![(String::new(), u64::from(self.is_leader))];
        let mut text = String::new();
        for (name, kind, help, rows) in [
            ("teleport_kube_update_leader", "gauge", "1: this process has the lease.", leader),
            ("teleport_kube_update_agent", "gauge", "Each agent: what it runs, what is wanted, and why.", states),
            ("teleport_kube_update_pods", "gauge", "Pods of each agent.", pods),
            ("teleport_kube_update_outcomes_total", "counter", "What changes came to.", outcomes),
        ] {
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (labels, value) in rows {
                let _ = writeln!(text, "{name}{labels} {value}");
            }
        }
        text
    }
}
