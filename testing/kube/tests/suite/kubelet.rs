//! The status of pods is a kubelet's.

use std::time::Duration;

use kube_bed::{KubeBed, Namespace, PodLife, deployment, wait_for, wait_until};
use serde_json::{Value, json};

use crate::{FIRST, PATIENCE};

/// A pod whose image has this life.
fn with(space: &Namespace, life: PodLife) {
    space.lives.set(FIRST, life);
    space.client.create(&deployment(space, "agent", FIRST, 1)).unwrap();
}

/// Its only pod, once its status is so.
fn pod_where(space: &Namespace, what: &str, is_so: impl Fn(&Value, &Value) -> bool) -> Value {
    wait_for(PATIENCE, what, || {
        space.pods().into_iter().find(|pod| is_so(&pod["status"], &pod["status"]["containerStatuses"][0]))
    })
}

fn condition<'a>(pod: &'a Value, name: &str) -> &'a Value {
    let conditions = pod["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == name).unwrap()
}

#[test]
fn ready() {
    let Some(bed) = KubeBed::shared() else { return };
    let space = bed.namespace("ready");
    space.lives.set_digest(FIRST, &format!("sha256:{}", "a".repeat(64)));
    with(&space, PodLife::Ready);
    let pod = pod_where(&space, "ready", |_, container| container["ready"] == true);
    assert_eq!(pod["status"]["phase"], "Running");
    let container = &pod["status"]["containerStatuses"][0];
    assert_eq!((&container["restartCount"], &container["started"]), (&json!(0), &json!(true)));
    assert_eq!(container["imageID"], format!("registry.example/teleport/agent@sha256:{}", "a".repeat(64)));
    assert!(container["state"]["running"]["startedAt"].is_string(), "{container}");
    for name in ["Ready", "ContainersReady", "Initialized", "PodScheduled"] {
        assert_eq!(condition(&pod, name)["status"], "True", "{name}");
    }
    // A person, or a liveness probe.
    space.restart(pod["metadata"]["name"].as_str().unwrap());
    let pod =
        pod_where(&space, "restarted", |_, container| container["restartCount"] == 1 && container["ready"] == true);
    assert_eq!(pod["status"]["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 1);
}

#[test]
fn a_digest_in_the_name_is_the_one_that_runs() {
    let Some(bed) = KubeBed::shared() else { return };
    let space = bed.namespace("digest");
    // Lives are by tag, also where a digest follows.
    space.lives.set(FIRST, PodLife::Unready);
    let digest = format!("sha256:{}", "b".repeat(64));
    space.client.create(&deployment(&space, "agent", &format!("{FIRST}@{digest}"), 1)).unwrap();
    let pod = pod_where(&space, "runs", |_, container| container["state"]["running"].is_object());
    let container = &pod["status"]["containerStatuses"][0];
    assert_eq!(
        (&container["imageID"], &container["ready"]),
        (&json!(format!("registry.example/teleport/agent@{digest}")), &json!(false))
    );
}

#[test]
fn unready_and_late() {
    let Some(bed) = KubeBed::shared() else { return };
    let space = bed.namespace("late");
    with(&space, PodLife::Unready);
    let pod = pod_where(&space, "runs", |_, container| container["state"]["running"].is_object());
    assert_eq!(pod["status"]["phase"], "Running");
    assert_eq!(
        (&condition(&pod, "Ready")["status"], &condition(&pod, "Ready")["reason"]),
        (&json!("False"), &json!("ContainersNotReady"))
    );
    assert!(space.ready_pods().is_empty());
    // It changes while the pod is there.
    space.lives.set(FIRST, PodLife::Late(Duration::from_millis(300)));
    pod_where(&space, "ready", |_, container| container["ready"] == true && container["restartCount"] == 0);
}

#[test]
fn crashing() {
    let Some(bed) = KubeBed::shared() else { return };
    let space = bed.namespace("crash");
    with(&space, PodLife::Crashing);
    let waits = |container: &Value| container["state"]["waiting"]["reason"] == "CrashLoopBackOff";
    let pod = pod_where(&space, "three restarts", |_, container| {
        waits(container) && container["restartCount"].as_u64() >= Some(3)
    });
    let container = &pod["status"]["containerStatuses"][0];
    assert_eq!((&pod["status"]["phase"], &container["ready"]), (&json!("Running"), &json!(false)));
    let ended = &container["lastState"]["terminated"];
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(1), &json!("Error")));
    assert!(space.ready_pods().is_empty());
}

#[test]
fn crashing_after_it_was_ready() {
    let Some(bed) = KubeBed::shared() else { return };
    let space = bed.namespace("later");
    with(&space, PodLife::CrashAfterReady(Duration::from_secs(1)));
    pod_where(&space, "ready", |_, container| container["ready"] == true && container["restartCount"] == 0);
    pod_where(&space, "crashed", |_, container| {
        container["ready"] == false && container["restartCount"].as_u64() >= Some(1)
    });
    pod_where(&space, "ready again", |_, container| {
        container["ready"] == true && container["restartCount"].as_u64() >= Some(1)
    });
}

#[test]
fn what_never_runs() {
    let Some(bed) = KubeBed::shared() else { return };
    for (life, reasons) in [
        (PodLife::Missing, &["ErrImagePull", "ImagePullBackOff"][..]),
        (PodLife::InvalidImageName, &["InvalidImageName"]),
        (PodLife::Creating, &["ContainerCreating"]),
    ] {
        let space = bed.namespace("never");
        with(&space, life);
        for reason in reasons {
            let pod = pod_where(&space, reason, |_, container| container["state"]["waiting"]["reason"] == *reason);
            let container = &pod["status"]["containerStatuses"][0];
            assert_eq!(
                (&pod["status"]["phase"], &container["restartCount"]),
                (&json!("Pending"), &json!(0)),
                "{reason}"
            );
            assert_eq!(
                (&container["imageID"], &condition(&pod, "Ready")["status"]),
                (&json!(""), &json!("False")),
                "{reason}"
            );
            assert!(pod["spec"]["nodeName"].is_string());
        }
    }
}

#[test]
fn a_pod_that_no_node_takes_is_bound_once_one_does() {
    let Some(bed) = KubeBed::shared() else { return };
    let space = bed.namespace("unschedulable");
    with(&space, PodLife::Unschedulable);
    let pod = pod_where(&space, "told", |status, _| status["conditions"].is_array());
    let scheduled = condition(&pod, "PodScheduled");
    assert_eq!((&scheduled["status"], &scheduled["reason"]), (&json!("False"), &json!("Unschedulable")));
    assert!(pod["spec"]["nodeName"].is_null() && pod["status"]["phase"] == "Pending", "{pod}");
    space.lives.set(FIRST, PodLife::Ready);
    wait_until(PATIENCE, "ready", || space.ready_pods().len() == 1);
}
