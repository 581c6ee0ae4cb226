//! Tells receivers outside what happened: a webhook, a command (FLEET §6). Each receiver has a thread and a place in the audit log
//! of its own, so that none delays another, an answer or a decision; and at least once, in order.

mod command;
mod event;
mod lasting;
mod meter;
mod settings;
mod teller;
mod way;
mod webhook;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use fleet_store::Reader;

use crate::core::Core;
use crate::outbound::Outbound;

pub(crate) use meter::{Meters, Shown};
pub(crate) use settings::{Receivers, doctor};

use command::Command;
use teller::{HEAD_EVERY, Teller};
use way::Way;
use webhook::Webhook;

/// Starts a thread for each receiver of `receivers`. What is decided when this has returned is told. The threads end with the
/// process: what they have not told is told after the next start.
///
/// # Errors
/// A thread cannot be started: one line.
pub(crate) fn start(receivers: &Receivers, data: &Path, core: &Core, outbound: &Outbound) -> Result<Meters, String> {
    let mut meters = Meters::default();
    let mut begin = |name: &'static str, way: Box<dyn Way>| {
        let meter = meters.add(name);
        let teller = Teller::begin(name, data.to_owned(), Arc::clone(core.board()), core.events(), meter, way);
        let thread = std::thread::Builder::new().name(format!("tell-{name}")).spawn(move || teller.run());
        thread.map(drop).map_err(|error| format!("cannot start a thread: {error}"))
    };
    if let Some((url, secret_file)) = &receivers.webhook {
        let webhook = Webhook::new(url.clone(), secret_file.clone(), outbound.clone());
        begin("webhook", Box::new(webhook))?;
    }
    if let Some(words) = &receivers.command {
        begin("command", Box::new(Command::new(words.clone())))?;
    }
    Ok(meters)
}

/// Notes the audit log's head in the server's own log: at the start, and each hour.
pub(crate) async fn log_heads(data: PathBuf) {
    let mut due = tokio::time::interval(HEAD_EVERY);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        let data = data.clone();
        let head = tokio::task::spawn_blocking(move || Reader::open(&data).and_then(|reader| reader.head())).await;
        match head {
            Ok(Ok(head)) => tracing::info!(seq = head.seq, hash = head.hash, "head of the audit log"),
            Ok(Err(error)) => tracing::warn!(%error, "the head of the audit log cannot be read"),
            // The server ends.
            Err(_) => return,
        }
    }
}
