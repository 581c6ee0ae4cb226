use serde_json::json;

use super::super::{Kind, Resource, read, read_json};
use super::{document, faults, one};

const VERSION: &str = "spec: {agent_version: 17.2.1}";

#[test]
fn every_kind_says_what_it_is() {
    for text in [
        "kind: autoupdate_config\nspec: {}",
        "kind: autoupdate_version\nspec: {}",
        "kind: cluster_maintenance_config\nspec: {}",
        "kind: fleet_channel\nmetadata: {name: stable/cloud}\nspec: {group: a}",
        "kind: fleet_release\nspec: {version: 17.2.1}",
        "kind: autoupdate_agent_report\nmetadata: {name: auth1}\nspec: {timestamp: 2026-01-01T00:00:00Z}",
    ] {
        let resource = one(text);
        assert_eq!(text.lines().next(), Some(format!("kind: {}", resource.kind()).as_str()));
        assert_eq!(Kind::named(resource.kind().as_str()), Some(resource.kind()));
    }
    assert_eq!(Kind::named("autoupdate_agent_reports"), Some(Kind::Report));
    assert_eq!(Kind::named("autoupdate"), None);
}

#[test]
fn an_unknown_kind_or_version_is_refused() {
    one(&format!("kind: autoupdate_version\nversion: v1\nsub_kind: \"\"\nstatus: {{}}\n{VERSION}"));
}

#[test]
fn all_faults_are_told_in_the_order_of_the_text_and_at_most_twenty() {
    let found = faults(
        "kind: autoupdate_config\nspec:\n  tools: {mode: maybe}\n  agents: {mode: off, strategy: 3}\n---\nkind: x\n",
    );
    let lines: Vec<&str> = found.lines().collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0], "line 3: spec.tools.mode: maybe is not enabled or disabled");
    assert_eq!(lines[1], "line 4: spec.agents.mode: off is not enabled, disabled or suspended");
    assert_eq!(lines[2], "line 4: spec.agents.strategy: 3 is not halt-on-error or time-based");
    assert!(lines[3].starts_with("line 6: kind: x is not autoupdate_config, "));
    let many: String = (0..50).map(|key| format!("k{key}: 1\n")).collect();
    let many = faults(&document("autoupdate_config", &many));
    assert_eq!(many.lines().count(), 20);
    assert!(many.starts_with("line 3: spec.k0: "));
}

#[test]
fn several_documents_are_read_and_none_stands_twice() {
    let text =
        format!("---\nkind: autoupdate_version\n{VERSION}\n---\n# nothing\n---\nkind: autoupdate_config\nspec: {{}}\n");
    assert_eq!(read(&text).unwrap().iter().map(Resource::kind).collect::<Vec<_>>(), [Kind::Version, Kind::Config]);
    assert_eq!(
        faults(&format!("{text}---\nkind: autoupdate_config\nspec: {{}}\n")),
        "line 10: metadata.name: autoupdate_config autoupdate-config stands in line 7 as well"
    );
    assert_eq!(faults("# nothing\n"), "line 1: there is no resource in this text");
    assert_eq!(faults("kind: a\nkind: b\n"), "line 2: duplicate key \"kind\"");
    assert_eq!(faults("- 1\n"), "line 1: 1 is not a mapping of keys and values");
}

#[test]
fn json_is_read_like_yaml_also_as_a_list_and_from_a_value() {
    let json =
        json!({"kind": "autoupdate_version", "metadata": {"revision": "r1"}, "spec": {"agent_version": "17.2.1"}});
    let resource = one(&json.to_string());
    assert_eq!(resource.metadata().revision.as_deref(), Some("r1"));
    assert_eq!(one(&json!([json]).to_string()), resource);
    assert_eq!(one(&serde_json::to_string_pretty(&json).unwrap()), resource);
    let from_value = read_json(&json, 7).unwrap();
    assert_eq!((from_value.metadata(), from_value.to_json()), (resource.metadata(), resource.to_json()));
    assert_eq!(
        read_json(&json!(null), 7).unwrap_err().to_string(),
        "line 7: kind: is missing; give a kind such as autoupdate_config"
    );
}

#[test]
fn what_was_written_is_printed_in_the_usual_order_with_name_and_revision() {
    let mut resource =
        one("# why\nspec:\n  # the fix\n  agent_version: v17.2.1\nsub_kind: ''\nkind: autoupdate_version\n");
    let printed = "kind: autoupdate_version\nversion: v1\nmetadata:\n  name: autoupdate-version\n# why\nspec:\n  # the fix\n  \
                   agent_version: v17.2.1\n";
    assert_eq!(resource.to_yaml(), printed);
    resource.set_revision("1e5");
    assert_eq!(resource.metadata().revision.as_deref(), Some("1e5"));
    assert_eq!(one(&resource.to_yaml()), resource);
    assert_eq!(
        resource.to_json(),
        json!({
            "kind": "autoupdate_version",
            "version": "v1",
            "metadata": {"name": "autoupdate-version", "revision": "1e5"},
            "spec": {"agent_version": "v17.2.1"}
        })
    );
    assert_eq!(one(&resource.to_json().to_string()).to_json(), resource.to_json());
}

#[test]
fn merged_mappings_are_spelled_out() {
    let resource = one("kind: fleet_release\nspec:\n  <<: {critical: true, version: 17.2.0}\n  version: 17.2.1\n");
    let Resource::Release(release) = &resource else { panic!("{resource:?}") };
    assert!(release.model.critical);
    assert_eq!(release.metadata.name, "17.2.1");
    assert_eq!(resource.to_json()["spec"], json!({"version": "17.2.1", "critical": true}));
}

#[test]
fn a_text_that_yaml_takes_for_something_else_needs_quotes() {
    let group = |name: &str| format!("kind: fleet_channel\nmetadata: {{name: a}}\nspec: {{group: {name}}}");
    for name in ["12", "1e3", "yes", "off", ".5"] {
        assert_eq!(faults(&group(name)), format!("line 3: spec.group: {name} is not a text: it needs quotes"));
        one(&group(&format!("\"{name}\"")));
        one(&group(&format!("!!str {name}")));
    }
    assert_eq!(faults(&group("!mine a")), "line 3: spec.group: !mine \"a\" is not a text");
    assert_eq!(faults(&group("[a]")), "line 3: spec.group: a list is not a text");
    assert!(faults(&group("\"a\\nb\"")).contains("\"a\\nb\" is not a text in one line without control characters"));
    assert!(faults(&group("\" a\"")).contains("is not a name: "));
    assert!(faults(&group("''")).contains("is not a name: "));
    assert!(faults(&group(&"x".repeat(256))).contains("xxx… is not a name: "));
    one(&group(&"x".repeat(255)));
}
