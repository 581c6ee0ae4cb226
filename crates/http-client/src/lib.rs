//! HTTP for the find question and for archives (SPEC §3, §4): time-outs per phase, few redirects, few retries, proxies.
//!
//! Bodies are never decoded: what is hashed is what arrived. Nothing secret gets into an error: URLs are shown without
//! userinfo and query.

mod agents;
mod awaited;
mod client;
mod failure;
mod pause;
mod redact;
mod redirect;
mod request;
mod resolve;
mod retry;
mod route;
mod said;
mod settings;
#[cfg(test)]
mod testing_client;
mod trust;
mod url;

pub use client::Client;
pub use pause::{Cancelled, interrupted, pause};
pub use redact::{is_open, redact, shown};
pub use request::{Answer, Receipt, Request, SHORT_BODY, SMALL_BODY, Stream};
pub use resolve::Trace;
pub use retry::Retry;
pub use route::Proxies;
pub use said::{is_unseen, said};
pub use settings::{Credentials, HttpSettings, Timeouts};
pub use trust::{certificates, only_certificates};
pub use url::{encoded, has_host, in_url};
