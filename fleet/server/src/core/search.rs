//! Which hosts a question is about.

use fleet_engine::host::{Host, HostId};
use fleet_engine::tally::{HostState, TallyContext};
use fleet_wire::api::{ApiError, Code, HostsQuery, host_states};
use jiff::Timestamp;

use super::CoreState;

/// Fewest hex digits by which a UUID is found: fewer are a word.
const PREFIX: usize = 4;
/// Hex digits of a UUID.
const DIGITS: usize = 32;
/// Longest text that is searched for, bytes: as long as a label may be.
const LONGEST: usize = 256;

/// A question, as hosts are held against it.
pub(super) struct HostSearch<'a> {
    state: &'a CoreState,
    query: &'a HostsQuery,
    label: Option<(&'a str, &'a str)>,
    now: Timestamp,
}

impl<'a> HostSearch<'a> {
    /// Of `query` at `now`.
    ///
    /// # Errors
    /// It names no state, no group or no label, or is too long.
    pub(super) fn new(state: &'a CoreState, query: &'a HostsQuery, now: Timestamp) -> Result<Self, ApiError> {
        let bad = |message: String| Err(ApiError::new(Code::BadRequest, message));
        if let Some(state) = query.state.as_deref().filter(|state| !host_states().contains(state)) {
            return bad(format!("there is no state {state:?}: states are {}", host_states().join(", ")));
        }
        if let Some(group) = query.group.as_deref().filter(|group| !group.is_empty() && !is_declared(state, group)) {
            state.is_group(group)?;
        }
        let texts = [&query.search, &query.label, &query.called].into_iter().flatten();
        if let Some(long) = texts.map(String::len).find(|length| *length > 2 * LONGEST) {
            return bad(format!("a text of {long} bytes is in no host"));
        }
        let label = query.label.as_deref().map(|label| label.split_once('='));
        match label {
            Some(None) => bad("a label is written as KEY=VALUE".to_owned()),
            label => Ok(Self { state, query, label: label.flatten(), now }),
        }
    }

    /// The hosts that it finds.
    pub(super) fn found(&self) -> Vec<&'a Host> {
        self.state.fleet.hosts().iter().filter(|host| self.finds(host)).collect()
    }

    fn finds(&self, host: &Host) -> bool {
        let Self { state, query, label, now } = self;
        let fleet = &state.fleet;
        query.version.as_deref().is_none_or(|version| fleet.names.text(host.version) == version)
            && query.group.as_deref().is_none_or(|group| group_of(state, host) == group)
            && query.state.as_deref().is_none_or(|name| state_of(state, host, *now) == name)
            && (!query.waiting || state.enrolments.waits(host.id).is_some())
            && (!query.failed || state_of(state, host, *now) == "failed")
            && query.code.as_deref().is_none_or(|code| failed_with(state, host, *now) == Some(code))
            && label.is_none_or(|(key, value)| fleet.label(host, key) == Some(value))
            && query.called.as_deref().is_none_or(|text| is_called(fleet.hostname(host), host.id, text))
            && query.search.as_deref().is_none_or(|text| self.has(host, text.trim()))
    }

    /// Whether this is in the host's name or in the value of a label, or begins its UUID, or is one of its labels.
    fn has(&self, host: &Host, text: &str) -> bool {
        let fleet = &self.state.fleet;
        let values = || fleet.labels(host).map(|(_, value)| value);
        contains(fleet.hostname(host), text)
            || begins(host.id, text)
            || values().any(|value| contains(value, text))
            || text.split_once('=').is_some_and(|(key, value)| fleet.label(host, key) == Some(value))
    }
}

/// Whether a host of this name is called so. Capitals mean nothing in a name.
fn is_called(hostname: &str, id: HostId, text: &str) -> bool {
    (!text.is_empty() && hostname.eq_ignore_ascii_case(text)) || begins(id, text)
}

fn contains(text: &str, part: &str) -> bool {
    let part = part.as_bytes();
    part.is_empty() || text.as_bytes().windows(part.len()).any(|found| found.eq_ignore_ascii_case(part))
}

/// Whether a UUID begins with these hex digits.
fn begins(id: HostId, text: &str) -> bool {
    let mut digits = text.bytes().filter(|byte| *byte != b'-');
    let count = digits.clone().count();
    let digit = |at: usize| id >> (4 * (DIGITS - 1 - at)) & 0xf;
    (PREFIX..=DIGITS).contains(&count)
        && (0..count)
            .zip(&mut digits)
            .all(|(at, byte)| char::from(byte).to_digit(16).map(u128::from) == Some(digit(at)))
}

/// Whether a host names this group, or an operator gave it to one: also one that there is not.
fn is_declared(state: &CoreState, group: &str) -> bool {
    let text = |name| state.fleet.names.text(name);
    state.fleet.hosts().iter().any(|host| text(host.declared) == group || text(host.assigned) == group)
}

/// The error code with which the present target failed; `None`: it did not fail.
pub(super) fn failed_with<'a>(state: &'a CoreState, host: &Host, now: Timestamp) -> Option<&'a str> {
    let look = look(state, host, now).filter(|look| look.state(host) == HostState::Failed)?;
    Some(state.fleet.names.text(look.failure_code(host)))
}

/// The group by which a host updates; empty: none.
pub(super) fn group_of<'a>(state: &'a CoreState, host: &Host) -> &'a str {
    let group = state.rollouts.rollout.as_ref().and_then(|rollout| rollout.group(host.place));
    group.map_or("", |group| &group.policy.name)
}

/// A host's state, as it is called.
pub(super) fn state_of(state: &CoreState, host: &Host, now: Timestamp) -> &'static str {
    look(state, host, now).map_or("unassigned", |look| look.shown_state(host))
}

/// The view of its group; `None`: it belongs to none.
fn look<'a>(state: &'a CoreState, host: &Host, now: Timestamp) -> Option<TallyContext<'a>> {
    let rollout = state.rollouts.rollout.as_ref()?;
    Some(TallyContext::new(rollout, rollout.group(host.place)?, &state.fleet, now))
}
