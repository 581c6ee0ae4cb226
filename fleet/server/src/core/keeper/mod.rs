//! What the core knows, and how it changes: first in the store, then here, then on the snapshot.

mod forget;

use std::collections::{HashSet, VecDeque};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fleet_engine::book::{HaltCause, RolloutState};
use fleet_engine::fleet::Fleet;
use fleet_engine::host::{Host, HostId};
use fleet_engine::resource;
use fleet_engine::shelf::ResourceSet;
use fleet_store::{Change, EnrolmentChanges, Store, StoreState, StoredReport};
use fleet_wire::api::{ApiError, AuditEntry, Code};
use jiff::{SignedDuration, Timestamp};
use protocol::report::{Key, MAX_NUMBER, Wanted};
use tokio::sync::{broadcast, oneshot};

use super::enrolments::Members;
use super::repeats::Repeats;
use super::snapshot::{HostContact, Snapshot};
use super::stop::Stop;
use super::tx::Tx;
use super::{Actor, changes, publish};
use crate::reporting::Reporting;
use crate::tokens::TokenSet;

/// Between two steps where nothing happens (FLEET §3).
const STEP_EVERY: Duration = Duration::from_secs(60);
/// Until the step after a report, a question of a new host, or another event of hosts (FLEET §3).
const STEP_SOON: Duration = Duration::from_secs(1);
/// A step takes at most this part of the core's time: one in so many.
const STEP_SHARE: u32 = 10;
/// Between two writes to the store: what proves that it can be written. Answers are good for three of them and some seconds.
const PROVE_EVERY: Duration = Duration::from_secs(8);
/// Until what hosts said is durable (FLEET §7).
const FLUSH_EVERY: Duration = Duration::from_millis(800);
/// Reports that are written at once, however short ago the last write was: their hosts wait for it, and take places.
const FLUSH_AT: usize = 1000;
/// Most different names of groups that only questions made; one more that nobody wrote is not kept.
const MOST_NAMES: usize = 65_536;
/// How far the clock may be behind the newest decision (FLEET §3).
const BEHIND: SignedDuration = SignedDuration::from_mins(5);
/// Between two attempts to reach a store that fails.
const RETRY_EVERY: Duration = Duration::from_secs(2);

/// What the core knows.
pub(crate) struct CoreState {
    store: Store,
    /// The store failed, and what is known here may not be what it has.
    is_down: bool,
    pub(super) book: RolloutState,
    pub(super) shelf: ResourceSet,
    pub(super) fleet: Fleet,
    /// Hosts that the store still has.
    forgotten: Vec<HostId>,
    revision: u64,
    pub(super) tokens: TokenSet,
    /// Whose reports are believed.
    pub(super) members: Members,
    /// Seconds between two reports of a host; 0: none are wanted.
    interval: u32,
    /// What hosts reported, and the store has not.
    reports: Vec<StoredReport>,
    /// Who waits until it has.
    waiters: Vec<oneshot::Sender<Result<(), ApiError>>>,
    /// Slots of the snapshot may not have their hosts' keys.
    pub(super) is_unkeyed: bool,
    pub(super) snapshot: Arc<Snapshot>,
    generation: u32,
    events: broadcast::Sender<AuditEntry>,
    pub(super) repeats: Repeats,
    /// Requests of strangers that were counted.
    strangers: u64,
    /// When it was looked last for what strangers left here.
    cleared: Timestamp,
    /// Stops that the store did not take, and who commanded them: until they are decided nobody new is let go.
    pub(super) undecided: VecDeque<(Actor, Stop)>,
    /// Beside the database it is noted that one waits.
    pub(super) is_stop_noted: bool,
    times: Times,
}

/// What the store has.
fn load(store: &mut Store) -> fleet_store::Result<(StoreState, Fleet)> {
    store.load_with(|hosts, arrivals| Fleet::restore(hosts, arrivals))
}

/// When what is due.
struct Times {
    step: Instant,
    flush: Option<Instant>,
    prove: Instant,
    retry: Instant,
    last_step_took: Duration,
}

impl CoreState {
    /// Opens the data in `dir`, and makes the first step.
    ///
    /// # Errors
    /// One line.
    pub(super) fn open(
        dir: &Path,
        snapshot: Arc<Snapshot>,
        tokens: TokenSet,
        events: broadcast::Sender<AuditEntry>,
        reporting: Reporting,
    ) -> Result<Self, String> {
        let mut store = Store::open(dir).map_err(|error| error.to_string())?;
        if let Some(what) = store.strange() {
            tracing::error!(
                "{what}: everything is held. Put the newer database back with the server stopped; or look at `teleport-fleet \
                 autoupdate agents status`, then end the hold with `run GROUP` or `run --all`"
            );
        }
        let loaded = load(&mut store).map_err(|error| error.to_string())?;
        let now = Instant::now();
        let times = Times { step: now, flush: None, prove: now, retry: now, last_step_took: Duration::ZERO };
        let mut keeper = Self {
            store,
            is_down: false,
            book: RolloutState::default(),
            shelf: ResourceSet::default(),
            fleet: Fleet::default(),
            forgotten: Vec::new(),
            revision: 0,
            tokens,
            members: Members::new(reporting.enrolment),
            interval: reporting.interval,
            reports: Vec::new(),
            waiters: Vec::new(),
            is_unkeyed: true,
            snapshot,
            generation: 0,
            events,
            repeats: Repeats::default(),
            strangers: 0,
            cleared: Timestamp::UNIX_EPOCH,
            undecided: VecDeque::new(),
            is_stop_noted: false,
            times,
        };
        keeper.take(loaded)?;
        keeper.hold_for_lost_stop()?;
        // Nobody was heard meanwhile, however short it was.
        let now = keeper.now();
        keeper.book.starts(now);
        if keeper.is_behind() {
            keeper.book.arrange(&mut keeper.fleet, now);
            keeper.publish(now);
        } else {
            keeper.step().map_err(|wrong| wrong.message)?;
        }
        Ok(keeper)
    }

    /// A stop that waited for the store when the server ended is not known any more: everything is held (FLEET §3).
    fn hold_for_lost_stop(&mut self) -> Result<(), String> {
        self.is_stop_noted = self.store.stop_waits().map_err(|error| error.to_string())?;
        if !self.is_stop_noted {
            return Ok(());
        }
        tracing::error!("a stop was not decided when the server ended: everything is held until `run --all`");
        let mut tx = Tx::new(self.book.clone());
        tx.book.holds.hold_all(HaltCause::StoreLost);
        let detail = serde_json::json!({ "stop": "was not decided when the server ended" });
        tx.records = vec![changes::record(self.now(), "store_lost", "store".to_owned(), detail)];
        self.commit(tx).map_err(|wrong| wrong.message)?;
        self.note_no_stop();
        Ok(())
    }

    /// Before it is said that a stop waits: the next start holds everything.
    pub(super) fn note_stop(&mut self) -> Result<(), fleet_store::Error> {
        self.store.note_stop(true)?;
        self.is_stop_noted = true;
        Ok(())
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

    /// What the store has is what is known.
    ///
    /// # Errors
    /// A resource cannot be read: without it another policy would rule, and hosts would go that it keeps.
    fn take(&mut self, (state, fleet): (StoreState, Fleet)) -> Result<(), String> {
        let mut shelf = ResourceSet::default();
        for stored in &state.resources {
            let read = resource::read(&stored.yaml).map_err(|faults| {
                let (kind, name) = (&stored.kind, &stored.name);
                format!("the stored {kind}/{name} cannot be read; start the version of teleport-fleet that wrote it: {faults}")
            });
            shelf.put_back(read?);
        }
        self.book = state.book.unwrap_or_default();
        if self.book.seed == 0 {
            self.book.seed = crate::random::number();
        }
        self.tokens.set(state.tokens);
        self.forgotten.clear();
        (self.shelf, self.fleet, self.revision) = (shelf, fleet, state.revision);
        let epoch = epoch(&state.epoch);
        self.is_unkeyed = true;
        self.reports.clear();
        if self.interval > 0 {
            self.fleet.interval = self.interval;
            self.snapshot.want(Wanted { epoch, interval_seconds: self.interval });
        }
        self.fleet.is_proven = self.members.is_proven();
        self.members.set(state.enrolments, epoch);
        self.fleet.drop_imported(|id| self.members.has(id));
        for id in self.members.unproven() {
            self.fleet.set_unproven(id, true);
        }
        self.snapshot.set_waiting(self.members.waiting());
        Ok(())
    }

    /// The present time: never before the last step's.
    pub(super) fn now(&self) -> Timestamp {
        let now = crate::clock::now();
        self.book.last_step.map_or(now, |last| last.max(now))
    }

    /// The store, if it answers.
    pub(super) fn store(&mut self) -> Result<&mut Store, ApiError> {
        if self.is_down { Err(unavailable()) } else { Ok(&mut self.store) }
    }

    /// Which decision this is.
    pub(super) fn revision(&self) -> u64 {
        self.revision
    }

    /// Makes a change: in the store, then here, then on the snapshot. What fails is not made, and everything is read again.
    pub(super) fn commit(&mut self, tx: Tx) -> Result<(), ApiError> {
        if self.is_down {
            return Err(unavailable());
        }
        let changed = self.fleet.take_changed();
        let Tx { book, shelf, resources, tokens, records, request } = tx;
        let change =
            Change { book: Some(&book), resources, tokens: tokens.clone(), records, request, ..Change::default() };
        let entries = self.keep_change(change, &changed)?;
        if let Some(error) = self.store.unwitnessed() {
            tracing::warn!(%error, "the decision is made; an older database that is put in place would not be noticed");
        }
        let now = self.now();
        self.book = book;
        if let Some(shelf) = shelf {
            self.shelf = shelf;
        }
        self.tokens.change(tokens);
        self.publish(now);
        self.drop_stored();
        self.confirm();
        for entry in entries {
            tracing::info!(
                seq = entry.seq,
                who = entry.who,
                action = entry.action,
                subject = entry.subject,
                done = entry.done,
                detail = %entry.detail,
                "decided"
            );
            // Nobody may be listening.
            let _ = self.events.send(entry);
        }
        Ok(())
    }

    /// Writes a change with what hosts said, of which `changed` did. After a failure everything is read again.
    fn keep_change(&mut self, change: Change<'_>, changed: &[HostId]) -> Result<Vec<AuditEntry>, ApiError> {
        let change = Change {
            expected: self.revision,
            hosts: changed.iter().filter_map(|id| self.fleet.record(*id)).collect(),
            enrolments: EnrolmentChanges { reports: self.reports.clone(), ..self.members.changes() },
            forgotten: self.forgotten.clone(),
            arrivals: self.fleet.arrivals(),
            ..change
        };
        match self.store.commit(&change) {
            Ok(committed) => {
                self.revision = committed.revision;
                (self.times.flush, self.times.prove) = (None, Instant::now() + PROVE_EVERY);
                Ok(committed.entries)
            }
            Err(error) => {
                tracing::error!(%error, "the store failed: nobody new is let go until it answers");
                self.recover();
                Err(ApiError::new(Code::StoreUnavailable, error.to_string()))
            }
        }
    }

    fn publish(&mut self, now: Timestamp) {
        self.snapshot.set_public(self.book.clone(), self.shelf.clone());
        // 0 is a word that was never set.
        self.generation = self.generation.wrapping_add(1).max(1);
        publish::all(&self.snapshot, &self.book, &self.fleet, self.generation, now);
        if self.is_unkeyed && self.snapshot.table().is_some() {
            publish::keys(&self.snapshot, self.members.keys());
            self.is_unkeyed = false;
        }
        self.snapshot.set_names(self.fleet.names.len());
        if !self.reports.is_empty() {
            publish::keys(&self.snapshot, self.reported_keys());
        }
    }

    /// What hosts said is in the store: it waits no more, and who waits for that is told.
    fn drop_stored(&mut self) {
        self.forgotten.clear();
        self.reports.clear();
        self.members.kept();
        self.snapshot.set_waiting(self.members.waiting());
        // Who does not wait any more has left.
        self.waiters.drain(..).for_each(|waiter| drop(waiter.send(Ok(()))));
    }

    /// What a host reported goes to the store and to the snapshot with the next write: before that the host is not answered.
    pub(super) fn reported(&mut self, report: StoredReport) {
        self.reports.push(report);
        if self.snapshot.table().is_none() {
            self.is_unkeyed = true;
        }
    }

    /// Keys of the hosts that reported since the last write.
    fn reported_keys(&self) -> Vec<(HostId, Key)> {
        let key = |report: &StoredReport| Some((report.host, self.members.key(report.host)?));
        self.reports.iter().filter_map(key).collect()
    }

    /// Publishes what those are answered that reported since the last write: together, as it costs a walk through all hosts where
    /// one of them is new.
    fn publish_reported(&self) {
        let keys = self.reported_keys();
        if keys.is_empty() {
            return;
        }
        let hosts: Vec<HostId> = keys.iter().map(|(host, _)| *host).collect();
        self.snapshot.set_names(self.fleet.names.len());
        publish::some(&self.snapshot, &self.book, &self.fleet, &hosts, self.now());
        publish::keys(&self.snapshot, keys);
    }

    /// Says when all that is known is durable.
    pub(super) fn when_durable(&mut self) -> oneshot::Receiver<Result<(), ApiError>> {
        let (waiter, kept) = oneshot::channel();
        self.waiters.push(waiter);
        self.times.flush.get_or_insert(Instant::now() + FLUSH_EVERY);
        kept
    }

    /// The store has what is answered. Where the clock is behind the newest decision, windows and waits mean nothing: the answers
    /// grow stale, and where a stop waits for the store.
    fn confirm(&self) {
        if !self.is_behind() && self.undecided.is_empty() {
            self.snapshot.confirm(crate::clock::now());
        }
    }

    /// Whether the clock is too far behind the last decision, which the snapshot knows from now on.
    fn is_behind(&self) -> bool {
        let last = self.book.last_step.filter(|last| last.duration_since(crate::clock::now()) > BEHIND);
        self.snapshot.set_ahead(last);
        last.is_some()
    }

    /// After a failure: what is known is what the store has, if it has it.
    fn recover(&mut self) {
        self.times.retry = Instant::now() + RETRY_EVERY;
        self.is_down = true;
        // The store is what keeps everybody now.
        self.snapshot.set_ahead(None);
        self.waiters.drain(..).for_each(|waiter| drop(waiter.send(Err(unavailable()))));
        match self.store.reopen().and_then(|()| load(&mut self.store)) {
            Ok(loaded) => {
                let known = self.revision;
                if let Err(what) = self.take(loaded) {
                    tracing::error!("{what}");
                    return;
                }
                if self.revision < known {
                    // Something that was decided is lost, perhaps a stop.
                    tracing::error!(
                        known,
                        found = self.revision,
                        "the store lost decisions: everything is held until `run --all`"
                    );
                    self.book.holds.hold_all(HaltCause::StoreLost);
                }
                let now = self.now();
                self.book.starts(now);
                self.book.arrange(&mut self.fleet, now);
                // What is answered is what the store has, before anything else happens. Good it is with the next write.
                self.publish(now);
                self.snapshot.tell_again();
                self.is_down = false;
                self.times.step = Instant::now();
            }
            Err(error) => tracing::error!(%error, "the store cannot be opened"),
        }
    }

    /// The engine steps, and what it did is kept.
    pub(super) fn step(&mut self) -> Result<(), ApiError> {
        let began = Instant::now();
        let now = self.now();
        if self.fleet.names_of_questions() >= MOST_NAMES {
            // Some may be nobody's any more: then there is room again.
            self.fleet.free_names();
        }
        self.forget_old(now);
        let mut tx = Tx::new(self.book.clone());
        tx.book.step(&mut self.fleet, now);
        tx.records = changes::of(&self.book, &tx.book, now);
        self.count_strangers();
        tx.records.extend(self.repeats.due(false));
        let done = self.commit(tx);
        if done.is_ok() {
            self.repeats.noted();
        }
        self.times.last_step_took = began.elapsed();
        self.times.step = Instant::now() + STEP_EVERY;
        done
    }

    fn count_strangers(&mut self) {
        let refused = self.snapshot.strangers();
        let detail = serde_json::json!({ "code": Code::Unauthenticated });
        let record = changes::record(self.now(), "request", "admin API".to_owned(), detail);
        self.repeats.strangers(refused - self.strangers, fleet_store::NewAuditRecord { done: false, ..record });
        self.strangers = refused;
    }

    /// A step is due soon, because hosts did something.
    pub(super) fn step_soon(&mut self) {
        let soon = Instant::now() + STEP_SOON.max(self.times.last_step_took * STEP_SHARE);
        self.times.step = self.times.step.min(soon);
    }

    /// Takes notice of questions. Where the store is gone, what is known may have half of a decision that failed: nothing of it is
    /// answered, and hosts are asked to tell again when the store is back.
    pub(super) fn hear(&mut self, questions: impl Iterator<Item = HostContact>) {
        if self.is_down {
            questions.for_each(drop);
            return;
        }
        let mut met = Vec::new();
        let known = self.fleet.hosts().len();
        for heard in questions {
            let HostContact { mut question, at, told, signed } = heard;
            // An updater of today names itself by its update id alone.
            let is_so = |host: &&Host| {
                host.id == question.update_id
                    || question.group.is_empty()
                    || self.fleet.names.text(host.declared) == question.group
            };
            let by_update_id = || self.fleet.by_update_id(question.update_id).filter(is_so).map(|host| host.id);
            let id = question.host.or_else(by_update_id).unwrap_or(question.update_id);
            question.host = Some(id);
            // Nobody speaks in another one's name, and who may not enrol by himself is nobody yet.
            if !self.members.takes_question(id, signed) || !self.may_meet(id) {
                // What was sent once before keeps nobody from being heard.
                self.snapshot.tell_again_of(id);
                continue;
            }
            let group = Some(question.group.as_str()).filter(|group| !group.is_empty() && self.may_keep(group));
            self.fleet.question(id, group, question.update_id, self.book.rollout.as_ref(), at);
            // An answer of a rollout that is over is no mark in the next one.
            if let (Some(told), Some(rollout)) = (told, &self.book.rollout)
                && told.rollout == rollout.number
            {
                self.fleet.tell(id, rollout, told.back, at);
            }
            met.push(id);
        }
        if met.is_empty() {
            return;
        }
        self.snapshot.set_names(self.fleet.names.len());
        self.times.flush.get_or_insert(Instant::now() + FLUSH_EVERY);
        if self.fleet.hosts().len() > known {
            self.forget_surplus();
        }
        // What a host reported is answered from when it is durable.
        let reported: HashSet<HostId> = self.reports.iter().map(|report| report.host).collect();
        met.retain(|id| !reported.contains(id));
        publish::some(&self.snapshot, &self.book, &self.fleet, &met, self.now());
        if self.fleet.hosts().len() > known {
            self.step_soon();
        }
    }

    /// Whether who asks as this host is taken notice of: anybody, or where hosts enrol by token or approval, one that did.
    fn may_meet(&self, id: HostId) -> bool {
        !self.fleet.is_proven || self.fleet.host(id).is_some_and(|host| host.enrolled.is_some())
    }

    /// Whether the name of a group that a question has is kept. Of those that only questions made there are so many; a group of ours,
    /// and one that an enrolled host declares, is one though strangers have used them up.
    pub(super) fn may_keep(&self, group: &str) -> bool {
        let is_ours =
            || self.group_names().chain(self.book.holds.groups.iter().map(String::as_str)).any(|name| name == group);
        self.fleet.names_of_questions() < MOST_NAMES || self.fleet.names.find(group).is_some() || is_ours()
    }

    /// Steps, writes and tries again, each when it is due.
    pub(super) fn do_what_is_due(&mut self) {
        let now = Instant::now();
        if self.is_down && now >= self.times.retry {
            self.recover();
        }
        if self.is_down {
            return;
        }
        self.decide_stops();
        if self.is_down {
            return;
        }
        self.note_no_stop();
        // An error was logged, and what it means is on the snapshot: it grows stale.
        if now >= self.times.step && self.is_behind() {
            let last = self.book.last_step;
            tracing::error!(?last, "the clock is behind the newest decision: nobody new is let go until it is right");
            self.times.step = now + STEP_EVERY;
        } else if now >= self.times.step {
            let _ = self.step();
        } else if now >= self.times.prove || self.is_flush_due(now) {
            let _ = self.flush();
        }
    }

    fn is_flush_due(&self, now: Instant) -> bool {
        self.reports.len() >= FLUSH_AT || self.times.flush.is_some_and(|due| now >= due)
    }

    /// Writes what hosts said; where they said nothing, it proves that the store can be written.
    fn flush(&mut self) -> Result<(), ApiError> {
        let changed = self.fleet.take_changed();
        // A decision where there is nothing else to write.
        let book = changed.is_empty().then(|| self.book.clone());
        self.keep_change(Change { book: book.as_ref(), ..Change::default() }, &changed)?;
        self.publish_reported();
        self.drop_stored();
        self.confirm();
        Ok(())
    }

    /// What hosts said last is kept, and how many strangers were refused.
    pub(super) fn end(&mut self) {
        self.decide_stops();
        if self.is_down {
            return;
        }
        self.note_no_stop();
        let mut tx = Tx::new(self.book.clone());
        self.count_strangers();
        tx.records.extend(self.repeats.due(true));
        // An error was logged.
        let _ = if tx.records.is_empty() { self.flush() } else { self.commit(tx) };
    }
}

/// The number of an epoch, of the UUID that the store has: as many of its bits as a whole number of JSON.
fn epoch(uuid: &str) -> u64 {
    let bits = uuid::Uuid::parse_str(uuid).map_or(0, |uuid| uuid.as_u64_pair().1);
    bits & MAX_NUMBER
}

fn unavailable() -> ApiError {
    ApiError::new(Code::StoreUnavailable, "the store does not answer: nobody new is let go; see the server's log")
}
