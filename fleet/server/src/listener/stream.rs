//! The bytes of a connection: a TCP or Unix socket, in clear or under TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::phase::PhaseCell;

/// Both directions of a socket.
pub(crate) trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

/// A socket that notes what its client does. It lies below TLS, so that bytes that make no whole record count too.
#[derive(Debug)]
pub(crate) struct PhasedSocket<S> {
    pub(crate) socket: S,
    pub(crate) state: Arc<PhaseCell>,
}

/// What HTTP is spoken over.
pub(crate) trait HttpStream: Duplex {
    /// The socket below.
    fn socket_mut(&mut self) -> &mut dyn Duplex;
}

impl<S: Duplex> HttpStream for PhasedSocket<S> {
    fn socket_mut(&mut self) -> &mut dyn Duplex {
        &mut self.socket
    }
}

impl<S: Duplex> HttpStream for TlsStream<PhasedSocket<S>> {
    fn socket_mut(&mut self) -> &mut dyn Duplex {
        self.get_mut().0.socket_mut()
    }
}

/// Reads until the client closes too, and forgets what it reads.
pub(crate) async fn discard(socket: &mut dyn Duplex) {
    let mut buffer = vec![0; 16 * 1024];
    while socket.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
}

impl<S> PhasedSocket<S> {
    /// Notes whether the client took what was written.
    fn note_write(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &result {
            Poll::Pending => self.state.write_blocked(),
            Poll::Ready(_) => self.state.write_progressed(),
        }
        result
    }
}

impl<S: Duplex> AsyncRead for PhasedSocket<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            self.state.heard();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: Duplex> AsyncWrite for PhasedSocket<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.socket).poll_write(cx, buf);
        self.note_write(result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.socket).poll_write_vectored(cx, bufs);
        self.note_write(result)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}
