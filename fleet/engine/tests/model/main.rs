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
    let began = Instant::now();
    let checker = model.checker().threads(2).finish_when(HasDiscoveries::AnyFailures).spawn_bfs().join();
    let (unique, states, depth) = (checker.unique_state_count(), checker.state_count(), checker.max_depth());
    let (versions, seconds) = (checker.model().versions(), began.elapsed().as_secs());
    println!("| {what} | {states} | {unique} | {versions} | {depth} | {seconds} |");
    for property in checker.model().properties() {
        let found = checker.discovery(property.name).map(Path::into_actions);
        let is_good = found.is_some() == matches!(property.expectation, Expectation::Sometimes);
        assert!(is_good, "{what}: {}: {found:?}", property.name);
    }
}

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
    fn a_group_that_turns_round_but_for_its_cap() {
        let model =
            Nodes { checks_cap: false, lost_replies: 0, ..Nodes::new(2, 2, vec![rollback(&["a"]), run(&["a"])]) };
        check("2 nodes, 2 hosts, a crash, `rollback a`, `run a`, without the cap", model);
    }
}

/// Larger ones, which were not run to their ends yet.
mod larger {
    use super::*;

    #[test]
    #[ignore = "nobody has seen its end"]
    fn three_nodes_crash_and_lose_a_reply() {
        let model = Nodes::new(3, 2, vec![halt(&["a"]), run(&["a"])]);
        check("3 nodes, 2 hosts, a crash, a lost reply, `halt a`, `run a`", model);
    }

    #[test]
    #[ignore = "nobody has seen its end"]
    fn three_nodes_and_a_stop_of_all() {
        let model = Nodes::new(3, 4, vec![halt(&[]), run(&[])]);
        check(
            "3 nodes, 4 hosts, a crash, a failure, `halt --all`, `run --all`",
            Nodes { lost_replies: 0, failures: 1, ..model },
        );
    }

    #[test]
    #[ignore = "nobody has seen its end"]
    fn a_group_before_its_turn() {
        let model = Nodes::new(2, 4, vec![start(&["b"]), halt(&["b"])]);
        check("2 nodes, 4 hosts, a crash, `start b`, `halt b`", Nodes { lost_replies: 0, ..model });
    }

    #[test]
    #[ignore = "nobody has seen its end"]
    fn a_group_that_is_called_done() {
        let model = Nodes::new(2, 4, vec![mark_done(&["a"]), halt(&["b"])]);
        check("2 nodes, 4 hosts, a lost reply, `mark_done a`, `halt b`", Nodes { crashes: 0, ..model });
    }

    #[test]
    #[ignore = "nobody has seen its end"]
    fn a_clock_that_stands() {
        let model = Nodes {
            is_one_slow: true,
            failures: 1,
            strays: 1,
            crashes: 0,
            ..Nodes::new(2, 4, vec![halt(&["a"]), run(&["a"])])
        };
        check("2 nodes, one of them slow, 4 hosts, a lost reply, a failure, a stray report, `halt a`, `run a`", model);
    }

    #[test]
    #[ignore = "nobody has seen its end"]
    fn what_was_heard_is_written_again() {
        let model =
            Nodes { tries_again: true, strays: 1, crashes: 0, ..Nodes::new(2, 4, vec![halt(&["a"]), run(&["a"])]) };
        check(
            "2 nodes, 4 hosts, a lost reply after which all is written again, a stray report, `halt a`, `run a`",
            model,
        );
    }
}

/// A host that was told, by a node that has not written it yet, keeps no slot when its group turns round: a second one goes.
#[test]
#[ignore = "not so yet: docs/internals/model.md"]
fn a_group_that_turns_round_keeps_its_cap() {
    let model = Nodes::new(2, 6, vec![rollback(&["a"]), run(&["a"])]);
    check("2 nodes, 6 hosts, rollback a, run a", Nodes { crashes: 0, lost_replies: 0, ..model });
}
