//! Sources of versions: whatever a server or a file says, a host goes nowhere that the rules do not lead to.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use protocol::Version;
use serde_json::Value;
use sources::{Choice, Source, Window, Word};
use teleport_update::testing::Code;

/// A zone's rules are its name (POSIX's TZ): so there are zones of any kind.
fn zone_of(name: &str) -> Option<TimeZone> {
    TimeZone::posix(if ["", "UTC"].contains(&name) { "UTC0" } else { name }).ok()
}

/// Any text as a source: what is accepted is shown as something that means the same, and an error tells no password.
pub fn source(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match text.parse::<Source>() {
        Ok(source) => {
            let shown = source.to_string();
            assert_eq!(shown.parse::<Source>().unwrap().to_string(), shown, "{text:?}");
            let is_of_http = |origin: String| origin.starts_with("https://") || origin.starts_with("http://");
            assert!(source.origin().is_none_or(is_of_http));
            assert!(!shown.contains(['#', '\n', '\u{1b}']), "{shown:?}");
        }
        Err(error) => assert_eq!(error.code, Code::Usage),
    }
}

/// Any text as a window: it is open where it begins, and its next beginning is later.
pub fn calendar(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // Each line costs a search of a week.
    if text.len() > 300 || text.lines().count() > 4 {
        return;
    }
    let now: Timestamp = "2026-11-24T03:59:30Z".parse().unwrap();
    let Ok(window) = Window::parse(text, Duration::from_secs(3600), &zone_of) else { return };
    if let Some(next) = window.next(now) {
        assert!(next > now, "{text:?}: {next}");
        assert!(window.is_open(next), "{text:?} is not open at its beginning {next}");
    }
}

/// Any bytes as a graph: what is chosen is a successor of this host's version, not refused, and not lower.
pub fn update_graph(bytes: &[u8]) {
    let Ok(body) = std::str::from_utf8(bytes) else { return };
    let own: Version = "1.0.0".parse().unwrap();
    let refused: Version = "1.2.0".parse().unwrap();
    let choice = Choice { who: "this host", own: Some(&own), refused: &[&refused], downwards: false };
    let Ok(Word::Version(said)) = sources::choose(body, &choice) else { return };
    let chosen = said.version;
    assert!(own.precedes(&chosen) && chosen != refused, "{chosen}");
    let value: Value = serde_json::from_str(body).unwrap();
    let version = |index: &Value| -> Version {
        let node = &value["nodes"][usize::try_from(index.as_u64().unwrap()).unwrap()];
        node["version"].as_str().unwrap().parse().unwrap()
    };
    let edges = value["edges"].as_array().unwrap();
    let is_edge = |edge: &&Value| version(&edge[0]) == own && version(&edge[1]) == chosen;
    assert!(edges.iter().any(|edge| is_edge(&edge)), "no edge leads to {chosen}");
    let versions: BTreeSet<&str> =
        value["nodes"].as_array().unwrap().iter().map(|node| node["version"].as_str().unwrap()).collect();
    assert_eq!(versions.len(), value["nodes"].as_array().unwrap().len(), "a version twice");
}

/// Any bytes as `release.yaml`: a version that can be named in paths, or an error that names the file.
pub fn release_yaml(bytes: &[u8]) {
    match sources::file_word(Path::new("release.yaml"), bytes, &zone_of) {
        Ok((Word::Version(said), _)) => crate::strings::assert_version(&said.version),
        Ok((Word::Nothing(_), _)) => {}
        Err(error) => assert!(error.what.contains("release.yaml"), "{error}"),
    }
}
