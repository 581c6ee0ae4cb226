//! Which hosts' reports are believed: keys, join tokens, and who waits for an operator (FLEET §5). Nothing here reads a clock
//! or the store.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU64;
use std::sync::LazyLock;

use fleet_engine::host::HostId;
use fleet_engine::index::PlaceTable;
use fleet_store::{
    Candidate, EnrolledHost, EnrolledKey, EnrolmentChanges, EnrolmentProgress, Fixed, JoinTokenRecord, News, OPEN,
};
use fleet_wire::api::{ApiError, Code};
use jiff::Timestamp;
use protocol::report::{GoOn, Key};

use crate::report::ReportBody;
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

/// What comes of a report that is believed, or may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is taken.
    Taken,
    /// It is one of a host that waits for an operator.
    Waits,
}

/// A report that is not taken; with these numbers another one would be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotTaken(pub(crate) ApiError, pub(crate) Option<GoOn>);

impl From<ApiError> for NotTaken {
    fn from(wrong: ApiError) -> Self {
        Self(wrong, None)
    }
}

/// See [`Members::judge`].
type Judged = Result<Verdict, NotTaken>;

/// When something is asked.
#[derive(Clone, Copy)]
pub(super) struct Now {
    /// What is kept and shown.
    pub(super) time: Timestamp,
    /// Seconds that this server runs: how often who comes is measured by that, as the clock may be set.
    pub(super) up: i64,
}

/// What tells a key from others, in memory: eight bytes of a hash that only this process can compute. Whoever looks for a key with
/// the mark of another one has to ask here each time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyMark(pub(super) NonZeroU64);

impl KeyMark {
    pub(crate) fn of(key: Key) -> Self {
        static SECRET: LazyLock<RandomState> = LazyLock::new(RandomState::new);
        Self(NonZeroU64::new(SECRET.hash_one(key)).unwrap_or(NonZeroU64::MIN))
    }
}

/// What decides of a host that enrolled, as [`EnrolledKey`] has it. 32 bytes.
struct Member {
    /// The hash of its id.
    host: u64,
    key: KeyMark,
    sequence: u64,
    change: u64,
}

/// The bit of [`Member::sequence`] of a host that nobody vouched for: numbers of reports have 53.
const UNPROVEN: u64 = 1 << 63;

impl Member {
    fn is_of(&self, key: Key) -> bool {
        self.key == KeyMark::of(key)
    }

    fn sequence(&self) -> u64 {
        self.sequence & !UNPROVEN
    }

    fn set_sequence(&mut self, sequence: u64) {
        self.sequence = sequence & !UNPROVEN | self.sequence & UNPROVEN;
    }
}

/// Hosts that enrolled, by a hash of their ids of 64 bits, whose key nobody outside has.
#[derive(Default)]
pub(super) struct EnrolledKeys {
    list: Vec<Member>,
    by_host: PlaceTable,
    /// What their join tokens fixed.
    fixed: HashMap<HostId, Box<Fixed>>,
    hash: RandomState,
}

impl EnrolledKeys {
    /// Makes room for so many more.
    pub(super) fn reserve(&mut self, more: usize) {
        let Self { list, by_host, .. } = self;
        list.reserve_exact(more);
        by_host.reserve(more, |at| list.get(at).map_or(0, |member| member.host));
    }

    fn at(&self, host: HostId) -> Option<usize> {
        let hash = self.hash.hash_one(host);
        self.by_host.find(hash, |at| self.host_of(at) == hash)
    }

    fn host_of(&self, at: usize) -> u64 {
        self.list.get(at).map_or(0, |member| member.host)
    }

    fn get(&self, host: HostId) -> Option<&Member> {
        self.list.get(self.at(host)?)
    }

    fn get_mut(&mut self, host: HostId) -> Option<&mut Member> {
        let at = self.at(host)?;
        self.list.get_mut(at)
    }

    /// Takes one that enrolled, also in the place of what is known of it.
    pub(super) fn insert(&mut self, EnrolledKey { host: id, key, sequence, change, fixed, is_unproven }: EnrolledKey) {
        let sequence = sequence | if is_unproven { UNPROVEN } else { 0 };
        let (host, known) = (self.hash.hash_one(id), self.at(id));
        let member = Member { host, key: KeyMark::of(key), sequence, change };
        self.fixed.remove(&id);
        self.fixed.extend(fixed.map(|fixed| (id, fixed)));
        if let Some(place) = known.and_then(|at| self.list.get_mut(at)) {
            *place = member;
            return;
        }
        let at = self.list.len();
        if at == self.list.capacity() {
            self.list.reserve_exact(at / 8 + 1);
        }
        self.list.push(member);
        let host_of = |at: usize| self.list.get(at).map_or(0, |member| member.host);
        self.by_host.insert(host, at, |at| host_of(at) == host, host_of);
    }

    /// The last one takes the place of the one that goes.
    fn remove(&mut self, host: HostId) {
        let Self { list, by_host, fixed, hash } = self;
        let (hash, host_of) = (hash.hash_one(host), |at: usize| list.get(at).map_or(0, |member| member.host));
        let Some(at) = by_host.remove(hash, |at| host_of(at) == hash, host_of) else { return };
        let last = list.len() - 1;
        if last != at {
            by_host.insert(host_of(last), at, |known| known == last, host_of);
        }
        list.swap_remove(at);
        fixed.remove(&host);
    }
}

/// All that enrolled, and all that wait.
#[derive(Default)]
pub(super) struct Members {
    mode: Enrolment,
    epoch: u64,
    members: EnrolledKeys,
    /// When the burst of a host is full again, by [`Now::up`]: of those that reported of late.
    full: HashMap<HostId, i64>,
    /// When those of `full` that are past go next.
    clean_at: i64,
    waiting: HashMap<HostId, Candidate>,
    joins: Vec<JoinTokenRecord>,
    /// When a host without a good join token was refused, by [`Now::up`], and what it calls itself.
    without_token: HashMap<HostId, (i64, String)>,
    /// When those of `without_token` that are past go next.
    tidy_at: i64,
    /// New hosts since then, by [`Now::up`].
    new: Option<(i64, usize)>,
    changed: Changed,
}

/// What the store has not.
#[derive(Default)]
struct Changed {
    new: Vec<EnrolledHost>,
    members: BTreeSet<HostId>,
    waiting: BTreeSet<HostId>,
    joins: BTreeSet<String>,
    /// Conflicts and surges, for the audit log.
    alerts: Vec<EnrolmentAlert>,
}

/// What an operator should know of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EnrolmentAlert {
    /// A second key for a host.
    Conflict(HostId, Key),
    /// Too many new hosts in an hour.
    Surge(usize),
}

impl Members {
    /// None, in an epoch of 0.
    pub(super) fn new(mode: Enrolment) -> Self {
        Self { mode, ..Self::default() }
    }

    /// Those that the store has.
    pub(super) fn set(&mut self, keys: EnrolledKeys, waiting: Vec<Candidate>, joins: Vec<JoinTokenRecord>, epoch: u64) {
        self.epoch = epoch;
        self.members = keys;
        self.full.clear();
        self.waiting = waiting.into_iter().map(|candidate| (candidate.host, candidate)).collect();
        self.joins = joins;
        self.changed = Changed::default();
    }

    /// Whether nobody can invent a host: each enrols with a token, or an operator accepts it.
    pub(super) fn is_proven(&self) -> bool {
        self.mode != Enrolment::Open
    }

    /// The whole key of a host that enrolled, where the store does not have it yet.
    pub(super) fn new_key(&self, host: HostId) -> Option<Key> {
        self.changed.new.iter().rev().find(|new| new.known.host == host).map(|new| new.known.key)
    }

    /// The key of a host that enrolled.
    pub(super) fn key(&self, host: HostId) -> Option<KeyMark> {
        self.members.get(host).map(|member| member.key)
    }

    /// What a host's join token fixed.
    pub(super) fn fixed(&self, host: HostId) -> Option<&Fixed> {
        self.members.fixed.get(&host).map(|fixed| &**fixed)
    }

    /// The key of a host that waits for an operator.
    pub(super) fn waits(&self, host: HostId) -> Option<Key> {
        self.waiting.get(&host).map(|candidate| candidate.key)
    }

    /// The key that has waited since then or before.
    pub(super) fn waits_since(&self, host: HostId, then: Timestamp) -> Option<Key> {
        self.waiting.get(&host).filter(|candidate| candidate.since <= then).map(|candidate| candidate.key)
    }

    /// Whether a host enrolled and nobody vouched for it, whatever is asked of new ones by now.
    pub(super) fn is_unproven(&self, host: HostId) -> bool {
        self.members.get(host).is_some_and(|member| member.sequence & UNPROVEN != 0)
    }

    /// Drops the keys that wait since a time for which `goes` is true.
    pub(super) fn drop_waiting(&mut self, goes: impl Fn(Timestamp) -> bool) {
        let old = self.waiting.extract_if(|_, candidate| goes(candidate.since));
        self.changed.waiting.extend(old.map(|(host, _)| host));
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
        self.changed.joins.insert(name.to_owned());
    }

    /// Whether a change of a host's version is another one than it reported last. From then on it is not.
    pub(super) fn is_new_change(&mut self, host: HostId, change: u64) -> bool {
        let Some(member) = self.members.get_mut(host).filter(|member| member.change != change) else { return false };
        member.change = change;
        self.changed.members.insert(host);
        true
    }

    /// Whether a question is this host's: by its key, of this epoch, and later than all that it said.
    pub(super) fn takes_question(&mut self, host: HostId, asked: Option<(Key, u64, u64)>) -> bool {
        // A host without a key cannot sign.
        let Some(member) = self.members.get_mut(host) else { return true };
        let Some((key, epoch, number)) = asked else { return false };
        if !member.is_of(key) || epoch != self.epoch || number <= member.sequence() {
            return false;
        }
        member.set_sequence(number);
        self.changed.members.insert(host);
        true
    }

    /// What comes of a report, of a fleet of so many hosts.
    pub(super) fn judge(&mut self, signed: &ReportBody, fleet: usize, now: Now) -> Judged {
        match self.members.get(signed.host) {
            Some(member) if member.is_of(signed.key) => self.of_member(signed, now),
            Some(_) => self.of_second_key(signed, now),
            None if signed.report.epoch != self.epoch => self.other_epoch(0),
            None => self.of_stranger(signed, fleet, now),
        }
    }

    fn of_member(&mut self, signed: &ReportBody, now: Now) -> Judged {
        let epoch = self.epoch;
        let Some(member) = self.members.get_mut(signed.host) else { return Ok(Verdict::Waits) };
        let sequence = member.sequence();
        if signed.report.epoch != epoch {
            return self.other_epoch(sequence);
        }
        if signed.report.sequence <= sequence {
            let message = format!("report {} is not later than {sequence}, which came before", signed.report.sequence);
            return Err(NotTaken(ApiError::new(Code::OldSequence, message), Some(GoOn { epoch, sequence })));
        }
        // A bucket of BURST reports that fills by one in EVERY seconds.
        if now.up >= self.clean_at {
            self.full.retain(|_, full| *full > now.up);
            self.full.shrink_to(2 * self.full.len());
            self.clean_at = now.up + EVERY * BURST;
        }
        let full = self.full.get(&signed.host).map_or(now.up, |full| *full.max(&now.up)) + EVERY;
        if full - now.up > EVERY * BURST {
            let message = format!("a host reports once in {EVERY} s, and at most {BURST} times at once");
            return Err(ApiError::new(Code::TooOften, message).into());
        }
        member.set_sequence(signed.report.sequence);
        self.full.insert(signed.host, full);
        self.changed.members.insert(signed.host);
        Ok(Verdict::Taken)
    }

    fn other_epoch(&self, sequence: u64) -> Judged {
        let go_on = GoOn { epoch: self.epoch, sequence };
        Err(NotTaken(ApiError::new(Code::OtherEpoch, "the report is of another epoch"), Some(go_on)))
    }

    /// The first key goes on until an operator decides.
    fn of_second_key(&mut self, signed: &ReportBody, now: Now) -> Judged {
        if self.wait(signed, now.time) {
            self.changed.alerts.push(EnrolmentAlert::Conflict(signed.host, signed.key));
        }
        let (host, key) = (fleet_wire::answers::ids::text(signed.host), signed.key.to_string());
        let named = key.get(..NAMED).unwrap_or(&key);
        let message = format!(
            "this host reports with another key: an admin decides which is right (`teleport-fleet host {host} accept --key \
             {named}`)"
        );
        Err(ApiError::new(Code::KeyConflict, message).into())
    }

    fn of_stranger(&mut self, signed: &ReportBody, fleet: usize, now: Now) -> Judged {
        let refused = |code: Code, message: &str| Err(ApiError::new(code, message).into());
        match (self.mode, signed.token.as_deref()) {
            (_, Some(digest)) => match self.use_token(digest, now.time) {
                Some((how, fixed)) => self.enrol(signed, how, fixed, now),
                None => {
                    self.note_without_token(signed, now.up);
                    refused(Code::JoinTokenRefused, "the join token is not known, has expired or is used up")
                }
            },
            (Enrolment::Token, None) => {
                self.note_without_token(signed, now.up);
                refused(
                    Code::JoinTokenNeeded,
                    "a new host needs a join token here: `teleport-fleet tokens join create`",
                )
            }
            (Enrolment::Open, None) if !self.is_surge(fleet, now.up) => self.enrol(signed, OPEN.to_owned(), None, now),
            (Enrolment::Open | Enrolment::Approve, None) => {
                let is_new = self.wait(signed, now.time);
                if is_new || self.waits(signed.host) == Some(signed.key) {
                    Ok(Verdict::Waits)
                } else {
                    refused(Code::KeyConflict, "another key of this host, or too many others, wait for an admin")
                }
            }
        }
    }

    /// Anybody can come so: no more are noted than may wait.
    fn note_without_token(&mut self, signed: &ReportBody, up: i64) {
        if self.without_token.len() >= MOST_WAITING && up >= self.tidy_at {
            self.tidy_at = up + EVERY * BURST;
            self.without_token.retain(|_, (at, _)| up - *at < SURGE_TIME);
        }
        if self.without_token.len() < MOST_WAITING || self.without_token.contains_key(&signed.host) {
            self.without_token.insert(signed.host, (up, signed.report.hostname.clone()));
        }
    }

    /// How many hosts were refused in the last hour because they had no good join token, and what one of them calls itself.
    pub(super) fn without_token(&self, up: i64) -> (usize, Option<&str>) {
        let of_late = || self.without_token.values().filter(|(at, _)| up - *at < SURGE_TIME);
        (of_late().count(), of_late().map(|(_, name)| name.as_str()).filter(|name| !name.is_empty()).min())
    }

    /// Counts a new host; whether it is one of too many.
    fn is_surge(&mut self, fleet: usize, up: i64) -> bool {
        let (since, count) = self.new_of_late(up);
        let most = SURGE.max(fleet / 10);
        if count == most {
            self.changed.alerts.push(EnrolmentAlert::Surge(most));
        }
        self.new = Some((since, count.saturating_add(1)));
        count >= most
    }

    /// Since when new hosts are counted, and how many there were.
    fn new_of_late(&self, up: i64) -> (i64, usize) {
        self.new.filter(|(since, _)| up - since < SURGE_TIME).unwrap_or((up, 0))
    }

    /// What a token is called and fixes, where it is good; it has one use less then.
    fn use_token(&mut self, digest: &str, now: Timestamp) -> Option<(String, Option<Fixed>)> {
        let token = self.joins.iter_mut().find(|token| token.digest == digest)?;
        if token.expires.is_some_and(|expires| now >= expires) || token.uses == Some(0) {
            return None;
        }
        token.uses = token.uses.map(|uses| uses.saturating_sub(1));
        self.changed.joins.insert(token.name.clone());
        Some((format!("token {}", token.name), token.fixed.clone()))
    }

    fn enrol(&mut self, signed: &ReportBody, how: String, fixed: Option<Fixed>, now: Now) -> Judged {
        let (host, key, sequence) = (signed.host, signed.key, signed.report.sequence);
        let (fixed, is_unproven) = (fixed.map(Box::new), how == OPEN);
        let known = EnrolledKey { host, key, sequence, change: 0, fixed, is_unproven };
        self.believe(EnrolledHost { known, how, since: now.time });
        self.full.insert(host, now.up + EVERY);
        Ok(Verdict::Taken)
    }

    fn believe(&mut self, new: EnrolledHost) {
        let host = new.known.host;
        self.members.insert(new.known.clone());
        self.without_token.remove(&host);
        self.changed.new.push(new);
        if self.waiting.remove(&host).is_some() {
            self.changed.waiting.insert(host);
        }
    }

    /// Has a key wait; false: it waited already, or there is no room.
    fn wait(&mut self, signed: &ReportBody, now: Timestamp) -> bool {
        if self.waiting.contains_key(&signed.host) || self.waiting.len() >= MOST_WAITING {
            return false;
        }
        self.waiting.insert(signed.host, Candidate { host: signed.host, key: signed.key, since: now });
        self.without_token.remove(&signed.host);
        self.changed.waiting.insert(signed.host);
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
        let none = || ApiError::new(Code::NotFound, "no key of this host waits (accepted already, or no join token)");
        let key = self.waiting.get(&host).ok_or_else(none)?.key;
        let is_so = |named: &str| !named.is_empty() && key.to_string().starts_with(&named.to_ascii_lowercase());
        if named.is_some_and(|named| !is_so(named)) {
            return Err(ApiError::new(Code::Conflict, format!("another key waits: {key}; look at the host again")));
        }
        let fixed = self.fixed(host).cloned().map(Box::new);
        let known = EnrolledKey { host, key, sequence: 0, change: 0, fixed, is_unproven: false };
        self.believe(EnrolledHost { known, how: format!("accepted by {who}"), since: now });
        self.full.remove(&host);
        Ok(())
    }

    /// Forgets hosts, with what the store has not of them yet.
    pub(super) fn forget(&mut self, hosts: &[HostId]) {
        let gone: BTreeSet<HostId> = hosts.iter().copied().collect();
        for host in &gone {
            self.members.remove(*host);
            self.full.remove(host);
            self.waiting.remove(host);
            self.changed.members.remove(host);
            self.changed.waiting.remove(host);
        }
        self.changed.new.retain(|new| !gone.contains(&new.known.host));
    }

    /// Whether something happened that an operator should know of.
    pub(super) fn has_alerts(&self) -> bool {
        !self.changed.alerts.is_empty()
    }

    /// What other servers heard of hosts, and took of them: it counts here as well.
    pub(super) fn learn(&mut self, news: &mut News, now: Now) {
        for member in std::mem::take(&mut news.enrolled) {
            let host = member.host;
            if self.members.get(host).is_none() && member.is_unproven {
                let (since, count) = self.new_of_late(now.up);
                self.new = Some((since, count.saturating_add(1)));
            }
            let full = self.full.get(&host).map_or(now.up, |full| *full.max(&now.up)) + EVERY;
            self.full.insert(host, full);
            self.without_token.remove(&host);
            self.members.insert(member);
        }
        if let Some(candidates) = news.candidates.take() {
            self.waiting = candidates.into_iter().map(|candidate| (candidate.host, candidate)).collect();
        }
        if let Some(joins) = news.joins.take() {
            self.joins = joins;
        }
    }

    /// What happened that an operator should know of, since this was asked last.
    pub(super) fn alerts(&mut self) -> Vec<EnrolmentAlert> {
        std::mem::take(&mut self.changed.alerts)
    }

    /// What changed that a store keeps; it stays changed until [`Members::kept`].
    pub(super) fn changes(&self) -> EnrolmentChanges {
        let progress = |host: &HostId| {
            let member = self.members.get(*host)?;
            Some(EnrolmentProgress { host: *host, sequence: member.sequence(), change: member.change })
        };
        let join = |name: &String| (name.clone(), self.joins.iter().find(|token| token.name == *name).cloned());
        EnrolmentChanges {
            enrolled: self.changed.new.clone(),
            progress: self.changed.members.iter().filter_map(progress).collect(),
            candidates: self.changed.waiting.iter().map(|id| (*id, self.waiting.get(id).cloned())).collect(),
            reports: Vec::new(),
            joins: self.changed.joins.iter().map(join).collect(),
        }
    }

    /// The store has what changed.
    pub(super) fn kept(&mut self) {
        self.changed = Changed { alerts: std::mem::take(&mut self.changed.alerts), ..Changed::default() };
    }
}
