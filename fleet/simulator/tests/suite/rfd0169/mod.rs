//! RFD 0169's groups: every field of its resources, and every rule of FLEET §3 about groups by label with a cap.

mod gates;
mod lives;
mod pace;
mod rollback;
mod stops;

use fleet_simulator::Played;
use serde_json::{Value, json};

use super::support::{self, Script};

/// `Mon 12:03` of the week that begins on 5 January 2026, or `Mon+1 12:03` a week later, in UTC; seconds may follow.
fn at(text: &str) -> String {
    let (day, time) = text.split_once(' ').unwrap();
    let (day, weeks) = day.split_once('+').unwrap_or((day, "0"));
    let index = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"].iter().position(|name| *name == day).unwrap();
    let date = 5 + index + 7 * weeks.parse::<usize>().unwrap();
    let seconds = if time.len() == 5 { ":00" } else { "" };
    format!("2026-01-{date:02}T{time}{seconds}Z")
}

/// A script that is played line by line. It is printed where a test fails.
#[derive(Default)]
struct Play {
    script: Script,
    /// What has been played of it: so many bytes, and their answers.
    played: Option<Played>,
    end: usize,
    answers: Vec<Value>,
    /// Lines that are refused, as they should be.
    refusals: usize,
    seed: u64,
}

impl Drop for Play {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- seed {}\n{}---", self.seed, self.script.text());
        }
    }
}

impl Play {
    /// One group of the hosts whose `env` is `staging`, from 12:00 on; `settings` beside that. It rolls 1.0.0 out to 2.0.0.
    fn staging(settings: Value) -> Self {
        let mut play = Self::default();
        play.groups("Mon 08:00", json!([with(labelled("staging"), settings)]));
        play.target("Mon 08:00", "2.0.0");
        play
    }

    fn say(&mut self, when: &str, action: Value) -> &mut Self {
        self.script = std::mem::take(&mut self.script).line(&at(when), action);
        self
    }

    fn put(&mut self, when: &str, kind: &str, spec: Value) -> &mut Self {
        self.say(when, put(kind, spec))
    }

    /// A `cluster_maintenance_config` with these groups of the regular schedule.
    fn groups(&mut self, when: &str, groups: Value) -> &mut Self {
        self.put(when, "cluster_maintenance_config", json!({ "agent_auto_update_groups": { "regular": groups } }))
    }

    /// A flat `autoupdate_version` whose start is 1.0.0.
    fn target(&mut self, when: &str, version: &str) -> &mut Self {
        let spec =
            json!({ "agent_version": version, "agent_start_version": "1.0.0", "agent_version_schedule": "regular" });
        self.put(when, "autoupdate_version", spec)
    }

    /// Hosts of `env` that run 1.0.0.
    fn hosts(&mut self, when: &str, hosts: &[&str], env: &str) -> &mut Self {
        for host in hosts {
            self.say(when, json!({ "report": { "host": host, "version": "1.0.0", "labels": { "env": env } } }));
        }
        self
    }

    /// They are heard of again.
    fn heard(&mut self, when: &str, hosts: &[&str]) -> &mut Self {
        for host in hosts {
            self.say(when, json!({ "report": { "host": host } }));
        }
        self
    }

    fn reports(&mut self, when: &str, host: &str, version: &str, outcome: &str, code: &str) -> &mut Self {
        let last = json!({ "outcome": outcome, "to": "2.0.0", "code": code });
        self.say(when, json!({ "report": { "host": host, "version": version, "last": last } }))
    }

    fn updates(&mut self, when: &str, host: &str) -> &mut Self {
        self.reports(when, host, "2.0.0", "updated", "")
    }

    fn fails(&mut self, when: &str, host: &str) -> &mut Self {
        self.reports(when, host, "1.0.0", "rolled_back", "unhealthy")
    }

    /// All of them are told, and update.
    fn all_update(&mut self, when: &str, hosts: &[&str]) -> &mut Self {
        for host in hosts {
            assert!(self.is_told(when, host), "{host} is told to update");
            self.updates(when, host);
        }
        self
    }

    /// What `host` is answered: it asks.
    fn ask(&mut self, when: &str, host: &str) -> Value {
        self.say(when, json!({ "find": { "host": host } })).last()["find"].clone()
    }

    /// Whether `host`, which asks, is told to update.
    fn is_told(&mut self, when: &str, host: &str) -> bool {
        self.ask(when, host)["agent_auto_update"].as_bool().unwrap()
    }

    /// Those of `hosts`, which all ask, that are told to update.
    fn told(&mut self, when: &str, hosts: &[&str]) -> Vec<String> {
        let asked = hosts.iter().filter(|host| self.is_told(when, host));
        asked.map(|host| (*host).to_owned()).collect()
    }

    fn status(&mut self, when: &str) -> Value {
        self.say(when, json!({ "status": {} })).last()
    }

    fn group(&mut self, when: &str, name: &str) -> Value {
        support::group(&self.status(when), name).clone()
    }

    fn state(&mut self, when: &str, name: &str) -> String {
        self.group(when, name)["state"].as_str().unwrap().to_owned()
    }

    /// How many hosts of the group `name` are `what`: one of the counts of `status`.
    fn count(&mut self, when: &str, name: &str, what: &str) -> u64 {
        self.group(when, name)[format!("{what}_count")].as_u64().unwrap()
    }

    /// The last answer; no line was refused that should not have been.
    fn last(&mut self) -> Value {
        let played = self.played.get_or_insert_with(|| Played::new(self.seed));
        let said = self.script.text()[self.end..].lines().filter_map(|line| played.line(line));
        self.answers.extend(said.map(|line| serde_json::from_str::<Value>(&line).unwrap()));
        self.end = self.script.text().len();
        let refused: Vec<&Value> = self.answers.iter().filter(|answer| !answer["error"].is_null()).collect();
        assert_eq!(refused.len(), self.refusals, "refused: {refused:?}");
        self.answers.last().cloned().unwrap_or_default()
    }
}

fn put(kind: &str, spec: Value) -> Value {
    json!({ "put": { "kind": kind, "version": "v1", "spec": spec } })
}

/// A group of the hosts whose `env` is its name, from 12:00 on.
fn labelled(name: &str) -> Value {
    let expression = format!("labels[\"env\"] == \"{name}\"");
    json!({ "name": name, "agents": { "node_labels_expression": expression }, "start_hour": 12 })
}

/// `object` with the keys of `more`.
fn with(mut object: Value, more: Value) -> Value {
    object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    object
}

/// So many names of hosts.
const NAMES: [&str; 20] = [
    "h01", "h02", "h03", "h04", "h05", "h06", "h07", "h08", "h09", "h10", "h11", "h12", "h13", "h14", "h15", "h16",
    "h17", "h18", "h19", "h20",
];

fn names(count: usize) -> &'static [&'static str] {
    &NAMES[..count]
}

/// The order in which a group with a slot for one lets these hosts go: who is told, updates; then who is told next.
fn order(seed: u64, hosts: &[&'static str]) -> Vec<&'static str> {
    let mut play = Play::staging(json!({ "max_in_flight": "1%" }));
    play.seed = seed;
    play.hosts("Mon 11:50", hosts, "staging");
    let mut order = Vec::new();
    for number in 0..hosts.len() {
        let when = format!("Mon 12:{:02}", number + 1);
        let told = play.told(&when, hosts);
        let new: Vec<&&str> =
            hosts.iter().filter(|host| told.iter().any(|told| told == *host) && !order.contains(*host)).collect();
        assert_eq!(new.len(), 1, "one host at a time");
        play.updates(&when, new[0]);
        order.push(*new[0]);
    }
    order
}
