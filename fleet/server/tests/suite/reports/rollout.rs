//! What reports move: who is updated, who failed, and when a group stops.

use serde_json::json;

use super::{Host, epoch, started, state, told};

#[test]
fn a_host_is_told_only_where_it_signed_its_question_and_the_answer_is_the_same() {
    let (_dir, server) = started();
    let (host, epoch) = (Host::new(1, "dev"), epoch(&server));
    assert_eq!(host.sends(server.addr, &host.says(epoch, "1.0.0", None)).0, 200);
    let update = ("1.1.0".to_owned(), true);
    server.until("its turn has come", || host.asks(&server, None) == update);
    // Somebody else asks in its name: by no signature, by another key, by another epoch.
    let forger = Host::with_key(1, "dev", 9);
    assert_eq!(forger.asks(&server, Some(epoch)), update);
    assert_eq!(host.asks(&server, Some(epoch + 1)), update);
    assert_eq!(host.asks_with(&server, "teleport-fleet-question: nonsense\r\n"), update);
    // What was heard before a report is known before it.
    assert_eq!(host.sends(server.addr, &host.says(epoch, "1.0.0", None)).0, 200);
    assert_eq!(state(&server, &host), "let_go");
    assert_eq!(host.asks(&server, Some(epoch)), update);
    server.until("it was told", || state(&server, &host) == "told");
    let done = host.says(epoch, "1.1.0", Some(("updated", "1.1.0", "")));
    assert_eq!(host.sends(server.addr, &done).0, 200);
    assert_eq!(state(&server, &host), "updated");
}

/// A report that was lost, or came too often, is sent again later: perhaps when somebody has said `run` in between.
#[test]
fn a_failure_of_an_earlier_attempt_that_comes_late_counts_in_no_later_one() {
    let (_dir, server, hosts, epoch) = told(2);
    server.agents(&["halt", "dev"]);
    server.agents(&["run", "dev"]);
    let rollout = server.json("/v1/webapi/find?group=dev")["fleet"]["rollout"].clone();
    let attempt = server.group("dev")["attempt"].as_u64().unwrap();
    assert_eq!(attempt, 2);
    let failed = |host: &Host, attempt: u64| {
        let mut report = host.says(epoch, "1.0.0", Some(("rolled_back", "1.1.0", "unhealthy")));
        (report["last"]["rollout"], report["last"]["attempt"]) = (rollout.clone(), attempt.into());
        report["last"]["at"] = format!("attempt {attempt}").into();
        assert_eq!(host.sends(server.addr, &report).0, 200);
    };
    // What comes in the second in which an attempt begins is of the one before, whatever it says.
    let second = || jiff::Timestamp::now().as_second();
    let begun = second();
    server.until("the first second of the attempt is over", || second() > begun + 1);
    failed(&hosts[0], 1);
    assert_eq!((server.group("dev")["state"].clone(), state(&server, &hosts[0])), (json!("active"), "told".to_owned()));
    // What the host is told now it says of now.
    failed(&hosts[1], 2);
    server.until("the group halts", || server.group("dev")["state"] == "halted");
    assert_eq!((state(&server, &hosts[0]).as_str(), state(&server, &hosts[1]).as_str()), ("told", "failed"));
    assert_eq!(server.group("dev")["why"]["count"], 1);
}
