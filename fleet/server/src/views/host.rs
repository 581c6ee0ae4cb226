//! `/hosts/UUID`.

use askama::Template;
use fleet_wire::api::{AuditEntry, Explained, History, ToldHost};
use fleet_wire::reason::{Reason, ReasonSubject};
use fleet_wire::words::{host, reported};

use super::audit::AuditRow;
use super::frame::{Frame, PageAction};
use super::rollout::Waits;

/// A host: what it would be told now and why, and what is known of it.
#[derive(Debug, Clone, Template)]
#[template(path = "host.html")]
pub(crate) struct HostPage {
    /// What is around it.
    pub(crate) frame: Frame,
    /// Its UUID.
    pub(crate) id: String,
    /// What it would be told; an error: nobody is told anything.
    pub(crate) explained: Result<Explained, String>,
    /// Names of groups that it can be put into.
    pub(crate) groups: Vec<String>,
    /// What operators decided of it, the newest first.
    pub(crate) history: Vec<AuditEntry>,
}

impl HostPage {
    fn answer(&self) -> Option<&ToldHost> {
        Some(&self.explained.as_ref().ok()?.answer)
    }

    fn hostname(&self) -> &str {
        self.answer().map_or("", |answer| &answer.hostname)
    }

    fn name(&self) -> String {
        host::parts(self.hostname(), &self.id).0
    }

    fn group(&self) -> &str {
        self.answer().map_or("", |answer| &answer.group)
    }

    fn state(&self) -> &str {
        self.answer().map_or("", |answer| &answer.state)
    }

    fn told(&self) -> String {
        self.answer().map(host::answer).unwrap_or_default()
    }

    fn waits(&self) -> Option<Waits> {
        let ToldHost { why, until, .. } = self.answer()?;
        let reason = Reason { until: Some(until.clone()), ..why.clone() };
        Some(Waits::of(&reason, ReasonSubject::Host(&self.id)))
    }

    fn known(&self) -> Option<&fleet_wire::api::HostView> {
        self.explained.as_ref().ok()?.known.as_ref()
    }

    fn flags(&self) -> String {
        self.known().map(host::flags).unwrap_or_default()
    }

    fn actions(&self) -> Vec<PageAction> {
        let is_held = self.known().is_some_and(|host| host.held);
        let (verb, label) = if is_held { ("release", "Release") } else { ("hold", "Hold") };
        vec![PageAction::on_host(verb, label, &self.id, &self.name())]
    }

    fn waiting_key(&self) -> Option<&str> {
        self.known().map(|host| host.waiting_key.as_str()).filter(|key| !key.is_empty())
    }

    /// The command that accepts it.
    fn accept(&self, key: &str) -> String {
        fleet_wire::reason::advice::accept(&self.id, key)
    }

    fn reported(&self) -> Vec<(&'static str, String)> {
        self.said().map(reported::facts).unwrap_or_default()
    }

    fn changes(&self) -> Vec<String> {
        self.said().map(|said| said.changes.iter().map(reported::change).collect()).unwrap_or_default()
    }

    fn said(&self) -> Option<&History> {
        self.explained.as_ref().ok()?.history.as_ref()
    }

    fn lines(&self) -> Vec<AuditRow> {
        self.history.iter().map(AuditRow::of).collect()
    }
}
