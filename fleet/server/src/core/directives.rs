//! Drafts and plans of version directives: written, planned, reviewed, applied (DIRECTIVES §3).

use fleet_engine::plain::cut;
use fleet_engine::planned::Planned;
use fleet_engine::promotion::{self, digest};
use fleet_engine::refusal::Refusal;
use fleet_engine::resource::{
    self, Directive, DirectivePlan, Draft, Faults, Kind, Resource, VersionControl, is_draft_name,
};
use fleet_wire::api::{
    ApiError, ApplyPlan, AuditEntry, BeginDryRun, Code, DraftView, NewDraft, NewPlan, PlanState, PlanView, Review,
    Role, WriteResult,
};
use serde_json::{Value, json};

use super::actor::own_id;
use super::dry_runs::{as_plan, imagined};
use super::resources::{self, MAX_TEXT, missing};
use super::tx::{RequestedAction, Tx};
use super::{Actor, CoreState, changes, dry_runs};

/// Most drafts, and most plans.
const MOST: usize = 100;
/// Longest reason of a review, characters.
const LONGEST_REASON: usize = 1000;

/// The drafts, by name, without what they say; with `name` that one, with it.
///
/// # Errors
/// There is no such draft.
pub(crate) fn drafts(tx: &Tx<'_>, name: Option<&str>) -> Result<Vec<DraftView>, ApiError> {
    let all = tx.state().resources.all();
    let found = all.filter(|resource| name.is_none_or(|name| resource.metadata().name == name));
    let found: Vec<DraftView> = found.filter_map(|resource| draft_view(resource, name.is_some())).collect();
    match name {
        Some(name) if found.is_empty() => Err(missing(Kind::Draft, name)),
        _ => Ok(found),
    }
}

/// Each draft and its name, without a digest: a page asks for all of them again and again.
pub(crate) fn known_drafts(state: &CoreState) -> impl Iterator<Item = (&str, &Draft)> {
    state.resources.all().filter_map(|resource| match resource {
        Resource::Draft(object) => Some((object.metadata.name.as_str(), &object.model)),
        _ => None,
    })
}

/// Writes a draft, whole. One that means what is there is no news. Where drafts of this name are promoted by themselves, it is planned
/// and, if nothing is against it, applied.
///
/// # Errors
/// Why not. What a controller may not write is on record a few times, all else each time.
pub(crate) fn put(tx: &mut Tx<'_>, actor: &Actor, name: &str, new: &NewDraft) -> Result<DraftView, ApiError> {
    let subject = format!("draft {name}");
    tx.begin()?;
    own_id(&new.id)?;
    if let Err(wrong) = is_own(tx.state(), actor, name) {
        let _ = tx.note(actor, "draft", &subject, Some(&wrong));
        return Err(wrong);
    }
    let read = one_directive(&new.text);
    if let (Ok(read), Some(known)) = (&read, tx.state().resources.get(Kind::Draft, name))
        && known.directive().map(|(model, _)| model) == read.directive().map(|(model, _)| model)
        && let Some(view) = draft_view(known, true)
    {
        let _ = tx.note(actor, "draft", &subject, None);
        return Ok(view);
    }
    let asked = RequestedAction { actor, action: "draft", subject: &subject, is_dry: false };
    tx.once(&asked, &new.id, &(name, &new.text), |tx| {
        let (read, state) = (read?, tx.state());
        if !is_draft_name(name) {
            let message = format!("{name:?} is no draft's name, KIND/NAME of letters, digits, `.`, `_` and `-`");
            return Err(ApiError::new(Code::BadRequest, message));
        }
        let known = state.resources.get(Kind::Draft, name);
        if known.is_none() && known_drafts(state).count() >= MOST {
            let message = format!("there are {MOST} drafts: remove one with `rm version-directive-draft/KIND/NAME`");
            return Err(ApiError::new(Code::Conflict, message));
        }
        let before = known.and_then(|known| known.metadata().revision.clone()).unwrap_or_default();
        let spec = json!({ "author": actor.who, "time": state.now() });
        let draft = made(Kind::Draft, name, &spec, &read)?;
        store(tx, &[&draft], &[]);
        let after = draft.metadata().revision.clone().unwrap_or_default();
        let (plan, applied) = promote(tx, &asked, name, &draft)?;
        tx.draft.revisions = (before, after);
        tx.draft.detail = plan.as_ref().map_or(Value::Null, |plan| json!({ "plan": plan, "applied": applied }));
        let view = draft_view(&draft, true).ok_or_else(|| missing(Kind::Draft, name))?;
        Ok(DraftView { plan, applied, ..view })
    })
}

/// A controller has one draft: the first that it writes, if that is nobody else's.
fn is_own(state: &CoreState, actor: &Actor, name: &str) -> Result<(), ApiError> {
    if actor.role != Role::Controller {
        return Ok(());
    }
    let forbidden = |message| Err(ApiError::new(Code::Forbidden, message));
    // What the server's own controller drafts is nobody else's, also before it did, and where somebody else did before it was there.
    let own = name.strip_prefix("tuf/").filter(|own| state.resources.get(Kind::Controller, own).is_some());
    match own {
        Some(_) if actor.who == format!("controller {name}") => return Ok(()),
        Some(own) => return forbidden(format!("draft {name} is of the version-controller {own}")),
        None => {}
    }
    for (draft, Draft { author, .. }) in known_drafts(state) {
        match (draft == name, *author == actor.who) {
            (true, false) => return forbidden(format!("draft {name} is of {author}: {} writes its own", actor.who)),
            (false, true) => return forbidden(format!("{} has the draft {draft}, and writes no other", actor.who)),
            _ => {}
        }
    }
    Ok(())
}

/// Freezes a draft or a text: it does not change any more. `is_dry`: says what the plan would be, and makes none.
///
/// # Errors
/// Why not; that is on record as well.
pub(crate) fn plan(tx: &mut Tx<'_>, actor: &Actor, new: &NewPlan, is_dry: bool) -> Result<PlanView, ApiError> {
    let id = own_id(&new.id)?.to_string();
    let subject = format!("plan {id}");
    let asked = RequestedAction { actor, action: "plan", subject: &subject, is_dry };
    tx.once(&asked, &new.id, &(&new.draft, &new.text), |tx| {
        let state = tx.state();
        promotion::is_enabled(&state.resources).map_err(not_promoted)?;
        let (draft, source) = match (&new.draft, &new.text) {
            (Some(draft), None) => {
                let found = state.resources.get(Kind::Draft, draft).ok_or_else(|| missing(Kind::Draft, draft))?;
                (draft.clone(), found.clone())
            }
            (None, Some(text)) => (String::new(), one_directive(text)?),
            _ => return Err(ApiError::new(Code::BadRequest, "a plan is of a draft or of a text: give one of them")),
        };
        let (plan, gone) = frozen(state, actor, &id, &draft, &source)?;
        store(tx, &[&plan], &gone);
        tx.draft.detail = json!({ "draft": draft });
        plan_view(tx.state(), &plan, true)
    })
}

/// The plans, the oldest first, without effects; with `id` that one, with them.
///
/// # Errors
/// There is no such plan.
pub(crate) fn plans(tx: &Tx<'_>, id: Option<&str>) -> Result<Vec<PlanView>, ApiError> {
    let state = tx.state();
    if let Some(id) = id {
        return Ok(vec![plan_view(state, found(state, id)?.0, true)?]);
    }
    let mut plans: Vec<(&Resource, &DirectivePlan)> = state.resources.all().filter_map(as_plan).collect();
    plans.sort_by_key(|(_, plan)| plan.time);
    plans.into_iter().map(|(resource, _)| plan_view(state, resource, false)).collect()
}

/// Whether somebody may have a voice on a plan.
///
/// # Errors
/// Why not, as [`review`] would say it.
pub(crate) fn may_review(tx: &Tx<'_>, actor: &Actor, id: &str) -> Result<(), ApiError> {
    let state = tx.state();
    has_role(state, actor)?;
    found(state, id)?.1.clone().review(&actor.who, true, "", state.now()).map_err(not_promoted)
}

fn has_role(state: &CoreState, actor: &Actor) -> Result<(), ApiError> {
    let needed = state.resources.version_control().promotion.role;
    if Role::named(&needed).is_none_or(|needed| actor.role < needed) {
        let message = format!("plans are reviewed by the role {needed}; this is {}", actor.role);
        return Err(ApiError::new(Code::Forbidden, message));
    }
    Ok(())
}

/// Gives a voice on a plan: one a person, none its author and no controller. A denial ends it. `is_dry`: says what would become of it.
///
/// # Errors
/// Why not; that is on record as well.
pub(crate) fn review(
    tx: &mut Tx<'_>,
    actor: &Actor,
    id: &str,
    (review, is_dry): (&Review, bool),
) -> Result<PlanView, ApiError> {
    let subject = format!("plan {id}");
    let action = if review.approve { "plan_approved" } else { "plan_denied" };
    let asked = RequestedAction { actor, action, subject: &subject, is_dry };
    tx.once(&asked, &review.id, &(id, review.approve, &review.reason), |tx| {
        let state = tx.state();
        let (resource, plan) = found(state, id)?;
        has_role(state, actor)?;
        if review.reason.chars().count() > LONGEST_REASON {
            let message = format!("the reason has more than {LONGEST_REASON} characters");
            return Err(ApiError::new(Code::BadRequest, message));
        }
        let (mut next, reason) = (plan.clone(), cut(&review.reason, LONGEST_REASON));
        next.review(&actor.who, review.approve, &reason, state.now()).map_err(not_promoted)?;
        let plan = remade(id, &next, resource)?;
        store(tx, &[&plan], &[]);
        tx.draft.detail = json!({ "reason": reason });
        plan_view(tx.state(), &plan, true)
    })
}

/// Begins the dry run of a plan, and ends that of another one which is pending.
///
/// # Errors
/// Why not; that is on record as well.
pub(crate) fn begin_dry_run(
    tx: &mut Tx<'_>,
    actor: &Actor,
    id: &str,
    begin: &BeginDryRun,
) -> Result<PlanView, ApiError> {
    let subject = format!("plan {id}");
    let asked = RequestedAction { actor, action: "plan_dry_run", subject: &subject, is_dry: false };
    tx.once(&asked, &begin.id, &(id, "dry-run"), |tx| {
        let (state, now) = (tx.state(), tx.state().now());
        if state.rollouts.rollout.is_none() {
            let message = "no host asks for a dry run while nothing rules: apply a first directive without one, or write an \
                           autoupdate_version";
            return Err(ApiError::new(Code::Conflict, message));
        }
        let (resource, plan) = found(state, id)?;
        let mut next = plan.clone();
        next.begin_dry_run(now).map_err(not_promoted)?;
        let imagined = imagined(state, resource).map_err(not_promoted)?;
        let name = &resource.metadata().name;
        let ended = |(other, plan): (&Resource, &DirectivePlan)| {
            let goes_on = plan.is_open(now) && plan.dry_run.is_some() && other.metadata().name != *name;
            let ended = DirectivePlan { dry_run: None, ..plan.clone() };
            goes_on.then(|| remade(&other.metadata().name, &ended, other))
        };
        let mut written =
            state.resources.all().filter_map(as_plan).filter_map(ended).collect::<Result<Vec<_>, ApiError>>()?;
        let resource = remade(name, &next, resource)?;
        written.push(resource.clone());
        let plan = dry_runs::key(&resource, &next);
        store(tx, &written.iter().collect::<Vec<_>>(), &[]);
        if let Some(plan) = plan {
            let (_, fleet) = tx.change();
            fleet.keep_dry_runs_of(plan.0);
            imagined.ask_for_dry_run(fleet, plan, now);
        }
        plan_view(tx.state(), &resource, true)
    })
}

/// Makes a plan the active directive, as a write of it would; twice: once.
///
/// # Errors
/// Why not; that is on record as well.
pub(crate) fn apply(tx: &mut Tx<'_>, actor: &Actor, id: &str, asked_for: &ApplyPlan) -> Result<WriteResult, ApiError> {
    let ApplyPlan { id: request, dry_run: is_dry } = asked_for;
    let subject = format!("plan {id}");
    let asked = RequestedAction { actor, action: "plan_applied", subject: &subject, is_dry: *is_dry };
    tx.once(&asked, request, &(id, is_dry), |tx| {
        let (resource, plan) = found(tx.state(), id)?;
        if plan.applied && tx.state().resources.directive() == Some(&plan.directive) {
            return resources::keep(tx, &asked, Vec::new(), Vec::new());
        }
        if let Some(wrong) = against(tx.state(), resource, plan).into_iter().next() {
            return Err(wrong);
        }
        let resource = resource.clone();
        tx.draft.detail = json!({ "draft": plan_of(&resource)?.draft, "digest": plan_of(&resource)?.digest });
        activate(tx, &asked, &resource)
    })
}

/// Writes the directive of a plan, and that the plan was applied.
fn activate(tx: &mut Tx<'_>, asked: &RequestedAction<'_>, plan: &Resource) -> Result<WriteResult, ApiError> {
    let applied = DirectivePlan { applied: true, ..plan_of(plan)?.clone() };
    let only = Kind::Directive.only_name().unwrap_or_default();
    let directive = made(Kind::Directive, only, &Value::Null, plan)?;
    let applied = remade(&plan.metadata().name, &applied, plan)?;
    let mut done = resources::keep(tx, asked, vec![directive, applied], Vec::new())?;
    done.changed.retain(|changed| changed.kind == Kind::Directive.as_str());
    Ok(done)
}

/// Plans a new draft where that is done by itself, and applies the plan if nothing is against it; else the plan waits. Gives its id, and
/// whether it was applied.
fn promote(
    tx: &mut Tx<'_>,
    asked: &RequestedAction<'_>,
    name: &str,
    draft: &Resource,
) -> Result<(Option<String>, bool), ApiError> {
    let (state, Some((directive, _))) = (tx.state(), draft.directive()) else { return Ok((None, false)) };
    let VersionControl { enabled, promotion, .. } = state.resources.version_control();
    // A controller renews the end of what it says: people who looked at it once are not asked again for that.
    let meaning = |directive: &Directive| match promotion.approvals {
        0 => directive.clone(),
        _ => directive.lasting(),
    };
    let is_known = state.resources.directive().is_some_and(|active| meaning(active) == meaning(directive));
    let is_asked = || {
        let open = state.resources.all().filter_map(as_plan).filter(|(_, plan)| {
            (plan.is_open(state.now()) || !plan.denied.is_empty())
                && plan.draft == name
                && plan.for_nonce == nonce(state)
                && plan.directive.stale_after.is_none_or(|end| state.now() < end)
        });
        promotion.approvals > 0 && open.into_iter().any(|(_, plan)| meaning(&plan.directive) == meaning(directive))
    };
    if !enabled || !promotion.is_automatic || promotion.from != name || is_known || is_asked() {
        return Ok((None, false));
    }
    // What halted here before comes back by a person alone: while its entry is there, the stop itself lasts.
    let active: Vec<_> = state.resources.directive().into_iter().flat_map(Directive::versions).collect();
    let mut halted = directive.versions().filter(|version| state.rollouts.has_halted(version));
    let again = halted.find(|version| !active.contains(version));
    let again = again.map(|version| {
        ApiError::new(Code::Conflict, format!("{version} halted here before: a person has to apply the plan"))
    });
    let id = uuid::Uuid::new_v4().to_string();
    let (plan, gone) = frozen(state, asked.actor, &id, name, draft)?;
    store(tx, &[&plan], &gone);
    let wrong = match again.or(against(tx.state(), &plan, plan_of(&plan)?).into_iter().next()) {
        None => activate(tx, asked, &plan).err(),
        wrong => wrong,
    };
    let (action, detail) = match &wrong {
        None => ("plan_applied", json!({ "automatic": true, "draft": name, "digest": plan_of(&plan)?.digest })),
        Some(wrong) => ("plan_waiting", json!({ "automatic": true, "draft": name, "why": wrong.message })),
    };
    let Actor { who, from, .. } = asked.actor.clone();
    let record = changes::record(tx.state().now(), action, format!("plan {id}"), detail);
    tx.draft.records.push(AuditEntry { who, from, ..record });
    Ok((Some(id), wrong.is_none()))
}

/// A plan of what `source` says, and those that give way to it: a controller's earlier ones of this draft that nobody approved; where there
/// are too many, one that is over or outdated, else of the same draft.
fn frozen(
    state: &CoreState,
    actor: &Actor,
    id: &str,
    draft: &str,
    source: &Resource,
) -> Result<(Resource, Vec<String>), ApiError> {
    let now = state.now();
    let mut plans: Vec<(&Resource, &DirectivePlan)> = state.resources.all().filter_map(as_plan).collect();
    plans.sort_by_key(|(_, plan)| plan.time);
    let is_followed = |plan: &DirectivePlan| {
        let is_its = actor.role == Role::Controller && plan.draft == draft && plan.author == actor.who;
        is_its && plan.is_open(now) && plan.approved.is_empty()
    };
    let mut gone: Vec<&(&Resource, &DirectivePlan)> = plans.iter().filter(|(_, plan)| is_followed(plan)).collect();
    if gone.is_empty() && plans.len() >= MOST {
        let over = plans.iter().find(|(_, plan)| !plan.is_open(now) || plan.for_nonce != nonce(state));
        let over = over.or_else(|| plans.iter().find(|(_, plan)| !draft.is_empty() && plan.draft == draft));
        let full = || ApiError::new(Code::Conflict, format!("{MOST} plans are pending: apply, deny or remove one"));
        gone.push(over.ok_or_else(full)?);
    }
    let gone = gone.into_iter().map(|(resource, _)| resource.metadata().name.clone()).collect();
    let (directive, written) = source.directive().ok_or_else(|| missing(Kind::Draft, draft))?;
    let promotion = state.resources.version_control().promotion;
    let of = (state.rollouts.nonce, &promotion);
    let plan = DirectivePlan::freeze(&actor.who, draft, (directive, written), of, now);
    Ok((remade(id, &plan, source)?, gone))
}

/// What keeps a plan from being applied, the weightiest first.
fn against(state: &CoreState, resource: &Resource, plan: &DirectivePlan) -> Vec<ApiError> {
    let tried = dry_runs::results(state, resource, plan);
    let against = plan.against(&state.resources, state.rollouts.nonce, tried.as_ref(), state.now());
    against.into_iter().map(not_promoted).collect()
}

fn not_promoted(refusal: Refusal) -> ApiError {
    ApiError::named(refusal.code, refusal.message)
}

fn nonce(state: &CoreState) -> u32 {
    u32::try_from(state.rollouts.nonce).unwrap_or(u32::MAX)
}

/// The only document of a text, a `version-directive`.
fn one_directive(text: &str) -> Result<Resource, ApiError> {
    let wrong = |message: String| ApiError::new(Code::BadResource, message);
    let mut read = resource::read(text).map_err(|faults| wrong(faults.to_string()))?;
    match (read.pop(), read.is_empty()) {
        (Some(directive @ Resource::Directive(_)), true) => Ok(directive),
        _ => Err(wrong("this takes one version-directive, and nothing else".to_owned())),
    }
}

/// A new resource of what `source` says, with a revision.
fn made(kind: Kind, name: &str, spec: &Value, source: &Resource) -> Result<Resource, ApiError> {
    kept(promotion::made(kind, name, spec, source))
}

/// The plan as a resource, with what `source` says.
fn remade(id: &str, plan: &DirectivePlan, source: &Resource) -> Result<Resource, ApiError> {
    kept(plan.resource(id, source))
}

/// With a revision, if there is room for it.
fn kept(made: Result<Resource, Faults>) -> Result<Resource, ApiError> {
    let mut made = made.map_err(|faults| ApiError::new(Code::BadResource, faults.to_string()))?;
    made.set_revision(&uuid::Uuid::new_v4().to_string());
    if made.to_yaml().len() > MAX_TEXT {
        let (kind, name) = (made.kind(), &made.metadata().name);
        return Err(ApiError::new(Code::TooLarge, format!("{kind} {name} would have more than {MAX_TEXT} bytes")));
    }
    Ok(made)
}

/// Keeps these, and removes the plans of these ids, in this transaction. Nothing that hosts are told depends on them.
fn store(tx: &mut Tx<'_>, written: &[&Resource], gone: &[String]) {
    let mut all = tx.draft.resources.take().unwrap_or_else(|| tx.state().resources.clone());
    for id in gone {
        all.drop_plan(id);
        tx.draft.written.push((Kind::Plan, id.clone(), None));
    }
    tx.draft.written.extend(written.iter().map(|resource| resources::stored(resource)));
    all.put_back(written.iter().copied().cloned().collect());
    tx.draft.resources = Some(all);
}

fn plan_of(resource: &Resource) -> Result<&DirectivePlan, ApiError> {
    as_plan(resource).map(|(_, plan)| plan).ok_or_else(|| missing(Kind::Plan, &resource.metadata().name))
}

fn found<'a>(state: &'a CoreState, id: &str) -> Result<(&'a Resource, &'a DirectivePlan), ApiError> {
    let id = own_id(id).map_err(|_| ApiError::new(Code::BadRequest, format!("{id:?} is no UUID of a plan")))?;
    let found = state.resources.get(Kind::Plan, &id.to_string()).and_then(as_plan);
    found.ok_or_else(|| missing(Kind::Plan, &id.to_string()))
}

/// The directive of a draft or plan.
fn document(resource: &Resource) -> Option<String> {
    let mut document = Kind::Directive.document();
    document.set(&["spec"], resource.directive()?.1.clone());
    Some(document.emit())
}

fn draft_view(resource: &Resource, whole: bool) -> Option<DraftView> {
    let Resource::Draft(object) = resource else { return None };
    let Draft { author, time, directive } = &object.model;
    let (_, written) = resource.directive()?;
    Some(DraftView {
        name: object.metadata.name.clone(),
        author: author.clone(),
        time: *time,
        revision: object.metadata.revision.clone().unwrap_or_default(),
        digest: digest(written),
        stale_after: directive.stale_after,
        yaml: whole.then(|| document(resource)).flatten(),
        plan: None,
        applied: false,
    })
}

fn plan_view(state: &CoreState, resource: &Resource, with_effects: bool) -> Result<PlanView, ApiError> {
    let plan = plan_of(resource)?;
    let is = plan.state(state.now());
    let effects = (with_effects && is != PlanState::Applied).then(|| effects(state, resource));
    let (effects, wrong) = match effects.transpose() {
        Ok(effects) => (effects, None),
        Err(wrong) => (None, Some(wrong)),
    };
    let mut against = if is == PlanState::Applied { Vec::new() } else { against(state, resource, plan) };
    against.extend(wrong.filter(|wrong| !against.contains(wrong)));
    Ok(PlanView {
        id: resource.metadata().name.clone(),
        state: is.into(),
        draft: plan.draft.clone(),
        author: plan.author.clone(),
        time: plan.time,
        expires: plan.expires,
        for_nonce: plan.for_nonce.into(),
        digest: plan.digest.clone(),
        approvals: state.resources.version_control().promotion.approvals,
        approved: plan.approved.clone(),
        denied: plan.denied.clone(),
        against,
        dry_run: dry_runs::results(state, resource, plan),
        effects,
        yaml: with_effects.then(|| document(resource)).flatten(),
    })
}

/// What a plan would do if it were applied now.
fn effects(state: &CoreState, plan: &Resource) -> Result<Planned, ApiError> {
    Ok(imagined(state, plan).map_err(not_promoted)?.planned(&state.fleet, state.now()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A plan that two people approved, and what is changed of it.
    fn of(changes: &[(&str, Value)], control: &str) -> Vec<Code> {
        let mut spec = json!({
            "time": "2026-01-01T00:00:00Z", "expires": "2100-01-01T00:00:00Z", "for_nonce": 0, "approved": ["anna", "bert"],
        });
        for (key, value) in changes {
            spec[key] = value.clone();
        }
        let text = "kind: version-directive\nspec: {directives: [{name: a, selectors: [{group: a}], targets: [{version: 1.1.0}]}]}";
        let plan = made(Kind::Plan, "x", &spec, &one_directive(text).unwrap()).unwrap();
        let mut state = CoreState::default();
        let control = format!("kind: version-control-config\nspec: {control}");
        state.resources.put_back(resource::read(&control).unwrap());
        against(&state, &plan, plan_of(&plan).unwrap()).into_iter().map(|wrong| wrong.code).collect()
    }

    #[test]
    fn a_plan_is_good_until_it_expires_for_one_nonce_and_with_its_approvals() {
        let expired = ("expires", json!("2026-01-02T00:00:00Z"));
        for (changes, control, codes) in [
            (&[][..], "{promotion: {approvals: 2}}", &[][..]),
            (&[], "{promotion: {approvals: 3}}", &[Code::NotApproved]),
            (std::slice::from_ref(&expired), "{}", &[Code::PlanExpired]),
            (&[("for_nonce", json!(1))], "{}", &[Code::PlanOutdated]),
            (&[("denied", json!("cleo: no")), expired.clone()], "{}", &[Code::NotApproved, Code::PlanExpired]),
            (&[], "{promotion: {dry_run: required}}", &[Code::DryRunMissing]),
            // Nobody has answered yet.
            (&[("dry_run", json!("2026-01-01T00:00:00Z"))], "{promotion: {dry_run: required}}", &[Code::DryRunMissing]),
            (&[], "{enabled: false}", &[Code::Conflict]),
        ] {
            assert_eq!(of(changes, control), codes, "{changes:?} {control}");
        }
    }
}
