//! What each path of the rollout server answers, dialect by dialect. Pure: no I/O, no clock.

pub mod ids;
pub mod show;
