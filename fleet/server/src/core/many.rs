//! A decision on many hosts: what was shown is what is decided on.

use std::collections::HashSet;

use fleet_engine::host::{Host, HostId};
use fleet_wire::answers::ids;
use fleet_wire::api::{ApiError, Code, DecideMany, DecidedMany, ManyDecision};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::hosts::decides_on_keys;
use super::search::HostSearch;
use super::tx::{RequestedAction, Tx};
use super::{Actor, CoreState};
use crate::tokens;

/// Most hosts of a decision: as many as may wait.
const MOST: usize = 10_000;
/// Hosts that are named.
const NAMED: usize = 10;

/// Carries out what was decided of all hosts that a question finds: one record, one transaction, and the engine steps once.
///
/// # Errors
/// Why not; that is on record as well.
pub(crate) fn decide(tx: &mut Tx<'_>, actor: &Actor, asked: &DecideMany) -> Result<DecidedMany, ApiError> {
    let DecideMany { id, hosts, decision, dry_run: is_dry, shown } = asked;
    let action = if *decision == ManyDecision::Accept { "accept" } else { "assign" };
    let requested = RequestedAction { actor, action, subject: "hosts", is_dry: *is_dry };
    tx.once(&requested, id, &(hosts, decision, is_dry, shown), |tx| {
        match decision {
            ManyDecision::Accept => decides_on_keys(actor)?,
            ManyDecision::Assign(Some(group)) => tx.state().is_group(group)?,
            ManyDecision::Assign(None) => {}
        }
        let (found, decided) = found(tx.state(), asked)?;
        let conflict = |message: String| Err(ApiError::new(Code::Conflict, message));
        if found.len() > MOST {
            return conflict(format!("these are {} hosts: at most {MOST} are decided on at once", found.len()));
        }
        if shown.as_ref().is_some_and(|shown| *shown != decided.shown) {
            return conflict("these hosts or their keys are not those that were shown: count them again".to_owned());
        }
        if found.is_empty() && !is_dry {
            return Err(ApiError::new(Code::NotFound, "no host is like this: nothing was changed"));
        }
        tx.draft.detail = detail(asked, &decided);
        if !is_dry {
            carry_out(tx, actor, decision, &found)?;
        }
        Ok(decided)
    })
}

/// The hosts that are meant, and what is said of them. Of keys those that had come when they were shown: who came later is left.
fn found(state: &CoreState, asked: &DecideMany) -> Result<(Vec<HostId>, DecidedMany), ApiError> {
    let now = state.now();
    let then = asked.shown.as_deref().and_then(|shown| shown.split_once('/')?.0.parse().ok()).unwrap_or(now);
    let is_accept = asked.decision == ManyDecision::Accept;
    let mut hosts = HostSearch::new(state, &asked.hosts, now)?.found();
    let mut left_out = 0;
    if is_accept {
        hosts.retain(|host| state.enrolments.waits_since(host.id, then).is_some());
        let waiting = hosts.len();
        hosts.retain(|host| state.enrolments.key(host.id).is_none());
        left_out = waiting - hosts.len();
    }
    hosts.sort_unstable_by_key(|host| host.id);
    let shown = shown(then, hosts.iter().map(|host| (host.id, state.enrolments.waits(host.id).filter(|_| is_accept))));
    let found = hosts.iter().map(|host| host.id).collect();
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    let all = count(hosts.len());
    hosts.sort_by_key(|host| (state.fleet.hostname(host).is_empty(), state.fleet.hostname(host)));
    let hosts = hosts.into_iter().take(NAMED).map(|host| state.fleet.named(host)).collect();
    Ok((found, DecidedMany { count: all, hosts, left_out: count(left_out), shown }))
}

/// Names these hosts and keys, and the time when they were looked at.
fn shown(then: Timestamp, hosts: impl Iterator<Item = (HostId, Option<protocol::report::Key>)>) -> String {
    let line = |(host, key): (HostId, Option<protocol::report::Key>)| {
        format!("{} {}\n", ids::text(host), key.map(|key| key.to_string()).unwrap_or_default())
    };
    format!("{then}/{}", tokens::digest(&hosts.map(line).collect::<String>()))
}

fn detail(asked: &DecideMany, decided: &DecidedMany) -> Value {
    let mut detail: Value = asked.hosts.pairs().into_iter().map(|(key, value)| (key, json!(value))).collect();
    if let ManyDecision::Assign(group) = &asked.decision {
        detail["to"] = json!(group);
    }
    detail["count"] = json!(decided.count);
    detail
}

fn carry_out(tx: &mut Tx<'_>, actor: &Actor, decision: &ManyDecision, found: &[HostId]) -> Result<(), ApiError> {
    let now = tx.state().now();
    let CoreState { fleet, rollouts, enrolments, .. } = &mut tx.ledger.state;
    let rollout = rollouts.rollout.as_ref();
    for host in found {
        match decision {
            ManyDecision::Accept => enrolments.accept(*host, None, &actor.who, now)?,
            ManyDecision::Assign(group) => drop(fleet.assign(*host, group.as_deref(), rollout, now)),
        }
    }
    if *decision == ManyDecision::Accept {
        tx.publish_keys();
    }
    // Of those that never came nothing is decided any more.
    let ids: HashSet<HostId> = found.iter().copied().collect();
    if tx.state().fleet.hosts().iter().any(|host| host.is_nobody() && ids.contains(&host.id)) {
        tx.ledger.forget(|host: &Host| host.is_nobody() && ids.contains(&host.id));
    }
    tx.step(now);
    Ok(())
}
