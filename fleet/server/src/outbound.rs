//! Questions to other servers: short, bounded, and without following anybody elsewhere (FLEET §8).

use std::io::Read;
use std::sync::Arc;
use std::time::Duration;

use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig, TlsProvider};

/// For a whole question (RFD 0109's proxies wait as long).
const TIMEOUT: Duration = Duration::from_secs(5);

/// Asks other servers.
#[derive(Clone)]
pub(crate) struct Outbound {
    agent: Agent,
}

impl Outbound {
    /// Trusts the authorities that this host trusts.
    pub(crate) fn new() -> Self {
        let roots = rustls_native_certs::load_native_certs().certs;
        let roots: Vec<_> =
            roots.iter().map(|cert| ureq::tls::Certificate::from_der(cert.as_ref()).to_owned()).collect();
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .root_certs(RootCerts::Specific(Arc::new(roots)))
            .unversioned_rustls_crypto_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
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
        let (agent, url) = (self.agent.clone(), url.to_owned());
        whole(most, move || agent.get(&url).call()).await.map(|(_, body)| body)
    }

    /// The same where only who shows `authorization` is answered: the status, which may be an error's, and the body.
    ///
    /// # Errors
    /// Why there is no answer: one line.
    #[cfg(feature = "oidc")]
    pub(crate) async fn get_as(&self, url: &str, authorization: String, most: u64) -> Result<(u16, Vec<u8>), String> {
        let (agent, url) = (self.agent.clone(), url.to_owned());
        whole(most, move || {
            let request = agent.get(&url).header("accept", "application/json").header("authorization", authorization);
            request.config().http_status_as_error(false).build().call()
        })
        .await
    }

    /// Posts `body` to `url` with these headers, for a thread that may wait: the status of the answer, whose body is not read.
    ///
    /// # Errors
    /// Why there is no answer within `timeout`: one line.
    pub(crate) fn tell(
        &self,
        url: &str,
        headers: &[(&str, &str)],
        body: String,
        timeout: Duration,
    ) -> Result<u16, String> {
        let request = headers.iter().fold(self.agent.post(url), |request, (name, value)| request.header(*name, *value));
        let request = request.config().timeout_global(Some(timeout)).http_status_as_error(false).build();
        request.send(body).map(|answer| answer.status().as_u16()).map_err(|error| error.to_string())
    }

    /// What `url` answers to a body of JSON within `timeout`, at most `most` bytes.
    ///
    /// # Errors
    /// Why there is no answer: one line.
    pub(crate) async fn post(&self, url: &str, json: String, timeout: Duration, most: u64) -> Result<Vec<u8>, String> {
        let (agent, url) = (self.agent.clone(), url.to_owned());
        whole(most, move || {
            let request = agent.post(&url).header("content-type", "application/json");
            request.config().timeout_global(Some(timeout)).build().send(json)
        })
        .await
        .map(|(_, body)| body)
    }

    /// What `url` answers to a form: the status, which may be an error's, and at most `most` bytes. `authorization` is the header's
    /// value, where there is one.
    ///
    /// # Errors
    /// Why there is no answer: one line.
    #[cfg(feature = "oidc")]
    pub(crate) async fn send_form(
        &self,
        url: &str,
        authorization: Option<String>,
        form: String,
        most: u64,
    ) -> Result<(u16, Vec<u8>), String> {
        let (agent, url) = (self.agent.clone(), url.to_owned());
        whole(most, move || {
            let request = agent.post(&url).header("content-type", "application/x-www-form-urlencoded");
            let request = request.header("accept", "application/json");
            let request = authorization.iter().fold(request, |request, value| request.header("authorization", value));
            request.config().http_status_as_error(false).build().send(form)
        })
        .await
    }
}

async fn whole(
    most: u64,
    ask: impl FnOnce() -> Result<ureq::http::Response<ureq::Body>, ureq::Error> + Send + 'static,
) -> Result<(u16, Vec<u8>), String> {
    let asked = tokio::task::spawn_blocking(move || {
        let answer = ask().map_err(|error| error.to_string())?;
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
