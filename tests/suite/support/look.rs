//! Small looks at a host, and the wait for what is on its way.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::Rig;

/// Longest wait for an event that is on its way.
const SOON: Duration = Duration::from_secs(30);

/// Waits for `condition`; `what` it is stands in the failure.
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let end = Instant::now() + SOON;
    while !condition() {
        assert!(Instant::now() < end, "not within {SOON:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A line of the journal, with its checksum.
pub(crate) fn record(json: &str) -> Vec<u8> {
    let sum = protocol::Digest::of(json.as_bytes()).to_string();
    format!("{} {json}\n", &sum[..8]).into_bytes()
}

/// Where a link leads.
pub(crate) fn link(path: &Path) -> String {
    std::fs::read_link(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).display().to_string()
}

/// The version that the agent's link below `root` leads to; empty without one.
pub(crate) fn version(root: &Path) -> String {
    let link = std::fs::read_link(root.join("usr/local/bin/teleport")).unwrap_or_default();
    link.components().rev().nth(2).map(|name| name.as_os_str().to_string_lossy().into_owned()).unwrap_or_default()
}

/// The value behind `key: ` in a YAML file of ours, at whatever depth.
pub(crate) fn setting(yaml: &str, key: &str) -> Option<String> {
    let value = yaml.lines().find_map(|line| line.trim_start().strip_prefix(&format!("{key}: ")))?;
    Some(value.trim_matches('"').to_owned())
}

/// A program of a version, as links name it.
pub(crate) fn binary(version: &str, name: &str) -> String {
    format!("/var/lib/teleport/versions/{version}/bin/{name}")
}

/// The names in a directory, sorted.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// A property that systemd shows of the agent's unit.
pub(crate) fn property(rig: &Rig, name: &str) -> String {
    rig.bed.sh(&format!("systemctl show -P {name} teleport")).trim().to_owned()
}

/// A manual page has nothing that groff warns of; where there is no groff, this says so.
#[track_caller]
pub(crate) fn renders(page: &str) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), page).unwrap();
    let Ok(groff) = Command::new("groff").args(["-man", "-Tascii", "-ww", "-z"]).arg(file.path()).output() else {
        eprintln!("skipped: no groff");
        return;
    };
    assert_eq!(String::from_utf8_lossy(&groff.stderr), "");
    assert!(groff.status.success());
}
