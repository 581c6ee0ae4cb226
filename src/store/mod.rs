//! store
pub mod retention;
pub mod publish;
