//! The bytes of a connection: a TCP or Unix socket, in clear or under TLS.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::server::TlsStream;

use crate::phase::State;

/// The first byte of a TLS handshake (RFC 8446 §5.1).
const TLS_HANDSHAKE: u8 = 22;

/// An accepted socket.
#[derive(Debug)]
pub(crate) enum Socket {
    Tcp(TcpStream),
    Local(UnixStream),
}

/// A socket that notes what its client does. It lies below TLS, so that bytes that make no whole record count too.
#[derive(Debug)]
pub(crate) struct Watched {
    socket: Socket,
    state: Arc<State>,
}

/// What HTTP is spoken over.
#[derive(Debug)]
pub(crate) enum Stream {
    Clear(Watched),
    Tls(Box<TlsStream<Watched>>),
}

impl Watched {
    pub(crate) fn new(socket: Socket, state: Arc<State>) -> Self {
        Self { socket, state }
    }

    /// Whether the client's first byte is not the beginning of TLS. Waits for it.
    pub(crate) async fn begins_in_clear(&self) -> io::Result<bool> {
        let Socket::Tcp(socket) = &self.socket else { return Ok(false) };
        let mut first = [0];
        Ok(socket.peek(&mut first).await? > 0 && first != [TLS_HANDSHAKE])
    }

    /// Reads until the client closes too, and forgets what it reads.
    pub(crate) async fn discard(&mut self) {
        let mut buffer = vec![0; 16 * 1024];
        while self.socket.read(&mut buffer).await.is_ok_and(|count| count > 0) {}
    }
}

impl Stream {
    /// The socket below.
    pub(crate) fn socket_mut(&mut self) -> &mut Watched {
        match self {
            Self::Clear(socket) => socket,
            Self::Tls(stream) => stream.get_mut().0,
        }
    }
}

/// Calls the same function of whichever it is.
macro_rules! either {
    ($self:expr, $a:path, $b:path, |$inner:ident| $call:expr) => {
        match $self {
            $a($inner) => $call,
            $b($inner) => $call,
        }
    };
}

impl AsyncRead for Socket {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        either!(self.get_mut(), Self::Tcp, Self::Local, |inner| Pin::new(inner).poll_read(cx, buf))
    }
}

impl AsyncWrite for Socket {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        either!(self.get_mut(), Self::Tcp, Self::Local, |inner| Pin::new(inner).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self.get_mut(), Self::Tcp, Self::Local, |inner| Pin::new(inner).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.get_mut(), Self::Tcp, Self::Local, |inner| Pin::new(inner).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.get_mut(), Self::Tcp, Self::Local, |inner| Pin::new(inner).poll_shutdown(cx))
    }
}

impl Watched {
    /// Notes whether the client took what was written.
    fn note_write(&self, result: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        match &result {
            Poll::Pending => self.state.write_blocked(),
            Poll::Ready(_) => self.state.write_progressed(),
        }
        result
    }
}

impl AsyncRead for Watched {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.socket).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            self.state.heard();
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Watched {
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

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        either!(self.get_mut(), Self::Clear, Self::Tls, |inner| Pin::new(inner).poll_read(cx, buf))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        either!(self.get_mut(), Self::Clear, Self::Tls, |inner| Pin::new(inner).poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self.get_mut(), Self::Clear, Self::Tls, |inner| Pin::new(inner).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        either!(self, Self::Clear, Self::Tls, |inner| inner.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.get_mut(), Self::Clear, Self::Tls, |inner| Pin::new(inner).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.get_mut(), Self::Clear, Self::Tls, |inner| Pin::new(inner).poll_shutdown(cx))
    }
}
