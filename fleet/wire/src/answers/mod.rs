//! What each path of the rollout server answers, dialect by dialect (FLEET §4). Pure: no I/O, no clock.

pub mod channel;
pub mod find;
pub mod graph;
pub mod install_script;
pub mod query;
pub mod reply;
pub mod schedule;

pub use crate::ids;
pub use reply::Reply;
