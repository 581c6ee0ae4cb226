//! A TUF repository of one's own (DIRECTIVES §5.5): a directory of static files that several people sign, each with a key of his
//! own; and a mirror of archives. It needs no server.

mod check;
mod durable;
mod founders;
mod keys;
mod metadata;
mod mirror;
mod publish;
mod repository;
mod waiting;

pub use check::{Listed, Verdict, check, listed};
pub use founders::{Founders, Policy};
pub use keys::{SigningKey, make_key};
pub use metadata::published_file;
pub use mirror::{MirrorOrder, mirror};
pub use repository::SiteRepository;
pub use waiting::{KnownOfRelease, SignOrder};
