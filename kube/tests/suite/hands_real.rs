//! Other hands on the image, by their own programs: kubectl 1.36 and Helm 4 (KUBE §6, §11).

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use kube_bed::{KubeBed, PatchKind, wait_until};
use serde_json::{Value, json};

use crate::scene::{PATIENCE, Scene};

/// kubectl and helm, which `tests/kube/tools.sh` brings. `None`, and said: they are not there.
fn tools() -> Option<PathBuf> {
    let target = Path::new(env!("CARGO_BIN_EXE_teleport-kube-update")).ancestors().nth(3).unwrap();
    let folder = target.join("kube-tools");
    let is_there = ["kubectl", "helm"].iter().all(|name| folder.join(name).exists());
    if !is_there {
        eprintln!("skipped: no kubectl and helm in {}: make setup-kube", folder.display());
    }
    is_there.then_some(folder)
}

/// A program, as the namespace's administrator.
fn command(scene: &Scene, tools: &Path, program: &str) -> Command {
    let file = scene.folder.path().join("admin.json");
    std::fs::write(&file, scene.space.client.kubeconfig(None, &scene.space.name)).unwrap();
    let home = scene.folder.path().join("home");
    let mut command = Command::new(tools.join(program));
    command.env("KUBECONFIG", file).env("HOME", home).current_dir(scene.folder.path());
    command
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[track_caller]
fn succeed(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", text(&output));
}

/// The file of an agent that runs 1.0.0, for whoever applies it.
fn manifest(scene: &Scene) -> Value {
    let mut set = kube_bed::stateful_set(&scene.space, "agent", &scene.image("1.0.0"), 2, "OrderedReady");
    set["metadata"].as_object_mut().unwrap().remove("namespace");
    set
}

/// The updater has brought the agent to 2.0.0.
fn updated(scene: &mut Scene) {
    scene.settled("agent", "1.0.0");
    scene.want("2.0.0", "");
    scene.start();
    scene.told("agent", "updated");
}

/// A tool that sets the image back is written over twice; at its third time nothing is written, and it is named with what to add.
fn is_contested(scene: &mut Scene, manager: &str, advice: &[&str], set_back: &dyn Fn(&Scene)) {
    for time in 1..=3 {
        // Nobody writes before it was seen who did.
        scene.stop_last();
        set_back(scene);
        scene.settled("agent", "1.0.0");
        assert_eq!(scene.status("agent")["owner"], manager, "{time}");
        scene.start();
        if time < 3 {
            scene.told("agent", "updated");
            scene.settled("agent", "2.0.0");
        }
    }
    let state = scene.told("agent", "contested");
    let status = scene.ask(&["status"]);
    for part in [&[manager], advice].concat() {
        assert!(state["told"]["why"].as_str().unwrap().contains(part) && status.contains(part), "{part}: {status}");
    }
    assert_eq!(scene.versions(), ["2.0.0"; 3], "{manager}");
    scene.settled("agent", "1.0.0");
}

/// What a person gives kubectl; the text is a patch.
type Way = fn(&Scene, &mut Command, String);

#[test]
fn what_a_person_does_with_kubectl_is_obeyed() {
    let (Some(bed), Some(tools)) = (KubeBed::shared(), tools()) else { return };
    let patch = |scene: &Scene| {
        let image = scene.image("1.0.0");
        format!(r#"{{"spec":{{"template":{{"spec":{{"containers":[{{"name":"teleport","image":"{image}"}}]}}}}}}}}"#)
    };
    let ways: [(&str, Way); 4] = [
        ("kubectl-set", |scene, kubectl, _| {
            kubectl.args(["set", "image", "statefulset/agent"]).arg(format!("teleport={}", scene.image("1.0.0")));
        }),
        ("kubectl-patch", |_, kubectl, patch| {
            kubectl.args(["patch", "statefulset", "agent", "-p"]).arg(patch);
        }),
        ("kubectl-edit", |_, kubectl, _| {
            kubectl.args(["edit", "statefulset", "agent"]);
            kubectl.env("EDITOR", "sed -i -E 's,(image: .*:)2.0.0@sha256:[0-9a-f]+,\\11.0.0,'");
        }),
        ("kubectl", |_, kubectl, _| {
            kubectl.args(["rollout", "undo", "statefulset/agent"]);
        }),
    ];
    std::thread::scope(|threads| {
        for (manager, way) in ways {
            let tools = &tools;
            threads.spawn(move || {
                let mut scene = Scene::new(bed, "by-hand", &["agent"]);
                scene.deploy("agent");
                updated(&mut scene);
                scene.stop_last();
                let mut kubectl = command(&scene, tools, "kubectl");
                way(&scene, &mut kubectl, patch(&scene));
                succeed(&mut kubectl);
                scene.settled("agent", "1.0.0");
                scene.start();
                let state = scene.told("agent", "set_back_by_hand");
                let owner = scene.status("agent")["owner"].as_str().unwrap().to_owned();
                assert!(owner.starts_with(manager), "{owner} is not {manager}");
                let why = state["refused"][0]["failure"]["reason"].as_str().unwrap();
                assert!(why.contains(&format!("{owner} went back from 2.0.0 by hand")), "{why}");
                assert_eq!(scene.versions(), ["2.0.0"], "{manager}");
            });
        }
    });
}

#[test]
fn an_apply_is_a_tool_and_a_server_side_one_meets_a_conflict() {
    let (Some(bed), Some(tools)) = (KubeBed::shared(), tools()) else { return };
    let apply = |scene: &Scene, more: &[&str]| {
        let mut kubectl = command(scene, &tools, "kubectl");
        kubectl.args(["apply", "-f", "agent.json"]).args(more);
        kubectl
    };
    let ways: [(&str, &[&str], &[&str]); 2] = [
        ("kubectl-client-side-apply", &[], &[]),
        ("kubectl", &["--server-side"], &["--server-side", "--force-conflicts"]),
    ];
    std::thread::scope(|threads| {
        for (manager, first, again) in ways {
            threads.spawn(move || {
                let mut scene = Scene::new(bed, "apply", &["agent"]);
                std::fs::write(scene.folder.path().join("agent.json"), manifest(&scene).to_string()).unwrap();
                succeed(&mut apply(&scene, first));
                updated(&mut scene);
                if first.contains(&"--server-side") {
                    let output = apply(&scene, first).output().unwrap();
                    assert!(
                        !output.status.success() && text(&output).contains("teleport-kube-update"),
                        "{}",
                        text(&output)
                    );
                    assert!(scene.present("agent").contains(":2.0.0@"), "{}", scene.present("agent"));
                }
                let advice = ["leave the image out of what is applied"];
                is_contested(&mut scene, manager, &advice, &|scene| succeed(&mut apply(scene, again)));
            });
        }
    });
}

#[test]
fn helm_4_meets_a_conflict_and_sets_the_agent_back_where_it_is_told_to() {
    let (Some(bed), Some(tools)) = (KubeBed::shared(), tools()) else { return };
    let chart = |scene: &Scene| {
        let chart = scene.folder.path().join("chart");
        std::fs::create_dir_all(chart.join("templates")).unwrap();
        std::fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: agent\nversion: 1.0.0\n").unwrap();
        let mut set = manifest(scene);
        set["metadata"]["annotations"] = json!({"release": "{{ .Release.Revision }}"});
        std::fs::write(chart.join("templates/agent.yaml"), set.to_string()).unwrap();
    };
    let helm = |scene: &Scene, args: &[&str]| {
        let mut helm = command(scene, &tools, "helm");
        helm.args(args).args(["agent", "chart"]);
        helm
    };
    std::thread::scope(|threads| {
        for way in ["--force-conflicts", "--server-side=false"] {
            threads.spawn(move || {
                let mut scene = Scene::new(bed, "helm", &["agent"]);
                chart(&scene);
                let is_client = way == "--server-side=false";
                let install: &[&str] = if is_client { &["install", way] } else { &["install"] };
                succeed(&mut helm(&scene, install));
                updated(&mut scene);
                if !is_client {
                    let output = helm(&scene, &["upgrade"]).output().unwrap();
                    let said = text(&output);
                    assert!(!output.status.success() && said.contains("teleport-kube-update"), "{said}");
                    assert!(scene.present("agent").contains(":2.0.0@"), "{}", scene.present("agent"));
                }
                let advice = ["set write: publish for this agent"];
                is_contested(&mut scene, "helm", &advice, &|scene| succeed(&mut helm(scene, &["upgrade", way])));
            });
        }
    });
}

#[test]
fn argo_cd_and_flux_are_named_with_the_lines_to_add() {
    let Some(bed) = KubeBed::shared() else { return };
    let argo: &[&str] = &[
        "spec.ignoreDifferences: [{group: apps, kind: StatefulSet, managedFieldsManagers: [teleport-kube-update]}]",
        "spec.syncPolicy.syncOptions: [RespectIgnoreDifferences=true]",
    ];
    let rule = r#"ignore: [{paths: ["/spec/template/spec/containers/0/image"], target: {kind: StatefulSet}}]"#;
    let release = format!("spec.driftDetection.{rule}");
    let kustomization = format!("spec.{rule}");
    let ways: [(&str, &[&str]); 3] = [
        ("argocd-controller", argo),
        ("helm-controller", &[&release, "write: publish"]),
        ("kustomize-controller", &[&kustomization, "leave the image out"]),
    ];
    std::thread::scope(|threads| {
        for (manager, advice) in ways {
            threads.spawn(move || {
                let mut scene = Scene::new(bed, "gitops", &["agent"]);
                // What each of them sends at a reconciliation: the whole object, whoever has a field.
                let apply = |scene: &Scene| {
                    let client = scene.space.client.named(manager, Some(manager));
                    let path = scene.space.path("apps/v1", "statefulsets/agent?force=true");
                    client.patch(&path, PatchKind::Apply, &manifest(scene)).unwrap();
                };
                apply(&scene);
                updated(&mut scene);
                is_contested(&mut scene, manager, advice, &apply);
                scene.want("1.1.0", "");
                scene.restart();
                wait_until(PATIENCE, "a new target ends it", || scene.present("agent").contains(":1.1.0@"));
            });
        }
    });
}
