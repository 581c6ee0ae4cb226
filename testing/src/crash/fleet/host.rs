//! What a host with a key says to the server.

use protocol::report::{Key, PATH, SIGNATURE_HEADER, SignedReport, report_message};
use ring::signature::{Ed25519KeyPair, KeyPair};
use serde_json::{Value, json};

use super::http::Request;
use super::server::Server;

/// A signed report of `host` in group `dev`, the `sequence`th, that it runs 1.0.0; `last` is its last change. The key is the same
/// in each run.
pub(super) fn report(server: &Server, host: &str, sequence: u64, last: &Value) -> Request {
    let find = server.done(&Request::host("/v1/webapi/find?group=dev"));
    let mut report = json!({
        "host": host, "update_id": "", "epoch": find["fleet"]["report"]["epoch"], "sequence": sequence,
        "time": "2026-01-05T12:00:00Z", "group": "dev", "labels": { "env": "test" }, "enabled": true,
        "versions": { "installed": "1.0.0", "running": "1.0.0" }, "updater": "teleport-update 1.0.0",
    });
    if last.is_object() {
        report["last"] = last.clone();
    }
    let body = report.to_string();
    let signature = format!("{SIGNATURE_HEADER}: {}\r\n", sign(host, body.as_bytes()));
    Request { method: "POST", headers: signature, body, ..Request::host(PATH) }
}

/// The signature of `body` with the key of `host`.
fn sign(host: &str, body: &[u8]) -> SignedReport {
    let seed = protocol::Digest::of(host.as_bytes()).0;
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
    let key = Key(pair.public_key().as_ref().try_into().unwrap());
    SignedReport { key, signature: pair.sign(&report_message(body)).as_ref().try_into().unwrap() }
}
