//! The core: one thread that owns what is known and decides. Everybody else sends it what to do, or reads the snapshot.

mod actor;
mod approvals;
mod changes;
pub(crate) mod commands;
pub(crate) mod counts;
pub(crate) mod directives;
pub(crate) mod dry_runs;
mod enrolments;
mod host_table;
pub(crate) mod hosts;
mod inbox;
pub(crate) mod many;
mod publish;
mod questions;
pub(crate) mod release;
mod repeats;
pub(crate) mod reports;
pub(crate) mod resources;
pub(crate) mod rollouts;
mod search;
mod snapshot;
mod state;
#[cfg(test)]
mod tests;
mod times;
pub(crate) mod tokens;
mod tx;
pub(crate) mod version_control;
mod worker;

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

use fleet_store::StorePlace;
use fleet_wire::answers::find::Cluster;
use fleet_wire::api::{ApiError, AuditEntry, Code};
use tokio::sync::{broadcast, oneshot};

pub(crate) use actor::Actor;
pub(crate) use enrolments::{NotTaken, Verdict};
pub(crate) use snapshot::{Counter, Snapshot};
pub(crate) use state::CoreState;
pub(crate) use tx::Tx;

use crate::reporting::Reporting;
use crate::tokens::TokenSet;
use snapshot::HostContact;
use tx::Ledger;
use worker::Worker;

/// How often the core looks at what became due. Questions wait for it, at most.
const TICK: Duration = Duration::from_millis(200);
/// Questions that wait for the core; more are not told to it.
const QUESTIONS: usize = 65_536;
/// Events that a slow reader may be behind; further ones he reads from the store.
const EVENTS: usize = 1024;

type Job = Box<dyn FnOnce(&mut Tx<'_>) + Send>;

/// Sends the core what to do.
#[derive(Clone)]
pub(crate) struct Core {
    jobs: Sender<Job>,
    snapshot: Arc<Snapshot>,
    events: broadcast::Sender<AuditEntry>,
}

impl Core {
    /// Opens the store at `place` and starts the thread. It ends when every [`Core`] is gone.
    ///
    /// # Errors
    /// The data cannot be opened: one line.
    pub(crate) fn start(
        place: &StorePlace,
        tokens: TokenSet,
        cluster: Cluster,
        reporting: Reporting,
    ) -> Result<(Self, JoinHandle<()>), String> {
        let (contacts, questions) = sync_channel(QUESTIONS);
        let (events, _) = broadcast::channel(EVENTS);
        let snapshot = Arc::new(Snapshot::new(contacts, cluster));
        let ledger =
            Ledger::open(place, Arc::clone(&snapshot), tokens, events.clone(), reporting, reports::take_heard)?;
        let mut worker = Worker::start(ledger)?;
        let (jobs, received) = mpsc::channel();
        let run = move || {
            // Half of a decision may be in memory: the next start reads what the store has.
            let whole = std::panic::catch_unwind(AssertUnwindSafe(|| work(&mut worker, &received, &questions)));
            if whole.is_err() {
                std::process::abort();
            }
        };
        let thread = std::thread::Builder::new().name("core".to_owned()).spawn(run);
        let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
        Ok((Self { jobs, snapshot, events }, thread))
    }

    /// What hosts are told.
    pub(crate) fn snapshot(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// What is decided from now on.
    pub(crate) fn events(&self) -> broadcast::Receiver<AuditEntry> {
        self.events.subscribe()
    }

    /// Has the core do something, and gives what it returns.
    ///
    /// # Errors
    /// What it returns, or that the core has ended.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        job: impl FnOnce(&mut Tx<'_>) -> Result<T, ApiError> + Send + 'static,
    ) -> Result<T, ApiError> {
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |tx| {
            // Whoever asked may have left.
            let _ = answer.send(job(tx));
        });
        let ended = || ApiError::new(Code::Internal, "the server is ending");
        self.jobs.send(job).map_err(|_| ended())?;
        answered.await.unwrap_or_else(|_| Err(ended()))
    }
}

fn work(worker: &mut Worker, jobs: &Receiver<Job>, questions: &Receiver<Box<HostContact>>) {
    loop {
        match jobs.recv_timeout(TICK) {
            Ok(job) => {
                // Who was answered before a command was told: that counts in what it decides.
                worker.record_questions(questions.try_iter().take(QUESTIONS));
                worker.decide_stops();
                let mut tx = Tx::new(&mut worker.ledger);
                job(&mut tx);
                // An error was logged.
                let _ = tx.finish();
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        worker.record_questions(questions.try_iter().take(QUESTIONS));
        worker.do_what_is_due();
        worker.ledger.note_position();
    }
    worker.record_questions(questions.try_iter());
    worker.end();
}
