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

fn publish(at: usize) -> Op {
    Op::Publish(Rev { at, enterprise: false })
}

/// `command`, killed at this change.
fn killed(command: Command, at: u32) -> Op {
    Op::Run(command, Some(at))
}

/// Lives that were found by long runs.
#[test]
fn what_long_runs_have_found_is_what_the_specification_says() {
    let version = |at| Rev { at, enterprise: false };
    let update = || Op::Run(Command::Update, None);
    let damaged = || [publish(2), update(), Op::Damage(version(2), Damage::Marker)];
    // A host on systemd that has begun and whose versions are healthy, but for this one.
    let on = |systemd, begun, odd: Option<(usize, Nature)>, ops: &[Op]| {
        let mut natures = vec![Nature::Healthy; 2 * VERSIONS.len()];
        if let Some((at, nature)) = odd {
            natures[2 * at] = nature;
        }
        live((systemd, false, begun, natures), ops).unwrap();
    };
    let lives = |odd, ops: &[Op]| on(true, true, odd, ops);
    // A version that only an undone run has made whole again: its updater's link is made by the next run.
    let undone = [Op::Run(Command::Rollback, None), killed(Command::UpdateNow, 3)];
    on(false, true, None, &[&damaged()[..], &undone].concat());
    // A repair that only takes away the link to a damaged version's updater.
    lives(Some((2, Nature::Falls)), &[&damaged()[..], &[killed(Command::Repair, 1)]].concat());
    // The agent did not run before the run; the boot, whose recovery was killed, has started the new version.
    let begun = [Op::Service(Service::Stop), publish(1), killed(Command::Update, 72)];
    lives(None, &[&begun[..], &[Op::Reboot(Some(0)), publish(1)]].concat());
    // It failed before, is watched again, and a link of another version is put right meanwhile: its failure counts on.
    let failed = [publish(1), update(), publish(0), Op::Run(Command::Rollback, None), Op::Clock(-3 * DAY)];
    let watched = [publish(1), killed(Command::Update, 92), Op::Run(Command::Recover, None)];
    let mended = [Op::Damage(version(0), Damage::Link), Op::Run(Command::Pin(None), None)];
    lives(None, &[&failed[..], &watched, &mended].concat());
    // It fell, was tried again, and a rollback that was cut short has ended its second watch.
    let tried_again = [publish(3), update(), Op::Clock(3599), killed(Command::Update, 92)];
    let overtaken = [killed(Command::Rollback, 6), Op::Run(Command::UpdateNow, None)];
    lives(Some((3, Nature::Falls)), &[&tried_again[..], &overtaken].concat());
    // After the undo the same run goes on to a version that falls, and `min_version` forbids the way back.
    let begun = [Op::Edit(Edit::MinVersion(Some(1))), publish(4), killed(Command::Update, 4)];
    lives(Some((4, Nature::Falls)), &[&begun[..], &[Op::Reboot(Some(0)), update()]].concat());
    // The clock is set back to the second of the first failure: the second one is taken for it.
    let pinned = Op::Run(Command::Pin(Some(version(2))), None);
    lives(Some((2, Nature::Dies)), &[publish(2), update(), Op::Clock(-1), pinned]);
    // The run that ends a watch is to go down to the version that `keep: 1` has removed with that end.
    let watched = [publish(1), killed(Command::Update, 1), publish(3), killed(Command::Update, 100)];
    lives(None, &[&watched[..], &[publish(0), Op::Edit(Edit::Keep(1)), update()]].concat());
    // Killed between the end of its watch and that removal.
    let begun = [Op::Edit(Edit::Keep(1)), publish(1), update(), publish(3)];
    lives(None, &[&begun[..], &[killed(Command::Update, 94), update()]].concat());
    // Half removed, a host boots without its agent, which did not run before either.
    let begun = [publish(0), Op::Run(Command::Enable, None), Op::Service(Service::Enable)];
    on(true, false, None, &[&begun[..], &[killed(Command::Uninstall, 29), Op::Reboot(Some(0))]].concat());
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
