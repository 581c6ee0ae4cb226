//! Nodes that share one store: the engine that ships, with every order of their steps. What it models, and what not, is in
//! docs/internals/model.md.

#![allow(clippy::unwrap_used, clippy::panic, missing_docs, reason = "tests")]

mod book;
mod nodes;

use std::time::Instant;

use fleet_engine::command::Command;
use stateright::{Checker, Expectation, HasDiscoveries, Model, Path, Property};

use nodes::{Nodes, Plant};

/// Steps within which a planted fault has to be found.
const LONGEST: usize = 8;

fn names(groups: &[&str]) -> Vec<String> {
    groups.iter().map(|group| (*group).to_owned()).collect()
}

fn halt(groups: &[&str]) -> Command {
    Command::Halt { groups: names(groups), all: groups.is_empty() }
}

fn run(groups: &[&str]) -> Command {
    Command::Run { groups: names(groups), all: groups.is_empty() }
}

fn start(groups: &[&str]) -> Command {
    Command::Start { groups: names(groups), force: false, ignore_blackout: false }
}

fn mark_done(groups: &[&str]) -> Command {
    Command::MarkDone { groups: names(groups) }
}

fn rollback(groups: &[&str]) -> Command {
    Command::Rollback { groups: names(groups), all_started: false, at_once: false }
}

/// Looks at every state, and prints a row of docs/internals/model.md.
fn check(what: &str, model: Nodes) {
    check_to(what, model, None);
}

/// The same of the states up to a depth; what must happen once may happen beneath it.
fn check_to(what: &str, model: Nodes, depth: Option<usize>) {
    let began = Instant::now();
    let checker = model.checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
    let checker = match depth {
        None => checker,
        Some(depth) => checker.target_max_depth(depth),
    };
    let (is_whole, checker) = (depth.is_none(), checker.spawn_bfs().join());
    let (unique, states, depth) = (checker.unique_state_count(), checker.state_count(), checker.max_depth());
    let (versions, seconds) = (checker.model().versions(), began.elapsed().as_secs());
    println!("| {what} | {states} | {unique} | {versions} | {depth} | {seconds} |");
    for property in checker.model().properties() {
        let found = checker.discovery(property.name).map(Path::into_actions);
        let is_good = match property.expectation {
            Expectation::Sometimes => found.is_some() || !is_whole,
            _ => found.is_none(),
        };
        assert!(is_good, "{what}: {}: {found:?}", property.name);
    }
}

/// Of larger models, steps: minutes, all of them together.
const DEPTH: usize = 20;

/// How many steps the shortest way to something wrong has, and what is wrong then.
fn shortest(model: impl Fn() -> Nodes) -> Option<(usize, Vec<&'static str>)> {
    (0..LONGEST).find_map(|steps| {
        // The first state is of depth 1, and what is as deep as the bound is not looked at.
        let checker = model().checker().target_max_depth(steps + 2).spawn_bfs().join();
        let is_wrong = |property: &Property<Nodes>| matches!(property.expectation, Expectation::Always);
        let found = checker.discoveries();
        let wrong = checker.model().properties().into_iter().filter(is_wrong).map(|property| property.name);
        let wrong: Vec<_> = wrong.filter(|name| found.contains_key(name)).collect();
        (!wrong.is_empty()).then_some((steps, wrong))
    })
}

#[test]
fn two_nodes_that_crash_do_what_one_would() {
    let model = Nodes::new(2, 2, vec![halt(&["a"]), run(&["a"])]);
    check("2 nodes, 2 hosts, a crash, `halt a`, `run a`", Nodes { lost_replies: 0, ..model });
}

#[test]
fn replies_are_lost_and_updates_fail_whichever_node_hears_it() {
    let model = Nodes::new(2, 2, vec![run(&["a"])]);
    check("2 nodes, 2 hosts, a lost reply, a failure, `run a`", Nodes { failures: 1, crashes: 0, ..model });
}

/// Two nodes read; one is told to halt and writes that; the other writes over it.
#[test]
fn a_store_that_compares_nothing_is_found() {
    let model = || Nodes { plant: Plant::NoCompare, ..Nodes::new(2, 2, vec![halt(&["a"])]) };
    assert_eq!(shortest(model), Some((4, vec!["no decision is lost"])));
}

/// A node writes, and the reply is lost; the command comes again, and is read and written again.
#[test]
fn an_id_that_nobody_knows_again_is_found() {
    let model = || Nodes { plant: Plant::NoIds, ..Nodes::new(2, 2, vec![halt(&["a"])]) };
    assert_eq!(shortest(model), Some((4, vec!["no command acts twice"])));
}

/// What `make model` looks at beside that, row by row of docs/internals/model.md: minutes.
mod whole {
    use super::*;

    #[test]
    #[ignore = "minutes: make model"]
    fn three_nodes_crash() {
        let model = Nodes::new(3, 6, vec![halt(&["a"]), run(&["a"])]);
        check("3 nodes, 6 hosts, a crash, `halt a`, `run a`", Nodes { lost_replies: 0, ..model });
    }

    #[test]
    #[ignore = "minutes: make model"]
    fn a_group_that_turns_round() {
        let model = Nodes { lost_replies: 0, ..Nodes::new(2, 2, vec![rollback(&["a"]), run(&["a"])]) };
        check("2 nodes, 2 hosts, a crash, `rollback a`, `run a`", model);
    }

    /// The same of three hosts, of which one may be on its way.
    #[test]
    #[ignore = "minutes: make model"]
    fn groups_that_turn_round_to_a_depth() {
        let (back, on) = (|| rollback(&["a"]), || run(&["a"]));
        let turns = |requests| Nodes { lost_replies: 0, ..Nodes::new(2, 6, requests) };
        let steady = |requests| Nodes { crashes: 0, waits: true, ..turns(requests) };
        for (what, model) in [
            ("2 nodes, 6 hosts, a crash, `rollback a`, `run a`", turns(vec![back(), on()])),
            (
                "2 nodes, 6 hosts, a failure, a stray report, a wait, `rollback a`, `run a`",
                Nodes { failures: 1, strays: 1, ..steady(vec![back(), on()]) },
            ),
            ("2 nodes, 6 hosts, a wait, `rollback a`, `run a`, `rollback a`", steady(vec![back(), on(), back()])),
            ("2 nodes, 6 hosts, a wait, `rollback a`, `start a`", steady(vec![back(), start(&["a"])])),
            ("2 nodes, 6 hosts, a wait, `rollback a`, `mark_done a`", steady(vec![back(), mark_done(&["a"])])),
        ] {
            check_to(what, model, Some(DEPTH));
        }
    }

    /// Larger ones, of whose states there are too many: all of them up to [`DEPTH`].
    #[test]
    #[ignore = "minutes: make model"]
    fn larger_ones_to_a_depth() {
        let stops = || vec![halt(&["a"]), run(&["a"])];
        let lossless = |model| Nodes { lost_replies: 0, ..model };
        let steady = |model| Nodes { crashes: 0, ..model };
        let all = Nodes { failures: 1, ..lossless(Nodes::new(3, 4, vec![halt(&[]), run(&[])])) };
        let slow = Nodes { is_one_slow: true, failures: 1, strays: 1, ..steady(Nodes::new(2, 4, stops())) };
        let again = Nodes { tries_again: true, strays: 1, ..steady(Nodes::new(2, 4, stops())) };
        for (what, model) in [
            ("3 nodes, 6 hosts, a crash, a lost reply, `halt a`, `run a`", Nodes::new(3, 6, stops())),
            ("3 nodes, 4 hosts, a crash, a failure, `halt --all`, `run --all`", all),
            (
                "2 nodes, 4 hosts, a crash, `start b`, `halt b`",
                lossless(Nodes::new(2, 4, vec![start(&["b"]), halt(&["b"])])),
            ),
            (
                "2 nodes, 4 hosts, a lost reply, `mark_done a`, `halt b`",
                steady(Nodes::new(2, 4, vec![mark_done(&["a"]), halt(&["b"])])),
            ),
            ("2 nodes, one slow, 4 hosts, a lost reply, a failure, a stray report, `halt a`, `run a`", slow),
            ("2 nodes, 4 hosts, a lost reply and all again, a stray report, `halt a`, `run a`", again),
        ] {
            check_to(what, model, Some(DEPTH));
        }
    }
}

/// Steps of a group that turns round which a second of `make test` has room for.
const FEW: usize = 14;

/// A host that was let go, and told by a node that has not written that, keeps its slot when its group turns round.
#[test]
fn a_group_that_turns_round_keeps_its_cap() {
    let model = || Nodes { lost_replies: 0, ..Nodes::new(2, 6, vec![rollback(&["a"]), run(&["a"])]) };
    check_to("2 nodes, 6 hosts, a crash, `rollback a`, `run a`", model(), Some(FEW));
    let waits = Nodes { crashes: 0, waits: true, ..model() };
    check_to("2 nodes, 6 hosts, a wait, `rollback a`, `run a`", waits, Some(FEW));
}
