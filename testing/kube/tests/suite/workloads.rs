//! Real controllers roll, and get stuck, as theirs do.

use std::collections::BTreeSet;

use kube_bed::{
    ApiClient, KubeBed, Namespace, PatchKind, PodLife, daemon_set, deployment, image_of, stateful_set, wait_until,
};
use serde_json::{Value, json};

use crate::{FIRST, PATIENCE, SECOND};

fn set_image(client: &ApiClient, path: &str, image: &str) {
    let patch = json!([
        {"op": "test", "path": "/spec/template/spec/containers/0/name", "value": "teleport"},
        {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image},
    ]);
    let answer = client.patch(path, PatchKind::Json, &patch).unwrap();
    assert_eq!(image_of(&answer, "teleport"), Some(image));
}

/// That many pods are ready with this image, and there is no other.
fn all_ready_with(space: &Namespace, image: &str, count: usize) -> bool {
    let runs = |pod: &Value| pod["spec"]["containers"][0]["image"] == image;
    let ready = space.ready_pods();
    ready.len() == count && ready.iter().all(runs) && space.pods().len() == count
}

fn rolls(space: &Namespace, object: &Value, path: &str, count: usize) {
    space.client.create(object).unwrap();
    let path = space.path("apps/v1", path);
    wait_until(PATIENCE, "ready", || all_ready_with(space, FIRST, count));
    set_image(&space.client, &path, SECOND);
    wait_until(PATIENCE, "rolled", || all_ready_with(space, SECOND, count));
    let observed = || {
        let object = space.client.get(&path).unwrap();
        let field = if object["kind"] == "DaemonSet" { "updatedNumberScheduled" } else { "updatedReplicas" };
        object["status"]["observedGeneration"] == object["metadata"]["generation"] && object["status"][field] == count
    };
    wait_until(PATIENCE, "its status says so", observed);
}

#[test]
fn a_stateful_set_rolls() {
    let Some(bed) = KubeBed::shared() else { return };
    for policy in ["OrderedReady", "Parallel"] {
        let space = bed.namespace("sts");
        rolls(&space, &stateful_set(&space, "agent", FIRST, 2, policy), "statefulsets/agent", 2);
    }
}

#[test]
fn a_deployment_rolls() {
    let Some(bed) = KubeBed::shared() else { return };
    let space = bed.namespace("deploy");
    rolls(&space, &deployment(&space, "agent", FIRST, 2), "deployments/agent", 2);
}

#[test]
fn a_daemon_set_rolls_on_the_nodes_of_its_namespace() {
    let Some(bed) = KubeBed::shared() else { return };
    // Its nodes have another label.
    let _other = bed.namespace("other");
    let space = bed.namespace("daemon");
    for _ in 0..3 {
        space.add_node();
    }
    rolls(&space, &daemon_set(&space, "agent", FIRST), "daemonsets/agent", 5);
    // Each is on the node that it was made for.
    let wanted = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms/0/matchFields/0/values/0";
    let mut nodes = BTreeSet::new();
    for pod in space.pods() {
        let node = pod["spec"]["nodeName"].as_str().unwrap();
        assert_eq!(pod.pointer(wanted).unwrap(), node);
        nodes.insert(node.to_owned());
    }
    assert_eq!(nodes, BTreeSet::from([1, 2, 3, 4, 5].map(|number| format!("node-{number}-{}", space.name))));
}

/// kubernetes#67250: the controller waits for a pod that can never be ready before it replaces it by one that can.
#[test]
fn a_stateful_set_in_order_is_stuck_until_its_broken_pod_is_deleted() {
    let Some(bed) = KubeBed::shared() else { return };
    let space = bed.namespace("trap");
    space.lives.set(SECOND, PodLife::Crashing);
    space.client.create(&stateful_set(&space, "agent", FIRST, 2, "OrderedReady")).unwrap();
    let path = space.path("apps/v1", "statefulsets/agent");
    wait_until(PATIENCE, "ready", || all_ready_with(&space, FIRST, 2));
    set_image(&space.client, &path, SECOND);
    let broken = || space.pods().into_iter().find(|pod| pod["spec"]["containers"][0]["image"] == SECOND);
    wait_until(PATIENCE, "a pod of the new image crashes", || {
        broken().is_some_and(|pod| pod["status"]["containerStatuses"][0]["restartCount"].as_u64() > Some(1))
    });
    set_image(&space.client, &path, FIRST);
    wait_until(PATIENCE, "the controller saw the old image", || {
        let set = space.client.get(&path).unwrap();
        set["status"]["observedGeneration"] == set["metadata"]["generation"]
            && set["status"]["currentRevision"] == set["status"]["updateRevision"]
    });
    // It has seen it, and the pod crashes on: five more times, in which a controller that wanted to would have replaced it.
    let restarts = || broken().map(|pod| pod["status"]["containerStatuses"][0]["restartCount"].as_u64().unwrap());
    let then = restarts().unwrap();
    wait_until(PATIENCE, "it crashes five times more", || restarts().unwrap() >= then + 5);
    let pod = broken().unwrap();
    let options = json!({"preconditions": {"uid": pod["metadata"]["uid"]}});
    space.client.delete(&space.path("v1", "pods/agent-1"), &options).unwrap();
    wait_until(PATIENCE, "it goes on", || all_ready_with(&space, FIRST, 2));
}

#[test]
fn a_pod_ends_as_slowly_as_told_and_its_successor_waits() {
    let Some(bed) = KubeBed::shared() else { return };
    let space = bed.namespace("slow");
    let takes = std::time::Duration::from_secs(2);
    space.lives.set_end(FIRST, takes);
    space.client.create(&stateful_set(&space, "agent", FIRST, 1, "OrderedReady")).unwrap();
    wait_until(PATIENCE, "ready", || space.ready_pods().len() == 1);
    let uid = space.pods()[0]["metadata"]["uid"].clone();
    let deleted = std::time::Instant::now();
    space.client.delete(&space.path("v1", "pods/agent-0"), &Value::Null).unwrap();
    let pods = space.pods();
    assert_eq!((pods.len(), &pods[0]["metadata"]["uid"]), (1, &uid), "it is still there, and ends");
    assert!(pods[0]["metadata"]["deletionTimestamp"].is_string());
    wait_until(PATIENCE, "another is ready", || space.ready_pods().iter().any(|pod| pod["metadata"]["uid"] != uid));
    assert!(deleted.elapsed() >= takes);
}
