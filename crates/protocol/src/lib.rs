//! What updaters and rollout servers say to each other: versions, editions, names of archives, the find question and both
//! dialects of its answer, hosts' reports with the codes of their errors. No I/O, no clock.
//!
//! `SPEC §n` in comments is section n of `docs/specification.md`, `FLEET §n` section n of `docs/fleet-specification.md`.

pub mod arch;
pub mod digest;
pub mod dry_run;
pub mod edition;
pub mod error;
pub mod find;
pub mod handover;
pub mod installer;
pub mod reason;
pub mod report;
pub mod revision;
mod text;
pub mod turn;
pub mod version;

pub use arch::Arch;
pub use digest::Digest;
pub use edition::Edition;
pub use error::{Kind, ParseError};
pub use revision::Revision;
pub use version::Version;
