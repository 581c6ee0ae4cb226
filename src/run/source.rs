//! The source of versions that a host's settings name.

use crate::cluster::Source;
use crate::config::Spec;
use crate::report::{Code, Error, Result};

/// The source that the settings name: `spec.source`, or the cluster's proxy.
///
/// Errors: `usage` for one that is none; `proxy_missing`.
pub(crate) fn named(spec: &Spec) -> Result<Source> {
    match &spec.source {
        Some(source) => source.parse(),
        None => proxy(spec)?.parse().map(Source::Find),
    }
}

/// The proxy address, or the error that says how to give one.
fn proxy(spec: &Spec) -> Result<&str> {
    spec.proxy.as_deref().ok_or_else(|| {
        Error::new(Code::ProxyMissing, "no cluster address is known")
            .advise("run `teleport-update enable --proxy ADDR`, or set teleport.proxy_server in /etc/teleport.yaml")
    })
}
