//! Expected codes and lines are from FLEET §6 and the texts themselves.

use super::*;
use crate::resource;

fn advice(text: &str, known: &Known) -> Vec<Advice> {
    resource::read(text).unwrap().iter().flat_map(|one| of_resource(one, known)).collect()
}

fn codes(text: &str, known: &Known) -> Vec<&'static str> {
    advice(text, known).iter().map(|advice| advice.code).collect()
}

fn config(strategy: &str, groups: &str) -> String {
    format!(
        "kind: autoupdate_config\nspec:\n  agents:\n    mode: enabled\n    {strategy}\n    schedules:\n      regular:\n{groups}"
    )
}

fn v2(groups: &str) -> String {
    config("strategy: halt-on-error", groups)
}

fn rfd(groups: &str) -> String {
    format!("kind: cluster_maintenance_config\nspec:\n  agent_auto_update_groups:\n    regular:\n{groups}")
}

#[test]
fn each_text_gets_this_advice_and_no_other() {
    let mut seen = 0;
    for case in include_str!("tests/advice.txt").split("\n\n").skip(1) {
        let lines = || case.lines().filter(|line| !line.starts_with("# "));
        let known = lines().find_map(|line| line.strip_prefix("known ")).unwrap_or("{}");
        let known: serde_json::Value = serde_json::from_str(known).unwrap();
        let known = Known {
            hosts: known["hosts"].as_u64(),
            by_group: serde_json::from_value(known["by_group"].clone()).unwrap(),
            now: known["now"].as_str().map(|now| now.parse().unwrap()),
            start: None,
        };
        let wanted: Vec<&str> = lines().filter_map(|line| line.strip_prefix("-> ")).collect();
        let text = lines().filter(|line| !line.starts_with("-> ") && !line.starts_with("known "));
        assert_eq!(codes(&text.collect::<Vec<_>>().join("\n"), &known), wanted, "{case}");
        seen += 1;
    }
    assert!(seen > 20, "only {seen} texts");
}

#[test]
fn canaries_and_the_last_group_are_missed_where_they_belong() {
    let found = advice(&v2("      - {name: dev}\n      - {name: prod}\n"), &Known::default());
    let lines: Vec<_> = found.iter().map(|one| (one.code, one.line, one.key.as_str())).collect();
    let list = "spec.agents.schedules.regular";
    assert_eq!(
        lines,
        [
            ("no_canary", Some(8), format!("{list}[0].canary_count").as_str()),
            ("last_group_at_once", Some(9), format!("{list}[1].max_in_flight").as_str()),
        ]
    );
    assert!(found[1].to_string().starts_with("line 9: spec.agents.schedules.regular[1].max_in_flight: all of prod"));
    // By requirements, the last group is the one that no other requires, wherever it stands.
    let groups = "    - {name: z, requires: [a], canary_count: 1}\n    - {name: a, max_in_flight: 5%, agents: {node_labels_expression: 'labels.a == \"b\"'}}\n";
    let found = advice(&rfd(groups), &Known::default());
    let last: Vec<&str> =
        found.iter().filter(|one| one.code == "last_group_at_once").map(|one| one.key.as_str()).collect();
    assert_eq!(last, ["spec.agent_auto_update_groups.regular[0].max_in_flight"]);
}

/// FLEET §2: two groups at the same hour take 25 hours, and each further one a day: five take 97. Where the fifth day is a
/// Friday, and groups open from Monday to Thursday, the last one waits for the next week.
#[test]
fn a_chain_of_four_days_is_long() {
    let groups = |count: usize, days: &str| {
        let group = |nth: usize| {
            format!("      - {{name: g{nth}, days: {days}, start_hour: 2, canary_count: 1, max_in_flight: 9%}}\n")
        };
        v2(&(0..count).map(group).collect::<String>())
    };
    for (days, takes) in [("[\"*\"]", "takes 5 days"), ("[Mon, Tue, Wed, Thu]", "takes 8 days")] {
        assert_eq!(codes(&groups(4, days), &Known::default()), Vec::<&str>::new());
        let found = advice(&groups(5, days), &Known::default());
        assert_eq!(found.len(), 1);
        let what = &found[0].what;
        assert!(found[0].code == "long_chain" && what.contains(takes) && what.contains("g0, then g1"), "{what}");
    }
    let required = |nth: usize| {
        format!(
            "    - {{name: g{nth}, start_hour: 2, canary_count: 1, max_in_flight: 9%, requires: [g{}], agents: {{node_labels_expression: 'labels.g == \"{nth}\"'}}}}\n",
            nth - 1
        )
    };
    let chain = format!("    - {{name: g0, start_hour: 2}}\n{}", (1..5).map(required).collect::<String>());
    assert!(codes(&rfd(&chain), &Known::default()).contains(&"long_chain"));
}

#[test]
fn groups_that_nobody_can_be_in_are_found() {
    let by = |name: &str, expression: &str| {
        format!(
            "    - {{name: {name}, canary_count: 1, max_in_flight: 5%, agents: {{node_labels_expression: '{expression}'}}}}\n"
        )
    };
    let find = |groups: &str| {
        let found = advice(&rfd(groups), &Known::default());
        found.iter().filter(|one| one.code == "unmatchable_group").map(|one| one.key.clone()).collect::<Vec<_>>()
    };
    let (a, b) = (by("a", r#"labels["x"] == "1""#), by("b", r#"labels["x"] == "2""#));
    assert!(find(&format!("{a}{b}")).is_empty());
    let key = |nth: usize| format!("spec.agent_auto_update_groups.regular[{nth}].agents");
    assert_eq!(find(&format!("{a}{}", by("c", r#"labels["x"] == "1""#))), [key(1)]);
    assert_eq!(find(&format!("    - {{name: all, canary_count: 1}}\n{a}")), [key(1)]);
    assert_eq!(find(&by("c", r#"labels["x"] == "1" && labels["x"] == "2""#)), [key(0)]);
    assert!(codes(&rfd(&a), &Known::default()).contains(&"unassigned_hosts"));
    assert!(!codes(&rfd("    - {name: all, canary_count: 1}\n"), &Known::default()).contains(&"unassigned_hosts"));
}

#[test]
fn a_field_that_is_ignored_is_told_with_its_line() {
    let text = v2("      - {name: dev}\n").replace("spec:", "metadata:\n  description: ours\nspec:");
    let found = advice(&text, &Known::default());
    let ignored: Vec<_> = found.iter().filter(|one| one.code == "ignored_field").map(|one| one.line).collect();
    assert_eq!(ignored, [Some(3)]);
}
