use super::{faults, groups, rfd_text, v2_text};

fn texts(groups: &[String]) -> Vec<&str> {
    groups.iter().map(String::as_str).collect()
}

/// FLEET §2: the limits of groups.
#[test]
fn groups_have_a_limit_that_depends_on_the_strategy() {
    type Text = fn(&[&str]) -> String;
    let [halt, time]: [Text; 2] = [|groups| v2_text("halt-on-error", groups), |groups| v2_text("time-based", groups)];
    for (text, most) in [(halt, 10), (time, 20), (rfd_text, 50)] {
        let many: Vec<String> = (0..=most).map(|index| format!("{{name: g{index}, start_hour: 4}}")).collect();
        assert_eq!(groups(&text(&texts(&many[1..]))).len(), most);
        let found = faults(&text(&texts(&many)));
        assert!(found.ends_with(&format!(".regular: has {} groups, {most} are allowed", most + 1)), "{found}");
        assert_eq!(found.lines().count(), 1);
    }
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
