//! What a person or a machine is told: errors and their codes, status, progress, logs.

pub mod error;
pub mod log;
pub mod progress;

pub use error::{Code, Error, IoContext, Result};
pub use log::{Format, Report};
