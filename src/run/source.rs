//! The source of versions that a host's settings name.

use crate::cluster::Source;
use crate::config::Spec;
use crate::report::{Code, Error, Result};

/// The source that the settings name: `spec.source`, or the cluster's proxy.
///
/// Errors: `config_invalid` for one that is none; `proxy_missing`.
pub(crate) fn named(spec: &Spec) -> Result<Source> {
    match &spec.source {
        Some(source) => source.parse().map_err(|error| in_settings("source", error)),
        None => proxy(spec)?.parse().map(Source::Find).map_err(|error| in_settings("proxy", error)),
    }
}

/// The error of a flag's value, where a hand wrote that value into the settings.
fn in_settings(key: &str, error: Error) -> Error {
    Error { code: Code::ConfigInvalid, ..error.during(format!("spec.{key} in updates.yaml")) }
}

/// The proxy address, or the error that says how to give one.
fn proxy(spec: &Spec) -> Result<&str> {
    spec.proxy.as_deref().ok_or_else(|| {
        Error::new(Code::ProxyMissing, "no cluster address is known")
            .advise("run `teleport-update enable --proxy ADDR`, or set teleport.proxy_server in /etc/teleport.yaml")
    })
}
