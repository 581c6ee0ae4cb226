//! Credentials from a docker `config.json`, as Kubernetes' pull secrets have it.

use std::fmt;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::error::{RegistryError, quoted};
use crate::reference::ImageReference;

/// Longest `config.json`, bytes: the limit of a Kubernetes Secret.
const MAX_FILE: usize = 1 << 20;
/// What to do where somebody else keeps the credentials.
const PUT_THEM: &str = "put user name and password into auths; logins of ECR, GCP and ACR are not supported";

/// User names and passwords by registry, or by a path in it.
#[derive(Clone, Default)]
pub struct DockerAuths(Vec<Entry>);

#[derive(Clone)]
struct Entry {
    host: String,
    /// Only repositories below it; empty: all.
    path: String,
    /// `user:password` in base64.
    basic: String,
}

impl DockerAuths {
    /// Reads `auths` with `auth`, or `username` and `password`. Keys: `HOST`, `HOST/PATH`, `https://HOST/v1/`.
    ///
    /// Errors: `config_invalid` for what is not such a file, and for `credsStore`, `credHelpers` and identity tokens.
    pub fn from_json(text: &[u8]) -> Result<Self, RegistryError> {
        let bad =
            |what: &str| RegistryError::config(format!("the registry's auth_file {what}"), "give a docker config.json");
        if text.len() > MAX_FILE {
            return Err(bad("is larger than 1 MiB"));
        }
        // serde_json's own words may show a piece of the file.
        let file: Value = serde_json::from_slice(text)
            .map_err(|error| bad(&format!("is not JSON (line {}, column {})", error.line(), error.column())))?;
        let object = file.as_object().ok_or_else(|| bad("is no JSON object"))?;
        for key in ["credsStore", "credHelpers"] {
            let is_set = |value: &Value| match value {
                Value::String(text) => !text.is_empty(),
                Value::Object(map) => !map.is_empty(),
                other => !other.is_null(),
            };
            if object.get(key).is_some_and(is_set) {
                return Err(RegistryError::config(
                    format!("the registry's auth_file has {key}: not supported"),
                    PUT_THEM,
                ));
            }
        }
        let none = serde_json::Map::new();
        let auths = match object.get("auths") {
            None | Some(Value::Null) => &none,
            Some(value) => value.as_object().ok_or_else(|| bad("has auths that are no JSON object"))?,
        };
        let entries = auths.iter().map(|(key, value)| entry(key, value));
        Ok(Self(entries.filter_map(Result::transpose).collect::<Result<_, _>>()?))
    }

    /// `user:password` in base64 for that repository: of the longest path that holds it.
    pub(crate) fn basic(&self, image: &ImageReference) -> Option<&str> {
        let path = image.path();
        let holds = |entry: &&Entry| {
            let below = path.strip_prefix(&entry.path);
            entry.host.eq_ignore_ascii_case(image.host())
                && below.is_some_and(|rest| entry.path.is_empty() || rest.is_empty() || rest.starts_with('/'))
        };
        self.0.iter().filter(holds).max_by_key(|entry| entry.path.len()).map(|entry| entry.basic.as_str())
    }
}

impl fmt::Debug for DockerAuths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|entry| &entry.host)).finish()
    }
}

/// `None` for an entry without credentials: docker leaves these behind.
fn entry(key: &str, value: &Value) -> Result<Option<Entry>, RegistryError> {
    let bad = |what: &str| {
        let what = format!("the entry {} of the registry's auth_file {what}", quoted(key));
        RegistryError::config(what, "give it auth, the base64 of USER:PASSWORD, or username and password")
    };
    let text = |name: &str| value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    if text("identitytoken").or(text("registrytoken")).is_some() {
        return Err(RegistryError::config(bad("has a token: not supported").what, PUT_THEM));
    }
    let pair = match (text("auth"), text("username"), text("password")) {
        (Some(auth), ..) => BASE64_STANDARD.decode(auth.trim()).map_err(|_| bad("has an auth that is not base64"))?,
        (None, Some(user), Some(password)) => format!("{user}:{password}").into_bytes(),
        (None, None, None) => return Ok(None),
        _ => return Err(bad("has only one of username and password")),
    };
    if !pair.contains(&b':') {
        return Err(bad("has an auth without ':'"));
    }
    let bare = key.strip_prefix("https://").or_else(|| key.strip_prefix("http://")).unwrap_or(key);
    let (host, path) = bare.split_once('/').unwrap_or((bare, ""));
    let host = match host {
        "index.docker.io" | "registry-1.docker.io" => "docker.io",
        host => host,
    };
    let path = match path.trim_matches('/') {
        "v1" | "v2" => "",
        path => path,
    };
    Ok(Some(Entry { host: host.to_owned(), path: path.to_owned(), basic: BASE64_STANDARD.encode(pair) }))
}
