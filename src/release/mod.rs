//! Naming, fetching, verifying, unpacking: bytes in, a staged version out (SPEC §4).

mod archive_path;
pub(crate) mod base_url;
pub(crate) mod check;
mod destination;
mod extended;
mod fetch;
#[doc(hidden)]
pub(crate) mod fuzz;
mod gunzip;
mod limits;
pub(crate) mod signature;
pub(crate) mod space;
pub(crate) mod stage;
pub(crate) mod tuf;
mod unpack;
mod writer;

pub use base_url::BaseUrl;
pub use limits::Limits;
pub use signature::PublicKey;
pub(crate) use stage::{StageRequest, Supply, announced_digest, archive_size, stage};
