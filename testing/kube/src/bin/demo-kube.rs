//! What `tests/demo-kube.sh` puts around the programs: a namespace with the manifests that ship and an agent, and a registry.
//!
//! `demo-kube DIR` writes `DIR/kubeconfig`, of the account that the manifests give to the program, prints lines `KEY=VALUE`, and
//! ends with its standard input.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a demo that cannot begin says so")]

use std::io::Read;
use std::path::PathBuf;
use std::time::Duration;

use kube_bed::{KubeBed, PodLife, stateful_set, wait_until};
use testing::registry::StandInRegistry;

const BASE: &str = include_str!("../../../../packaging/kube/base/teleport-kube-update.yaml");
const AGENT: &str = "teleport-agent";
const REPOSITORY: &str = "teleport-distroless";
const PLATFORMS: [&str; 2] = ["linux/amd64", "linux/arm64"];
const PATIENCE: Duration = Duration::from_secs(60);

fn main() {
    let dir = PathBuf::from(std::env::args_os().nth(1).unwrap());
    let Some(bed) = KubeBed::shared() else { return };
    let space = bed.namespace("demo");
    let registry = StandInRegistry::default();
    let host = registry.serve();
    for version in ["17.1.0", "17.2.0", "17.3.0", "17.4.0"] {
        registry.push_image(REPOSITORY, version, Some(version), &PLATFORMS);
    }
    space.lives.set(&format!("{host}/{REPOSITORY}:17.3.0"), PodLife::Crashing);
    let manifests = BASE.replace("namespace: teleport\n", &format!("namespace: {}\n", space.name));
    // The program runs beside the cluster here, so that its words can be seen: without its own pod.
    let documents = manifests.split("\n---").filter(|document| !document.contains("kind: Deployment\n"));
    space.client.create_yaml(&documents.collect::<Vec<_>>().join("\n---"), &space.name).unwrap();
    let image = format!("{host}/{REPOSITORY}:17.1.0");
    space.client.create(&stateful_set(&space, AGENT, &image, 2, "OrderedReady")).unwrap();
    wait_until(PATIENCE, "two pods are ready", || space.ready_pods().len() == 2);
    let account = space.token("teleport-kube-update");
    let own = space.path("v1", "configmaps/teleport-kube-update");
    wait_until(PATIENCE, "the Role holds", || account.get(&own).is_ok());
    std::fs::write(dir.join("kubeconfig"), account.kubeconfig(None, &space.name)).unwrap();
    println!("registry={host}\nready=yes");
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}
