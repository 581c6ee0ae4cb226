//! A workload and its pods, as the API server has them; only the fields that are needed (KUBE §3, §5).

use std::fmt;
use std::str::FromStr;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::core::Selector;
use serde::Deserialize;
use serde_json::Value;

/// Why a container of an image that is no image name does not start (kubelet).
pub const INVALID_IMAGE: &str = "InvalidImageName";
/// The label of a pod's revision: of StatefulSets and DaemonSets, and of Deployments.
const REVISION_LABELS: [&str; 2] = ["controller-revision-hash", "pod-template-hash"];
/// Seconds that a pod has to end where it does not say so itself (Kubernetes' default).
const DEFAULT_GRACE: u64 = 30;
/// What a person writes on a workload that is to be left alone.
pub const SKIP: &str = "teleport.dev/skipreconcile";

/// What keeps pods of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum WorkloadKind {
    /// The default, of the chart `teleport-kube-agent`.
    #[default]
    StatefulSet,
    /// A Deployment; its pods are owned by ReplicaSets.
    Deployment,
    /// A DaemonSet.
    DaemonSet,
}

impl WorkloadKind {
    const ALL: [Self; 3] = [Self::StatefulSet, Self::Deployment, Self::DaemonSet];

    /// Its name in a manifest.
    pub fn name(self) -> &'static str {
        match self {
            Self::StatefulSet => "StatefulSet",
            Self::Deployment => "Deployment",
            Self::DaemonSet => "DaemonSet",
        }
    }
}

impl fmt::Display for WorkloadKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for WorkloadKind {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(text)).ok_or(())
    }
}

/// A StatefulSet, Deployment or DaemonSet: of the rest only some places are read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Workload {
    /// What it is: the list that it was read from says so.
    #[serde(skip)]
    pub kind: WorkloadKind,
    /// Its name and history.
    pub metadata: ObjectMeta,
    spec: Value,
    status: Value,
}

/// What of a container's volumes is data that outlives a pod; other kinds hold nothing, or nothing of the agent's own.
const DATA: [&str; 3] = ["persistentVolumeClaim", "hostPath", "ephemeral"];

fn list<'a>(value: &'a Value, place: &str) -> &'a [Value] {
    value.pointer(place).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn text<'a>(value: &'a Value, place: &str) -> &'a str {
    value.pointer(place).and_then(Value::as_str).unwrap_or_default()
}

fn label<'a>(of: &'a ObjectMeta, name: &str) -> Option<&'a str> {
    of.labels.as_ref()?.get(name).map(String::as_str)
}

fn number(value: Option<&Value>) -> u32 {
    value.and_then(Value::as_u64).and_then(|number| number.try_into().ok()).unwrap_or_default()
}

/// The item of a list whose name, or type, this is.
fn named<'a>(list: &'a [Value], key: &str, name: &str) -> Option<&'a Value> {
    list.iter().find(|item| item[key] == name)
}

impl Workload {
    /// The image of `container`; `None`: there is no such container.
    pub fn image(&self, container: &str) -> Option<&str> {
        named(self.containers(), "name", container)?["image"].as_str()
    }

    fn containers(&self) -> &[Value] {
        list(&self.spec, "/template/spec/containers")
    }

    /// The place of `container` in the list, for a JSON patch.
    pub fn index(&self, container: &str) -> Option<usize> {
        self.containers().iter().position(|known| known["name"] == container)
    }

    /// How many pods there are to be.
    pub fn replicas(&self) -> usize {
        let replicas = match self.kind {
            WorkloadKind::DaemonSet => self.status["desiredNumberScheduled"].as_u64().unwrap_or_default(),
            WorkloadKind::StatefulSet | WorkloadKind::Deployment => self.spec["replicas"].as_u64().unwrap_or(1),
        };
        usize::try_from(replicas).unwrap_or_default()
    }

    /// Its pods are replaced by hand alone.
    pub fn is_on_delete(&self) -> bool {
        text(&self.spec, "/updateStrategy/type") == "OnDelete"
    }

    /// A Deployment that is paused.
    pub fn is_paused(&self) -> bool {
        self.spec["paused"] == true
    }

    /// A person asks to leave it alone.
    pub fn is_skipped(&self) -> bool {
        self.metadata.annotations.as_ref().is_some_and(|all| all.get(SKIP).is_some_and(|value| value == "true"))
    }

    /// The controller has seen the newest specification.
    pub fn is_observed(&self) -> bool {
        self.status["observedGeneration"].as_i64().unwrap_or_default() >= self.generation()
    }

    /// It changes with each change of the specification.
    pub fn generation(&self) -> i64 {
        self.metadata.generation.unwrap_or_default()
    }

    /// Pods of a lower ordinal keep the old revision.
    pub fn partition(&self) -> u32 {
        number(self.spec.pointer("/updateStrategy/rollingUpdate/partition"))
    }

    /// A pod that is not ready keeps those after it from being replaced (kubernetes#67250).
    pub fn is_ordered(&self) -> bool {
        self.kind == WorkloadKind::StatefulSet && text(&self.spec, "/podManagementPolicy") != "Parallel"
    }

    /// The revision that its pods are to have; empty for a Deployment or a DaemonSet.
    pub fn update_revision(&self) -> &str {
        text(&self.status, "/updateRevision")
    }

    /// How long a pod may take to end, seconds.
    pub fn grace(&self) -> u64 {
        let grace = self.spec.pointer("/template/spec/terminationGracePeriodSeconds").and_then(Value::as_u64);
        grace.unwrap_or(DEFAULT_GRACE)
    }

    /// The container keeps data on a volume.
    pub fn has_data(&self, container: &str) -> bool {
        let claims = list(&self.spec, "/volumeClaimTemplates").iter().map(|claim| text(claim, "/metadata/name"));
        let volumes = list(&self.spec, "/template/spec/volumes").iter();
        let lasting = volumes.filter(|volume| DATA.iter().any(|kind| !volume[*kind].is_null()));
        let kept: Vec<_> = claims.chain(lasting.map(|volume| text(volume, "/name"))).collect();
        let mounts = named(self.containers(), "name", container).map_or(&[][..], |found| list(found, "/volumeMounts"));
        mounts.iter().any(|mount| kept.contains(&text(mount, "/name")))
    }

    /// The selector of its pods as a query has it.
    pub fn selector(&self) -> String {
        let selector: Option<LabelSelector> = serde_json::from_value(self.spec["selector"].clone()).ok();
        let selector = selector.and_then(|selector| Selector::try_from(selector).ok());
        // One that cannot be read names all pods: whose they are, their owners say.
        selector.map(|selector| selector.to_string()).unwrap_or_default()
    }

    /// Those of `pods` that are its own.
    pub fn own(&self, pods: &[RawPod], container: &str) -> Vec<Pod> {
        let is_own = |pod: &&RawPod| {
            pod.metadata.owner_references.iter().flatten().any(|owner| match self.kind {
                WorkloadKind::Deployment => {
                    let hash = label(&pod.metadata, REVISION_LABELS[1]).unwrap_or_default();
                    let name = self.metadata.name.as_deref().unwrap_or_default();
                    owner.kind == "ReplicaSet" && owner.name == format!("{name}-{hash}")
                }
                WorkloadKind::StatefulSet | WorkloadKind::DaemonSet => Some(&owner.uid) == self.metadata.uid.as_ref(),
            })
        };
        pods.iter().filter(is_own).map(|pod| Pod::new(pod, container)).collect()
    }
}

/// A list of pods.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodList {
    /// They.
    pub items: Vec<RawPod>,
}

/// A pod as the API server has it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct RawPod {
    metadata: ObjectMeta,
    spec: Value,
    status: Value,
}

/// What counts of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Its version, for a deletion that wants the very same.
    pub resource_version: String,
    /// Its revision; empty: it has no such label.
    pub revision: String,
    /// The image that its agent's container is to run.
    pub image: String,
    /// The pod is ready.
    pub is_ready: bool,
    /// How often its agent's container was started again.
    pub restarts: u32,
    /// Why its agent's container waits; empty: it does not.
    pub waiting: String,
    /// It is on no node, or its images are fetched.
    pub is_pending: bool,
    /// There is no node for it.
    pub is_unschedulable: bool,
    /// It ends.
    pub is_terminating: bool,
    /// By when it should have ended.
    pub ends_by: Option<Timestamp>,
    /// Since when it is there.
    pub created: Option<Timestamp>,
}

impl Pod {
    fn new(raw: &RawPod, container: &str) -> Self {
        let RawPod { metadata, spec, status } = raw;
        let condition = |kind: &str| named(list(status, "/conditions"), "type", kind).cloned().unwrap_or_default();
        let running = named(list(status, "/containerStatuses"), "name", container).cloned().unwrap_or_default();
        let image = named(list(spec, "/containers"), "name", container).map(|container| text(container, "/image"));
        let revision = REVISION_LABELS.iter().find_map(|name| label(metadata, name));
        let scheduled = condition("PodScheduled");
        Self {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            resource_version: metadata.resource_version.clone().unwrap_or_default(),
            revision: revision.unwrap_or_default().to_owned(),
            image: image.unwrap_or_default().to_owned(),
            is_ready: condition("Ready")["status"] == "True" && running["ready"] == true,
            restarts: number(running.get("restartCount")),
            waiting: text(&running, "/state/waiting/reason").to_owned(),
            is_pending: matches!(text(status, "/phase"), "Pending" | ""),
            is_unschedulable: scheduled["status"] == "False" && scheduled["reason"] == "Unschedulable",
            is_terminating: metadata.deletion_timestamp.is_some(),
            ends_by: metadata.deletion_timestamp.as_ref().map(|time| time.0),
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
        }
    }

    /// The number at the end of a StatefulSet's pod.
    pub fn ordinal(&self) -> Option<u32> {
        self.name.rsplit_once('-')?.1.parse().ok()
    }
}
