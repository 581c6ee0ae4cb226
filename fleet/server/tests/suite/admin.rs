//! Who may do what, and how it is refused.

use crate::support::{Server, refused, request, start};

#[test]
fn what_a_refusal_was_about_is_cut_on_record() {
    let (_dir, server) = start();
    let long = format!("kind: fleet_channel\nmetadata: {{name: {}}}\n", "n".repeat(5000));
    refused(&server.cli_with(&["create", "-f", "-"], &long));
    let last = server.records().pop().unwrap();
    let subject = last["subject"].as_str().unwrap();
    assert!(subject.starts_with("fleet_channel/nnn") && subject.chars().count() <= 1025, "{subject}");
}

#[test]
fn who_may_not_is_on_record_and_strangers_are_counted() {
    let (dir, server) = start();
    let viewer = server.token("viewer", "viewer");
    // The scheme is written in any case.
    let header = format!("authorization: bearer {viewer}\r\n");
    assert_eq!(request(server.addr, "GET", "/v1/fleet/counts", &header, "").0, 200);
    assert_eq!(request(server.addr, "POST", "/v1/fleet/commands", &header, "{}").0, 403);
    let last = server.records().pop().unwrap();
    let found = [&last["who"], &last["action"], &last["subject"], &last["from"], &last["detail"]["code"]];
    assert_eq!(found, ["token viewer", "request", "POST /v1/fleet/commands", "127.0.0.1", "forbidden"], "{last}");
    let before = server.records().len();
    for header in ["", "authorization: Bearer tfleet_x\r\n", "authorization: Basic eDp5\r\n"] {
        assert_eq!(request(server.addr, "POST", "/v1/fleet/commands", header, "{}").0, 401);
    }
    let metrics = server.metrics();
    assert!(metrics.contains("\nteleport_fleet_strangers_refused_total 3\n"), "{metrics}");
    assert_eq!(server.stop(), Some(0));
    let server = Server::start(dir.path());
    let counted: u64 = server.records()[before..].iter().filter_map(|record| record["detail"]["count"].as_u64()).sum();
    assert_eq!(counted, 3, "{:?}", server.records());
    server.ok(&["audit", "verify"]);
}
