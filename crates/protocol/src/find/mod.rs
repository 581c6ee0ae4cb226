//! The find question and its answer (SPEC §3).

mod digests;
mod directive;
mod fleet;
mod keys;
mod question;

pub use digests::{Digests, IMAGE};
pub use directive::{Dialect, Directive, MAX_JITTER_SECONDS};
pub use fleet::fleet;
pub use question::Question;

/// RFD 0169's path.
pub const RFD_PATH: &str = "/v1/webapi/find";
/// Today's proxies' path.
pub const PROXY_PATH: &str = "/webapi/find";
/// Where it is asked, in this order. Either answers in either dialect.
pub const PATHS: [&str; 2] = [RFD_PATH, PROXY_PATH];
