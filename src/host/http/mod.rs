//! HTTP for the find question and for archives (SPEC §3, §4): time-outs per phase, few redirects, few retries, proxies.
//!
//! Bodies are never decoded: what is hashed is what arrived. Nothing secret gets into an error: URLs are shown without
//! userinfo and query.

mod agents;
mod awaited;
mod client;
mod failure;
mod host;
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
pub(crate) mod test_server;
pub(crate) mod trust;

pub(crate) use client::Client;
pub(crate) use host::has_host;
pub(crate) use pause::{interrupted, pause};
pub(crate) use redact::{is_open, redact, shown};
pub(crate) use request::{Receipt, Request, Stream};
pub(crate) use resolve::Trace;
pub(crate) use retry::Retry;
pub(crate) use said::{is_unseen, said};
pub(crate) use settings::{Credentials, HttpSettings, Timeouts};
