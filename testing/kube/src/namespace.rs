//! A namespace of a test, with a kubelet and nodes of its own.

use std::time::Duration;

use serde_json::{Value, json};

use crate::client::{ApiClient, PatchKind};
use crate::kubelet::{Kubelet, PodLives};
use crate::wait_until;

/// Until rights that were given hold.
const PATIENCE: Duration = Duration::from_secs(20);

/// A namespace; it and its nodes go with the value.
#[derive(Debug)]
pub struct Namespace {
    /// Its name, which is no other test's.
    pub name: String,
    /// With all rights.
    pub client: ApiClient,
    /// How pods of an image fare; may be changed at any time.
    pub lives: PodLives,
    kubelet: Kubelet,
}

impl Namespace {
    pub(crate) fn new(client: ApiClient, name: &str) -> Self {
        client.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})).unwrap();
        let lives = PodLives::default();
        let kubelet = Kubelet::start(client.named("kubelet/v1.20.2", Some("kubelet")), name, lives.clone());
        let space = Self { name: name.to_owned(), client, lives, kubelet };
        space.add_node();
        space.add_node();
        space
    }

    /// One more node `node-N-NAMESPACE`, with a label `bed: NAMESPACE`.
    ///
    /// # Panics
    /// If it cannot be made.
    pub fn add_node(&self) -> String {
        let name = format!("node-{}-{}", self.kubelet.nodes().len() + 1, self.name);
        let node = json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": {"bed": self.name, "kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
        });
        self.client.create(&node).unwrap();
        let room = json!({"cpu": "64", "memory": "256Gi", "pods": "500"});
        let ready = json!({"status": {
            "capacity": room, "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        }});
        self.client.patch(&format!("/api/v1/nodes/{name}/status"), PatchKind::Strategic, &ready).unwrap();
        self.kubelet.add_node(&name);
        name
    }

    /// The path of what this namespace has of a kind: `("v1", "pods")`, `("apps/v1", "statefulsets/agent")`.
    pub fn path(&self, api_version: &str, rest: &str) -> String {
        let group = if api_version.contains('/') { "apis" } else { "api" };
        format!("/{group}/{api_version}/namespaces/{}/{rest}", self.name)
    }

    /// Its pods, by name.
    pub fn pods(&self) -> Vec<Value> {
        let mut pods = self.client.list(&self.path("v1", "pods"));
        pods.sort_by_key(|pod| pod["metadata"]["name"].as_str().unwrap_or_default().to_owned());
        pods
    }

    /// Those of them that are ready and not ending.
    pub fn ready_pods(&self) -> Vec<Value> {
        let is_ready = |pod: &Value| {
            let conditions = pod["status"]["conditions"].as_array().map_or(&[][..], Vec::as_slice);
            conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
                && pod["metadata"]["deletionTimestamp"].is_null()
        };
        self.pods().into_iter().filter(is_ready).collect()
    }

    /// The containers of a pod end with exit code 1, and begin again.
    pub fn restart(&self, pod: &str) {
        self.kubelet.restart(pod);
    }

    /// A client that is a ServiceAccount with a Role of exactly these rules.
    ///
    /// # Panics
    /// If the server does not take them, or they do not hold in time.
    pub fn account(&self, name: &str, rules: &Value) -> ApiClient {
        let meta = json!({"name": name, "namespace": self.name});
        let rbac = "rbac.authorization.k8s.io";
        let objects = [
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}),
            json!({"apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": meta, "rules": rules}),
            json!({
                "apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": meta,
                "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": self.name}],
            }),
        ];
        for object in &objects {
            self.client.create(object).unwrap();
        }
        let client = self.token(name);
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": self.name},
        });
        wait_until(PATIENCE, "the Role holds", || {
            let review =
                client.create_at("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", &review).unwrap_or_default();
            let held = review["status"]["resourceRules"].as_array().cloned().unwrap_or_default();
            let has = |rule: &Value| {
                held.iter().any(|held| {
                    ["verbs", "apiGroups", "resources", "resourceNames"].iter().all(|key| held[key] == rule[key])
                })
            };
            rules.as_array().is_none_or(|rules| rules.iter().all(has))
        });
        client
    }

    /// A client with a new token of a ServiceAccount that is there.
    ///
    /// # Panics
    /// If it is not.
    pub fn token(&self, account: &str) -> ApiClient {
        let path = self.path("v1", &format!("serviceaccounts/{account}/token"));
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}});
        let answer = self.client.create_at(&path, &request).unwrap();
        self.client.with_token(answer["status"]["token"].as_str().unwrap())
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        self.kubelet.end();
        // What ends the bed ends these as well.
        let _ = self.client.delete(&format!("/api/v1/namespaces/{}", self.name), &Value::Null);
        let _ = self.client.delete(&self.path("v1", "pods?gracePeriodSeconds=0"), &Value::Null);
        let _ = self.client.delete(&format!("/api/v1/nodes?labelSelector=bed={}", self.name), &Value::Null);
    }
}
