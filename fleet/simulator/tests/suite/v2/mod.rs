//! Managed Updates v2 (FLEET §2 to §4) with additions of ours, as `simulate --script` shows them.
//!
//! Times are written `Mon 12:00`: the week that begins on Monday, 5 January 2026; `next Mon 12:00` is a week later. All in UTC.

use serde_json::{Value, json};

use crate::support::{Script, group};

mod answers;
mod canaries;
mod counts;
mod holds;
mod why;

/// What hosts run before.
const OLD: &str = "17.2.0";
/// What they shall run.
const NEW: &str = "17.2.1";

/// `Mon 12:00`, `Mon 12:00:30` or `next Mon 12:00` in RFC 3339.
fn t(text: &str) -> String {
    let (week, text) = match text.strip_prefix("next ") {
        Some(rest) => (7, rest),
        None => (0, text),
    };
    let (day, time) = text.split_once(' ').unwrap();
    let days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
    let date = 5 + week + days.iter().position(|name| *name == day).unwrap();
    let seconds = if time.len() == 5 { ":00" } else { "" };
    format!("2026-01-{date:02}T{time}{seconds}Z")
}

fn resource(kind: &str, spec: &Value) -> Value {
    json!({ "put": { "kind": kind, "version": "v1", "metadata": { "name": kind.replace('_', "-") }, "spec": spec } })
}

/// An `autoupdate_config` with this `spec.agents`.
fn agents(agents: &Value) -> Value {
    resource("autoupdate_config", &json!({ "agents": agents }))
}

/// An enabled halt-on-error configuration of these groups.
fn halting(groups: &Value) -> Value {
    agents(&json!({ "mode": "enabled", "strategy": "halt-on-error", "schedules": { "regular": groups } }))
}

/// An enabled time-based configuration.
fn timed(window: &str, groups: &Value) -> Value {
    agents(&json!({
        "mode": "enabled",
        "strategy": "time-based",
        "maintenance_window_duration": window,
        "schedules": { "regular": groups },
    }))
}

/// An `autoupdate_version` with this `spec.agents`.
fn wanted(agents: &Value) -> Value {
    resource("autoupdate_version", &json!({ "agents": agents }))
}

/// From [`OLD`] to [`NEW`], enabled, regular.
fn version() -> Value {
    version_of(OLD, NEW)
}

fn version_of(start: &str, target: &str) -> Value {
    wanted(&json!({ "start_version": start, "target_version": target, "schedule": "regular", "mode": "enabled" }))
}

fn immediate() -> Value {
    wanted(&json!({ "start_version": OLD, "target_version": NEW, "schedule": "immediate", "mode": "enabled" }))
}

/// The version of these modes, and of this schedule.
fn version_in(mode: &str, schedule: &str) -> Value {
    wanted(&json!({ "start_version": OLD, "target_version": NEW, "schedule": schedule, "mode": mode }))
}

/// The UUID of host `number`.
fn host(number: u32) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// The id of its updater.
fn updater(number: u32) -> String {
    format!("11111111-0000-4000-8000-{number:012}")
}

/// A report of host `number`.
fn report(number: u32, group: &str, version: &str) -> Value {
    json!({ "report": { "host": host(number), "group": group, "version": version, "update_id": updater(number) } })
}

/// A report with its last change, which was to [`NEW`].
fn outcome(number: u32, group: &str, version: &str, outcome: &str, code: &str) -> Value {
    let mut line = report(number, group, version);
    line["report"]["last"] = json!({ "outcome": outcome, "to": NEW, "code": code });
    line
}

/// It failed to update to [`NEW`].
fn failed(number: u32, group: &str) -> Value {
    outcome(number, group, OLD, "failed", "unhealthy")
}

/// It updated to [`NEW`].
fn updated(number: u32, group: &str) -> Value {
    outcome(number, group, NEW, "updated", "")
}

/// The question of host `number`.
fn asks(number: u32, group: &str) -> Value {
    json!({ "find": { "host": host(number), "group": group, "update_id": updater(number) } })
}

fn start(groups: &[&str]) -> Value {
    json!({ "start": { "groups": groups } })
}

fn start_by_force(groups: &[&str]) -> Value {
    json!({ "start": { "groups": groups, "force": true } })
}

fn mark_done(groups: &[&str]) -> Value {
    json!({ "mark_done": { "groups": groups } })
}

fn rollback(groups: &[&str]) -> Value {
    json!({ "rollback": { "groups": groups } })
}

fn halt(groups: &[&str]) -> Value {
    json!({ "halt": { "groups": groups } })
}

fn run(groups: &[&str]) -> Value {
    json!({ "run": { "groups": groups } })
}

/// A version, and whether to update to it now.
fn told(answer: &Value) -> (String, bool) {
    let find = &answer["find"];
    let version = find["agent_version"].as_str().unwrap_or_else(|| panic!("no version: {answer:#}"));
    (version.to_owned(), find["agent_auto_update"].as_bool().unwrap())
}

fn is(version: &str, update: bool) -> (String, bool) {
    (version.to_owned(), update)
}

/// Scripts with short times.
trait Steps: Sized {
    fn on(self, when: &str, action: Value) -> Self;

    /// Lets each of these hosts report from `group` that it runs `version`.
    fn hosts(self, when: &str, numbers: std::ops::RangeInclusive<u32>, group: &str, version: &str) -> Self;

    /// The last answer, if no line before it was refused.
    fn answer(&self) -> Value;

    /// The answer to `action`.
    fn then(&self, when: &str, action: Value) -> Value;

    /// What somebody of whom only the group is known is told.
    fn find(&self, when: &str, group: &str) -> (String, bool);

    /// What host `number` is told.
    fn find_host(&self, when: &str, number: u32, group: &str) -> (String, bool);

    fn status(&self, when: &str) -> Value;

    fn group(&self, when: &str, name: &str) -> Value;

    fn state(&self, when: &str, name: &str) -> String;

    /// State and v2's reason.
    fn because(&self, when: &str, name: &str) -> (String, String);

    /// The code why somebody who asks from `group` is told what he is told, and until when.
    fn why(&self, when: &str, group: &str) -> (String, Option<String>);
}

impl Steps for Script {
    fn on(self, when: &str, action: Value) -> Self {
        self.line(&t(when), action)
    }

    fn hosts(self, when: &str, numbers: std::ops::RangeInclusive<u32>, group: &str, version: &str) -> Self {
        numbers.fold(self, |script, number| script.on(when, report(number, group, version)))
    }

    fn answer(&self) -> Value {
        let mut answers = self.run();
        let last = answers.pop().expect("the script asks something");
        for answer in answers {
            assert!(answer.get("error").is_none(), "a line was refused: {answer:#}");
        }
        last
    }

    fn then(&self, when: &str, action: Value) -> Value {
        self.clone().on(when, action).answer()
    }

    fn find(&self, when: &str, group: &str) -> (String, bool) {
        told(&self.then(when, json!({ "find": { "group": group } })))
    }

    fn find_host(&self, when: &str, number: u32, group: &str) -> (String, bool) {
        told(&self.then(when, asks(number, group)))
    }

    fn status(&self, when: &str) -> Value {
        self.then(when, json!({ "status": {} }))
    }

    fn group(&self, when: &str, name: &str) -> Value {
        group(&self.status(when), name).clone()
    }

    fn state(&self, when: &str, name: &str) -> String {
        self.group(when, name)["state"].as_str().unwrap().to_owned()
    }

    fn because(&self, when: &str, name: &str) -> (String, String) {
        let group = self.group(when, name);
        let text = |key: &str| group[key].as_str().unwrap().to_owned();
        (text("state"), text("last_update_reason"))
    }

    fn why(&self, when: &str, group: &str) -> (String, Option<String>) {
        let fleet = self.then(when, json!({ "find": { "group": group } }))["find"]["fleet"].clone();
        let code = fleet["why"]["code"].as_str().unwrap_or_else(|| panic!("no code: {fleet:#}")).to_owned();
        (code, fleet["until"].as_str().map(str::to_owned))
    }
}

/// A halt-on-error rollout of these groups, begun on Monday at 11:00.
fn rollout(groups: &Value) -> Script {
    Script::default().on("Mon 11:00", halting(groups)).on("Mon 11:00", version())
}

/// `dev` at 12 and `prod` at 14 o'clock on every day.
fn dev_and_prod() -> Script {
    rollout(&json!([
        { "name": "dev", "days": ["*"], "start_hour": 12 },
        { "name": "prod", "days": ["*"], "start_hour": 14 },
    ]))
}

fn state_and_reason(state: &str, reason: &str) -> (String, String) {
    (state.to_owned(), reason.to_owned())
}
