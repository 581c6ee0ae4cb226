//! Changes a resource as it is: read, changed, written with the revision that was read (FLEET §2).

use fleet_engine::resource::Kind;
use fleet_wire::api::{Code, How, KeptResource, Write, WriteResult};
use yaml::Node;

use super::{id, path};
use crate::client::{Answer, ApiCall, ApiClient};
use crate::failure::Failure;

/// How often a change is tried where somebody else writes in between, as `tctl` does (FLEET §6).
const TRIES: usize = 3;

/// Where resources are.
pub(super) const RESOURCES: &str = "/v1/fleet/resources";

/// The resources of a kind, or the one of that name.
///
/// # Errors
/// The server's refusals; where a name is given, that there is none.
pub(super) fn read(client: &ApiClient, kind: &str, name: Option<&str>) -> Result<Vec<KeptResource>, Failure> {
    let mut place = format!("{RESOURCES}/{}", path::encoded(kind));
    if let Some(name) = name {
        place.push_str(&format!("/{}", path::encoded(name)));
    }
    client.ask(&ApiCall::get(place))
}

/// The only resource of `kind`; `None`: it was not written.
///
/// # Errors
/// The server's refusals.
pub(super) fn only(client: &ApiClient, kind: Kind) -> Result<Option<KeptResource>, Failure> {
    match read(client, kind.as_str(), None) {
        Ok(kept) => Ok(kept.into_iter().next()),
        Err(failure) if failure.is(Code::NotFound) => Ok(None),
        Err(failure) => Err(failure),
    }
}

/// Its document with the revision in it: what is written back is refused where somebody wrote in between.
///
/// # Errors
/// The server gave no YAML.
pub(super) fn document(kept: &KeptResource) -> Result<Node, Failure> {
    let mut document = Node::parse(&kept.yaml).map_err(|fault| {
        Failure::new(Failure::BAD_ANSWER, format!("the server's {}/{} is no YAML: {fault}", kept.kind, kept.name))
    })?;
    // What the server makes itself has none.
    if !kept.revision.is_empty() {
        document.set(&["metadata", "revision"], Node::text(&kept.revision));
    }
    Ok(document)
}

/// Writes `text`, and removes what it lacks of the kinds of `prune`.
///
/// # Errors
/// The server's refusals.
pub(super) fn write(
    client: &ApiClient,
    text: String,
    how: How,
    prune: Vec<String>,
    dry_run: bool,
) -> Result<Answer<WriteResult>, Failure> {
    client.ask(&ApiCall::post(RESOURCES, &Write { id: id(), text, how, dry_run, prune })?.dry(dry_run))
}

/// Changes the only resource of `kind`, which is made where it is not there; `dry_run`: it is only checked. `change` says whether there is anything to write.
///
/// # Errors
/// Those of `change`, and the server's refusals.
pub(super) fn change(
    client: &ApiClient,
    kind: Kind,
    dry_run: bool,
    change: impl Fn(&mut Node) -> Result<bool, Failure>,
) -> Result<Option<Answer<WriteResult>>, Failure> {
    let mut tries = TRIES;
    loop {
        tries -= 1;
        let kept = only(client, kind)?;
        let (mut text, how) = match &kept {
            Some(kept) => (document(kept)?, How::Update),
            None => (kind.document(), How::Create),
        };
        if !change(&mut text)? {
            return Ok(None);
        }
        match write(client, text.emit(), how, Vec::new(), dry_run) {
            Err(failure) if tries > 0 && (failure.is(Code::StaleRevision) || failure.is(Code::AlreadyExists)) => {}
            written => return written.map(Some),
        }
    }
}

/// The same for one key.
pub(super) fn set(
    client: &ApiClient,
    kind: Kind,
    path: &[&str],
    to: &str,
    dry_run: bool,
) -> Result<Option<Answer<WriteResult>>, Failure> {
    change(client, kind, dry_run, |document| {
        document.set(path, Node::text(to));
        Ok(true)
    })
}
