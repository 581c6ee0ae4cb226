//! Channels that are another server's (RFD 0109): asked at most once a minute, whoever asks here.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use fleet_wire::answers::channel::{Forward, read_critical, read_version};
use protocol::Version;
use tokio::sync::watch;

use crate::clock;
use crate::failure::ApiFailure;
use crate::load::Load;
use crate::outbound::Outbound;

/// Most bytes of a version or a word.
const MAX_BODY: u64 = 4096;

/// What is known of other servers' channels, by their addresses. There are no more of them than channels were written.
#[derive(Clone)]
pub(crate) struct Forwards {
    outbound: Outbound,
    versions: ForwardTable<Option<Version>>,
    critical: ForwardTable<bool>,
}

type ForwardTable<T> = Arc<Mutex<HashMap<String, ForwardEntry<T>>>>;

impl Forwards {
    pub(crate) fn new(outbound: Outbound) -> Self {
        Self { outbound, versions: ForwardTable::default(), critical: ForwardTable::default() }
    }

    /// The version of the channel at `url`; inside `None`: it says that there is none. Outside: it is not known.
    ///
    /// # Errors
    /// Too many wait for other servers already.
    pub(crate) async fn version(&self, url: &str, load: &Load) -> Result<Option<Option<Version>>, ApiFailure> {
        let address = format!("{url}/version");
        let shown = address.clone();
        self.of(&self.versions, address, load, move |body| {
            let failed = |error: &String| tracing::warn!(url = shown, error, "a forwarded channel answered nonsense");
            read_version(body).inspect_err(failed).ok()
        })
        .await
    }

    /// Whether the channel at `url` is critical; one that cannot be asked is not.
    ///
    /// # Errors
    /// Too many wait for other servers already.
    pub(crate) async fn is_critical(&self, url: &str, load: &Load) -> Result<bool, ApiFailure> {
        let known = self.of(&self.critical, format!("{url}/critical"), load, |body| Some(read_critical(body))).await;
        known.map(|critical| critical.unwrap_or(false))
    }

    /// The question goes on though whoever asked first has left; the others wait for its answer.
    async fn of<T: Clone + Default + Send + 'static>(
        &self,
        known: &ForwardTable<T>,
        url: String,
        load: &Load,
        read: impl Fn(&[u8]) -> Option<T> + Send + 'static,
    ) -> Result<Option<T>, ApiFailure> {
        let asking = {
            let mut known_now = lock(known);
            let entry = known_now.entry(url.clone()).or_default();
            if entry.forward.is_due(clock::now()) {
                entry.forward.ask(clock::now());
                let (done, asking) = watch::channel(false);
                entry.asking = asking;
                let (outbound, known, url) = (self.outbound.clone(), Arc::clone(known), url.clone());
                tokio::spawn(async move {
                    let body = outbound.get(&url, MAX_BODY).await;
                    let failed = |error: &String| tracing::warn!(url, error, "a forwarded channel cannot be asked");
                    let value = body.inspect_err(failed).ok().and_then(|body| read(&body));
                    lock(&known).entry(url).or_default().forward.take(value, clock::now());
                    // Nobody may be waiting.
                    let _ = done.send(true);
                });
            }
            entry.asking.clone()
        };
        let value_now = || lock(known).get(&url).and_then(|asked| asked.forward.at(clock::now()).cloned());
        let value = value_now();
        if value.is_none() {
            let _place = load.wait()?;
            let mut asking = asking;
            // An error is the end of the question as well.
            let _ = asking.wait_for(|is_done| *is_done).await;
            return Ok(value_now());
        }
        Ok(value)
    }
}

/// What is known of an address, and whether it is being asked.
struct ForwardEntry<T> {
    forward: Forward<T>,
    asking: watch::Receiver<bool>,
}

impl<T: Default> Default for ForwardEntry<T> {
    fn default() -> Self {
        Self { forward: Forward::default(), asking: watch::channel(true).1 }
    }
}

fn lock<T>(known: &ForwardTable<T>) -> std::sync::MutexGuard<'_, HashMap<String, ForwardEntry<T>>> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}
