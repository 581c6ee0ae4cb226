//! Flows with an agent that lives: the updater is killed at each of its calls while the agent runs, writes and reloads.

pub mod cell;
pub mod flow;
pub mod flows;
pub mod power;
pub mod rows;
pub mod suite;
pub mod whole;
