//! The source of versions that a host's settings name.

use std::path::{Path, PathBuf};

use protocol::Version;
use sources::Source;

use crate::config::Spec;
use crate::host::{durable, trust};
use crate::report::{Code, Error, IoContext, Result};

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

/// The real path of the source `path`, which nobody but root (or whoever runs this) may be able to change, and what is in it.
///
/// Errors: `permission` where somebody else can; `config_invalid` for what is no file; `io`.
pub(crate) fn file(path: &Path) -> Result<(PathBuf, Vec<u8>)> {
    let file = trusted(path)?;
    match durable::read_limited(&file, yaml::view::LONGEST_FILE)? {
        Some(text) => Ok((file, text)),
        None => Err(Error::new(Code::Io, format!("{} has disappeared", file.display()))),
    }
}

/// The floor in the source `path`, whatever version it names. Errors: as of [`file()`]; `config_invalid` with the line.
pub(crate) fn floor(path: &Path) -> Result<Option<Version>> {
    let (file, text) = file(path)?;
    sources::file_floor(&file, &text)
}

/// The real path of the file, after the check that nobody else decides which one it is and what is in it.
fn trusted(path: &Path) -> Result<PathBuf> {
    let (file, stranger) =
        trust::traced(path).map_err(|error| error.during(format!("cannot read the source {}", path.display())))?;
    if let Some((other, _)) = stranger {
        let what = format!("users other than root can change {}", other.display());
        return Err(Error::new(Code::Permission, format!("the source {} is not used: {what}", path.display()))
            .advise("make root the owner, and remove write permission for group and others"));
    }
    let meta = std::fs::symlink_metadata(&file).at("cannot look at", &file)?;
    // What is read in /proc, a program writes, whose name or arguments another may have chosen.
    let is_of_proc = rustix::fs::statfs(&file).is_ok_and(|found| found.f_type == rustix::fs::PROC_SUPER_MAGIC);
    if !meta.is_file() || is_of_proc {
        return Err(Error::new(Code::ConfigInvalid, format!("{} is not a regular file", file.display())));
    }
    Ok(file)
}
