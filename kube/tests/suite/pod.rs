//! As in a pod: the API server, the token, its authority and the namespace are where Kubernetes puts them.

use std::process::Command;

use kube_bed::KubeBed;

use crate::scene::Scene;

#[test]
fn a_pod_finds_its_api_server_its_token_and_its_namespace() {
    let Some(bed) = KubeBed::shared() else { return };
    let scene = Scene::new(bed, "pod", &["agent"]);
    scene.deploy("agent");
    scene.want("2.0.0", "");
    let folder = scene.folder.path().join("serviceaccount");
    std::fs::create_dir(&folder).unwrap();
    for (name, text) in [("token", &scene.account.token), ("ca.crt", &bed.ca_pem()), ("namespace", &scene.space.name)] {
        std::fs::write(folder.join(name), text).unwrap();
    }
    let port = bed.client.url.rsplit(':').next().unwrap();
    let script = "mount -t tmpfs none /run && mkdir -p /run/secrets/kubernetes.io && \
                  ln -s \"$1\" /run/secrets/kubernetes.io/serviceaccount && exec \"$2\" --config \"$3\" plan";
    let mut command = Command::new("unshare");
    command.args(["-r", "-m", "sh", "-c", script, "sh"]).arg(&folder);
    command.arg(env!("CARGO_BIN_EXE_teleport-kube-update")).arg(scene.folder.path().join("kube.yaml"));
    command.env("KUBERNETES_SERVICE_HOST", "127.0.0.1").env("KUBERNETES_SERVICE_PORT", port);
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    if error.contains("unshare failed") || error.contains("permission denied") {
        println!("skipped: no mount namespace of one's own here: {error}");
        return;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("update") && text.contains("2.0.0@sha256:"), "{text}{error}");
}
