//! What a person or a machine is told: errors and their codes, status, progress, logs.

pub(crate) mod log;
pub(crate) mod progress;

pub use ::error::{Code, Error};
pub(crate) use ::error::{IfPresent, IoContext, Result, code_of_io};
pub use log::Report;
pub(crate) use progress::megabytes;
