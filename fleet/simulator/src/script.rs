//! `simulate --script`: JSON Lines in, one JSON line out for each line that asks or fails (FLEET §6).

use fleet_engine::answer::Question;
use fleet_engine::command::Command;
use fleet_engine::fleet::{Fleet, HostChange, HostReport, ReportedCounts};
use fleet_engine::host::Host;
use fleet_engine::inventory::Inventory;
use fleet_engine::promotion;
use fleet_engine::refusal::Refusal;
use fleet_engine::resource::{self, DirectivePlan, Kind, Resource};
use fleet_engine::resource_set::ResourceSet;
use fleet_engine::rollout_state::RolloutState;
use fleet_engine::tally::TallyContext;
use fleet_wire::answers::graph::{self, Catalogue};
use fleet_wire::answers::{find, ids};
use fleet_wire::api::{Decision, ToldHost};
use fleet_wire::rollout::AgentRollout;
use fleet_wire::text;
use fleet_wire::words::fleet::summary;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::forecast::HostShare;
use crate::line::{self, Find, LineAction};
use crate::script_hosts::{HostKind, ScriptHosts};

/// Between two steps of the engine.
const MINUTE: i64 = 60;
/// How long a made-up host takes from being told to its outcome, where the script does not say.
const UPDATE_IN: &str = "90s";
/// How often a made-up host asks, where the script does not say: the updater's timer.
const EVERY: &str = "10m";
/// Most made-up hosts of one script.
const MOST_HOSTS: usize = 2_000_000;

/// Longest time between two lines: the engine steps at each of its minutes, and a mistyped year would take hours.
const LONGEST: SignedDuration = SignedDuration::from_hours(366 * 24);

/// Runs the script `text`, and gives each line of the answer to `out` as it comes. The same text and seed give the same bytes.
///
/// # Errors
/// What `out` returns; then the run ends.
pub fn run<E>(text: &str, seed: u64, mut out: impl FnMut(&str) -> Result<(), E>) -> Result<(), E> {
    let mut played = Played::new(seed);
    for line in text.lines() {
        if let Some(said) = played.line(line) {
            out(&said)?;
        }
    }
    Ok(())
}

/// A script that has been played so far.
#[derive(Clone)]
pub struct Played {
    shelf: ResourceSet,
    book: RolloutState,
    fleet: Fleet,
    hosts: ScriptHosts,
    /// The time of the line before.
    now: Option<Timestamp>,
    made_up: usize,
    lines: usize,
}

impl Played {
    /// None of its lines; `seed` is what groups choose their hosts by.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self {
            shelf: ResourceSet::default(),
            book: RolloutState { seed, ..RolloutState::default() },
            fleet: Fleet::default(),
            hosts: ScriptHosts::new(seed),
            now: None,
            made_up: 0,
            lines: 0,
        }
    }

    /// Plays the next line, and gives what it is answered: a line of JSON.
    pub fn line(&mut self, line: &str) -> Option<String> {
        self.lines += 1;
        if line.trim().is_empty() {
            return None;
        }
        // JSON escapes the control characters of ASCII; a terminal obeys others as well, and a script's texts may have them.
        self.answer(line, self.lines).map(|said| text::clean(&said.to_string()).into_owned())
    }

    /// What a line is answered.
    fn answer(&mut self, text: &str, number: usize) -> Option<Value> {
        let bad = |what: String, at: Option<Timestamp>| {
            Some(refused(&Refusal::new("bad_line", format!("line {number}: {what}")), at))
        };
        let (at, action) = match line::parse(text) {
            Ok(parsed) => parsed,
            Err((at, what)) => return bad(what, at.or(self.now)),
        };
        if self.now.is_some_and(|now| at < now) {
            return bad(format!("{at} is before the line above it"), self.now);
        }
        if self.now.is_some_and(|now| at.duration_since(now) > LONGEST) {
            return bad(format!("{at} is more than a year after the line above it"), self.now);
        }
        self.advance(at);
        let answer = self.act(action, at, number);
        answer.unwrap_or_else(|refusal| {
            self.step(at);
            Some(refused(&refusal, Some(at)))
        })
    }

    /// Lets the clock run to `to`: made-up hosts act, and the engine steps at each full minute before it. The step at `to` is the
    /// line's own.
    fn advance(&mut self, to: Timestamp) {
        let from = self.now.replace(to).unwrap_or(to);
        let mut minute = from.as_second().div_euclid(MINUTE) * MINUTE + MINUTE;
        loop {
            let next = Timestamp::from_second(minute).ok().filter(|next| *next < to);
            while let Some(due) = self.hosts.next().filter(|due| *due <= next.unwrap_or(to)) {
                self.hosts.act(&self.book, &mut self.fleet);
                debug_assert!(due <= to);
            }
            let Some(next) = next else { return };
            self.step(next);
            minute += MINUTE;
        }
    }

    /// The engine steps. A script's server hears all the time: a host that has no line is silent by itself.
    fn step(&mut self, now: Timestamp) {
        self.book.listens(now);
        self.book.step(&mut self.fleet, now);
    }

    /// The line acts, the engine steps, the question is answered.
    fn act(&mut self, action: LineAction, now: Timestamp, number: usize) -> Result<Option<Value>, Refusal> {
        match action {
            LineAction::Put(resource) => self.put(&resource, now, number)?,
            LineAction::Rm(kind) => self.shelf.remove(&kind, &mut self.book)?,
            LineAction::Draft { name, author, directive } => {
                let spec = json!({ "author": author, "time": now, "directive": directive });
                let draft = json!({ "kind": Kind::Draft.as_str(), "metadata": { "name": name }, "spec": spec });
                self.put(&draft, now, number)?;
            }
            LineAction::Plan { id, author, draft } => return self.plan(&id, &author, &draft, now).map(Some),
            LineAction::Review { id, who, approve, reason } => {
                let (mut plan, resource) = self.found(&id)?;
                plan.review(&who, approve, &reason, now)?;
                self.keep(&id, &plan, &resource)?;
            }
            LineAction::Apply { id } => self.apply(&id, now)?,
            LineAction::Report(report) => self.report(&report, now)?,
            LineAction::Counts(counts) => self.count(&counts, now, number)?,
            LineAction::Hosts(hosts) => self.make_up(&hosts, now)?,
            LineAction::Start { groups, force, ignore_blackout } => {
                self.command(&Command::Start { groups, force, ignore_blackout }, now)?;
            }
            LineAction::MarkDone { groups } => self.command(&Command::MarkDone { groups }, now)?,
            LineAction::Rollback { groups, all_started, at_once } => {
                // As `tctl autoupdate agents rollback` without a group.
                let all_started = all_started || groups.is_empty();
                self.command(&Command::Rollback { groups, all_started, at_once }, now)?;
            }
            LineAction::Halt { groups, all } => self.command(&Command::Halt { groups, all }, now)?,
            LineAction::Run { groups, all } => self.command(&Command::Run { groups, all }, now)?,
            LineAction::Approve { group } => {
                self.command(&Command::Approve { groups: vec![group], digest: None }, now)?;
            }
            LineAction::Gate { group, answer } => self.command(&Command::Gate { group, answer }, now)?,
            LineAction::Hold { host } => self.decide(&host, &Decision::Hold, now, number)?,
            LineAction::Release { host } => self.decide(&host, &Decision::Release, now, number)?,
            LineAction::Assign { host, group } => self.decide(&host, &Decision::Assign(group), now, number)?,
            LineAction::Find(find) => return self.find(find, now).map(Some),
            LineAction::Status {} => {
                self.step(now);
                let mut rollout =
                    AgentRollout::present(&self.book, &self.shelf, &self.fleet, now).ok_or_else(no_rollout)?;
                rollout.status.summary = Some(summary(Some(&rollout), &rollout.status.stops, now).text);
                return Ok(Some(json!({ "at": text::second(now), "status": rollout })));
            }
            LineAction::Explain { host } => return self.explain(&host, now).map(Some),
            LineAction::Inventory {} => return Ok(Some(self.inventory(now))),
            LineAction::Graph(question) => return self.graph(&question, now).map(Some),
        }
        self.step(now);
        Ok(None)
    }

    fn command(&mut self, command: &Command, now: Timestamp) -> Result<(), Refusal> {
        self.book.count(&self.fleet, now);
        self.book.command(command, &self.fleet, now)
    }

    fn put(&mut self, json: &Value, now: Timestamp, number: usize) -> Result<(), Refusal> {
        self.shelf.put_all_for(vec![resource::read_json(json, number)?], &mut self.book, Some(&self.fleet))?;
        // Another server's counts are good for a minute from now on.
        if json.get("kind").and_then(Value::as_str) == Some(resource::Kind::Report.as_str()) {
            self.fleet.set_counts(self.shelf.counted(None), now);
        }
        Ok(())
    }

    /// Freezes a draft; gives what the plan would do.
    fn plan(&mut self, id: &str, author: &str, draft: &str, now: Timestamp) -> Result<Value, Refusal> {
        promotion::is_enabled(&self.shelf)?;
        let missing = || Refusal::new("not_found", format!("there is no draft {draft:?}"));
        let resource = self.shelf.get(Kind::Draft, draft).cloned().ok_or_else(missing)?;
        let directive = resource.directive().ok_or_else(missing)?;
        let promotion = self.shelf.version_control().promotion;
        let plan = DirectivePlan::freeze(author, draft, directive, (self.book.nonce, &promotion), now);
        self.keep(id, &plan, &resource)?;
        let (mut shelf, mut book) = (self.shelf.clone(), self.book.clone());
        shelf.put_all(vec![directive_of(&resource)?], &mut book)?;
        Ok(json!({ "at": text::second(now), "plan": book.planned(&self.fleet, now) }))
    }

    fn apply(&mut self, id: &str, now: Timestamp) -> Result<(), Refusal> {
        let (plan, resource) = self.found(id)?;
        if let Some(refusal) = plan.against(&self.shelf, self.book.nonce, None, now).into_iter().next() {
            return Err(refusal);
        }
        let directive = directive_of(&resource)?;
        self.shelf.put_all_for(vec![directive], &mut self.book, Some(&self.fleet))?;
        self.keep(id, &DirectivePlan { applied: true, ..plan }, &resource)
    }

    fn found(&self, id: &str) -> Result<(DirectivePlan, Resource), Refusal> {
        let found = self.shelf.get(Kind::Plan, id).and_then(|plan| Some((plan.model().cloned()?, plan.clone())));
        found.ok_or_else(|| Refusal::new("not_found", format!("there is no plan {id:?}")))
    }

    fn keep(&mut self, id: &str, plan: &DirectivePlan, source: &Resource) -> Result<(), Refusal> {
        self.shelf.put_back(vec![plan.resource(id, source)?]);
        Ok(())
    }

    fn report(&mut self, report: &line::ReportLine, now: Timestamp) -> Result<(), Refusal> {
        if report.host.is_empty() {
            return Err(Refusal::new("bad_request", "a report names its host".to_owned()));
        }
        let version = report.version.as_deref().map(plain_version).transpose()?;
        let change = |last: &line::LastLine| -> Result<HostChange, Refusal> {
            Ok(HostChange { outcome: last.outcome, to: plain_version(&last.to)?, code: last.code.clone() })
        };
        let last = report.last.as_ref().map(change).transpose()?;
        let taken = HostReport {
            host: ids::parse(&report.host),
            update_id: report.update_id.as_deref().map_or(0, ids::parse),
            group: report.group.clone(),
            version,
            labels: report.build.labels(report.labels.clone()),
            hostname: report.hostname.clone(),
            pinned: report.pinned,
            disabled: report.disabled,
            is_by_hand: report.last.as_ref().is_some_and(|last| last.by_hand),
            last,
            ..HostReport::default()
        };
        self.fleet.report(&taken, self.book.rollout.as_ref(), now);
        Ok(())
    }

    fn count(&mut self, counts: &[line::CountLine], now: Timestamp, number: usize) -> Result<(), Refusal> {
        let mut by_group = ReportedCounts::new();
        for (index, count) in counts.iter().enumerate() {
            let wrong = |key: &str, what: String| {
                Refusal::new("bad_request", format!("line {number}: counts[{index}].{key}: {what}"))
            };
            if count.group.is_empty() {
                return Err(wrong("group", "is empty".to_owned()));
            }
            let version = plain_version(&count.version).map_err(|refused| wrong("version", refused.message))?;
            *by_group.entry(count.group.clone()).or_default().entry(version).or_default() += u64::from(count.count);
        }
        self.fleet.set_counts(by_group, now);
        Ok(())
    }

    fn make_up(&mut self, hosts: &line::HostsLine, now: Timestamp) -> Result<(), Refusal> {
        let wrong = |what: &str| Refusal::new("bad_request", format!("hosts: {what}"));
        self.made_up += usize::try_from(hosts.count).unwrap_or(usize::MAX);
        if self.made_up > MOST_HOSTS {
            return Err(wrong("more than 2,000,000 made-up hosts"));
        }
        let length = |value: &Value, default: &str| duration(value, default).filter(|length| length.as_secs() > 0);
        let kind = HostKind {
            count: hosts.count,
            group: hosts.group.clone(),
            version: plain_version(&hosts.version)?,
            labels: hosts.build.labels(Some(hosts.labels.clone())).unwrap_or_default(),
            breaks: share(&hosts.breaks).ok_or_else(|| wrong("breaks is not a share such as \"2%\""))?,
            update_in: duration(&hosts.update_in, UPDATE_IN)
                .ok_or_else(|| wrong("update_in is not a duration such as \"90s\""))?,
            every: length(&hosts.every, EVERY).ok_or_else(|| wrong("every is not a duration such as \"10m\""))?,
        };
        self.hosts.add(kind, &self.book, &mut self.fleet, now);
        while self.hosts.next().is_some_and(|due| due <= now) {
            self.hosts.act(&self.book, &mut self.fleet);
        }
        Ok(())
    }

    fn decide(&mut self, host: &str, decision: &Decision, now: Timestamp, number: usize) -> Result<(), Refusal> {
        self.known_group(decision, number)?;
        let id = ids::parse(host);
        let rollout = self.book.rollout.as_ref();
        if matches!(decision, Decision::Hold | Decision::Assign(Some(_))) && !self.fleet.expect(id, rollout) {
            let message = "too many hosts were decided on that never came: release some".to_owned();
            return Err(Refusal::new("conflict", message));
        }
        let is_known = match decision {
            Decision::Hold => self.fleet.decide(id, rollout, now, |flags| flags.held = true),
            Decision::Release => self.fleet.decide(id, rollout, now, |flags| flags.held = false),
            Decision::Assign(group) => self.fleet.assign(id, group.as_deref(), rollout, now),
            // No script has keys.
            Decision::Accept(_) | Decision::Forget => false,
        };
        // Nothing is left of one that never came.
        if self.fleet.host(id).is_some_and(Host::is_nobody) {
            self.fleet.forget(|host| host.id == id);
        }
        is_known.then_some(()).ok_or_else(|| Refusal::new("not_found", format!("no host {host:?} was seen")))
    }

    /// Refuses to put a host into a group that there is not.
    fn known_group(&self, decision: &Decision, number: usize) -> Result<(), Refusal> {
        let Decision::Assign(Some(group)) = decision else { return Ok(()) };
        let known = self.book.group_names();
        if known.contains(&group.as_str()) {
            return Ok(());
        }
        let message = format!("line {number}: there is no group {group:?}; known are {}", known.join(", "));
        Err(Refusal::new("not_found", message))
    }

    fn find(&mut self, find: Find, now: Timestamp) -> Result<Value, Refusal> {
        let id = |text: Option<String>| text.filter(|text| !text.is_empty()).map(|text| ids::parse(&text));
        let update_id = id(find.update_id).unwrap_or(0);
        let question = Question { host: id(find.host), group: find.group, update_id };
        // Who asks is known before the step, so that its turn can come with it.
        self.book.meet(&mut self.fleet, &question, now);
        self.step(now);
        let answer = self.book.ask(&mut self.fleet, &question, now).ok_or_else(no_rollout)?;
        let (cluster, digests) = (find::Cluster::default(), find::ReleaseDigests::default());
        Ok(json!({ "at": text::second(now), "find": find::Flat::of(&answer, &cluster, digests) }))
    }

    fn graph(&mut self, question: &Value, now: Timestamp) -> Result<Value, Refusal> {
        self.step(now);
        let refused = |fault: graph::GraphFault| Refusal { code: fault.kind(), message: fault.to_string() };
        let graph = graph::script(&Catalogue::of(&self.shelf), question, now).map_err(refused)?;
        Ok(json!({ "at": text::second(now), "graph": graph }))
    }

    fn inventory(&mut self, now: Timestamp) -> Value {
        self.step(now);
        let inventory = Inventory::new(&self.book, &self.shelf, &self.fleet, now);
        let instance = |host: &Host| {
            let version = self.fleet.names.text(host.version);
            json!({ "host": ids::text(host.id), "version": version, "instance": inventory.instance(host) })
        };
        let hosts: Vec<Value> = self.fleet.hosts().iter().map(instance).collect();
        json!({ "at": text::second(now), "inventory": { "hosts": hosts, "alerts": inventory.alerts(&self.shelf) } })
    }

    fn explain(&mut self, host: &str, now: Timestamp) -> Result<Value, Refusal> {
        self.step(now);
        let id = ids::parse(host);
        let question = Question { host: Some(id), ..Question::default() };
        let answer = self.book.answer(&self.fleet, &question, now).ok_or_else(no_rollout)?;
        let known = self.fleet.host(id);
        let state = known.zip(self.book.rollout.as_ref()).and_then(|(host, rollout)| {
            Some(TallyContext::new(rollout, rollout.group(host.place)?, &self.fleet, now).shown_state(host))
        });
        let state = known.map_or("unknown", |_| state.unwrap_or("unassigned"));
        let advice = self.book.host_advice(&self.shelf, &self.fleet, known, &answer, now);
        let explained = ToldHost::of(host, state, &answer, answer.since(known), advice.as_ref());
        Ok(json!({ "at": text::second(now), "explain": explained }))
    }
}

/// The answer to a line that was refused.
fn refused(refusal: &Refusal, at: Option<Timestamp>) -> Value {
    json!({ "at": at.map(text::second), "error": { "code": refusal.code, "message": refusal.message } })
}

/// What a draft or a plan would be.
fn directive_of(source: &Resource) -> Result<Resource, Refusal> {
    let name = Kind::Directive.only_name().unwrap_or_default();
    Ok(promotion::made(Kind::Directive, name, &Value::Null, source)?)
}

fn no_rollout() -> Refusal {
    Refusal::new("no_rollout", "there is no rollout, and none was done before".to_owned())
}

/// A version without the `v` that it may be written with.
fn plain_version(text: &str) -> Result<String, Refusal> {
    let parsed: Result<protocol::Version, _> = text.parse();
    parsed.map(|version| version.to_string()).map_err(|error| Refusal::new("bad_request", error.to_string()))
}

/// `"2%"`, `"0.5%"` or a number of percent; absent: none.
fn share(value: &Value) -> Option<HostShare> {
    HostShare::parse(&text_or_number(value, "0")?).ok()
}

fn duration(value: &Value, default: &str) -> Option<SignedDuration> {
    SignedDuration::try_from(yaml::scalar::duration(&text_or_number(value, default)?)?).ok()
}

fn text_or_number(value: &Value, default: &str) -> Option<String> {
    match value {
        Value::Null => Some(default.to_owned()),
        Value::Number(number) => Some(number.to_string()),
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}
