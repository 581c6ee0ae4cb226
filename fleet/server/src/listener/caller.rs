//! Who asks.

use std::net::SocketAddr;

/// The other end of a connection, behind a proxy that is the proxy: an extension of each request (`request.extensions().get::<Peer>()`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Over TCP. An IPv4 address that came over an IPv6 socket is given as IPv4.
    Tcp(SocketAddr),
    /// Over a Unix socket, as the kernel says (`SO_PEERCRED`): the process that connected, at that time.
    Local {
        /// Effective user id.
        uid: u32,
        /// Effective group id; the kernel does not say the supplementary ones.
        gid: u32,
        /// Process id; unknown where it is outside our process namespace.
        pid: Option<i32>,
    },
}
