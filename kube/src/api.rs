//! The few calls to the API server that this program makes (KUBE §9), each with a longest time.

use std::time::Duration;

use http::{Method, Request};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::{Client, Config};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::config::KubeAgent;
use crate::hands::MANAGER;
use crate::workload::{Pod, PodList, Workload};

/// Longest time of a call: a list of pods takes milliseconds.
const LONGEST_CALL: Duration = Duration::from_secs(10);
/// Longest time until a connection is there.
const CONNECT: Duration = Duration::from_secs(5);
/// Where a pod finds its namespace.
const NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// Why a call did not come about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApiFault {
    /// There is no such object.
    NotFound(String),
    /// Somebody changed it meanwhile (409).
    Conflict(String),
    /// A test of a patch failed, or the object would not be valid (422).
    Invalid(String),
    /// The role or an admission webhook does not allow it (403, or 400 and 4xx of a webhook).
    Denied(String),
    /// No answer, or one of a server that cannot now: whether it happened is not known.
    Away(String),
}

impl std::fmt::Display for ApiFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (Self::NotFound(what) | Self::Conflict(what) | Self::Invalid(what) | Self::Denied(what) | Self::Away(what)) =
            self;
        f.write_str(what)
    }
}

/// What a call gives.
pub type KubeResult<T> = Result<T, ApiFault>;

/// The API server, and the namespace of this program.
#[derive(Clone)]
pub struct Api {
    client: Client,
    /// The namespace.
    pub namespace: String,
    /// Our name as a field manager.
    pub manager: String,
}

impl Api {
    /// Connects as a pod does, or by a kubeconfig. `name`: of this installation, for its field manager.
    ///
    /// Errors: what is missing.
    pub async fn new(kubeconfig: Option<&str>, namespace: Option<&str>, name: &str) -> Result<Self, String> {
        let mut config = match kubeconfig {
            Some(file) => {
                let place = |error: KubeconfigError| format!("{file}: {error}");
                let text = Kubeconfig::read_from(file).map_err(place)?;
                Config::from_custom_kubeconfig(text, &KubeConfigOptions::default()).await.map_err(place)?
            }
            None => Config::incluster().map_err(|error| {
                format!("this is no pod ({error}); give --kubeconfig, or run it in Kubernetes with a service account")
            })?,
        };
        config.connect_timeout = Some(CONNECT);
        (config.read_timeout, config.write_timeout) = (Some(LONGEST_CALL), Some(LONGEST_CALL));
        // What fails is seen, counted and tried again here.
        config.default_retry = false;
        let own = std::fs::read_to_string(NAMESPACE).ok().map(|text| text.trim().to_owned());
        let of_config = Some(config.default_namespace.clone());
        let namespace = namespace.map(str::to_owned).or(own.filter(|_| kubeconfig.is_none())).or(of_config);
        let client = Client::try_from(config).map_err(|error| error.to_string())?;
        let manager = if name == MANAGER { name.to_owned() } else { format!("{MANAGER}-{name}") };
        Ok(Self { client, namespace: namespace.unwrap_or_default(), manager })
    }

    /// One call. `sent`: type and body.
    ///
    /// Errors: as [`ApiFault`] says.
    async fn call<T: DeserializeOwned>(&self, verb: Method, path: &str, sent: Option<(&str, Value)>) -> KubeResult<T> {
        let mut request = Request::builder().method(verb).uri(path);
        let mut body = Vec::new();
        if let Some((kind, value)) = sent {
            request = request.header("content-type", kind);
            body = value.to_string().into_bytes();
        }
        let request = request.body(body).map_err(|error| ApiFault::Invalid(format!("{path}: {error}")))?;
        match tokio::time::timeout(LONGEST_CALL, self.client.request(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(fault(error)),
            Err(_) => Err(ApiFault::Away(format!("no answer within {} s", LONGEST_CALL.as_secs()))),
        }
    }

    /// Where the objects of a kind are.
    fn place(&self, kind: &str) -> String {
        let group = match kind {
            "Lease" => "apis/coordination.k8s.io/v1",
            "Event" => "apis/events.k8s.io/v1",
            "ConfigMap" | "Secret" | "Pod" => "api/v1",
            _ => "apis/apps/v1",
        };
        format!("/{group}/namespaces/{}/{}s", self.namespace, kind.to_ascii_lowercase())
    }

    /// The workload of an agent; `None`: there is none.
    ///
    /// Errors: as [`ApiFault`] says.
    pub async fn workload(&self, agent: &KubeAgent) -> KubeResult<Option<Workload>> {
        let mut found: Option<Workload> = self.object(agent.kind.name(), &agent.name).await?;
        found.iter_mut().for_each(|workload| workload.kind = agent.kind);
        Ok(found)
    }

    /// The pods that a workload owns; none where there is no workload.
    ///
    /// Errors: as [`ApiFault`] says.
    pub async fn pods(&self, workload: Option<&Workload>, agent: &KubeAgent) -> KubeResult<Vec<Pod>> {
        let Some(workload) = workload else { return Ok(Vec::new()) };
        let query = http_client::encoded(&workload.selector());
        let path = format!("{}?labelSelector={query}", self.place("Pod"));
        let all: PodList = self.call(Method::GET, &path, None).await?;
        Ok(workload.own(&all.items, &agent.container))
    }

    /// Writes the image of a container, if nobody has changed workload, container or image since `seen`, to and fro included:
    /// a call that comes late changes nothing. Gives the workload as it is then.
    ///
    /// Errors: as [`ApiFault`] says; `Invalid` where a test failed.
    pub async fn write_image(&self, seen: &Workload, container: &str, image: &str) -> KubeResult<Workload> {
        let missing = || ApiFault::Invalid(format!("there is no container {container} any more"));
        let index = seen.index(container).ok_or_else(missing)?;
        let place = format!("/spec/template/spec/containers/{index}");
        let patch = json!([
            { "op": "test", "path": "/metadata/uid", "value": seen.metadata.uid },
            { "op": "test", "path": "/metadata/generation", "value": seen.metadata.generation },
            { "op": "test", "path": format!("{place}/name"), "value": container },
            { "op": "test", "path": format!("{place}/image"), "value": seen.image(container) },
            { "op": "replace", "path": format!("{place}/image"), "value": image },
        ]);
        let name = seen.metadata.name.as_deref().unwrap_or_default();
        self.patch(seen.kind.name(), name, "application/json-patch+json", patch).await
    }

    /// Deletes a pod, if it is still the very same.
    ///
    /// Errors: as [`ApiFault`] says.
    pub async fn delete_pod(&self, pod: &Pod) -> KubeResult<()> {
        let options = json!({
            "apiVersion": "v1", "kind": "DeleteOptions",
            "preconditions": { "uid": pod.uid, "resourceVersion": pod.resource_version },
        });
        let path = format!("{}/{}", self.place("Pod"), pod.name);
        self.call::<Value>(Method::DELETE, &path, Some(("application/json", options))).await.map(drop)
    }

    /// An object; `None`: there is none.
    ///
    /// Errors: as [`ApiFault`] says.
    pub async fn object<T: DeserializeOwned>(&self, kind: &str, name: &str) -> KubeResult<Option<T>> {
        match self.call(Method::GET, &format!("{}/{name}", self.place(kind)), None).await {
            Err(ApiFault::NotFound(_)) => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// One that the manifest has, empty.
    ///
    /// Errors: as [`ApiFault`] says; one that is not there names the manifest.
    pub async fn shipped(&self, kind: &str, name: &str) -> KubeResult<Value> {
        self.object(kind, name).await?.ok_or_else(|| missing(kind, name))
    }

    /// Merges `change` into one of them. Gives the object as it is then.
    ///
    /// Errors: as [`Self::shipped`]; `Conflict` where the resourceVersion in it is not the object's.
    pub async fn merge(&self, kind: &str, name: &str, change: Value) -> KubeResult<Value> {
        let merged = self.patch(kind, name, "application/merge-patch+json", change).await;
        merged.map_err(|fault| if let ApiFault::NotFound(_) = fault { missing(kind, name) } else { fault })
    }

    async fn patch<T: DeserializeOwned>(&self, kind: &str, name: &str, how: &str, change: Value) -> KubeResult<T> {
        let path = format!("{}/{name}?fieldManager={}", self.place(kind), self.manager);
        self.call(Method::PATCH, &path, Some((how, change))).await
    }

    /// Creates an event.
    ///
    /// Errors: as [`ApiFault`] says.
    pub async fn event(&self, body: Value) -> KubeResult<()> {
        self.call::<Value>(Method::POST, &self.place("Event"), Some(("application/json", body))).await.map(drop)
    }

    /// The API server's version: `v1.36.2`.
    ///
    /// Errors: as [`ApiFault`] says.
    pub async fn version(&self) -> KubeResult<String> {
        let answer: Value = self.call(Method::GET, "/version", None).await?;
        Ok(answer["gitVersion"].as_str().unwrap_or_default().to_owned())
    }
}

/// What is said of an object that the manifest has and that is not there.
fn missing(kind: &str, name: &str) -> ApiFault {
    ApiFault::NotFound(format!("there is no {kind} {name}: apply the manifest again, which has it empty"))
}

/// Longest message of a server that is shown, characters.
const MAX_MESSAGE: usize = 300;

fn fault(error: kube::Error) -> ApiFault {
    let kube::Error::Api(status) = error else { return ApiFault::Away(plain(&error.to_string())) };
    let what = plain(&status.message);
    match status.code {
        404 | 410 => ApiFault::NotFound(what),
        409 => ApiFault::Conflict(what),
        422 => ApiFault::Invalid(what),
        // A token that is being exchanged is nobody's refusal.
        401 | 408 | 429 => ApiFault::Away(what),
        code if (400..500).contains(&code) => ApiFault::Denied(what),
        _ => ApiFault::Away(what),
    }
}

/// One line of a server, not too long, without what moves a terminal.
pub fn plain(text: &str) -> String {
    printable(text).chars().take(MAX_MESSAGE).collect::<String>().trim().to_owned()
}

/// Without what moves a terminal.
pub fn printable(text: &str) -> String {
    text.chars().map(|char| if char.is_control() { ' ' } else { char }).collect()
}
