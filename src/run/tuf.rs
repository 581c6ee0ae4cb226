//! The TUF repository of the settings: whose it is, and where.

use std::path::Path;

use jiff::Timestamp;
use serde_json::Value;

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
    let Some(root) = spec.tuf_root.clone() else {
        // By hand, by a template that failed: nobody said `--tuf-root ""`.
        if context.layout.versions.join(tuf::DIR).exists() {
            let what = "tuf_root is no longer in updates.yaml, so archives are not checked against a TUF repository; if that is intended, \
                        run `teleport-update enable --tuf-root \"\"`";
            context.report.warn(what);
        }
        return Ok(None);
    };
    let url = match &spec.tuf_url {
        Some(url) => url.parse()?,
        None => network::base_url(context, spec)?.join(BELOW).parse::<BaseUrl>()?,
    };
    let is_committed = updates.spec().tuf_root.as_ref() == Some(&root);
    Ok(Some(Tuf { root, url, versions: context.layout.versions.clone(), is_committed, lock: context.lock_path() }))
}

/// A root that is given by hand, if it is one; `known`, where it is that one, however it is written. Errors: `usage`; those of reading.
pub(crate) fn given_root(file: &Path, known: Option<&str>, now: Timestamp) -> Result<String> {
    let usage = |error: Error| Error { code: Code::Usage, ..error.during(format!("--tuf-root {}", file.display())) };
    let missing = || Error::new(Code::Usage, format!("--tuf-root: {} does not exist", file.display()));
    let bytes = durable::read_limited(file, MAX_ROOT).map_err(usage)?.ok_or_else(missing)?;
    ::tuf::TrustedSet::new(&bytes, now).map_err(usage)?;
    let signed = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).ok().map(|mut root| root["signed"].take());
    if let Some(known) = known.filter(|known| signed(known.as_bytes()) == signed(&bytes)) {
        return Ok(known.to_owned());
    }
    // It is JSON, and so its bytes are text.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What is kept begins with the root of the settings on the disk, also where it is damaged; without a root nothing is kept.
/// Errors: those of locking and writing.
pub(crate) fn settle(context: &mut Context) -> Result<()> {
    let updates = inspect::open(context)?;
    match of(context, &updates, updates.spec())? {
        Some(tuf) => tuf.settle(&|| context.signals.cancelled()),
        None => {
            let cancelled = || context.signals.cancelled();
            tuf::forget_under_lock(&context.layout.versions, &context.lock_path(), &cancelled)
        }
    }
}
