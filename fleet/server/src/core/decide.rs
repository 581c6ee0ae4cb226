//! Commands and decisions on hosts; and what all decisions have in common: once, on record, all or nothing.

use fleet_engine::command::{Command, CommandRefusal, RefusalCode};
use fleet_engine::host::HostId;
use fleet_engine::rollout::State;
use fleet_engine::tally::HostState;
use fleet_store::NewAuditRecord;
use fleet_wire::api::{Act, Acted, ApiError, Code, Decided, Decision, Explained, Role};
use fleet_wire::rollout::AgentRollout;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::stop::Stop;
use super::tx::Tx;
use super::{Actor, CoreState, changes, effects};
use crate::tokens;

/// Longest name of a group, bytes.
const LONGEST_NAME: usize = 255;
/// Longest subject of a refusal, characters: four names of resources.
const LONGEST_SUBJECT: usize = 1024;

/// What a stop that the store does not take leaves (FLEET §3).
const UNDECIDED: &str =
    "the stop is not decided yet: the server tries until it is, and tells nobody new to update meanwhile";

/// A request that changes something.
pub(super) struct ChangeRequest {
    id: String,
    /// Of what it asks for.
    digest: String,
}

impl CoreState {
    /// Carries a command out.
    ///
    /// # Errors
    /// Why not; that is on record as well.
    pub(crate) fn act(&mut self, actor: &Actor, act: &Act) -> Result<Acted, ApiError> {
        let (action, subject) = named(&act.command);
        let is_halt = matches!(act.command, Command::Halt { .. }) && !act.dry_run;
        let acted = self.once(&act.id, &(&act.command, act.dry_run), |keeper, request| {
            let now = keeper.now();
            if let Err(wrong) = are_names(&act.command).and_then(|()| keeper.may_act(actor, &act.command)) {
                return Err(keeper.refuse(actor, action, &subject, wrong, act.dry_run));
            }
            let before = effects::told(&keeper.book, &keeper.fleet, now);
            let mut tx = Tx::new(keeper.book.clone());
            tx.book.step(&mut keeper.fleet, now);
            let states = states(&tx);
            if let Err(refusal) = tx.book.command(&act.command, &keeper.fleet, now) {
                keeper.take_back();
                return Err(keeper.refuse(actor, action, &subject, wrong(refusal), act.dry_run));
            }
            tx.book.step(&mut keeper.fleet, now);
            let acted = Acted {
                groups: touched(&states, &tx, &act.command),
                started: started(&states, &tx, &act.command),
                rollout: AgentRollout::present(&tx.book, &keeper.shelf, &keeper.fleet, now),
                holds: tx.book.holds.clone(),
                effects: effects::of(&before, &tx.book, &keeper.fleet, now),
            };
            if act.dry_run {
                keeper.take_back();
                return Ok(acted);
            }
            keeper.record(&mut tx, actor, action, &subject, json!({}));
            keeper.finish(tx, request, acted)
        });
        acted.map_err(|wrong| if is_halt { self.stop_later(wrong, actor, Stop::Halt(act.clone())) } else { wrong })
    }

    /// A stop that the store did not take is tried until it is decided.
    fn stop_later(&mut self, wrong: ApiError, actor: &Actor, stop: Stop) -> ApiError {
        if wrong.code != Code::StoreUnavailable {
            return wrong;
        }
        tracing::error!(?stop, "a stop is not decided: nobody new is let go until it is");
        self.snapshot.doubt();
        if !self.undecided.iter().any(|(_, known)| known.is(&stop)) {
            self.undecided.push_back((actor.clone(), stop));
        }
        let noted = if self.is_stop_noted { Ok(()) } else { self.note_stop() };
        let forgets = noted.err().map(|error| format!("; a restart would forget it: {error}")).unwrap_or_default();
        ApiError::new(wrong.code, format!("{}; {UNDECIDED}{forgets}", wrong.message))
    }

    /// Tries the stops that the store did not take, before anything else.
    pub(super) fn decide_stops(&mut self) {
        let mut stops = std::mem::take(&mut self.undecided);
        while let Some((actor, stop)) = stops.pop_front() {
            let done = match &stop {
                Stop::Halt(act) => self.act(&actor, act).map(drop),
                Stop::Hold(host, decided) => self.decide(&actor, *host, decided).map(drop),
            };
            if done.is_err_and(|wrong| wrong.code == Code::StoreUnavailable) {
                break;
            }
        }
        self.undecided.extend(stops);
        if !self.undecided.is_empty() {
            self.snapshot.doubt();
        }
    }

    /// An approval is of the role that the group names, and not of whoever wrote the version. Of a group that there is not, or that
    /// needs none, the engine says so.
    fn may_act(&self, actor: &Actor, command: &Command) -> Result<(), ApiError> {
        let Command::Approve { groups, .. } = command else { return Ok(()) };
        let needs_one = |name: &String| {
            let group = self.book.rollout.as_ref().and_then(|rollout| rollout.groups.get(rollout.find(name)?));
            group.is_some_and(|group| group.policy.gate.approval.is_some())
        };
        if !groups.iter().all(needs_one) {
            return Ok(());
        }
        if self.book.author.as_deref() == Some(actor.who.as_str()) {
            let message = format!("{} wrote the version of this rollout: somebody else has to approve it", actor.who);
            return Err(ApiError::new(Code::Forbidden, message));
        }
        for group in self.book.rollout.iter().flat_map(|rollout| &rollout.groups) {
            let needed = group.policy.gate.approval.as_deref().filter(|_| groups.contains(&group.policy.name));
            if let Some(needed) = needed.filter(|needed| Role::named(needed).is_none_or(|needed| actor.role < needed)) {
                let message =
                    format!("group {} is approved by the role {needed}; this is {}", group.policy.name, actor.role);
                return Err(ApiError::new(Code::Forbidden, message));
            }
        }
        Ok(())
    }

    /// Carries out what an operator decided of a host.
    ///
    /// # Errors
    /// Why not; that is on record as well.
    pub(crate) fn decide(&mut self, actor: &Actor, host: HostId, decided: &Decided) -> Result<Explained, ApiError> {
        let action = match decided.decision {
            Decision::Hold => "hold",
            Decision::Release => "release",
            Decision::Assign(_) => "assign",
            Decision::Accept(_) => "accept",
            Decision::Forget => "forget",
        };
        let subject = format!("host {}", fleet_wire::answers::ids::text(host));
        let done = self.once(&decided.id, &(host, &decided.decision), |keeper, request| {
            let now = keeper.now();
            let may = match &decided.decision {
                Decision::Assign(Some(group)) => keeper.is_group(group),
                Decision::Accept(key) => keeper.accept(actor, host, key.as_deref()),
                Decision::Forget => keeper.may_forget(actor, host, now),
                Decision::Assign(None) | Decision::Hold | Decision::Release => Ok(()),
            };
            if let Err(wrong) = may {
                return Err(keeper.refuse(actor, action, &subject, wrong, false));
            }
            let rollout = keeper.book.rollout.clone();
            let may_be_new = matches!(decided.decision, Decision::Hold | Decision::Assign(Some(_)));
            if may_be_new && !keeper.fleet.expect(host, rollout.as_ref()) {
                let message = "too many hosts were decided on that never came: release some of them first";
                let wrong = ApiError::new(Code::Conflict, message);
                return Err(keeper.refuse(actor, action, &subject, wrong, false));
            }
            let detail = keeper.detail(host, &decided.decision);
            let known = match &decided.decision {
                Decision::Hold => keeper.fleet.decide(host, rollout.as_ref(), now, |flags| flags.held = true),
                Decision::Release => keeper.fleet.decide(host, rollout.as_ref(), now, |flags| flags.held = false),
                Decision::Assign(group) => keeper.fleet.assign(host, group.as_deref(), rollout.as_ref(), now),
                Decision::Accept(_) => true,
                Decision::Forget => keeper.strike_off(|known| known.id == host),
            };
            if !known {
                let wrong = ApiError::new(Code::NotFound, format!("no {subject} was heard of"));
                return Err(keeper.refuse(actor, action, &subject, wrong, false));
            }
            keeper.forget_nobody(host);
            let mut tx = Tx::new(keeper.book.clone());
            tx.book.step(&mut keeper.fleet, now);
            keeper.record(&mut tx, actor, action, &subject, detail);
            keeper.finish(tx, request, ())
        });
        if let (Err(wrong), Decision::Hold) = (&done, &decided.decision) {
            return Err(self.stop_later(wrong.clone(), actor, Stop::Hold(host, decided.clone())));
        }
        done?;
        match self.explain(host) {
            Err(wrong) if wrong.code == Code::NoRollout => Ok(self.untold(host)),
            explained => explained,
        }
    }

    /// A stop is never forgotten, and whoever was let go takes his slot until he comes to an end (FLEET §3): such hosts stay.
    fn may_forget(&self, actor: &Actor, host: HostId, now: jiff::Timestamp) -> Result<(), ApiError> {
        actor.decides_on_keys()?;
        let Some(known) = self.fleet.host(host) else { return Ok(()) };
        let refused = |message: String| Err(ApiError::new(Code::Conflict, message));
        if known.flags.held {
            let id = fleet_wire::answers::ids::text(host);
            return refused(format!("it is held: release it first: teleport-fleet host {id} release"));
        }
        if self.state(known, now) == HostState::Told.name() {
            return refused(
                "it was told to update and has come to no end: it takes a slot until it has, or has timed out"
                    .to_owned(),
            );
        }
        if self.fleet.has_failed(host, self.book.rollout.as_ref(), now) {
            return refused(
                "it failed in this attempt of its group, and counts in it: it can be forgotten after another attempt or target"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// What the record of a decision has beside its subject: of who is forgotten, what is lost with him.
    fn detail(&self, host: HostId, decision: &Decision) -> Value {
        match (decision, self.fleet.host(host)) {
            (Decision::Assign(group), _) => json!({ "group": group }),
            (Decision::Forget, Some(known)) => {
                let (assigned, version) = (self.fleet.names.text(known.assigned), self.fleet.names.text(known.version));
                let key = self.members.key(host).map(|key| key.to_string());
                json!({ "assigned": assigned, "version": version, "key": key })
            }
            _ => json!({}),
        }
    }

    /// Whether a group is called so, in the rollout or in the policy for the next one.
    pub(super) fn is_group(&self, name: &str) -> Result<(), ApiError> {
        let mut names: Vec<&str> = self.group_names().collect();
        if names.contains(&name) {
            return Ok(());
        }
        names.sort_unstable();
        let names =
            if names.is_empty() { "there is none yet".to_owned() } else { format!("there are {}", names.join(", ")) };
        Err(ApiError::new(Code::NotFound, format!("there is no group {name:?}: {names}")))
    }

    /// What a request with this id was answered, or what `act` answers now. A request that is sent again acts once; another one with
    /// the same id is refused.
    pub(super) fn once<T: DeserializeOwned>(
        &mut self,
        id: &str,
        request: &impl std::fmt::Debug,
        act: impl FnOnce(&mut Self, &ChangeRequest) -> Result<T, ApiError>,
    ) -> Result<T, ApiError> {
        let Ok(id) = uuid::Uuid::parse_str(id) else {
            return Err(ApiError::new(
                Code::BadRequest,
                "id is not a UUID: each request that changes something has its own",
            ));
        };
        self.decide_stops();
        let request = ChangeRequest { id: id.to_string(), digest: tokens::digest(&format!("{request:?}")) };
        let unread = |error: String| ApiError::new(Code::StoreUnavailable, error);
        let before = self.store()?.outcome(&request.id).map_err(|error| unread(error.to_string()))?;
        let Some(before) = before else { return act(self, &request) };
        let other = || {
            let message = format!("id {id} was another request's: give each request its own");
            ApiError::new(Code::Conflict, message)
        };
        let (digest, answer) = before.split_once(' ').ok_or_else(other)?;
        if digest != request.digest {
            return Err(other());
        }
        serde_json::from_str(answer).map_err(|_| other())
    }

    /// Puts on record what `actor` did, with its `detail`, and after it what came of that.
    pub(super) fn record(&self, tx: &mut Tx, actor: &Actor, action: &str, subject: &str, detail: Value) {
        let now = self.now();
        tx.records = vec![entry(actor, action, subject, true, detail, now)];
        tx.records.extend(changes::of(&self.book, &tx.book, now));
    }

    /// Makes a change, keeps what the request with this id is answered, and gives that.
    pub(super) fn finish<T: Serialize>(
        &mut self,
        mut tx: Tx,
        request: &ChangeRequest,
        answer: T,
    ) -> Result<T, ApiError> {
        let kept = serde_json::to_string(&answer).map_err(|error| ApiError::new(Code::Internal, error.to_string()))?;
        tx.request = Some((request.id.clone(), format!("{} {kept}", request.digest)));
        self.commit(tx).map(|()| answer)
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
        let detail = refused.map_or(json!({}), |wrong| json!({ "code": wrong.code, "message": shown(&wrong.message) }));
        let record = entry(actor, action, &shown(subject), refused.is_none(), detail, self.now());
        if !self.repeats.takes(&record) {
            return Ok(());
        }
        let mut tx = Tx::new(self.book.clone());
        tx.records.push(record);
        self.commit(tx)
    }

    /// Puts a refusal on record, and gives it back.
    pub(crate) fn refuse(
        &mut self,
        actor: &Actor,
        action: &str,
        subject: &str,
        wrong: ApiError,
        is_dry: bool,
    ) -> ApiError {
        if !is_dry {
            let subject = shown(subject);
            let detail = json!({ "code": wrong.code, "message": shown(&wrong.message) });
            let mut tx = Tx::new(self.book.clone());
            tx.records.push(entry(actor, action, &subject, false, detail, self.now()));
            if let Err(error) = self.commit(tx) {
                return error;
            }
        }
        wrong
    }

    /// After a `Tx` that is not made: hosts are placed by the present rollout again.
    pub(super) fn take_back(&mut self) {
        let now = self.now();
        self.book.arrange(&mut self.fleet, now);
    }
}

fn entry(actor: &Actor, action: &str, subject: &str, done: bool, detail: Value, at: jiff::Timestamp) -> NewAuditRecord {
    let Actor { who, from, .. } = actor.clone();
    NewAuditRecord { who, from, done, ..changes::record(at, action, subject.to_owned(), detail) }
}

/// A subject that a request names: text of a caller, of which a record keeps a line.
fn shown(subject: &str) -> String {
    let mut shown: String = subject.chars().take(LONGEST_SUBJECT).collect();
    if shown.len() < subject.len() {
        shown.push('…');
    }
    shown
}

/// A name that no group can have is refused before it is said again and again.
fn are_names(command: &Command) -> Result<(), ApiError> {
    match groups_of(command).iter().find(|name| name.len() > LONGEST_NAME) {
        None => Ok(()),
        Some(name) => {
            let message = format!("a text of {} bytes is no group's name: the longest has {LONGEST_NAME}", name.len());
            Err(ApiError::new(Code::BadRequest, message))
        }
    }
}

/// What a command is called, and what it is about.
fn named(command: &Command) -> (&'static str, String) {
    let groups = |groups: &[String]| match groups {
        [] => "all groups".to_owned(),
        names => format!("group {}", names.join(", ")),
    };
    match command {
        Command::Start { groups: names, .. } => ("start", groups(names)),
        Command::MarkDone { groups: names } => ("mark_done", groups(names)),
        Command::Rollback { groups: names, .. } => ("rollback", groups(names)),
        Command::Halt { groups: names, .. } => ("halt", groups(names)),
        Command::Run { groups: names, .. } => ("run", groups(names)),
        Command::Approve { groups: names, .. } => ("approve", groups(names)),
        Command::Gate { group, .. } => ("gate", format!("group {group}")),
    }
}

/// Each group with its state.
fn states(tx: &Tx) -> Vec<(String, State)> {
    let groups = tx.book.rollout.iter().flat_map(|rollout| &rollout.groups);
    groups.map(|group| (group.policy.name.clone(), group.state)).collect()
}

/// The groups that a command names; where it names none, those whose state it changed.
fn touched(before: &[(String, State)], tx: &Tx, command: &Command) -> Vec<String> {
    let named = groups_of(command);
    if !named.is_empty() {
        return named.to_vec();
    }
    let after = states(tx);
    after.into_iter().filter(|group| !before.contains(group)).map(|(name, _)| name).collect()
}

/// The groups that a command names.
fn groups_of(command: &Command) -> &[String] {
    match command {
        Command::Start { groups, .. }
        | Command::MarkDone { groups }
        | Command::Rollback { groups, .. }
        | Command::Halt { groups, .. }
        | Command::Run { groups, .. }
        | Command::Approve { groups, .. } => groups,
        Command::Gate { group, .. } => std::slice::from_ref(group),
    }
}

/// Groups that had not begun, and that `run` started.
fn started(before: &[(String, State)], tx: &Tx, command: &Command) -> Vec<String> {
    let Command::Run { .. } = command else { return Vec::new() };
    let had_not_begun = |name: &String| before.iter().any(|(known, state)| known == name && *state == State::Unstarted);
    let begun = states(tx).into_iter().filter(|(_, state)| state.has_started()).map(|(name, _)| name);
    begun.filter(had_not_begun).filter(|name| groups_of(command).contains(name)).collect()
}

fn wrong(refusal: CommandRefusal) -> ApiError {
    let code = match refusal.code {
        RefusalCode::NoRollout => Code::NoRollout,
        RefusalCode::BadRequest => Code::BadRequest,
        RefusalCode::NotFound => Code::NotFound,
        RefusalCode::AlreadyExists => Code::AlreadyExists,
        RefusalCode::Conflict => Code::Conflict,
    };
    ApiError::new(code, refusal.message)
}
