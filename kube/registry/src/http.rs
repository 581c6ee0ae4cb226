//! The door to HTTP that leads somewhere.

use std::io::Read as _;
use std::time::Duration;

use http_client::{Client, HttpSettings, Request};

use crate::Result;
use crate::error::{RegistryCode, RegistryError};
use crate::transport::{Transport, TransportCall, TransportReply};

/// Longest time of a request with its body: 4 MiB over a bad line.
const LONGEST: Duration = Duration::from_secs(60);

/// The workspace's HTTP client: proxies, roots, time-outs.
#[derive(Debug)]
pub struct HttpTransport {
    checked: Client,
    unchecked: Client,
}

impl HttpTransport {
    /// `settings.insecure` has no meaning here: who is insecure, [`crate::Registry`] says with each call.
    ///
    /// Errors: `config_invalid` for a proxy's address or a `ca_pem` that cannot be used.
    pub fn new(settings: &HttpSettings) -> Result<Self> {
        let client = |insecure| {
            let made = Client::new(&HttpSettings { insecure, credentials: Vec::new(), ..settings.clone() });
            made.map_err(|error| RegistryError::new(RegistryCode::ConfigInvalid, error.what, "correct it"))
        };
        Ok(Self { checked: client(false)?, unchecked: client(true)? })
    }
}

impl Transport for HttpTransport {
    fn send(&self, call: &TransportCall<'_>) -> Result<TransportReply> {
        let mut ask = Request { head: call.most.is_none(), ..Request::get(call.url) }.within(Some(LONGEST));
        let fields = [("accept", Some(call.accept)), ("authorization", call.authorization)];
        ask.headers = fields.into_iter().filter_map(|(name, value)| Some((name, value?.to_owned()))).collect();
        let client = if call.is_insecure { &self.unchecked } else { &self.checked };
        let stream = client.once(&ask, &|| false).map_err(|error| RegistryError::unreachable(error.what))?;
        let (most, mut body) = (call.most.unwrap_or_default(), Vec::new());
        let read = if ask.head { Ok(0) } else { stream.body.take(most + 1).read_to_end(&mut body) };
        read.map_err(|_| {
            RegistryError::unreachable(format!("the answer of {} was cut", http_client::shown(call.url)))
        })?;
        if body.len() as u64 > most {
            return Err(RegistryError::too_large(call.url));
        }
        let fields = stream.headers.iter();
        let text = fields.filter_map(|(name, value)| Some((name.to_string(), value.to_str().ok()?.to_owned())));
        Ok(TransportReply { status: stream.status, headers: text.collect(), body })
    }
}
