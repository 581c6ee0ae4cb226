//! Which servers share the store (FLEET §7): each says every 2 s how it is, and reads what the others said.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use fleet_store::{ServerStatus, SharedTables};

use crate::clock;
use crate::core::Snapshot;
use crate::sessions::Sessions;

/// Between two times.
const EVERY: Duration = Duration::from_secs(2);

/// The servers there are; none where a file has one server.
#[derive(Clone, Default)]
pub(crate) struct Servers(Arc<Mutex<ServerList>>);

#[derive(Default)]
struct ServerList {
    servers: Vec<ServerStatus>,
    /// When they were read; `None`: never.
    read: Option<Instant>,
}

impl Servers {
    /// All of them, by name.
    pub(crate) fn all(&self) -> Vec<ServerStatus> {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = list.read.map_or(Duration::ZERO, |read| read.elapsed());
        let later = |server: &ServerStatus| ServerStatus { silent: server.silent + since, ..server.clone() };
        list.servers.iter().map(later).collect()
    }

    fn set(&self, servers: Vec<ServerStatus>) {
        let read = Some(Instant::now());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = ServerList { servers, read };
    }
}

/// What a server is called that listens at `port`: the name of its host and the port.
pub(crate) fn name(port: u16) -> String {
    format!("{}:{port}", rustix::system::uname().nodename().to_string_lossy())
}

/// Says how this server is (`id` and `name` of it), and reads the others into `servers`, as long as it runs.
pub(crate) async fn watch(
    servers: Servers,
    shared: SharedTables,
    (id, name): (String, String),
    (snapshot, sessions): (Arc<Snapshot>, Sessions),
) {
    let mut due = tokio::time::interval(EVERY);
    due.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        sessions.tell_ended().await;
        let position = i64::try_from(snapshot.position.get()).unwrap_or(i64::MAX);
        let (shared, id, name) = (shared.clone(), id.clone(), name.clone());
        let report = move || shared.report_server((&id, &name), position, clock::offset());
        match tokio::task::spawn_blocking(report).await {
            Ok(Ok(all)) => servers.set(all),
            // The core's log says that the store does not answer.
            Ok(Err(error)) => tracing::debug!(%error, "the other servers are not known"),
            // The server ends.
            Err(_) => return,
        }
    }
}
