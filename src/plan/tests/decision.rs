//! Whether the cluster's wish is followed now: every reason alone, and which of them an operator overrules.

use super::*;
use crate::plan::decide::{Ask, Decision, decide, refuse, wait_after};

fn ask(version: &str, in_window: bool, insist: bool) -> Ask {
    Ask { wanted: revision(version), in_window, insist, announced: None }
}

/// `go`, `rest` or the code of the error.
fn answer(facts: &Facts, ask: &Ask, floor: Option<&str>) -> &'static str {
    match decide(facts, ask, floor.map(|floor| floor.parse().unwrap()).as_ref()) {
        Decision::Go => "go",
        Decision::Rest(_) => "rest",
        Decision::No(error) => error.code.as_str(),
    }
}

#[test]
fn the_floor_holds_for_what_lies_below_it_alone_and_not_for_what_is_there() {
    let facts = host("1.0.0", vec![installed("1.0.0", unusable())]);
    assert_eq!(answer(&facts, &ask("2.0.0", true, false), Some("2.0.0")), "go");
    assert_eq!(answer(&facts, &ask("3.0.0", true, false), Some("2.0.0")), "go");
    assert_eq!(answer(&facts, &ask("2.0.0-rc.1", true, true), Some("2.0.0")), "below_min_version");
    assert_eq!(answer(&facts, &ask("1.0.0", true, false), Some("2.0.0")), "go", "a repair");
}

#[test]
fn a_closed_window_rests_and_an_operator_is_asked_for_nothing() {
    let facts = host("1.0.0", vec![installed("1.0.0", unusable())]);
    assert_eq!(answer(&facts, &ask("2.0.0", false, false), None), "rest");
    assert_eq!(answer(&facts, &ask("2.0.0", true, false), None), "go");
}

#[test]
fn a_refusal_holds_for_its_version_until_its_time_and_an_operator_overrules_it() {
    let mut facts = host("1.0.0", vec![installed("1.0.0", unusable())]);
    facts.refused = vec![refuse(None, &revision("2.0.0"), "unhealthy", facts.now)];
    assert_eq!(answer(&facts, &ask("2.0.0", true, false), None), "rest");
    assert_eq!(answer(&facts, &ask("2.0.0", true, true), None), "go");
    assert_eq!(answer(&facts, &ask("3.0.0", true, false), None), "go", "another version");
    facts.now = facts.refused[0].retry_at;
    assert_eq!(answer(&facts, &ask("2.0.0", true, false), None), "go", "its time has come");
    facts.now = facts.now.checked_sub(jiff::SignedDuration::from_secs(1)).unwrap();
    assert_eq!(answer(&facts, &ask("2.0.0", true, false), None), "rest", "a second before");
    assert_eq!(wait_after(1).as_secs(), 3600);
}
