//! Hosts: what operators decide of one, and what is shown of them.

use fleet_engine::answer::Question;
use fleet_engine::host::{Host, HostId};
use fleet_engine::inventory::Inventory;
use fleet_engine::reason::Why;
use fleet_engine::tally::HostState;
use fleet_wire::answers::{find, ids};
use fleet_wire::api::{
    ApiError, Code, Decided, Decision, Explained, HostList, HostView, HostsQuery, MAX_PAGE, PAGE, Role, ToldHost,
};
use fleet_wire::reason::Reason;
use fleet_wire::{text, words};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::actor::PendingStop;
use super::search::{HostSearch, failed_with, group_of, state_of};
use super::tx::{RequestedAction, Tx};
use super::{Actor, CoreState, changes, counts};

/// Carries out what an operator decided of a host.
///
/// # Errors
/// Why not; that is on record as well.
pub(crate) fn decide(tx: &mut Tx<'_>, actor: &Actor, host: HostId, decided: &Decided) -> Result<Explained, ApiError> {
    let Decided { id, decision } = decided;
    let action = match decision {
        Decision::Hold => "hold",
        Decision::Release => "release",
        Decision::Assign(_) => "assign",
        Decision::Accept(_) => "accept",
        Decision::Forget => "forget",
    };
    let subject = format!("host {}", ids::text(host));
    let asked = RequestedAction { actor, action, subject: &subject, is_dry: false };
    let done = tx.once(&asked, id, &(host, decision), |tx| {
        match decision {
            Decision::Assign(Some(group)) => tx.state().is_group(group)?,
            Decision::Accept(_) => decides_on_keys(actor)?,
            Decision::Forget => may_forget(tx.state(), actor, host)?,
            Decision::Assign(None) | Decision::Hold | Decision::Release => {}
        }
        tx.draft.detail = detail(tx, host, decision)?;
        if !carry_out(tx, actor, host, decision)? {
            return Err(ApiError::new(Code::NotFound, format!("no {subject} was seen")));
        }
        // One that never came, and on which nothing is decided any more.
        if tx.state().fleet.host(host).is_some_and(Host::is_nobody) {
            tx.ledger.forget(|known| known.id == host);
        }
        tx.step(tx.state().now());
        Ok(())
    });
    if let (Err(wrong), Decision::Hold) = (&done, decision) {
        return Err(tx.stop_later(wrong.clone(), actor, PendingStop::Hold(host, decided.clone())));
    }
    done?;
    match explain(tx, host) {
        // No host is told anything.
        Err(wrong) if wrong.code == Code::NoRollout => {
            let why = Reason { until: None, ..Reason::now(Why::NoRollout) };
            let host_text = ids::text(host);
            Ok(explained(tx, host, |state| ToldHost {
                host: host_text,
                state: state.to_owned(),
                why,
                ..ToldHost::default()
            }))
        }
        explained => explained,
    }
}

/// Gives whether the host is known.
fn carry_out(tx: &mut Tx<'_>, actor: &Actor, host: HostId, decision: &Decision) -> Result<bool, ApiError> {
    let now = tx.state().now();
    let CoreState { fleet, rollouts, enrolments, .. } = &mut tx.ledger.state;
    let rollout = rollouts.rollout.as_ref();
    let may_be_new = matches!(decision, Decision::Hold | Decision::Assign(Some(_)));
    if may_be_new && !fleet.expect(host, rollout) {
        let message = "too many hosts were decided on that never came: release some of them first";
        return Err(ApiError::new(Code::Conflict, message));
    }
    Ok(match decision {
        Decision::Hold => fleet.decide(host, rollout, now, |flags| flags.held = true),
        Decision::Release => fleet.decide(host, rollout, now, |flags| flags.held = false),
        Decision::Assign(group) => fleet.assign(host, group.as_deref(), rollout, now),
        Decision::Accept(key) => {
            // The key that waits is believed.
            let had_key = enrolments.key(host).is_some();
            enrolments.accept(host, key.as_deref(), &actor.who, now)?;
            if had_key {
                fleet.renew(host, rollout, now);
                tx.ledger.snapshot.tell_again_of(host);
            }
            tx.publish_keys();
            true
        }
        Decision::Forget => tx.ledger.forget(|known| known.id == host),
    })
}

/// A stop is never forgotten, and whoever was let go takes his slot until he comes to an end (FLEET §3): such hosts stay.
fn may_forget(state: &CoreState, actor: &Actor, host: HostId) -> Result<(), ApiError> {
    decides_on_keys(actor)?;
    let now = state.now();
    let Some(known) = state.fleet.host(host) else { return Ok(()) };
    let why = if known.flags.held {
        let id = ids::text(host);
        &*format!("it is held: release it first: teleport-fleet host {id} release")
    } else if state_of(state, known, now) == HostState::Told.name() {
        "it was allowed to update and has come to no end: it takes a slot until it has, or has timed out"
    } else if state.fleet.has_failed(host, state.rollouts.rollout.as_ref(), now) {
        "it failed in this attempt of its group, and counts in it: it can be forgotten after another attempt or target"
    } else {
        return Ok(());
    };
    Err(ApiError::new(Code::Conflict, why))
}

/// Which key is a host's says an admin.
pub(super) fn decides_on_keys(Actor { who, role, .. }: &Actor) -> Result<(), ApiError> {
    let message = || format!("{who} has the role {role}; which key is right says the role admin");
    if *role < Role::Admin { Err(ApiError::new(Code::Forbidden, message())) } else { Ok(()) }
}

/// What the record of a decision has beside its subject: of who is forgotten, what is lost with him.
fn detail(tx: &mut Tx<'_>, host: HostId, decision: &Decision) -> Result<Value, ApiError> {
    // The whole key is in the store alone.
    let kept = if matches!(decision, Decision::Forget) { tx.ledger.key_of(host)? } else { None };
    let state = tx.state();
    let mut detail = match (decision, state.fleet.host(host)) {
        (Decision::Assign(group), _) => json!({ "group": group }),
        (Decision::Forget, Some(known)) => {
            let (assigned, version) = (state.fleet.names.text(known.assigned), state.fleet.names.text(known.version));
            json!({ "assigned": assigned, "version": version, "key": kept.map(|key| key.to_string()) })
        }
        _ => json!({}),
    };
    changes::named(state, host, &mut detail);
    Ok(detail)
}

/// What a host would be answered now, and why.
///
/// # Errors
/// No rollout ever named a version.
pub(crate) fn explain(tx: &Tx<'_>, id: HostId) -> Result<Explained, ApiError> {
    let (state, snapshot) = (tx.state(), &tx.ledger.snapshot);
    let (rollouts, fleet, now) = (&state.rollouts, &state.fleet, state.now());
    let question = Question { host: Some(id), ..Question::default() };
    let none = "there is no rollout, and none was done before: hosts get no version";
    let answer = rollouts.answer(fleet, &question, now).ok_or_else(|| ApiError::new(Code::NoRollout, none))?;
    let known = fleet.host(id);
    // As `find` says it.
    let is_good = snapshot.is_good();
    let answer = if is_good { answer } else { find::stale(answer, snapshot.confirmed()) };
    let advice = rollouts.host_advice(&state.resources, fleet, known, &answer, now);
    let since = if is_good { answer.since(known) } else { Some(answer.reason.since) };
    Ok(explained(tx, id, |state| {
        let mut answer = ToldHost::of(&ids::text(id), state, &answer, since, advice.as_ref());
        answer.why.clock_behind = snapshot.ahead().filter(|_| !is_good).map(text::second);
        answer
    }))
}

/// With what `answer` says of the host's state.
fn explained(tx: &Tx<'_>, id: HostId, answer: impl FnOnce(&'static str) -> ToldHost) -> Explained {
    let (state, now) = (tx.state(), tx.state().now());
    let known = state.fleet.host(id);
    let mut answer = answer(known.map_or("unknown", |host| state_of(state, host, now)));
    answer.hostname = known.map_or("", |host| state.fleet.hostname(host)).to_owned();
    Explained {
        known: known.map(|host| views(state, [host], now)).and_then(|mut views| views.pop()),
        history: None,
        answer,
    }
}

/// All hosts, if there are at most so many.
pub(crate) fn inventory(tx: &Tx<'_>, most: usize) -> Option<Vec<HostView>> {
    let (state, now) = (tx.state(), tx.state().now());
    let hosts = state.fleet.hosts();
    (hosts.len() <= most).then(|| views(state, hosts, now))
}

/// What a host is called.
pub(crate) fn name(tx: &Tx<'_>, id: HostId) -> String {
    let fleet = &tx.state().fleet;
    words::host::name(fleet.host(id).map_or("", |host| fleet.hostname(host)), &ids::text(id))
}

/// How many hosts are known.
pub(crate) fn known(tx: &Tx<'_>) -> u64 {
    u64::try_from(tx.state().fleet.hosts().len()).unwrap_or(u64::MAX)
}

/// Hosts, by UUID or by name.
///
/// # Errors
/// The question names no state, no group, no label or no UUID, or goes on behind a host that is no more.
pub(crate) fn list(tx: &Tx<'_>, query: &HostsQuery) -> Result<HostList, ApiError> {
    let (state, now) = (tx.state(), tx.state().now());
    let bad = |message: String| ApiError::new(Code::BadRequest, message);
    let mut found = HostSearch::new(state, query, now)?.found();
    let count = u64::try_from(found.len()).unwrap_or(u64::MAX);
    let place = |host: &Host| {
        let name = if query.by_name { state.fleet.hostname(host) } else { "" };
        (query.by_name && name.is_empty(), name.to_ascii_lowercase(), host.id)
    };
    if let Some(after) = &query.after {
        let id = ids::uuid(after).ok_or_else(|| bad(format!("after={after:?} is no UUID")))?;
        let last = state.fleet.host(id).map(place);
        let gone = || ApiError::new(Code::Conflict, "the last host of the page before is no more: begin again");
        let last = if query.by_name { last.ok_or_else(gone)? } else { (false, String::new(), id) };
        found.retain(|host| place(host) > last);
    }
    let limit = usize::try_from(query.limit.unwrap_or(PAGE).clamp(1, MAX_PAGE)).unwrap_or(usize::MAX);
    found.sort_by_cached_key(|host| place(host));
    let more = found.len() > limit;
    found.truncate(limit);
    Ok(HostList { hosts: views(state, found, now), more, count })
}

fn views<'a>(state: &CoreState, hosts: impl IntoIterator<Item = &'a Host>, now: Timestamp) -> Vec<HostView> {
    let inventory = Inventory::new(&state.rollouts, &state.resources, &state.fleet, now);
    hosts.into_iter().map(|host| view(state, host, &inventory, now)).collect()
}

fn view(state: &CoreState, host: &Host, inventory: &Inventory<'_>, now: Timestamp) -> HostView {
    let text = |name| state.fleet.names.text(name).to_owned();
    let waiting_key = state.enrolments.waits(host.id);
    HostView {
        host: ids::text(host.id),
        hostname: state.fleet.hostname(host).to_owned(),
        update_id: if host.update_id == 0 { String::new() } else { ids::text(host.update_id) },
        group: group_of(state, host).to_owned(),
        declared_group: text(host.declared),
        assigned_group: text(host.assigned),
        labels: state.fleet.labels(host).map(|(key, value)| (key.to_owned(), value.to_owned())).collect(),
        version: text(host.version),
        state: state_of(state, host, now).to_owned(),
        held: host.flags.held,
        pinned: host.flags.pinned,
        disabled: host.flags.disabled,
        last_seen: (!host.is_expected()).then(|| host.heard.time()),
        last_outcome: host.last().map_or("", |last| last.outcome.name()).to_owned(),
        last_target: host.last().map_or_else(String::new, |last| text(last.to)),
        error_code: host.last().map_or_else(String::new, |last| text(last.code)),
        failed_with: failed_with(state, host, now).unwrap_or_default().to_owned(),
        enrolled: state.enrolments.key(host.id).is_some(),
        not_counted: counts::omission(state, host, now).unwrap_or_default().to_owned(),
        waiting_key: waiting_key.map_or_else(String::new, |key| key.to_string()),
        instance: inventory.instance(host),
    }
}
