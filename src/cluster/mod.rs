//! Who names the wanted version: the find question, both dialects of its answer, one [`Directive`] (SPEC §3).

mod answer;
pub mod directive;
pub mod find;
pub mod proxy_addr;

pub use directive::Directive;
pub use find::{Question, find};
pub use proxy_addr::ProxyAddr;
