//! Questions to other servers: short, bounded, and without following anybody elsewhere (FLEET §8).

use std::io::Read;
use std::time::Duration;

use http_client::{Client, HttpSettings};
use ureq::Agent;

/// How the server calls itself.
pub(crate) const USER_AGENT: &str = concat!("teleport-fleet/", env!("CARGO_PKG_VERSION"));
/// For a whole question (RFD 0109's proxies wait as long).
const TIMEOUT: Duration = Duration::from_secs(5);

/// What comes of a question that is sent.
type SendResult = Result<ureq::http::Response<ureq::Body>, ureq::Error>;

/// Asks other servers.
#[derive(Clone)]
pub(crate) struct Outbound {
    /// For a thread that may wait. An error's status is an error, unless the question says otherwise.
    pub(crate) agent: Agent,
}

impl Outbound {
    /// Trusts the authorities that this host trusts.
    pub(crate) fn new() -> Self {
        let config = Agent::config_builder()
            .tls_config(fleet_cli::trusting(&rustls_native_certs::load_native_certs().certs))
            .timeout_global(Some(TIMEOUT))
            // Who answers for the address is decided by who wrote it.
            .max_redirects(0)
            .http_status_as_error(true)
            .build();
        Self { agent: config.new_agent() }
    }

    /// The body of what `url` answers, at most `most` bytes.
    ///
    /// # Errors
    /// Why there is none: one line.
    pub(crate) async fn get(&self, url: &str, most: u64) -> Result<Vec<u8>, String> {
        let url = url.to_owned();
        self.ask(most, move |agent| agent.get(&url).call()).await.map(|(_, body)| body)
    }

    /// What is answered to what `send` sends: the status, and the body of at most `most` bytes.
    ///
    /// # Errors
    /// Why there is no answer: one line.
    pub(crate) async fn ask(
        &self,
        most: u64,
        send: impl FnOnce(&Agent) -> SendResult + Send + 'static,
    ) -> Result<(u16, Vec<u8>), String> {
        let agent = self.agent.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let answer = send(&agent).map_err(|error| error.to_string())?;
            let status = answer.status();
            if status.is_redirection() {
                return Err(format!("it answers {status}: redirects are not followed"));
            }
            let mut body = Vec::new();
            let read = answer.into_body().into_reader().take(most + 1).read_to_end(&mut body);
            read.map_err(|error| error.to_string())?;
            if u64::try_from(body.len()).unwrap_or(u64::MAX) > most {
                return Err(format!("the answer is longer than {most} bytes"));
            }
            Ok((status.as_u16(), body))
        });
        asked.await.unwrap_or_else(|error| Err(error.to_string()))
    }
}
/// A client for what the server itself asks at `url`, by the environment's proxies: https, or this host's own http, as resources may
/// name no other.
///
/// # Errors
/// A proxy's address is none.
pub(crate) fn client_for(url: &str) -> Result<Client, String> {
    let variable = |name: &str| std::env::var_os(name)?.into_string().ok();
    let insecure = url.starts_with("http://");
    let settings = HttpSettings { insecure, ..HttpSettings::from_env(USER_AGENT, &variable) };
    Client::new(&settings).map_err(|error| error.to_string())
}
