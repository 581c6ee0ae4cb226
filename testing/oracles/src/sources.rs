//! Sources of versions: whatever a server or a file says, a host goes nowhere that the rules do not lead to.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;
use protocol::Version;
use serde_json::Value;
use teleport_update::testing::Code;
use teleport_update::testing::sources;
use tempfile::TempDir;

thread_local! {
    static DIR: TempDir = crate::sandbox::dir();
}

/// Any text as a source: what is accepted is shown as something that means the same, and an error tells no password.
pub fn source(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match sources::source(text) {
        Ok((shown, origin)) => {
            assert_eq!(sources::source(&shown).unwrap().0, shown, "{text:?}");
            assert!(origin.is_none_or(|origin| origin.starts_with("https://") || origin.starts_with("http://")));
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
    let hour = Duration::from_secs(3600);
    let Ok((_, next)) = sources::window(text, hour, now) else { return };
    if let Some(next) = next {
        assert!(next > now, "{text:?}: {next}");
        assert!(sources::window(text, hour, next).unwrap().0, "{text:?} is not open at its beginning {next}");
    }
}

/// Any bytes as a graph: what is chosen is a successor of this host's version, not refused, and not lower.
pub fn update_graph(bytes: &[u8]) {
    let Ok(body) = std::str::from_utf8(bytes) else { return };
    let own: Version = "1.0.0".parse().unwrap();
    let refused: Version = "1.2.0".parse().unwrap();
    let Ok(Some(chosen)) = sources::graph(body, &own, &[&refused], false) else { return };
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
    DIR.with(|dir| {
        let file = dir.path().join("release.yaml");
        std::fs::write(&file, bytes).unwrap();
        match sources::release_file(&file) {
            Ok(Some(version)) => crate::strings::assert_version(&version),
            Ok(None) => {}
            Err(error) => assert!(error.what.contains("release.yaml"), "{error}"),
        }
    });
}
