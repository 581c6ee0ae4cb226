//! What receivers are told: made of a record of the audit log, or of something that lasts.

use fleet_engine::advice::{Advice, end_of_halt};
use fleet_engine::command::Command;
use fleet_engine::host::NamedHost;
use fleet_engine::plain::cut as line;
use fleet_engine::reason::{HaltRule, Why};
use fleet_engine::resource::Kind;
use fleet_engine::rollout::Halt;
use fleet_wire::api::{AuditEntry, AuditHead};
use fleet_wire::reason::{ReasonSubject, advice};
use fleet_wire::words::host;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::tokens;

/// Longest name of a group that is told, characters: names have no bound of their own, a message has.
const LONGEST_NAME: usize = 200;
/// Longest name in a command, bytes: the longest that a command takes. A shorter one would be another group's.
const LONGEST_COMMAND: usize = 255;
/// Longest text from elsewhere in a sentence, characters.
const LONGEST_TEXT: usize = 300;
/// Characters of an id after `evt_`.
const ID: usize = 32;

/// A message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WebhookEvent {
    /// The same whenever it is told again.
    pub(super) id: String,
    /// When it happened.
    pub(super) time: Timestamp,
    /// A stable code.
    pub(super) kind: &'static str,
    /// A sentence for people.
    pub(super) text: String,
    /// Names and numbers.
    pub(super) data: Value,
}

impl WebhookEvent {
    /// The message as JSON.
    pub(super) fn body(&self) -> String {
        let Self { id, time, kind, text, data } = self;
        json!({ "id": id, "time": time, "kind": kind, "text": text, "data": data }).to_string()
    }

    /// Of something whose `key` is its own.
    pub(super) fn keyed(key: &str, kind: &'static str, time: Timestamp, text: String, data: Value) -> Self {
        Self { id: id(&tokens::digest(key)), time, kind, text, data }
    }

    /// Of the audit log's head at `now`.
    pub(super) fn head(head: &AuditHead, now: Timestamp) -> Self {
        let text = format!("The audit log ends with record {}, whose hash is {}.", head.seq, head.hash);
        let data = json!({ "seq": head.seq, "hash": head.hash });
        Self::keyed(&format!("head {} {now}", head.hash), "audit_head", now, text, data)
    }

    /// Of a record; `None`: nobody outside needs to know.
    pub(super) fn of(entry: &AuditEntry) -> Option<Self> {
        if !entry.done {
            return None;
        }
        let (kind, text, mut data) = match entry.action.as_str() {
            "restore" => restored(entry),
            "key_conflict" => conflict(entry),
            "enrolment_surge" => surge(entry),
            "fleet_silent" => of_fleet(entry, "fleet_silent", FLEET_SILENT),
            "fleet_heard" => of_fleet(entry, "fleet_heard", "Most of the fleet is seen again."),
            "plan_denied" => denied(entry),
            "rollout_started" | "rollout_removed" => of_rollout(entry)?,
            _ => of_group(entry)?,
        };
        if let Some(data) = data.as_object_mut() {
            data.insert("seq".to_owned(), json!(entry.seq));
        }
        Some(Self { id: id(&entry.hash), time: entry.at, kind, text, data })
    }
}

fn id(hex: &str) -> String {
    format!("evt_{}", hex.get(..ID).unwrap_or(hex))
}

fn restored(entry: &AuditEntry) -> (&'static str, String, Value) {
    let backup = line(entry.detail["backup"].as_str().unwrap_or_default(), LONGEST_TEXT);
    let text = format!("The store was restored from {backup}: everything is held until `run --all`.");
    ("restored", text, json!({ "backup": backup }))
}

fn conflict(entry: &AuditEntry) -> (&'static str, String, Value) {
    let host = line(entry.subject.strip_prefix("host ").unwrap_or(&entry.subject), LONGEST_NAME);
    let hostname = line(entry.detail["hostname"].as_str().unwrap_or_default(), LONGEST_NAME);
    let name = host::full(&hostname, &host);
    let text = format!("Host {name} reports with another key: the first goes on, until an admin decides.");
    ("key_conflict", text, json!({ "host": host, "hostname": hostname, "key": short(&entry.detail["key"]) }))
}

fn surge(entry: &AuditEntry) -> (&'static str, String, Value) {
    let hosts = entry.detail["an_hour"].as_u64().unwrap_or(0);
    let text = format!("More than {hosts} hosts enrolled within an hour: those that come now wait for an admin.");
    ("enrolment_surge", text, json!({ "hosts": hosts }))
}

fn denied(entry: &AuditEntry) -> (&'static str, String, Value) {
    let plan = line(entry.subject.strip_prefix("plan ").unwrap_or(&entry.subject), LONGEST_NAME);
    let (who, why) =
        (line(&entry.who, LONGEST_TEXT), line(entry.detail["reason"].as_str().unwrap_or_default(), LONGEST_TEXT));
    let because = if why.is_empty() { String::new() } else { format!(": {why}") };
    (
        "plan_denied",
        format!("Plan {plan} was denied by {who}{because}"),
        json!({ "subject": plan, "who": who, "reason": why }),
    )
}

/// Most likely the server is to blame: the hosts cannot all be.
const FLEET_SILENT: &str = "Most of the fleet stopped asking at once: look at this server, its network and its certificate. \
                            Until it asks again, silence counts against no host and no group.";

fn of_fleet(entry: &AuditEntry, kind: &'static str, text: &str) -> (&'static str, String, Value) {
    (kind, text.to_owned(), json!({ "since": short(&entry.detail["since"]) }))
}

fn of_rollout(entry: &AuditEntry) -> Option<(&'static str, String, Value)> {
    let number: u64 = entry.subject.strip_prefix("rollout ")?.parse().ok()?;
    if entry.action == "rollout_removed" {
        return Some(("rollout_removed", format!("Rollout {number} was removed."), json!({ "rollout": number })));
    }
    let word = |key: &str| line(entry.detail[key].as_str().unwrap_or_default(), LONGEST_TEXT);
    let (from, to, schedule) = (word("start"), word("target"), word("schedule"));
    let text = format!("Version {to} is rolled out in place of {from}: rollout {number}, schedule {schedule}.");
    let data = json!({ "rollout": number, "start_version": from, "target_version": to, "schedule": schedule });
    Some(("new_version", text, data))
}

fn of_group(entry: &AuditEntry) -> Option<(&'static str, String, Value)> {
    let name = line(entry.subject.strip_prefix("group ")?, LONGEST_NAME);
    let group = shown(&name);
    let (kind, text) = match entry.action.as_str() {
        "group_canaries" => ("group_canaries", format!("{group} has started with its canaries.")),
        "group_started" => ("group_started", format!("{group} has started: its hosts are allowed to update.")),
        "group_done" => ("group_done", format!("{group} is done.")),
        "group_rolled_back" => ("group_rolled_back", format!("{group} is rolled back: its hosts go back.")),
        "group_halted" => ("group_halted", halted(&group, entry)),
        _ => return None,
    };
    let mut data = json!({ "group": name });
    let details = entry.detail.as_object().into_iter().flatten();
    if let Some(data) = data.as_object_mut() {
        data.extend(details.map(|(key, value)| (key.clone(), short(value))));
        if let Some(sample) = entry.detail.get("sample") {
            data.insert("sample".to_owned(), json!(uuids(sample)));
        }
        if entry.detail.get("hosts").is_some() {
            data.insert("hosts".to_owned(), json!(hosts_of(&entry.detail)));
        }
    }
    Some((kind, text, data))
}

fn halted(group: &str, entry: &AuditEntry) -> String {
    let detail = &entry.detail;
    let rule = line(detail["rule"].as_str().unwrap_or("unknown"), LONGEST_TEXT);
    let (count, of) = (detail["count"].as_u64().unwrap_or(0), detail["of"].as_u64().unwrap_or(0));
    let hosts = if of > 0 { format!(", {count} of {of} hosts") } else { String::new() };
    let mostly = |code| format!(", mostly {}", line(host::code(code), LONGEST_TEXT));
    let error = detail["error"].as_str().map_or_else(String::new, mostly);
    let named = hosts_of(detail);
    let some = if named.is_empty() { uuids(&detail["sample"]) } else { host::names(&named) };
    let some = if some.is_empty() { String::new() } else { format!(", for example {}", some.join(", ")) };
    // A command to copy has no dot behind it.
    let end = way_on(entry).map_or_else(|| ".".to_owned(), |way_on| format!("; {way_on}"));
    format!("{group} is halted ({rule}{hosts}{error}{some}): nobody in it is allowed to update{end}")
}

/// The first few hosts of a halt with their names; a record of before has none.
fn hosts_of(detail: &Value) -> Vec<NamedHost> {
    let hosts: Vec<NamedHost> = serde_json::from_value(detail["hosts"].clone()).unwrap_or_default();
    let short = |NamedHost { host, hostname }: NamedHost| NamedHost {
        host: line(&host, LONGEST_NAME),
        hostname: line(&hostname, LONGEST_NAME),
    };
    hosts.into_iter().take(Halt::SAMPLE).map(short).collect()
}

/// The same without names.
fn uuids(sample: &Value) -> Vec<String> {
    let hosts = sample.as_array().into_iter().flatten().filter_map(Value::as_str);
    hosts.take(Halt::SAMPLE).map(|host| line(host, LONGEST_NAME)).collect()
}

/// What ends a halt, in the words of the command line; `None`: more than a command does, or a record from before it said so.
fn way_on(entry: &AuditEntry) -> Option<String> {
    let all = entry.detail.get("all")?.as_bool()?;
    let why = json!({ "code": "halted", "rule": entry.detail["rule"], "count": 0, "of": 0, "error": null });
    let why: Why = serde_json::from_value(why).ok()?;
    let group = entry.subject.strip_prefix("group ").filter(|name| name.len() <= LONGEST_COMMAND)?;
    if matches!(why, Why::Halted { rule: HaltRule::ReleaseBlocked, .. }) {
        return None;
    }
    let Why::Halted { rule, .. } = why else { return None };
    let run = Command::Run { groups: if all { Vec::new() } else { vec![group.to_owned()] }, all };
    // A record of before does not say it.
    let back = entry.detail["back"].as_bool().unwrap_or(false);
    let kind = if entry.detail["directive"] == true { Kind::Directive } else { Kind::Version };
    let edit = Advice::Edit(vec![kind.as_str().to_owned()]);
    let end = end_of_halt(group, (rule, entry.detail["error"].as_str()), back, edit, run);
    Some(advice::text(&end, &why, ReasonSubject::Group(group)))
}

/// A group's name at the beginning of a sentence; a version without groups has one without a name.
pub(super) fn shown(group: &str) -> String {
    if group.is_empty() { "The group of all hosts".to_owned() } else { format!("Group {group}") }
}

/// A group's name as it is told.
pub(super) fn name(group: &str) -> String {
    line(group, LONGEST_NAME)
}

/// A value of a detail, without a bound of its own.
fn short(value: &Value) -> Value {
    match value {
        Value::String(text) => json!(line(text, LONGEST_TEXT)),
        Value::Array(_) | Value::Object(_) => Value::Null,
        value => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(action: &str, subject: &str, detail: Value) -> AuditEntry {
        AuditEntry {
            seq: 7,
            at: Timestamp::UNIX_EPOCH,
            who: "engine".to_owned(),
            from: String::new(),
            action: action.to_owned(),
            subject: subject.to_owned(),
            done: true,
            detail,
            before: String::new(),
            after: String::new(),
            previous: String::new(),
            hash: "ab".repeat(32),
        }
    }

    #[test]
    fn what_people_decide_and_what_is_refused_is_no_event_of_its_own() {
        let refused = AuditEntry { done: false, ..entry("group_done", "group a", json!({})) };
        for entry in [refused, entry("halt", "group a", json!({})), entry("create", "autoupdate_version/x", json!({}))]
        {
            assert_eq!(WebhookEvent::of(&entry), None, "{}", entry.action);
        }
    }

    #[test]
    fn a_denial_says_who_and_why_on_one_line() {
        let denied =
            AuditEntry { who: "token bert".to_owned(), ..entry("plan_denied", "plan x", json!({"reason": "no\nway"})) };
        let event = WebhookEvent::of(&denied).unwrap();
        assert_eq!((event.kind, event.data["who"].as_str()), ("plan_denied", Some("token bert")));
        assert!(
            event.text.starts_with("Plan x was denied by token bert: no") && !event.text.contains('\n'),
            "{}",
            event.text
        );
    }

    #[test]
    fn a_halt_names_its_rule_its_numbers_and_its_error_on_one_short_line() {
        let detail = json!({"rule": "failed_threshold", "count": 3, "of": 20, "error": "bad\n\u{1b}[31m"});
        let event = WebhookEvent::of(&entry("group_halted", "group prod", detail)).unwrap();
        assert!(
            event.text.starts_with("Group prod is halted (failed_threshold, 3 of 20 hosts, mostly bad"),
            "{}",
            event.text
        );
        assert!(!event.text.contains(char::is_control));
        assert_eq!((&event.data["count"], &event.data["of"], &event.data["seq"]), (&json!(3), &json!(20), &json!(7)));
        let long =
            WebhookEvent::of(&entry("group_done", &format!("group {}", "x".repeat(1 << 20)), json!({}))).unwrap();
        assert!(long.body().len() < 4096);
    }

    #[test]
    fn a_halt_that_no_command_ends_names_none() {
        let text = |detail: Value| WebhookEvent::of(&entry("group_halted", "group a b", detail)).unwrap().text;
        let of = |rule: &str, all: bool| text(json!({"rule": rule, "count": 0, "of": 0, "sample": [], "all": all}));
        assert_eq!(
            of("release_blocked", false),
            "Group a b is halted (release_blocked): nobody in it is allowed to update."
        );
        let ends = |text: String| text.split_once("; ").unwrap().1.to_owned();
        let way = ends(of("soak_failed", false));
        assert!(way.starts_with("to see the hosts that failed: ") && !way.contains("rollback"), "{way}");
        assert_eq!(
            ends(of("restored", true)),
            "to end the hold of everything: teleport-fleet autoupdate agents run --all"
        );
        let old = text(json!({"rule": "manual_halt", "count": 0, "of": 0, "error": null}));
        assert!(old.ends_with("nobody in it is allowed to update."), "a record of before says less: {old}");
    }

    #[test]
    fn canaries_and_a_surge_say_which_group_and_how_many() {
        let canaries = WebhookEvent::of(&entry("group_canaries", "group prod", json!({}))).unwrap();
        assert_eq!((canaries.kind, &canaries.data["group"]), ("group_canaries", &json!("prod")));
        assert_eq!(canaries.text, "Group prod has started with its canaries.");
        let surge = WebhookEvent::of(&entry("enrolment_surge", "new hosts", json!({"an_hour": 1000}))).unwrap();
        assert_eq!((surge.kind, &surge.data["hosts"]), ("enrolment_surge", &json!(1000)));
        assert!(surge.text.starts_with("More than 1000 hosts enrolled within an hour"), "{}", surge.text);
    }

    #[test]
    fn an_id_is_the_same_whenever_the_event_is_made() {
        let one = || WebhookEvent::keyed("key", "stuck", Timestamp::UNIX_EPOCH, String::new(), json!({}));
        assert_eq!(one(), one());
        assert_eq!(one().id.len(), "evt_".len() + ID);
    }
}
