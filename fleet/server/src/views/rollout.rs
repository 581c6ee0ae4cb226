//! `/`: the rollout as a line of groups, and why each of them waits.

use askama::Template;
use fleet_engine::advice::Advice;
use fleet_engine::command::Command;
use fleet_engine::reason::Why;
use fleet_engine::tally::BY_HAND;
use fleet_store::ServerStatus;
use fleet_wire::api::HoldsView;
use fleet_wire::lenient::Lenient;
use fleet_wire::reason::{Reason, ReasonProgress, ReasonSubject};
use fleet_wire::rollout::{AgentRollout, Needs, RolloutGroup, state_word};
use fleet_wire::text;
use fleet_wire::words::{holds, host};

use super::frame::{Frame, PageAction};

/// The rollout.
#[derive(Debug, Clone, Template)]
#[template(path = "rollout.html")]
pub(crate) struct RolloutPage {
    /// What is around it.
    pub(crate) frame: Frame,
    /// The rollout; `None`: there is none.
    pub(crate) rollout: Option<AgentRollout>,
    /// What is held.
    pub(crate) holds: HoldsView,
    /// What waits for a person.
    pub(crate) needs: Needs,
    /// Hosts that are known.
    pub(crate) hosts: u64,
    /// Servers that share the store; none where a file has one server.
    pub(crate) servers: Vec<ServerStatus>,
}

/// Why something is as it is, in the words of the command line.
#[derive(Debug, Clone, Default)]
pub(crate) struct Waits {
    /// What keeps it; empty: nothing does.
    pub(crate) sentence: String,
    /// Hosts that the sentence names: what they are called, and their UUIDs.
    pub(crate) hosts: Vec<(String, String)>,
    /// In RFC 3339; empty: not known.
    pub(crate) since: String,
    /// The same.
    pub(crate) until: String,
    /// How far it is, where it moves.
    pub(crate) progress: ReasonProgress,
    /// What it is good for, and the command.
    pub(crate) advice: String,
    /// It waits for nothing.
    pub(crate) is_moving: bool,
}

impl Waits {
    /// Of a reason.
    pub(crate) fn of(reason: &Reason, subject: ReasonSubject<'_>) -> Self {
        Self {
            sentence: reason.sentence(),
            hosts: hosts_of(reason),
            since: reason.since.clone().unwrap_or_default(),
            until: reason.until.clone().flatten().unwrap_or_default(),
            progress: reason.progress.clone(),
            advice: reason.advice(subject).unwrap_or_default(),
            is_moving: reason.is_moving(),
        }
    }
}

fn hosts_of(reason: &Reason) -> Vec<(String, String)> {
    let Lenient::Known(Why::Halted { hosts, sample, .. }) = &reason.code else { return Vec::new() };
    let named = hosts.iter().map(|named| (host::parts(&named.hostname, &named.host).0, named.host.clone()));
    let unnamed = sample.iter().filter(|_| hosts.is_empty()).map(|id| (id.clone(), id.clone()));
    named.chain(unnamed).collect()
}

/// A part of a group's bar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BarPart {
    /// `updated`, `moving`, `bad` or `rest`.
    pub(crate) class: &'static str,
    /// Where it begins, per mille.
    pub(crate) from: u64,
    /// How long it is, per mille.
    pub(crate) length: u64,
}

/// A group, as a card.
#[derive(Debug, Clone)]
pub(crate) struct Card {
    /// The group.
    pub(crate) group: RolloutGroup,
    /// `Canary (2/5)`.
    pub(crate) state: String,
    /// Why it is as it is.
    pub(crate) waits: Waits,
    /// What may be done to it.
    pub(crate) actions: Vec<PageAction>,
}

impl Card {
    /// Of a group.
    pub(crate) fn of(group: &RolloutGroup) -> Self {
        let reason = group.reason();
        Self {
            state: group.state_words(),
            waits: Waits::of(&reason, ReasonSubject::Group(&group.name)),
            actions: actions(group),
            group: group.clone(),
        }
    }

    /// Its hosts by what became of them, with the state by which they are found.
    pub(crate) fn counts(&self) -> Vec<(&'static str, &'static str, u64)> {
        let group = &self.group;
        let mut counts = vec![
            ("pending", "pending", group.pending_count),
            ("in flight", "told", group.in_flight_count),
            ("updated", "updated", group.updated_count),
            ("failed", "failed", group.failed_count.saturating_sub(group.by_hand_count)),
            (host::code(BY_HAND), "failed", group.by_hand_count),
            ("timed out", "timed_out", group.timed_out_count),
            ("silent", "silent", group.silent_count),
            ("excluded", "excluded", group.excluded_count),
        ];
        counts.retain(|(word, _, count)| *word != host::code(BY_HAND) || *count > 0);
        counts
    }

    /// All of its hosts.
    pub(crate) fn all(&self) -> u64 {
        self.counts().iter().map(|(_, _, count)| count).sum()
    }

    /// `12 of 14 updated, 2 failed`.
    pub(crate) fn progress(&self) -> String {
        if self.all() == 0 {
            return "no hosts".to_owned();
        }
        let said = |(word, _, count): &(&str, &str, u64)| (*count > 0).then(|| format!("{count} {word}"));
        let counts = self.counts();
        let of = format!("{} of {} updated", self.group.updated_count, text::hosts(self.all()));
        let others = counts.iter().filter(|(word, _, _)| *word != "updated").filter_map(said);
        std::iter::once(of).chain(others).collect::<Vec<_>>().join(", ")
    }

    /// The bar.
    pub(crate) fn parts(&self) -> Vec<BarPart> {
        const WHOLE: u64 = 1000;
        let group = &self.group;
        let all = self.all().max(1);
        let mut before = 0;
        let bad = group.failed_count + group.timed_out_count;
        let counts = [("updated", group.updated_count), ("moving", group.in_flight_count), ("bad", bad)];
        let part = |(class, count)| {
            let from = before * WHOLE / all;
            before += count;
            BarPart { class, from, length: before * WHOLE / all - from }
        };
        counts.into_iter().map(part).filter(|part| part.length > 0).collect()
    }
}

/// What may be done to a group in its state. The server decides: what is missing here is still refused or done there.
fn actions(group: &RolloutGroup) -> Vec<PageAction> {
    let on = |verb, label| PageAction::on_group(verb, label, &group.name);
    let approve = || PageAction { digest: group.approval_digest.clone(), ..on("approve", "Approve") };
    let reason = group.reason();
    let advised = reason.advice.as_ref().and_then(Option::as_ref);
    let is_frozen = advised.is_some_and(|advice| {
        matches!(advice, Lenient::Known(Advice::Command(Command::Start { ignore_blackout: true, .. })))
    });
    let is_bad = matches!(&reason.code, Lenient::Known(why @ Why::Halted { .. }) if !why.is_stopped_by_decision());
    let start = |label| {
        let in_freeze = PageAction { ignore_blackout: true, ..on("start", "Start in spite of the freeze") };
        if is_frozen { in_freeze } else { on("start", label) }
    };
    let mut actions = Vec::new();
    // A start would be refused; an approval may be given ahead of what else keeps the group.
    let is_unapproved = group.is_unapproved();
    match group.state.as_str() {
        "unstarted" if is_unapproved => {
            actions.extend([approve(), on("mark_done", "Mark done"), on("halt", "Halt")]);
        }
        "rolledback" if is_unapproved => actions.extend([approve(), on("halt", "Halt")]),
        "unstarted" => actions.extend([start("Start now"), on("mark_done", "Mark done"), on("halt", "Halt")]),
        "canary" | "active" => {
            actions.extend(is_frozen.then(|| start("")));
            actions.extend([on("mark_done", "Mark done"), on("halt", "Halt"), on("rollback", "Roll back")]);
        }
        // After a bad release another attempt is the last thing to try.
        "halted" if is_bad => {
            actions.extend([on("rollback", "Roll back"), on("mark_done", "Mark done"), on("run", "Run again")]);
        }
        "halted" => actions.extend([on("run", "Run again"), on("mark_done", "Mark done"), on("rollback", "Roll back")]),
        "done" => actions.extend([on("halt", "Halt"), on("rollback", "Roll back")]),
        "rolledback" => actions.extend([start("Start again"), on("halt", "Halt")]),
        _ => {}
    }
    actions
}

impl RolloutPage {
    fn cards(&self) -> Vec<Card> {
        self.rollout.iter().flat_map(|rollout| &rollout.status.groups).map(Card::of).collect()
    }

    fn held(&self) -> Vec<String> {
        let groups = self.rollout.iter().flat_map(|rollout| &rollout.status.groups);
        let names: Vec<&str> = groups.map(|group| group.name.as_str()).collect();
        holds::lines(&self.holds, |name| names.contains(&name))
    }

    fn everybody(&self) -> Option<Waits> {
        let rollout = self.rollout.as_ref().filter(|rollout| rollout.is_immediate())?;
        Some(Waits::of(&rollout.status.why.clone().unwrap_or_default(), ReasonSubject::Group("")))
    }

    fn state(&self) -> String {
        let state = self.rollout.as_ref().and_then(|rollout| rollout.status.state.as_deref());
        state.map(state_word).unwrap_or_default()
    }

    fn began(&self) -> &str {
        self.rollout.as_ref().and_then(|rollout| rollout.status.start_time.as_deref()).unwrap_or_default()
    }

    fn actions(&self) -> Vec<PageAction> {
        let mut actions = Vec::new();
        if self.holds.all {
            actions.push(PageAction::on_all("run", "End the stop of everything"));
        }
        let has_started =
            |group: &RolloutGroup| matches!(group.state.as_str(), "canary" | "active" | "done" | "halted");
        if self.rollout.iter().flat_map(|rollout| &rollout.status.groups).any(has_started) {
            actions.push(PageAction::on_all("rollback", "Roll back all started groups"));
        }
        actions
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(updated: u64, in_flight: u64, failed: u64, pending: u64) -> Card {
        Card::of(&RolloutGroup {
            name: "prod".to_owned(),
            state: "active".to_owned(),
            updated_count: updated,
            in_flight_count: in_flight,
            failed_count: failed,
            pending_count: pending,
            ..RolloutGroup::default()
        })
    }

    #[test]
    fn a_bar_is_as_long_as_its_hosts_and_never_longer_than_all_of_them() {
        let parts =
            |card: &Card| card.parts().iter().map(|part| (part.class, part.from, part.length)).collect::<Vec<_>>();
        assert_eq!(parts(&card(1, 1, 1, 1)), [("updated", 0, 250), ("moving", 250, 250), ("bad", 500, 250)]);
        assert_eq!(parts(&card(0, 0, 0, 7)), []);
        assert_eq!(parts(&card(0, 0, 0, 0)), []);
        for count in 1..40 {
            let parts = card(count, 3, count * 2, 1).parts();
            let end = parts.last().map(|part| part.from + part.length);
            assert!(end.is_some_and(|end| end < 1000), "{parts:?}");
        }
    }

    #[test]
    fn progress_names_what_there_is_and_nothing_else() {
        assert_eq!(card(12, 0, 2, 0).progress(), "12 of 14 hosts updated, 2 failed");
        assert_eq!(card(0, 0, 0, 1).progress(), "0 of 1 host updated, 1 pending");
        assert_eq!(card(0, 0, 0, 0).progress(), "no hosts");
    }

    #[test]
    fn a_group_that_is_stopped_offers_no_second_stop_and_one_that_needs_an_approval_offers_that_first() {
        let verbs = |state: &str, approval: Option<&str>, approved: bool| {
            let (state, approval, approved) = (state.to_owned(), approval.map(str::to_owned), Some(approved));
            let group = RolloutGroup { state, approval, approved, ..RolloutGroup::default() };
            Card::of(&group).actions.iter().map(|action| action.verb).collect::<Vec<_>>()
        };
        assert_eq!(verbs("halted", None, false), ["run", "mark_done", "rollback"]);
        assert_eq!(verbs("moon", None, false), [""; 0]);
        assert_eq!(verbs("unstarted", None, false), ["start", "mark_done", "halt"]);
        assert_eq!(verbs("unstarted", Some("admin"), false), ["approve", "mark_done", "halt"]);
        assert_eq!(verbs("unstarted", Some("admin"), true), ["start", "mark_done", "halt"]);
        assert_eq!(verbs("rolledback", Some("admin"), false), ["approve", "halt"]);
        assert_eq!(verbs("active", Some("admin"), false), ["mark_done", "halt", "rollback"]);
    }

    #[test]
    fn a_frozen_group_is_started_in_spite_of_that_and_after_a_bad_release_another_attempt_comes_last() {
        let actions = |state: &str, why: serde_json::Value| {
            let why = Some(Reason::read(&why));
            Card::of(&RolloutGroup { state: state.to_owned(), why, ..RolloutGroup::default() }).actions
        };
        let start = |ignore_blackout| {
            let start = Command::Start { groups: vec!["prod".to_owned()], force: false, ignore_blackout };
            serde_json::json!({ "code": "outside_window", "advice": Advice::Command(start) })
        };
        let first = |state: &str, ignore| actions(state, start(ignore))[0].ignore_blackout;
        assert!(["unstarted", "active", "rolledback"].iter().all(|state| first(state, true) && !first(state, false)));
        let halt = |rule| serde_json::json!({ "code": "halted", "rule": rule, "count": 1, "of": 2, "error": null });
        assert_eq!(actions("halted", halt("failed_threshold")).last().unwrap().verb, "run");
        assert_eq!(actions("halted", halt("manual_halt"))[0].verb, "run");
    }
}
