//! Registries by host, without sockets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use registry::{
    CosignKey, DockerAuths, ImageReference, Registry, RegistryCode, RegistryError, Transport, TransportCall,
    TransportReply,
};
use testing::cluster::Signer;
use testing::registry::{BodyEnd, RegistryQuestion, StandInRegistry};

/// Where the tests' images are.
pub(crate) const HOST: &str = "registry.example";

/// URL, `Authorization`.
type Call = (String, Option<String>);

/// What answers, by `SCHEME://HOST`; anything else is away.
#[derive(Clone, Default)]
pub(crate) struct Network {
    places: BTreeMap<String, StandInRegistry>,
    /// Every one.
    pub(crate) calls: Arc<Mutex<Vec<Call>>>,
}

impl Network {
    /// With a registry at `https://registry.example`.
    pub(crate) fn of(registry: &StandInRegistry) -> Self {
        Self::default().with(&format!("https://{HOST}"), registry)
    }

    pub(crate) fn with(mut self, origin: &str, registry: &StandInRegistry) -> Self {
        self.places.insert(origin.to_owned(), registry.clone());
        self
    }

    pub(crate) fn client(&self, config_json: &str, insecure: &[&str]) -> Registry {
        let auths = DockerAuths::from_json(config_json.as_bytes()).unwrap();
        Registry::new(Box::new(self.clone()), auths, insecure.iter().map(|host| (*host).to_owned()).collect())
    }

    /// Whom credentials of any kind were sent to: origins, each once.
    pub(crate) fn trusted(&self) -> Vec<String> {
        let calls = self.calls.lock().unwrap();
        let with = calls.iter().filter(|(_, authorization)| authorization.is_some());
        let mut origins: Vec<_> =
            with.map(|(url, _)| url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/")).collect();
        origins.sort();
        origins.dedup();
        origins
    }
}

impl Transport for Network {
    fn send(&self, call: &TransportCall<'_>) -> Result<TransportReply, RegistryError> {
        let authorization = call.authorization.map(str::to_owned);
        self.calls.lock().unwrap().push((call.url.to_owned(), authorization.clone()));
        let (scheme, rest) = call.url.split_once("://").unwrap();
        assert!(scheme == "https" || call.is_insecure, "{} is asked without being insecure", call.url);
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        let away = || RegistryError::unreachable(format!("cannot reach {host}"));
        let place = self.places.get(&format!("{scheme}://{host}")).ok_or_else(away)?;
        let method = if call.most.is_some() { "GET" } else { "HEAD" }.to_owned();
        let reply = place.answer(&RegistryQuestion { method, path: format!("/{path}"), authorization });
        match reply.end {
            BodyEnd::Cut | BodyEnd::Silence => return Err(away()),
            BodyEnd::Endless => return Err(RegistryError::too_large(call.url)),
            BodyEnd::Whole if reply.body.len() as u64 > call.most.unwrap_or_default() => {
                return Err(RegistryError::too_large(call.url));
            }
            BodyEnd::Whole => {}
        }
        Ok(TransportReply { status: reply.status, headers: reply.headers, body: reply.body })
    }
}

/// A client of that registry, without credentials.
pub(crate) fn open(registry: &StandInRegistry) -> Registry {
    Network::of(registry).client("{}", &[])
}

pub(crate) fn image(text: &str) -> ImageReference {
    text.parse().unwrap()
}

/// The agent at that tag.
pub(crate) fn agent(tag: &str) -> ImageReference {
    image(&format!("{HOST}/team/agent:{tag}"))
}

pub(crate) fn key(signer: &Signer) -> CosignKey {
    CosignKey::from_pem("cosign.pub", &signer.public_key_pem()).unwrap()
}

#[track_caller]
pub(crate) fn code<T: std::fmt::Debug>(result: Result<T, RegistryError>) -> RegistryCode {
    result.unwrap_err().code
}
