//! Takes connections: TLS and plain, with time-outs, a cap, a graceful stop, and certificates that are read again
//! (FLEET §1, §8). It serves HTTP/1.1 and knows nothing of fleets: requests go to an [`axum::Router`].
//!
//! What a stranger can hold is bounded: each phase of a connection has its time ([`ListenerLimits`]), and beyond the cap the
//! connection that has waited longest for its client makes room for a new one.
//!
//! Not here: what a request means, who may ask it, a time limit for handlers, and what a panicking handler answers.

mod body;
mod caller;
mod connection;
mod limits;
mod local;
mod phase;
mod serve;
mod service;
mod stream;
mod table;
mod tcp;
#[cfg(test)]
mod tests;
mod tls;

pub(crate) use body::{BodyError, read_body};
pub(crate) use caller::Peer;
pub(crate) use limits::ListenerLimits;
pub(crate) use local::Local;
pub(crate) use serve::{Listener, serve};
pub(crate) use tcp::{Tcp, is_plain_allowed};
pub(crate) use tls::Tls;
