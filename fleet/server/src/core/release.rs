//! The next release: `autoupdate_version` with other versions, and everything else in it as it is.

use fleet_engine::resource::Kind;
use fleet_wire::api::{ApiError, Code, How, KeptResource, Write, WriteResult};
use yaml::Node;

use super::tx::Tx;
use super::{Actor, resources};

/// What the next rollout goes from and to, as somebody typed it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NextRelease {
    /// `target_version`.
    pub(crate) target: String,
    /// `start_version`; empty: [`start`].
    pub(crate) start: String,
    /// The revision of the resource that was looked at; empty: there was none.
    pub(crate) revision: String,
}

/// What hosts run before their turn, where nobody says it: the last version whose rollout was done, else the present start
/// version; `None`: there was no rollout.
pub(crate) fn start(tx: &Tx<'_>) -> Option<String> {
    let rollouts = &tx.state().rollouts;
    let start = rollouts.last_done.as_ref().or(rollouts.target.as_ref().map(|target| &target.start));
    start.map(ToString::to_string)
}

/// The revision of `autoupdate_version`; empty: there is none.
pub(crate) fn revision(tx: &Tx<'_>) -> String {
    kept(tx).map(|kept| kept.revision).unwrap_or_default()
}

fn kept(tx: &Tx<'_>) -> Option<KeptResource> {
    resources::list(tx, Kind::Version.as_str(), None).ok()?.into_iter().next()
}

/// The resource as it would be.
///
/// # Errors
/// No start version is known or given.
pub(crate) fn document(tx: &Tx<'_>, release: &NextRelease) -> Result<String, ApiError> {
    let kept = kept(tx).and_then(|kept| Node::parse(&kept.yaml).ok());
    let mut document = kept.unwrap_or_else(|| {
        let mut first = Kind::Version.document();
        first.set(&["spec", "agents", "mode"], Node::text("enabled"));
        first.set(&["spec", "agents", "schedule"], Node::text("regular"));
        first
    });
    let known = Some(release.start.clone()).filter(|start| !start.is_empty()).or_else(|| start(tx));
    let first = || ApiError::new(Code::BadRequest, "Start version: give the version that hosts run now");
    let start = known.ok_or_else(first)?;
    let is_flat = document.at(&["spec", "agent_version"]).is_some();
    let keys = if is_flat {
        [["spec", "agent_version"].as_slice(), &["spec", "agent_start_version"]]
    } else {
        [["spec", "agents", "target_version"].as_slice(), &["spec", "agents", "start_version"]]
    };
    for (key, version) in keys.into_iter().zip([&release.target, &start]) {
        document.set(key, Node::text(version));
    }
    if !release.revision.is_empty() {
        document.set(&["metadata", "revision"], Node::text(&release.revision));
    }
    Ok(document.emit())
}

/// Writes it, as `update -f` or `create -f` would.
///
/// # Errors
/// Those of a write, also where somebody wrote after the revision; that is on record as well.
pub(crate) fn write(
    tx: &mut Tx<'_>,
    actor: &Actor,
    release: &NextRelease,
    (id, dry_run): (String, bool),
) -> Result<WriteResult, ApiError> {
    let how = if release.revision.is_empty() { How::Create } else { How::Update };
    let text = document(tx, release)?;
    resources::write(tx, actor, &Write { id, text, how, dry_run, prune: Vec::new() })
}
