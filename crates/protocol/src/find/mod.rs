//! The find question and its answer (SPEC §3).

mod directive;
mod keys;
mod question;

pub use directive::{Dialect, Directive, MAX_JITTER_SECONDS};
pub use question::Question;

/// Where it is asked: RFD 0169's path, then today's proxies'. Either answers in either dialect.
pub const PATHS: [&str; 2] = ["/v1/webapi/find", "/webapi/find"];
