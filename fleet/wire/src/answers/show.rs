//! What a host is told, as JSON.

use fleet_engine::advice::Advice;
use fleet_engine::answer::HostAnswer;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::reason::Reason;
use crate::text::second;

/// RFD 0169's answer, with ours in an object of its own. To strangers a reason is a code and a time (FLEET §4).
pub fn find(answer: &HostAnswer) -> Value {
    let why = json!(answer.reason.why);
    json!({
        "agent_version": answer.version,
        "agent_auto_update": answer.update,
        "agent_update_jitter_seconds": answer.jitter,
        "fleet": {
            "rollout": answer.rollout,
            "attempt": answer.attempt,
            "why": { "code": why["code"] },
            "until": answer.reason.until.map(second),
        },
    })
}

/// What an operator is told of a host, since when its reason holds, where that is known, and what would change it.
pub fn explain(
    host: &str,
    state: &str,
    answer: &HostAnswer,
    since: Option<Timestamp>,
    advice: Option<&Advice>,
) -> Value {
    // A store that never confirmed anything has no time.
    let since = since.filter(|since| *since > Timestamp::UNIX_EPOCH).map(second);
    let why = Reason { since, advice: Some(advice.cloned()), ..Reason::now(answer.reason.why.clone()) };
    let mut why = json!(why);
    // It stands beside it.
    why.as_object_mut().and_then(|why| why.shift_remove("until"));
    json!({
        "host": host,
        "group": answer.group,
        "state": state,
        "version": answer.version,
        "update": answer.update,
        "why": why,
        "until": answer.reason.until.map(second),
    })
}
