//! Credentials from a docker `config.json`, as Kubernetes' pull secrets have it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use crate::Result;
use crate::error::{RegistryCode, RegistryError, quoted};
use crate::reference::ImageReference;

/// Largest `config.json`, bytes: the limit of a Kubernetes Secret.
const MAX_FILE: usize = 1 << 20;

/// User names and passwords by registry, or by a path in it. Not `Debug`: a log must not have them.
#[derive(Clone, Default)]
pub struct DockerAuths(Vec<AuthEntry>);

#[derive(Clone)]
struct AuthEntry {
    host: String,
    /// Only for repositories below it; empty: for all.
    path: String,
    /// `user:password` in base64.
    basic: String,
}

impl DockerAuths {
    /// Reads `auths` with `auth`, or `username` and `password`. Keys: `HOST`, `HOST/PATH`, `https://HOST/v1/`.
    ///
    /// Errors: `config_invalid` for what is not such a file, and for `credsStore`, `credHelpers` and identity tokens.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        // serde_json's own words may show a piece of the file.
        let file: Option<Value> = serde_json::from_slice(text).ok().filter(|_| text.len() <= MAX_FILE);
        let file = file.ok_or_else(|| refused("is not JSON, or larger than 1 MiB"))?;
        let part = |key: &str| {
            file.get(key)
                .filter(|value| !value.is_null() && *value != "" && *value != &Value::Object(Default::default()))
        };
        if let Some(key) = ["credsStore", "credHelpers"].into_iter().find(|key| part(key).is_some()) {
            return Err(refused(&format!("has {key}, which is not supported")));
        }
        let auths = part("auths").map(|auths| auths.as_object().ok_or_else(|| refused("has auths that are no object")));
        let entries = auths.transpose()?.into_iter().flatten().map(|(key, value)| entry(key, value));
        Ok(Self(entries.filter_map(Result::transpose).collect::<Result<_>>()?))
    }

    /// `user:password` in base64 for that repository: of the longest path that holds it.
    pub(crate) fn basic(&self, image: &ImageReference) -> Option<&str> {
        let path = format!("{}/", image.path());
        let holds = |entry: &&AuthEntry| entry.host == image.host() && path.starts_with(&entry.path);
        self.0.iter().filter(holds).max_by_key(|entry| entry.path.len()).map(|entry| entry.basic.as_str())
    }
}

/// `None` for an entry without credentials: docker leaves these behind.
fn entry(key: &str, value: &Value) -> Result<Option<AuthEntry>> {
    let bad = |what: &str| refused(&format!("has for {} {what}", quoted(key)));
    let text = |name: &str| value.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    if text("identitytoken").or(text("registrytoken")).is_some() {
        return Err(bad("a token, which is not supported"));
    }
    let pair = match (text("auth"), text("username"), text("password")) {
        (Some(auth), ..) => BASE64_STANDARD.decode(auth).map_err(|_| bad("an auth that is not base64"))?,
        (None, Some(user), Some(password)) => format!("{user}:{password}").into_bytes(),
        (None, None, None) => return Ok(None),
        _ => return Err(bad("only one of username and password")),
    };
    if !pair.contains(&b':') {
        return Err(bad("an auth without ':'"));
    }
    let bare = key.split_once("://").map_or(key, |(_, bare)| bare);
    let (host, path) = bare.split_once('/').unwrap_or((bare, ""));
    let host = if host.ends_with(".docker.io") { "docker.io" } else { host }.to_owned();
    let path = match path.trim_matches('/') {
        "" | "v1" | "v2" => String::new(),
        path => format!("{path}/"),
    };
    Ok(Some(AuthEntry { host, path, basic: BASE64_STANDARD.encode(pair) }))
}

fn refused(what: &str) -> RegistryError {
    let advice =
        "give a docker config.json with user name and password in auths; logins of ECR, GCP and ACR are not supported";
    RegistryError::new(RegistryCode::ConfigInvalid, format!("the registry's auth_file {what}"), advice)
}
