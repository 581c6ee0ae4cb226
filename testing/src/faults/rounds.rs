//! One rollout after the other, each with faults, until all hosts run its target; and what must hold then.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::hosts::SimulatedHost;
use super::operator::{self, Command, send};
use super::trouble::{Fault, tracing};
use super::world::{Database, GROUPS, HOSTS, Plan, SOON, World};
use crate::crash::random::Random;

/// Quick hosts and short faults.
fn quick(turns: bool) -> Plan {
    Plan {
        asks: (200, 700),
        updates: (200, 900),
        commands: (100, 1000),
        pauses: (200, 1500),
        lasts: (1000, 5000),
        troubled: Duration::from_secs(12),
        reports: Duration::from_secs(12),
        turns,
        spares_first: false,
    }
}

/// What came of faults.
#[derive(Debug, Default)]
pub struct Figures {
    /// How often each happened, and what must not have been, and was.
    pub faults: BTreeMap<Fault, (usize, Vec<String>)>,
    /// Rollouts.
    pub rollouts: usize,
    /// Commands that were done, and how often hosts were told to go.
    pub done: (usize, usize),
    /// Most hosts of a group that were on their way at once.
    pub most: usize,
    /// Longest after a stop that a node told a host to go, which nothing kept from knowing.
    pub latest: Duration,
}

impl Figures {
    /// What must not have been.
    pub fn violations(&self) -> impl Iterator<Item = &String> {
        self.faults.values().flat_map(|(_, violations)| violations)
    }

    /// A table for people.
    pub fn table(&self) -> String {
        let mut table = "| fault | times | violations |\n|---|---|---|\n".to_owned();
        for (fault, what) in Fault::ALL {
            let (times, violations) = self.faults.get(fault).map_or((0, 0), |(times, all)| (*times, all.len()));
            table += &format!("| {what} | {times} | {violations} |\n");
        }
        let Self { rollouts, done: (done, told), most, latest, .. } = self;
        table
            + &format!(
                "\n{rollouts} rollouts, {done} commands done, hosts told to go {told} times, at most {most} of a group at once; {} ms \
             after a stop the last one.\n",
                latest.as_millis()
            )
    }
}

/// Rollouts of these seeds over three nodes; `None`, and said: there is no PostgreSQL here.
pub fn many(program: &Path, seeds: std::ops::Range<u64>, turns: bool) -> Option<Figures> {
    let mut run = Run::start(program, quick(turns), 3, seeds.start)?;
    for seed in seeds {
        run.round(seed);
    }
    Some(run.end())
}

/// A world in which one rollout comes after the other.
pub(super) struct Run {
    pub(super) world: Arc<World>,
    pub(super) database: Option<Database>,
    pub(super) figures: Figures,
    hosts: Vec<std::thread::JoinHandle<()>>,
    /// The version that hosts come from, and how many there were.
    start: String,
    versions: usize,
}

impl Run {
    pub(super) fn start(program: &Path, plan: Plan, nodes: usize, seed: u64) -> Option<Self> {
        let (world, database) = World::start(program, plan, nodes, seed)?;
        let world = Arc::new(world);
        let mut run = Self {
            world: Arc::clone(&world),
            database,
            figures: Figures::default(),
            hosts: Vec::new(),
            start: "1.0.0".to_owned(),
            versions: 1,
        };
        let mut random = Random::new(!seed);
        run.writes_groups(&mut random);
        run.writes_version(&mut random, "1.0.0");
        for number in 0..HOSTS * GROUPS.len() {
            let (world, group) = (Arc::clone(&world), GROUPS[number % GROUPS.len()]);
            let host = SimulatedHost::new(number, group, "1.0.0", seed);
            run.hosts.push(std::thread::spawn(move || host.live(&world)));
        }
        let counted = |hosts: &Value| {
            let hosts = hosts["hosts"].as_array().map_or(&[][..], Vec::as_slice);
            hosts.iter().filter(|host| host["not_counted"] == "" && host["version"] == "1.0.0").count()
        };
        world.until("all hosts enrolled", || {
            let hosts = world.nodes[0].get("/v1/fleet/hosts?limit=1000");
            hosts.is_some_and(|hosts| counted(&hosts) == HOSTS * GROUPS.len())
        });
        Some(run)
    }

    fn writes_groups(&self, random: &mut Random) {
        // Half a day from now.
        let hour = (jiff::Timestamp::now().as_second() / 3600 + 12) % 24;
        let group = |name: &&str| {
            json!({
                "name": name, "days": ["*"], "start_hour": hour, "max_in_flight": "30%", "max_failed_before_halt": "100%",
                "max_failed_of_ended": "100%",
            })
        };
        let groups: Vec<Value> = GROUPS.iter().map(group).collect();
        let config = json!({
            "kind": "autoupdate_config", "version": "v1", "metadata": { "name": "autoupdate-config" },
            "spec": { "agents": { "mode": "enabled", "strategy": "halt-on-error", "schedules": { "regular": groups } } },
        });
        self.writes(random, &config);
    }

    fn writes_version(&self, random: &mut Random, target: &str) {
        let agents =
            json!({ "start_version": self.start, "target_version": target, "schedule": "regular", "mode": "enabled" });
        let version = json!({
            "kind": "autoupdate_version", "version": "v1", "metadata": { "name": "autoupdate-version" },
            "spec": { "agents": agents },
        });
        self.writes(random, &version);
    }

    fn writes(&self, random: &mut Random, resource: &Value) {
        let subject =
            format!("{}/{}", resource["kind"].as_str().unwrap(), resource["metadata"]["name"].as_str().unwrap());
        let body = json!({ "how": "replace", "text": resource.to_string() });
        if !operator::write(&self.world, random, "/v1/fleet/resources", &body, ("WRITE", &subject)) {
            self.world.observer.violation(format!("{subject} is refused"));
        }
    }

    /// A rollout with the faults of `seed`.
    pub(super) fn round(&mut self, seed: u64) {
        let mut random = Random::new(seed);
        let world = Arc::clone(&self.world);
        tracing(&format!("seed {seed} begins"));
        let target = self.begins(&mut random);
        tracing(&format!("{target} begins"));
        world.is_troubled.store(true, Ordering::Relaxed);
        let own = Arc::clone(&world);
        let mut other = Random::new(seed.wrapping_add(1 << 32));
        let operator = std::thread::spawn(move || {
            for group in GROUPS {
                send(&own, &mut other, Command::Start(group));
            }
            operator::command_at_random(&own, &mut other);
        });
        let (least, most) = world.plan.pauses;
        let end = Instant::now() + world.plan.troubled;
        let mut last = Fault::NodeKilled;
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(least + random.below((most - least) as usize) as u64));
            let fault = Fault::any(&mut random, &world, self.database.is_some());
            if fault.happen(&world, &mut self.database, &mut random) {
                last = fault;
                self.counts(fault, 1);
            }
        }
        world.is_troubled.store(false, Ordering::Relaxed);
        operator.join().unwrap();
        tracing("all goes well");
        self.ends(&mut random, &target);
        self.counts(last, 0);
        tracing(&format!("seed {seed} ends"));
    }

    /// What was seen since is of this fault.
    fn counts(&mut self, fault: Fault, times: usize) {
        let violations = self.world.observer.violations();
        violations.iter().for_each(|what| eprintln!("VIOLATION {fault:?}: {what}"));
        let (count, all) = self.figures.faults.entry(fault).or_default();
        *count += times;
        all.extend(violations);
    }

    /// A new version, which all nodes know.
    fn begins(&mut self, random: &mut Random) -> String {
        let target = format!("1.{}.0", self.versions);
        self.versions += 1;
        self.figures.rollouts += 1;
        self.writes_version(random, &target);
        let knows = |node: &super::world::Node| {
            let rollout = node.get("/v1/fleet/rollout");
            rollout.is_some_and(|rollout| rollout.to_string().contains(&format!("\"{target}\"")))
        };
        self.world.until("all nodes know the version", || self.world.nodes.iter().all(knows));
        target
    }

    /// All goes well from now on: all hosts come to the target, some go back, and nothing was lost.
    fn ends(&mut self, random: &mut Random, target: &str) {
        let world = Arc::clone(&self.world);
        for node in world.nodes.iter().filter(|node| !node.runs()) {
            world.observer.violation(format!("a node ended by itself: {}", node.log()));
            node.begin();
        }
        let (all, groups) = world.observer.stops();
        let holds = |holds: &Value| {
            let held = holds["groups"].as_array().map_or(&[][..], Vec::as_slice);
            (!all || holds["all"] == true) && groups.iter().all(|group| held.iter().any(|name| name == group))
        };
        let is_held = |node: &super::world::Node| node.get("/v1/fleet/holds").is_some_and(|answer| holds(&answer));
        world.until(&format!("stops are kept: all {all}, {groups:?}"), || world.nodes.iter().all(is_held));
        send(&world, random, Command::Run(None));
        self.comes_to(random, target, |world, random, group| {
            // One of them is refused.
            send(world, random, Command::Run(Some(group)));
            send(world, random, Command::Start(group));
        });
        self.start = target.to_owned();
        self.looks();
    }

    fn comes_to(&self, random: &mut Random, version: &str, again: impl Fn(&World, &mut Random, &'static str)) {
        let end = Instant::now() + SOON.max(2 * self.world.plan.troubled);
        let behind = || {
            let versions = self.world.versions.lock().unwrap();
            let is_behind = |group: &usize| {
                (0..versions.len()).any(|host| host % GROUPS.len() == *group && versions[host] != version)
            };
            // Of a group that somebody called done while it was halted the others stay.
            let rollout = self.world.nodes[0].get("/v1/fleet/rollout").unwrap_or_default();
            let is_done = |group: &usize| rollout["status"]["groups"][*group]["state"] == "done";
            (0..GROUPS.len()).filter(is_behind).filter(|group| !is_done(group)).collect::<Vec<_>>()
        };
        let mut left = behind();
        while !left.is_empty() {
            if Instant::now() > end {
                let rollout = self.world.nodes[0].get("/v1/fleet/rollout").unwrap_or_default();
                let hosts = self.world.nodes[0].get("/v1/fleet/hosts?limit=1000").unwrap_or_default();
                return self.world.observer.violation(format!("hosts do not come to {version}: {rollout}\n{hosts}"));
            }
            left.iter().for_each(|group| again(&self.world, random, GROUPS[*group]));
            let next = Instant::now() + Duration::from_secs(8);
            while Instant::now() < next && !left.is_empty() {
                std::thread::sleep(Duration::from_millis(200));
                left = behind();
            }
        }
        self.world.until("hosts report", || self.world.observer.on_the_way() == 0);
    }

    /// The audit log is whole, and has each command that was answered, once.
    fn looks(&mut self) {
        let world = &self.world;
        let Some(verified) = world.nodes[0].get("/v1/fleet/audit/verify") else {
            return world.observer.violation("the log cannot be verified".to_owned());
        };
        if !verified["fault"].is_null() {
            world.observer.violation(format!("the log is not whole: {verified}"));
        }
        let mut records: BTreeMap<(String, String), usize> = BTreeMap::new();
        let mut after = 0;
        while let Some(page) = world.nodes[0].get(&format!("/v1/fleet/audit?limit=1000&after={after}")) {
            for entry in page["entries"].as_array().into_iter().flatten() {
                let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
                after = entry["seq"].as_u64().unwrap_or(u64::MAX);
                if entry["done"] == true {
                    *records.entry((text("action"), text("subject"))).or_default() += 1;
                }
            }
            if page["more"] != true {
                break;
            }
        }
        let decided = world.observer.all_decided();
        let mut answered: BTreeMap<&(String, String), (usize, usize)> = BTreeMap::new();
        for one in decided.iter().filter(|one| one.record.0 != "WRITE") {
            let (must, may) = answered.entry(&one.record).or_default();
            *(if one.may_be_lost { may } else { must }) += 1;
        }
        for (record, (must, may)) in answered {
            let there = records.get(record).copied().unwrap_or_default();
            if !(must..=must + may).contains(&there) {
                world.observer.violation(format!(
                    "{record:?}: answered {must} times ({may} more may be lost), {there} on record"
                ));
            }
        }
        if let Some(database) = &self.database {
            let ids: Vec<_> =
                decided.iter().filter(|one| !one.may_be_lost).map(|one| format!("'{}'", one.id)).collect();
            let count = format!("SELECT count(*) FROM request WHERE id IN ({})", ids.join(","));
            let there = database.primary.sql("fleet", &count);
            if there != Ok(ids.len().to_string()) {
                world.observer.violation(format!("{} requests were answered, there are {there:?}", ids.len()));
            }
        }
        let rollouts = world.nodes[0].get("/v1/fleet/rollouts?limit=1000");
        let count = rollouts.as_ref().and_then(Value::as_array).map(Vec::len);
        if count.is_none_or(|count| count > self.versions) {
            world.observer.violation(format!("{} versions were written, there are {count:?} rollouts", self.versions));
        }
    }

    /// What came of it.
    pub(super) fn end(mut self) -> Figures {
        self.world.has_ended.store(true, Ordering::Relaxed);
        self.hosts.drain(..).for_each(|host| drop(host.join()));
        let (told, most, latest) = self.world.observer.figures();
        self.figures.done = (self.world.observer.all_decided().len(), told);
        (self.figures.most, self.figures.latest) = (most, latest);
        self.figures
    }
}
