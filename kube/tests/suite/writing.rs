//! Signatures, `write: publish`, the set that is stuck, windows, several agents.

use std::fs;

use kube_bed::{KubeBed, PodLife};
use serde_json::{Value, json};
use testing::cluster::Signer;
use testing::registry::StandInRegistry;

use crate::scene::{NAME, Scene};

fn keys(scene: &Scene, signer: &Signer) -> Value {
    let file = scene.folder.path().join("cosign.pub");
    fs::write(&file, signer.public_key_pem()).unwrap();
    json!({"keys": [file]})
}

#[test]
fn an_image_that_nobody_signed_is_refused_and_touches_no_pod() {
    let Some(bed) = KubeBed::shared() else { return };
    let mut scene = Scene::new(bed, "signed", &["agent"]);
    scene.deploy("agent");
    let signer = Signer::fixed(7);
    scene.configure([("verify", keys(&scene, &signer))].into());
    let digest = scene.registry.push_image("teleport", "1.1.0", Some("1.1.0"), &["linux/amd64", "linux/arm64"]);
    scene.registry.sign_simple("teleport", digest, &signer, &json!({}));
    scene.want("2.0.0", "");
    scene.start();
    let state = scene.told_any("agent", &["signature", "refused"]);
    assert_eq!(state["refused"][0]["failure"]["code"], "signature", "{state}");
    assert!(scene.written().is_empty());
    scene.want("1.1.0", "");
    scene.restart();
    scene.told("agent", "updated");
    assert_eq!(scene.versions(), ["1.1.0"]);
}

#[test]
fn an_old_signed_image_under_a_new_tag_is_refused() {
    let Some(bed) = KubeBed::shared() else { return };
    let mut scene = Scene::new(bed, "retagged", &["agent"]);
    scene.deploy("agent");
    let registry: &StandInRegistry = &scene.registry;
    registry.retag("teleport", "1.1.0", "2.0.0");
    scene.want("2.0.0", "");
    scene.start();
    let state = scene.told_any("agent", &["version_mismatch", "refused"]);
    assert_eq!(state["refused"][0]["failure"]["code"], "version_mismatch", "{state}");
    assert!(scene.written().is_empty());
}

#[test]
fn what_is_published_is_delivered_by_others_and_taken_back() {
    let Some(bed) = KubeBed::shared() else { return };
    let mut scene = Scene::new(bed, "publish", &["agent"]);
    scene.deploy("agent");
    let wanted = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "agent-wanted", "namespace": scene.space.name}});
    scene.space.client.create(&wanted).unwrap();
    scene.configure([("write", json!("publish"))].into());
    scene.live("2.0.0", PodLife::Crashing);
    scene.want("2.0.0", "");
    scene.start();
    let wanted = |key: &str| {
        let map = scene.space.client.get(&scene.space.path("v1", "configmaps/agent-wanted")).unwrap();
        map["data"][key].as_str().unwrap_or_default().to_owned()
    };
    kube_bed::wait_until(crate::scene::PATIENCE, "2.0.0 is published", || wanted("version") == "2.0.0");
    assert!(wanted("image").starts_with(&scene.image("2.0.0")) && wanted("digest").starts_with("sha256:"));
    assert!(wanted("values.yaml").contains("teleportVersionOverride: \"2.0.0\""), "{}", wanted("values.yaml"));
    scene.set_image("agent", "2.0.0", "helm/4", "helm");
    kube_bed::wait_until(crate::scene::PATIENCE, "1.0.0 is published again", || wanted("version") == "1.0.0");
    scene.set_image("agent", "1.0.0", "helm/4", "helm");
    scene.free_stuck("agent");
    let state = scene.told_any("agent", &["rolled_back", "refused"]);
    assert_eq!(state["last"]["outcome"], "rolled_back", "{state}");
    assert!(scene.written().is_empty(), "the workload is not ours");
}

#[test]
fn an_unhealthy_set_that_is_stuck_is_opened_and_no_ready_pod_is_touched() {
    let Some(bed) = KubeBed::shared() else { return };
    let mut scene = Scene::new(bed, "stuck", &["agent"]);
    scene.deploy("agent");
    scene.live("1.1.0", PodLife::Unready);
    scene.set_image("agent", "1.1.0", "helm/3", "helm");
    kube_bed::wait_until(crate::scene::PATIENCE, "the highest pod is stuck", || {
        scene.pods("agent").iter().any(|pod| pod["spec"]["containers"][0]["image"] == scene.image("1.1.0"))
    });
    scene.want("2.0.0", "");
    scene.start();
    scene.told("agent", "updated");
    scene.settled("agent", "2.0.0");
    assert_eq!(scene.deleted(), ["agent-1"]);
}

#[test]
fn a_closed_window_keeps_an_agent_and_a_person_does_not_wait_for_it() {
    let Some(bed) = KubeBed::shared() else { return };
    let mut scene = Scene::new(bed, "window", &["agent"]);
    scene.deploy("agent");
    // Open for an hour once in four years.
    scene.configure([("window", json!("*-02-29 02:00 UTC"))].into());
    scene.want("2.0.0", "");
    scene.start();
    let state = scene.told("agent", "outside_window");
    assert!(state["told"]["until"].as_str().is_some_and(|until| until.contains("-02-29T02:00:00Z")), "{state}");
    scene.ask(&["update", "--now"]);
    scene.settled("agent", "2.0.0");
    scene.ask(&["hold"]);
    assert!(scene.ask(&["plan"]).contains("held"));
    let status = scene.status("agent");
    assert_eq!((&status["version"], &status["owner"]), (&json!("2.0.0"), &json!(NAME)), "{status}");
}

#[test]
fn a_schedule_that_is_missing_keeps_the_window_closed() {
    let Some(bed) = KubeBed::shared() else { return };
    let mut scene = Scene::new(bed, "schedule", &["agent"]);
    scene.deploy("agent");
    scene.configure([("schedule", json!({"config_map": "agent-wanted", "key": "schedule"}))].into());
    scene.want("2.0.0", "");
    scene.start();
    let state = scene.told("agent", "outside_window");
    assert!(state["told"]["why"].as_str().unwrap().contains("missing"), "{state}");
    let open = json!({"windows": [{"start": "2020-01-01T00:00:00Z", "stop": "2090-01-01T00:00:00Z"}]}).to_string();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "agent-wanted", "namespace": scene.space.name},
        "data": {"schedule": open}});
    scene.space.client.create(&map).unwrap();
    scene.restart();
    scene.told("agent", "updated");
}

#[test]
fn the_first_agent_of_a_file_is_the_canary_of_the_others() {
    let Some(bed) = KubeBed::shared() else { return };
    let agents = ["agent", "agent-b", "agent-c"];
    let mut scene = Scene::new(bed, "canary", &agents);
    for name in agents {
        scene.deploy(name);
    }
    scene.live("2.0.0", PodLife::Crashing);
    scene.want("2.0.0", "");
    scene.start();
    kube_bed::wait_until(crate::scene::PATIENCE, "one failed, and the others wait", || {
        let codes = agents.map(|name| scene.state(name)["told"]["code"].as_str().unwrap_or_default().to_owned());
        codes.iter().filter(|code| *code == "failed_beside").count() == 2
    });
    assert_eq!(scene.versions(), ["2.0.0", "1.0.0"]);
}
