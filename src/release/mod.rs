//! Naming, fetching, verifying, unpacking: bytes in, a staged version out (SPEC §4).

mod archive_path;
pub mod check;
mod fetch;
#[doc(hidden)]
pub mod fuzz;
mod gunzip;
mod place;
pub mod signature;
pub mod source;
pub mod space;
pub mod stage;
mod tree;
mod unpack;
mod writer;

pub use signature::PublicKey;
pub use source::BaseUrl;
pub use stage::{Limits, StageRequest, announced_digest, archive_size, stage};
