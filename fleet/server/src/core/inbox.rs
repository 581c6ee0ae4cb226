//! What hosts said and the core has not taken notice of yet.

use fleet_wire::api::ApiError;
use tokio::sync::oneshot;

use super::enrolments::{NotTaken, Verdict};
use super::snapshot::HostContact;
use crate::report::ReportBody;

/// What is told a host that reports, when what it said is durable.
pub(crate) type DurableReceipt = oneshot::Receiver<Result<(), ApiError>>;
/// What comes of a report, once the receipt says so; or that the store does not answer.
pub(crate) type ReportAnswer = Result<Result<(Verdict, DurableReceipt), NotTaken>, ApiError>;

/// What hosts said since this server had its turn last, in the order in which it came: of a host what is numbered lower is old.
#[derive(Default)]
pub(super) struct HostInbox {
    said: Vec<InboxItem>,
    reports: usize,
}

pub(super) enum InboxItem {
    Question(HostContact),
    Report(Box<ReportBody>, oneshot::Sender<ReportAnswer>),
}

impl HostInbox {
    /// How many reports there are.
    pub(super) fn reports(&self) -> usize {
        self.reports
    }

    /// How much there is.
    pub(super) fn len(&self) -> usize {
        self.said.len()
    }

    /// Keeps what was said.
    pub(super) fn push(&mut self, said: InboxItem) {
        self.reports += usize::from(matches!(said, InboxItem::Report(..)));
        self.said.push(said);
    }

    /// All of it, from now on nothing.
    pub(super) fn take(&mut self) -> Vec<InboxItem> {
        std::mem::take(self).said
    }

    /// The store does not answer: hosts say it again.
    pub(super) fn refuse(&mut self, wrong: &ApiError) {
        for said in self.take() {
            if let InboxItem::Report(_, answer) = said {
                // Who does not wait any more has left.
                let _ = answer.send(Err(wrong.clone()));
            }
        }
    }
}
