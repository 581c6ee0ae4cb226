//! Other hands on the image (KUBE §6).

use kube_bed::KubeBed;

use crate::scene::Scene;

#[test]
fn a_persons_way_back_is_obeyed_until_release() {
    let Some(bed) = KubeBed::shared() else { return };
    let mut scene = Scene::new(bed, "person", &["agent"]);
    scene.deploy("agent");
    scene.want("2.0.0", "");
    scene.start();
    scene.told("agent", "updated");
    scene.set_image("agent", "1.0.0", "kubectl/v1.30.0", "kubectl-set");
    scene.restart();
    scene.told("agent", "set_back_by_hand");
    assert_eq!(scene.versions(), ["2.0.0"]);
    scene.ask(&["release"]);
    scene.restart();
    scene.told("agent", "updated");
    assert_eq!(scene.versions(), ["2.0.0", "2.0.0"]);
}

#[test]
fn a_tool_is_written_over_twice_and_then_left_alone() {
    let Some(bed) = KubeBed::shared() else { return };
    let mut scene = Scene::new(bed, "tool", &["agent"]);
    scene.deploy("agent");
    scene.want("2.0.0", "");
    scene.start();
    scene.told("agent", "updated");
    for _ in 0..2 {
        scene.set_image("agent", "1.0.0", "helm/3", "helm");
        scene.settled("agent", "1.0.0");
        scene.restart();
        scene.settled("agent", "2.0.0");
        scene.told("agent", "updated");
    }
    scene.set_image("agent", "1.0.0", "helm/3", "helm");
    scene.settled("agent", "1.0.0");
    scene.restart();
    let state = scene.told("agent", "contested");
    assert!(state["told"]["why"].as_str().unwrap().contains("helm"), "{state}");
    assert_eq!(scene.versions(), ["2.0.0"; 3]);
    scene.settled("agent", "1.0.0");
    scene.ask(&["release"]);
    scene.restart();
    scene.told("agent", "updated");
}

#[test]
fn a_second_installation_stands_aside_until_release() {
    let Some(bed) = KubeBed::shared() else { return };
    let mut scene = Scene::new(bed, "second", &["agent"]);
    scene.deploy("agent");
    scene.set_image("agent", "1.1.0", "teleport-kube-update/1", "teleport-kube-update-two");
    scene.settled("agent", "1.1.0");
    scene.want("2.0.0", "");
    scene.start();
    scene.told("agent", "other_updater");
    assert!(scene.written().is_empty());
    scene.ask(&["release"]);
    scene.restart();
    scene.told("agent", "updated");
    assert_eq!(scene.versions(), ["2.0.0"]);
}
