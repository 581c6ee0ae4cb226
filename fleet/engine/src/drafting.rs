//! The directive that a controller drafts of the builds that signers list (DIRECTIVES §5.4). Pure.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use protocol::{Arch, Edition, Revision, Version};
use serde_json::{Value, json};

use crate::policy::GroupPolicy;
use crate::resource::BasicDirective;

/// A build of a version, as its archive's name says it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReleaseBuild {
    /// The version.
    pub version: Version,
    /// The edition.
    pub edition: Edition,
    /// The architecture.
    pub arch: Arch,
    /// Bytes of the archive.
    pub length: u64,
    /// Its SHA-256 in hex.
    pub sha256: String,
    /// What the signers say: the version has a security patch, and what it is about.
    pub security: Option<String>,
    /// The version's major is past its end of life.
    pub eol: bool,
}

impl ReleaseBuild {
    /// Of the archive called `name`; `None`: it is called as none of Teleport's for Linux.
    pub fn of(name: &str, length: u64, sha256: &str, custom: &Value) -> Option<Self> {
        let name = name.rsplit('/').next()?;
        let (_, rest) = name.split_once("-v")?;
        let (version, _) = rest.split_once("-linux-")?;
        let version: Version = version.parse().ok()?;
        let editions = [Edition::Oss, Edition::Enterprise, Edition::EnterpriseFips];
        let archs = [Arch::Amd64, Arch::Arm64, Arch::Arm, Arch::I386];
        let mut all = editions.into_iter().flat_map(|edition| archs.map(|arch| (edition, arch)));
        let is_called = |edition| Revision { version: version.clone(), edition };
        let (edition, arch) = all.find(|(edition, arch)| is_called(*edition).archive_name(*arch) == name)?;
        let said = &custom["teleport"];
        let security = match &said["security"] {
            Value::Bool(true) => Some(String::new()),
            Value::String(text) => Some(text.clone()),
            _ => None,
        };
        let eol = said["eol"] == true;
        Some(Self { version, edition, arch, length, sha256: sha256.to_owned(), security, eol })
    }

    fn target(&self) -> Value {
        json!({
            "version": self.version, "edition": self.edition.as_str(), "arch": self.arch.as_str(),
            "length": self.length.to_string(), "sha256": self.sha256,
        })
    }
}

/// `spec` of the directive: an entry for each of `basic`, or one for every host.
///
/// An entry that names no version gets the newest of each major, the lower ones first: a host stays at its own. Pre-releases come only
/// where one is written. `None`: nothing of what is listed is wanted.
pub fn draft(
    builds: &[ReleaseBuild],
    basic: &[BasicDirective],
    controller: &str,
    stale_after: Timestamp,
) -> Option<Value> {
    let basic = if basic.is_empty() { vec![BasicDirective::everybody()] } else { basic.to_vec() };
    let entries: Vec<Value> = basic.iter().filter_map(|basic| entry(builds, basic)).collect();
    if entries.is_empty() {
        return None;
    }
    let mut floor = json!({});
    let over = builds.iter().filter(|build| build.eol).map(|build| build.version.major()).max();
    if let Some(over) = over {
        floor["end_of_life"] = json!(format!("v{over}"));
    }
    let patches: BTreeMap<&Version, &String> =
        builds.iter().filter_map(|build| Some((&build.version, build.security.as_ref()?))).collect();
    if !patches.is_empty() {
        let patches = patches.into_iter().map(|(version, desc)| json!({ "version": version, "desc": desc }));
        floor["security_patches"] = patches.collect();
    }
    Some(json!({
        "version_controller": controller, "config_id": controller, "stale_after": stale_after, "critical_floor": floor,
        "directives": entries,
    }))
}

fn entry(builds: &[ReleaseBuild], basic: &BasicDirective) -> Option<Value> {
    // Of each edition and architecture: not each version is built for all.
    let mut newest: BTreeMap<(u64, Edition, Arch), &ReleaseBuild> = BTreeMap::new();
    for build in builds {
        let version = &build.version;
        // Of each pattern, or without one of each major.
        let places: Vec<u64> = match basic.versions.as_slice() {
            [] => (!version.is_prerelease()).then(|| version.major()).into_iter().collect(),
            patterns => (0..).zip(patterns).filter(|(_, pattern)| pattern.takes(version)).map(|(at, _)| at).collect(),
        };
        for place in places {
            let known = newest.entry((place, build.edition, build.arch)).or_insert(build);
            if known.version.precedes(version) {
                *known = build;
            }
        }
    }
    let newest: BTreeSet<&ReleaseBuild> = newest.into_values().collect();
    let mut targets: Vec<Value> = newest.into_iter().map(ReleaseBuild::target).collect();
    // What is too many is of the lowest majors.
    targets.drain(..targets.len().saturating_sub(GroupPolicy::MOST_TARGETS));
    if targets.is_empty() {
        return None;
    }
    let installer = json!({ "kind": basic.installer.kind(), "name": basic.installer.name() });
    Some(json!({ "name": basic.name, "selectors": basic.selectors, "targets": targets, "installers": [installer] }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resource::{Resource, read_json};

    fn builds(names: &[&str]) -> Vec<ReleaseBuild> {
        names.iter().filter_map(|name| ReleaseBuild::of(name, 7, &"ab".repeat(32), &Value::Null)).collect()
    }

    fn drafted(names: &[&str], spec: Value) -> Value {
        let mut whole = json!({ "url": "https://tuf.example.com", "root": "{\"signed\":{\"_type\":\"root\"}}" });
        whole["directives"] = spec;
        let document =
            json!({ "kind": "version-controller", "sub_kind": "tuf", "metadata": { "name": "x" }, "spec": whole });
        let Ok(Resource::Controller(object)) = read_json(&document, 1) else { panic!("{document}") };
        let spec = draft(&builds(names), &object.model.basic, "tuf/x", Timestamp::UNIX_EPOCH).unwrap();
        // What is drafted is a directive.
        read_json(&json!({ "kind": "version-directive", "spec": spec }), 1).unwrap();
        spec
    }

    const NAMES: [&str; 7] = [
        "teleport-v16.5.0-linux-amd64-bin.tar.gz",
        "teleport-v17.1.0-linux-amd64-bin.tar.gz",
        "teleport-v17.2.0-linux-amd64-bin.tar.gz",
        "teleport-ent-v17.2.0-linux-arm64-fips-bin.tar.gz",
        "teleport-v18.0.0-rc.1-linux-amd64-bin.tar.gz",
        "teleport-v17.2.0-windows-amd64-bin.zip",
        "other.txt",
    ];

    fn versions(spec: &Value) -> Vec<&str> {
        let targets = spec["directives"][0]["targets"].as_array().unwrap();
        targets.iter().map(|target| target["version"].as_str().unwrap()).collect()
    }

    #[test]
    fn r9_a_host_stays_at_its_major_unless_an_entry_names_others() {
        let spec = drafted(&NAMES, json!([]));
        assert_eq!(versions(&spec), ["16.5.0", "17.2.0", "17.2.0"]);
        let target = &spec["directives"][0]["targets"][2];
        assert_eq!((&target["edition"], &target["arch"]), (&json!("enterprise-fips"), &json!("arm64")));
        let more = [&NAMES[..], &["teleport-v17.1.5-linux-arm64-bin.tar.gz"]].concat();
        assert_eq!(versions(&drafted(&more, json!([]))), ["16.5.0", "17.1.5", "17.2.0", "17.2.0"], "of each build");
        let entry = |targets: &[&str]| {
            let targets: Vec<_> = targets.iter().map(|version| json!({ "version": version })).collect();
            json!([{ "name": "a", "target_selectors": targets, "server_selectors": [{ "group": "a" }], "installer": "tuf" }])
        };
        let spec = drafted(&NAMES, entry(&["v17.1.*", "16.*"]));
        assert_eq!(versions(&spec), ["16.5.0", "17.1.0"]);
        assert_eq!(spec["directives"][0]["selectors"], json!([{ "group": "a" }]));
        assert_eq!(versions(&drafted(&NAMES, entry(&["18.0.0-rc.1"]))), ["18.0.0-rc.1"], "where one is written");
        assert_eq!(draft(&builds(&["other.txt"]), &[], "tuf/x", Timestamp::UNIX_EPOCH), None);
    }
}
