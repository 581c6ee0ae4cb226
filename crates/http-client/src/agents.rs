//! The agents of the HTTP library: whom they trust, and how long they wait. Made with the first request.

use std::sync::{Arc, OnceLock};

use error::{Code, Error, Result};
use ureq::Agent;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use super::awaited::Awaited;
use super::resolve::Names;
use super::settings::HttpSettings;
use super::trust::{self, Places};

/// The agents of one client, and what they are made from.
pub(super) struct Agents {
    pub settings: HttpSettings,
    pub awaited: Awaited,
    own_roots: Vec<Certificate<'static>>,
    /// Believes the system's bundle.
    agent: OnceLock<Result<Agent>>,
    /// Believes everything that the system believes: made when a server's authority was not in the bundle.
    thorough: OnceLock<Result<Agent>>,
}

impl Agents {
    /// Errors: as [`super::Client::new`].
    pub(super) fn new(settings: &HttpSettings) -> Result<Self> {
        settings.proxies.check()?;
        let own_roots = settings.ca_pem.as_deref().map_or(Ok(Vec::new()), trust::certificates);
        let own_roots = own_roots.map_err(|error| error.during(settings.ca_place))?;
        let (agent, thorough) = (OnceLock::new(), OnceLock::new());
        Ok(Self { settings: settings.clone(), awaited: Awaited::default(), own_roots, agent, thorough })
    }

    /// The agent that believes most of those made so far.
    pub(super) fn agent(&self) -> Result<Agent> {
        self.thorough.get().unwrap_or_else(|| self.agent.get_or_init(|| self.agent_with(Places::Bundle))).clone()
    }

    /// An agent that believes more than [`Agents::agent`] did; `None` if there is nobody more to believe.
    pub(super) fn more_trusting(&self) -> Option<Result<Agent>> {
        let is_used_up = self.thorough.get().is_some() || !trust::are_systems(&self.settings);
        (!is_used_up).then(|| self.thorough.get_or_init(|| self.agent_with(Places::Everywhere)).clone())
    }

    fn agent_with(&self, places: Places) -> Result<Agent> {
        let settings = &self.settings;
        let mut roots = self.own_roots.clone();
        if !settings.insecure {
            roots.extend(trust::system_roots(settings, places));
            if roots.is_empty() {
                return Err(Error::new(Code::ConfigInvalid, "this system has no trusted certificate authorities")
                    .advise("install ca-certificates, set SSL_CERT_FILE, or use --ca-file"));
            }
        }
        let timeouts = &settings.timeouts;
        let tls = TlsConfig::builder()
            .root_certs(RootCerts::new_with_certs(&roots))
            .disable_verification(settings.insecure)
            .unversioned_rustls_crypto_provider(Arc::new(trust::provider()))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .http_status_as_error(false)
            .max_redirects(0)
            .max_redirects_will_error(false)
            .user_agent(settings.user_agent)
            .proxy(None)
            .timeout_resolve(Some(timeouts.resolve))
            .timeout_connect(Some(timeouts.connect))
            .timeout_send_request(Some(timeouts.send))
            .timeout_recv_response(Some(timeouts.answer))
            .timeout_per_read(Some(timeouts.read))
            .timeout_per_write(Some(timeouts.send))
            .build();
        let names = Names { trace: settings.trace.clone(), awaited: self.awaited.clone() };
        Ok(Agent::with_parts(config, self.awaited.connector(), names))
    }
}
