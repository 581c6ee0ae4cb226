//! The TUF repository of the settings: whose it is, and where.

use std::path::Path;

use jiff::Timestamp;

use super::network;
use crate::config::{Spec, Updates};
use crate::context::Context;
use crate::host::durable;
use crate::inspect;
use crate::release::BaseUrl;
use crate::release::tuf::{self, Tuf};
use crate::report::{Code, Error, Result};

/// Where metadata is below the base URL.
const BELOW: &str = "tuf/metadata";
/// Most bytes of a root.
const MAX_ROOT: u64 = 128 << 10;

/// The repository that `spec` trusts; `None`: none. `updates`: the settings on the disk. Errors: `usage`.
pub(crate) fn of(context: &Context, updates: &Updates, spec: &Spec) -> Result<Option<Tuf>> {
    let Some(root) = spec.tuf_root.clone() else { return Ok(None) };
    let url = match &spec.tuf_url {
        Some(url) => url.parse()?,
        None => network::base_url(context, spec)?.join(BELOW).parse::<BaseUrl>()?,
    };
    let is_committed = updates.spec().tuf_root.as_ref() == Some(&root);
    Ok(Some(Tuf { root, url, versions: context.layout.versions.clone(), is_committed, lock: context.lock_path() }))
}

/// A root that is given by hand, if it is one. Errors: `usage`; those of reading.
pub(crate) fn given_root(file: &Path, now: Timestamp) -> Result<String> {
    let usage = |error: Error| Error { code: Code::Usage, ..error.during(format!("--tuf-root {}", file.display())) };
    let missing = || Error::new(Code::Usage, format!("--tuf-root: {} does not exist", file.display()));
    let bytes = durable::read_limited(file, MAX_ROOT).map_err(usage)?.ok_or_else(missing)?;
    ::tuf::TrustedSet::new(&bytes, now).map_err(usage)?;
    // Whoever checked it is JSON: its bytes are text.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What is kept begins with the root of the settings on the disk, also where it is damaged; without a root nothing is kept.
/// Errors: those of locking and writing.
pub(crate) fn settle(context: &mut Context) -> Result<()> {
    let updates = inspect::open(context)?;
    match of(context, &updates, updates.spec())? {
        Some(tuf) => tuf.settle(&|| context.signals.cancelled()),
        None => tuf::forget(&context.layout.versions),
    }
}
