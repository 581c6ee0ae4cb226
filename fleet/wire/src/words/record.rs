//! What a record says besides who did what.

use fleet_engine::host::NamedHost;
use fleet_engine::reason::Why;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::lenient::word;
use crate::reason::sentence;
use crate::text::clean;

use super::host;

/// The detail of a record in words; empty: nothing is worth saying. A halt is said as its reason is.
pub fn detail(detail: &Value) -> String {
    let Value::Object(keys) = detail else { return words(detail) };
    if let Some(message) = keys.get("message").filter(|message| message.is_string()) {
        return words(message);
    }
    halt(keys).unwrap_or_else(|| {
        // The subject has the name, and a sample its hosts.
        let is_said = |key: &str| key == "hostname" || (key == "sample" && keys.contains_key("hosts"));
        let keys = keys.iter().filter(|(key, _)| !is_said(key));
        let said = keys.map(|(key, value)| (clean(&key.replace('_', " ")).into_owned(), words(value)));
        let said = said.filter(|(_, value)| !value.is_empty()).map(|(key, value)| format!("{key}: {value}"));
        said.collect::<Vec<_>>().join(", ")
    })
}

fn halt(keys: &Map<String, Value>) -> Option<String> {
    let mut why = keys.clone();
    why.insert("code".to_owned(), "halted".into());
    let why: Why = keys.get("rule").and_then(|_| serde_json::from_value(Value::Object(why)).ok())?;
    Some(sentence(&why))
}

/// What is not, or not so, is not said.
fn words(value: &Value) -> String {
    match value {
        Value::Null | Value::Bool(false) => String::new(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Array(values)
            if !values.is_empty()
                && let Ok(hosts) = Vec::<NamedHost>::deserialize(value) =>
        {
            host::names(&hosts).join(", ")
        }
        Value::Array(values) => values.iter().map(words).collect::<Vec<_>>().join(" "),
        Value::Object(keys) => {
            keys.iter().map(|(key, value)| format!("{}={}", clean(key), words(value))).collect::<Vec<_>>().join(" ")
        }
        value => clean(&word(value)).into_owned(),
    }
}
