//! What a rollout server puts beside the directive.

use serde::Deserialize;
use serde_json::Value;

#[derive(Deserialize)]
struct Answer {
    fleet: Value,
}

/// `fleet` of a find answer; `None`: a cluster's answer, which has none.
pub fn fleet(body: &[u8]) -> Option<Value> {
    serde_json::from_slice(body).ok().map(|Answer { fleet }| fleet)
}
