//! A version downloaded without the lock, and whether it is still what is asked for.

use super::outcome::note_failure;
use super::planned::{announced, supplied};
use super::request::RunRequest;
use crate::config::{Spec, Updates};
use crate::context::Context;
use crate::execute::prepare::{self, Failed, Staged};
use crate::host::lock::{self, Download};
use crate::plan::Plan;
use crate::plan::facts::Facts;
use crate::report::Result;
use crate::run::network;
use crate::store::VersionDir;
use protocol::{Arch, Revision};

/// What is to be downloaded.
pub(super) struct Order {
    pub(super) updates: Updates,
    pub(super) plan: Plan,
    pub(super) facts: Facts,
    pub(super) terms: Terms,
}

/// A version that was downloaded and is to be installed, what it was asked for under, and the lock of its download.
pub(crate) type Fetched = Option<(Staged, Terms, Download)>;

/// What is downloaded, and all that has a say in how: from where, past whom, signed by whom. What was fetched under other terms
/// is not what the settings ask for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Terms {
    revision: Revision,
    dir: VersionDir,
    arch: Arch,
    insecure: bool,
    /// The settings of a download, all others as they are by default.
    spec: Spec,
}

impl Terms {
    /// `None` where `plan` downloads nothing.
    pub(super) fn of(context: &Context, plan: &Plan, spec: &Spec) -> Option<Self> {
        let (revision, dir) = plan.download()?;
        let Spec { base_url, public_key, ca, components, https_proxy, http_proxy, .. } = spec.clone();
        let of_downloads = Spec { base_url, public_key, ca, components, https_proxy, http_proxy, ..Spec::default() };
        let Spec { tuf_root, tuf_url, no_proxy, .. } = spec.clone();
        Some(Self {
            revision: revision.clone(),
            dir: dir.clone(),
            arch: network::arch(context),
            insecure: network::is_insecure(context, spec),
            spec: Spec { tuf_root, tuf_url, no_proxy, ..of_downloads },
        })
    }
}

/// Downloads what `order` says, without the lock. `None`: another run did so meanwhile.
pub(super) fn download(context: &mut Context, request: &RunRequest<'_>, order: Order) -> Result<Fetched> {
    let Some((revision, dir)) = order.plan.download() else { return Ok(None) };
    let begun = Download::begin(&context.lock_path(), dir.as_str(), lock::wait_of(request.command), &|| {
        context.signals.cancelled()
    });
    let failed = match begun {
        Ok(None) => return Ok(None),
        Ok(Some(lock)) => {
            let staged = supplied(context, &order.updates, request, &order.facts, |site, supply| {
                Ok(prepare::download(site, &order.plan, revision, dir, supply))
            });
            match staged {
                Ok(Ok(staged)) => return Ok(Some((staged, order.terms, lock))),
                Ok(Err(failed)) => failed,
                Err(error) => Failed { error, spent: false },
            }
        }
        Err(error) => Failed { error, spent: false },
    };
    let digest = failed.spent.then(|| announced(context, &order.updates, request));
    // Whoever has the lock has more to tell than this.
    if let Ok(_lock) = context.lock(request.command) {
        note_failure(context, request, &failed.error, digest);
    }
    Err(failed.error)
}
