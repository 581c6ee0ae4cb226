//! What pages work with besides what the admin API does.

use std::sync::Arc;

use tokio::sync::Semaphore;

#[cfg(feature = "oidc")]
use crate::oidc::{Oidc, OidcLogin};
#[cfg(feature = "oidc")]
use crate::outbound::Outbound;
use crate::sessions::{Failures, Sessions};

/// See the head of this file.
#[derive(Clone)]
pub(crate) struct Dashboard {
    /// Who is logged in.
    pub(crate) sessions: Sessions,
    /// Who tried in vain.
    pub(crate) failures: Failures,
    /// Whose logins by the provider failed; who guesses tokens keeps nobody from those.
    #[cfg(feature = "oidc")]
    pub(crate) provider_failures: Failures,
    /// Browsers reach it by TLS, ours or a proxy's.
    pub(crate) is_secure: bool,
    /// What links name; where a proxy changes the request's `Host`, forms are known by it.
    pub(crate) public_addr: Option<String>,
    /// Logs in people whom a provider names; `None`: tokens alone do.
    #[cfg(feature = "oidc")]
    pub(crate) login: Option<OidcLogin>,
    /// One at a time.
    pub(crate) simulations: Arc<Semaphore>,
}

impl Dashboard {
    /// With these sessions.
    pub(crate) fn new(sessions: Sessions, is_secure: bool, public_addr: Option<String>) -> Self {
        Self {
            sessions,
            failures: Failures::default(),
            #[cfg(feature = "oidc")]
            provider_failures: Failures::default(),
            is_secure,
            public_addr,
            #[cfg(feature = "oidc")]
            login: None,
            simulations: Arc::new(Semaphore::new(1)),
        }
    }

    /// The same, where people also log in by a provider.
    #[cfg(feature = "oidc")]
    pub(crate) fn with_login(self, oidc: Oidc, outbound: Outbound) -> Self {
        Self { login: Some(OidcLogin::new(oidc, outbound)), ..self }
    }

    /// The provider by which people log in, for the form; empty: there is none.
    pub(crate) fn provider(&self) -> &str {
        #[cfg(feature = "oidc")]
        if let Some(login) = &self.login {
            return login.host();
        }
        ""
    }
}
