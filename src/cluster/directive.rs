//! What a cluster wants of its agents, read from either dialect of the find answer. Pure.

use serde_json::{Map, Value};

use crate::release::{Edition, Version};
use crate::report::{Code, Error, Result};

/// Longest jitter, seconds (SPEC §5): a longer one is cut.
pub const MAX_JITTER_SECONDS: u32 = 3600;

/// The answer to find (SPEC §3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directive {
    /// The version agents should run.
    pub version: Version,
    /// The edition; `None` when the cluster names none.
    pub edition: Option<Edition>,
    /// Whether agents may update now.
    pub in_window: bool,
    /// Over how many seconds a fleet's updates are spread; at most [`MAX_JITTER_SECONDS`].
    pub jitter_seconds: u32,
}

impl Directive {
    /// Reads either dialect: RFD 0169's flat keys or today's proxies' nested ones.
    ///
    /// Errors: [`Code::ClusterAnswer`] for what is no find answer or has no usable version, [`Code::EditionUnknown`]
    /// for an edition nobody knows.
    pub fn from_json(answer: &Value) -> Result<Self> {
        let wrong = |what: &str| Error::new(Code::ClusterAnswer, what);
        let top = answer.as_object().ok_or_else(|| wrong("the answer is not a JSON object"))?;
        let nested = top.get("auto_update").and_then(Value::as_object);
        let updates = if top.contains_key("agent_version") { top } else { nested.unwrap_or(top) };
        let version = text(updates, "agent_version")?
            .ok_or_else(|| wrong("the answer names no agent_version").advise("enable agent updates in the cluster"))?;
        let version = version.parse().map_err(|error: Error| wrong(&format!("agent_version: {}", error.what)))?;
        let in_window = match updates.get("agent_auto_update") {
            None | Some(Value::Null) => false,
            Some(value) => value.as_bool().ok_or_else(|| wrong("agent_auto_update is not true or false"))?,
        };
        let jitter_seconds = match updates.get("agent_update_jitter_seconds") {
            None | Some(Value::Null) => 0,
            Some(value) => {
                let seconds = value.as_f64().ok_or_else(|| wrong("agent_update_jitter_seconds is not a number"))?;
                // In range by the clamp.
                seconds.clamp(0.0, f64::from(MAX_JITTER_SECONDS)) as u32
            }
        };
        Ok(Self { version, edition: edition(top)?, in_window, jitter_seconds })
    }
}

fn edition(top: &Map<String, Value>) -> Result<Option<Edition>> {
    let named = match text(top, "server_edition")? {
        Some(name) => Some(name),
        None => text(top, "edition")?,
    };
    let named = named.map(str::parse::<Edition>).transpose()?;
    // FIPS builds exist as enterprise ones only (SPEC §4).
    if top.get("fips").and_then(Value::as_bool) == Some(true) {
        return Ok(Some(Edition::EnterpriseFips));
    }
    Ok(named)
}

/// A string; absent, null and empty are the same.
fn text<'a>(map: &'a Map<String, Value>, key: &str) -> Result<Option<&'a str>> {
    match map.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
        Some(_) => Err(Error::new(Code::ClusterAnswer, format!("{key} is not a string"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(answer: Value) -> Result<Directive> {
        Directive::from_json(&answer)
    }

    #[test]
    fn the_flat_dialect_of_the_rfd_is_read() {
        let directive = read(json!({
            "server_edition": "enterprise", "agent_version": "15.1.1",
            "agent_auto_update": true, "agent_update_jitter_seconds": 10
        }))
        .unwrap();
        assert_eq!(directive.version.to_string(), "15.1.1");
        assert_eq!(directive.edition, Some(Edition::Enterprise));
        assert!(directive.in_window);
        assert_eq!(directive.jitter_seconds, 10);
    }

    #[test]
    fn the_nested_dialect_of_todays_proxies_is_read() {
        let answer = |edition: &str, fips: bool| {
            json!({
                "server_version": "17.5.0", "cluster_name": "c", "edition": edition, "fips": fips,
                "auto_update": {"agent_version": "v15.1.1", "agent_auto_update": false,
                                "agent_update_jitter_seconds": 60.0, "tools_version": "1.0.0"}
            })
        };
        let directive = read(answer("ent", false)).unwrap();
        assert_eq!(directive.version.to_string(), "15.1.1");
        assert_eq!((directive.edition, directive.in_window), (Some(Edition::Enterprise), false));
        assert_eq!(directive.jitter_seconds, 60);
        assert_eq!(read(answer("ent", true)).unwrap().edition, Some(Edition::EnterpriseFips));
        assert_eq!(read(answer("community", false)).unwrap().edition, Some(Edition::Oss));
        assert_eq!(read(answer("oss", false)).unwrap().edition, Some(Edition::Oss));
        assert_eq!(read(answer("", false)).unwrap().edition, None);
    }

    #[test]
    fn an_unknown_edition_is_named() {
        let error = read(json!({"agent_version": "1.0.0", "server_edition": "platinum"})).unwrap_err();
        assert_eq!(error.code, Code::EditionUnknown);
        assert!(error.what.contains("platinum"));
    }

    #[test]
    fn a_jitter_is_cut_at_both_ends() {
        for (given, expected) in [(json!(7200), MAX_JITTER_SECONDS), (json!(-5), 0), (json!(1e300), MAX_JITTER_SECONDS)]
        {
            let answer = json!({"agent_version": "1.0.0", "agent_update_jitter_seconds": given});
            assert_eq!(read(answer).unwrap().jitter_seconds, expected);
        }
    }

    #[test]
    fn what_is_no_find_answer_is_an_error() {
        for bad in [
            json!([]),
            json!({}),
            json!({"message": "not found"}),
            json!({"auto_update": {}}),
            json!({"agent_version": ""}),
            json!({"agent_version": 15}),
            json!({"agent_version": "../../etc"}),
            json!({"agent_version": "1.0.0", "agent_auto_update": "yes"}),
            json!({"agent_version": "1.0.0", "agent_update_jitter_seconds": "10"}),
        ] {
            assert_eq!(read(bad.clone()).unwrap_err().code, Code::ClusterAnswer, "{bad}");
        }
    }
}
