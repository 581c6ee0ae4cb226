//! Channels that are another server's (RFD 0109): asked at most once a minute, whoever asks here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use fleet_answers::channel::{Forward, read_critical, read_version};
use protocol::Version;

use crate::clock;
use crate::outbound::Outbound;

/// Most bytes of a version or a word.
const MAX_BODY: u64 = 4096;

/// What is known of other servers' channels, by their addresses. There are no more of them than channels were written.
#[derive(Clone)]
pub(crate) struct Forwards {
    outbound: Outbound,
    versions: Known<Option<Version>>,
    critical: Known<bool>,
}

type Known<T> = Arc<Mutex<HashMap<String, Forward<T>>>>;

impl Forwards {
    pub(crate) fn new(outbound: Outbound) -> Self {
        Self { outbound, versions: Known::default(), critical: Known::default() }
    }

    /// The version of the channel at `url`; inside `None`: it says that there is none. Outside: it is not known.
    pub(crate) async fn version(&self, url: &str) -> Option<Option<Version>> {
        self.of(&self.versions, format!("{url}/version"), |body| {
            read_version(body)
                .inspect_err(|error| tracing::warn!(url, error, "a forwarded channel answered nonsense"))
                .ok()
        })
        .await
    }

    /// Whether the channel at `url` is critical; one that cannot be asked is not.
    pub(crate) async fn is_critical(&self, url: &str) -> bool {
        self.of(&self.critical, format!("{url}/critical"), |body| Some(read_critical(body))).await.unwrap_or(false)
    }

    async fn of<T: Clone>(&self, known: &Known<T>, url: String, read: impl Fn(&[u8]) -> Option<T>) -> Option<T> {
        if lock(known).entry(url.clone()).or_default().is_due(clock::now()) {
            lock(known).entry(url.clone()).or_default().ask(clock::now());
            let body = self.outbound.get(&url, MAX_BODY).await;
            let body = body.inspect_err(|error| tracing::warn!(url, error, "a forwarded channel cannot be asked")).ok();
            let value = body.and_then(|body| read(&body));
            lock(known).entry(url.clone()).or_default().take(value, clock::now());
        }
        let known = lock(known);
        known.get(&url)?.at(clock::now()).value().cloned()
    }
}

fn lock<T>(known: &Known<T>) -> std::sync::MutexGuard<'_, HashMap<String, Forward<T>>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}
