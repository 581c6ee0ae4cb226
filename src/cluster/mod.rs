//! Who names the wanted version: the find question, both dialects of its answer, one [`protocol::find::Directive`] (SPEC §3).

pub mod find;
pub mod proxy_addr;

pub use find::find;
pub use proxy_addr::ProxyAddr;
