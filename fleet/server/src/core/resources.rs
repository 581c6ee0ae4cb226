//! Reading, writing and removing resources.

use fleet_engine::lint::{self, Known};
use fleet_engine::policy::Policy;
use fleet_engine::resource::{self, Kind, Resource};
use fleet_engine::rollout_state::RolloutState;
use fleet_store::ResourceChange;
use fleet_wire::api::{ApiError, Changed, Code, How, KeptResource, Role, Takes, Unwise, Write, WriteResult};
use jiff::Timestamp;
use serde_json::json;
use yaml::Node;

use super::counts::{self, OWN_REPORT, made};
use super::tx::{RequestedAction, Tx};
use super::{Actor, CoreState, approvals, changes, rollouts};

/// Documents of a text that cannot be read which a record of its refusal names; it has a line for them.
const MOST_CALLED: usize = 32;
/// Most bytes of a text of resources.
pub(crate) const MAX_TEXT: usize = 1 << 20;

/// The resources of the kind called `kind`, by name; with `name` that one.
///
/// # Errors
/// There is no such kind, or no such resource.
pub(crate) fn list(tx: &Tx<'_>, kind: &str, name: Option<&str>) -> Result<Vec<KeptResource>, ApiError> {
    let (state, kind) = (tx.state(), named(kind)?);
    let is_asked_for = |known: &str| name.is_none_or(|name| known == name);
    let own = match kind {
        Kind::Rollout => {
            let rollout = rollouts::rollout(tx).ok().map(|rollout| json!(rollout));
            let only = kind.only_name().unwrap_or_default();
            return Ok(rollout.map(|json| made(kind, only, state.revision.to_string(), json)).into_iter().collect());
        }
        // The inventory's own report is made when it is asked for.
        Kind::Report => counts::own_report(state).filter(|own| is_asked_for(&own.name)),
        _ => None,
    };
    let stored = state.resources.all().filter(|resource| resource.kind() == kind);
    let stored = stored.filter(|resource| is_asked_for(&resource.metadata().name)).map(kept);
    let found: Vec<KeptResource> = own.into_iter().chain(stored).collect();
    match name.or(kind.only_name()) {
        Some(name) if found.is_empty() => Err(missing(kind, name)),
        _ => Ok(found),
    }
}

/// The resources of these kinds.
pub(crate) fn of_kinds(tx: &Tx<'_>, kinds: &[Kind]) -> Vec<Resource> {
    tx.state().resources.all().filter(|resource| kinds.contains(&resource.kind())).cloned().collect()
}

/// Writes resources, all of them or none.
///
/// # Errors
/// Why not; that is on record as well.
pub(crate) fn write(tx: &mut Tx<'_>, actor: &Actor, write: &Write) -> Result<WriteResult, ApiError> {
    let action = if write.how == How::Update { "update" } else { "create" };
    let (subject, resources) = match write.text.as_str() {
        "" if !write.prune.is_empty() => (write.prune.join(", "), Ok(Vec::new())),
        text => read(text),
    };
    let asked = RequestedAction { actor, action, subject: &subject, is_dry: write.dry_run };
    tx.once(&asked, &write.id, write, |tx| {
        let (resources, state) = (resources?, tx.state());
        may_ask_elsewhere(state, actor, &resources)?;
        let may = |resource| may_write(state, resource, write.how);
        let written = resources.into_iter().map(may).collect::<Result<Vec<Resource>, _>>()?;
        let gone = lacking(state, &written, &write.prune)?;
        approvals::may_write(state, actor, &written, &gone)?;
        let names: Vec<String> = gone.iter().map(|(kind, name)| format!("{kind}/{name}")).collect();
        if !names.is_empty() {
            tx.draft.detail = json!({ "removed": names });
        }
        keep(tx, &asked, written, gone)
    })
}

/// Keeps what is `written` with its revisions, and removes what is `gone`, in this transaction: all of it or nothing. The engine steps.
///
/// # Errors
/// Why not; then nothing of it is in the transaction.
pub(super) fn keep(
    tx: &mut Tx<'_>,
    asked: &RequestedAction<'_>,
    written: Vec<Resource>,
    gone: Vec<(Kind, String)>,
) -> Result<WriteResult, ApiError> {
    let state = tx.state();
    let mut changed: Vec<Changed> = written.iter().map(|resource| changed(state, resource)).collect();
    changed.extend(gone.iter().map(|(kind, name)| removed(*kind, name)));
    let mut all = tx.draft.resources.clone().unwrap_or_else(|| state.resources.clone());
    let (rollouts, fleet) = tx.change();
    // What goes first may be what keeps the new from being written.
    for (kind, name) in &gone {
        all.remove(&format!("{kind}/{name}"), rollouts)?;
    }
    if !written.is_empty() {
        all.put_all_for(written.clone(), rollouts, Some(fleet))?;
    }
    let stored = written.iter().map(stored).chain(gone.into_iter().map(|(kind, name)| (kind, name, None)));
    tx.draft.written.extend(stored);
    tx.draft.resources = Some(all);
    Ok(settle(tx, asked, changed, &written))
}

/// A resource as the store takes it.
pub(super) fn stored(resource: &Resource) -> ResourceChange {
    let metadata = resource.metadata();
    let revision = metadata.revision.clone().unwrap_or_default();
    (resource.kind(), metadata.name.clone(), Some((revision, resource.to_yaml())))
}

/// What is kept of the kinds of `prune`, and not `written`.
///
/// # Errors
/// Of a kind there is nothing to remove: what the server makes, and what other servers say of their agents, is no policy.
fn lacking(state: &CoreState, written: &[Resource], prune: &[String]) -> Result<Vec<(Kind, String)>, ApiError> {
    let kinds = prune.iter().map(|name| match named(name)? {
        kind if kind == Kind::Report || kind.is_made_here().is_some() => {
            Err(ApiError::new(Code::BadRequest, format!("{name} is not pruned")))
        }
        kind => Ok(kind),
    });
    let kinds = kinds.collect::<Result<Vec<Kind>, ApiError>>()?;
    let key = |resource: &Resource| (resource.kind(), resource.metadata().name.clone());
    let kept = state.resources.all().map(key).filter(|(kind, _)| kinds.contains(kind));
    Ok(kept.filter(|known| !written.iter().any(|resource| key(resource) == *known)).collect())
}

fn removed(kind: Kind, name: &str) -> Changed {
    let (kind, name) = (kind.to_string(), name.to_owned());
    Changed { kind, name, revision: String::new(), was_there: true, takes: Takes::NextStep.into() }
}

/// Removes a resource.
///
/// # Errors
/// Why not; that is on record as well.
pub(crate) fn remove(
    tx: &mut Tx<'_>,
    actor: &Actor,
    id: &str,
    (kind, name): (&str, &str),
    is_dry: bool,
) -> Result<WriteResult, ApiError> {
    let only = Kind::named(kind).and_then(Kind::only_name).filter(|_| name.is_empty());
    let subject = format!("{kind}/{}", only.unwrap_or(name));
    let asked = RequestedAction { actor, action: "delete", subject: &subject, is_dry };
    tx.once(&asked, id, &(kind, name, is_dry), |tx| {
        let kind = named(kind)?;
        if let Some(why) = kind.is_made_here().filter(|_| !kind.can_go()) {
            return Err(ApiError::new(Code::BadRequest, why));
        }
        let name = match kind.only_name() {
            Some(only) if name.is_empty() || name == only => only,
            Some(_) => return Err(missing(kind, name)),
            None => name,
        };
        let gone = vec![(kind, name.to_owned())];
        approvals::may_write(tx.state(), actor, &[], &gone)?;
        keep(tx, &asked, Vec::new(), gone)
    })
}

/// Where the server asks others, it acts in its own name in its own network: an admin says whom.
fn may_ask_elsewhere(state: &CoreState, actor: &Actor, resources: &[Resource]) -> Result<(), ApiError> {
    for resource in resources {
        let (kind, role) = (resource.kind(), actor.role);
        let known = state.resources.get(kind, &resource.metadata().name).map(Resource::asks).unwrap_or_default();
        if let Some(url) = resource.asks().into_iter().find(|url| role < Role::Admin && !known.contains(url)) {
            let message = format!(
                "{kind}: {url} is a new address that the server would ask: that needs the role admin; this is {role}"
            );
            return Err(ApiError::new(Code::Forbidden, message));
        }
    }
    Ok(())
}

/// A resource with a new revision, as far as it may be written.
fn may_write(state: &CoreState, mut resource: Resource, how: How) -> Result<Resource, ApiError> {
    let (kind, name) = (resource.kind(), resource.metadata().name.clone());
    let refused = |code: Code, message: String| Err(ApiError::new(code, message));
    if let Some(why) = kind.is_made_here() {
        return refused(Code::BadRequest, why.to_owned());
    }
    if kind == Kind::Report && name == OWN_REPORT {
        let message = format!("{kind} {name} is this server's own, made from what hosts say: take another name");
        return refused(Code::BadRequest, message);
    }
    match (how, state.resources.get(kind, &name)) {
        (How::Create, Some(_)) => {
            let message = format!("{kind} {name} is there already: use `update`, or `create --force`");
            return refused(Code::AlreadyExists, message);
        }
        (How::Update, None) => return Err(missing(kind, &name)),
        (How::Update, Some(kept)) => {
            let (had, has) = (&resource.metadata().revision, &kept.metadata().revision);
            if had.is_some() && had != has {
                let message = format!(
                    "{kind} {name} was changed since you read it (revision {} now): read it again with \
                     `get {kind}`, and write your change into that",
                    has.as_deref().unwrap_or("none")
                );
                return refused(Code::StaleRevision, message);
            }
        }
        (How::Replace, _) | (How::Create, None) => {}
    }
    resource.set_revision(&uuid::Uuid::new_v4().to_string());
    Ok(resource)
}

fn changed(state: &CoreState, resource: &Resource) -> Changed {
    let metadata = resource.metadata();
    let before = state.resources.get(resource.kind(), &metadata.name);
    let is_same = before.is_some_and(|before| is_same(before, resource));
    Changed {
        kind: resource.kind().to_string(),
        name: metadata.name.clone(),
        revision: metadata.revision.clone().unwrap_or_default(),
        was_there: before.is_some(),
        takes: if is_same { Takes::Nothing } else { Takes::NextStep }.into(),
    }
}

/// Steps with what is `written` or removed, and says what that does to the fleet.
fn settle(
    tx: &mut Tx<'_>,
    asked: &RequestedAction<'_>,
    mut changed: Vec<Changed>,
    written: &[Resource],
) -> WriteResult {
    let now = tx.state().now();
    // Whoever writes the mode alone began nothing: the version is its author's.
    let way =
        |rollouts: &RolloutState| rollouts.target.clone().map(|target| (target.start, target.target, target.schedule));
    if way(tx.rollouts()) != way(&tx.state().rollouts) {
        tx.change().0.author = Some(asked.actor.who.clone());
    }
    let before = changes::told(&tx.state().rollouts, &tx.state().fleet, now);
    if !asked.is_dry && changed.iter().any(|change| Kind::named(&change.kind) == Some(Kind::Report)) {
        tx.count_reported(now);
    }
    tx.step(now);
    let (state, rollouts) = (tx.state(), tx.rollouts());
    for change in &mut changed {
        change.takes = takes(change, &state.rollouts, rollouts).into();
    }
    let effects = changes::effects(&before, rollouts, &state.fleet, now);
    let advice = unwise(state, written, rollouts, now);
    let kept = changed.iter().filter_map(|change| {
        state.resources.get(Kind::named(&change.kind)?, &change.name)?.metadata().revision.clone()
    });
    let before = kept.collect::<Vec<_>>().join(", ");
    let after = changed.iter().map(|change| change.revision.as_str()).collect::<Vec<_>>().join(", ");
    tx.draft.revisions = (before, after);
    WriteResult { effects, changed, advice }
}

/// What `lint` says of what was just written, by this fleet.
fn unwise(state: &CoreState, resources: &[Resource], rollouts: &RolloutState, now: Timestamp) -> Vec<Unwise> {
    let groups = rollouts.rollout.iter().flat_map(|rollout| &rollout.groups);
    let names: Vec<String> = groups.map(|group| group.policy.name.clone()).collect();
    let start = rollouts.rollout.as_ref().map(|rollout| rollout.start.clone());
    let known = Known { start, ..Known::of(&state.fleet, &names, now) };
    let of_one = |resource: &Resource| {
        let name = resource.metadata().name.clone();
        let unwise = move |lint::Advice { kind, line, key, code, what, advice }| {
            let (name, code) = (name.clone(), code.to_owned());
            Unwise { kind, name, line, key, code, what, advice }
        };
        lint::of_resource(resource, &known).into_iter().map(unwise).collect::<Vec<_>>()
    };
    resources.iter().flat_map(of_one).collect()
}

/// When a change acts. Only the configurations and the version are about rollouts; everything else is answered from at once.
fn takes(change: &Changed, before: &RolloutState, after: &RolloutState) -> Takes {
    let number = |rollouts: &RolloutState| rollouts.rollout.as_ref().map(|rollout| rollout.number);
    let kind = Kind::named(&change.kind);
    let is_policy = matches!(kind, Some(Kind::Config | Kind::Maintenance));
    if change.takes == Takes::Nothing.into() {
        Takes::Nothing
    } else if !is_policy && kind != Some(Kind::Version) {
        Takes::NextStep
    } else if after.rollout.is_none() && before.rollout.is_some() {
        Takes::NoRollout
    } else if number(before) != number(after) {
        Takes::NewRollout
    } else if is_policy {
        takes_of_policy(before, after)
    } else {
        Takes::NextStep
    }
}

/// Mode, pace, thresholds and freezes act on the present rollout; groups, members, order, windows, canaries and where hosts
/// without a group go, on the next one.
fn takes_of_policy(before: &RolloutState, after: &RolloutState) -> Takes {
    let policy = |rollouts: &RolloutState| rollouts.policy.clone().unwrap_or_else(Policy::absent);
    let (was, is) = (policy(before), policy(after));
    let acts_later = was.of_next_rollout() != is.of_next_rollout();
    let acts_now = was.at_once() != is.at_once();
    match (acts_now, acts_later) {
        // Without a rollout everything waits for the first.
        _ if after.rollout.is_none() && was != is => Takes::NextRollout,
        (true, true) => Takes::StepAndRollout,
        (false, true) => Takes::NextRollout,
        (_, false) => Takes::NextStep,
    }
}

fn is_same(before: &Resource, after: &Resource) -> bool {
    let plain = |resource: &Resource| {
        let mut resource = resource.clone();
        resource.set_revision("");
        resource.to_json()
    };
    plain(before) == plain(after)
}

fn kept(resource: &Resource) -> KeptResource {
    let metadata = resource.metadata();
    KeptResource {
        kind: resource.kind().to_string(),
        name: metadata.name.clone(),
        revision: metadata.revision.clone().unwrap_or_default(),
        yaml: resource.to_yaml(),
        json: resource.to_json(),
    }
}

/// The resources of a text, and what they are called. Those that cannot be read are called as the text calls them.
fn read(text: &str) -> (String, Result<Vec<Resource>, ApiError>) {
    match resource::read(text) {
        Ok(resources) => {
            let name = |resource: &Resource| format!("{}/{}", resource.kind(), resource.metadata().name);
            (resources.iter().map(name).collect::<Vec<_>>().join(", "), Ok(resources))
        }
        Err(faults) => {
            let named = as_called(text);
            let subject = if named.is_empty() { "a text without a kind".to_owned() } else { named.join(", ") };
            (subject, Err(ApiError::new(Code::BadResource, faults.to_string())))
        }
    }
}

/// Kind and name of each document of a text, as far as they are written.
fn as_called(text: &str) -> Vec<String> {
    let roots = Node::parse_all(text).unwrap_or_default();
    let documents = roots.iter().flat_map(|root| root.items().unwrap_or(std::slice::from_ref(root)));
    let called = documents.take(MOST_CALLED).filter_map(|document| {
        let kind = document.get("kind").and_then(Node::as_str)?;
        let only = Kind::named(kind).and_then(Kind::only_name);
        let name = document.at(&["metadata", "name"]).and_then(Node::as_str).or(only).unwrap_or_default();
        Some(format!("{kind}/{name}"))
    });
    called.collect()
}

fn named(kind: &str) -> Result<Kind, ApiError> {
    let names = || Kind::ALL.map(Kind::as_str).join(", ");
    let unknown = || ApiError::new(Code::NotFound, format!("there is no kind {kind:?}: kinds are {}", names()));
    Kind::named(kind).ok_or_else(unknown)
}

pub(super) fn missing(kind: Kind, name: &str) -> ApiError {
    ApiError::new(Code::NotFound, format!("there is no {kind} {name}"))
}
