//! A server that is newer than this program: keys and words that only it knows, in every place of every answer.

use std::collections::BTreeMap;

use crate::support::{Done, Reply, Server};
use fleet_wire::api::{
    Acted, AuditPage, DecidedMany, Explained, HostList, JoinToken, KeptResource, MadeToken, StateCounts, Token,
    Verified, WriteResult,
};
use fleet_wire::rollout::{AgentRollout, StopsAlone};
use schemars::{JsonSchema, Schema, schema_for};
use serde_json::{Map, Value, json};

/// A key that no program has.
const KEY: &str = "new_key";
/// A host.
const HOST: &str = "00000000-0000-4000-8000-000000000001";
/// A word that no program has.
const WORD: &str = "new_word";

/// An answer of type `T` with all of its keys, one more in each object, and a new word in place of each that is one of few.
fn answer<T: JsonSchema>() -> Value {
    let root = schema_for!(T).to_value();
    sample(&root, &root)
}

fn sample(schema: &Value, root: &Value) -> Value {
    if let Some(place) = schema["$ref"].as_str() {
        return sample(root.pointer(place.trim_start_matches('#')).unwrap(), root);
    }
    if schema.get("enum").or(schema.get("const")).is_some() {
        return WORD.into();
    }
    if let Some(either) = schema["anyOf"].as_array() {
        return sample(&either[0], root);
    }
    let kind = if schema["type"].is_array() { &schema["type"][0] } else { &schema["type"] };
    match kind.as_str() {
        Some("boolean") => true.into(),
        Some("integer") => 1.into(),
        Some("string") if schema["format"] == "date-time" => "2025-01-15T02:00:00Z".into(),
        Some("string") => "text".into(),
        Some("array") => json!([sample(&schema["items"], root)]),
        // One of several objects: which, only the newer server knows.
        None if schema["oneOf"].is_array() => WORD.into(),
        _ => object(schema, root),
    }
}

fn object(schema: &Value, root: &Value) -> Value {
    let mut keys = Map::from_iter([(KEY.to_owned(), "new".into())]);
    for properties in [&schema["oneOf"][0]["properties"], &schema["properties"]] {
        let properties = properties.as_object().into_iter().flatten();
        keys.extend(properties.map(|(key, of)| (key.clone(), sample(of, root))));
    }
    Value::Object(keys)
}

fn count(value: &Value, what: &str) -> usize {
    value.to_string().matches(what).count()
}

/// What `words` show of `replies`: nothing fails, people see the new words, and programs get every new key but `lost`, which are
/// in parts of the answer that the verb leaves out.
fn is_passed_on(words: &[&str], replies: &[Value], lost: usize) {
    let run = |format: &str| -> Done {
        let refused = (replies.len() > 1).then(|| Reply::refused(404, "no_rollout", "there is no rollout"));
        let server = Server::new(refused.into_iter().chain(replies.last().map(Reply::json)));
        server.run_with(&[words, &["--format", format]].concat(), "kind: x\n", "false")
    };
    let reply = replies.last().unwrap();
    for format in ["text", "yaml", "json"] {
        let done = run(format);
        assert_eq!((done.status, done.err.lines().count() <= 1), (0, true), "{words:?} {format}: {}", done.err);
    }
    let (text, json) = (run("text").out.to_lowercase(), run("json").json());
    // A secret stands alone.
    let is_silent = count(reply, WORD) == 0 || reply.get("secret").is_some();
    assert_eq!(text.contains(WORD), !is_silent, "{words:?}: {text}");
    assert_eq!(count(&json, KEY) + lost, count(reply, KEY), "{words:?}: {json:#}");
}

#[test]
fn what_only_a_newer_server_knows_is_shown_as_it_is() {
    let with = |mut answer: Value, place: &str, value: Value| {
        *answer.pointer_mut(place).unwrap() = value;
        answer
    };
    let lists = |answer: Value| with(answer, "/more", json!(false));
    let explained = answer::<Explained>();
    let of_host = count(&explained["known"], KEY) + count(&explained["history"], KEY);
    let counts = with(answer::<StateCounts>(), "/expired", json!(0));
    let whole = with(answer::<Verified>(), "/fault", Value::Null);
    let status: &[&str] = &["autoupdate", "agents", "status"];
    for (words, reply, lost) in [
        // The list itself has one.
        (&["hosts"][..], lists(answer::<HostList>()), 1),
        (&["audit"], lists(answer::<AuditPage>()), 1),
        (&["events"], lists(answer::<AuditPage>()), 1),
        (&["host", HOST], explained.clone(), 0),
        (&["host", HOST, "hold"], explained.clone(), 0),
        (&["explain", "--host", HOST], explained, of_host),
        (&["hosts", "accept", "--all"], answer::<DecidedMany>(), 0),
        (&["audit", "verify"], whole, 0),
        (&["tokens"], answer::<Vec<Token>>(), 0),
        (&["tokens", "join"], answer::<Vec<JoinToken>>(), 0),
        (&["tokens", "create", "x", "--role", "viewer"], answer::<MadeToken>(), 0),
        (&["tokens", "join", "create", "x"], answer::<MadeToken<JoinToken>>(), 0),
        (&["create", "-f", "-"], answer::<WriteResult>(), 0),
        (&["rollouts"], answer::<Vec<AgentRollout>>(), 0),
        (&["autoupdate", "agents", "report"], counts, 0),
        // As `tctl`'s, without the resource itself and its metadata, and spec and status are one.
        (status, answer::<AgentRollout>(), 3),
        (&["autoupdate", "status"], answer::<AgentRollout>(), 3),
        // And what is held is said twice.
        (&["autoupdate", "agents", "halt", "--all"], answer::<Acted>(), 4),
    ] {
        is_passed_on(words, &[reply], lost);
    }
    is_passed_on(status, &[Value::Null, answer::<StopsAlone>()], 0);
    let kept = with(answer::<Vec<KeptResource>>(), "/0/yaml", json!("kind: new"));
    let done = Server::new([Reply::json(&kept)]).run(&["get", "new"]);
    assert_eq!(done, Done::ok("kind: new\nmetadata:\n  revision: text\n"));
}

/// The keys that every server has. An older server lacks those that came later: they have a default.
const ALWAYS: [(&str, &str); 29] = [
    ("Acted", "groups effects"),
    ("AuditEntry", "seq at who from action subject done detail before after previous hash"),
    ("AuditHead", "seq hash"),
    ("AuditPage", "entries more"),
    ("Change", "to at outcome"),
    ("Changed", "kind name revision was_there takes"),
    ("CountOf", "group version count"),
    ("DecidedMany", "count hosts"),
    ("DryRunResult", "plan code"),
    ("Effects", "lets_go goes_down halted_before"),
    ("History", "enrolled changes"),
    ("HoldsView", "all groups released"),
    ("HostList", "hosts more"),
    (
        "HostView",
        "host update_id group declared_group assigned_group labels version state held pinned disabled last_outcome \
         last_target error_code",
    ),
    ("JoinToken", "name created labels"),
    ("KeptResource", "kind name revision yaml json"),
    ("MadeJoinToken", "name created labels secret"),
    ("MadeToken", "name role created secret"),
    ("Misfit", "of why"),
    ("NamedHost", "host"),
    ("Omission", "count reason"),
    ("Report", "host update_id epoch sequence time"),
    ("ReportedChange", "to at outcome reported"),
    ("StateCounts", "reports expired counts omitted"),
    ("StopsAlone", "all groups released"),
    ("Token", "name role created"),
    ("Unwise", "kind name key code what advice"),
    ("Verified", "records head"),
    ("WriteResult", "changed effects"),
];

#[test]
fn what_an_older_server_does_not_say_is_not_needed() {
    let mut needed = BTreeMap::new();
    let mut add = |schema: Schema| {
        let root = schema.to_value();
        let title = root["title"].as_str().unwrap().to_owned();
        let parts = root["$defs"].as_object().into_iter().flatten().map(|(name, part)| (name.clone(), part));
        for (name, schema) in parts.chain([(title, &root)]) {
            let keys = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            needed.insert(name, keys.collect::<Vec<_>>().join(" "));
        }
    };
    for schema in [
        schema_for!(HostList),
        schema_for!(Explained),
        schema_for!(AuditPage),
        schema_for!(Verified),
        schema_for!(Token),
        schema_for!(JoinToken),
        schema_for!(MadeToken),
        schema_for!(MadeToken<JoinToken>),
        schema_for!(WriteResult),
        schema_for!(KeptResource),
        schema_for!(AgentRollout),
        schema_for!(Acted),
        schema_for!(StateCounts),
        schema_for!(StopsAlone),
        schema_for!(DecidedMany),
    ] {
        add(schema);
    }
    needed.retain(|_, keys| !keys.is_empty());
    let always: BTreeMap<_, _> = ALWAYS.map(|(name, keys)| (name.to_owned(), keys.to_owned())).into();
    assert_eq!(needed, always);
}
