use super::{faults, groups, rfd_text, v2_text};

fn halt(groups: &[&str]) -> String {
    v2_text("halt-on-error", groups)
}

fn time(groups: &[&str]) -> String {
    v2_text("time-based", groups)
}

fn many(count: usize) -> Vec<String> {
    (0..count).map(|index| format!("{{name: g{index}}}")).collect()
}

fn texts(groups: &[String]) -> Vec<&str> {
    groups.iter().map(String::as_str).collect()
}

/// FLEET §2: non-empty, unique in list.
#[test]
fn names_are_unique_in_a_list() {
    // Case tells names apart, and each schedule has names of its own.
    assert_eq!(groups(&halt(&["{name: a}", "{name: A}"])).len(), 2);
}

/// FLEET §2: the limits of groups.
#[test]
fn groups_have_a_limit_that_depends_on_the_strategy() {
    for (text, most) in [(halt as fn(&[&str]) -> String, 10), (time, 20), (rfd_text, 50)] {
        assert_eq!(groups(&text(&texts(&many(most)))).len(), most);
        let found = faults(&text(&texts(&many(most + 1))));
        assert!(found.ends_with(&format!(".regular: has {} groups, {most} are allowed", most + 1)), "{found}");
        assert_eq!(found.lines().count(), 1);
    }
}

/// FLEET §2: must be 0 for time-based; must be 0 on the first halt-on-error group.
#[test]
fn wait_hours_is_for_all_but_the_first_group_of_halt_on_error() {
    assert_eq!(groups(&halt(&["{name: a, wait_hours: 0}", "{name: b, wait_hours: 24}"]))[1].gate.wait_hours, 24);
}

/// FLEET §2: 0–5; halt-on-error only.
#[test]
fn time_based_has_no_canaries() {
    assert_eq!(groups(&time(&["{name: a, canary_count: 0}"])).len(), 1);
    assert_eq!(groups(&rfd_text(&["{name: a, canary_count: 5}"]))[0].pace.canaries, 5);
}

#[test]
fn soak_hours_needs_a_group_that_is_followed() {
    assert_eq!(groups(&halt(&["{name: a}", "{name: b, soak_hours: 2}"]))[1].gate.soak_hours, 2);
    assert_eq!(groups(&time(&["{name: a}", "{name: b, requires: [a], soak_hours: 2}"]))[1].gate.soak_hours, 2);
    assert_eq!(groups(&rfd_text(&["{name: a}", "{name: b, requires: [a], soak_hours: 2}"]))[1].gate.soak_hours, 2);
}

#[test]
fn a_group_of_halt_on_error_requires_only_groups_before_it() {
    assert_eq!(groups(&halt(&["{name: a}", "{name: b, requires: [a]}"]))[1].gate.requires, ["a"]);
}

/// Groups of which each requires the one before, with these keys.
fn chain(count: usize, keys: &str) -> Vec<String> {
    let group = |index: usize| match index {
        0 => format!("{{name: g0{}}}", keys.replace("soak_hours", "min_ended")),
        _ => format!("{{name: g{index}, requires: [g{}]{keys}}}", index - 1),
    };
    (0..count).map(group).collect()
}

/// FLEET §2: chain of 8 daily groups rejected, 7 accepted.
#[test]
fn a_chain_of_eight_daily_groups_is_refused_and_seven_are_accepted() {
    assert_eq!(groups(&rfd_text(&texts(&chain(7, ", start_hour: 4")))).len(), 7);
}

#[test]
fn a_chain_is_measured_by_hours_and_soaks_and_not_by_its_length() {
    let hours: Vec<String> = (0..24_usize)
        .map(|hour| match hour {
            0 => "{name: g0, start_hour: 0}".to_owned(),
            _ => format!("{{name: g{hour}, start_hour: {hour}, requires: [g{}]}}", hour - 1),
        })
        .collect();
    assert_eq!(groups(&rfd_text(&texts(&hours))).len(), 24);
    let soaked =
        |hours: u32| rfd_text(&["{name: a}", &format!("{{name: b, requires: [a], soak_hours: {hours}}}")]).clone();
    assert_eq!(groups(&soaked(144)).len(), 2);
}

/// FLEET §2 has no such limit for v2: only requirements make chains.
#[test]
fn halt_on_error_may_take_longer_than_a_week() {
    let groups: Vec<String> = (0..10).map(|index| format!("{{name: g{index}, start_hour: 4}}")).collect();
    assert_eq!(super::groups(&halt(&texts(&groups))).len(), 10);
}

#[test]
fn many_groups_that_all_require_one_another_are_judged_at_once() {
    let group = |index: usize| {
        let before: Vec<String> = (0..index).map(|before| format!("g{before}")).collect();
        format!("{{name: g{index}, start_hour: {}, requires: [{}]}}", index % 24, before.join(", "))
    };
    let groups: Vec<String> = (0..50).map(group).collect();
    assert_eq!(super::groups(&rfd_text(&texts(&groups))).len(), 50);
}

/// FLEET §2: a chain is measured by the days on which windows open as well. RFD 0169: "updates could take up to 7 weeks".
#[test]
fn a_chain_is_measured_by_days_too() {
    let chain = |days: &[&str]| {
        let group = |(index, day): (usize, &&str)| match index {
            0 => format!("{{name: g0, days: {day}, start_hour: 4}}"),
            _ => format!("{{name: g{index}, days: {day}, start_hour: 5, requires: [g{}]}}", index - 1),
        };
        rfd_text(&texts(&days.iter().enumerate().map(group).collect::<Vec<_>>()))
    };
    for legal in [
        &["[Mon]", "[Mon]"][..],
        // Sunday 4:00 to Saturday 6:00.
        &["[Sun]", "[Mon]", "[Tue]", "[Wed]", "[Thu]", "[Fri]", "[Sat]"],
        // It may begin on Saturday.
        &["[Mon, Sat]", "[Sun]"],
        &["[Mon, Tue, Wed, Thu]", "[Mon]"],
    ] {
        assert_eq!(groups(&chain(legal)).len(), legal.len(), "{legal:?}");
    }
}
