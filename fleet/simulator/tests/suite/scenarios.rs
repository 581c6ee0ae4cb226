//! Plays the scenarios below `tests/scenarios`: lines of `simulate --script`, and beside them what they are answered.
//!
//! A scenario is written as scripts are, with these shorthands:
//! * `{"case": …}` begins one, from nothing or `"from"` a setup; `{"setup": …}` begins lines that several share. Empty lines and
//!   lines that begin with `//` are skipped; `"because"` says what the line is about.
//! * `{"branch": …}` to `{"back": …}`: the lines between them are played on a copy.
//! * `Mon 12:05` and `Mon+1 12:05:30`: times of the week that begins on 5 January 2026 and of the next, in UTC.
//! * `#7`: the UUID of host 7, which asks and reports with the updater's id `@7`. `$1`, `$2`: hosts of the case's `"order"`, in the
//!   order in which a group lets them go. `#1..4`, `h01..h10`, `$2..4` and lists as `host`, lists as `at` and as a find's `group`:
//!   the line is played for each.
//! * `{"autoupdate_version": {…}}`: `put` of that kind with this `spec`. `{"groups": {…}}`: `status`, and what it says of groups;
//!   a text alone is the state. `{"starts": {…}}`: until when these groups say that they wait, which is when they start.
//!
//! What is checked:
//! * `"expect"`: the answer. Objects may have more keys, lists not; `{"not": …}` and its kin are in [`special`].
//! * `"would"`: the same, of a host that asks on a copy. Whatever else asks leaves no trace anyway, and is played on a copy, too.
//! * `"told"`: which of the hosts that ask are told to update: `true` (all), `false` (none), a list, or how many.
//! * `"refused"`: the error's code, or code and message; and that nothing changed. No other line may be refused.

use std::collections::BTreeMap;
use std::path::PathBuf;

use fleet_simulator::Played;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value, json};

/// Questions that leave no trace.
const ASIDE: [&str; 5] = ["status", "groups", "explain", "graph", "inventory"];
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const SPECS: [&str; 5] = [
    "autoupdate_config",
    "autoupdate_version",
    "cluster_maintenance_config",
    "autoupdate_agent_report",
    "version-directive",
];

/// A file while it is played.
#[derive(Default)]
struct Scenarios {
    setups: BTreeMap<String, Played>,
    /// The setup whose lines these are.
    setup: Option<String>,
    case: String,
    /// The case's state, and those of its branches.
    branches: Vec<Played>,
    /// The case's hosts in the order in which they go.
    order: Vec<String>,
    failures: Vec<String>,
    checks: usize,
}

/// What a line is to be answered.
struct Expected {
    expect: Option<Value>,
    would: Option<Value>,
    told: Option<Value>,
    refused: Option<Value>,
    is_aside: bool,
}

impl Scenarios {
    fn line(&mut self, line: Map<String, Value>) {
        let text = |key: &str| line.get(key).and_then(Value::as_str).map(str::to_owned);
        if let Some(name) = text("setup").or_else(|| text("case")) {
            self.end_setup();
            let from = text("from").map(|from| self.setups.get(&from).expect("the setup is above").clone());
            let seed = line.get("seed").and_then(Value::as_u64).unwrap_or_default();
            self.branches = vec![from.unwrap_or_else(|| Played::new(seed))];
            self.order = text("order").map(|hosts| order(seed, &range(&long(&hosts, &[])))).unwrap_or_default();
            self.setup = text("setup");
            self.case = name;
        } else if line.contains_key("branch") {
            let from = text("from").map(|from| &self.setups[&from]).or(self.branches.last());
            self.branches.push(from.expect("a case is begun").clone());
        } else if line.contains_key("back") {
            self.branches.pop();
        } else {
            self.event(line);
        }
    }

    fn end_setup(&mut self) {
        if let Some(name) = self.setup.take() {
            self.setups.insert(name, self.branches[0].clone());
        }
    }

    fn event(&mut self, mut line: Map<String, Value>) {
        line.shift_remove("because");
        let mut take = |key: &str| line.shift_remove(key).map(|value| self.fill(value));
        let expected = Expected {
            expect: take("expect"),
            would: take("would"),
            told: take("told"),
            refused: take("refused"),
            is_aside: false,
        };
        let expected = Expected { is_aside: expected.would.is_some() || take("accepted").is_some(), ..expected };
        let times = many(take("at").expect("a line has a time"));
        let (Some((action, value)), 1) = (line.iter().next(), line.len()) else { panic!("one action: {line:?}") };
        let value = self.fill(value.clone());
        if action == "starts" {
            return self.starts(&text(&times[0]), &value);
        }
        let lines: Vec<(String, Value)> =
            times.iter().flat_map(|at| each(&value).into_iter().map(move |value| (text(at), value))).collect();
        let mut told = Vec::new();
        for (at, value) in &lines {
            let answer = self.play(at, action, value, &expected);
            if answer["find"]["agent_auto_update"] == true {
                told.push(value["host"].clone());
            }
        }
        if let Some(wanted) = &expected.told {
            let is_met = match wanted {
                Value::Bool(all) => told.len() == if *all { lines.len() } else { 0 },
                Value::Array(hosts) => {
                    told == hosts.iter().flat_map(|host| range(&text(host))).collect::<Vec<String>>()
                }
                wanted => matches(&told.len().into(), wanted),
            };
            self.check(is_met, || format!("told: expected {wanted}, and not {}", json!(told)));
        }
    }

    /// Plays a line, and checks its answer.
    fn play(&mut self, at: &str, action: &str, value: &Value, expected: &Expected) -> Value {
        let top = self.branches.last_mut().expect("a case is begun");
        let (line, before) = (script_line(at, action, value), top.clone());
        let is_aside = ASIDE.contains(&action) || action == "find" && value.get("host").is_none();
        let mut copy = top.clone();
        let is_on_copy = is_aside || expected.is_aside || expected.refused.is_some();
        let answer = ask(if is_on_copy { &mut copy } else { top }, &line);
        if let Some(refused) = &expected.refused {
            let wanted = if refused.is_string() { json!({ "code": refused }) } else { refused.clone() };
            let wanted = if wanted.is_object() { wanted } else { json!({}) };
            self.check(matches(&answer["error"], &wanted), || format!("expected {wanted}, and not {answer}"));
            let later = at.parse::<Timestamp>().expect("a time") + SignedDuration::from_hours(1);
            let mut before = before;
            for at in [at.to_owned(), later.to_string()] {
                let status = script_line(&at, "status", &json!({}));
                let (before, after) = (ask(&mut before, &status), ask(&mut copy, &status));
                self.check(before == after, || format!("the refused line changed {before} to {after}"));
            }
            return answer;
        }
        if answer["error"].is_object() {
            self.check(false, || format!("refused: {answer}"));
        }
        if action == "groups" {
            for (name, wanted) in value.as_object().expect("groups by name") {
                self.look(&answer, name, wanted);
            }
        }
        for wanted in [&expected.expect, &expected.would].into_iter().flatten() {
            let body = &answer[action];
            self.check(matches(body, wanted), || format!("{line}: expected {wanted}, and not {body}"));
        }
        answer
    }

    /// Whether the group `name` of a `status` is as it is wanted.
    fn look(&mut self, answer: &Value, name: &str, wanted: &Value) {
        let groups = answer["status"]["status"]["groups"].as_array();
        let group = groups.into_iter().flatten().find(|group| group["name"] == *name).unwrap_or(&Value::Null);
        let group = &with_members(group);
        let wanted = if wanted.is_string() { &json!({ "state": wanted }) } else { wanted };
        self.check(matches(group, wanted), || format!("{name}: expected {wanted}, and not {group}"));
    }

    /// Whether each of these groups says that it waits until its time, and starts then and not a second before.
    fn starts(&mut self, at: &str, groups: &Value) {
        let instant = |text: &str| text.parse::<Timestamp>().expect("a time");
        let mut looks = Vec::new();
        for (name, until) in groups.as_object().expect("groups by name") {
            let starts = instant(&text(until));
            let before = (starts - SignedDuration::from_secs(1)).max(instant(at));
            looks.push((instant(at), name, json!({ "state": "unstarted", "why": { "until": until } })));
            looks.push((before, name, json!("unstarted")));
            looks.push((starts, name, json!({ "state": { "not": "unstarted" } })));
        }
        looks.sort_by_key(|(at, ..)| *at);
        let mut copy = self.branches.last().expect("a case is begun").clone();
        for (at, name, wanted) in looks {
            let answer = ask(&mut copy, &script_line(&at.to_string(), "status", &json!({})));
            self.look(&answer, name, &wanted);
        }
    }

    fn check(&mut self, is_met: bool, what: impl FnOnce() -> String) {
        self.checks += 1;
        if !is_met {
            self.failures.push(format!("{}: {}", self.case, what()));
        }
    }

    /// Puts times, UUIDs and the order's hosts where their shorthands are.
    fn fill(&self, value: Value) -> Value {
        match value {
            Value::String(short) => long(&short, &self.order).into(),
            Value::Array(values) => values.into_iter().map(|value| self.fill(value)).collect(),
            Value::Object(keys) => keys.into_iter().map(|(key, value)| (key, self.fill(value))).collect(),
            other => other,
        }
    }
}

/// The line of the script.
fn script_line(at: &str, action: &str, value: &Value) -> String {
    let mut value = value.clone();
    if let ("find" | "report", Some(number)) = (action, value["host"].as_str().and_then(|host| host.strip_prefix(HOST)))
        && value.get("update_id").is_none()
    {
        value["update_id"] = format!("{UPDATER}{number}").into();
    }
    match action {
        "groups" => json!({ "at": at, "status": {} }),
        kind if SPECS.contains(&kind) => json!({ "at": at, "put": { "kind": kind, "version": "v1", "spec": value } }),
        _ => json!({ "at": at, action: value }),
    }
    .to_string()
}

const HOST: &str = "00000000-0000-4000-8000-";
const UPDATER: &str = "11111111-0000-4000-8000-";

fn ask(played: &mut Played, line: &str) -> Value {
    played.line(line).map_or(Value::Null, |answer| serde_json::from_str(&answer).expect("an answer is JSON"))
}

/// What a shorthand stands for; every other text for itself.
fn long(short: &str, order: &[String]) -> String {
    if let Some((first, last)) = short.split_once("..")
        && let Some(sign @ ('#' | '$')) = first.chars().next()
    {
        return range(&format!("{first}..{sign}{last}"))
            .iter()
            .map(|short| long(short, order))
            .collect::<Vec<_>>()
            .join(",");
    }
    let number = |sign: char| short.strip_prefix(sign).and_then(|number| number.parse::<usize>().ok());
    if let Some(number) = number('#') {
        return format!("{HOST}{number:012}");
    }
    if let Some(number) = number('@') {
        return format!("{UPDATER}{number:012}");
    }
    if let Some(number) = number('$') {
        return order[number - 1].clone();
    }
    time(short).unwrap_or_else(|| short.to_owned())
}

/// `Mon 12:05` as RFC 3339.
fn time(short: &str) -> Option<String> {
    let (day, time) = short.split_once(' ')?;
    let (day, weeks) = day.split_once('+').unwrap_or((day, "0"));
    let day = 5 + DAYS.iter().position(|name| *name == day)? + 7 * weeks.parse::<usize>().ok()?;
    let seconds = if time.len() == 5 { ":00" } else { "" };
    time.starts_with(|first: char| first.is_ascii_digit()).then(|| format!("2026-01-{day:02}T{time}{seconds}Z"))
}

/// `h01..h10`: the names from the first to the last; `a,b`: both; `a`: itself.
fn range(hosts: &str) -> Vec<String> {
    let Some((first, last)) = hosts.split_once("..") else { return hosts.split(',').map(str::to_owned).collect() };
    let digits = first.trim_start_matches(|char: char| !char.is_ascii_digit());
    let (name, width) = (&first[..first.len() - digits.len()], digits.len());
    let last = last.trim_start_matches(name).parse::<usize>();
    let (Ok(first), Ok(last)) = (digits.parse::<usize>(), last) else { return vec![hosts.to_owned()] };
    (first..=last).map(|number| format!("{name}{number:0width$}")).collect()
}

fn many(value: Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values,
        one => vec![one],
    }
}

/// An action for each of its hosts and groups.
fn each(value: &Value) -> Vec<Value> {
    let mut lines = vec![value.clone()];
    for key in ["host", "group"] {
        let Some(values) = value.get(key) else { continue };
        let values: Vec<Value> = many(values.clone())
            .iter()
            .flat_map(|value| if key == "host" { range(&text(value)) } else { vec![text(value)] })
            .map(Value::from)
            .collect();
        let with = |line: &Value, one: &Value| {
            let mut line = line.clone();
            line[key] = one.clone();
            line
        };
        lines = values.iter().flat_map(|one| lines.iter().map(|line| with(line, one)).collect::<Vec<_>>()).collect();
    }
    lines
}

/// The group, and the sum of the counts that add up to its members.
fn with_members(group: &Value) -> Value {
    let counts = ["pending", "in_flight", "updated", "failed", "timed_out", "silent"];
    let members: u64 = counts.iter().filter_map(|what| group[format!("{what}_count")].as_u64()).sum();
    let mut group = group.clone();
    if group.is_object() {
        group["members"] = members.into();
    }
    group
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| panic!("{value} is no text"), str::to_owned)
}

/// Whether an answer is as it is wanted.
fn matches(found: &Value, wanted: &Value) -> bool {
    match wanted {
        Value::Object(keys) => match keys.iter().next() {
            Some((what, of)) if special(found, what, of).is_some() => {
                keys.iter().all(|(what, of)| special(found, what, of).unwrap_or_default())
            }
            _ => found.is_object() && keys.iter().all(|(key, wanted)| matches(&found[key.as_str()], wanted)),
        },
        Value::Array(wanted) => found.as_array().is_some_and(|found| {
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(found, wanted)| matches(found, wanted))
        }),
        wanted => found == wanted,
    }
}

/// Comparisons that are more or less than being equal.
fn special(found: &Value, what: &str, of: &Value) -> Option<bool> {
    let shown = || found.as_str().map_or_else(|| found.to_string(), str::to_owned);
    Some(match what {
        "not" => !matches(found, of),
        "exactly" => found == of,
        "any_of" => many(of.clone()).iter().any(|wanted| matches(found, wanted)),
        "contains" => many(of.clone()).iter().all(|part| shown().contains(&text(part))),
        "lacks" => !shown().contains(&text(of)),
        "starts" => shown().starts_with(&text(of)),
        "ends" => shown().ends_with(&text(of)),
        "keys" => found.as_object().is_some_and(|keys| {
            keys.keys().map(String::as_str).eq(many(of.clone()).iter().map(|key| key.as_str().unwrap_or_default()))
        }),
        "at_most" => found.as_u64().is_some_and(|found| found <= of.as_u64().unwrap_or_default()),
        "above" => found.as_u64().is_some_and(|found| found > of.as_u64().unwrap_or_default()),
        "is" => (of == "text" && found.is_string()) || (of == "object" && found.is_object()),
        _ => return None,
    })
}

/// The order in which a group with a slot for one lets these hosts go.
fn order(seed: u64, hosts: &[String]) -> Vec<String> {
    let mut played = Played::new(seed);
    let group = json!({ "name": "staging", "agents": { "node_labels_expression": "labels[\"env\"] == \"staging\"" },
        "start_hour": 12, "max_in_flight": "1%" });
    let version =
        json!({ "agent_version": "2.0.0", "agent_start_version": "1.0.0", "agent_version_schedule": "regular" });
    let mut say = |at: &str, action: &str, value: Value| {
        ask(&mut played, &script_line(&time(at).expect("a time"), action, &value))
    };
    say("Mon 08:00", "cluster_maintenance_config", json!({ "agent_auto_update_groups": { "regular": [group] } }));
    say("Mon 08:00", "autoupdate_version", version);
    for host in hosts {
        say("Mon 11:50", "report", json!({ "host": host, "version": "1.0.0", "labels": { "env": "staging" } }));
    }
    let mut order: Vec<String> = Vec::new();
    for number in 1..=hosts.len() {
        let at = format!("Mon 12:{number:02}");
        let open = hosts.iter().filter(|host| !order.contains(host));
        let mut told =
            open.filter(|host| say(&at, "find", json!({ "host": host }))["find"]["agent_auto_update"] == true);
        let host = told.next().expect("one goes").clone();
        say(
            &at,
            "report",
            json!({ "host": host, "version": "2.0.0", "last": { "outcome": "updated", "to": "2.0.0" } }),
        );
        order.push(host);
    }
    order
}

fn folder() -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "scenarios"].iter().collect()
}

/// Plays a file.
fn play(name: &str) {
    let path = folder().join(format!("{name}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut scenarios = Scenarios::default();
    let mut report = String::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        if line.trim().starts_with("//") {
            continue;
        }
        let parsed =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{name}.jsonl:{number}: {error}\n{line}"));
        scenarios.line(parsed);
        for failure in scenarios.failures.drain(..) {
            report.push_str(&format!("{name}.jsonl:{number}: {}\n{failure}\n\n", line.trim()));
        }
    }
    assert!(scenarios.checks > 0 && report.is_empty(), "{report}");
    println!("{name}: {} checks", scenarios.checks);
}

/// A test for each file of a folder.
macro_rules! files {
    ($($folder:ident: $($name:ident)*;)*) => {
        const FILES: &[&str] = &[$($(concat!(stringify!($folder), "/", stringify!($name)),)*)*];
        $(mod $folder {
            $(#[test]
            fn $name() {
                super::play(concat!(stringify!($folder), "/", stringify!($name)));
            })*
        })*
    };
}

files! {
    directive: inventory lives promotion select;
    rfd0169: exclude fields gates halts holds lives members pace proof rollback schedules stops versions;
    v2: additions advice answers blocked_start canaries changes config counts halt_on_error holds lines modes names progress reach releases stops thresholds time_based transitions version why windows;
}

#[test]
fn the_order_is_by_hash_whatever_the_order_of_arrival_and_another_with_another_seed() {
    let hosts = range("h01..h10");
    let backwards: Vec<String> = hosts.iter().rev().cloned().collect();
    assert_eq!(order(0, &hosts), order(0, &backwards));
    assert_ne!(order(0, &hosts), order(1, &hosts));
    assert_ne!(order(0, &hosts), hosts, "by hash, and not by name");
}

#[test]
fn every_file_is_played() {
    let mut found = Vec::new();
    for folder in std::fs::read_dir(folder()).unwrap().map(|folder| folder.unwrap().path()) {
        for file in std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path()) {
            let name = |path: &std::path::Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
            found.push(format!("{}/{}", name(&folder), name(&file)));
        }
    }
    found.sort();
    assert_eq!(found, FILES);
}
