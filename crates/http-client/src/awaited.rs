//! What a request waits for, as it is said once a server has been silent for a while.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ureq::http::Uri;
use ureq::unversioned::transport::{
    ConnectProxyConnector, ConnectionDetails, Connector, RustlsConnector, TcpConnector, Transport,
};

/// What the requests of one client wait for.
#[derive(Debug, Clone, Default)]
pub(super) struct Awaited(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    now: String,
    /// Each is said once.
    said: Vec<String>,
    /// `HOST:PORT` of the HTTP proxy that the request goes through.
    proxy: Option<String>,
}

impl Awaited {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A request to `uri` begins, maybe on a connection that is there.
    pub(super) fn begin(&self, uri: &Uri, proxy: Option<String>) {
        self.state().proxy = proxy;
        self.answer(uri);
    }

    /// A name is looked up.
    pub(super) fn name(&self, host: &str) {
        self.state().now = format!("the name server: {host}");
    }

    fn answer(&self, uri: &Uri) {
        self.set("the answer of", uri);
    }

    fn set(&self, what: &str, uri: &Uri) {
        let mut state = self.state();
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let place = format!("{}:{port}", uri.host().unwrap_or_default());
        let kind = if state.proxy.as_ref() == Some(&place) { "the HTTP proxy " } else { "" };
        state.now = format!("{what} {kind}{place}");
    }

    /// What is waited for now, unless that was said before.
    pub(super) fn unsaid(&self) -> Option<String> {
        let mut state = self.state();
        let now = state.now.clone();
        if state.said.contains(&now) {
            return None;
        }
        state.said.push(now.clone());
        Some(now)
    }

    /// The library's own chain of connectors, with what each waits for between them.
    pub(super) fn connector(&self) -> impl Connector<(), Out = impl Transport> {
        let wait = |what| Wait { awaited: self.clone(), what };
        ().chain(wait("a connection to"))
            .chain(ConnectProxyConnector::default())
            .chain(TcpConnector::default())
            .chain(wait("the TLS handshake of"))
            .chain(RustlsConnector::default())
            .chain(wait("the answer of"))
    }
}

/// Notes what the connectors behind it wait for.
struct Wait {
    awaited: Awaited,
    what: &'static str,
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Wait")
    }
}

impl<In: Transport> Connector<In> for Wait {
    type Out = In;

    fn connect(&self, details: &ConnectionDetails<'_>, chained: Option<In>) -> Result<Option<In>, ureq::Error> {
        self.awaited.set(self.what, details.uri);
        Ok(chained)
    }
}
