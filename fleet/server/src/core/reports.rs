//! Taking reports: judged, then known, then durable, then answered (FLEET §5).

use fleet_engine::host::HostId;
use fleet_store::{Fixed, StoredReport};
use fleet_wire::answers::ids;
use protocol::report::Change;
use tokio::sync::oneshot;

use super::enrolments::{NotTaken, Now, Verdict};
use super::inbox::{DurableReceipt, InboxItem, ReportAnswer};
use super::tx::Tx;
use super::{CoreState, dry_runs};
use crate::report::ReportBody;

/// Takes a report, and answers. Where other servers hear hosts as well, that is when this one has its turn: then it knows all that
/// they heard.
pub(crate) fn hear(tx: &mut Tx<'_>, signed: ReportBody, answer: oneshot::Sender<ReportAnswer>) {
    let answered = match tx.ledger.store().map(drop) {
        Err(wrong) => Err(wrong),
        Ok(()) if tx.ledger.hears_later() => {
            tx.ledger.inbox.push(InboxItem::Report(Box::new(signed), answer));
            return tx.ledger.times.flush_soon();
        }
        Ok(()) => report(tx, &signed),
    };
    // Who does not wait any more has left.
    let _ = answer.send(answered);
}

/// What hosts said is known from now on, as it was said after all that other servers wrote.
pub(super) fn take_heard(tx: &mut Tx<'_>) {
    let mut questions = Vec::new();
    for said in tx.ledger.inbox.take() {
        match said {
            InboxItem::Question(question) => questions.push(question),
            InboxItem::Report(signed, answer) => {
                tx.ledger.take_questions(&mut questions);
                let _ = answer.send(Ok(judge(tx, &signed)));
            }
        }
    }
    tx.ledger.take_questions(&mut questions);
}

/// Takes a report at once. Conflicts and surges are on record, whoever caused them.
///
/// # Errors
/// The store does not answer.
pub(crate) fn report(tx: &mut Tx<'_>, signed: &ReportBody) -> ReportAnswer {
    tx.ledger.store()?;
    let judged = judge(tx, signed);
    if tx.ledger.state.enrolments.has_alerts() {
        tx.commit()?;
    }
    Ok(judged)
}

/// What comes of a report.
fn judge(tx: &mut Tx<'_>, signed: &ReportBody) -> Result<(Verdict, DurableReceipt), NotTaken> {
    let state = &mut tx.ledger.state;
    let now = Now { time: state.now(), up: crate::clock::up() };
    let judged = state.enrolments.judge(signed, state.fleet.hosts().len(), now);
    match &judged {
        Err(_) => {}
        Ok(Verdict::Waits) => {
            // It is shown among the hosts, as one that asks.
            let group = Some(signed.report.group.as_str()).filter(|group| state.may_keep(group));
            let update_id = ids::uuid(&signed.report.update_id).unwrap_or(0);
            state.fleet.question(signed.host, group, update_id, state.rollouts.rollout.as_ref(), now.time);
            state.fleet.call(signed.host, &signed.report.hostname);
        }
        Ok(Verdict::Taken) => take(tx, signed, now.time),
    }
    judged.map(|verdict| (verdict, tx.when_durable()))
}

fn take(tx: &mut Tx<'_>, signed: &ReportBody, now: jiff::Timestamp) {
    let ReportBody { host, report, .. } = signed;
    let state = &mut tx.ledger.state;
    let is_new = state.fleet.host(*host).is_none_or(|known| known.enrolled.is_none());
    let last = report.last.as_ref();
    let is_changed = last.is_some_and(|change| state.enrolments.is_new_change(*host, digest(change)));
    let mut taken = signed.for_engine(is_changed);
    taken.is_of_before = last.is_some_and(|change| !is_news(state, *host, change));
    if let Some(Fixed { group, labels }) = state.enrolments.fixed(*host) {
        taken.group = group.clone().or(taken.group);
        taken.labels.get_or_insert_default().extend(labels.clone());
    }
    state.fleet.report(&taken, state.rollouts.rollout.as_ref(), now);
    if let Some(done) = &report.dry_run {
        dry_runs::take(state, *host, done);
    }
    state.fleet.set_unproven(*host, state.enrolments.is_unproven(*host));
    tx.keep_report(StoredReport {
        host: *host,
        at: now,
        json: serde_json::to_string(report).unwrap_or_default(),
        change: last.filter(|_| is_changed).and_then(|change| serde_json::to_string(change).ok()),
    });
    let has_ended = is_changed && last.is_some_and(|change| !change.outcome.is_under_way());
    if is_new || has_ended {
        tx.ledger.times.step_soon();
    }
}

/// Whether a change says something of this attempt. A failure counts in the rollout and in the attempt in which it happened: one of
/// before, whose report comes late, says nothing of this one. Everything else says how the host is now.
fn is_news(state: &CoreState, host: HostId, change: &Change) -> bool {
    let Some(rollout) = state.rollouts.rollout.as_ref().filter(|_| change.outcome.is_failure()) else { return true };
    let group = state.fleet.host(host).and_then(|host| rollout.group(host.place));
    let is_of_attempt = |attempt| group.is_none_or(|group| attempt >= group.attempt);
    change.rollout.is_none_or(|number| number == rollout.number) && change.attempt.is_none_or(is_of_attempt)
}

/// Tells a change from others: kept, so it must be the same in each release. 0 is none.
fn digest(change: &Change) -> u64 {
    let Change { to, at, rollout, attempt, outcome, code, .. } = change;
    let text = format!("{to}\n{at}\n{rollout:?}\n{attempt:?}\n{}\n{code}", outcome.name());
    let bytes = protocol::Digest::of(text.as_bytes()).0;
    let first = bytes.first_chunk().copied().unwrap_or_default();
    u64::from_be_bytes(first).max(1)
}
