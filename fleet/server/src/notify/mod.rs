//! Tells a webhook what happened (FLEET §6). It has a thread and a place in the audit log of its own, so that it delays no answer and
//! no decision; and at least once, in order.

mod event;
mod lasting;
mod meter;
mod teller;
mod webhook;

use std::sync::Arc;

use fleet_store::{StorePlace, StoreReader};

use crate::core::Core;
use crate::outbound::Outbound;
use crate::tuf_site::TufWatch;

pub(crate) use meter::Meter;
pub(crate) use webhook::{Receiver, WEBHOOK, doctor};

use teller::{HEAD_EVERY, Teller};
use webhook::Webhook;

/// Starts the thread that tells `receiver`. What is decided when this has returned is told. The thread ends with the process: what it
/// has not told is told after the next start; where servers share the store, by the one that tells then. `id`: of this run of it.
///
/// # Errors
/// The thread cannot be started: one line.
pub(crate) fn start(
    receiver: Receiver,
    (place, id): (&StorePlace, String),
    core: &Core,
    outbound: &Outbound,
    tuf: TufWatch,
) -> Result<Arc<Meter>, String> {
    let meter = Arc::new(Meter::default());
    let webhook = Webhook { receiver, outbound: outbound.clone() };
    let (store, snapshot) = ((place.clone(), id), Arc::clone(core.snapshot()));
    let teller = Teller::begin(store, (snapshot, tuf), core.events(), Arc::clone(&meter), webhook);
    let thread = std::thread::Builder::new().name(format!("tell-{WEBHOOK}")).spawn(move || teller.run());
    thread.map(|_| meter).map_err(|error| format!("cannot start a thread: {error}"))
}

/// Notes the audit log's head in the server's own log: at the start, and each hour.
pub(crate) async fn log_heads(place: StorePlace) {
    let mut due = tokio::time::interval(HEAD_EVERY);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        let place = place.clone();
        let head =
            tokio::task::spawn_blocking(move || StoreReader::open(&place).and_then(|reader| reader.head())).await;
        match head {
            Ok(Ok(head)) => tracing::info!(seq = head.seq, hash = head.hash, "head of the audit log"),
            Ok(Err(error)) => tracing::warn!(%error, "the head of the audit log cannot be read"),
            // The server ends.
            Err(_) => return,
        }
    }
}
