//! The table of KUBE §3: each row, and of several that hold the first.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::config::KubeConfig;
use crate::hands::MANAGER;
use crate::state::{ChangePhase, FaultReason, ImageChange, Wish};
use protocol::Edition;

fn now() -> Timestamp {
    "2026-11-29T12:00:00Z".parse().unwrap()
}

fn version(text: &str) -> Version {
    text.parse().unwrap()
}

/// All that a plan follows from. As it is at first, an update to 2.0.0 begins.
struct World {
    workload: Option<Value>,
    agent: KubeAgent,
    state: KeptState,
    target: WantedVersion,
    silent: bool,
    beside: Beside,
    other_rollout: bool,
    complaint: Option<String>,
    tag_moved: bool,
    pods: Vec<Pod>,
}

impl World {
    fn new() -> Self {
        let text = "version: v1\nkind: kube_update\nspec:\n  source: file:///x\n  agents:\n  - name: agent\n";
        let agents = KubeConfig::parse(Path::new("kube.yaml"), text.as_bytes()).unwrap().agents;
        Self {
            workload: Some(json!({
                "metadata": {"annotations": {}},
                "spec": {"replicas": 2, "template": {"spec": {"containers": [
                    {"name": "teleport", "image": "r.io/teleport-distroless:1.0.0"},
                ]}}},
            })),
            agent: agents.into_iter().next().unwrap(),
            state: KeptState::default(),
            target: WantedVersion::of(Said::version(version("2.0.0"))),
            silent: false,
            beside: Beside::default(),
            other_rollout: false,
            complaint: None,
            tag_moved: false,
            pods: Vec::new(),
        }
    }

    fn set(&mut self, pointer: &str, value: Value) {
        if let Some(workload) = &mut self.workload {
            let (parent, key) = pointer.rsplit_once('/').unwrap();
            workload.pointer_mut(parent).unwrap()[key] = value;
        }
    }

    fn plan(&self) -> AgentPlan {
        let workload: Option<Workload> =
            self.workload.as_ref().map(|workload| serde_json::from_value(workload.clone()).unwrap());
        let word = if self.silent {
            SourceSays::Silent("it is away".to_owned())
        } else {
            SourceSays::Target(Box::new(self.target.clone()))
        };
        let look = AgentLook {
            now: now(),
            agent: &self.agent,
            workload: workload.as_ref(),
            pods: &self.pods,
            owner: workload.as_ref().and_then(|workload| FieldOwner::of_image(workload, "teleport", MANAGER)),
            state: self.state.clone(),
            word,
            beside: self.beside.clone(),
            max_in_flight: 1,
            other_rollout: self.other_rollout,
            complaint: self.complaint.clone(),
            tag_moved: self.tag_moved,
        };
        look.plan()
    }

    fn refuse(&mut self, told: Option<(u64, u32)>) {
        self.state.refuse(version("2.0.0"), None, failure(), told, now());
    }
}

fn failure() -> FaultReason {
    FaultReason { code: "unhealthy".to_owned(), reason: "3 restarts".to_owned() }
}

fn attempt() -> ImageChange {
    ImageChange {
        from: "r.io/teleport-distroless:1.0.0".to_owned(),
        to: "r.io/teleport-distroless:2.0.0".to_owned(),
        version: version("2.0.0"),
        phase: ChangePhase::Forward,
        generation: 1,
        is_written: true,
        has_arrived: true,
        since: now(),
        ready: 0,
        progress_at: now(),
        was_healthy: true,
        failure: None,
        by_hand: false,
        told: None,
    }
}

/// What a row does: nothing, goes on, begins.
#[derive(Debug, PartialEq)]
enum Does {
    Nothing,
    GoesOn,
    Begins,
}

impl From<&NextStep> for Does {
    fn from(step: &NextStep) -> Self {
        match step {
            NextStep::Nothing => Self::Nothing,
            NextStep::GoOn => Self::GoesOn,
            NextStep::Begin(_) => Self::Begins,
        }
    }
}

/// A case of KUBE §3: how it comes about, its code, and what is done.
type Case = (fn(&mut World), &'static str, Does);

/// The table's rows in their order, §6's between; what stands behind a row that begins needs it to be absent.
const CASES: &[Case] = &[
    (|world| world.workload = None, "absent", Does::Nothing),
    (|world| world.set("/spec/template/spec/containers/0/name", "other".into()), "absent", Does::Nothing),
    (|world| world.set("/spec/updateStrategy", json!({"type": "OnDelete"})), "on_delete", Does::Nothing),
    (|world| world.set("/spec/paused", true.into()), "paused", Does::Nothing),
    (|world| world.set("/spec/replicas", 0.into()), "scaled_to_zero", Does::Nothing),
    (|world| world.state.attempt = Some(attempt()), "progressing", Does::GoesOn),
    (|world| world.set("/metadata/annotations", json!({"teleport.dev/skipreconcile": "true"})), "held", Does::Nothing),
    (|world| world.state.held = Some(now()), "held", Does::Nothing),
    (|world| world.agent.pin = Some(version("1.0.0")), "pinned", Does::Nothing),
    (
        |world| world.state.contested = Some(Contested { version: version("2.0.0"), by: "helm".into(), since: now() }),
        "contested",
        Does::Nothing,
    ),
    (
        |world| {
            let image = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {
                "k:{\"name\":\"teleport\"}": {"f:image": {}}}}}}});
            let manager = json!([{"manager": "teleport-kube-update-two", "operation": "Update", "fieldsV1": image}]);
            world.set("/metadata/managedFields", manager);
        },
        "other_updater",
        Does::Nothing,
    ),
    (|world| world.other_rollout = true, "other_rollout", Does::Nothing),
    (|world| world.silent = true, "source_unreachable", Does::Nothing),
    (|world| world.target.said.version = version("1.0.0"), "up_to_date", Does::Nothing),
    (|world| world.refuse(None), "refused", Does::Nothing),
    (|world| world.agent.min_version = Some(version("3.0.0")), "downgrade", Does::Nothing),
    (|world| world.target.said.edition = Some(Edition::Enterprise), "edition", Does::Nothing),
    (|world| world.beside.changing.push("statefulset.other".to_owned()), "in_flight", Does::Nothing),
    (|world| world.beside.failed = Some(("statefulset.other".to_owned(), now())), "failed_beside", Does::Nothing),
    (|world| world.target.said.critical = true, "critical", Does::Begins),
    (|world| world.complaint = Some("pod agent-0 is not ready".to_owned()), "unhealthy", Does::Begins),
    (|world| world.target.may_go = false, "outside_window", Does::Nothing),
    (|world| world.target.turn = Some(now() + SignedDuration::from_secs(1)), "jitter", Does::Nothing),
];

fn is_first(cases: &[usize]) {
    let mut world = World::new();
    // The later ones first, so that what takes the workload away comes last.
    for index in cases.iter().rev() {
        (CASES[*index].0)(&mut world);
    }
    let plan = world.plan();
    let (mut code, does) =
        cases.iter().min().map_or(("let_go", &Does::Begins), |first| (CASES[*first].1, &CASES[*first].2));
    if code == "up_to_date" && world.complaint.is_some() {
        code = "unhealthy";
    }
    assert_eq!((plan.code, &Does::from(&plan.step)), (code, does), "{cases:?}: {plan:?}");
}

#[test]
fn each_case_alone_and_of_two_the_first() {
    is_first(&[]);
    for first in 0..CASES.len() {
        is_first(&[first]);
        for second in first + 1..CASES.len() {
            is_first(&[first, second]);
        }
    }
}

proptest! {
    /// Among them: nothing begins while a change is open, nor of an agent that is held, skipped, paused or without replicas.
    #[test]
    fn of_any_cases_the_first(cases in proptest::sample::subsequence((0..CASES.len()).collect::<Vec<_>>(), 0..6)) {
        is_first(&cases);
    }

    /// A refused version waits for its time, a later attempt, or `update --now`; what a person left, for the last alone.
    #[test]
    fn a_refused_version_begins_only_when_it_may(
        minutes in 0i64..120, attempt in 1u32..3, is_asked: bool, by_hand: bool, critical: bool, is_unwell: bool,
    ) {
        let mut world = World::new();
        let since = now() - SignedDuration::from_mins(minutes);
        if by_hand {
            world.state.obey(version("2.0.0"), "kubectl-set".to_owned(), since);
        } else {
            world.state.refuse(version("2.0.0"), None, failure(), Some((1, 1)), since);
        }
        (world.target.told, world.target.said.critical) = (Some((1, attempt)), critical);
        world.complaint = is_unwell.then(|| "pod agent-0 is not ready".to_owned());
        world.state.wish = is_asked.then(|| Wish { what: WishKind::Update, at: now() });
        let may = is_asked || (!by_hand && (minutes >= 60 || attempt == 2));
        let plan = world.plan();
        prop_assert_eq!(Does::from(&plan.step) == Does::Begins, may, "{:?}", plan);
    }
}

#[test]
fn what_runs_has_a_moved_tag_a_complaint_or_nothing() {
    let complaint = Some("pod agent-0 is not ready".to_owned());
    for (tag_moved, complaint, code) in
        [(false, None, "up_to_date"), (true, None, "tag_moved"), (false, complaint, "unhealthy")]
    {
        let mut world = World::new();
        world.target.said.version = version("1.0.0");
        (world.tag_moved, world.complaint) = (tag_moved, complaint);
        assert_eq!((world.plan().code, world.plan().step), (code, NextStep::Nothing));
    }
}

#[test]
fn down_goes_who_has_no_data_and_whose_channel_keeps_the_major() {
    for (volume, is_allowed, keeps_major, to, code) in [
        (json!({"name": "data", "emptyDir": {}}), false, false, "0.9.0", "let_go"),
        (json!({"name": "data", "persistentVolumeClaim": {}}), false, false, "0.9.0", "downgrade"),
        (json!({"name": "data", "persistentVolumeClaim": {}}), true, false, "0.9.0", "let_go"),
        (json!({"name": "data", "hostPath": {}}), false, false, "1.0.0-rc.1", "downgrade"),
        (json!({"name": "data", "emptyDir": {}}), true, true, "0.9.0", "downgrade"),
        (json!({"name": "data", "emptyDir": {}}), true, true, "1.0.0-rc.1", "let_go"),
    ] {
        let mut world = World::new();
        world.set("/spec/template/spec/volumes", json!([volume]));
        world.set("/spec/template/spec/containers/0/volumeMounts", json!([{"name": "data"}]));
        world.agent.allow_downgrade = is_allowed;
        (world.target.said.version, world.target.keeps_major) = (version(to), keeps_major);
        assert_eq!(world.plan().code, code, "{volume} {is_allowed} {keeps_major} {to}");
    }
}

#[test]
fn an_unhealthy_agent_is_updated_out_of_turn_every_half_hour_at_most() {
    for (minutes, code) in [(29, "not_let_go"), (30, "unhealthy")] {
        let mut world = World::new();
        (world.target.may_go, world.target.is_find) = (false, true);
        world.complaint = Some("pod agent-0 is not ready".to_owned());
        world.state.forced_at = Some(now() - SignedDuration::from_mins(minutes));
        assert_eq!(world.plan().code, code, "{minutes}");
    }
}

#[test]
fn an_image_without_a_version_is_updated_only_when_told() {
    let mut world = World::new();
    world.set("/spec/template/spec/containers/0/image", format!("r.io/teleport@sha256:{}", "ab".repeat(32)).into());
    assert_eq!(world.plan().code, "version_unknown");
    world.state.wish = Some(Wish { what: WishKind::Update, at: now() });
    assert_eq!(Does::from(&world.plan().step), Does::Begins);
}

#[test]
fn a_way_back_is_not_below_min_version_and_an_alarm_lasts_while_pods_are_not_ready() {
    let mut world = World::new();
    world.state.previous = Some("r.io/teleport-distroless:0.9.0".to_owned());
    world.state.wish = Some(Wish { what: WishKind::Rollback, at: now() });
    assert_eq!(Does::from(&world.plan().step), Does::Begins);
    world.agent.min_version = Some(version("0.9.1"));
    assert_eq!((world.plan().code, world.plan().step), ("downgrade", NextStep::Nothing));

    let mut world = World::new();
    world.refuse(None);
    let failed = ("both_unhealthy", "no pod is ready");
    let outcome = protocol::report::Outcome::Failed;
    world.state.last = Some(crate::report::change(None, &version("2.0.0"), outcome, None, Some(failed), now()));
    assert_eq!(world.plan().code, "refused");
    world.pods = vec![Pod::default()];
    assert_eq!(world.plan().code, "both_unhealthy");
}
