//! Takes connections: TLS and plain, with time-outs, a cap, a graceful stop, and certificates that are read again
//! (FLEET §1, §8). It serves HTTP/1.1 and knows nothing of fleets: requests go to a [`tower_service::Service`].
//!
//! What a stranger can hold is bounded: each phase of a connection has its time ([`ListenerLimits`]), and beyond the cap the
//! connection that has waited longest for its client makes room for a new one.
//!
//! Not here: what a request means, who may ask it, a time limit for handlers, and what a panicking handler answers.

mod body;
mod caller;
mod connection;
mod file;
mod limits;
mod local;
mod phase;
mod serve;
mod service;
mod stream;
mod table;
mod tcp;
mod tls;

pub use body::{BodyError, RequestBody, read_body};
pub use caller::{Caller, Peer};
pub use file::{read_file, read_open, read_text};
pub use limits::ListenerLimits;
pub use local::Local;
pub use serve::{Listener, serve};
pub use tcp::{Tcp, is_plain_allowed};
pub use tls::{Tls, TlsError};
