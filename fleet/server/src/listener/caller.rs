//! Who asks.

use std::net::SocketAddr;

/// The caller of a request: an extension of each one (`request.extensions().get::<Caller>()`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// The other end of the connection. Behind a proxy that is the proxy.
    pub(crate) peer: Peer,
}

/// The other end of a connection.
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
