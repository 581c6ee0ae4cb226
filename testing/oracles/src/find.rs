//! The find answer: what is read from it can be named in paths and URLs, and both dialects say the same.

use protocol::Kind;
use protocol::find::{Digests, Directive, MAX_JITTER_SECONDS};
use protocol::{Arch, Edition, Revision};
use serde_json::{Map, Value};

use crate::strings::assert_version;

/// The keys that stand at the top in one dialect and below `auto_update` in the other.
const MOVED: [&str; 3] = ["agent_version", "agent_auto_update", "agent_update_jitter_seconds"];

/// Any bytes as an answer's body.
pub fn find(bytes: &[u8]) {
    if let Err(error) = Digests::parse(bytes) {
        assert!(matches!(error.kind, Kind::Answer | Kind::Digest) && !error.what.is_empty(), "{error:?}");
    }
    let Ok(read) = Directive::parse(bytes) else { return };
    let directive = match read {
        Ok(directive) => directive,
        Err(error) => {
            let is_known = matches!(error.kind, Kind::Answer | Kind::Edition);
            assert!(is_known && !error.what.is_empty(), "{error:?}");
            return;
        }
    };
    assert_version(&directive.version);
    assert!(directive.jitter_seconds <= MAX_JITTER_SECONDS);
    let edition = directive.edition.unwrap_or(Edition::Oss);
    let revision = Revision { version: directive.version.clone(), edition };
    for arch in [Arch::Amd64, Arch::Arm64, Arch::Arm, Arch::I386] {
        let name = revision.archive_name(arch);
        assert!(!name.contains(['/', '\\', '\0', '%', '?', '#']) && name.len() < 255, "{name}");
    }
    // What stands beside the known keys may be too odd for a reader that keeps it.
    let Ok(answer) = serde_json::from_slice::<Value>(bytes) else { return };
    let Value::Object(top) = answer else { panic!("a directive from what is no object") };
    let other = Value::Object(other_dialect(top)).to_string();
    assert_eq!(Directive::parse(other.as_bytes()).unwrap(), Ok(directive));
}

/// The same answer as the other kind of proxy gives it.
fn other_dialect(mut top: Map<String, Value>) -> Map<String, Value> {
    if top.get("agent_version").is_some_and(|version| version.as_str().is_none_or(|text| !text.trim().is_empty())) {
        let nested: Map<String, Value> =
            MOVED.iter().filter_map(|key| Some(((*key).to_owned(), top.remove(*key)?))).collect();
        top.insert("auto_update".to_owned(), Value::Object(nested));
    } else if let Some(Value::Object(nested)) = top.remove("auto_update") {
        for key in MOVED {
            top.remove(key);
            if let Some(value) = nested.get(key) {
                top.insert(key.to_owned(), value.clone());
            }
        }
    }
    top
}
