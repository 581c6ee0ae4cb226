//! A real Kubernetes control plane for tests: etcd, kube-apiserver and kube-controller-manager, which `tests/setup.sh kube` brings.
//! A stand-in for the kubelet makes pods ready, or not, as the test says by image. A proxy before the API server fails as told.
//!
//! ```text
//! let Some(bed) = KubeBed::shared() else { return };
//! let space = bed.namespace("roll");
//! space.lives.set("registry.example/agent:2", PodLife::Crashing);
//! space.client.create(&stateful_set(&space, "agent", "registry.example/agent:1", 2, "OrderedReady"));
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "test support: a broken fixture is a failed test, and its files need no durability"
)]

mod bed;
mod client;
mod kubelet;
mod namespace;
mod proxy;
mod workload;

use std::time::{Duration, Instant};

pub use bed::KubeBed;
pub use client::{ApiClient, ApiStatus, PatchKind};
pub use kubelet::{PodLife, PodLives};
pub use namespace::Namespace;
pub use proxy::{ApiCall, ApiFault, ApiProxy};
pub use workload::{daemon_set, deployment, image_of, stateful_set};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// Waits until something is there, and gives it.
///
/// # Panics
/// If it is not there `within` that time; with `what` it is.
#[track_caller]
pub fn wait_for<T>(within: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + within;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < until, "not within {within:?}: {what}");
        std::thread::sleep(LOOK);
    }
}

/// Waits until something is so.
///
/// # Panics
/// If it is not so `within` that time; with `what` it is.
#[track_caller]
pub fn wait_until(within: Duration, what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(within, what, || is_so().then_some(()));
}
