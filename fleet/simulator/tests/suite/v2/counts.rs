//! FLEET §5: how many hosts of a group run which version, as another server counts them or as they report.

use serde_json::{Value, json};

use super::{Steps, resource};
use crate::support::Script;

fn agent_report(groups: &Value) -> Value {
    resource("autoupdate_agent_report", &json!({ "timestamp": super::t("Mon 11:00"), "groups": groups }))
}

fn of_many(groups: usize, versions: usize) -> Value {
    let versions: serde_json::Map<String, Value> =
        (0..versions).map(|patch| (format!("17.2.{patch}"), json!({ "count": 1 }))).collect();
    let groups: serde_json::Map<String, Value> =
        (0..groups).map(|number| (format!("g{number}"), json!({ "versions": versions }))).collect();
    agent_report(&Value::Object(groups))
}

#[test]
fn a_report_has_at_most_fifty_groups_and_twenty_versions_of_each() {
    let taken = |put: Value| Script::default().on("Mon 11:00", put).run().is_empty();
    assert!(taken(of_many(50, 20)));
    assert!(!taken(of_many(51, 1)));
    assert!(!taken(of_many(1, 21)));
}
