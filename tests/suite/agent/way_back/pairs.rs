//! Two troubles at once: what is right for each alone must be right for both. Each pair goes through one flow, another one for each.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::thread;

use super::flow::{By, Flow};
use super::table::{ALIAS, MASKED, SLOW_RESTART, TROUBLES};
use super::{Ends, Trouble};

/// Beds at the same time: each waits most of its time.
const BEDS: usize = 8;
const FLOWS: [(Flow, By); 7] = [
    (Flow::Downgrade, By::Unit),
    (Flow::UpdateToSpoiler, By::Hand),
    (Flow::Update, By::Unit),
    (Flow::UpdateToDead, By::Hand),
    (Flow::DowngradeToDead, By::Unit),
    (Flow::Rollback, By::Hand),
    (Flow::UpdateToSpoiler, By::Unit),
];
/// Where one of the two keeps the other from being made, or from being mended.
const NOT_TOGETHER: [(&str, &str); 6] = [
    ("manager_refuses_to_read_units", "manager_refuses_to_read_units_in_mid_run"),
    ("reader_of_the_database", "reader_who_comes_in_mid_run"),
    ("reader_of_the_database", "data_directory_is_read_only"),
    ("database_is_a_mount", "data_directory_is_read_only"),
    ("unit_has_no_reload", "job_of_somebody_else_is_queued"),
    ("job_of_somebody_else_is_queued", "restart_stops_longer_than_the_deadline"),
];
/// systemd forgets which process is the agent when the alias that the unit was found by is masked.
const FORGOTTEN: (&str, &str) = ("unit_is_an_alias", "unit_is_masked_in_mid_run");

/// `WAY_BACK_PAIRS`: how many, of all 250 or so.
#[test]
#[ignore = "the whole table"]
fn two_troubles_at_once() {
    let most = std::env::var("WAY_BACK_PAIRS").ok().and_then(|most| most.parse().ok()).unwrap_or(usize::MAX);
    let all: Vec<&Trouble> = [&ALIAS].into_iter().chain(TROUBLES).chain([&MASKED, &SLOW_RESTART]).collect();
    let mut pairs = Vec::new();
    for (index, first) in all.iter().enumerate() {
        for (number, second) in all[index + 1..].iter().enumerate() {
            let names = (first.name, second.name);
            let is_possible = !NOT_TOGETHER.contains(&names)
                && names != FORGOTTEN
                && (first.immutable.is_none() || second.immutable.is_none());
            if is_possible {
                pairs.push((both(first, second), FLOWS[(index * 3 + number) % FLOWS.len()]));
            }
        }
    }
    // Those that are left out are spread over the table.
    let step = pairs.len().div_ceil(most.min(pairs.len()));
    let work = Mutex::new(pairs.into_iter().step_by(step));
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..BEDS {
            scope.spawn(|| {
                loop {
                    let Some((trouble, (flow, by))) = work.lock().unwrap().next() else { return };
                    if catch_unwind(AssertUnwindSafe(|| flow.go(&trouble, by))).is_err() {
                        let name = format!("{} {flow:?} {by:?}", trouble.name);
                        eprintln!("the failure above: {name}");
                        failures.lock().unwrap().push(name);
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Both of them. Who keeps the manager from reading units comes last, and is mended first.
fn both(first: &Trouble, second: &Trouble) -> Trouble {
    let (first, second) = if first.name == "manager_refuses_to_read_units" { (second, first) } else { (first, second) };
    let word = |text: String| -> &'static str { text.leak() };
    let ends = match (first.ends, second.ends) {
        (Ends::PerhapsDown, _) | (_, Ends::PerhapsDown) => Ends::PerhapsDown,
        (one, other) if one == other => one,
        (Ends::Anywhere, _) | (_, Ends::Anywhere) => Ends::Anywhere,
        _ => Ends::ThereOrUntouched,
    };
    Trouble {
        name: word(format!("{}-and-{}", first.name, second.name)),
        host: word(format!("{}\n{}", first.host, second.host)),
        unit: word(format!("{}\n[Service]\n{}", first.unit, second.unit)),
        begin: word(format!("{}\n{}", first.begin, second.begin)),
        mend: word(format!("{}\n{}", second.mend, first.mend)),
        immutable: first.immutable.or(second.immutable),
        ends,
    }
}
