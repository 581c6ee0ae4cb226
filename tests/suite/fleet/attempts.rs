//! What a host makes of rollouts' numbers and attempts, and the questions that it signs.

use protocol::report::{Outcome, PATH, QUESTION_HEADER, SignedQuestion, question_message};
use testing::cluster::request::Request;

use super::reporting::{EPOCH, HOST, Reporting, last, outcomes};
use crate::support::*;

/// An interval that no test outlasts, seconds.
const LONG: u32 = 86_400;

/// The signed question in `request`, if it has one; its signature is checked.
#[track_caller]
fn question(request: &Request) -> Option<SignedQuestion> {
    let signed: SignedQuestion = request.header(QUESTION_HEADER)?.parse().unwrap();
    ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, signed.key.0)
        .verify(&question_message(HOST, signed.epoch, signed.number), &signed.signature)
        .unwrap();
    Some(signed)
}

#[test]
fn a_host_that_has_reported_signs_the_questions_by_which_it_acts() {
    let Some(host) = Reporting::on_one() else { return };
    host.tell("1.0.0", 1, 1, 0);
    host.run("update", 0);
    let requests = host.scene.cluster.requests();
    assert_eq!(requests.iter().filter_map(question).count(), 0, "nothing is known before the first report");
    host.scene.cluster.forget_requests();
    host.run("update", 0);
    let requests = host.scene.cluster.requests();
    let signed = question(&requests[0]).unwrap();
    let sequence =
        |request: &Request| serde_json::from_slice::<serde_json::Value>(&request.body).unwrap()["sequence"].as_u64();
    assert_eq!(signed.epoch, EPOCH);
    assert!(Some(signed.number) < sequence(&requests[1]), "{signed:?}");
    host.scene.cluster.forget_requests();
    for line in ["status", "plan"] {
        host.run(line, 0);
    }
    assert_eq!(host.scene.cluster.requests().iter().filter_map(question).count(), 0, "who only looks signs nothing");
}

#[test]
fn no_other_server_sees_the_signature() {
    let Some(host) = Reporting::on_one() else { return };
    host.tell("1.0.0", 1, 1, 0);
    host.run("update", 0);
    // By a redirect.
    let files = tempfile::tempdir().unwrap();
    let other = Cluster::start(files.path());
    other.set_directive(testing::cluster::directive::Find::version("1.0.0"));
    let url = format!("https://{}/v1/webapi/find", other.addr());
    host.scene.cluster.misbehave("/v1/webapi/find", Misbehaviour::Redirect(url));
    std::fs::write(host.cell.path("/root/both.pem"), format!("{}\n{}", host.scene.cluster.ca_pem(), other.ca_pem()))
        .unwrap();
    host.scene.cluster.forget_requests();
    let base = host.scene.cluster.base_url();
    let enable = format!("enable --proxy {} --base-url {base} --ca-file /root/both.pem", host.scene.cluster.addr());
    host.run(&enable, 0);
    assert!(question(&host.scene.cluster.requests()[0]).is_some());
    assert!(!other.requests().is_empty() && other.requests().iter().all(|request| question(request).is_none()));
    // By another address.
    host.scene.cluster.behave();
    other.forget_requests();
    let enable =
        format!("enable --proxy {} --base-url {base} --ca-file /root/both.pem --allow-proxy-conflict", other.addr());
    host.run(&enable, 0);
    host.run("update", 0);
    assert!(!other.requests().is_empty() && other.requests().iter().all(|request| question(request).is_none()));
    assert!(other.requests_to(PATH).is_empty(), "it asks for no reports");
}

#[test]
fn a_new_attempt_has_a_version_tried_again_that_failed() {
    let Some(host) = Reporting::on_one() else { return };
    host.publish(2, "exit-at-once");
    host.tell("2.0.0", 5, 1, LONG);
    host.run("update", 1);
    host.posts();
    // The same attempt: it waits, and that is no news.
    host.run("update", 0);
    assert_eq!((host.posts().len(), host.status()["agent_version_installed"].as_str()), (0, Some("1.0.0")));
    let mut last_sequence = 0;
    for attempt in [2, 3] {
        host.tell("2.0.0", 5, attempt, LONG);
        let ran = host.run("update", 1);
        assert!(ran.said.contains("a new attempt"), "{ran:#?}");
        let reports = host.reports();
        assert_eq!(outcomes(&reports), [Some(Outcome::Started), Some(Outcome::RolledBack)], "{reports:#?}");
        assert_eq!((last(&reports).rollout, last(&reports).attempt), (Some(5), Some(attempt)));
        assert!(reports[0].sequence > last_sequence);
        last_sequence = reports[1].sequence;
        host.run("update", 0);
        assert_eq!(host.posts().len(), 0);
    }
    // An older one is none.
    host.tell("2.0.0", 5, 1, LONG);
    host.run("update", 0);
}

#[test]
fn a_failure_before_the_server_came_is_refused_once_a_rollout_and_attempt() {
    let Some(host) = Reporting::on_one() else { return };
    host.publish(2, "exit-at-once");
    host.answer("2.0.0", &json!(null));
    host.run("update", 1);
    host.tell("2.0.0", 5, 1, LONG);
    host.run("update", 0);
    let reports = host.reports();
    assert_eq!(outcomes(&reports), [Some(Outcome::Refused)], "{reports:#?}");
    let refused = last(&reports);
    assert_eq!((refused.rollout, refused.attempt, refused.code.as_str()), (Some(5), Some(1), "unhealthy"));
    host.run("update", 0);
    assert_eq!(host.posts().len(), 0);
}

/// A server that named a number too high by mistake does not block a host for good.
#[test]
fn an_operators_enable_believes_an_older_rollout() {
    let Some(host) = Reporting::on_one() else { return };
    host.publish(2, "healthy");
    host.tell("1.0.0", (1 << 53) - 1, 1, LONG);
    host.run("update", 0);
    host.tell("2.0.0", 8, 1, LONG);
    host.run("update", 0);
    assert_eq!(host.status()["agent_version_installed"], "1.0.0");
    host.run("enable", 0);
    assert_eq!(host.status()["agent_version_installed"], "2.0.0");
}

#[test]
fn an_answer_of_an_older_rollout_is_disregarded_but_in_another_epoch() {
    let Some(host) = Reporting::on_one() else { return };
    host.publish(2, "healthy");
    host.tell("1.0.0", 9, 1, LONG);
    host.run("update", 0);
    host.tell("2.0.0", 8, 1, LONG);
    let ran = host.run("update", 0);
    assert!(ran.said.contains("of rollout 8, and this host has seen rollout 9"), "{ran:#?}");
    assert!(ran.said.contains("if 9 was an error of the server's, run `teleport-update enable` here"), "{ran:#?}");
    assert!(host.run("plan", 0).said.contains("nothing to do"));
    assert_eq!(host.status()["agent_version_installed"], "1.0.0");
    host.answer(
        "2.0.0",
        &json!({"rollout": 8, "attempt": 1, "report": {"epoch": EPOCH + 1, "interval_seconds": LONG}}),
    );
    host.run("update", 0);
    assert_eq!(host.status()["agent_version_installed"], "2.0.0");
}
