//! Who names the wanted version: the find question, both dialects of its answer, one [`protocol::find::Directive`] (SPEC §3).

pub(crate) mod find;
pub(crate) mod proxy_addr;

pub(crate) use find::{Found, find, origin};
pub use proxy_addr::ProxyAddr;
