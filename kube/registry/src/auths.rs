//! Credentials from a docker `config.json`, as Kubernetes' pull secrets have it.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};

use crate::Result;
use crate::error::{RegistryCode, RegistryError, quoted};
use crate::reference::ImageReference;

/// Largest `config.json`, bytes: the limit of a Kubernetes Secret.
const MAX_FILE: usize = 1 << 20;

/// User names and passwords by place: `HOST/` or `HOST/PATH/`, and `user:password` in base64. Not `Debug`: a log must not have them.
#[derive(Clone, Default)]
pub struct DockerAuths(Vec<(String, String)>);

impl DockerAuths {
    /// Reads `auths` with `auth`, or `username` and `password`. Keys: `HOST`, `HOST/PATH`, `https://HOST/v1/`.
    ///
    /// Errors: `config_invalid` for what is not such a file, and for `credsStore`, `credHelpers` and identity tokens.
    pub fn from_json(text: &[u8]) -> Result<Self> {
        // serde_json's own words may show a piece of the file.
        let file: Option<Value> = serde_json::from_slice(text).ok().filter(|_| text.len() <= MAX_FILE);
        let file = file.ok_or_else(|| refused("is not JSON, or larger than 1 MiB"))?;
        let is_empty = |value: &&Value| [json!(null), json!(""), json!({})].contains(value);
        let part = |key: &str| file.get(key).filter(|value| !is_empty(value));
        if let Some(key) = ["credsStore", "credHelpers"].into_iter().find(|key| part(key).is_some()) {
            return Err(refused(&format!("has {key}, which is not supported")));
        }
        let auths = part("auths").map(|auths| auths.as_object().ok_or_else(|| refused("has auths that are no object")));
        let entries = auths.transpose()?.into_iter().flatten().map(|(key, value)| entry(key, value));
        Ok(Self(entries.filter_map(Result::transpose).collect::<Result<_>>()?))
    }

    /// `user:password` in base64 for that repository: of the longest path that holds it.
    pub(crate) fn basic(&self, image: &ImageReference) -> Option<&str> {
        let whole = format!("{}/{}/", image.host(), image.path());
        let fit = self.0.iter().filter(|(place, _)| whole.starts_with(place));
        fit.max_by_key(|(place, _)| place.len()).map(|(_, basic)| basic.as_str())
    }
}

/// `None` for an entry without credentials: docker leaves these behind.
fn entry(key: &str, value: &Value) -> Result<Option<(String, String)>> {
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
    let host = if host.ends_with(".docker.io") { "docker.io" } else { host };
    let place = match path.trim_matches('/') {
        "" | "v1" | "v2" => format!("{host}/"),
        path => format!("{host}/{path}/"),
    };
    Ok(Some((place, BASE64_STANDARD.encode(pair))))
}

fn refused(what: &str) -> RegistryError {
    let advice = "give a docker config.json with auths; logins of ECR, GCP and ACR are not supported";
    RegistryError::new(RegistryCode::ConfigInvalid, format!("the registry's auth_file {what}"), advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(config: &str, image: &str) -> Option<String> {
        let basic = DockerAuths::from_json(config.as_bytes()).unwrap().basic(&image.parse().unwrap())?.to_owned();
        Some(String::from_utf8(BASE64_STANDARD.decode(basic).unwrap()).unwrap())
    }

    #[test]
    fn credentials_are_found_by_each_kind_of_key() {
        for (key, image) in [
            ("r.example", "r.example/a"),
            ("r.example:5000", "r.example:5000/a"),
            ("https://r.example/v1/", "r.example/a"),
            ("https://r.example/v2/", "r.example/a/b"),
            ("http://r.example", "r.example/a"),
            ("https://index.docker.io/v1/", "a"),
            ("docker.io", "docker.io/team/a"),
            ("registry-1.docker.io", "team/a"),
            ("r.example/team", "r.example/team/a"),
            ("r.example/team/a", "r.example/team/a"),
        ] {
            let config = format!(r#"{{"auths": {{"{key}": {{"auth": "bWU6c2VjcmV0"}}}}}}"#);
            assert_eq!(sent(&config, image).as_deref(), Some("me:secret"), "{key}");
            assert_eq!(sent(&config, "other.example/team/a"), None, "{key}");
            assert_eq!(sent(&config, &format!("x{}", "r.example/team/a")), None, "{key}");
        }
        let config =
            r#"{"auths": {"r.example": {"username": "me", "password": "a:b"}, "r.example/team/a": {"auth": "eDp5"}}}"#;
        assert_eq!(sent(config, "r.example/team/b").as_deref(), Some("me:a:b"));
        assert_eq!(sent(config, "r.example/team/ab").as_deref(), Some("me:a:b"));
        assert_eq!(sent(config, "r.example/team/a").as_deref(), Some("x:y"));
    }

    #[test]
    fn a_file_without_credentials_is_good_and_one_that_hides_them_elsewhere_is_refused() {
        for good in ["{}", r#"{"auths": null, "credsStore": "", "credHelpers": {}}"#, r#"{"auths": {"r.example": {}}}"#]
        {
            assert_eq!(sent(good, "r.example/a"), None, "{good}");
        }
        for (bad, what) in [
            (r#"{"credsStore": "desktop"}"#, "has credsStore, which is not supported"),
            (r#"{"credHelpers": {"registry.example": "helper"}}"#, "has credHelpers, which is not supported"),
            (r#"{"auths": {"r": {"identitytoken": "secret"}}}"#, "has for \"r\" a token, which is not supported"),
            (r#"{"auths": {"r": {"auth": "secret!"}}}"#, "has for \"r\" an auth that is not base64"),
            (r#"{"auths": {"r": {"auth": "c2VjcmV0"}}}"#, "has for \"r\" an auth without ':'"),
            (r#"{"auths": {"r": {"username": "secret"}}}"#, "has for \"r\" only one of username and password"),
            (r#"{"auths": []}"#, "has auths that are no object"),
            ("secret", "is not JSON, or larger than 1 MiB"),
            ("", "is not JSON, or larger than 1 MiB"),
            (&format!("{{}}{}", " ".repeat(MAX_FILE)), "is not JSON, or larger than 1 MiB"),
        ] {
            let error = DockerAuths::from_json(bad.as_bytes()).err().unwrap();
            assert_eq!(error.code, RegistryCode::ConfigInvalid);
            assert_eq!(error.what, format!("the registry's auth_file {what}"));
        }
    }
}
