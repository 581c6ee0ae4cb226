//! What others do to an agent, its state and its API server while it is changed: what must not be lost, and what must not loop.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use jiff::Timestamp;
use kube_bed::{ApiFault, KubeBed, PatchKind, PodLife, wait_for, wait_until};
use serde_json::{Value, json};
use teleport_kube_update::api::{Api, ApiFault as Fault};
use teleport_kube_update::store::StateMap;

use crate::scene::{NAME, PATIENCE, Scene};

/// A change of the image to one of that version, as the updater asks for it.
fn is_patch_to(version: &'static str) -> impl Fn(&kube_bed::ApiCall) -> bool + Send {
    move |call| {
        let patch: Value = serde_json::from_str(&call.body).unwrap_or_default();
        call.method == "PATCH" && call.path.contains("/apis/apps/v1/") && {
            let written = patch.as_array().into_iter().flatten().find(|step| step["op"] == "replace");
            written.is_some_and(|step| step["value"].as_str().unwrap_or_default().contains(&format!(":{version}")))
        }
    }
}

#[test]
fn what_an_operator_asked_for_is_not_overwritten_by_an_older_look() {
    let Some(bed) = KubeBed::shared() else { return };
    let scene = Scene::new(bed, "overwritten", &["a", "b"]);
    let (kubeconfig, namespace) = (scene.kubeconfig(), scene.space.name.clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let api = Api::new(kubeconfig.to_str(), Some(&namespace), NAME).await.unwrap();
        let (mut ours, mut operator) = (StateMap::new(api.clone(), NAME), StateMap::new(api, NAME));
        ours.refresh().await.unwrap();
        let old = ours.state("statefulset.a").unwrap();
        operator.refresh().await.unwrap();
        let mut held = operator.state("statefulset.a").unwrap();
        held.held = Some(Timestamp::now());
        operator.swap("statefulset.a", &held).await.unwrap();
        // Another agent of the process finds out, and reads the ConfigMap anew.
        let beside = ours.state("statefulset.b").unwrap();
        assert!(matches!(ours.swap("statefulset.b", &beside).await, Err(Fault::Conflict(_))));
        ours.refresh().await.unwrap();
        ours.swap("statefulset.b", &beside).await.unwrap();
        assert!(matches!(ours.swap("statefulset.a", &old).await, Err(Fault::Conflict(_))));
        let now = ours.state("statefulset.a").unwrap();
        assert_eq!(now, held);
        ours.swap("statefulset.a", &now).await.unwrap();
    });
}

#[test]
fn a_pin_is_kept_though_the_source_names_the_version_that_ran() {
    let Some(bed) = KubeBed::shared() else { return };
    let mut scene = Scene::new(bed, "pin", &["agent"]);
    scene.deploy("agent");
    scene.configure(BTreeMap::from([("pin", "2.0.0".into())]));
    scene.start();
    scene.told("agent", "pinned");
    scene.settled("agent", "2.0.0");
    assert_eq!(scene.versions(), ["2.0.0"]);
}

#[test]
fn the_way_back_is_tried_again_where_a_policy_said_no() {
    let Some(bed) = KubeBed::shared() else { return };
    for status in [403, 422] {
        let mut scene = Scene::new(bed, "no-way-back", &["agent"]);
        scene.deploy("agent");
        scene.live("2.0.0", PodLife::Crashing);
        scene.want("2.0.0", "");
        scene.proxy.on(is_patch_to("1.0.0"), 1..2, ApiFault::Answer(status));
        scene.start();
        wait_until(PATIENCE, "the way back is denied", || scene.state("agent")["told"]["code"] == "admission_denied");
        assert_eq!(scene.state("agent")["attempt"]["phase"], "back", "{status}");
        scene.restart();
        scene.settled_after_failure("agent", "unhealthy");
    }
}

#[test]
fn a_policy_that_answers_as_a_failed_test_does_is_asked_once() {
    let Some(bed) = KubeBed::shared() else { return };
    let mut scene = Scene::new(bed, "policy", &["agent"]);
    scene.deploy("agent");
    scene.want("2.0.0", "");
    scene.proxy.on(is_patch_to("2.0.0"), 1..usize::MAX, ApiFault::Answer(422));
    scene.start();
    scene.told("agent", "admission_denied");
    scene.restart();
    let state = scene.told("agent", "refused");
    assert_eq!(state["refused"][0]["failure"]["code"], "admission_denied", "{state}");
    assert_eq!(scene.versions(), ["2.0.0"]);
}

#[test]
fn a_deployment_that_was_paused_has_its_time_afterwards() {
    let Some(bed) = KubeBed::shared() else { return };
    let mut scene = Scene::new(bed, "paused", &["deployment"]);
    scene.deploy("deployment");
    scene.live("2.0.0", PodLife::Unready);
    scene.want("2.0.0", "");
    scene.start();
    wait_until(PATIENCE, "it is under way", || scene.state("deployment")["attempt"]["has_arrived"] == true);
    let pause = |is_paused: bool| {
        let patch = json!({"spec": {"paused": is_paused}});
        let path = scene.space.path("apps/v1", "deployments/deployment");
        scene.space.client.patch(&path, PatchKind::Merge, &patch).unwrap();
    };
    pause(true);
    let since: Timestamp = wait_for(PATIENCE, "it is paused", || {
        let told = scene.state("deployment")["told"].take();
        (told["code"] == "paused").then(|| told["since"].as_str().unwrap().parse().unwrap())
    });
    wait_until(PATIENCE, "a deadline passes", || Timestamp::now().duration_since(since).as_secs() > 7);
    pause(false);
    wait_until(PATIENCE, "it goes on", || scene.state("deployment")["told"]["code"] != "paused");
    scene.live("2.0.0", PodLife::Ready);
    scene.told("deployment", "updated");
    assert_eq!(scene.versions(), ["2.0.0"]);
}

#[test]
fn who_may_write_the_state_chooses_no_image() {
    let Some(bed) = KubeBed::shared() else { return };
    let mut scene = Scene::new(bed, "forged", &["agent"]);
    scene.deploy("agent");
    let from = scene.present("agent");
    scene.registry.push_image("other", "2.0.0", Some("2.0.0"), &["linux/amd64"]);
    let host = scene.repository.split('/').next().unwrap().to_owned();
    let digest = format!("sha256:{}", "ab".repeat(32));
    let other = format!("{host}/other:2.0.0");
    let open = |to: &str, by_hand: bool| {
        json!({
            "from": from, "to": to, "version": "2.0.0", "phase": "forward", "generation": 1, "is_written": false,
            "has_arrived": false, "since": Timestamp::now(), "ready": 0, "progress_at": Timestamp::now(),
            "was_healthy": true, "by_hand": by_hand,
        })
    };
    scene.start();
    scene.told("agent", "up_to_date");
    let forged = [
        (json!({"attempt": open(&other, false)}), "changed_meanwhile"),
        (json!({"attempt": open(&other, true)}), "state_invalid"),
        (json!({"attempt": open(&format!("{}@{digest}", scene.image("2.0.0")), false)}), "changed_meanwhile"),
        (json!({"previous": other, "wish": {"what": "rollback", "at": Timestamp::now()}}), "state_invalid"),
    ];
    for (forged, code) in forged {
        scene.forge("agent", &forged.to_string());
        scene.restart();
        scene.told("agent", code);
    }
    let mut back = open(&from, false);
    (back["phase"], back["from"]) = ("back".into(), "evil.example/teleport:1.0.0".into());
    scene.forge("agent", &json!({"attempt": back}).to_string());
    scene.restart();
    wait_until(PATIENCE, "it is said", || scene.log().contains("evil.example/teleport:1.0.0, which is of another"));
    assert_eq!(scene.written(), [""; 0]);
    // What the registry has is written, whoever opened the change.
    scene.want("2.0.0", "");
    let digest = scene.registry.push_image("teleport", "2.0.0", Some("2.0.0"), &["linux/amd64", "linux/arm64"]);
    let image = format!("{}@sha256:{digest}", scene.image("2.0.0"));
    scene.forge("agent", &json!({"attempt": open(&image, false)}).to_string());
    scene.restart();
    wait_until(PATIENCE, "it is written", || !scene.written().is_empty());
    assert_eq!(scene.written()[0], image);
}

#[test]
fn a_state_or_an_object_that_is_not_there_is_told_by_readyz_and_nothing_moves_a_terminal() {
    let Some(bed) = KubeBed::shared() else { return };
    let mut scene = Scene::new(bed, "unready", &["agent"]);
    scene.deploy("agent");
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let ready = || {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
        stream.write_all(b"GET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some((answer.get(9..12)?.parse::<u16>().ok()?, answer))
    };
    scene.start_at(&format!("127.0.0.1:{port}"));
    scene.told("agent", "up_to_date");
    wait_until(PATIENCE, "it is ready", || ready().is_some_and(|(status, _)| status == 200));
    scene.forge("agent", "{\"image\": 7}");
    let line = wait_for(PATIENCE, "it is not ready", || ready().filter(|(status, _)| *status == 503)).1;
    assert!(line.contains("key statefulset.agent of the ConfigMap") && line.contains("remove the key"), "{line}");
    let told = json!({"code": "held", "why": "\u{1b}[2J\u{9b}1m", "since": Timestamp::now(), "who": "x"});
    scene.forge("agent", &json!({"update_id": "x", "told": told}).to_string());
    wait_until(PATIENCE, "it is ready", || ready().is_some_and(|(status, _)| status == 200));
    let text = scene.ask(&["status"]);
    assert!(!text.contains(|char: char| char.is_control() && char != '\n'), "{text:?}");
    // A configuration that is wrong changes nothing but this line.
    let file = scene.folder.path().join("kube.yaml");
    let good = std::fs::read(&file).unwrap();
    std::fs::write(&file, "version: v1\nkind: kube_update\nspec:\n  sauce: x\n").unwrap();
    let line = wait_for(PATIENCE, "it is not ready", || ready().filter(|(status, _)| *status == 503)).1;
    assert!(line.contains("kube.yaml") && line.contains("line 4") && line.contains("spec.sauce"), "{line}");
    std::fs::write(&file, good).unwrap();
    wait_until(PATIENCE, "it is ready", || ready().is_some_and(|(status, _)| status == 200));
    scene.space.client.delete(&scene.space.path("v1", &format!("configmaps/{NAME}")), &Value::Null).unwrap();
    let line = wait_for(PATIENCE, "it is not ready", || ready().filter(|(status, _)| *status == 503)).1;
    assert!(line.contains("there is no ConfigMap teleport-kube-update: apply the manifest again"), "{line}");
}
