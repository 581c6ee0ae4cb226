//! What waits for a person: hosts to accept, and groups that hosts declare and nobody has.

use serde_json::json;

use super::{Host, epoch, started_with};

#[test]
fn hosts_that_wait_and_groups_that_nobody_has_are_told_with_the_rollout() {
    let (_dir, server) = started_with(&["--plain", "--enrolment", "approve"]);
    let epoch = epoch(&server);
    let said = || server.parsed(&["autoupdate", "agents", "status"]);
    assert_eq!(said()["waiting_hosts"], json!(null));
    let hosts = [(1, "stagign"), (2, "stagign"), (3, "dev"), (4, "pord")].map(|(id, group)| Host::new(id, group));
    let all = |status| hosts.iter().all(|host| host.sends(server.addr, &host.says(epoch, "1.0.0", None)).0 == status);
    assert!(all(202));
    let waits = "4 hosts have a key that waits for an admin, and reports with it do not count; to see them: teleport-fleet hosts --waiting";
    assert!(server.agents(&["status"]).contains(waits));
    for host in &hosts {
        server.ok(&["host", &host.id, "accept"]);
        assert!(server.agents(&["report"]).contains("has not reported since it was accepted"));
    }
    assert!(all(200));
    let status = server.agents(&["status"]);
    let unknown = "3 hosts declare groups that this rollout does not have: stagign (2), pord (1); they are in prod";
    assert!(status.contains(unknown) && !status.contains("waits for an admin"), "{status}");
    let largest = json!([{ "name": "stagign", "hosts": 2 }, { "name": "pord", "hosts": 1 }]);
    let groups = json!({ "hosts": 3, "groups": 2, "largest": largest, "place": "prod" });
    assert_eq!((&said()["unknown_groups"], &said()["waiting_hosts"]), (&groups, &json!(null)));
    // Whom an operator has put somewhere is where he wanted him.
    server.ok(&["host", &hosts[3].id, "assign", "dev"]);
    assert!(server.agents(&["status"]).contains("2 hosts declare groups that this rollout does not have: stagign (2)"));
}
