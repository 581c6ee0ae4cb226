//! A client of the API: objects are JSON values, and a path is the API's.

use std::io::{BufReader, Read};
use std::sync::Arc;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// Longest that an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Of an answer, bytes: far more than any list of a test.
const MAX_BODY: u64 = 64 << 20;

/// What the API server answers where it does not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiStatus {
    /// The HTTP status.
    pub code: u16,
    /// Kubernetes' word for it, such as `Conflict`.
    pub reason: String,
    /// Its text.
    pub message: String,
}

/// How a patch is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchKind {
    /// RFC 6902, a list of operations.
    Json,
    /// RFC 7386.
    Merge,
    /// Kubernetes' own: lists are merged by their keys. What `kubectl set image` and Helm 3 send.
    Strategic,
    /// Server-side apply; a conflict is an error, unless the path has `?force=true`.
    Apply,
}

impl PatchKind {
    fn content_type(self) -> &'static str {
        match self {
            Self::Json => "application/json-patch+json",
            Self::Merge => "application/merge-patch+json",
            Self::Strategic => "application/strategic-merge-patch+json",
            Self::Apply => "application/apply-patch+yaml",
        }
    }
}

/// A client with a token, a `User-Agent` and the name of a field manager.
#[derive(Debug, Clone)]
pub struct ApiClient {
    http: ureq::Agent,
    /// Where the API server is, such as `https://127.0.0.1:20001`.
    pub url: String,
    /// Its bearer token.
    pub token: String,
    ca: String,
    user_agent: String,
    manager: Option<String>,
}

impl ApiClient {
    /// One of the server at `url`, which `ca` (PEM) has signed.
    pub(crate) fn new(url: &str, token: &str, ca: &str) -> Self {
        let trusted = Certificate::from_pem(ca.as_bytes()).unwrap();
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::Specific(Arc::new(vec![trusted])))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        let config = ureq::Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .allow_non_standard_methods(true)
            .timeout_connect(Some(PATIENCE))
            .timeout_recv_response(Some(PATIENCE))
            .proxy(None)
            .build();
        Self {
            http: config.new_agent(),
            url: url.to_owned(),
            token: token.to_owned(),
            ca: ca.to_owned(),
            user_agent: "kube-bed/1.0".to_owned(),
            manager: None,
        }
    }

    /// The same server and token, as another program: `User-Agent: kubectl/v1.30.0`, field manager `kubectl-set`. Without a
    /// manager the server takes the `User-Agent` up to its slash.
    #[must_use]
    pub fn named(&self, user_agent: &str, manager: Option<&str>) -> Self {
        Self { user_agent: user_agent.to_owned(), manager: manager.map(str::to_owned), ..self.clone() }
    }

    /// The same with another token.
    #[must_use]
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: token.to_owned(), ..self.clone() }
    }

    /// A kubeconfig with this token, for a program under test: of this server, or of a proxy at `url` before it.
    pub fn kubeconfig(&self, url: Option<&str>, namespace: &str) -> String {
        let mut cluster = json!({"server": url.unwrap_or(&self.url)});
        if url.is_none_or(|url| url.starts_with("https:")) {
            cluster["certificate-authority-data"] = BASE64_STANDARD.encode(&self.ca).into();
        }
        json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "bed",
            "clusters": [{"name": "bed", "cluster": cluster}],
            "users": [{"name": "bed", "user": {"token": self.token}}],
            "contexts": [{"name": "bed", "context": {"cluster": "bed", "user": "bed", "namespace": namespace}}],
        })
        .to_string()
    }

    /// The object at a path.
    ///
    /// # Errors
    /// What the server answers instead.
    pub fn get(&self, path: &str) -> Result<Value, ApiStatus> {
        self.send("GET", path, None)
    }

    /// The items of the list at a path (`?labelSelector=` and the like may be in it).
    ///
    /// # Panics
    /// If it cannot be read.
    pub fn list(&self, path: &str) -> Vec<Value> {
        let mut list = self.get(path).unwrap_or_else(|status| panic!("{path}: {status:?}"));
        match list["items"].take() {
            Value::Array(items) => items,
            _ => Vec::new(),
        }
    }

    /// Makes an object where its `apiVersion`, `kind` and `metadata.namespace` say.
    ///
    /// # Errors
    /// What the server answers instead.
    pub fn create(&self, object: &Value) -> Result<Value, ApiStatus> {
        let word = |key: &str| object[key].as_str().unwrap_or_default().to_owned();
        self.create_at(
            &collection(&word("apiVersion"), &word("kind"), object["metadata"]["namespace"].as_str()),
            object,
        )
    }

    /// Sends an object to a path: of a list, or of what takes one, such as `…/pods/NAME/eviction`.
    ///
    /// # Errors
    /// What the server answers instead.
    pub fn create_at(&self, path: &str, object: &Value) -> Result<Value, ApiStatus> {
        self.write("POST", path, "application/json", object.to_string().as_bytes())
    }

    /// Makes the objects of a text of YAML documents; each without a namespace of its own in `namespace`.
    ///
    /// # Errors
    /// What the server answers to the first that it does not take.
    pub fn create_yaml(&self, text: &str, namespace: &str) -> Result<Vec<Value>, ApiStatus> {
        let documents = text.split("\n---").map(|document| document.trim_start_matches("---"));
        let word = |document: &str, key: &str| {
            let value = document.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            value.unwrap_or_default().trim().trim_matches('"').to_owned()
        };
        let with_kind = documents.filter(|document| !word(document, "kind").is_empty());
        let create = |document: &str| {
            let own = document.lines().find_map(|line| line.strip_prefix("  namespace:")).map(str::trim);
            let path =
                collection(&word(document, "apiVersion"), &word(document, "kind"), Some(own.unwrap_or(namespace)));
            self.write("POST", &path, "application/yaml", document.as_bytes())
        };
        with_kind.map(create).collect()
    }

    /// Writes a whole object, with its `resourceVersion` where that must not have changed.
    ///
    /// # Errors
    /// What the server answers instead.
    pub fn replace(&self, path: &str, object: &Value) -> Result<Value, ApiStatus> {
        self.write("PUT", path, "application/json", object.to_string().as_bytes())
    }

    /// Patches the object at a path.
    ///
    /// # Errors
    /// What the server answers instead.
    pub fn patch(&self, path: &str, kind: PatchKind, patch: &Value) -> Result<Value, ApiStatus> {
        self.write("PATCH", path, kind.content_type(), patch.to_string().as_bytes())
    }

    /// Deletes the object at a path, or, at a list's path, all of it; with `DeleteOptions`, or none (`Null`).
    ///
    /// # Errors
    /// What the server answers instead.
    pub fn delete(&self, path: &str, options: &Value) -> Result<Value, ApiStatus> {
        let body = if options.is_null() { String::new() } else { options.to_string() };
        self.send("DELETE", path, Some(("application/json", body.as_bytes())))
    }

    /// The lines of a watch.
    pub(crate) fn watch(&self, path: &str) -> Result<BufReader<impl Read + use<>>, ApiStatus> {
        let answer = self.ask("GET", path, None)?;
        if answer.status() == 200 {
            Ok(BufReader::new(answer.into_body().into_reader()))
        } else {
            Err(read(answer).unwrap_err())
        }
    }

    fn write(&self, method: &str, path: &str, content_type: &str, body: &[u8]) -> Result<Value, ApiStatus> {
        let mut path = path.to_owned();
        if let Some(manager) = &self.manager {
            path += if path.contains('?') { "&fieldManager=" } else { "?fieldManager=" };
            path += manager;
        }
        self.send(method, &path, Some((content_type, body)))
    }

    fn send(&self, method: &str, path: &str, body: Option<(&str, &[u8])>) -> Result<Value, ApiStatus> {
        read(self.ask(method, path, body)?)
    }

    fn ask(&self, method: &str, path: &str, body: Option<(&str, &[u8])>) -> Result<Answer, ApiStatus> {
        let mut request = ureq::http::Request::builder()
            .method(method)
            .uri(format!("{}{path}", self.url))
            .header("Authorization", format!("Bearer {}", self.token))
            .header("User-Agent", &self.user_agent)
            .header("Accept", "application/json");
        if let Some((content_type, _)) = body {
            request = request.header("Content-Type", content_type);
        }
        let answer = match body {
            Some((_, body)) => self.http.run(request.body(body).unwrap()),
            None => self.http.run(request.body(()).unwrap()),
        };
        answer.map_err(|error| ApiStatus { code: 0, reason: "NoAnswer".to_owned(), message: error.to_string() })
    }
}

type Answer = ureq::http::Response<ureq::Body>;

fn read(mut answer: Answer) -> Result<Value, ApiStatus> {
    let code = answer.status().as_u16();
    let body = answer.body_mut().with_config().limit(MAX_BODY).read_to_string();
    let body =
        body.map_err(|error| ApiStatus { code: 0, reason: "NoAnswer".to_owned(), message: error.to_string() })?;
    let value: Value = serde_json::from_str(&body).unwrap_or_else(|_| Value::String(body));
    if (200..300).contains(&code) {
        return Ok(value);
    }
    let word = |key: &str| value[key].as_str().unwrap_or_default().to_owned();
    let message = if value.is_object() { word("message") } else { value.as_str().unwrap_or_default().to_owned() };
    Err(ApiStatus { code, reason: word("reason"), message })
}

/// Kinds that belong to no namespace, of those that tests make.
const OF_THE_CLUSTER: [&str; 5] = ["Namespace", "Node", "ClusterRole", "ClusterRoleBinding", "PersistentVolume"];

/// The path of the list that an object belongs in.
fn collection(api_version: &str, kind: &str, namespace: Option<&str>) -> String {
    let group = if api_version.contains('/') { format!("/apis/{api_version}") } else { format!("/api/{api_version}") };
    let name = kind.to_lowercase();
    let plural = match name.strip_suffix('y') {
        Some(stem) => format!("{stem}ies"),
        None => format!("{name}s"),
    };
    match namespace {
        Some(namespace) if !OF_THE_CLUSTER.contains(&kind) => format!("{group}/namespaces/{namespace}/{plural}"),
        _ => format!("{group}/{plural}"),
    }
}
