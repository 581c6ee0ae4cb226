//! The properties.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

use super::op::{Command, Damage, Edit, Op, Service};
use super::sequence::World;
use super::world::{DAY, Nature, Rev, VERSIONS};

/// Sequences tried where `PROPTEST_CASES` says nothing.
const CASES: u32 = 300;
/// Longest sequence.
const LENGTH: usize = 40;

fn rev() -> impl Strategy<Value = Rev> {
    (0..VERSIONS.len(), prop::bool::weighted(0.2)).prop_map(|(at, enterprise)| Rev { at, enterprise })
}

fn nature() -> impl Strategy<Value = Nature> {
    prop_oneof![
        6 => Just(Nature::Healthy),
        1 => Just(Nature::Dies),
        1 => Just(Nature::MigratesAndDies),
        1 => Just(Nature::Falls),
    ]
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        8 => Just(Command::Update),
        4 => Just(Command::UpdateNow),
        3 => Just(Command::Enable),
        1 => Just(Command::Disable),
        2 => prop::option::of(rev()).prop_map(Command::Pin),
        2 => Just(Command::Unpin),
        3 => Just(Command::Rollback),
        2 => Just(Command::Recover),
        2 => Just(Command::Repair),
        1 => Just(Command::Uninstall),
    ]
}

fn edit() -> impl Strategy<Value = Edit> {
    prop_oneof![
        (1u32..5).prop_map(Edit::Keep),
        prop::option::weighted(0.3, 0..VERSIONS.len()).prop_map(Edit::MinVersion),
        prop_oneof![Just(2i64), Just(365)].prop_map(Edit::MaxAge),
        prop_oneof![4 => Just(0usize), 1 => Just(1)].prop_map(Edit::Proxy),
    ]
}

fn clock() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => 1i64..300,
        4 => 1800i64..DAY,
        1 => DAY..10 * DAY,
        1 => Just(400 * DAY),
        1 => -400i64..0,
        1 => Just(-3 * DAY),
        1 => Just(-900 * DAY),
    ]
}

fn damage() -> impl Strategy<Value = Damage> {
    prop::sample::select(vec![
        Damage::Size,
        Damage::Bytes,
        Damage::Marker,
        Damage::Snapshot,
        Damage::Description,
        Damage::NoSnapshot,
        Damage::Link,
    ])
}

fn kill() -> impl Strategy<Value = Option<u32>> {
    prop::option::weighted(0.4, 0u32..110)
}

fn op() -> impl Strategy<Value = Op> {
    let service = prop::sample::select(vec![Service::Enable, Service::Start, Service::Stop, Service::Crash]);
    prop_oneof![
        5 => rev().prop_map(Op::Publish),
        1 => rev().prop_map(Op::Withdraw),
        1 => prop::bool::weighted(0.7).prop_map(Op::Window),
        14 => (command(), kill()).prop_map(|(command, kill)| Op::Run(command, kill)),
        2 => kill().prop_map(Op::Reboot),
        2 => edit().prop_map(Op::Edit),
        3 => clock().prop_map(Op::Clock),
        2 => (rev(), damage()).prop_map(|(rev, damage)| Op::Damage(rev, damage)),
        4 => Just(Op::Row),
        3 => service.prop_map(Op::Service),
    ]
}

/// What every host begins with, so that sequences are not spent on hosts without anything.
fn beginning() -> [Op; 4] {
    [
        Op::Publish(Rev { at: 0, enterprise: false }),
        Op::Run(Command::Enable, None),
        Op::Service(Service::Enable),
        Op::Service(Service::Start),
    ]
}

/// A life: on a host with or without systemd, whose agent's file is a plain one or none, that has begun or not; the natures
/// of the versions; and what happens.
fn live((systemd, plain, begun, natures): (bool, bool, bool, Vec<Nature>), ops: &[Op]) -> Result<(), TestCaseError> {
    let mut world = World::new(systemd, plain, &natures);
    let first = if begun { beginning().to_vec() } else { Vec::new() };
    for op in first.iter().chain(ops) {
        world.step(op)?;
    }
    world.finish()
}

/// Lives that were found by long runs.
#[test]
fn what_long_runs_have_found_is_what_the_specification_says() {
    let version = Rev { at: 2, enterprise: false };
    let healthy = || vec![Nature::Healthy; 2 * VERSIONS.len()];
    let falls = healthy().into_iter().enumerate().map(|(at, nature)| if at == 4 { Nature::Falls } else { nature });
    let update = Op::Run(Command::Update, None);
    // A version that only an undone run has made whole again: its updater's link is made by the next run.
    let undone = [Op::Run(Command::Rollback, None), Op::Run(Command::UpdateNow, Some(3))];
    // A repair that only takes away the link to a damaged version's updater.
    let repair = [Op::Run(Command::Repair, Some(1))];
    let damaged = [Op::Publish(version), update, Op::Damage(version, Damage::Marker)];
    for (systemd, natures, then) in [(false, healthy(), &undone[..]), (true, falls.collect(), &repair[..])] {
        let ops: Vec<Op> = damaged.iter().chain(then).cloned().collect();
        live((systemd, false, true, natures), &ops).unwrap();
    }
    // The agent did not run before the run; the boot, whose recovery was killed, has started the new version.
    let later = Rev { at: 1, enterprise: false };
    let booted = [
        Op::Service(Service::Stop),
        Op::Publish(later),
        Op::Run(Command::Update, Some(72)),
        Op::Reboot(Some(0)),
        Op::Publish(later),
    ];
    live((true, false, true, healthy()), &booted).unwrap();
    // It failed before, is watched again, and a link of another version is put right meanwhile: its failure counts on.
    let first = Rev { at: 0, enterprise: false };
    let watched_again = [
        Op::Publish(later),
        Op::Run(Command::Update, None),
        Op::Publish(first),
        Op::Run(Command::Rollback, None),
        Op::Clock(-3 * DAY),
        Op::Publish(later),
        Op::Run(Command::Update, Some(92)),
        Op::Run(Command::Recover, None),
        Op::Damage(first, Damage::Link),
        Op::Run(Command::Pin(None), None),
    ];
    live((true, false, true, healthy()), &watched_again).unwrap();
    // It fell, was tried again, and a rollback that was cut short has ended its second watch.
    let falls = healthy().into_iter().enumerate().map(|(at, nature)| if at == 6 { Nature::Falls } else { nature });
    let watch_overtaken = [
        Op::Publish(Rev { at: 3, enterprise: false }),
        Op::Run(Command::Update, None),
        Op::Clock(3599),
        Op::Run(Command::Update, Some(92)),
        Op::Run(Command::Rollback, Some(6)),
        Op::Run(Command::UpdateNow, None),
    ];
    live((true, false, true, falls.collect()), &watch_overtaken).unwrap();
    // After the undo the same run goes on to a version that falls, and `min_version` forbids the way back.
    let falls_later =
        healthy().into_iter().enumerate().map(|(at, nature)| if at == 8 { Nature::Falls } else { nature });
    let no_way_back = [
        Op::Edit(Edit::MinVersion(Some(1))),
        Op::Publish(Rev { at: 4, enterprise: false }),
        Op::Run(Command::Update, Some(4)),
        Op::Reboot(Some(0)),
        Op::Run(Command::Update, None),
    ];
    live((true, false, true, falls_later.collect()), &no_way_back).unwrap();
    // The clock is set back to the second of the first failure: the second one is taken for it.
    let dies = healthy().into_iter().enumerate().map(|(at, nature)| if at == 4 { Nature::Dies } else { nature });
    let same_second = [
        Op::Publish(version),
        Op::Run(Command::Update, None),
        Op::Clock(-1),
        Op::Run(Command::Pin(Some(version)), None),
    ];
    live((true, false, true, dies.collect()), &same_second).unwrap();
    // The run that ends a watch is to go down to the version that `keep: 1` has removed with that end.
    let kept_one = [
        Op::Publish(later),
        Op::Run(Command::Update, Some(1)),
        Op::Publish(Rev { at: 3, enterprise: false }),
        Op::Run(Command::Update, Some(100)),
        Op::Publish(first),
        Op::Edit(Edit::Keep(1)),
        Op::Run(Command::Update, None),
    ];
    live((true, false, true, healthy()), &kept_one).unwrap();
    // Killed between the end of its watch and that removal.
    let not_yet = [
        Op::Edit(Edit::Keep(1)),
        Op::Publish(later),
        Op::Run(Command::Update, None),
        Op::Publish(Rev { at: 3, enterprise: false }),
        Op::Run(Command::Update, Some(94)),
        Op::Run(Command::Update, None),
    ];
    live((true, false, true, healthy()), &not_yet).unwrap();
    // Half removed, a host boots without its agent, which did not run before either.
    let half_removed = [
        Op::Publish(first),
        Op::Run(Command::Enable, None),
        Op::Service(Service::Enable),
        Op::Run(Command::Uninstall, Some(29)),
        Op::Reboot(Some(0)),
    ];
    live((true, false, false, healthy()), &half_removed).unwrap();
}

#[test]
fn whatever_happens_to_a_host_it_is_what_the_specification_says() {
    let cases = std::env::var_os("PROPTEST_CASES").and_then(|cases| cases.to_str()?.parse().ok());
    let config = Config {
        cases: cases.unwrap_or(CASES),
        failure_persistence: None,
        max_shrink_iters: 1500,
        ..Config::default()
    };
    // The seed is the same in each short run, so that a failure is one of the code.
    let mut runner = match cases {
        None => TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha)),
        Some(_) => TestRunner::new(config),
    };
    let natures = prop::collection::vec(nature(), 2 * VERSIONS.len());
    let host = (prop::bool::weighted(0.8), any::<bool>(), prop::bool::weighted(0.8), natures);
    let strategy = (host, prop::collection::vec(op(), 1..LENGTH));
    let outcome = runner.run(&strategy, |(host, ops)| live(host, &ops));
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}
