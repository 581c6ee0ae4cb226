//! A connection, with or without TLS, that can be dropped as rudely as a network does.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;

use rustls::{ServerConfig, ServerConnection, StreamOwned};

/// One client.
pub(crate) enum Connection {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ServerConnection, TcpStream>>),
}

impl Connection {
    pub(crate) fn new(tcp: TcpStream, tls: Option<Arc<ServerConfig>>) -> io::Result<Self> {
        tcp.set_nodelay(true)?;
        Ok(match tls {
            Some(config) => {
                let connection = ServerConnection::new(config).map_err(io::Error::other)?;
                Self::Tls(Box::new(StreamOwned::new(connection, tcp)))
            }
            None => Self::Plain(tcp),
        })
    }

    /// The end as a polite server makes it.
    pub(crate) fn close(&mut self) {
        if let Self::Tls(stream) = self {
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
        let _ = self.tcp().shutdown(Shutdown::Write);
    }

    /// The end as a broken network makes it: what was sent arrives, then nothing, not even TLS's good-bye.
    pub(crate) fn cut(&mut self) {
        let _ = self.flush();
        let _ = self.tcp().shutdown(Shutdown::Both);
    }

    /// Waits until the client leaves (or says something, which here is the same).
    pub(crate) fn wait_for_client(&mut self) {
        let _ = self.flush();
        let _ = self.tcp().set_read_timeout(None);
        let _ = self.tcp().peek(&mut [0]);
    }

    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(tcp) => tcp,
            Self::Tls(stream) => &stream.sock,
        }
    }
}

impl Read for Connection {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for Connection {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) => tcp.write(buffer),
            Self::Tls(stream) => stream.write(buffer),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(tcp) => tcp.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}
