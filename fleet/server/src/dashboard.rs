//! What pages work with besides what the admin API does.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Semaphore;

#[cfg(feature = "oidc")]
use crate::oidc::{Login, Oidc};
#[cfg(feature = "oidc")]
use crate::outbound::Outbound;
use crate::sessions::{Failures, Sessions};

/// Browsers that are told what changes, at a time.
const STREAMS: usize = 256;

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
    pub(crate) login: Option<Login>,
    streams: Arc<AtomicUsize>,
    /// One at a time.
    pub(crate) simulations: Arc<Semaphore>,
}

/// A place of a stream; dropping it gives it back.
pub(crate) struct Stream(Arc<AtomicUsize>);

impl Dashboard {
    /// Nobody is logged in.
    pub(crate) fn new(is_secure: bool, public_addr: Option<String>) -> Self {
        Self {
            sessions: Sessions::default(),
            failures: Failures::default(),
            #[cfg(feature = "oidc")]
            provider_failures: Failures::default(),
            is_secure,
            public_addr,
            #[cfg(feature = "oidc")]
            login: None,
            streams: Arc::default(),
            simulations: Arc::new(Semaphore::new(1)),
        }
    }

    /// The same, where people also log in by a provider. `None`: there are no random numbers.
    #[cfg(feature = "oidc")]
    pub(crate) fn with_login(self, oidc: Oidc, outbound: Outbound) -> Option<Self> {
        Some(Self { login: Some(Login::new(oidc, outbound)?), ..self })
    }

    /// The provider by which people log in, for the form; empty: there is none.
    pub(crate) fn provider(&self) -> &str {
        #[cfg(feature = "oidc")]
        if let Some(login) = &self.login {
            return login.host();
        }
        ""
    }

    pub(crate) fn stream(&self) -> Option<Stream> {
        let place = Stream(Arc::clone(&self.streams));
        (self.streams.fetch_add(1, Ordering::Relaxed) < STREAMS).then_some(place)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn so_many_pages_follow_the_server_and_one_that_ends_makes_place() {
        let dashboard = Dashboard::new(false, None);
        let mut streams: Vec<_> = (0..STREAMS).map(|_| dashboard.stream().unwrap()).collect();
        assert!((0..100).all(|_| dashboard.stream().is_none()));
        streams.pop();
        assert!(dashboard.stream().is_some());
    }
}
