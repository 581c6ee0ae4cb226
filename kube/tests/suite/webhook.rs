//! A webhook that takes digests off the images of workloads, and has pods take them from another registry: clusters have those.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use kube_bed::{KubeBed, PatchKind, wait_until};
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::{Value, json};
use testing::cluster::tls::Authority;

use crate::scene::{PATIENCE, Scene};

const PLACE: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";

/// It ends with the value; its thread waits for nobody any more.
struct Webhook<'a>(&'a KubeBed, String);

impl<'a> Webhook<'a> {
    fn start(bed: &'a KubeBed, scene: &Scene) -> Self {
        let authority = Authority::new();
        let config = authority.server(&["127.0.0.1"]);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("https://127.0.0.1:{}/", listener.local_addr().unwrap().port());
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let config = Arc::clone(&config);
                // The API server may end a connection at any time.
                std::thread::spawn(move || serve(config, stream));
            }
        });
        let name = scene.space.name.clone();
        let labels = json!({"metadata": {"labels": {"webhook": name}}});
        bed.client.patch(&format!("/api/v1/namespaces/{name}"), PatchKind::Merge, &labels).unwrap();
        let rule = |group: &str, resource: &str| json!({"apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [resource]});
        let configuration = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration", "metadata": {"name": name},
            "webhooks": [{
                "name": "images.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
                "clientConfig": {"url": url, "caBundle": BASE64_STANDARD.encode(authority.pem())},
                "namespaceSelector": {"matchLabels": {"webhook": name}},
                "rules": [rule("apps", "statefulsets"), rule("apps", "deployments"), rule("", "pods")],
            }],
        });
        bed.client.create(&configuration).unwrap();
        Self(bed, name)
    }
}

impl Drop for Webhook<'_> {
    fn drop(&mut self) {
        let _ = self.0.client.delete(&format!("{PLACE}/{}", self.1), &Value::Null);
    }
}

fn serve(config: Arc<ServerConfig>, stream: TcpStream) -> Option<()> {
    let mut stream = BufReader::new(StreamOwned::new(ServerConnection::new(config).ok()?, stream));
    loop {
        let mut length = 0;
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).ok()? == 0 {
                return None;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().ok()?;
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; length];
        stream.read_exact(&mut body).ok()?;
        let answer = review(&serde_json::from_slice(&body).ok()?).to_string();
        let head =
            format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n", answer.len());
        stream.get_mut().write_all(format!("{head}{answer}").as_bytes()).ok()?;
        stream.get_mut().flush().ok()?;
    }
}

fn review(review: &Value) -> Value {
    let request = &review["request"];
    let is_pod = request["kind"]["kind"] == "Pod";
    let spec = if is_pod { "/spec" } else { "/spec/template/spec" };
    let place = format!("{spec}/containers/0/image");
    let image = request["object"].pointer(&place).and_then(Value::as_str).unwrap_or_default();
    let bare = image.split('@').next().unwrap();
    let wanted = match bare.rsplit_once(':') {
        Some((_, tag)) if is_pod => format!("mirror.example/teleport:{tag}"),
        _ => bare.to_owned(),
    };
    let patch = json!([{"op": "replace", "path": place, "value": wanted}]).to_string();
    json!({
        "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
        "response": {"uid": request["uid"], "allowed": true, "patchType": "JSONPatch", "patch": BASE64_STANDARD.encode(patch)},
    })
}

#[test]
fn an_image_that_a_webhook_changes_is_watched_and_taken_back_all_the_same() {
    let Some(bed) = KubeBed::shared() else { return };
    for name in ["agent", "deployment"] {
        let mut scene = Scene::new(bed, "webhook", &[name]);
        scene.deploy(name);
        let _webhook = Webhook::start(bed, &scene);
        let place = scene.place(name) + "?dryRun=All";
        wait_until(PATIENCE, "the webhook is asked", || {
            let image = format!("{}@sha256:{}", scene.image("1.1.0"), "ab".repeat(32));
            let patch = json!([{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": image}]);
            let answer = scene.space.client.patch(&place, PatchKind::Json, &patch).unwrap();
            kube_bed::image_of(&answer, "teleport") == Some(&scene.image("1.1.0"))
        });
        scene.want("2.0.0", "");
        scene.start();
        let state = scene.told(name, "updated");
        assert_eq!(
            (scene.present(name), state["image"].as_str()),
            (scene.image("2.0.0"), Some(&*scene.image("2.0.0")))
        );
        assert_eq!(state["last"]["outcome"], "updated", "{state}");
        let pods = scene.pods(name);
        assert!(pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "mirror.example/teleport:2.0.0"));
        scene.ask(&["rollback"]);
        assert_eq!(scene.present(name), scene.image("1.0.0"));
        assert_eq!(scene.versions(), ["2.0.0", "1.0.0"], "{name}");
    }
}
