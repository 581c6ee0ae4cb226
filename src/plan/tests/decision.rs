//! Whether the version that the cluster asks for is installed now: every reason alone, and which of them an operator overrules.

use super::*;
use crate::plan::decide::{Decision, Request, Terms, decide, refuse};
use crate::plan::facts::Refusal;

fn ask(version: &str, in_window: bool, force: bool) -> Request {
    Request { wanted: revision(version), in_window, force, announced: None, terms: Terms::default() }
}

/// `go`, `rest` or the code of the error.
fn answer(facts: &Facts, ask: &Request, floor: Option<&str>) -> &'static str {
    match decide(facts, ask, floor.map(|floor| floor.parse().unwrap()).as_ref()) {
        Decision::Proceed => "go",
        Decision::Wait(_) => "rest",
        Decision::Refuse(error) => error.code.as_str(),
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
fn what_could_not_be_installed_waits_for_its_time_and_an_operator_does_not() {
    let mut facts = host("1.0.0", vec![installed("1.0.0", unusable())]);
    facts.delayed = vec![refuse(None, &revision("2.0.0"), "stalled", "network", facts.now)];
    assert_eq!(answer(&facts, &ask("2.0.0", true, false), None), "rest");
    assert_eq!(answer(&facts, &ask("2.0.0", true, true), None), "go");
    assert_eq!(answer(&facts, &ask("3.0.0", true, false), None), "go", "another version");
}

#[test]
fn what_costs_a_run_is_waited_for_longer_each_time_and_a_bad_archive_at_once() {
    use crate::plan::decide::delay_after;
    let minutes = |code: &str| (1..=6).map(|count| delay_after(code, count).as_mins()).collect::<Vec<_>>();
    assert_eq!(minutes("download_stalled"), [0, 0, 20, 40, 80, 120]);
    assert_eq!(minutes("database_busy"), [0, 0, 20, 40, 80, 160]);
    assert_eq!(minutes("checksum_mismatch"), [60, 120, 240, 480, 960, 1920]);
    assert_eq!(delay_after("database_busy", u32::MAX).as_hours(), 24);
    assert_eq!(delay_after("signature_invalid", u32::MAX).as_hours(), 7 * 24);
}

#[test]
fn four_returns_are_prompt_and_each_further_one_is_held_longer() {
    let held_until = |host: &Facts, wanted: &Revision| {
        crate::plan::decide::held_until(&host.left, host.active.as_ref(), host.now, wanted)
    };
    let mut host = host("1.0.0", Vec::new());
    let now = host.now;
    let at = |minutes: i64| now.checked_sub(jiff::SignedDuration::from_mins(minutes)).unwrap();
    let mut held = Vec::new();
    for moves in 1..=8 {
        // 1.0.0 and 2.0.0 by turns, the last move just now.
        host.left = (0..moves)
            .map(|at_move| (revision(["1.0.0", "2.0.0"][at_move as usize % 2]), at(moves - 1 - at_move)))
            .collect();
        let (active, wanted) = if moves % 2 == 0 { ("1.0.0", "2.0.0") } else { ("2.0.0", "1.0.0") };
        host.active = Some(revision(active));
        held.push(held_until(&host, &revision(wanted)).map_or(0, |until| until.duration_since(host.now).as_mins()));
    }
    assert_eq!(held, [0, 0, 0, 0, 60, 120, 240, 480]);
    assert_eq!(held_until(&host, &revision("3.0.0")), None);
    // It ends at its time, and is none for a clock that was set back.
    let until = held_until(&host, &revision("2.0.0")).unwrap();
    let seconds = jiff::SignedDuration::from_secs;
    for (now, is_held) in [
        (until.checked_sub(seconds(1)).unwrap(), true),
        (until, false),
        (until.checked_add(seconds(1)).unwrap(), false),
        (now, true),
        (now.checked_sub(seconds(1)).unwrap(), false),
    ] {
        host.now = now;
        assert_eq!(held_until(&host, &revision("2.0.0")).is_some(), is_held, "{now}");
    }
    host.now = now;
    // Two days are over. A clock that was set back since has seen them in the future, and they count as long.
    for (hours, is_held) in [(47, true), (48, false), (49, false), (-47, true), (-48, false)] {
        let mut host = host.clone();
        host.left.iter_mut().rev().skip(1).for_each(|(_, time)| *time = at(hours * 60));
        assert_eq!(held_until(&host, &revision("2.0.0")).is_some(), is_held, "{hours}");
    }
    host.left.iter_mut().for_each(|(_, time)| *time = at(49 * 60));
    assert_eq!(held_until(&host, &revision("2.0.0")), None);
}

/// So many minutes after the beginning of time.
fn after_minutes(count: i64) -> jiff::Timestamp {
    jiff::Timestamp::from_second(count * 60).unwrap()
}

/// Whether what could not be installed is tried so many minutes after the beginning of time.
fn is_tried(delay: &Refusal, asked: &Request, minutes: i64) -> bool {
    let host = host("1.0.0", vec![installed("1.0.0", unusable())]);
    let facts = Facts { delayed: vec![delay.clone()], now: after_minutes(minutes), ..host };
    decide(&facts, asked, None) == Decision::Proceed
}

#[test]
fn what_is_urgent_is_tried_once_or_twice_an_hour() {
    let urgent = Request { terms: Terms { urgent: true, ..Terms::default() }, ..ask("2.0.0", true, false) };
    // What the timer would try again at once, in twenty minutes, and only after a day.
    for wait in [0, 20, 45, 24 * 60] {
        let mut delay = refuse(None, &revision("2.0.0"), "stalled", "network", after_minutes(0));
        delay.retry_at = after_minutes(wait);
        let tried: Vec<i64> = (0..=120).filter(|now| is_tried(&delay, &urgent, *now)).collect();
        assert_eq!(tried.first(), Some(&wait.clamp(30, 60)), "{wait}");
        assert_eq!(tried.last(), Some(&120), "{wait}");
    }
}

#[test]
fn another_digest_ends_a_wait_but_not_the_least_one_of_what_is_urgent() {
    let mut delay = refuse(None, &revision("2.0.0"), "other bytes", "checksum_mismatch", after_minutes(0));
    for (known, urgent, announced, first) in [
        (Some("ab"), false, Some("ab"), 60),
        (Some("ab"), false, Some("cd"), 0),
        (Some("ab"), true, Some("ab"), 60),
        (Some("ab"), true, Some("cd"), 30),
        // What nobody knows is no other one.
        (None, false, Some("cd"), 60),
        (Some("ab"), false, None, 60),
    ] {
        delay.digest = known.map(str::to_owned);
        let asked = Request {
            terms: Terms { urgent, ..Terms::default() },
            announced: announced.map(str::to_owned),
            ..ask("2.0.0", true, false)
        };
        let tried = (0..=120).find(|now| is_tried(&delay, &asked, *now));
        assert_eq!(tried, Some(first), "urgent {urgent}, {announced:?} announced");
    }
}

#[test]
fn a_lower_major_is_refused_where_the_source_keeps_it() {
    let facts = host("2.1.0", vec![installed("2.1.0", unusable())]);
    let keeps =
        |version: &str| Request { terms: Terms { keeps_major: true, ..Terms::default() }, ..ask(version, true, true) };
    assert!(matches!(decide(&facts, &keeps("1.9.0"), None), Decision::Refuse(error) if error.code == Code::LowerMajor));
    assert_eq!(decide(&facts, &keeps("2.0.0"), None), Decision::Proceed);
    assert_eq!(decide(&facts, &ask("1.9.0", true, true), None), Decision::Proceed);
}

#[test]
fn the_higher_of_two_floors_counts() {
    let facts = host("1.0.0", vec![installed("1.0.0", unusable())]);
    for (own, of_source, refused) in [("1.0.0", "2.5.0", true), ("2.5.0", "1.0.0", true), ("1.0.0", "2.0.0", false)] {
        let terms = Terms { floor: Some(of_source.parse().unwrap()), ..Terms::default() };
        let asked = Request { terms, ..ask("2.0.0", true, false) };
        let decision = decide(&facts, &asked, Some(&own.parse().unwrap()));
        assert_eq!(matches!(decision, Decision::Refuse(_)), refused, "{own} {of_source}");
    }
}
