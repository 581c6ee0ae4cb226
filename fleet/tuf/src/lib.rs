//! A TUF repository of one's own (DIRECTIVES §5.5): a directory of static files that several people sign, each with a key of his
//! own; and a mirror of archives. It needs no server.

mod check;
mod durable;
mod keys;
mod metadata;
mod mirror;
mod repository;

pub use check::{Verdict, check};
pub use keys::{SigningKey, make_key};
pub use metadata::published_file;
pub use mirror::{MirrorOrder, mirror};
pub use repository::{Founders, Policy, Refreshed, SignOrder, SiteRepository};
