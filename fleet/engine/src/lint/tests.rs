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

fn hosts(hosts: u64) -> Known {
    Known { hosts: Some(hosts), ..Known::default() }
}

const WISE: &str =
    "      - {name: dev, start_hour: 4, canary_count: 3}\n      - {name: prod, start_hour: 8, max_in_flight: 10%}\n";

#[test]
fn a_wise_policy_gets_no_advice() {
    assert_eq!(codes(&v2(WISE), &hosts(1000)), Vec::<&str>::new());
    let freeze = "      - name: dev\n        canary_count: 1\n        max_in_flight: 20%\n        blackout:\n          \
                  - {from: 2026-12-20T00:00:00Z, to: 2027-01-05T00:00:00Z, reason: holidays}\n";
    assert_eq!(codes(&v2(freeze), &Known::default()), Vec::<&str>::new());
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

#[test]
fn a_window_must_be_longer_than_hosts_take_to_ask() {
    let of = |window: &str, jitter: u32| {
        let groups = format!("      - {{name: dev, max_in_flight: 5%, jitter_seconds: {jitter}}}\n");
        codes(
            &config(&format!("strategy: time-based\n    maintenance_window_duration: {window}"), &groups),
            &Known::default(),
        )
    };
    assert_eq!(of("10m", 60), ["window_too_short"]);
    assert_eq!(of("11m", 60), Vec::<&str>::new());
    assert_eq!(of("10m", 0), Vec::<&str>::new());
}

/// 20,000 hosts in two groups are 10,000 each: 1 % are 100, 2 % are 200.
#[test]
fn thresholds_are_judged_by_the_hosts_that_there_are() {
    let groups = |percent: &str| {
        v2(&format!(
            "      - {{name: dev, canary_count: 1, max_failed_before_halt: 1%}}\n      \
             - {{name: prod, max_in_flight: 5%, max_failed_before_halt: {percent}}}\n"
        ))
    };
    assert_eq!(codes(&groups("2%"), &Known::default()), Vec::<&str>::new());
    assert_eq!(codes(&groups("2%"), &hosts(20_000)), ["many_may_fail"]);
    assert_eq!(codes(&groups("1%"), &hosts(20_000)), Vec::<&str>::new());
    assert_eq!(codes(&groups("0%"), &hosts(20_000)), ["one_failure_halts"]);
    let by_group = [("dev", 20), ("prod", 0)].map(|(name, count)| (name.to_owned(), count));
    let known = Known { by_group: Some(by_group.into()), ..hosts(20) };
    assert_eq!(codes(&groups("2%"), &known), ["empty_group"]);
    let never = v2(
        "      - {name: dev, canary_count: 1, max_in_flight: 5%, max_failed_before_halt: 100%, max_failed_of_ended: 100%}\n",
    );
    assert_eq!(codes(&never, &Known::default()), ["never_halts"]);
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
fn freezes_end_and_leave_windows_open() {
    let freezes = |freezes: &str| {
        v2(&format!(
            "      - name: dev\n        canary_count: 1\n        max_in_flight: 20%\n        days: [Sun]\n        blackout: [{freezes}]\n"
        ))
    };
    let code = |text: &str| codes(&freezes(text), &Known::default());
    assert_eq!(code("{from: 2026-01-01T00:00:00Z, to: 2036-01-01T00:00:00Z, reason: x}"), ["freeze_never_ends"]);
    assert_eq!(code("{from: 2026-01-01T00:00:00Z, to: 2026-01-02T00:00:00Z}"), ["no_reason"]);
    // Ten Sundays one by one, from 4 January on.
    let sunday = |week: i64| {
        let day: Timestamp = "2026-01-04T00:00:00Z".parse().unwrap();
        let from = day + jiff::SignedDuration::from_hours(168 * week);
        format!("{{from: {from}, to: {}, reason: x}}", from + jiff::SignedDuration::from_hours(24))
    };
    let sundays = |weeks: i64| (0..weeks).map(sunday).collect::<Vec<_>>().join(", ");
    assert_eq!(code(&sundays(10)), ["windows_frozen"]);
    assert_eq!(code(&sundays(4)), Vec::<&str>::new());
    let known = Known { now: Some("2027-01-01T00:00:00Z".parse().unwrap()), ..Known::default() };
    let over = codes(
        &freezes(
            "{from: 2026-01-01T00:00:00Z, to: 2036-01-01T00:00:00Z, reason: x}, {from: 2026-01-01T00:00:00Z, to: 2026-01-02T00:00:00Z, reason: z}",
        ),
        &known,
    );
    assert_eq!(over, ["freeze_never_ends", "freeze_over"]);
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
fn versions_and_modes_say_what_they_forget() {
    let version =
        |rest: &str| codes(&format!("kind: autoupdate_version\nspec:\n  agents: {{{rest}}}\n"), &Known::default());
    let good = "start_version: 1.0.0, target_version: 1.1.0, mode: enabled";
    assert_eq!(version(good), Vec::<&str>::new());
    assert_eq!(version(&good.replace(", mode: enabled", "")), ["mode_disabled"]);
    assert_eq!(version(&good.replace("enabled", "suspended")), ["mode_suspended"]);
    assert_eq!(version(&format!("{good}, schedule: immediate")), ["immediate_schedule"]);
    assert_eq!(version(&good.replace("1.1.0", "1.0.0")), ["same_version"]);
    assert_eq!(version(&good.replace("1.1.0", "0.9.0")), ["downgrade"]);
    let suspended = codes(&v2(WISE).replace("mode: enabled", "mode: suspended"), &Known::default());
    assert_eq!(suspended, ["mode_suspended"]);
    let ignored = advice(&v2(WISE).replace("spec:", "metadata:\n  description: ours\nspec:"), &Known::default());
    assert_eq!((ignored.len(), ignored[0].code, ignored[0].line), (1, "ignored_field", Some(3)));
}

#[test]
fn a_shelf_gives_the_advice_of_all_that_stands_on_it() {
    let (mut resources, mut state) = (ResourceSet::default(), crate::rollout_state::RolloutState::default());
    assert_eq!(of(&resources, &Known::default()), []);
    let text = format!(
        "{}---\nkind: autoupdate_version\nspec: {{agents: {{start_version: 1.0.0, target_version: 1.1.0}}}}\n",
        v2("      - {name: dev}\n")
    );
    resources.put_all(resource::read(&text).unwrap(), &mut state).unwrap();
    let kinds: Vec<(String, &str)> =
        of(&resources, &Known::default()).into_iter().map(|advice| (advice.kind, advice.code)).collect();
    let expected = [("config", "no_canary"), ("config", "last_group_at_once"), ("version", "mode_disabled")];
    assert_eq!(kinds, expected.map(|(kind, code)| (format!("autoupdate_{kind}"), code)));
}
