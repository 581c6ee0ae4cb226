//! Writing and removing resources.

use fleet_engine::book::RolloutState;
use fleet_engine::lint::{self, Known};
use fleet_engine::policy::Policy;
use fleet_engine::resource::{self, Kind, Resource};
use fleet_engine::shelf;
use fleet_wire::api::{ApiError, Changed, Code, How, KeptResource, Role, Takes, Unwise, Write, WriteResult};
use jiff::Timestamp;
use serde_json::json;
use yaml::Node;

use super::counts::OWN_REPORT;
use super::decide::ChangeRequest;
use super::tx::Tx;
use super::{Actor, CoreState, effects};

/// Documents of a text that cannot be read which a record of its refusal names; it has a line for them.
const MOST_CALLED: usize = 32;
/// Most bytes of a text of resources.
pub(crate) const MAX_TEXT: usize = 1 << 20;

impl CoreState {
    /// The resources of the kind called `kind`, by name; with `name` that one.
    ///
    /// # Errors
    /// There is no such kind, or no such resource.
    pub(crate) fn kept(&self, kind: &str, name: Option<&str>) -> Result<Vec<KeptResource>, ApiError> {
        let kind = named(kind)?;
        if kind == Kind::Rollout {
            return Ok(self.rollout_as_kept().into_iter().collect());
        }
        // The inventory's own report is made when it is asked for.
        let own = || self.own_report().filter(|own| name.is_none_or(|name| own.name == name));
        let own = if kind == Kind::Report { own() } else { None };
        let stored = self
            .shelf
            .all()
            .filter(|resource| resource.kind() == kind && name.is_none_or(|name| resource.metadata().name == name))
            .map(kept);
        let found: Vec<KeptResource> = own.into_iter().chain(stored).collect();
        match name.or(kind.only_name()) {
            Some(name) if found.is_empty() => Err(missing(kind, name)),
            _ => Ok(found),
        }
    }

    /// Writes resources, all of them or none.
    ///
    /// # Errors
    /// Why not; that is on record as well.
    pub(crate) fn write(&mut self, actor: &Actor, write: &Write) -> Result<WriteResult, ApiError> {
        let action = if write.how == How::Update { "update" } else { "create" };
        self.once(&write.id, write, |keeper, request| {
            let (subject, resources) = read(&write.text);
            let done = resources.and_then(|resources| {
                keeper.may_ask_elsewhere(actor, &resources)?;
                let may = |resource| keeper.may_write(resource, write.how);
                let written = resources.into_iter().map(may).collect::<Result<Vec<_>, _>>()?;
                Ok((keeper.with(written.clone())?, written))
            });
            keeper.settle(actor, action, &subject, request, write.dry_run, done)
        })
    }

    /// Removes a resource.
    ///
    /// # Errors
    /// Why not; that is on record as well.
    pub(crate) fn remove(
        &mut self,
        actor: &Actor,
        id: &str,
        kind: &str,
        name: &str,
        dry_run: bool,
    ) -> Result<WriteResult, ApiError> {
        self.once(id, &(kind, name, dry_run), |keeper, request| {
            let known = Kind::named(kind).and_then(Kind::only_name).filter(|_| name.is_empty());
            let subject = format!("{kind}/{}", known.unwrap_or(name));
            let done = keeper.without(kind, name);
            keeper.settle(actor, "delete", &subject, request, dry_run, done)
        })
    }

    /// Where the server asks others, it acts in its own name in its own network: an admin says whom.
    fn may_ask_elsewhere(&self, actor: &Actor, resources: &[Resource]) -> Result<(), ApiError> {
        for resource in resources {
            let (kind, role) = (resource.kind(), actor.role);
            let known = self.shelf.get(kind, &resource.metadata().name).map(Resource::asks).unwrap_or_default();
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
    fn may_write(&self, mut resource: Resource, how: How) -> Result<Resource, ApiError> {
        let (kind, name) = (resource.kind(), resource.metadata().name.clone());
        if kind == Kind::Report && name == OWN_REPORT {
            let message = format!("{kind} {name} is this server's own, made from what hosts say: take another name");
            return Err(ApiError::new(Code::BadRequest, message));
        }
        let kept = self.shelf.get(kind, &name);
        match (how, kept) {
            (How::Create, Some(_)) => {
                let message = format!("{kind} {name} is there already: use `update`, or `create --force`");
                return Err(ApiError::new(Code::AlreadyExists, message));
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
                    return Err(ApiError::new(Code::StaleRevision, message));
                }
            }
            (How::Replace, _) | (How::Create, None) => {}
        }
        resource.set_revision(&uuid::Uuid::new_v4().to_string());
        Ok(resource)
    }

    fn with(&self, resources: Vec<Resource>) -> Result<(Tx, Vec<Changed>), ApiError> {
        let mut tx = Tx::new(self.book.clone());
        let mut shelf = self.shelf.clone();
        let changed = resources.iter().map(|resource| self.changed(resource)).collect();
        for resource in &resources {
            let (metadata, yaml) = (resource.metadata(), resource.to_yaml());
            let revision = metadata.revision.clone().unwrap_or_default();
            tx.resources.push((resource.kind(), metadata.name.clone(), Some((revision, yaml))));
        }
        shelf.put_all_for(resources, &mut tx.book, &self.fleet).map_err(|refused| wrong(&refused))?;
        tx.shelf = Some(shelf);
        Ok((tx, changed))
    }

    fn without(&self, kind: &str, name: &str) -> Result<Drafted, ApiError> {
        let kind = named(kind)?;
        if let Some(why) = kind.is_made_here() {
            return Err(ApiError::new(Code::BadRequest, why));
        }
        let name = match kind.only_name() {
            Some(only) if name.is_empty() || name == only => only,
            Some(_) => return Err(missing(kind, name)),
            None => name,
        };
        let mut tx = Tx::new(self.book.clone());
        let mut shelf = self.shelf.clone();
        shelf.remove(&format!("{kind}/{name}"), &mut tx.book).map_err(|refused| wrong(&refused))?;
        tx.resources.push((kind, name.to_owned(), None));
        tx.shelf = Some(shelf);
        let changed = Changed {
            kind: kind.to_string(),
            name: name.to_owned(),
            revision: String::new(),
            was_there: true,
            takes: Takes::NextStep,
        };
        Ok(((tx, vec![changed]), Vec::new()))
    }

    fn changed(&self, resource: &Resource) -> Changed {
        let metadata = resource.metadata();
        let before = self.shelf.get(resource.kind(), &metadata.name);
        let is_same = before.is_some_and(|before| is_same(before, resource));
        Changed {
            kind: resource.kind().to_string(),
            name: metadata.name.clone(),
            revision: metadata.revision.clone().unwrap_or_default(),
            was_there: before.is_some(),
            takes: if is_same { Takes::Nothing } else { Takes::NextStep },
        }
    }

    /// Steps what was drafted, says what it does to the fleet, and makes it, unless it is only asked for.
    fn settle(
        &mut self,
        actor: &Actor,
        action: &str,
        subject: &str,
        request: &ChangeRequest,
        is_dry_run: bool,
        drafted: Result<Drafted, ApiError>,
    ) -> Result<WriteResult, ApiError> {
        let ((mut tx, mut changed), resources) = match drafted {
            Ok(drafted) => drafted,
            Err(wrong) => return Err(self.refuse(actor, action, subject, wrong, is_dry_run)),
        };
        let now = self.now();
        // Whoever writes the mode alone began nothing: the version is its author's.
        let way =
            |book: &RolloutState| book.target.clone().map(|target| (target.start, target.target, target.schedule));
        if way(&tx.book) != way(&self.book) {
            tx.book.author = Some(actor.who.clone());
        }
        let before = effects::told(&self.book, &self.fleet, now);
        let is_report = |change: &Changed| Kind::named(&change.kind) == Some(Kind::Report);
        if let Some(shelf) = tx.shelf.as_ref().filter(|_| !is_dry_run && changed.iter().any(is_report)) {
            // Good for a minute (Managed Updates v2).
            self.fleet.set_counts(shelf.counted_at(now), now);
        }
        tx.book.step(&mut self.fleet, now);
        for change in &mut changed {
            change.takes = takes(change, &self.book, &tx.book);
        }
        let effects = effects::of(&before, &tx.book, &self.fleet, now);
        let written = WriteResult { effects, changed, advice: self.unwise(&resources, &tx.book, now) };
        if is_dry_run {
            self.take_back();
            return Ok(written);
        }
        self.record(&mut tx, actor, action, subject, json!({}));
        if let Some(record) = tx.records.first_mut() {
            record.after = written.changed.iter().map(|change| change.revision.as_str()).collect::<Vec<_>>().join(", ");
            let kept = written.changed.iter().filter_map(|change| {
                self.shelf.get(Kind::named(&change.kind)?, &change.name)?.metadata().revision.clone()
            });
            record.before = kept.collect::<Vec<_>>().join(", ");
        }
        self.finish(tx, request, written)
    }
}

impl CoreState {
    /// What `lint` says of what was just written, by this fleet.
    fn unwise(&self, resources: &[Resource], book: &RolloutState, now: Timestamp) -> Vec<Unwise> {
        let names: Vec<String> =
            book.rollout.iter().flat_map(|rollout| &rollout.groups).map(|group| group.policy.name.clone()).collect();
        let start = book.rollout.as_ref().map(|rollout| rollout.start.clone());
        let known = Known { start, ..Known::of(&self.fleet, &names, now) };
        let of_one = |resource: &Resource| {
            let name = resource.metadata().name.clone();
            let unwise = move |advice: lint::Advice| Unwise {
                kind: advice.kind,
                name: name.clone(),
                line: advice.line,
                key: advice.key,
                code: advice.code.to_owned(),
                what: advice.what,
                advice: advice.advice,
            };
            lint::of_resource(resource, &known).into_iter().map(unwise).collect::<Vec<_>>()
        };
        resources.iter().flat_map(of_one).collect()
    }
}

/// A change, and the resources that it writes.
type Drafted = ((Tx, Vec<Changed>), Vec<Resource>);

/// When a change acts. Only the configurations and the version are about rollouts; everything else is answered from at once.
fn takes(change: &Changed, before: &RolloutState, after: &RolloutState) -> Takes {
    let number = |book: &RolloutState| book.rollout.as_ref().map(|rollout| rollout.number);
    let kind = Kind::named(&change.kind);
    let is_policy = matches!(kind, Some(Kind::Config | Kind::Maintenance));
    if change.takes == Takes::Nothing {
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
    let policy = |book: &RolloutState| book.policy.clone().unwrap_or_else(Policy::absent);
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

fn missing(kind: Kind, name: &str) -> ApiError {
    ApiError::new(Code::NotFound, format!("there is no {kind} {name}"))
}

fn wrong(refused: &shelf::Refused) -> ApiError {
    let code = match refused {
        shelf::Refused::Faults(_) => Code::BadResource,
        shelf::Refused::Conflict(_) => Code::Conflict,
        shelf::Refused::NotFound(_) => Code::NotFound,
    };
    ApiError::new(code, refused.to_string())
}
