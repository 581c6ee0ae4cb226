//! The ConfigMap of the state, and the Secret of the keys: each is swapped by its resourceVersion, so that two processes cannot
//! both believe that they changed it (KUBE §1, §9).

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use crate::api::{Api, ApiFault, KubeResult};
use crate::state::KeptState;

/// For so long what was read of the ConfigMap is taken as it is; a swap finds out if it is not.
const FRESH: Duration = Duration::from_secs(2);

/// The states of all agents of this installation.
pub struct StateMap {
    api: Api,
    name: String,
    version: String,
    texts: BTreeMap<String, String>,
    /// What stood in each key when its state was last given out.
    given: BTreeMap<String, Option<String>>,
    read_at: Option<Instant>,
}

impl StateMap {
    /// `name`: of the ConfigMap.
    pub fn new(api: Api, name: &str) -> Self {
        Self {
            api,
            name: name.to_owned(),
            version: String::new(),
            texts: BTreeMap::new(),
            given: BTreeMap::new(),
            read_at: None,
        }
    }

    /// Reads it, unless it was read just now.
    ///
    /// Errors: those of the API server; a ConfigMap that is not there names the manifest.
    pub async fn refresh(&mut self) -> KubeResult<()> {
        if self.read_at.is_some_and(|at| at.elapsed() < FRESH) {
            return Ok(());
        }
        let found = self.api.shipped("ConfigMap", &self.name).await?;
        self.take(&found);
        Ok(())
    }

    fn take(&mut self, found: &Value) {
        self.texts = protocol::installer::attributes(&found["data"]);
        self.version = found["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
        self.read_at = Some(Instant::now());
    }

    /// The state of an agent, for whoever is going to swap it.
    ///
    /// Errors: a line that says what is wrong with what stands there.
    pub fn state(&mut self, key: &str) -> Result<KeptState, String> {
        self.given.insert(key.to_owned(), self.texts.get(key).cloned());
        self.parsed(key)
    }

    fn parsed(&self, key: &str) -> Result<KeptState, String> {
        let broken = |why| {
            format!("key {key} of the ConfigMap {} cannot be read: {why}; remove the key, or put it right", self.name)
        };
        KeptState::parse(self.texts.get(key).map(String::as_str)).map_err(broken)
    }

    /// The states of the others whose keys these are; what cannot be read is left out.
    pub fn others<'a>(&'a self, keys: &'a [String]) -> impl Iterator<Item = (&'a str, KeptState)> {
        keys.iter().filter_map(|key| Some((key.as_str(), self.parsed(key).ok()?)))
    }

    /// Writes the state of an agent, if nobody has changed it since it was given out, nor the ConfigMap since it was read.
    ///
    /// Errors: `Conflict`: nothing was written. Another one: whether it was is not known; what is known is forgotten.
    pub async fn swap(&mut self, key: &str, state: &KeptState) -> KubeResult<()> {
        let text = state.json();
        // Another agent of this process may have read the ConfigMap since: its version alone does not tell.
        if self.given.get(key).is_some_and(|given| given.as_ref() != self.texts.get(key)) {
            return Err(ApiFault::Conflict(format!("{key} has changed meanwhile")));
        }
        let change = json!({ "metadata": { "resourceVersion": self.version }, "data": { key: text } });
        self.read_at = None;
        let found = self.api.merge("ConfigMap", &self.name, change).await?;
        self.take(&found);
        self.given.insert(key.to_owned(), self.texts.get(key).cloned());
        Ok(())
    }
}

/// A text of a Secret.
pub fn decoded(base64: &str) -> Option<String> {
    String::from_utf8(STANDARD.decode(base64).ok()?).ok()
}

/// The seed of the key by which an agent asks and reports, from the Secret; made and kept where there is none.
///
/// Errors: those of the API server; `Invalid` for one that is damaged.
pub async fn seed(api: &Api, secret: &str, key: &str) -> KubeResult<String> {
    let damaged = || ApiFault::Invalid(format!("key {key} of the Secret {secret} is no key; remove it"));
    let found = api.shipped("Secret", secret).await?;
    if let Some(text) = found["data"][key].as_str().filter(|text| !text.is_empty()) {
        return decoded(text).ok_or_else(damaged);
    }
    let seed = sources::new_seed().map_err(|error| ApiFault::Away(error.to_string()))?;
    let version = &found["metadata"]["resourceVersion"];
    let change = json!({ "metadata": { "resourceVersion": version }, "data": { key: STANDARD.encode(&seed) } });
    api.merge("Secret", secret, change).await?;
    Ok(seed)
}
