//! Servers of a fleet, a database with its standby, and hosts, all of them processes or what speaks as one over real connections;
//! faults of a seed; and who sees whether more hosts are on their way than may be, a decision is lost, a stop is forgotten, or
//! something is done twice (FLEET §3, §7).

mod hosts;
mod observer;
mod operator;
mod rounds;
mod soak;
mod trouble;
mod world;

pub use rounds::{Figures, many};
pub use soak::soak;
pub use trouble::Fault;
