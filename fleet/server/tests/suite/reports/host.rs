//! A host that reports, as a test plays it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::report::{
    JOIN_HEADER, Key, PATH, QUESTION_HEADER, SIGNATURE_HEADER, SignedQuestion, SignedReport, question_message,
    report_message,
};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use crate::support::{Server, request};

/// A host with a key.
pub(crate) struct Host {
    pub(crate) id: String,
    pub(crate) group: &'static str,
    pub(crate) hostname: String,
    pair: Ed25519KeyPair,
    sequence: AtomicU64,
}

impl Host {
    /// Host `number` of `group`, with a key of its own.
    pub(crate) fn new(number: u8, group: &'static str) -> Self {
        Self::with_key(number, group, number)
    }

    /// The same with the key of another number.
    pub(crate) fn with_key(number: u8, group: &'static str, key: u8) -> Self {
        let pair = Ed25519KeyPair::from_seed_unchecked(&[key; 32]).unwrap();
        let now = u64::try_from(jiff::Timestamp::now().as_millisecond()).unwrap();
        let id = format!("00000000-0000-4000-8000-0000000000{number:02x}");
        Self { id, group, hostname: String::new(), pair, sequence: now.into() }
    }

    /// Its public key.
    pub(crate) fn key(&self) -> Key {
        Key(self.pair.public_key().as_ref().try_into().unwrap())
    }

    /// The next number.
    pub(crate) fn next(&self) -> u64 {
        self.sequence.fetch_add(1, Ordering::Relaxed)
    }

    /// A report that it runs `version`; `last` is outcome, target and code of its last change.
    pub(crate) fn says(&self, epoch: u64, version: &str, last: Option<(&str, &str, &str)>) -> Value {
        let mut report = json!({
            "host": self.id, "update_id": "", "epoch": epoch, "sequence": self.next(), "time": "2026-01-05T12:00:00Z",
            "group": self.group, "hostname": self.hostname, "labels": { "env": "test" }, "versions": { "installed": version, "running": version },
            "enabled": true, "pinned": false, "kernel": "6.1.0", "updater": "teleport-update 1.0.0",
        });
        if let Some((outcome, to, code)) = last {
            let at = format!("2026-01-05T12:00:00Z {outcome}");
            report["last"] = json!({ "from": "1.0.0", "to": to, "at": at, "outcome": outcome, "code": code });
        }
        report
    }

    /// The header of a report's signature.
    pub(crate) fn signature(&self, body: &[u8]) -> String {
        let signature = self.pair.sign(&report_message(body)).as_ref().try_into().unwrap();
        SignedReport { key: self.key(), signature }.to_string()
    }

    /// Status and answer of a report.
    pub(crate) fn sends(&self, to: SocketAddr, report: &Value) -> (u16, Value) {
        self.sends_with(to, report, "")
    }

    /// The same with a join token.
    pub(crate) fn joins(&self, to: SocketAddr, report: &Value, token: &str) -> (u16, Value) {
        self.sends_with(to, report, &format!("{JOIN_HEADER}: {token}\r\n"))
    }

    fn sends_with(&self, to: SocketAddr, report: &Value, headers: &str) -> (u16, Value) {
        let body = report.to_string();
        let headers = format!("{headers}{SIGNATURE_HEADER}: {}\r\n", self.signature(body.as_bytes()));
        post(to, &headers, &body)
    }

    /// A find question, signed in `epoch`; version and update.
    pub(crate) fn asks(&self, server: &Server, epoch: Option<u64>) -> (String, bool) {
        let signed = epoch.map(|epoch| {
            let number = self.next();
            let message = question_message(&self.id, epoch, number);
            let signature = self.pair.sign(&message).as_ref().try_into().unwrap();
            format!("{QUESTION_HEADER}: {}\r\n", SignedQuestion { key: self.key(), epoch, number, signature })
        });
        self.asks_with(server, &signed.unwrap_or_default())
    }

    /// The same with these headers.
    pub(crate) fn asks_with(&self, server: &Server, headers: &str) -> (String, bool) {
        let path = format!("/v1/webapi/find?host={}&group={}", self.id, self.group);
        let (status, body) = request(server.addr, "GET", &path, headers, "");
        assert_eq!(status, 200, "{body}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        (answer["agent_version"].as_str().unwrap().to_owned(), answer["agent_auto_update"].as_bool().unwrap())
    }
}

/// What all hosts do at the same time: a report is answered when it is in the store, together with the others.
pub(crate) fn together<T: Send>(hosts: &[Host], each: impl Fn(&Host) -> T + Sync) -> Vec<T> {
    std::thread::scope(|scope| {
        let each = &each;
        let threads: Vec<_> = hosts.iter().map(|host| scope.spawn(move || each(host))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

/// A report as it stands: status and answer.
pub(crate) fn post(to: SocketAddr, headers: &str, body: &str) -> (u16, Value) {
    let (status, body) = request(to, "POST", PATH, headers, body);
    (status, serde_json::from_str(&body).unwrap_or_else(|_| body.into()))
}

/// The epoch that the server tells hosts.
pub(crate) fn epoch(server: &Server) -> u64 {
    server.json("/v1/webapi/find?group=dev")["fleet"]["report"]["epoch"].as_u64().unwrap()
}
