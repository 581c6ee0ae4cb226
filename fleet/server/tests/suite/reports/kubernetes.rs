//! Agents in Kubernetes are hosts like others (KUBE §7).

use serde_json::json;

use super::host::{Host, epoch};
use super::{known, started};
use crate::support::visitor::Visitor;

#[test]
fn an_agent_in_kubernetes_reports_is_shown_and_gets_the_digest_of_its_image() {
    let (_dir, server) = started();
    let digest = "9".repeat(64);
    let release =
        format!("kind: fleet_release\nspec: {{version: 1.1.0, image_digests: {{teleport-distroless: {digest}}}}}\n");
    assert!(server.cli_with(&["create", "-f", "-"], &release).status.success());
    let mut host = Host::new(1, "dev");
    host.hostname = "teleport/teleport-agent".to_owned();
    let mut report = host.says(epoch(&server), "1.0.0", Some(("rolled_back", "1.1.0", "no_progress")));
    report["labels"] = json!({
        "kubernetes.namespace": "teleport", "kubernetes.kind": "StatefulSet", "kubernetes.name": "teleport-agent",
        "replicas": "2", "env": "test",
    });
    report["os"] = "kubernetes".into();
    report["kernel"] = "v1.36.2".into();
    report["updater"] = "teleport-kube-update 1.0.0".into();
    assert_eq!(host.sends(server.addr, &report).0, 200);

    let told = known(&server, &host);
    assert_eq!((&told["hostname"], &told["known"]["labels"]), (&json!("teleport/teleport-agent"), &report["labels"]));
    let list = server.ok(&["hosts"]);
    assert!(list.contains("teleport/teleport-agent") && list.contains("1.0.0"), "{list}");
    for words in [["--search", "teleport/teleport-agent"], ["--label", "kubernetes.kind=StatefulSet"]] {
        let found = server.ok(&["hosts", words[0], words[1]]);
        assert!(found.contains("teleport/teleport-agent"), "{found}");
    }
    let page = server.ok(&["host", &host.id]);
    for said in ["kubernetes", "v1.36.2", "teleport-kube-update 1.0.0", "rolled_back (no_progress)"] {
        assert!(page.contains(said), "{said}: {page}");
    }
    let html = Visitor::with(&server, &server.token("v", "viewer")).get(&format!("/hosts/{}", host.id)).body;
    for said in ["teleport/teleport-agent", "kubernetes.namespace", "v1.36.2"] {
        assert!(html.contains(said), "{said}: {html}");
    }
    let digests = |group: &str| server.json(&format!("/v1/webapi/find?group={group}"))["fleet"]["digests"].clone();
    assert_eq!(digests("dev"), json!({ "image/teleport-distroless": digest }));
    // Of the version that it gets: another one's release says nothing.
    assert_eq!(digests("prod"), json!(null));
}
