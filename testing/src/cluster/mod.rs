//! What black-box tests, the demo and the benches put around the updater: release archives (good and hostile),
//! and a cluster that answers find, serves those archives and misbehaves on request. Loopback only.

pub mod archive;
pub mod control;
pub mod directive;
pub mod hostile;
pub mod misbehaviour;
pub mod padding;
pub mod proxy;
pub mod request;
pub mod server;
pub mod signature;
pub mod tarball;
pub mod tls;
pub mod toy;
pub mod tuf;

mod cdn;
mod connection;
mod gate;
mod reply;

pub use archive::{Archive, Written};
pub use directive::{Dialect, Elsewhere, Find, FindPath};
pub use misbehaviour::Misbehaviour;
pub use proxy::Proxy;
pub use request::Request;
pub use server::{Auth, Cluster};
pub use signature::Signer;
pub use toy::{agent_program, agent_program_path};
pub use tuf::TufRepository;
