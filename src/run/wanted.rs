//! Which version is wanted, and who says so: the one door for a new source of versions (`cluster/` asks). `update` and `plan`
//! take the whole answer; `enable` and `status` take the directive, for a version may be forced or the proxy be missing.

use std::time::Duration;

use protocol::find::{Directive, Question};
use protocol::{Edition, Revision};

use crate::cluster::{self, Found, ProxyAddr};
use crate::config::{Spec, Updates};
use crate::context::Context;
use crate::context::heard::Heard;
use crate::host::http::Client;
use crate::inspect;
use crate::report::{Code, Error, Result};
use crate::run::{fleet, identity};

/// What becomes of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// This host installs what it is told, when it is told to.
    Act,
    /// A person reads it: the host does not count as told (docs/decisions/0047).
    Show,
}

/// What the cluster wants now.
pub(crate) struct Wanted {
    /// The version to be run.
    pub revision: Revision,
    /// Whether hosts may go now.
    pub in_window: bool,
    /// Over how long hosts spread, seconds.
    pub jitter_seconds: u32,
}

impl Wanted {
    /// Asks the cluster, for `purpose`.
    ///
    /// Errors: `proxy_missing`, those of the question, `edition_unknown`.
    pub(crate) fn ask(context: &Context, updates: &Updates, client: &Client, purpose: Purpose) -> Result<Self> {
        let directive = directive(context, updates.spec(), client, purpose, None)?;
        // Where updates.yaml names no edition (RFD 0169 has none), the one on disk is meant.
        let active = match updates.spec().active() {
            Some(active) => Some(active),
            None => inspect::active(updates, &inspect::installed_now(context, updates)?),
        };
        let revision = revision(&directive, active.as_ref(), None)?;
        Ok(Self { revision, in_window: directive.in_window, jitter_seconds: directive.jitter_seconds })
    }
}

/// Asks the cluster that `spec` names.
pub(crate) fn directive(
    context: &Context,
    spec: &Spec,
    client: &Client,
    purpose: Purpose,
    deadline: Option<Duration>,
) -> Result<Directive> {
    let proxy: ProxyAddr = proxy(spec)?.parse()?;
    let host_uuid = context.host_uuid()?;
    let update_id = identity::shown(context, spec, host_uuid.as_deref());
    let dry_run = purpose == Purpose::Show;
    let question = Question { host: host_uuid, group: spec.group.clone(), update_id, dry_run };
    let origin = cluster::origin(&proxy);
    // Only a question by which this host acts is signed.
    let host = question.host.as_deref().filter(|_| !dry_run);
    let signature = host.and_then(|host| fleet::signature(context, &origin, host));
    let signature = signature.as_deref();
    let found = cluster::find(client, &origin, &question, signature, deadline, &|| context.signals.cancelled());
    context.talk.is_deaf.set(found.is_err());
    let Found { directive, fleet } = found?;
    let (version, acts, client) = (directive.version.clone(), purpose == Purpose::Act, client.clone());
    let result = fleet.and_then(|_| fleet::last_result(context));
    *context.talk.heard.borrow_mut() = Some(Heard { origin, fleet, version, acts, result, client });
    Ok(directive)
}

/// The proxy address, or the error that says how to give one.
pub(crate) fn proxy(spec: &Spec) -> Result<&str> {
    spec.proxy.as_deref().ok_or_else(|| {
        Error::new(Code::ProxyMissing, "no cluster address is known")
            .advise("run `teleport-update enable --proxy ADDR`, or set teleport.proxy_server in /etc/teleport.yaml")
    })
}

/// The revision that the directive means: no edition in the answer means the installed one (SPEC §1). FIPS is left by a word
/// of this host's operator alone (`said`, of `--edition`), whatever the cluster answers, and entered by it too.
pub(crate) fn revision(directive: &Directive, active: Option<&Revision>, said: Option<Edition>) -> Result<Revision> {
    let installed = active.map(|active| active.edition);
    let edition = match (said, installed) {
        (Some(Edition::EnterpriseFips), _) | (None, Some(Edition::EnterpriseFips)) => Some(Edition::EnterpriseFips),
        _ => directive.edition.or(said).or(installed),
    };
    let edition = edition.ok_or_else(|| {
        Error::new(Code::EditionUnknown, "the cluster does not name an edition, and no version is installed")
            .advise("run `teleport-update enable --edition EDITION` (oss, enterprise or enterprise-fips)")
    })?;
    Ok(Revision { version: directive.version.clone(), edition })
}
