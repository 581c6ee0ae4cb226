//! RBAC, field managers and preconditions are the API server's own.

use kube_bed::{KubeBed, PatchKind, deployment, wait_until};
use serde_json::{Value, json};

use crate::{FIRST, PATIENCE, SECOND};

#[test]
fn an_account_has_its_role_and_nothing_else() {
    let Some(bed) = KubeBed::shared() else { return };
    let space = bed.namespace("rights");
    space.client.create(&deployment(&space, "agent", FIRST, 1)).unwrap();
    wait_until(PATIENCE, "ready", || space.ready_pods().len() == 1);
    let account = space.account(
        "updater",
        &json!([
            {"apiGroups": ["apps"], "resources": ["deployments"], "resourceNames": ["agent"], "verbs": ["get", "patch"]},
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]},
        ]),
    );
    let pods = account.list(&space.path("v1", "pods"));
    let name = pods[0]["metadata"]["name"].as_str().unwrap();
    let refused = account.delete(&space.path("v1", &format!("pods/{name}")), &Value::Null).unwrap_err();
    assert_eq!((refused.code, refused.reason.as_str()), (403, "Forbidden"), "{refused:?}");
    assert_eq!(account.get(&space.path("v1", "secrets")).unwrap_err().code, 403);
    assert_eq!(account.get(&space.path("apps/v1", "deployments/other")).unwrap_err().code, 403);
    assert_eq!(account.get(&space.path("apps/v1", "deployments/agent")).unwrap()["metadata"]["name"], "agent");
    assert_eq!(account.with_token("none").get("/api/v1/nodes").unwrap_err().code, 401);
    assert_eq!(space.ready_pods().len(), 1);
}

#[test]
fn managed_fields_name_who_wrote_the_image() {
    let Some(bed) = KubeBed::shared() else { return };
    let space = bed.namespace("fields");
    space.lives.set(FIRST, kube_bed::PodLife::Ready);
    let path = space.path("apps/v1", "deployments/agent");
    space.client.named("helm/v3", None).create(&deployment(&space, "agent", FIRST, 1)).unwrap();
    let patch =
        |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "teleport", "image": image}]}}}});
    let by_hand = space.client.named("kubectl/v1.30.0", Some("kubectl-set"));
    let answer = by_hand.patch(&path, PatchKind::Strategic, &patch(SECOND)).unwrap();
    let managers: Vec<&str> = answer["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|field| field["manager"].as_str())
        .collect();
    assert!(managers.contains(&"helm") && managers.contains(&"kubectl-set"), "{managers:?}");
    // An apply that sets what another wrote is a conflict, unless forced.
    let mut apply = patch(FIRST);
    apply["apiVersion"] = "apps/v1".into();
    apply["kind"] = "Deployment".into();
    let applier = space.client.named("helm/v4", Some("helm4"));
    let refused = applier.patch(&path, PatchKind::Apply, &apply).unwrap_err();
    assert_eq!((refused.code, refused.reason.as_str()), (409, "Conflict"), "{refused:?}");
    let forced = applier.patch(&format!("{path}?force=true"), PatchKind::Apply, &apply).unwrap();
    assert_eq!(kube_bed::image_of(&forced, "teleport"), Some(FIRST));
}

#[test]
fn a_deletion_with_another_uid_is_refused() {
    let Some(bed) = KubeBed::shared() else { return };
    let space = bed.namespace("uid");
    space.client.create(&deployment(&space, "agent", FIRST, 1)).unwrap();
    wait_until(PATIENCE, "ready", || space.ready_pods().len() == 1);
    let name = space.pods()[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let options = json!({"preconditions": {"uid": "00000000-0000-0000-0000-000000000000"}});
    assert_eq!(space.client.delete(&space.path("v1", &format!("pods/{name}")), &options).unwrap_err().code, 409);
    assert_eq!(space.ready_pods().len(), 1);
}

#[test]
fn yaml_documents_are_taken_as_they_are() {
    let Some(bed) = KubeBed::shared() else { return };
    let space = bed.namespace("yaml");
    let text = "---\n# one\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\ndata: {key: value}\n---\napiVersion: \
                networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata:\n  name: two\nspec:\n  podSelector: {}\n";
    let made = space.client.create_yaml(text, &space.name).unwrap();
    assert_eq!(made.len(), 2);
    assert_eq!(space.client.get(&space.path("v1", "configmaps/one")).unwrap()["data"]["key"], "value");
    assert!(space.client.get(&space.path("networking.k8s.io/v1", "networkpolicies/two")).is_ok());
}
