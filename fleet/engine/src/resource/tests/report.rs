use super::super::{AgentReport, Omitted, Resource, VersionCount};
use super::{faults, one};

fn text(spec: &str) -> String {
    format!(
        "kind: autoupdate_agent_report\nmetadata: {{name: auth1}}\nspec:\n  timestamp: 2026-01-01T00:00:00Z\n  {spec}\n"
    )
}

fn report(spec: &str) -> AgentReport {
    match one(&text(spec)) {
        Resource::Report(object) => object.model,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_report_counts_by_group_and_version() {
    let empty = report("groups: {}\n  omitted: []");
    assert_eq!(
        (empty.timestamp.to_string(), empty.counts, empty.omitted),
        ("2026-01-01T00:00:00Z".to_owned(), vec![], vec![])
    );
    let counts = report("groups: {a: {versions: {1.2.3: {count: 2147483647}, v1.2.4: {}}}, b: {}}");
    let of = |version: &str, count| VersionCount { group: "a".to_owned(), version: version.parse().unwrap(), count };
    assert_eq!(counts.counts, [of("1.2.3", 2_147_483_647), of("1.2.4", 0)]);
    let omitted = report("omitted: [{count: 3, reason: version is pinned}]").omitted;
    assert_eq!(omitted, [Omitted { count: 3, reason: "version is pinned".to_owned() }]);
}

/// FLEET §5: at most 50 groups, at most 20 versions a group.
#[test]
fn a_report_has_at_most_fifty_groups_of_twenty_versions() {
    let groups = |count: usize| (0..count).map(|group| format!("g{group}: {{}}")).collect::<Vec<_>>().join(", ");
    report(&format!("groups: {{{}}}", groups(50)));
    assert_eq!(
        faults(&text(&format!("groups: {{{}}}", groups(51)))),
        "line 5: spec.groups: has 51 groups, 50 are allowed"
    );
    let versions = |count: usize| (0..count).map(|patch| format!("1.0.{patch}: {{}}")).collect::<Vec<_>>().join(", ");
    assert_eq!(report(&format!("groups: {{a: {{versions: {{{}}}}}}}", versions(20))).counts.len(), 20);
    assert_eq!(
        faults(&text(&format!("groups: {{a: {{versions: {{{}}}}}}}", versions(21)))),
        "line 5: spec.groups.a.versions: has 21 versions, 20 are allowed"
    );
}
