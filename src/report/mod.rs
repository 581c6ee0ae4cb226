//! What a person or a machine is told: errors and their codes, status, progress, logs.

pub mod error;

pub use error::{Code, Error, IoContext, Result};
