//! What the core answers in a row of things that happen.

mod questions;
mod store_down;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use fleet_wire::answers::find::Cluster;
use fleet_wire::api::Role;
use tempfile::TempDir;
use tokio::sync::broadcast;

use super::snapshot::{HostContact, Snapshot};
use super::tx::Ledger;
use super::worker::Worker;
use super::{Actor, Tx};
use crate::reporting::{Enrolment, Reporting};
use crate::tokens::TokenSet;

/// Seconds between two reports of a host.
const INTERVAL: u32 = 900;

/// A server's core without its thread, and who asks it.
struct TestCore {
    _dir: TempDir,
    data: PathBuf,
    snapshot: Arc<Snapshot>,
    worker: Worker,
    contacts: Receiver<Box<HostContact>>,
}

impl TestCore {
    fn new(enrolment: Enrolment) -> Self {
        // Each decision is synced: in memory that costs nothing.
        let memory = Path::new("/dev/shm");
        let dir = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
        let data = dir.path().join("data");
        let (tell, contacts) = sync_channel(1024);
        let snapshot = Arc::new(Snapshot::new(tell, Cluster::default()));
        let reporting = Reporting { enrolment, interval: INTERVAL };
        let (events, _) = broadcast::channel(16);
        let ledger = Ledger::open(
            &data.as_path().into(),
            Arc::clone(&snapshot),
            TokenSet::default(),
            events,
            reporting,
            crate::core::reports::take_heard,
        )
        .unwrap();
        Self { _dir: dir, data, snapshot, worker: Worker::start(ledger).unwrap(), contacts }
    }

    fn tx(&mut self) -> Tx<'_> {
        Tx::new(&mut self.worker.ledger)
    }

    fn record_questions(&mut self) {
        self.worker.record_questions(self.contacts.try_iter());
    }
}

fn actor() -> Actor {
    Actor { who: "somebody".to_owned(), from: "here".to_owned(), role: Role::Admin }
}
