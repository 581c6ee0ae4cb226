//! Workloads of one container `teleport`, as JSON.

use serde_json::{Value, json};

use crate::namespace::Namespace;

/// A StatefulSet; `policy` is `OrderedReady` or `Parallel`.
pub fn stateful_set(space: &Namespace, name: &str, image: &str, replicas: usize, policy: &str) -> Value {
    let mut set = workload(space, "StatefulSet", name, image);
    set["spec"]["replicas"] = replicas.into();
    set["spec"]["serviceName"] = name.into();
    set["spec"]["podManagementPolicy"] = policy.into();
    set
}

/// A Deployment.
pub fn deployment(space: &Namespace, name: &str, image: &str, replicas: usize) -> Value {
    let mut deployment = workload(space, "Deployment", name, image);
    deployment["spec"]["replicas"] = replicas.into();
    deployment
}

/// A DaemonSet, of the nodes of this namespace.
pub fn daemon_set(space: &Namespace, name: &str, image: &str) -> Value {
    let mut set = workload(space, "DaemonSet", name, image);
    set["spec"]["template"]["spec"]["nodeSelector"] = json!({"bed": space.name});
    set
}

/// The image that the template of a workload has for a container.
pub fn image_of<'a>(workload: &'a Value, container: &str) -> Option<&'a str> {
    let containers = workload["spec"]["template"]["spec"]["containers"].as_array()?;
    containers.iter().find(|known| known["name"] == container)?["image"].as_str()
}

fn workload(space: &Namespace, kind: &str, name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": space.name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "teleport", "image": image}]},
            },
        },
    })
}
