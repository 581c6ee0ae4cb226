//! All that a server shows, without what is different in each run.

use serde_json::{Value, json};

use super::http::Request;
use super::server::Server;

/// Kinds of resources.
const KINDS: [&str; 5] =
    ["autoupdate_config", "autoupdate_version", "autoupdate_agent_report", "fleet_channel", "fleet_release"];
/// What hosts may ask.
const QUESTIONS: [&str; 4] =
    ["/v1/webapi/find?group=dev", "/v1/webapi/find?group=prod", "/v1/one/version", "/v1/two/version"];
/// What ids of test hosts begin with: they are the same in each run.
const OWN: &str = "00000000-";
/// Characters of a UUID, and where its hyphens are.
const UUID: (usize, [usize; 4]) = (36, [8, 13, 18, 23]);
/// Characters of a time up to its seconds: `2026-01-05T12:00:00`.
const TIME: usize = 19;

/// What the server shows of itself: of the audit log what was done; its chain is looked at by [`fault`].
///
/// # Errors
/// What it does not answer.
pub(super) fn view(server: &Server) -> Result<Value, String> {
    let look = |request: Request| {
        let answer = server.ask(&request).ok_or_else(|| format!("no answer to {}", request.path))?;
        let is_known = matches!(answer.status, 200 | 404);
        let told = if answer.json().is_null() { Value::from(answer.text()) } else { answer.json() };
        if is_known { Ok(told) } else { Err(format!("{}: {}", request.path, answer.text())) }
    };
    let mut shown = json!({});
    for path in ["rollout", "rollouts", "tokens", "hosts?limit=1000"] {
        shown[path] = look(Request::get(&format!("/v1/fleet/{path}")))?;
    }
    // It counts every write, those of a start among them.
    if let Some(metadata) = shown["rollout"]["metadata"].as_object_mut() {
        metadata.remove("revision");
    }
    // Its line ends with the time since the host last asked.
    for host in shown["hosts?limit=1000"]["hosts"].as_array_mut().into_iter().flatten() {
        host.as_object_mut().and_then(|host| host.remove("status"));
    }
    for kind in KINDS {
        shown[kind] = look(Request::get(&format!("/v1/fleet/resources/{kind}")))?;
    }
    for path in QUESTIONS {
        shown[path] = look(Request::host(path))?;
    }
    let audit = look(Request::get("/v1/fleet/audit?limit=1000"))?;
    let records = audit["entries"].as_array().into_iter().flatten().filter(|record| record["done"] == true);
    shown["audit"] = records.map(|record| json!([record["action"], record["subject"], record["detail"]])).collect();
    let mut files: Vec<String> = std::fs::read_dir(server.data())
        .map_err(|error| error.to_string())?
        .flatten()
        .map(|file| file.file_name().to_string_lossy().into_owned())
        .collect();
    files.sort();
    shown["files"] = files.into();
    // YAML quotes a UUID that looks like a number.
    let settled = settled(&shown.to_string()).replace("\\\"U\\\"", "U");
    serde_json::from_str(&settled).map_err(|error| error.to_string())
}

/// What is wrong with the audit log's chain.
pub(super) fn fault(server: &Server) -> Result<(), String> {
    let answer = server.ask(&Request::get("/v1/fleet/audit/verify")).ok_or("audit verify is not answered")?;
    let is_whole = answer.status == 200 && answer.json()["fault"].is_null();
    if is_whole { Ok(()) } else { Err(format!("audit: {}", answer.text())) }
}

/// Where two views differ, with both values.
pub(super) fn difference(one: &Value, other: &Value) -> String {
    let mut found = Vec::new();
    differ("", one, other, &mut found);
    found.join("; ")
}

fn differ(path: &str, one: &Value, other: &Value, found: &mut Vec<String>) {
    match (one, other) {
        (Value::Object(one), Value::Object(other)) if one.keys().eq(other.keys()) => {
            one.iter().for_each(|(key, value)| differ(&format!("{path}.{key}"), value, &other[key], found));
        }
        (Value::Array(one), Value::Array(other)) if one.len() == other.len() => {
            let both = one.iter().zip(other).enumerate();
            both.for_each(|(index, (one, other))| differ(&format!("{path}[{index}]"), one, other, found));
        }
        _ if one == other => {}
        _ => found.push(format!("{path}: {one}, {other}")),
    }
}

/// The text with `T` for each time and `U` for each UUID that is made up anew in each run.
fn settled(text: &str) -> String {
    let mut settled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (mark, length) = match (time(rest), uuid(rest)) {
            (Some(length), _) => ("T", length),
            (None, Some(length)) => ("U", length),
            (None, None) => ("", first.len_utf8()),
        };
        settled.push_str(if mark.is_empty() { &rest[..length] } else { mark });
        rest = &rest[length..];
    }
    settled
}

fn uuid(text: &str) -> Option<usize> {
    let (length, hyphens) = UUID;
    let candidate = text.get(..length)?;
    let fits = |(at, byte): (usize, u8)| if hyphens.contains(&at) { byte == b'-' } else { byte.is_ascii_hexdigit() };
    (candidate.bytes().enumerate().all(fits) && !candidate.starts_with(OWN)).then_some(length)
}

fn time(text: &str) -> Option<usize> {
    let candidate = text.get(..TIME)?;
    let fits = |(pattern, byte): (u8, u8)| if pattern == b'0' { byte.is_ascii_digit() } else { byte == pattern };
    let is_time = "0000-00-00T00:00:00".bytes().zip(candidate.bytes()).all(fits);
    let more = text[TIME..].find(|char: char| !char.is_ascii_digit() && char != '.')?;
    let end = TIME + more + usize::from(text[TIME + more..].starts_with('Z'));
    is_time.then_some(end)
}
