//! One transaction: a decision, its audit records and its new revision, against the revision that it was made from. Only here the store
//! is written and the snapshot published.
//!
//! The store compares that revision with its own, and keeps all of a transaction or nothing. After a failure all that is known is what
//! the store has: so another store, or a second node, may stand behind it.

use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use fleet_engine::fleet::Fleet;
use fleet_engine::host::{Host, HostId};
use fleet_engine::inventory::Inventory;
use fleet_engine::record::HostRecord;
use fleet_engine::resource_set::ResourceSet;
use fleet_engine::rollout_state::{HaltCause, RolloutState};
use fleet_store::{
    Change, Committed, EnrolledKey, EnrolmentChanges, HostSink, News, ResourceChange, Store, StorePlace, StoreState,
    StoredReport, StoredToken,
};
use fleet_wire::api::{ApiError, AuditEntry, Code};
use jiff::{SignedDuration, Timestamp};
use protocol::report::{Key, Wanted};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{broadcast, oneshot};

use super::actor::{Actor, PendingStop, own_id};
use super::enrolments::{EnrolledKeys, KeyMark, Members};
use super::inbox::HostInbox;
use super::repeats::Repeats;
use super::snapshot::Snapshot;
use super::times::Times;
use super::{CoreState, changes, dry_runs, publish};
use crate::reporting::Reporting;
use crate::tokens::{self, TokenSet};

/// Reports that are written at once, however short ago the last write was: their hosts wait for it, and take places.
const FLUSH_AT: usize = 1000;
/// How far the clock may be behind the newest decision (FLEET §3).
const BEHIND: SignedDuration = SignedDuration::from_mins(5);
/// Seconds before its silence in which a host waits that may update, where another server may give its slot away: what is answered is
/// of the last step, 64 s ago at most, is good for 30 s more, and is known to the others a few seconds later. Twice and a half of that:
/// who asks each ten minutes is never so late.
pub(super) const SILENCE_MARGIN: u32 = 250;
/// Longest subject of a refusal, characters: four names of resources.
const LONGEST_SUBJECT: usize = 1024;
/// What a stop that the store does not take leaves (FLEET §3).
const UNDECIDED: &str =
    "the stop is not decided yet: the server tries until it is, and lets nobody new update meanwhile";

/// What is known, its store, and the snapshot of it.
pub(super) struct Ledger {
    pub(super) state: CoreState,
    pub(super) snapshot: Arc<Snapshot>,
    pub(super) repeats: Repeats,
    /// Until these are decided nobody new is allowed to update; with who commanded them.
    pub(super) undecided: VecDeque<(Actor, PendingStop)>,
    pub(super) times: Times,
    store: Box<dyn Store>,
    /// What hosts said, where other servers hear hosts as well.
    pub(super) inbox: HostInbox,
    /// Takes notice of it in a turn.
    take_heard: fn(&mut Tx<'_>),
    /// Hosts whose answers may be others now.
    pub(super) unpublished: Vec<HostId>,
    /// The newest write of which the store told.
    told: Arc<AtomicI64>,
    /// A decision of another server was not published yet.
    is_unpublished: bool,
    /// This server has its turn.
    has_turn: bool,
    /// The store failed, and what is known here may not be what it has.
    is_down: bool,
    /// Seconds between two reports of a host; 0: none are wanted.
    interval: u32,
    /// What hosts reported, and the store has not.
    reports: Vec<StoredReport>,
    /// Hosts that are no more, and that the store still has.
    forgotten: Vec<HostId>,
    /// Who waits until it has all.
    waiters: Vec<oneshot::Sender<Result<(), ApiError>>>,
    /// Slots of the snapshot may not have their hosts' keys.
    is_unkeyed: bool,
    generation: u32,
    events: broadcast::Sender<AuditEntry>,
    /// Beside the database it is noted that a stop waits.
    is_stop_noted: bool,
}

/// What the store has.
fn load(store: &mut dyn Store) -> fleet_store::Result<(StoreState, EnrolledKeys, Fleet)> {
    let mut hosts = LoadedHosts::default();
    let state = store.load_with(&mut hosts)?;
    let LoadedHosts { keys, mut fleet } = hosts;
    // All are used: what is counted begins with that.
    fleet.free_names();
    fleet.raise_arrivals(state.arrivals);
    Ok((state, keys, fleet))
}

/// Hosts and their keys as they are loaded.
#[derive(Default)]
struct LoadedHosts {
    keys: EnrolledKeys,
    fleet: Fleet,
}

impl HostSink for LoadedHosts {
    fn expect(&mut self, keys: usize, hosts: usize) {
        self.keys.reserve(keys);
        self.fleet.reserve(hosts);
    }

    fn take_key(&mut self, key: EnrolledKey) {
        self.keys.insert(key);
    }

    fn take_host(&mut self, host: HostRecord, arrivals: u64) {
        self.fleet.put_record(host, arrivals, None);
    }
}

impl Ledger {
    /// Opens the store at `place`; a stop that waited for it when the server ended holds everything (FLEET §3).
    ///
    /// # Errors
    /// One line.
    pub(super) fn open(
        place: &StorePlace,
        snapshot: Arc<Snapshot>,
        tokens: TokenSet,
        events: broadcast::Sender<AuditEntry>,
        reporting: Reporting,
        take_heard: fn(&mut Tx<'_>),
    ) -> Result<Self, String> {
        let mut store = place.open().map_err(|error| error.to_string())?;
        if let Some(what) = store.strange() {
            tracing::error!(
                "{what}: everything is held. Put the newer database back with the server stopped; or look at `teleport-fleet \
                 autoupdate agents status`, then end the hold with `run GROUP` or `run --all`"
            );
        }
        let loaded = load(&mut *store).map_err(|error| error.to_string())?;
        let is_stop_noted = store.stop_waits().map_err(|error| error.to_string())?;
        let told = Arc::new(AtomicI64::new(0));
        let newest = Arc::clone(&told);
        place.listen(move |change| newest.store(change, Ordering::Relaxed)).map_err(|error| error.to_string())?;
        crate::clock::set_offset(store.clock_offset());
        let mut ledger = Self {
            state: CoreState { enrolments: Members::new(reporting.enrolment), tokens, ..CoreState::default() },
            snapshot,
            repeats: Repeats::default(),
            undecided: VecDeque::new(),
            times: Times::due(Instant::now()),
            store,
            inbox: HostInbox::default(),
            take_heard,
            unpublished: Vec::new(),
            told,
            is_unpublished: false,
            has_turn: false,
            is_down: false,
            interval: reporting.interval,
            reports: Vec::new(),
            forgotten: Vec::new(),
            waiters: Vec::new(),
            is_unkeyed: true,
            generation: 0,
            events,
            is_stop_noted,
        };
        ledger.take(loaded)?;
        if is_stop_noted {
            tracing::error!("a stop was not decided when the server ended: everything is held until `run --all`");
            let mut tx = Tx::new(&mut ledger);
            tx.change().0.holds.hold_all(HaltCause::StoreLost);
            tx.found("store_lost", "store", json!({ "stop": "was not decided when the server ended" }));
            tx.commit().map_err(|wrong| wrong.message)?;
            ledger.note_no_stop();
        }
        Ok(ledger)
    }

    fn take(&mut self, loaded: (StoreState, EnrolledKeys, Fleet)) -> Result<(), String> {
        let epoch = self.state.take(loaded)?;
        if self.interval > 0 {
            self.state.fleet.terms.interval = self.interval;
            self.snapshot.want(Wanted { epoch, interval_seconds: self.interval });
        }
        let is_shared = self.store.is_shared();
        self.state.fleet.terms.silence_margin = if is_shared { SILENCE_MARGIN } else { 0 };
        self.state.fleet.terms.is_alone = !is_shared;
        self.is_unkeyed = true;
        self.forgotten.clear();
        self.reports.clear();
        self.snapshot.waiting.set(self.state.enrolments.waiting());
        Ok(())
    }

    /// The store, if it answers.
    pub(super) fn store(&mut self) -> Result<&mut dyn Store, ApiError> {
        if self.is_down { Err(unavailable()) } else { Ok(&mut *self.store) }
    }

    /// Whether the store answers; where it did not, it is tried again when that is due.
    pub(super) fn is_up(&mut self) -> bool {
        if self.is_down && self.times.is_retry_due() {
            self.recover();
        }
        !self.is_down
    }

    /// Something is to be written, or the store to be proven.
    pub(super) fn is_flush_due(&self, now: Instant) -> bool {
        self.times.is_write_due(now) || self.reports.len() + self.inbox.reports() >= FLUSH_AT
    }

    /// It is to be looked whether another server wrote.
    pub(super) fn is_look_due(&self, now: Instant) -> bool {
        let is_told = || self.told.load(Ordering::Relaxed) > self.store.position();
        self.store.is_shared() && (self.times.is_look_due(now) || is_told())
    }

    /// Says how far what is known is.
    pub(super) fn note_position(&self) {
        self.snapshot.position.set(usize::try_from(self.store.position()).unwrap_or(0));
    }

    /// Whether what hosts say is taken when this server has its turn.
    pub(super) fn hears_later(&self) -> bool {
        self.store.is_shared()
    }

    /// Whether this server makes the step that is due: no other did meanwhile, and none is newer.
    pub(super) fn is_step_mine(&self) -> bool {
        !self.store.is_shared() || self.times.is_step_due()
    }

    /// Takes what other servers wrote.
    fn learn(&mut self, mut news: News) -> Result<(), String> {
        let entries = std::mem::take(&mut news.entries);
        let keys: Vec<_> = news.enrolled.iter().map(|member| (member.host, KeyMark::of(member.key))).collect();
        let gone = std::mem::take(&mut news.forgotten);
        if !gone.is_empty() {
            publish::forget(&self.snapshot, &gone);
        }
        news.forgotten = gone;
        let before = self.state.rollouts.last_step;
        let (changed, is_decision) = self.state.learn(&mut news)?;
        self.unpublished.extend(changed);
        self.is_unpublished |= is_decision;
        self.snapshot.waiting.set(self.state.enrolments.waiting());
        // Who is new has no slot before it is published.
        self.is_unkeyed |= !publish::keys(&self.snapshot, keys);
        if self.state.rollouts.last_step > before {
            self.times.other_stepped();
        }
        for entry in entries {
            // Nobody may be listening.
            let _ = self.events.send(entry);
        }
        Ok(())
    }

    /// Publishes what changed for hosts without a decision of this server.
    fn publish_learned(&mut self) {
        let hosts = std::mem::take(&mut self.unpublished);
        if std::mem::take(&mut self.is_unpublished) {
            let now = self.state.now();
            self.publish(now);
        } else if !hosts.is_empty() {
            self.publish_some(&hosts);
            let key = |host: &HostId| Some((*host, self.state.enrolments.key(*host)?));
            publish::keys(&self.snapshot, hosts.iter().filter_map(key));
        }
    }

    /// Each stop is decided: the next start holds nothing. Tried again where that cannot be noted.
    pub(super) fn note_no_stop(&mut self) {
        if !self.is_stop_noted || !self.undecided.is_empty() {
            return;
        }
        match self.store.note_stop(false) {
            Ok(()) => self.is_stop_noted = false,
            Err(error) => tracing::warn!(%error, "stops are decided, but a restart would hold everything"),
        }
    }

    /// Publishes what every host is answered.
    pub(super) fn publish(&mut self, now: Timestamp) {
        let CoreState { rollouts, resources, fleet, enrolments, .. } = &self.state;
        let alerts = Inventory::new(rollouts, resources, fleet, now).alerts(resources);
        self.snapshot.set_public(rollouts.clone(), resources.clone(), alerts);
        // 0 is a word that was never set.
        self.generation = self.generation.wrapping_add(1).max(1);
        self.snapshot.set_dry_runs(dry_runs::orders(&self.state));
        publish::all(&self.snapshot, &self.state, self.generation, now);
        if self.is_unkeyed && self.snapshot.table().is_some() {
            let key = |host: &Host| Some((host.id, enrolments.key(host.id)?));
            publish::keys(&self.snapshot, fleet.hosts().iter().filter_map(key));
            self.is_unkeyed = false;
        }
        self.snapshot.names.set(fleet.names.len());
        publish::keys(&self.snapshot, self.reported());
    }

    /// Publishes what those are answered that reported since the last write: together, as it costs a walk through all hosts where
    /// one of them is new.
    fn publish_reported(&self) {
        let keys = self.reported();
        if keys.is_empty() {
            return;
        }
        let hosts: Vec<HostId> = keys.iter().map(|(host, _)| *host).collect();
        self.publish_some(&hosts);
        publish::keys(&self.snapshot, keys);
    }

    /// Publishes what these hosts are answered.
    pub(super) fn publish_some(&self, hosts: &[HostId]) {
        self.snapshot.names.set(self.state.fleet.names.len());
        publish::some(&self.snapshot, &self.state, hosts);
    }

    /// The hosts that reported since the last write, with their keys.
    pub(super) fn reported(&self) -> Vec<(HostId, KeyMark)> {
        let key = |report: &StoredReport| Some((report.host, self.state.enrolments.key(report.host)?));
        self.reports.iter().filter_map(key).collect()
    }

    /// The key of a host that enrolled.
    pub(super) fn key_of(&mut self, host: HostId) -> Result<Option<Key>, ApiError> {
        if let Some(key) = self.state.enrolments.new_key(host) {
            return Ok(Some(key));
        }
        self.store()?.key(host).map_err(|error| ApiError::new(Code::StoreUnavailable, error.to_string()))
    }

    /// Whether the clock is too far behind the last decision, which the snapshot knows from now on.
    pub(super) fn is_behind(&self) -> bool {
        let last = self.state.rollouts.last_step.filter(|last| last.duration_since(crate::clock::now()) > BEHIND);
        self.snapshot.set_ahead(last);
        last.is_some()
    }

    /// Forgets the hosts for which `goes` is true, their keys with them. Gives whether there was one.
    pub(super) fn forget(&mut self, goes: impl Fn(&Host) -> bool) -> bool {
        let gone = self.state.fleet.forget(goes);
        publish::forget(&self.snapshot, &gone);
        self.state.enrolments.forget(&gone);
        let is_gone: HashSet<HostId> = gone.iter().copied().collect();
        self.reports.retain(|report| !is_gone.contains(&report.host));
        let is_any = !gone.is_empty();
        self.forgotten.extend(gone);
        is_any
    }

    /// After a failure: what is known is what the store has, if it has it.
    fn recover(&mut self) {
        self.times.retried();
        self.is_down = true;
        self.has_turn = false;
        self.inbox.refuse(&unavailable());
        // The store is what keeps everybody now.
        self.snapshot.set_ahead(None);
        self.waiters.drain(..).for_each(|waiter| drop(waiter.send(Err(unavailable()))));
        let loaded = match self.store.reopen().and_then(|()| load(&mut *self.store)) {
            Ok(loaded) => loaded,
            Err(error) => return tracing::error!(%error, "the store cannot be opened"),
        };
        let known = self.state.revision;
        if let Err(what) = self.take(loaded) {
            return tracing::error!("{what}");
        }
        let CoreState { revision: found, rollouts, .. } = &mut self.state;
        // A shared store looks itself, before anybody goes on.
        if *found < known && !self.store.is_shared() {
            // Something that was decided is lost, perhaps a stop.
            tracing::error!(known, found, "the store lost decisions: everything is held until `run --all`");
            rollouts.holds.hold_all(HaltCause::StoreLost);
        }
        let now = self.state.now();
        self.state.rollouts.starts(now);
        self.state.rollouts.arrange(&mut self.state.fleet, now);
        // What is answered is what the store has, before anything else happens. Good it is with the next write.
        self.publish(now);
        self.snapshot.tell_again();
        self.is_down = false;
        self.times.step = Instant::now();
    }
}

fn unavailable() -> ApiError {
    ApiError::new(
        Code::StoreUnavailable,
        "the store does not answer: nobody new is allowed to update; see the server's log",
    )
}

/// What somebody asks for, as the audit log has it.
pub(super) struct RequestedAction<'a> {
    /// Who.
    pub(super) actor: &'a Actor,
    /// What.
    pub(super) action: &'a str,
    /// On what.
    pub(super) subject: &'a str,
    /// He only asks what would come of it: nothing is on record.
    pub(super) is_dry: bool,
}

/// What a transaction writes, besides what changed in the inventory of hosts: that changes in place.
#[derive(Default)]
pub(super) struct TxDraft {
    rollouts: Option<RolloutState>,
    /// The resources as they become; `written` are new or gone.
    pub(super) resources: Option<ResourceSet>,
    pub(super) written: Vec<ResourceChange>,
    /// Tokens of the admin API; `None`: it is removed.
    pub(super) tokens: Vec<(String, Option<StoredToken>)>,
    pub(super) records: Vec<AuditEntry>,
    /// What the decision's record has beside its subject, and the revisions of that, before and after.
    pub(super) detail: Value,
    pub(super) revisions: (String, String),
    request: Option<(String, String)>,
}

/// A transaction. What it does not [commit](Self::commit) is not made.
pub(crate) struct Tx<'a> {
    pub(super) ledger: &'a mut Ledger,
    pub(super) draft: TxDraft,
    /// The revision that it is made from.
    revision: u64,
}

impl<'a> Tx<'a> {
    /// One that changes nothing yet.
    pub(super) fn new(ledger: &'a mut Ledger) -> Self {
        let revision = ledger.state.revision;
        Self { ledger, draft: TxDraft::default(), revision }
    }

    /// Begins this server's turn: it knows all that others wrote, then what hosts said here. Alone it always has its turn.
    ///
    /// # Errors
    /// The store does not answer.
    pub(super) fn begin(&mut self) -> Result<(), ApiError> {
        self.ledger.store()?;
        if !self.ledger.store.is_shared() || self.ledger.has_turn {
            return Ok(());
        }
        self.catch_up()?;
        (self.ledger.take_heard)(self);
        Ok(())
    }

    /// Knows what other servers wrote.
    fn catch_up(&mut self) -> Result<(), ApiError> {
        let ledger = &mut *self.ledger;
        // Before it is looked: what comes meanwhile is looked at again.
        ledger.told.store(0, Ordering::Relaxed);
        let news = match ledger.store.take_turn() {
            Ok(news) => news,
            Err(error) => return Err(self.fail(&error)),
        };
        ledger.has_turn = true;
        ledger.times.looked();
        crate::clock::set_offset(ledger.store.clock_offset());
        if let Some(Err(what)) = news.map(|news| ledger.learn(news)) {
            return Err(self.fail(&fleet_store::Error::Newer(what)));
        }
        self.revision = self.ledger.state.revision;
        Ok(())
    }

    /// The store failed: what is known is what it has, if it has it.
    fn fail(&mut self, error: &fleet_store::Error) -> ApiError {
        tracing::error!(%error, "the store failed: nobody new is allowed to update until it answers");
        self.ledger.recover();
        self.revision = self.ledger.state.revision;
        ApiError::new(Code::StoreUnavailable, error.to_string())
    }

    /// Knows what other servers wrote, and publishes it.
    ///
    /// # Errors
    /// The store does not answer.
    pub(super) fn look(&mut self) -> Result<(), ApiError> {
        self.ledger.store()?;
        self.catch_up()?;
        self.finish()
    }

    /// Ends a turn in which nothing was decided. What hosts said in it is kept.
    ///
    /// # Errors
    /// The store does not answer.
    pub(super) fn finish(&mut self) -> Result<(), ApiError> {
        if !self.ledger.has_turn {
            return Ok(());
        }
        if self.ledger.times.has_unwritten() {
            (self.ledger.take_heard)(self);
            return self.commit();
        }
        self.ledger.has_turn = false;
        self.ledger.store.end_turn();
        self.ledger.publish_learned();
        Ok(())
    }

    /// What is known.
    pub(crate) fn state(&self) -> &CoreState {
        &self.ledger.state
    }

    /// The rollouts as they become.
    pub(super) fn rollouts(&self) -> &RolloutState {
        self.draft.rollouts.as_ref().unwrap_or(&self.ledger.state.rollouts)
    }

    /// The rollouts to change, and the hosts.
    pub(super) fn change(&mut self) -> (&mut RolloutState, &mut Fleet) {
        let CoreState { rollouts, fleet, .. } = &mut self.ledger.state;
        (self.draft.rollouts.get_or_insert_with(|| rollouts.clone()), fleet)
    }

    /// The engine steps.
    pub(super) fn step(&mut self, now: Timestamp) {
        let (rollouts, fleet) = self.change();
        rollouts.step(fleet, now);
    }

    /// What other servers counted is good for a minute from now on (Managed Updates v2).
    pub(super) fn count_reported(&mut self, now: Timestamp) {
        let CoreState { resources, fleet, .. } = &mut self.ledger.state;
        fleet.set_counts(self.draft.resources.as_ref().unwrap_or(resources).counted(Some(now)), now);
    }

    /// Puts on record what the engine did, or found.
    pub(super) fn found(&mut self, action: &str, subject: &str, detail: Value) {
        let record = changes::record(self.state().now(), action, subject.to_owned(), detail);
        self.draft.records.push(record);
    }

    /// What a request with this id was answered, or what `decide` answers now. A request that is sent again acts once; another one with
    /// the same id is refused.
    ///
    /// # Errors
    /// As [`Tx::decide`]; the id is none, or another request's.
    pub(super) fn once<T: Serialize + DeserializeOwned>(
        &mut self,
        asked: &RequestedAction<'_>,
        id: &str,
        request: &impl fmt::Debug,
        decide: impl FnOnce(&mut Self) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let id = own_id(id)?;
        self.begin()?;
        let digest = tokens::digest(&format!("{request:?}"));
        let before = self.ledger.store()?.outcome(&id.to_string());
        let before = before.map_err(|error| ApiError::new(Code::StoreUnavailable, error.to_string()))?;
        let Some(before) = before else { return self.decide(asked, Some((id.to_string(), digest)), decide) };
        let answer = before.split_once(' ').filter(|(known, _)| *known == digest);
        answer.and_then(|(_, answer)| serde_json::from_str(answer).ok()).ok_or_else(|| {
            ApiError::new(Code::Conflict, format!("id {id} was another request's: give each request its own"))
        })
    }

    /// What `decide` answers, which is on record, and kept for the `request` of this id and digest. A refusal is on record as well, and
    /// nothing of it is made.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn decide<T: Serialize>(
        &mut self,
        asked: &RequestedAction<'_>,
        request: Option<(String, String)>,
        decide: impl FnOnce(&mut Self) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let RequestedAction { actor, action, subject, is_dry } = asked;
        self.begin()?;
        if self.ledger.store.is_outdated() {
            let message = "a newer teleport-fleet decides for this fleet: ask that server, or install its version here";
            return Err(ApiError::new(Code::Conflict, message));
        }
        let decided = decide(self);
        if *is_dry || decided.is_err() {
            self.undo();
        }
        match decided {
            Ok(answer) if !is_dry => {
                let kept = serde_json::to_string(&answer);
                let kept = kept.map_err(|error| ApiError::new(Code::Internal, error.to_string()))?;
                self.draft.request = request.map(|(id, digest)| (id, format!("{digest} {kept}")));
                self.audit(actor, action, subject, None);
                self.commit().map(|()| answer)
            }
            Err(wrong) if !is_dry => Err(self.refuse(actor, action, subject, wrong)),
            dry => dry,
        }
    }

    /// Puts on record what somebody did, or what was `refused` to him.
    fn audit(&mut self, actor: &Actor, action: &str, subject: &str, refused: Option<&ApiError>) {
        let TxDraft { detail, revisions, .. } = &mut self.draft;
        let (before, after) = std::mem::take(revisions);
        let record = record(self.ledger.state.now(), actor, action, subject, refused);
        let detail = if detail.is_null() { record.detail } else { detail.take() };
        self.draft.records.push(AuditEntry { before, after, detail, ..record });
    }

    /// Puts a refusal on record, and gives it back.
    pub(crate) fn refuse(&mut self, actor: &Actor, action: &str, subject: &str, wrong: ApiError) -> ApiError {
        self.audit(actor, action, subject, Some(&wrong));
        self.commit().err().unwrap_or(wrong)
    }

    /// Puts on record what anybody with a token can do as often as he likes, and nothing comes of: a login, or (`refused`) what his
    /// role does not allow. More of it is counted.
    ///
    /// # Errors
    /// The store does not answer; he is let in or refused all the same.
    pub(crate) fn note(
        &mut self,
        actor: &Actor,
        action: &str,
        subject: &str,
        refused: Option<&ApiError>,
    ) -> Result<(), ApiError> {
        let record = record(self.state().now(), actor, action, &shown(subject), refused);
        if !self.ledger.repeats.takes(&record) {
            return Ok(());
        }
        self.draft.records.push(record);
        self.commit()
    }

    /// Nothing of it is made: hosts are placed by the present rollout again.
    fn undo(&mut self) {
        if std::mem::take(&mut self.draft).rollouts.is_some() {
            let now = self.state().now();
            let CoreState { rollouts, fleet, .. } = &mut self.ledger.state;
            rollouts.arrange(fleet, now);
        }
    }

    /// Makes it, and what hosts said since the last one: in the store, then here, then on the snapshot. Without a decision it proves that
    /// the store can be written. What fails is not made, and everything is read again.
    ///
    /// # Errors
    /// The store does not answer.
    pub(super) fn commit(&mut self) -> Result<(), ApiError> {
        self.begin()?;
        let mut draft = std::mem::take(&mut self.draft);
        let ledger = &mut *self.ledger;
        draft.records.extend(changes::alerts(&mut ledger.state));
        if let Some(after) = &draft.rollouts {
            draft.records.extend(changes::records(&ledger.state.rollouts, after, ledger.state.now()));
        }
        let is_decision = draft.rollouts.is_some() || !draft.records.is_empty();
        let Committed { revision, entries } = match ledger.write(self.revision, &mut draft, is_decision) {
            Ok(committed) => committed,
            Err(error) => return Err(self.fail(&error)),
        };
        ledger.has_turn = false;
        (self.revision, ledger.state.revision) = (revision, revision);
        ledger.times.written();
        if is_decision {
            if let Some(error) = ledger.store.unwitnessed() {
                tracing::warn!(%error, "the decision is made; an older database that is put in place would not be noticed");
            }
            let now = ledger.state.now();
            ledger.state.adopt(draft.rollouts, draft.resources, draft.tokens);
            (ledger.is_unpublished, ledger.unpublished) = (false, Vec::new());
            ledger.publish(now);
        } else {
            ledger.publish_learned();
            ledger.publish_reported();
        }
        ledger.confirm();
        for entry in entries {
            let AuditEntry { seq, who, action, subject, done, detail, .. } = &entry;
            tracing::info!(seq, who, action, subject, done, %detail, "decided");
            // Nobody may be listening.
            let _ = ledger.events.send(entry);
        }
        Ok(())
    }

    /// Keeps what a host reported, with the next write; before that the host is not answered by it.
    pub(super) fn keep_report(&mut self, report: StoredReport) {
        self.ledger.reports.push(report);
        self.ledger.is_unkeyed |= self.ledger.snapshot.table().is_none();
    }

    /// Says when all that is known is durable.
    pub(super) fn when_durable(&mut self) -> oneshot::Receiver<Result<(), ApiError>> {
        let (waiter, durable) = oneshot::channel();
        self.ledger.waiters.push(waiter);
        self.ledger.times.flush_soon();
        durable
    }

    /// Keys of hosts are other ones: they are published with the next decision.
    pub(super) fn publish_keys(&mut self) {
        self.ledger.is_unkeyed = true;
    }

    /// A stop that the store did not take is tried until it is decided. Before it is said that it waits, that is noted beside the
    /// database: the next start holds everything.
    pub(super) fn stop_later(&mut self, wrong: ApiError, actor: &Actor, stop: PendingStop) -> ApiError {
        if wrong.code != Code::StoreUnavailable {
            return wrong;
        }
        let ledger = &mut *self.ledger;
        tracing::error!(?stop, "a stop is not decided: nobody new is allowed to update until it is");
        ledger.snapshot.doubt();
        if !ledger.undecided.iter().any(|(_, known)| known.is(&stop)) {
            ledger.undecided.push_back((actor.clone(), stop));
        }
        let noted = if ledger.is_stop_noted { Ok(()) } else { ledger.store.note_stop(true) };
        ledger.is_stop_noted = noted.is_ok();
        let forgets = noted.err().map(|error| format!("; a restart would forget it: {error}")).unwrap_or_default();
        ApiError::new(wrong.code, format!("{}; {UNDECIDED}{forgets}", wrong.message))
    }
}

impl Ledger {
    /// Writes a draft against the `expected` revision, with what hosts said.
    fn write(&mut self, expected: u64, draft: &mut TxDraft, is_decision: bool) -> fleet_store::Result<Committed> {
        let CoreState { rollouts, fleet, enrolments, .. } = &mut self.state;
        let changed = fleet.take_changed();
        // A decision also where there is nothing else to write, so that it is written at all; a shared store has a number for that.
        let is_book = is_decision || (changed.is_empty() && !self.store.is_shared());
        let book = draft.rollouts.as_ref().or(is_book.then_some(&*rollouts));
        let book = book.filter(|_| !self.store.is_outdated());
        self.store.commit(&Change {
            expected,
            book,
            resources: std::mem::take(&mut draft.written),
            tokens: draft.tokens.clone(),
            hosts: changed.iter().filter_map(|id| fleet.record(*id)).collect(),
            enrolments: EnrolmentChanges { reports: self.reports.clone(), ..enrolments.changes() },
            forgotten: self.forgotten.clone(),
            arrivals: fleet.arrivals(),
            records: std::mem::take(&mut draft.records),
            request: draft.request.take(),
        })
    }

    /// The store has all that is known: what waited for it waits no more. Where the clock is behind the newest decision, windows and
    /// waits mean nothing: the answers grow stale, and where a stop waits for the store.
    fn confirm(&mut self) {
        self.forgotten.clear();
        self.reports.clear();
        self.state.enrolments.kept();
        self.snapshot.waiting.set(self.state.enrolments.waiting());
        // Who does not wait any more has left.
        self.waiters.drain(..).for_each(|waiter| drop(waiter.send(Ok(()))));
        if !self.is_behind() && self.undecided.is_empty() {
            self.snapshot.confirm(crate::clock::now());
        }
    }
}

/// A record of what somebody did, or what was `refused` to him; then the subject is text of a caller.
fn record(at: Timestamp, actor: &Actor, action: &str, subject: &str, refused: Option<&ApiError>) -> AuditEntry {
    let Actor { who, from, .. } = actor.clone();
    let message = |wrong: &ApiError| json!({ "code": wrong.code, "message": shown(&wrong.message) });
    let detail = refused.map_or_else(|| json!({}), message);
    let subject = if refused.is_some() { shown(subject) } else { subject.to_owned() };
    AuditEntry { who, from, done: refused.is_none(), ..changes::record(at, action, subject, detail) }
}

/// A subject that a request names: text of a caller, of which a record keeps a line.
fn shown(subject: &str) -> String {
    let mut shown: String = subject.chars().take(LONGEST_SUBJECT).collect();
    if shown.len() < subject.len() {
        shown.push('…');
    }
    shown
}
