//! What a cluster wants of its agents: both dialects of the find answer, read and written.

use serde_json::json;

use super::keys::{Keys, NESTED, Value};
use crate::error::{Kind, ParseError};
use crate::{Edition, Version};

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

/// How an answer is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    /// RFD 0169's: everything at the top.
    Flat,
    /// Today's proxies': below `auto_update`, and the edition as `edition` and `fips`.
    Nested,
}

impl Directive {
    /// The answer as JSON. What others may want beside it (`server_version`, `tools_version`) is the caller's to add.
    pub fn write(&self, dialect: Dialect) -> serde_json::Value {
        let updates = json!({
            "agent_version": self.version,
            "agent_auto_update": self.in_window,
            "agent_update_jitter_seconds": self.jitter_seconds,
        });
        let (mut answer, key, edition) = match dialect {
            Dialect::Flat => (updates, "server_edition", self.edition.map(Edition::as_str)),
            Dialect::Nested => {
                let edition = self.edition.map(|edition| if edition == Edition::Oss { "oss" } else { "ent" });
                let fips = self.edition == Some(Edition::EnterpriseFips);
                (json!({ NESTED: updates, "fips": fips }), "edition", edition)
            }
        };
        if let Some(edition) = edition {
            answer[key] = edition.into();
        }
        answer
    }

    /// Reads an answer's body in either dialect: RFD 0169's flat keys or today's proxies' nested ones. A flat version that is
    /// absent, null or empty says nothing.
    ///
    /// Errors: [`Kind::Answer`] for what is no find answer or has no usable version, [`Kind::Edition`]
    /// for an edition nobody knows. The outer one: the body is not JSON.
    pub fn parse(body: &[u8]) -> serde_json::Result<Result<Self, ParseError>> {
        Ok(Self::of(Keys::read(body)?.as_ref()))
    }

    fn of(answer: Option<&Keys>) -> Result<Self, ParseError> {
        let wrong = |what: &str| ParseError::new(Kind::Answer, what);
        let top = answer.ok_or_else(|| wrong("the answer is not a JSON object"))?;
        let updates = if let (None, Some(nested)) = (text(top, "agent_version")?, top.nested()) { nested } else { top };
        let version = text(updates, "agent_version")?
            .ok_or_else(|| wrong("the answer names no agent_version").advise("enable agent updates in the cluster"))?;
        let version = version.parse().map_err(|error: ParseError| wrong(&format!("agent_version: {}", error.what)))?;
        let in_window = flag(updates, "agent_auto_update")?;
        let jitter_seconds = match updates.get("agent_update_jitter_seconds") {
            None => 0,
            // In range by the clamp.
            Some(Value::Number(seconds)) => seconds.clamp(0.0, f64::from(MAX_JITTER_SECONDS)) as u32,
            Some(_) => return Err(wrong("agent_update_jitter_seconds is not a number")),
        };
        Ok(Self { version, edition: edition(top)?, in_window, jitter_seconds })
    }
}

fn edition(top: &Keys) -> Result<Option<Edition>, ParseError> {
    let named = match text(top, "server_edition")? {
        Some(name) => Some(name),
        None => text(top, "edition")?,
    };
    let named = named.map(str::parse::<Edition>).transpose()?;
    // FIPS builds exist as enterprise ones only (SPEC §4).
    Ok(if flag(top, "fips")? { Some(Edition::EnterpriseFips) } else { named })
}

/// A boolean; absent and null are false.
fn flag(keys: &Keys, key: &str) -> Result<bool, ParseError> {
    match keys.get(key) {
        None => Ok(false),
        Some(Value::Bool(value)) => Ok(*value),
        Some(_) => Err(ParseError::new(Kind::Answer, format!("{key} is not true or false"))),
    }
}

/// A string; absent, null and empty are the same.
fn text<'a>(keys: &'a Keys, key: &str) -> Result<Option<&'a str>, ParseError> {
    match keys.get(key) {
        None => Ok(None),
        Some(Value::Text(text)) => Ok(Some(text.trim()).filter(|text| !text.is_empty())),
        Some(_) => Err(ParseError::new(Kind::Answer, format!("{key} is not a string"))),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    const EDITIONS: [Edition; 3] = [Edition::Oss, Edition::Enterprise, Edition::EnterpriseFips];

    proptest! {
        #[test]
        fn what_is_written_in_either_dialect_is_read_the_same(
            numbers in (0u64..100, 0u64..100, 0u64..100),
            edition in proptest::option::of(proptest::sample::select(EDITIONS.to_vec())),
            in_window: bool,
            jitter_seconds in 0..=MAX_JITTER_SECONDS,
        ) {
            let version = format!("{}.{}.{}-rc.1", numbers.0, numbers.1, numbers.2).parse().unwrap();
            let directive = Directive { version, edition, in_window, jitter_seconds };
            for dialect in [Dialect::Flat, Dialect::Nested] {
                prop_assert_eq!(&read(directive.write(dialect)).unwrap(), &directive);
            }
        }
    }

    #[test]
    fn the_keys_are_those_of_each_dialect() {
        let directive = Directive {
            version: "15.1.1".parse().unwrap(),
            edition: Some(Edition::EnterpriseFips),
            in_window: true,
            jitter_seconds: 10,
        };
        let flat = r#"{"agent_version":"15.1.1","agent_auto_update":true,"agent_update_jitter_seconds":10,"server_edition":"enterprise-fips"}"#;
        let nested = r#"{"auto_update":{"agent_version":"15.1.1","agent_auto_update":true,"agent_update_jitter_seconds":10},"fips":true,"edition":"ent"}"#;
        for (dialect, written) in [(Dialect::Flat, flat), (Dialect::Nested, nested)] {
            assert_eq!(directive.write(dialect).to_string(), written);
        }
    }

    fn read(answer: Value) -> Result<Directive, ParseError> {
        Directive::parse(answer.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn both_dialects_say_version_edition_window_and_jitter() {
        let flat = |edition: &str| {
            json!({
                "server_edition": edition, "agent_version": "15.1.1",
                "agent_auto_update": true, "agent_update_jitter_seconds": 10
            })
        };
        let nested = |edition: &str, fips: Value| {
            json!({
                "server_version": "17.5.0", "cluster_name": "c", "edition": edition, "fips": fips,
                "auto_update": {"agent_version": "v15.1.1", "agent_auto_update": false,
                                "agent_update_jitter_seconds": 60.0, "tools_version": "1.0.0"}
            })
        };
        let beside = json!({"agent_version": "15.1.1", "agent_auto_update": true});
        let silent = |flat: Value| json!({"agent_version": flat, "auto_update": beside});
        let jitter = |seconds: Value| json!({"agent_version": "15.1.1", "agent_update_jitter_seconds": seconds});
        for (answer, edition, in_window, jitter_seconds) in [
            (flat("enterprise"), Some(Edition::Enterprise), true, 10),
            (nested("ent", json!(false)), Some(Edition::Enterprise), false, 60),
            (nested("ent", json!(null)), Some(Edition::Enterprise), false, 60),
            (nested("ent", json!(true)), Some(Edition::EnterpriseFips), false, 60),
            (nested("community", json!(false)), Some(Edition::Oss), false, 60),
            (nested("oss", json!(false)), Some(Edition::Oss), false, 60),
            (nested("", json!(false)), None, false, 60),
            // A flat version that says nothing leaves the nested one.
            (silent(json!(null)), None, true, 0),
            (silent(json!("")), None, true, 0),
            (silent(json!(" ")), None, true, 0),
            // A jitter is cut at both ends.
            (jitter(json!(7200)), None, false, MAX_JITTER_SECONDS),
            (jitter(json!(-5)), None, false, 0),
            (jitter(json!(1e300)), None, false, MAX_JITTER_SECONDS),
        ] {
            let wanted = Directive { version: "15.1.1".parse().unwrap(), edition, in_window, jitter_seconds };
            assert_eq!(read(answer.clone()).unwrap(), wanted, "{answer}");
        }
    }

    #[test]
    fn what_others_put_beside_the_known_keys_does_not_matter() {
        let good = r#""agent_version":"15.1.1","agent_auto_update":true,"auto_update":{"x":1e999}"#;
        let deep = "[".repeat(1000) + &"]".repeat(1000);
        for odd in [
            r#""x":1e999"#,
            r#""x":"\ud800""#,
            r#""\ud800":1"#,
            r#""x":{"agent_version":"1.0.0","y":[1e999,{}]}"#,
            &format!("\"x\":{deep}"),
        ] {
            for body in [format!("{{{odd},{good}}}"), format!("\u{feff}{{{good},{odd}}}")] {
                let directive = Directive::parse(body.as_bytes()).unwrap_or_else(|error| panic!("{body}: {error}"));
                assert_eq!(directive.unwrap().version.to_string(), "15.1.1", "{body}");
            }
        }
        for cut in ["", "{", r#"{"agent_version":"15.1.1""#, r#"{"agent_version":"15.1.1"}x"#, "<html>"] {
            assert!(Directive::parse(cut.as_bytes()).is_err(), "{cut}");
        }
    }

    #[test]
    fn what_is_no_find_answer_is_an_error() {
        let fips = |fips: Value| json!({"agent_version": "1.0.0", "edition": "ent", "fips": fips});
        for bad in [
            json!([]),
            json!({}),
            json!({"message": "not found"}),
            json!({"auto_update": {}}),
            json!({"agent_version": ""}),
            json!({"agent_version": 15}),
            json!({"agent_version": 1, "auto_update": {"agent_version": "15.1.1", "agent_auto_update": true}}),
            json!({"agent_version": "../../etc"}),
            json!({"agent_version": "1.0.0", "agent_auto_update": "yes"}),
            json!({"agent_version": "1.0.0", "agent_update_jitter_seconds": "10"}),
            fips(json!("true")),
            fips(json!(1)),
            fips(json!([])),
            fips(json!({})),
        ] {
            assert_eq!(read(bad.clone()).unwrap_err().kind, Kind::Answer, "{bad}");
        }
        let error = read(json!({"agent_version": "1.0.0", "server_edition": "platinum"})).unwrap_err();
        assert!(error.kind == Kind::Edition && error.what.contains("platinum"), "{error:?}");
    }
}
