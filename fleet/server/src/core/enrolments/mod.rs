//! Which hosts' reports are believed: keys, join tokens, and who waits for an operator (FLEET §5). Nothing here reads a clock
//! or the store.

#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use fleet_engine::host::HostId;
use fleet_store::{Candidate, EnrolledHost, EnrolmentChanges, EnrolmentProgress, Enrolments, Fixed, JoinTokenRecord};
use fleet_wire::api::{ApiError, Code};
use jiff::Timestamp;
use protocol::report::{GoOn, Key};

use crate::reporting::Enrolment;

/// Hex digits of a key that an admin names it by.
const NAMED: usize = 16;

/// Between two reports of a key, seconds; and how many may come at once.
const EVERY: i64 = 10;
/// See [`EVERY`].
const BURST: i64 = 6;
/// Keys that wait for an operator: further ones are refused until he decides.
const MOST_WAITING: usize = 10_000;
/// A new host in this time, seconds, waits for an operator, where so many others came before it: a tenth of the fleet, at
/// least [`SURGE`].
const SURGE_TIME: i64 = 60 * 60;
/// See [`SURGE_TIME`].
const SURGE: usize = 1000;
/// How a host enrolled that nobody vouched for, as the store keeps it.
const OPEN: &str = "open";

/// What comes of a report's key and numbers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is taken.
    Taken,
    /// It is one of a host that waits for an operator.
    Waits,
    /// It is not; `GoOn`: with these numbers another one would be.
    Refused(ApiError, Option<GoOn>),
}

/// What is asked of [`Members::judge`].
pub(super) struct Shown<'a> {
    /// Whose report.
    pub(super) host: HostId,
    /// The key that signed it.
    pub(super) key: Key,
    /// Its epoch.
    pub(super) epoch: u64,
    /// Its number.
    pub(super) sequence: u64,
    /// The digest of its join token.
    pub(super) token: Option<&'a str>,
}

/// When something is asked.
#[derive(Clone, Copy)]
pub(super) struct Now {
    /// What is kept and shown.
    pub(super) time: Timestamp,
    /// Seconds that this server runs: how often who comes is measured by that, as the clock may be set.
    pub(super) up: i64,
}

/// A host that enrolled.
struct Member {
    key: Key,
    sequence: u64,
    change: u64,
    /// When its burst is full again, by [`Now::up`].
    full: i64,
    /// Nobody vouched for it when it enrolled.
    is_unproven: bool,
    fixed: Option<Box<Fixed>>,
}

/// All that enrolled, and all that wait.
pub(super) struct Members {
    mode: Enrolment,
    epoch: u64,
    members: HashMap<HostId, Member>,
    waiting: HashMap<HostId, Candidate>,
    joins: Vec<JoinTokenRecord>,
    /// New hosts since then, by [`Now::up`].
    new: (i64, usize),
    changed: Changed,
}

/// What the store has not.
#[derive(Default)]
struct Changed {
    new: Vec<EnrolledHost>,
    members: Vec<HostId>,
    waiting: Vec<HostId>,
    joins: Vec<String>,
    /// Conflicts and surges, for the audit log.
    said: Vec<Said>,
}

/// What an operator should know of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said {
    /// A second key for a host.
    Conflict(HostId, Key),
    /// Too many new hosts in an hour.
    Surge(usize),
}

impl Members {
    /// None, in an epoch of 0.
    pub(super) fn new(mode: Enrolment) -> Self {
        Self {
            mode,
            epoch: 0,
            members: HashMap::new(),
            waiting: HashMap::new(),
            joins: Vec::new(),
            new: (-SURGE_TIME, 0),
            changed: Changed::default(),
        }
    }

    /// Those that the store has.
    pub(super) fn set(&mut self, kept: Enrolments, epoch: u64) {
        let member = |kept: EnrolledHost| {
            let is_unproven = kept.how == OPEN;
            let EnrolledHost { host, key, sequence, fixed, change, .. } = kept;
            (host, Member { key, sequence, change, full: 0, is_unproven, fixed: fixed.map(Box::new) })
        };
        self.epoch = epoch;
        self.members = kept.enrolled.into_iter().map(member).collect();
        self.waiting = kept.candidates.into_iter().map(|candidate| (candidate.host, candidate)).collect();
        self.joins = kept.joins;
        self.changed = Changed::default();
    }

    /// Whether nobody can invent a host: each enrols with a token, or an operator accepts it.
    pub(super) fn is_proven(&self) -> bool {
        self.mode != Enrolment::Open
    }

    /// The keys of all that enrolled.
    pub(super) fn keys(&self) -> impl Iterator<Item = (HostId, Key)> + '_ {
        self.members.iter().map(|(host, member)| (*host, member.key))
    }

    /// Whether a host enrolled with a key.
    pub(super) fn has(&self, host: HostId) -> bool {
        self.members.contains_key(&host)
    }

    /// The key of a host that enrolled.
    pub(super) fn key(&self, host: HostId) -> Option<Key> {
        self.members.get(&host).map(|member| member.key)
    }

    /// What a host's join token fixed.
    pub(super) fn fixed(&self, host: HostId) -> Option<&Fixed> {
        self.members.get(&host)?.fixed.as_deref()
    }

    /// The key of a host that waits for an operator.
    pub(super) fn waits(&self, host: HostId) -> Option<Key> {
        self.waiting.get(&host).map(|candidate| candidate.key)
    }

    /// Hosts that enrolled and for which nobody vouched, whatever is asked of new ones by now.
    pub(super) fn unproven(&self) -> impl Iterator<Item = HostId> + '_ {
        self.members.iter().filter(|(_, member)| member.is_unproven).map(|(host, _)| *host)
    }

    /// Whether this one is one of them.
    pub(super) fn is_unproven(&self, host: HostId) -> bool {
        self.members.get(&host).is_some_and(|member| member.is_unproven)
    }

    /// Drops the keys that wait since a time for which `goes` is true.
    pub(super) fn drop_waiting(&mut self, goes: impl Fn(Timestamp) -> bool) {
        let old = self.waiting.values().filter(|candidate| goes(candidate.since)).map(|candidate| candidate.host);
        let old: Vec<HostId> = old.collect();
        for host in &old {
            self.waiting.remove(host);
        }
        self.changed.waiting.extend(&old);
    }

    /// How many hosts wait for an operator.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Join tokens.
    pub(super) fn joins(&self) -> &[JoinTokenRecord] {
        &self.joins
    }

    /// Puts a join token there, or removes it.
    pub(super) fn set_join(&mut self, name: &str, token: Option<JoinTokenRecord>) {
        self.joins.retain(|known| known.name != name);
        self.joins.extend(token);
        self.changed.joins.push(name.to_owned());
    }

    /// Whether a change of a host's version is another one than it reported last. From then on it is not.
    pub(super) fn is_new_change(&mut self, host: HostId, change: u64) -> bool {
        let Some(member) = self.members.get_mut(&host).filter(|member| member.change != change) else { return false };
        member.change = change;
        self.changed.members.push(host);
        true
    }

    /// Whether a question is this host's: by its key, of this epoch, and later than all that it said.
    pub(super) fn takes_question(&mut self, host: HostId, asked: Option<(Key, u64, u64)>) -> bool {
        // A host without a key cannot sign.
        let Some(member) = self.members.get_mut(&host) else { return true };
        let Some((key, epoch, number)) = asked else { return false };
        if member.key != key || epoch != self.epoch || number <= member.sequence {
            return false;
        }
        member.sequence = number;
        self.changed.members.push(host);
        true
    }

    /// What comes of a report, of a fleet of so many hosts.
    pub(super) fn judge(&mut self, shown: &Shown<'_>, fleet: usize, now: Now) -> Verdict {
        match self.members.get(&shown.host) {
            Some(member) if member.key == shown.key => self.of_member(shown, now),
            Some(_) => self.of_second_key(shown, now),
            None if shown.epoch != self.epoch => self.other_epoch(0),
            None => self.of_stranger(shown, fleet, now),
        }
    }

    fn of_member(&mut self, shown: &Shown<'_>, now: Now) -> Verdict {
        let epoch = self.epoch;
        let Some(member) = self.members.get_mut(&shown.host) else { return Verdict::Waits };
        let sequence = member.sequence;
        if shown.epoch != epoch {
            return self.other_epoch(sequence);
        }
        if shown.sequence <= sequence {
            let message = format!("report {} is not later than {sequence}, which came before", shown.sequence);
            return Verdict::Refused(ApiError::new(Code::OldSequence, message), Some(GoOn { epoch, sequence }));
        }
        // A bucket of BURST reports that fills by one in EVERY seconds.
        let full = member.full.max(now.up) + EVERY;
        if full - now.up > EVERY * BURST {
            let message = format!("a host reports once in {EVERY} s, and at most {BURST} times at once");
            return Verdict::Refused(ApiError::new(Code::TooOften, message), None);
        }
        (member.full, member.sequence) = (full, shown.sequence);
        self.changed.members.push(shown.host);
        Verdict::Taken
    }

    fn other_epoch(&self, sequence: u64) -> Verdict {
        let go_on = GoOn { epoch: self.epoch, sequence };
        Verdict::Refused(ApiError::new(Code::OtherEpoch, "the report is of another epoch"), Some(go_on))
    }

    /// The first key goes on until an operator decides.
    fn of_second_key(&mut self, shown: &Shown<'_>, now: Now) -> Verdict {
        if self.wait(shown, now.time) {
            self.changed.said.push(Said::Conflict(shown.host, shown.key));
        }
        let (host, key) = (fleet_wire::answers::ids::text(shown.host), shown.key.to_string());
        let named = key.get(..NAMED).unwrap_or(&key);
        let message = format!(
            "this host reports with another key: an admin decides which is right (`teleport-fleet host {host} accept --key \
             {named}`)"
        );
        Verdict::Refused(ApiError::new(Code::KeyConflict, message), None)
    }

    fn of_stranger(&mut self, shown: &Shown<'_>, fleet: usize, now: Now) -> Verdict {
        let refused = |code: Code, message: &str| Verdict::Refused(ApiError::new(code, message), None);
        match (self.mode, shown.token) {
            (_, Some(digest)) => match self.use_token(digest, now.time) {
                Some((how, fixed)) => self.enrol(shown, how, fixed, now),
                None => refused(Code::JoinTokenRefused, "the join token is not known, has expired or is used up"),
            },
            (Enrolment::Token, None) => refused(
                Code::JoinTokenNeeded,
                "a new host needs a join token here: `teleport-fleet tokens join create`",
            ),
            (Enrolment::Open, None) if !self.is_surge(fleet, now.up) => self.enrol(shown, OPEN.to_owned(), None, now),
            (Enrolment::Open | Enrolment::Approve, None) => {
                let is_new = self.wait(shown, now.time);
                if is_new || self.waits(shown.host) == Some(shown.key) {
                    Verdict::Waits
                } else {
                    refused(Code::KeyConflict, "another key of this host, or too many others, wait for an admin")
                }
            }
        }
    }

    /// Counts a new host; whether it is one of too many.
    fn is_surge(&mut self, fleet: usize, up: i64) -> bool {
        let (since, count) = self.new;
        if up - since >= SURGE_TIME {
            self.new = (up, 1);
            return false;
        }
        let most = SURGE.max(fleet / 10);
        if count == most {
            self.changed.said.push(Said::Surge(most));
        }
        self.new.1 = count.saturating_add(1);
        count >= most
    }

    /// What a token is called and fixes, where it is good; it has one use less then.
    fn use_token(&mut self, digest: &str, now: Timestamp) -> Option<(String, Option<Fixed>)> {
        let token = self.joins.iter_mut().find(|token| token.digest == digest)?;
        if token.expires.is_some_and(|expires| now >= expires) || token.uses == Some(0) {
            return None;
        }
        token.uses = token.uses.map(|uses| uses.saturating_sub(1));
        self.changed.joins.push(token.name.clone());
        Some((format!("token {}", token.name), token.fixed.clone()))
    }

    fn enrol(&mut self, shown: &Shown<'_>, how: String, fixed: Option<Fixed>, now: Now) -> Verdict {
        let Shown { host, key, sequence, .. } = *shown;
        self.believe(EnrolledHost { host, key, sequence, how, since: now.time, fixed, change: 0 }, now.up + EVERY);
        Verdict::Taken
    }

    fn believe(&mut self, new: EnrolledHost, full: i64) {
        let EnrolledHost { host, key, sequence, change, .. } = new;
        let fixed = new.fixed.clone().map(Box::new);
        let is_unproven = new.how == OPEN;
        self.members.insert(host, Member { key, sequence, change, full, is_unproven, fixed });
        self.changed.new.push(new);
        if self.waiting.remove(&host).is_some() {
            self.changed.waiting.push(host);
        }
    }

    /// Has a key wait; false: it waited already, or there is no room.
    fn wait(&mut self, shown: &Shown<'_>, now: Timestamp) -> bool {
        if self.waiting.contains_key(&shown.host) || self.waiting.len() >= MOST_WAITING {
            return false;
        }
        self.waiting.insert(shown.host, Candidate { host: shown.host, key: shown.key, since: now });
        self.changed.waiting.push(shown.host);
        true
    }

    /// An operator believes the key that waits, and with it what the host says from now on.
    ///
    /// # Errors
    /// None waits, or another one than he named by the beginning of its hex digits.
    pub(super) fn accept(
        &mut self,
        host: HostId,
        named: Option<&str>,
        who: &str,
        now: Timestamp,
    ) -> Result<(), ApiError> {
        let none = || ApiError::new(Code::NotFound, "no key of this host waits for an admin");
        let key = self.waiting.get(&host).ok_or_else(none)?.key;
        let is_so = |named: &str| !named.is_empty() && key.to_string().starts_with(&named.to_ascii_lowercase());
        if named.is_some_and(|named| !is_so(named)) {
            return Err(ApiError::new(Code::Conflict, format!("another key waits: {key}; look at the host again")));
        }
        let fixed = self.fixed(host).cloned();
        let how = format!("accepted by {who}");
        self.believe(EnrolledHost { host, key, sequence: 0, how, since: now, fixed, change: 0 }, 0);
        Ok(())
    }

    /// Forgets hosts, with what the store has not of them yet.
    pub(super) fn forget(&mut self, hosts: &[HostId]) {
        for host in hosts {
            self.members.remove(host);
            self.waiting.remove(host);
        }
        let gone: HashSet<HostId> = hosts.iter().copied().collect();
        self.changed.new.retain(|new| !gone.contains(&new.host));
        self.changed.members.retain(|host| !gone.contains(host));
        self.changed.waiting.retain(|host| !gone.contains(host));
    }

    /// What happened that an operator should know of, since this was asked last.
    pub(super) fn said(&mut self) -> Vec<Said> {
        std::mem::take(&mut self.changed.said)
    }

    /// What changed that a store keeps; it stays changed until [`Members::kept`].
    pub(super) fn changes(&self) -> EnrolmentChanges {
        let progress = |host: &HostId| {
            let Member { sequence, change, .. } = self.members.get(host)?;
            Some(EnrolmentProgress { host: *host, sequence: *sequence, change: *change })
        };
        let join = |name: &String| (name.clone(), self.joins.iter().find(|token| token.name == *name).cloned());
        EnrolmentChanges {
            enrolled: self.changed.new.clone(),
            progress: unique(&self.changed.members).iter().filter_map(progress).collect(),
            candidates: unique(&self.changed.waiting).iter().map(|id| (*id, self.waiting.get(id).cloned())).collect(),
            reports: Vec::new(),
            joins: unique(&self.changed.joins).iter().map(join).collect(),
        }
    }

    /// The store has what changed.
    pub(super) fn kept(&mut self) {
        self.changed = Changed { said: std::mem::take(&mut self.changed.said), ..Changed::default() };
    }
}

fn unique<T: Ord + Clone>(all: &[T]) -> Vec<T> {
    let mut all = all.to_vec();
    all.sort_unstable();
    all.dedup();
    all
}
