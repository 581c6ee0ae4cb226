//! Tells the webhook what the audit log has and what lasts: one after the other, each until it is taken.

use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fleet_engine::rollout::Rollout;
use fleet_store::{PlaceInLog, StorePlace, StoreReader};
use fleet_wire::api::{AuditEntry, AuditHead};
use serde_json::json;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;

use super::event::WebhookEvent;
use super::lasting::{self, Observation};
use super::meter::Meter;
use super::webhook::{WEBHOOK, Webhook};
use crate::core::Snapshot;
use crate::tuf_site::TufWatch;

/// Between two notes of the audit log's head (FLEET §8).
pub(super) const HEAD_EVERY: Duration = Duration::from_secs(60 * 60);
/// Between two looks whether something was decided.
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Between two looks at what lasts.
const LOOK_AT_LASTING_EVERY: Duration = Duration::from_secs(2);
/// After a failure: then twice as long, and so on.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// At most; a receiver that is there again waits no longer.
const LONGEST_WAIT: Duration = Duration::from_secs(5 * 60);
/// Records that are read at once: what a receiver that hangs costs in memory.
const PAGE: u32 = 64;
/// Past rollouts by which it is judged how long groups take.
const PAST: u32 = 20;
/// Of servers that share a database one tells; another does when that one did not say for so long that it goes on.
const LEASE: Duration = Duration::from_secs(20);
/// Between two times that it says so.
const LEASE_EVERY: Duration = Duration::from_secs(5);
/// Records that nobody outside needs to know, after which the place is kept.
const KEEP_EVERY: u64 = 256;

/// See the module.
pub(super) struct Teller {
    store: StorePlace,
    /// What this server is called where servers share a database.
    id: String,
    /// It tells the receiver; no other does.
    tells: Cell<bool>,
    lease_due: Cell<Instant>,
    snapshot: Arc<Snapshot>,
    tuf: TufWatch,
    events: Receiver<AuditEntry>,
    meter: Arc<Meter>,
    webhook: Webhook,
    /// `None`: it could not be read, or the log could not.
    place: Option<PlaceInLog>,
    /// Up to which record it is kept.
    kept: u64,
    /// There may be records that were not read.
    is_behind: bool,
    past: Vec<Rollout>,
    /// The rollout before which `past` is.
    past_of: Option<u64>,
    lasting_due: Instant,
    head_due: Instant,
}

impl Teller {
    /// A teller of `webhook`; one that is new is told what comes from now on.
    pub(super) fn begin(
        (store, id): (StorePlace, String),
        (snapshot, tuf): (Arc<Snapshot>, TufWatch),
        events: Receiver<AuditEntry>,
        meter: Arc<Meter>,
        webhook: Webhook,
    ) -> Self {
        let now = Instant::now();
        let mut teller = Self {
            store,
            id,
            tells: Cell::new(false),
            lease_due: Cell::new(now),
            snapshot,
            tuf,
            events,
            meter,
            webhook,
            place: None,
            kept: 0,
            is_behind: true,
            past: Vec::new(),
            past_of: None,
            lasting_due: now,
            head_due: now,
        };
        if teller.is_mine() {
            teller.find_place();
        }
        teller
    }

    /// Tells, as long as the core is there.
    pub(super) fn run(mut self) {
        loop {
            if !self.listen() {
                return;
            }
            if !self.is_mine() {
                // Whoever tells it keeps the place: it is read again.
                self.place = None;
                std::thread::sleep(LOOK_EVERY);
                continue;
            }
            if self.place.is_none() {
                self.is_behind = true;
                self.find_place();
            }
            if self.is_behind && self.place.is_some() {
                self.tell_log();
            }
            let now = Instant::now();
            if now >= self.lasting_due {
                self.lasting_due = now + LOOK_AT_LASTING_EVERY;
                self.tell_lasting();
            }
            if now >= self.head_due {
                self.head_due = now + HEAD_EVERY;
                self.tell_head();
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Whether something was decided: what it was is read from the log. The answer: whether the core is there.
    fn listen(&mut self) -> bool {
        loop {
            match self.events.try_recv() {
                Ok(_) | Err(TryRecvError::Lagged(_)) => self.is_behind = true,
                Err(TryRecvError::Empty) => return true,
                Err(TryRecvError::Closed) => return false,
            }
        }
    }

    /// Whether this server tells the receiver: the only one always does. What a database that does not answer would say is as before.
    fn is_mine(&self) -> bool {
        let Some(shared) = self.store.shared() else { return true };
        let now = Instant::now();
        if now >= self.lease_due.get() {
            self.lease_due.set(now + LEASE_EVERY);
            if let Ok(tells) = shared.tells(WEBHOOK, &self.id, LEASE) {
                self.tells.set(tells);
            }
        }
        self.tells.get()
    }

    /// What this server did not reach for eight minutes another one may reach: it tells, if there is one.
    fn let_others(&self) {
        let Some(shared) = self.store.shared() else { return };
        if shared.release(WEBHOOK, &self.id).is_ok() {
            self.tells.set(false);
            self.lease_due.set(Instant::now() + 2 * LEASE_EVERY);
        }
    }

    /// The place that is kept: where servers share a database, there; before it had one, in this server's file.
    fn kept_place(&self) -> fleet_store::Result<Option<PlaceInLog>> {
        let shared = self.store.shared().map(|shared| shared.place(WEBHOOK)).transpose()?.flatten();
        shared.map_or_else(|| PlaceInLog::read(self.store.dir(), WEBHOOK), |place| Ok(Some(place)))
    }

    fn find_place(&mut self) {
        let place = match self.kept_place() {
            Ok(Some(place)) => Ok(place),
            Ok(None) => self.at_head(),
            // The database has it when it answers again.
            Err(error) if self.store.shared().is_some() => Err(error),
            Err(error) => {
                tracing::error!(receiver = WEBHOOK, %error, "what this receiver got is not known: it gets what comes");
                self.at_head()
            }
        };
        match place {
            Ok(place) => (self.kept, self.place) = (place.seq, Some(place)),
            Err(error) => {
                tracing::error!(receiver = WEBHOOK, %error, "the audit log cannot be read");
                std::thread::sleep(FIRST_WAIT);
            }
        }
    }

    /// The newest record's place, which is kept.
    fn at_head(&self) -> fleet_store::Result<PlaceInLog> {
        let AuditHead { seq, hash } = StoreReader::open(&self.store)?.head()?;
        let place = PlaceInLog { seq, hash, at: crate::clock::now(), lasting: std::collections::BTreeMap::new() };
        self.keep(&place);
        Ok(place)
    }

    fn keep(&self, place: &PlaceInLog) {
        let kept = match self.store.shared() {
            None => place.write(self.store.dir(), WEBHOOK),
            Some(shared) => shared.keep_place(WEBHOOK, &self.id, place).map(|is_mine| self.tells.set(is_mine)),
        };
        if let Err(error) = kept {
            tracing::error!(receiver = WEBHOOK, %error, "after a crash this receiver gets again what it got");
        }
    }

    /// Everything that the log has after the place.
    fn tell_log(&mut self) {
        self.is_behind = false;
        loop {
            let Some(place) = self.place.clone() else { return };
            // The database is not kept open: after a failure the core closes it, with all that this process knows of it.
            let page = StoreReader::open(&self.store).and_then(|reader| {
                let page = reader.audit(place.seq.saturating_sub(1), PAGE)?;
                let is_at = |entry: &AuditEntry| entry.seq == place.seq && entry.hash == place.hash;
                let is_so = place.seq == 0 || page.first().is_some_and(is_at);
                let other = if is_so { None } else { Some((reader.newest("restore")?, reader.head()?)) };
                Ok((page, other))
            });
            match page {
                Ok((_, Some((restore, head)))) => self.enter_other_log(place, restore, head),
                Ok((page, None)) => {
                    let new: Vec<AuditEntry> = page.into_iter().filter(|entry| entry.seq > place.seq).collect();
                    if new.is_empty() {
                        return;
                    }
                    new.iter().for_each(|entry| self.tell_entry(entry));
                }
                Err(error) => {
                    tracing::warn!(receiver = WEBHOOK, %error, "the audit log cannot be read: it is tried again");
                    self.is_behind = true;
                    return;
                }
            }
        }
    }

    fn tell_entry(&mut self, entry: &AuditEntry) {
        let event = WebhookEvent::of(entry);
        if event.as_ref().is_some_and(|event| !self.tell(event)) {
            self.place = None;
        }
        let Some(place) = &mut self.place else { return };
        (place.seq, place.hash, place.at) = (entry.seq, entry.hash.clone(), entry.at);
        if event.is_some() || entry.seq >= self.kept.saturating_add(KEEP_EVERY) {
            self.kept = entry.seq;
            if let Some(place) = &self.place {
                self.keep(place);
            }
        }
    }

    /// The log does not have the record that was told last. After a restore what comes with it is new; otherwise something was lost,
    /// and nobody knows what.
    fn enter_other_log(&mut self, place: PlaceInLog, restore: Option<AuditEntry>, head: AuditHead) {
        let next = match restore.filter(|restore| restore.at >= place.at) {
            Some(restore) => {
                PlaceInLog { seq: restore.seq.saturating_sub(1), hash: restore.previous, at: restore.at, ..place }
            }
            None => {
                let text = format!(
                    "The audit log does not have its record {} any more: the store is another one or an older one.",
                    place.seq
                );
                let data =
                    json!({ "seq": place.seq, "hash": place.hash, "found_seq": head.seq, "found_hash": head.hash });
                let key = format!("log {} {}", place.hash, head.hash);
                if !self.tell(&WebhookEvent::keyed(&key, "store_lost", crate::clock::now(), text, data)) {
                    self.place = None;
                    return;
                }
                PlaceInLog { seq: head.seq, hash: head.hash, at: crate::clock::now(), ..place }
            }
        };
        self.keep(&next);
        (self.kept, self.place) = (next.seq, Some(next));
    }

    fn tell_lasting(&mut self) {
        let public = self.snapshot.public();
        self.remember_past(public.rollouts.rollout.as_ref().map(|rollout| rollout.number));
        let Some(mut place) = self.place.take() else { return };
        let before = place.lasting.clone();
        let now = crate::clock::now();
        let unconfirmed = (!self.snapshot.is_good()).then(|| self.snapshot.confirmed());
        let tuf = self.tuf.alerts(now);
        let seen = Observation {
            book: &public.rollouts,
            unconfirmed,
            past: &self.past,
            tuf: &tuf,
            alerts: &public.alerts,
            now,
        };
        let found = lasting::conditions(&seen);
        while let Some((key, event)) = lasting::next(&mut place, &found, &public.rollouts, now) {
            if !self.tell(&event) {
                return;
            }
            let Some(noted) = place.lasting.get_mut(&key) else { break };
            noted.is_told = true;
            self.keep(&place);
        }
        if place.lasting != before {
            self.keep(&place);
        }
        self.place = Some(place);
    }

    /// Past rollouts are read once for each rollout.
    fn remember_past(&mut self, rollout: Option<u64>) {
        if self.past_of == rollout || rollout.is_none() {
            return;
        }
        match StoreReader::open(&self.store).and_then(|reader| reader.rollouts(rollout, PAST)) {
            Ok(past) => (self.past, self.past_of) = (past, rollout),
            Err(error) => tracing::warn!(receiver = WEBHOOK, %error, "past rollouts cannot be read"),
        }
    }

    fn tell_head(&self) {
        match StoreReader::open(&self.store).and_then(|reader| reader.head()) {
            Ok(head) => {
                self.tell(&WebhookEvent::head(&head, crate::clock::now()));
            }
            Err(error) => tracing::warn!(receiver = WEBHOOK, %error, "the head of the audit log cannot be read"),
        }
    }

    /// Tells an event until it is taken; `false`: another server tells them now, this one too.
    fn tell(&self, event: &WebhookEvent) -> bool {
        self.meter.begin(event.time);
        let mut wait = FIRST_WAIT;
        while self.is_mine() {
            match self.webhook.tell(event) {
                Ok(()) => {
                    tracing::info!(receiver = WEBHOOK, id = event.id, kind = event.kind, "delivered");
                    self.meter.delivered.add();
                    self.meter.leave();
                    return true;
                }
                Err(error) => {
                    let (seconds, id, kind) = (wait.as_secs(), &event.id, event.kind);
                    tracing::warn!(receiver = WEBHOOK, id, kind, error, seconds, "not delivered: it is tried again");
                    self.meter.failed.add();
                }
            }
            let again = Instant::now() + wait;
            while self.is_mine() && Instant::now() < again {
                std::thread::sleep(again.saturating_duration_since(Instant::now()).min(LEASE_EVERY));
            }
            wait = wait.saturating_mul(2).min(LONGEST_WAIT);
            if wait == LONGEST_WAIT {
                self.let_others();
            }
        }
        self.meter.leave();
        false
    }
}
