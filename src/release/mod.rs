//! Naming, fetching, verifying, unpacking: bytes in, a staged version out.

pub mod name;

pub use name::{Arch, Edition, Revision, Version};
