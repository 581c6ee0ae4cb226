//! Taking reports: judged, then known, then durable, then answered (FLEET §5).

use fleet_engine::host::HostId;
use fleet_store::{Fixed, StoredReport};
use fleet_wire::api::ApiError;
use protocol::report::{Change, GoOn};
use serde_json::json;
use tokio::sync::oneshot;

use super::enrolments::{Now, Said, Shown, Verdict};
use super::tx::Tx;
use super::{Actor, CoreState, changes};
use crate::report::ReportBody;

/// What is told a host that reports, when what it said is durable.
pub(crate) type DurableReceipt = oneshot::Receiver<Result<(), ApiError>>;

/// What comes of a report.
pub(crate) enum Came {
    /// It is taken, once this says so.
    Taken(DurableReceipt),
    /// The host waits for an operator.
    Waits(DurableReceipt),
    /// It is not taken; with these numbers another one would be.
    Refused(ApiError, Option<GoOn>),
}

impl CoreState {
    /// Takes a report.
    ///
    /// # Errors
    /// The store does not answer.
    pub(crate) fn report(&mut self, signed: &ReportBody) -> Result<Came, ApiError> {
        self.store()?;
        let now = self.now();
        let ReportBody { host, key, report, token } = signed;
        let shown =
            Shown { host: *host, key: *key, epoch: report.epoch, sequence: report.sequence, token: token.as_deref() };
        let came_at = Now { time: now, up: crate::clock::up() };
        let verdict = self.members.judge(&shown, self.fleet.hosts().len(), came_at);
        let came = match verdict {
            Verdict::Refused(wrong, go_on) => Came::Refused(wrong, go_on),
            Verdict::Waits => {
                // It is shown among the hosts, as one that asks.
                let group = Some(report.group.as_str()).filter(|group| self.may_keep(group));
                let update_id = fleet_wire::answers::ids::uuid(&report.update_id).unwrap_or(0);
                self.fleet.question(*host, group, update_id, self.book.rollout.as_ref(), now);
                Came::Waits(self.when_durable())
            }
            Verdict::Taken => {
                self.take_report(signed, now);
                Came::Taken(self.when_durable())
            }
        };
        let said = self.members.said();
        if !said.is_empty() {
            self.put_on_record(&said)?;
        }
        Ok(came)
    }

    fn take_report(&mut self, signed: &ReportBody, now: jiff::Timestamp) {
        let ReportBody { host, report, .. } = signed;
        let is_new = self.fleet.host(*host).is_none_or(|known| known.enrolled.is_none());
        let last = report.last.as_ref();
        let is_changed = last.is_some_and(|change| self.members.is_new_change(*host, digest(change)));
        let mut heard = signed.heard(is_changed && last.is_some_and(|change| self.is_news(*host, change)));
        if let Some(Fixed { group, labels }) = self.members.fixed(*host) {
            heard.group = group.clone().or(heard.group);
            heard.labels.get_or_insert_default().extend(labels.clone());
        }
        self.fleet.report(&heard, self.book.rollout.as_ref(), now);
        self.fleet.set_unproven(*host, self.members.is_unproven(*host));
        let kept = StoredReport {
            host: *host,
            at: now,
            json: serde_json::to_string(report).unwrap_or_default(),
            change: last.filter(|_| is_changed).and_then(|change| serde_json::to_string(change).ok()),
        };
        self.reported(kept);
        let has_ended = is_changed && last.is_some_and(|change| !change.outcome.is_under_way());
        if is_new || has_ended {
            self.step_soon();
        }
    }

    /// Whether the engine is told of a change. A failure counts in the rollout and in the attempt in which it happened: one of
    /// before, whose report comes late, says nothing of this one. Everything else says how the host is now.
    fn is_news(&self, host: HostId, change: &Change) -> bool {
        let Some(rollout) = self.book.rollout.as_ref().filter(|_| change.outcome.is_failure()) else { return true };
        let group = self.fleet.host(host).and_then(|host| rollout.group(host.place));
        let is_of_attempt = |attempt| group.is_none_or(|group| attempt >= group.attempt);
        change.rollout.is_none_or(|number| number == rollout.number) && change.attempt.is_none_or(is_of_attempt)
    }

    /// Conflicts and surges are on record, whoever caused them.
    fn put_on_record(&mut self, said: &[Said]) -> Result<(), ApiError> {
        let mut tx = Tx::new(self.book.clone());
        let at = self.now();
        let record = |said: &Said| {
            let (action, subject, detail) = match said {
                Said::Conflict(host, key) => (
                    "key_conflict",
                    format!("host {}", fleet_wire::answers::ids::text(*host)),
                    json!({ "key": key.to_string() }),
                ),
                Said::Surge(most) => ("enrolment_surge", "new hosts".to_owned(), json!({ "an_hour": most })),
            };
            tracing::warn!(action, subject, "an operator should look at this");
            changes::record(at, action, subject, detail)
        };
        tx.records = said.iter().map(record).collect();
        self.commit(tx)
    }

    /// An operator believes the key that waits.
    pub(super) fn accept(&mut self, actor: &Actor, host: HostId, key: Option<&str>) -> Result<(), ApiError> {
        actor.decides_on_keys()?;
        let now = self.now();
        let had_key = self.members.has(host);
        self.members.accept(host, key, &actor.who, now)?;
        if had_key {
            self.fleet.renew(host, self.book.rollout.as_ref(), now);
            self.snapshot.tell_again_of(host);
        }
        self.is_unkeyed = true;
        Ok(())
    }
}

/// Tells a change from others: kept, so it must be the same in each release. 0 is none.
fn digest(change: &Change) -> u64 {
    let Change { to, at, rollout, attempt, outcome, code, .. } = change;
    let text = format!("{to}\n{at}\n{rollout:?}\n{attempt:?}\n{}\n{code}", outcome.name());
    let bytes = protocol::Digest::of(text.as_bytes()).0;
    let first = bytes.first_chunk().copied().unwrap_or_default();
    u64::from_be_bytes(first).max(1)
}
