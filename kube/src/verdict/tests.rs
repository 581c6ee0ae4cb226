//! What pods come to, for cases that a real control plane shows too slowly.

use serde_json::json;

use super::*;

const PATIENCE: Patience = Patience {
    watch: Duration::from_secs(60),
    progress_deadline: Duration::from_secs(600),
    unhealthy_after: Duration::from_secs(300),
};
const OLD: &str = "r.io/teleport:1.0.0";
const NEW: &str = "r.io/teleport:2.0.0";

/// So many seconds after the change began.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

/// An observed StatefulSet of so many replicas whose pods are to have the revision `image`.
fn workload(image: &str, replicas: usize) -> Workload {
    serde_json::from_value(json!({
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "teleport", "image": image}]}}},
        "status": {"updateRevision": image},
    }))
    .unwrap()
}

/// A ready pod of that image, made so many seconds after the change began.
fn pod(number: usize, image: &str, created: i64) -> Pod {
    Pod {
        name: format!("agent-{number}"),
        uid: format!("{number}-{image}-{created}"),
        revision: image.to_owned(),
        image: image.to_owned(),
        is_ready: true,
        created: Some(at(created)),
        ..Pod::default()
    }
}

fn attempt(phase: ChangePhase) -> ImageChange {
    ImageChange {
        from: OLD.to_owned(),
        to: NEW.to_owned(),
        version: "2.0.0".parse().unwrap(),
        phase,
        generation: 1,
        is_written: true,
        has_arrived: true,
        since: at(0),
        ready: 0,
        progress_at: at(0),
        was_healthy: true,
        failure: None,
        by_hand: false,
        told: None,
    }
}

fn changed<'a>(workload: &'a Workload, pods: &'a [Pod], seconds: i64) -> ChangedWorkload<'a> {
    let (container, patience, now) = ("teleport", &PATIENCE, at(seconds));
    ChangedWorkload { workload, container, pods, may_delete: true, patience, now }
}

fn look(workload: &Workload, pods: &[Pod], attempt: &mut ImageChange, memory: &mut Memory, seconds: i64) -> Course {
    judge(changed(workload, pods, seconds), attempt, memory)
}

fn code(course: &Course) -> &str {
    match course {
        Course::Waits { code, .. } => code,
        Course::Frees(_) => "frees",
        Course::Done => "done",
        Course::Failed(failure) => &failure.code,
    }
}

#[test]
fn restarts_of_years_ago_do_not_make_the_old_image_bad() {
    let (workload, mut memory, mut attempt) = (workload(OLD, 2), Memory::default(), attempt(ChangePhase::Back));
    let mut old = Pod { restarts: 7, ..pod(0, OLD, -86_400) };
    let stuck = Pod { is_ready: false, ..pod(1, NEW, 5) };
    // The set is stuck: kubernetes#67250.
    assert_eq!(code(&look(&workload, &[old.clone(), stuck.clone()], &mut attempt, &mut memory, 10)), "frees");
    old.restarts += RESTARTS;
    assert_eq!(code(&look(&workload, &[old.clone(), stuck], &mut attempt, &mut memory, 12)), "unhealthy");
    // A new pod's restarts all count, whenever they are first seen.
    let new = Pod { restarts: RESTARTS, is_ready: false, ..pod(1, OLD, 11) };
    old.restarts = 7;
    let pods = [old, new];
    assert_eq!(code(&look(&workload, &pods, &mut attempt, &mut Memory::default(), 20)), "unhealthy");
}

#[test]
fn the_time_without_a_node_is_not_the_time_to_become_ready() {
    let (workload, mut memory) = (workload(NEW, 1), Memory::default());
    let mut waiting = Pod { is_ready: false, is_unschedulable: true, ..pod(0, NEW, 1) };
    for seconds in [10, 900, 1800] {
        // Each look has the attempt as it was kept.
        let course = look(&workload, &[waiting.clone()], &mut attempt(ChangePhase::Forward), &mut memory, seconds);
        assert_eq!(code(&course), "unschedulable");
    }
    waiting.is_unschedulable = false;
    let mut after = |seconds| {
        code(&look(&workload, &[waiting.clone()], &mut attempt(ChangePhase::Forward), &mut memory, seconds)).to_owned()
    };
    assert_eq!(after(1802), "progressing");
    assert_eq!(after(1800 + 599), "progressing");
    assert_eq!(after(1800 + 600), "progress_deadline");
}

#[test]
fn a_deadline_begins_anew_after_a_rest_and_after_a_clock_that_was_ahead() {
    let (workload, pods) = (workload(NEW, 1), [Pod { is_ready: false, ..pod(0, NEW, 1) }]);
    let mut memory = Memory::default();
    memory.rest(at(5000));
    for (seconds, expected) in [(5001, "progressing"), (5599, "progressing"), (5600, "progress_deadline")] {
        let course = look(&workload, &pods, &mut attempt(ChangePhase::Forward), &mut memory, seconds);
        assert_eq!(code(&course), expected, "{seconds}");
    }
    let ahead = ImageChange { progress_at: at(86_400), ..attempt(ChangePhase::Forward) };
    let mut memory = Memory::default();
    memory.rest(at(0));
    for (seconds, expected) in [(1, "progressing"), (600, "progress_deadline")] {
        assert_eq!(code(&look(&workload, &pods, &mut ahead.clone(), &mut memory, seconds)), expected, "{seconds}");
    }
}

#[test]
fn a_set_that_is_scaled_down_makes_progress_again() {
    let (large, small) = (workload(NEW, 10), workload(NEW, 2));
    let (mut memory, mut attempt) = (Memory::default(), attempt(ChangePhase::Forward));
    let pods: Vec<_> = (0..10).map(|number| pod(number, if number < 4 { OLD } else { NEW }, 1)).collect();
    look(&large, &pods, &mut attempt, &mut memory, 100);
    assert_eq!(attempt.ready, 6);
    // An autoscaler takes the new ones away.
    look(&small, &[pod(0, OLD, 0), pod(1, OLD, 0)], &mut attempt, &mut memory, 500);
    let pods = [pod(0, OLD, 0), pod(1, NEW, 600)];
    assert_eq!(code(&look(&small, &pods, &mut attempt, &mut memory, 1000)), "progressing");
    assert_eq!(code(&look(&small, &pods, &mut attempt, &mut memory, 1599)), "progressing");
    assert_eq!(code(&look(&small, &pods, &mut attempt, &mut memory, 1600)), "progress_deadline");
}

#[test]
fn a_pod_whose_registry_a_webhook_exchanged_is_of_the_new_image() {
    let mut of_set = pod(0, NEW, 1);
    of_set.image = "mirror.io/teleport@sha256:00".to_owned();
    let course = look(&workload(NEW, 1), &[of_set], &mut attempt(ChangePhase::Forward), &mut Memory::default(), 10);
    assert_eq!(code(&course), "watching");
    let mut deployment: Workload = serde_json::from_value(json!({
        "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "teleport", "image": NEW}]}}},
    }))
    .unwrap();
    deployment.kind = WorkloadKind::Deployment;
    for (image, expected) in
        [("mirror.io/r.io/teleport:2.0.0", "watching"), ("mirror.io/r.io/teleport:1.0.0", "progressing")]
    {
        let pods = [Pod { image: image.to_owned(), ..pod(0, NEW, 1) }];
        let of = changed(&deployment, &pods, 10);
        let course = judge(of, &mut attempt(ChangePhase::Forward), &mut Memory::default());
        assert_eq!(code(&course), expected, "{image}");
    }
}

#[test]
fn a_pod_on_a_node_that_is_gone_is_not_the_versions_fault() {
    let gone = Pod { is_ready: false, is_terminating: true, ends_by: Some(at(30)), ..pod(1, OLD, -9) };
    let pods = [pod(0, NEW, 10), gone];
    // A set waits for its ordinal, however long.
    let (mut change, mut memory) = (attempt(ChangePhase::Forward), Memory::default());
    for seconds in (0..3600).step_by(30) {
        let course = look(&workload(NEW, 2), &pods, &mut change, &mut memory, seconds);
        assert!(matches!(course, Course::Waits { .. }), "{seconds}: {course:?}");
    }
    // A DaemonSet goes on without it.
    let mut daemon_set: Workload = serde_json::from_value(json!({
        "spec": {"template": {"spec": {"containers": [{"name": "teleport", "image": NEW}]}}},
        "status": {"desiredNumberScheduled": 2},
    }))
    .unwrap();
    daemon_set.kind = WorkloadKind::DaemonSet;
    let (mut change, mut memory) = (attempt(ChangePhase::Forward), Memory::default());
    let mut course = |seconds| judge(changed(&daemon_set, &pods, seconds), &mut change, &mut memory);
    assert!(matches!(course(60), Course::Waits { code: "progressing", .. }));
    assert!(matches!(course(100), Course::Waits { code: "watching", .. }));
    assert_eq!(course(161), Course::Done);
}
