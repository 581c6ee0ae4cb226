//! The manifests that ship (`packaging/kube`): a real API server takes them, and the account has what the program needs.

use std::path::Path;
use std::process::Command;

use kube_bed::{ApiClient, KubeBed, Namespace, PatchKind, stateful_set, wait_until};
use serde_json::{Value, json};

use crate::{FIRST, PATIENCE};

const BASE: &str = include_str!("../../../../packaging/kube/base/teleport-kube-update.yaml");
const PAGE: &str = include_str!("../../../../docs/kubernetes.md");
const NAME: &str = "teleport-kube-update";

/// The namespace with the base in it, the agent that its kube.yaml names, and the program's account.
fn installed(bed: &KubeBed, prefix: &str) -> (Namespace, ApiClient) {
    let space = bed.namespace(prefix);
    let base = BASE.replace("namespace: teleport\n", &format!("namespace: {}\n", space.name));
    let made = space.client.create_yaml(&base, &space.name).unwrap();
    assert_eq!(made.len(), 9);
    space.client.create(&stateful_set(&space, "teleport-agent", FIRST, 1, "OrderedReady")).unwrap();
    let account = space.token(NAME);
    wait_until(PATIENCE, "the Role holds", || account.get(&space.path("v1", &format!("secrets/{NAME}"))).is_ok());
    (space, account)
}

#[test]
fn the_account_of_the_base_may_make_each_call_of_the_program_and_no_other() {
    let Some(bed) = KubeBed::shared() else { return };
    let (space, account) = installed(bed, "base");
    let is_agent = |pod: &Value| pod["metadata"]["name"] == "teleport-agent-0";
    wait_until(PATIENCE, "ready", || space.ready_pods().iter().any(is_agent));
    let agent = space.path("apps/v1", "statefulsets/teleport-agent");
    let own = |version: &str, kind: &str| space.path(version, &format!("{kind}/{NAME}"));
    let lease = own("coordination.k8s.io/v1", "leases");
    for path in [&agent, &own("v1", "configmaps"), &own("v1", "secrets"), &lease, &space.path("v1", "pods"), "/version"]
    {
        account.get(path).unwrap();
    }
    account.delete(&space.path("v1", "pods/teleport-agent-0"), &Value::Null).unwrap();
    let image = "/spec/template/spec/containers/0/image";
    let write = json!([{"op": "test", "path": image, "value": FIRST}, {"op": "replace", "path": image, "value": crate::SECOND}]);
    account.patch(&agent, PatchKind::Json, &write).unwrap();
    account
        .patch(&own("v1", "configmaps"), PatchKind::Merge, &json!({"data": {"statefulset.teleport-agent": "{}"}}))
        .unwrap();
    account.patch(&own("v1", "secrets"), PatchKind::Merge, &json!({"data": {"key": "eA=="}})).unwrap();
    account
        .patch(&lease, PatchKind::Merge, &json!({"spec": {"holderIdentity": "x", "leaseDurationSeconds": 15}}))
        .unwrap();
    let events = space.path("events.k8s.io/v1", "events");
    let event = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e.1", "namespace": space.name},
        "eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "teleport.dev/kube-update", "reportingInstance": "x",
        "action": "Updating", "reason": "Updating", "note": "n", "type": "Normal",
        "regarding": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "teleport-agent", "namespace": space.name},
    });
    account.create_at(&events, &event).unwrap();
    let series = json!({"series": {"count": 2, "lastObservedTime": "2026-01-01T00:05:00.000000Z"}});
    account.patch(&format!("{events}/e.1"), PatchKind::Merge, &series).unwrap();

    // Nothing of others, and no `create` but of events.
    let denied =
        |answer: Result<Value, kube_bed::ApiStatus>, what: &str| assert_eq!(answer.unwrap_err().code, 403, "{what}");
    let object =
        |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "x", "namespace": space.name}});
    for kind in ["ConfigMap", "Secret", "Pod"] {
        denied(account.create(&object(kind)), kind);
    }
    for path in ["secrets", "secrets/other", "configmaps", "configmaps/teleport-kube-update-config", "nodes"] {
        denied(account.get(&space.path("v1", path)), path);
    }
    denied(account.get(&space.path("apps/v1", "statefulsets")), "the list of workloads");
    denied(account.get(&space.path("apps/v1", "statefulsets/other")), "another workload");
    denied(account.delete(&agent, &Value::Null), "the workload's deletion");
    denied(account.get("/api/v1/nodes"), "the cluster's objects");
}

#[test]
fn an_upgrade_leaves_what_the_program_wrote() {
    let Some(bed) = KubeBed::shared() else { return };
    let (space, account) = installed(bed, "keep");
    let path = space.path("v1", &format!("configmaps/{NAME}"));
    account.patch(&path, PatchKind::Merge, &json!({"data": {"statefulset.teleport-agent": "{}"}})).unwrap();
    let before = space.client.get(&path).unwrap()["data"].clone();
    let manifest = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME, "annotations": {"helm.sh/resource-policy": "keep"}},
    });
    // Helm 4, Argo CD and Flux apply so; Helm 3 and kubectl send the difference of two manifests without data.
    let helm = space.client.named("helm/v4", Some("helm"));
    helm.patch(&format!("{path}?force=true"), PatchKind::Apply, &manifest).unwrap();
    helm.patch(&path, PatchKind::Strategic, &json!({"metadata": {"labels": {"version": "2"}}})).unwrap();
    let after = space.client.get(&path).unwrap();
    assert_eq!((&after["data"], &after["metadata"]["labels"]["version"]), (&before, &json!("2")));
    assert_eq!(before, json!({"statefulset.teleport-agent": "{}"}));
}

#[test]
fn the_pod_keeps_to_the_restricted_standard() {
    let Some(bed) = KubeBed::shared() else { return };
    let (space, _) = installed(bed, "pod");
    let deployment = space.client.get(&space.path("apps/v1", &format!("deployments/{NAME}"))).unwrap();
    let spec = &deployment["spec"];
    assert_eq!((&spec["replicas"], &spec["strategy"]["type"]), (&json!(1), &json!("Recreate")));
    let pod = &spec["template"]["spec"];
    let context = &pod["securityContext"];
    assert_eq!(
        (&context["runAsNonRoot"], &context["seccompProfile"]["type"]),
        (&json!(true), &json!("RuntimeDefault"))
    );
    for key in ["hostNetwork", "hostPID", "hostIPC"] {
        assert_ne!(pod[key], json!(true), "{key}");
    }
    let [container] = &pod["containers"].as_array().unwrap()[..] else { panic!("{pod}") };
    let wanted = json!({
        "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": true,
    });
    assert_eq!(container["securityContext"], wanted);
    assert_eq!(container["livenessProbe"]["httpGet"]["path"], "/healthz");
    assert_eq!(container["readinessProbe"]["httpGet"]["path"], "/readyz");
    let allowed = ["configMap", "secret", "projected", "emptyDir"];
    for volume in pod["volumes"].as_array().unwrap() {
        assert!(allowed.iter().any(|kind| volume.get(kind).is_some()), "{volume}");
    }
}

/// The commands of the page below a heading, as printed but for the namespace.
fn commands(heading: &str, namespace: &str) -> String {
    let section = PAGE.split_once(&format!("\n### {heading}\n")).unwrap().1.split_once("\n##").unwrap().0;
    let block = section.split_once("```sh\n").unwrap().1.split_once("\n```").unwrap().0;
    let here = block.replace("--namespace teleport ", &format!("--namespace {namespace} "));
    here.replace("namespace: teleport\n", &format!("namespace: {namespace}\n"))
}

/// Runs them in a directory with the checkout's `packaging`, with the Helm and kubectl that `base.sh` takes; `None`, and said:
/// there are none.
fn as_printed(space: &Namespace, heading: &str) -> Option<()> {
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let checked = Command::new(top.join("packaging/kube/base.sh")).arg("--print").output().unwrap();
    if String::from_utf8_lossy(&checked.stdout).starts_with("skipped") {
        eprintln!("{}", String::from_utf8_lossy(&checked.stdout));
        return None;
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| top.join("target"), Into::into);
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(&space.name);
    std::fs::create_dir_all(&dir).unwrap();
    let _ = std::os::unix::fs::symlink(top.join("packaging"), dir.join("packaging"));
    std::fs::write(dir.join("kubeconfig"), space.client.kubeconfig(None, &space.name)).unwrap();
    let path = format!("{}:{}", target.join("helm").display(), std::env::var("PATH").unwrap());
    let mut shell = Command::new("bash");
    shell.args(["-euc", &commands(heading, &space.name)]).current_dir(&dir);
    shell.env("PATH", &path).env("HOME", &dir).env("KUBECONFIG", dir.join("kubeconfig"));
    let output = shell.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{heading}: {}", String::from_utf8_lossy(&said));
    std::fs::remove_dir_all(&dir).unwrap();
    Some(())
}

#[test]
fn the_page_s_commands_install_it_by_helm_and_by_kustomize() {
    let Some(bed) = KubeBed::shared() else { return };
    for heading in ["With Helm", "With Kustomize"] {
        let space = bed.namespace("printed");
        if as_printed(&space, heading).is_none() {
            return;
        }
        let state = space.path("v1", &format!("configmaps/{NAME}"));
        space.client.patch(&state, PatchKind::Merge, &json!({"data": {"statefulset.teleport-agent": "{}"}})).unwrap();
        // The same again is an upgrade, which leaves what the program wrote.
        as_printed(&space, heading).unwrap();
        assert_eq!(space.client.get(&state).unwrap()["data"], json!({"statefulset.teleport-agent": "{}"}), "{heading}");
        let config = space.client.get(&space.path("v1", &format!("configmaps/{NAME}-config"))).unwrap();
        let text = config["data"]["kube.yaml"].as_str().unwrap();
        assert!(text.contains("source: https://example.teleport.sh") && text.contains("teleport-agent"), "{text}");
        let deployment = space.client.get(&space.path("apps/v1", &format!("deployments/{NAME}"))).unwrap();
        let image = kube_bed::image_of(&deployment, NAME).unwrap();
        assert_eq!(image, "registry.example.com/teleport-kube-update:1.0.0", "{heading}");
        let account = space.token(NAME);
        space.client.create(&stateful_set(&space, "teleport-agent", FIRST, 1, "OrderedReady")).unwrap();
        wait_until(PATIENCE, "the Role holds", || {
            account.get(&space.path("apps/v1", "statefulsets/teleport-agent")).is_ok()
        });
    }
}
