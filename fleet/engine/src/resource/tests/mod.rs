//! Resources as operators write them: what each field means, its range, its default, and what a fault says.

mod channel;
mod config;
mod envelope;
mod group;
mod hostile;
mod maintenance;
mod page;
mod release;
mod report;
mod rules;
mod seeds;
mod version;

use super::{Config, Maintenance, Resource, VersionSpec, read};
use crate::policy::{GroupPolicy, Policy};

/// The only resource of a text that is right.
fn one(text: &str) -> Resource {
    let mut resources = read(text).unwrap_or_else(|faults| panic!("{faults}\n{text}"));
    assert_eq!(resources.len(), 1, "{text}");
    resources.remove(0)
}

/// The faults of a text, a line each.
fn faults(text: &str) -> String {
    match read(text) {
        Ok(_) => panic!("nothing is wrong with\n{text}"),
        Err(faults) => faults.to_string(),
    }
}

/// A document of this kind, `spec` indented by two; `spec` begins in line 3.
fn document(kind: &str, spec: &str) -> String {
    let spec: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    format!("kind: {kind}\nspec:\n{spec}")
}

fn config(spec: &str) -> Config {
    match one(&document("autoupdate_config", spec)) {
        Resource::Config(object) => object.model,
        other => panic!("{other:?}"),
    }
}

fn version(spec: &str) -> VersionSpec {
    match one(&document("autoupdate_version", spec)) {
        Resource::Version(object) => object.model,
        other => panic!("{other:?}"),
    }
}

fn maintenance(spec: &str) -> Maintenance {
    match one(&document("cluster_maintenance_config", spec)) {
        Resource::Maintenance(object) => object.model,
        other => panic!("{other:?}"),
    }
}

/// The policy of an `autoupdate_config` that is enabled and has these keys of `agents`, in flow style.
fn policy(keys: &str) -> Policy {
    config(&format!("agents: {{mode: enabled, {keys}}}")).policy.unwrap()
}

/// A document with a list of groups in v2's dialect, each in flow style and in a line of its own, from line 9.
fn v2_text(strategy: &str, groups: &[&str]) -> String {
    let groups: String = groups.iter().map(|group| format!("      - {group}\n")).collect();
    let window = if strategy == "time-based" { "2h" } else { "0s" };
    format!(
        "kind: autoupdate_config\nspec:\n  agents:\n    mode: enabled\n    strategy: {strategy}\n    \
         maintenance_window_duration: {window}\n    schedules:\n      regular:\n{groups}"
    )
}

/// The same in the RFD's dialect, from line 5.
fn rfd_text(groups: &[&str]) -> String {
    let groups: String = groups.iter().map(|group| format!("    - {group}\n")).collect();
    format!("kind: cluster_maintenance_config\nspec:\n  agent_auto_update_groups:\n    regular:\n{groups}")
}

/// The groups of a text.
fn groups(text: &str) -> Vec<GroupPolicy> {
    match one(text) {
        Resource::Config(object) => object.model.policy.unwrap().regular,
        Resource::Maintenance(object) => object.model.policy.unwrap().regular,
        other => panic!("{other:?}"),
    }
}

/// A group of halt-on-error with these keys beside its name.
fn v2(keys: &str) -> GroupPolicy {
    groups(&v2_text("halt-on-error", &["{name: before}", &format!("{{name: g, {keys}}}")])).remove(1)
}

/// A group of the RFD with these keys beside its name.
fn rfd(keys: &str) -> GroupPolicy {
    groups(&rfd_text(&["{name: before}", &format!("{{name: g, {keys}}}")])).remove(1)
}

/// The only fault of such a group in either dialect, without line and key; both must be the same but for the key's beginning.
fn group_fault(keys: &str) -> String {
    let after = |text: String, list: &str| {
        let found = faults(&text);
        assert!(!found.contains('\n'), "{found}");
        found.split_once(&format!("{list}.regular[1].")).unwrap_or_else(|| panic!("{found}")).1.to_owned()
    };
    let group = format!("{{name: g, {keys}}}");
    let v2 = after(v2_text("halt-on-error", &["{name: before}", &group]), "line 10: spec.agents.schedules");
    let rfd = after(rfd_text(&["{name: before}", &group]), "line 6: spec.agent_auto_update_groups");
    assert_eq!(v2, rfd);
    v2
}

#[test]
fn each_text_has_these_faults_and_no_others() {
    let mut seen = 0;
    for case in include_str!("faults.txt").split("\n\n").skip(1) {
        let (wanted, text): (Vec<&str>, Vec<&str>) =
            case.lines().filter(|line| !line.starts_with("# ")).partition(|line| line.starts_with("-> "));
        let wanted: Vec<&str> = wanted.iter().filter_map(|line| line.strip_prefix("-> ")).collect();
        let found = match text[0].strip_prefix("group ") {
            Some(keys) => group_fault(keys),
            None => read(&text.join("\n")).map_or_else(|faults| faults.to_string(), |_| "taken".to_owned()),
        };
        assert_eq!(found, wanted.join("\n"), "{case}");
        seen += 1;
    }
    assert!(seen > 150, "only {seen} texts");
}
