//! The accept loop.

use std::io;
use std::io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, Id, JoinError, JoinSet};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use super::caller::Peer;
use super::connection::{self, Accepted, Socket};
use super::limits::ListenerLimits;
use super::local::Local;
use super::phase::{PhaseCell, micros};
use super::table::ConnectionTable;
use super::tcp::Tcp;

/// The pause after a connection that could not be accepted, e.g. without a free descriptor: the loop must not spin.
const PAUSE: Duration = Duration::from_millis(50);
/// One line a minute says that connections cannot be accepted: it may be so for each of thousands.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// Where connections come from.
#[derive(Debug)]
pub(crate) enum Listener {
    /// TCP, with or without TLS.
    Tcp(Tcp),
    /// A Unix socket.
    Local(Local),
}

/// Serves what connects to `listener` until `stop` is ready; then accepts nobody (the listener is closed, a Unix
/// socket's file removed), answers what is under way with `Connection: close`, and closes what is not done after
/// [`ListenerLimits::drain`]. Returns how many connections were cut off so.
///
/// Requests carry a [`Peer`] among their extensions. A handler that panics ends its own connection only.
/// Dropping the future closes all connections at once.
pub(crate) async fn serve(
    listener: Listener,
    limits: ListenerLimits,
    service: Router,
    stop: impl Future<Output = ()>,
) -> usize {
    let mut connections = Connections::new(limits, service);
    connections.accept_until(&listener, stop).await;
    drop(listener);
    connections.drain().await
}

/// The open connections of one listener.
struct Connections {
    service: Router,
    limits: Arc<ListenerLimits>,
    /// What the times of all connections count from.
    epoch: Instant,
    tasks: JoinSet<()>,
    table: ConnectionTable<Id, Handle>,
    /// When it was last logged that none could be accepted.
    warned: Option<Instant>,
}

/// What ends a connection.
struct Handle {
    /// Tells it to end after the request under way.
    stop: Option<oneshot::Sender<()>>,
    /// Ends it at once.
    abort: AbortHandle,
}

impl Connections {
    fn new(limits: ListenerLimits, service: Router) -> Self {
        let limits = Arc::new(limits);
        Self {
            service,
            limits,
            epoch: Instant::now(),
            tasks: JoinSet::new(),
            table: ConnectionTable::new(),
            warned: None,
        }
    }

    async fn accept_until(&mut self, listener: &Listener, stop: impl Future<Output = ()>) {
        let mut stop = pin!(stop);
        let mut watch = pin!(listener.watch());
        let mut sweep = interval(self.limits.sweep());
        sweep.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut pause: Option<Instant> = None;
        loop {
            // In this order: a flood of connections must not keep the others from their turn.
            tokio::select! {
                biased;
                () = &mut stop => return,
                () = &mut watch => {}
                _ = sweep.tick() => self.close_overdue(),
                Some(ended) = self.tasks.join_next_with_id() => self.forget(ended),
                () = sleep_until(pause.unwrap_or(self.epoch)), if pause.is_some() => pause = None,
                accepted = listener.accept(), if pause.is_none() => match accepted {
                    Ok(accepted) => self.add(accepted),
                    Err(error) => pause = self.cannot_accept(&error),
                },
            }
        }
    }

    /// Starts a connection; makes room for it where there is none.
    fn add(&mut self, accepted: Accepted) {
        if self.table.len() >= self.limits.connections && !self.make_room() {
            tracing::debug!(peer = ?accepted.peer, "connection refused: all are at work");
            return;
        }
        let state = Arc::new(PhaseCell::new(self.epoch));
        let (stop, stopped) = oneshot::channel();
        let (service, limits) = (self.service.clone(), Arc::clone(&self.limits));
        let task = connection::run(accepted, service, limits, Arc::clone(&state), stopped);
        let abort = self.tasks.spawn(task);
        self.table.insert(abort.id(), state, Handle { stop: Some(stop), abort });
    }

    /// Closes the connection that has waited longest for its client; false if all are at work.
    fn make_room(&mut self) -> bool {
        let oldest = self.table.take_oldest(micros(self.epoch.elapsed()));
        oldest.is_some_and(|oldest| {
            oldest.abort.abort();
            true
        })
    }

    fn close_overdue(&mut self) {
        for overdue in self.table.take_overdue(micros(self.epoch.elapsed()), &self.limits) {
            overdue.abort.abort();
        }
    }

    /// When to try again.
    fn cannot_accept(&mut self, error: &io::Error) -> Option<Instant> {
        // The client went before it was accepted.
        if matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted) {
            return None;
        }
        if self.warned.is_none_or(|warned| warned.elapsed() >= WARN_EVERY) {
            self.warned = Some(Instant::now());
            tracing::warn!(%error, open = self.table.len(), "cannot accept connections; closing idle ones");
        }
        self.make_room();
        Some(Instant::now() + PAUSE)
    }

    fn forget(&mut self, ended: Result<(Id, ()), JoinError>) {
        let id = match &ended {
            Ok((id, ())) => *id,
            Err(error) => {
                if error.is_panic() {
                    tracing::error!(%error, "a request's handler panicked");
                }
                error.id()
            }
        };
        self.table.remove(id);
    }

    /// Lets requests under way end; the number of connections that were cut off.
    async fn drain(mut self) -> usize {
        for connection in self.table.values_mut() {
            if let Some(stop) = connection.stop.take() {
                // It may have ended by itself.
                let _ = stop.send(());
            }
        }
        let limit = self.limits.drain;
        let ended = timeout(limit, async { while self.tasks.join_next().await.is_some() {} }).await;
        let cut = if ended.is_ok() { 0 } else { self.tasks.len() };
        self.tasks.shutdown().await;
        cut
    }
}

impl Listener {
    async fn accept(&self) -> io::Result<Accepted> {
        match self {
            Self::Tcp(tcp) => {
                let (socket, mut peer) = tcp.listener.accept().await?;
                // An answer is one small write: it must not wait for another. Failing that, it is slow.
                let _ = socket.set_nodelay(true);
                peer.set_ip(peer.ip().to_canonical());
                let tls = tcp.tls.as_ref().map(super::tls::Tls::config);
                Ok(Accepted { socket: Socket::Tcp(socket, tls), peer: Peer::Tcp(peer) })
            }
            Self::Local(local) => {
                let (socket, _) = local.listener.accept().await?;
                // Without it nobody is let in.
                let who = socket.peer_cred().map_err(|error| io::Error::new(ConnectionAborted, error))?;
                let peer = Peer::Local { uid: who.uid(), gid: who.gid(), pid: who.pid() };
                Ok(Accepted { socket: Socket::Local(socket), peer })
            }
        }
    }

    /// Looks after the certificate for ever.
    async fn watch(&self) {
        match self {
            Self::Tcp(Tcp { tls: Some(tls), .. }) => tls.clone().watch().await,
            Self::Tcp(Tcp { tls: None, .. }) | Self::Local(_) => std::future::pending().await,
        }
    }
}
