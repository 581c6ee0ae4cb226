//! What goes wrong.

use std::process::Command;
use std::time::{Duration, Instant};

use super::operator::{self, send};
use super::world::{Database, GROUPS, Node, World};
use crate::crash::random::Random;
use crate::proxy::Way;

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "`Fault::ALL` says what each is")]
pub enum Fault {
    NodeKilled,
    NodeStopped,
    NodeCutOff,
    NodeCutOffLong,
    NodeStalled,
    NodeSlow,
    NodeLosesAnswers,
    NodeDiskFull,
    NodesKilled,
    NodesSlow,
    DatabaseKilled,
    DatabaseStopped,
    DatabaseDiskFull,
    FailedOver,
    FailedOverWithLoss,
}

use Fault::*;

impl Fault {
    /// All of them, and what each is.
    pub const ALL: &[(Self, &str)] = &[
        (NodeKilled, "a node: `kill -9`"),
        (NodeStopped, "a node: SIGSTOP, SIGCONT"),
        (NodeCutOff, "a node: cut off from the database"),
        (NodeCutOffLong, "a node: cut off for 40 s"),
        (NodeStalled, "a node: nothing moves to or from the database"),
        (NodeSlow, "a node: each part comes late"),
        (NodeLosesAnswers, "a node: requests and answers are lost, one in 32, of COMMITs one in 4"),
        (NodeDiskFull, "a node: its disk is full"),
        (NodesKilled, "all nodes: `kill -9`"),
        (NodesSlow, "all nodes: each part comes late, so that turns of different nodes overlap"),
        (DatabaseKilled, "the database: `kill -9`"),
        (DatabaseStopped, "the database: SIGSTOP, SIGCONT"),
        (DatabaseDiskFull, "the database: its disk is full"),
        (FailedOver, "the primary: `kill -9`, its standby is promoted"),
        (FailedOverWithLoss, "the same, and the standby has not the last decisions"),
    ];

    /// One that can be here; `FAULTS_ONLY` names the only one.
    pub(super) fn any(random: &mut Random, world: &World, has_database: bool) -> Self {
        let only = std::env::var("FAULTS_ONLY").ok();
        loop {
            let (fault, _) = Self::ALL[random.below(Self::ALL.len())];
            if let Some(only) = &only {
                if *only == format!("{fault:?}") {
                    return fault;
                }
                continue;
            }
            let is_rare = fault == NodeCutOffLong && random.below(4) != 0;
            let kills_first = fault == NodesKilled && world.plan.spares_first;
            if !is_rare && !kills_first && (has_database || fault.is_of_file()) {
                return fault;
            }
        }
    }

    /// It can be where the store is a file.
    fn is_of_file(self) -> bool {
        matches!(self, NodeKilled | NodeStopped | NodeDiskFull)
    }

    /// It happens, lasts, and ends. False: it cannot happen here.
    pub(super) fn happen(self, world: &World, database: &mut Option<Database>, random: &mut Random) -> bool {
        let (least, most) = world.plan.lasts;
        let lasts = Duration::from_millis(least + random.below((most - least) as usize) as u64);
        let lasts = if self == NodeCutOffLong { Duration::from_secs(40) } else { lasts };
        let spared = usize::from(world.plan.spares_first && matches!(self, NodeKilled | NodeDiskFull));
        if spared == world.nodes.len() {
            return false;
        }
        let number = spared + random.below(world.nodes.len() - spared);
        let all = 0..world.nodes.len();
        let affected = if self.is_of_node() { number..number + 1 } else { all };
        affected.clone().for_each(|node| world.observer.impaired(node, lasts));
        let began = Instant::now();
        let happened = self.lasts(world, number, lasts, database, random);
        // Until it was over.
        affected.for_each(|node| world.observer.impaired(node, Duration::ZERO));
        tracing(&format!("{self:?} of node {number}: {:?}", began.elapsed()));
        happened
    }

    fn is_of_node(self) -> bool {
        self < NodesKilled
    }

    fn lasts(
        self,
        world: &World,
        number: usize,
        lasts: Duration,
        database: &mut Option<Database>,
        random: &mut Random,
    ) -> bool {
        let node = &world.nodes[number];
        match (self, database) {
            (NodeKilled, _) => kill([node], lasts, world),
            (NodesKilled, _) => kill(&world.nodes, lasts, world),
            (NodeStopped, _) => {
                let pids: Vec<u32> = node.pid().into_iter().collect();
                stop(&pids, lasts);
            }
            (NodeDiskFull, _) => {
                let can = node.dir.fill();
                std::thread::sleep(if can { lasts } else { Duration::ZERO });
                node.dir.free();
                return can;
            }
            (NodeCutOff | NodeCutOffLong, _) => {
                world.observer.cut(number, true);
                through(node, Way::Cut, lasts);
                world.observer.cut(number, false);
            }
            (NodeStalled, _) => through(node, Way::Stalled, lasts),
            (NodeSlow, _) => through(node, Way::Slow(Duration::from_millis(20 + random.below(180) as u64)), lasts),
            (NodesSlow, _) => {
                let slow = |node: &Node, way: Way| node.proxy.as_ref().unwrap().set(way);
                world.nodes.iter().for_each(|node| slow(node, Way::Slow(Duration::from_millis(50))));
                std::thread::sleep(lasts);
                world.nodes.iter().for_each(|node| slow(node, Way::Open));
            }
            (NodeLosesAnswers, _) => through(node, Way::Faulty(32), lasts),
            (DatabaseKilled, Some(database)) => {
                database.primary.kill_hard();
                std::thread::sleep(lasts / 2);
                database.primary.begin();
            }
            (DatabaseStopped, Some(database)) => stop(&family(database.primary.pid()), lasts),
            (DatabaseDiskFull, Some(database)) => return fill(database, lasts),
            (FailedOver, Some(database)) => fail_over(world, database),
            (FailedOverWithLoss, Some(database)) => return lose(world, database, random),
            (_, None) => return false,
        }
        true
    }
}

/// What happened, on standard error.
pub(super) fn tracing(line: &str) {
    if std::env::var_os("FAULTS_LOG").is_some() {
        eprintln!("{} {line}", jiff::Timestamp::now());
    }
}

fn kill<'a>(nodes: impl IntoIterator<Item = &'a Node>, lasts: Duration, world: &World) {
    let nodes: Vec<_> = nodes.into_iter().inspect(|node| node.kill()).collect();
    std::thread::sleep(lasts / 2);
    for node in nodes {
        if !node.begin() {
            world.observer.violation(format!("a node does not start again: {}", node.log()));
        }
    }
}

fn through(node: &Node, way: Way, lasts: Duration) {
    let proxy = node.proxy.as_ref().unwrap();
    proxy.set(way);
    std::thread::sleep(lasts);
    proxy.set(Way::Open);
}

fn signal(pids: &[u32], name: &str) {
    for pid in pids {
        // It may have ended.
        let _ = Command::new("kill")
            .args([format!("-{name}"), pid.to_string()])
            .stderr(std::process::Stdio::null())
            .status();
    }
}

fn stop(pids: &[u32], lasts: Duration) {
    signal(pids, "STOP");
    std::thread::sleep(lasts);
    signal(pids, "CONT");
}

/// A process and its children.
fn family(pid: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    std::iter::once(pid).chain(children.split_whitespace().filter_map(|child| child.parse().ok())).collect()
}

fn fill(database: &mut Database, lasts: Duration) -> bool {
    if !database.room.fill() {
        return false;
    }
    std::thread::sleep(lasts);
    database.room.free();
    // It may have ended for want of room; whoever watches it starts it again.
    std::thread::sleep(Duration::from_millis(300));
    let standby = database.standby.as_mut();
    for server in std::iter::once(&mut database.primary).chain(standby) {
        if server.has_ended() {
            server.begin();
        }
    }
    true
}

/// No decision of an operator is lost.
fn fail_over(world: &World, database: &mut Database) {
    let _waits = world.commands.lock().unwrap();
    database.follow();
    database.fail_over(&world.nodes);
    database.standby = Some(database.primary.standby());
}

/// A halt that was answered is lost: everything is held, until an operator lets it go on.
fn lose(world: &World, database: &mut Database, random: &mut Random) -> bool {
    let _waits = world.commands.lock().unwrap();
    database.follow();
    let since = Instant::now();
    database.standby.as_mut().unwrap().kill();
    if !send(world, random, operator::Command::Halt(Some(GROUPS[0]))) {
        return false;
    }
    database.fail_over(&world.nodes);
    world.observer.may_lose(since);
    // The halt is lost; what holds everything takes its place.
    world.observer.goes_on(Some(GROUPS[0]));
    world.observer.stopped(None);
    let is_held = |node: &Node| node.get("/v1/fleet/holds").is_some_and(|holds| holds["all"] == true);
    world.until("every node holds everything", || world.nodes.iter().all(is_held));
    // As the runbook says: who was told, and is not known so any more, comes to an end first.
    world.until("hosts come to an end", || world.observer.on_the_way() == 0);
    std::thread::sleep(Duration::from_secs(2));
    database.standby = Some(database.primary.standby());
    true
}
