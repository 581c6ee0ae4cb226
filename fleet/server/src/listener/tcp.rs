//! TCP, in clear or with TLS.

use std::io;
use std::net::SocketAddr;

use tokio::net::{TcpListener, TcpSocket};

use super::tls::Tls;

/// Connections that wait to be accepted. The kernel takes less where `net.core.somaxconn` is smaller (4096 by default).
const BACKLOG: u32 = 4096;

/// A bound TCP address.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(crate) listener: TcpListener,
    pub(crate) tls: Option<Tls>,
}

impl Tcp {
    /// Listens on `address`; with port 0 on a free one. Without `tls` in clear (see [`is_plain_allowed`]). Must be
    /// called within a tokio runtime.
    ///
    /// # Errors
    /// If the address is in use, not this host's, or not permitted.
    pub(crate) fn bind(address: SocketAddr, tls: Option<Tls>) -> io::Result<Self> {
        let listen = || {
            let socket = if address.is_ipv6() { TcpSocket::new_v6() } else { TcpSocket::new_v4() }?;
            // A restart must not wait for the connections of the process before it.
            socket.set_reuseaddr(true)?;
            socket.bind(address)?;
            socket.listen(BACKLOG)
        };
        let named = |error: io::Error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"));
        Ok(Self { listener: listen().map_err(named)?, tls })
    }

    /// The bound address, with the true port.
    ///
    /// # Errors
    /// If the system does not say.
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// Whether HTTP without TLS may be served on `address`: on loopback, or behind a proxy (FLEET §8).
#[must_use]
pub(crate) fn is_plain_allowed(address: SocketAddr, behind_proxy: bool) -> bool {
    behind_proxy || address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_is_for_loopback_or_behind_a_proxy() {
        for (address, alone) in [
            ("127.0.0.1:80", true),
            ("127.9.9.9:80", true),
            ("[::1]:80", true),
            ("[::ffff:127.0.0.1]:80", true),
            ("0.0.0.0:80", false),
            ("[::]:80", false),
            ("10.0.0.1:80", false),
            ("[::ffff:10.0.0.1]:80", false),
        ] {
            assert_eq!(is_plain_allowed(address.parse().unwrap(), false), alone, "{address}");
            assert!(is_plain_allowed(address.parse().unwrap(), true), "{address}");
        }
    }
}
