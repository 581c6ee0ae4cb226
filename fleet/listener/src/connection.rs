//! The life of one connection, in a task of its own.

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;

use hyper::body::Body as HttpBody;
use hyper::server::conn::http1::{Builder, Parts};
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use tokio::io::AsyncWriteExt;
use tokio::sync::oneshot;
use tokio_rustls::TlsAcceptor;
use tower_service::Service;

use crate::body::Body;
use crate::caller::{Caller, Peer};
use crate::limits::Limits;
use crate::phase::{Phase, State};
use crate::service::Noted;
use crate::stream::{Socket, Stream, Watched};

/// A request's line and headers, in bytes; more is answered 431. Cookies, a token and a long query fit many times.
const MAX_HEAD: usize = 32 * 1024;
/// Bytes held of a connection in each direction: a head, with room for what follows it.
const MAX_BUFFER: usize = 64 * 1024;

/// To who speaks HTTP where TLS is spoken.
const SPEAK_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\n\
    Content-Length: 44\r\nConnection: close\r\n\r\nthis port speaks HTTPS: use https:// instead";

/// An accepted connection.
pub(crate) struct Accepted {
    pub(crate) socket: Socket,
    pub(crate) peer: Peer,
    /// With TLS, unless `None`.
    pub(crate) tls: Option<Arc<ServerConfig>>,
}

/// Serves requests until the client closes, breaks the protocol, or `stop` arrives and the request under way is
/// answered.
pub(crate) async fn run<S, B>(
    accepted: Accepted,
    service: S,
    limits: Arc<Limits>,
    state: Arc<State>,
    mut stop: oneshot::Receiver<()>,
) where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible> + Clone,
    B: HttpBody + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let socket = Watched::new(accepted.socket, Arc::clone(&state));
    let opened = tokio::select! {
        opened = open(socket, accepted.tls) => opened,
        _ = &mut stop => None,
    };
    let Some(stream) = opened else { return };
    state.enter(Phase::Head);
    let service = Noted::new(service, Caller { peer: accepted.peer }, Arc::clone(&state), limits.body);
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
async fn linger(mut stream: Stream) {
    // hyper may have done so already.
    let _ = stream.shutdown().await;
    stream.socket_mut().discard().await;
}

/// Agrees on TLS, if there is to be any; `None` if that fails.
async fn open(mut socket: Watched, tls: Option<Arc<ServerConfig>>) -> Option<Stream> {
    let Some(config) = tls else { return Some(Stream::Clear(socket)) };
    match socket.begins_in_clear().await {
        Ok(false) => {}
        Ok(true) => {
            let _ = socket.write_all(SPEAK_TLS).await;
            linger(Stream::Clear(socket)).await;
            return None;
        }
        Err(_) => return None,
    }
    match TlsAcceptor::from(config).accept(socket).await {
        Ok(stream) => Some(Stream::Tls(Box::new(stream))),
        Err(error) => {
            tracing::debug!(%error, "TLS handshake failed");
            None
        }
    }
}
