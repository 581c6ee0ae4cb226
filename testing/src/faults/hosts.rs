//! Hosts that ask any node, obey, and report; some fail, some are not heard of for a while.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use protocol::report::{
    JOIN_HEADER, Key, PATH, QUESTION_HEADER, SIGNATURE_HEADER, SignedQuestion, SignedReport, question_message,
    report_message,
};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use super::world::{Plan, World};
use crate::crash::fleet::http::Request;
use crate::crash::random::Random;

/// One in so many updates fails, while faults happen.
const FAILS: usize = 12;
/// One in so many hosts is not heard of for a while after it was told.
const HIDES: usize = 15;
/// Between two reports of a host at least: what the server takes (FLEET §5).
const REPORTS: Duration = Duration::from_secs(11);

/// A host.
pub(super) struct SimulatedHost {
    number: usize,
    id: String,
    group: &'static str,
    pair: Ed25519KeyPair,
    sequence: u64,
    epoch: u64,
    version: String,
    last: Value,
    refused: BTreeSet<(String, u64)>,
    reported: Option<Instant>,
    random: Random,
}

impl SimulatedHost {
    pub(super) fn new(number: usize, group: &'static str, version: &str, seed: u64) -> Self {
        let key = protocol::Digest::of(format!("host {number}").as_bytes()).0;
        Self {
            number,
            id: format!("00000000-0000-4000-8000-{number:012}"),
            group,
            pair: Ed25519KeyPair::from_seed_unchecked(&key).unwrap(),
            sequence: u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap(),
            epoch: 0,
            version: version.to_owned(),
            last: Value::Null,
            refused: BTreeSet::new(),
            reported: None,
            random: Random::new(seed + number as u64),
        }
    }

    /// Lives until the world ends.
    pub(super) fn live(mut self, world: &Arc<World>) {
        while !world.has_ended.load(Ordering::Relaxed) {
            self.sleep(world.plan.asks);
            self.turn(world);
        }
    }

    fn sleep(&mut self, (least, most): (u64, u64)) {
        let more = self.random.below((most - least) as usize) as u64;
        std::thread::sleep(Duration::from_millis(least + more));
    }

    fn turn(&mut self, world: &World) {
        let node = self.random.below(world.nodes.len());
        let asked = Instant::now();
        let Some(answer) = self.asks(world, node) else { return };
        self.epoch = answer["fleet"]["report"]["epoch"].as_u64().unwrap_or(self.epoch);
        let wanted = answer["agent_version"].as_str().unwrap_or_default().to_owned();
        let attempt = answer["fleet"]["attempt"].as_u64().unwrap_or_default();
        let goes = answer["agent_auto_update"] == true && wanted != self.version;
        if goes && !self.refused.contains(&(wanted.clone(), attempt)) {
            world.observer.told(self.number, self.group, &wanted, node, asked);
            self.update(world, wanted, attempt);
        } else if self.reported.is_none_or(|at| at.elapsed() > world.plan.reports.max(REPORTS)) {
            self.report(world);
        }
    }

    fn update(&mut self, world: &World, wanted: String, attempt: u64) {
        let Plan { updates: (least, most), .. } = world.plan;
        let is_troubled = world.is_troubled.load(Ordering::Relaxed);
        if is_troubled && self.random.below(HIDES) == 0 {
            self.sleep((most, 5 * most));
        }
        self.sleep((least, most));
        let fails = is_troubled && self.random.below(FAILS) == 0;
        let (outcome, code) = if fails { ("rolled_back", "unhealthy") } else { ("updated", "") };
        let at = jiff::Timestamp::now().to_string();
        self.last = json!({ "from": self.version, "to": wanted, "at": at, "outcome": outcome, "code": code });
        if fails {
            self.refused.insert((wanted, attempt));
        } else {
            self.version = wanted;
        }
        world.versions.lock().unwrap()[self.number] = self.version.clone();
        world.observer.ended(self.number);
        while !self.report(world) && !world.has_ended.load(Ordering::Relaxed) {
            self.sleep(world.plan.asks);
        }
    }

    fn asks(&mut self, world: &World, node: usize) -> Option<Value> {
        let path = format!("/v1/webapi/find?host={}&group={}", self.id, self.group);
        self.sequence += 1;
        let message = question_message(&self.id, self.epoch, self.sequence);
        let signature = self.pair.sign(&message).as_ref().try_into().unwrap();
        let question = SignedQuestion { key: self.key(), epoch: self.epoch, number: self.sequence, signature };
        let headers = if self.epoch == 0 { String::new() } else { format!("{QUESTION_HEADER}: {question}\r\n") };
        let answer = world.nodes[node].ask(&Request { headers, ..Request::host(&path) })?;
        (answer.status == 200).then(|| answer.json())
    }

    /// Whether it was taken.
    fn report(&mut self, world: &World) -> bool {
        self.sequence += 1;
        let mut report = json!({
            "host": self.id, "update_id": "", "epoch": self.epoch, "sequence": self.sequence, "time": jiff::Timestamp::now().to_string(),
            "group": self.group, "labels": { "env": "test" }, "enabled": true, "pinned": false,
            "versions": { "installed": self.version, "running": self.version }, "updater": "teleport-update 1.0.0",
        });
        if self.last.is_object() {
            report["last"] = self.last.clone();
        }
        let body = report.to_string();
        let signature = self.pair.sign(&report_message(body.as_bytes())).as_ref().try_into().unwrap();
        let signature = SignedReport { key: self.key(), signature };
        let headers = format!("{SIGNATURE_HEADER}: {signature}\r\n{JOIN_HEADER}: {}\r\n", world.token);
        let node = self.random.below(world.nodes.len());
        let request = Request { method: "POST", headers, body, ..Request::host(PATH) };
        let answer = world.nodes[node].ask(&request);
        let is_taken = answer.as_ref().is_some_and(|answer| answer.status == 200);
        if is_taken {
            self.reported = Some(Instant::now());
        } else if let Some(epoch) = answer.and_then(|answer| answer.json()["epoch"].as_u64()) {
            self.epoch = epoch;
        }
        is_taken
    }

    fn key(&self) -> Key {
        Key(self.pair.public_key().as_ref().try_into().unwrap())
    }
}
