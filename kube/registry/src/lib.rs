//! An image in an OCI registry, for `teleport-kube-update`: what a tag names now, whether it is whole, and who signed it.
//!
//! Synchronous, without tokio and without Kubernetes; HTTP is behind [`Transport`]. Nothing that a registry says is believed
//! beyond what a digest or a signature covers, and nothing of it is shown unquoted.

mod auths;
mod challenge;
mod client;
mod error;
mod http;
mod manifest;
mod reference;
mod resolve;
mod signature;
mod transport;
mod verify;
mod version;

pub use auths::DockerAuths;
pub use challenge::{Challenge, challenge};
pub use client::Registry;
pub use error::{RegistryCode, RegistryError};
pub use http::HttpTransport;
pub use manifest::OciManifest;
pub use reference::ImageReference;
pub use resolve::{ImageFacts, ImagePlatform};
pub use signature::{CosignKey, SignedClaim, bundle, simple_signing};
pub use transport::{Transport, TransportCall, TransportReply};
pub use verify::{FALLBACK_TAG, REFERRERS, SIG_TAG, SignatureProof};
pub use version::VersionBinding;

/// What this crate's functions give.
pub type Result<T, E = RegistryError> = std::result::Result<T, E>;
