//! The life of one connection, in a task of its own.

use std::sync::Arc;

use axum::Router;
use hyper::server::conn::http1::{Builder, Parts};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;

use super::caller::Peer;
use super::limits::ListenerLimits;
use super::phase::{Phase, PhaseCell};
use super::service::noted;
use super::stream::{HttpStream, PhasedSocket, discard};

/// A request's line and headers, in bytes; more is answered 431. Cookies, a token and a long query fit many times.
const MAX_HEAD: usize = 32 * 1024;
/// Bytes held of a connection in each direction: a head, with room for what follows it.
const MAX_BUFFER: usize = 64 * 1024;

/// The first byte of a TLS handshake (RFC 8446 §5.1).
const TLS_HANDSHAKE: u8 = 22;
/// To who speaks HTTP where TLS is spoken.
const SPEAK_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 44\r\nConnection: close\r\n\r\nthis port speaks HTTPS: use https:// instead";

/// An accepted connection.
pub(crate) struct Accepted {
    pub(crate) socket: Socket,
    pub(crate) peer: Peer,
}

/// An accepted socket.
pub(crate) enum Socket {
    /// With TLS, unless `None`.
    Tcp(TcpStream, Option<Arc<ServerConfig>>),
    Local(UnixStream),
}

/// Serves requests until the client closes, breaks the protocol, or `stop` arrives and the request under way is
/// answered.
pub(crate) async fn run(
    accepted: Accepted,
    service: Router,
    limits: Arc<ListenerLimits>,
    state: Arc<PhaseCell>,
    mut stop: oneshot::Receiver<()>,
) {
    let opened = tokio::select! {
        opened = open(accepted.socket, Arc::clone(&state)) => opened,
        _ = &mut stop => None,
    };
    let Some(stream) = opened else { return };
    state.enter(Phase::Head);
    let service = noted(service, accepted.peer, Arc::clone(&state), limits.body);
    let mut http = Builder::new()
        .max_header_size(MAX_HEAD)
        .max_buf_size(MAX_BUFFER)
        .serve_connection(TokioIo::new(stream), service);
    let mut stopping = false;
    let result = loop {
        tokio::select! {
            result = &mut http => break result,
            _ = &mut stop, if !stopping => {
                stopping = true;
                std::pin::Pin::new(&mut http).graceful_shutdown();
            }
        }
    };
    if let Err(error) = &result {
        tracing::debug!(%error, "connection ended");
    }
    if state.has_unread() || result.is_err_and(|error| error.is_parse()) {
        let Parts { io, .. } = http.into_parts();
        state.enter(Phase::Lingering);
        linger(io.into_inner()).await;
    }
}

/// Closes our side and takes in what the client still sends: closing over unread bytes resets the connection, and the
/// client may lose the answer.
async fn linger(mut stream: Box<dyn HttpStream>) {
    // hyper may have done so already.
    let _ = stream.shutdown().await;
    discard(stream.socket_mut()).await;
}

/// Agrees on TLS, if there is to be any; `None` if that fails.
async fn open(socket: Socket, state: Arc<PhaseCell>) -> Option<Box<dyn HttpStream>> {
    let (socket, config) = match socket {
        Socket::Local(socket) => return Some(Box::new(PhasedSocket { socket, state })),
        Socket::Tcp(socket, None) => return Some(Box::new(PhasedSocket { socket, state })),
        Socket::Tcp(socket, Some(config)) => (socket, config),
    };
    let mut first = [0];
    let count = socket.peek(&mut first).await.ok()?;
    let mut socket = PhasedSocket { socket, state };
    if count > 0 && first != [TLS_HANDSHAKE] {
        let _ = socket.write_all(SPEAK_TLS).await;
        linger(Box::new(socket)).await;
        return None;
    }
    match TlsAcceptor::from(config).accept(socket).await {
        Ok(stream) => Some(Box::new(stream)),
        Err(error) => {
            tracing::debug!(%error, "TLS handshake failed");
            None
        }
    }
}
