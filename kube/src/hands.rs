//! Whose the image is: what `managedFields` says (KUBE §6). Pure.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::Value;

use crate::workload::{Workload, WorkloadKind};

/// Our name as a field manager.
pub const MANAGER: &str = "teleport-kube-update";
/// Commands of kubectl with which a person writes; an apply is no person's, for a file lies behind it.
const BY_HAND: [&str; 6] =
    ["kubectl-set", "kubectl-edit", "kubectl-patch", "kubectl-rollout", "kubectl-replace", "kubectl"];
/// A part of Argo CD's names.
const ARGO: &str = "argocd";

/// Who wrote a field last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldOwner {
    /// Its name as a field manager.
    pub manager: String,
    /// What he is.
    pub hand: Hand,
    /// He applies on the server's side.
    is_apply: bool,
    /// Our own name as a field manager.
    ours: String,
    /// The container's place among the containers.
    place: usize,
}

/// What somebody is who writes the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hand {
    /// This program.
    Ours,
    /// This program under another name, which another configuration runs.
    Beside,
    /// A person with kubectl.
    Person,
    /// Helm, Argo CD, Flux, an apply, another controller.
    Tool,
}

impl FieldOwner {
    /// Who owns the image of `container`; where several do, a person before a tool before us. `None`: nobody says.
    pub fn of_image(workload: &Workload, container: &str, manager: &str) -> Option<Self> {
        let key = format!("k:{}", serde_json::json!({ "name": container }));
        let path = ["f:spec", "f:template", "f:spec", "f:containers", &key, "f:image"];
        let owns = |fields: &&ManagedFieldsEntry| {
            let tree = fields.fields_v1.as_ref().map(|tree| &tree.0);
            tree.and_then(|tree| path.iter().try_fold(tree, |here: &Value, part| here.get(*part))).is_some()
        };
        let place = workload.index(container).unwrap_or_default();
        let of = |fields: &ManagedFieldsEntry| Self {
            manager: fields.manager.clone().unwrap_or_default(),
            hand: hand(fields, manager),
            is_apply: is_apply(fields),
            ours: manager.to_owned(),
            place,
        };
        let owners = workload.metadata.managed_fields.iter().flatten().filter(owns).map(of);
        // Server-side apply shares a field among those who wrote the same value.
        owners.min_by_key(|owner| match owner.hand {
            Hand::Person => 0,
            Hand::Tool => 1,
            Hand::Beside => 2,
            Hand::Ours => 3,
        })
    }

    /// What to add so that he leaves the image of a `kind` alone; `None`: nothing is known of him.
    pub fn remedy(&self, kind: WorkloadKind) -> Option<String> {
        let manager = self.manager.to_ascii_lowercase();
        let Self { ours, place, .. } = self;
        let rule =
            || format!("[{{paths: [\"/spec/template/spec/containers/{place}/image\"], target: {{kind: {kind}}}}}]");
        Some(if manager.contains(ARGO) {
            format!(
                "add to the Argo CD Application: spec.ignoreDifferences: [{{group: apps, kind: {kind}, \
                 managedFieldsManagers: [{ours}]}}] and spec.syncPolicy.syncOptions: [RespectIgnoreDifferences=true]"
            )
        } else if manager.contains("helm-controller") {
            format!("add to the Flux HelmRelease: spec.driftDetection.ignore: {}; or set write: publish", rule())
        } else if manager.contains("kustomize-controller") {
            format!("add to the Flux Kustomization: spec.ignore: {}; or leave the image out of the file in Git", rule())
        } else if manager.contains("helm") {
            "set write: publish for this agent, and pass values.yaml of its ConfigMap to `helm upgrade`".to_owned()
        } else if manager.contains("apply") || self.is_apply {
            "leave the image out of what is applied".to_owned()
        } else {
            return None;
        })
    }
}

/// By server-side apply; else by an update.
fn is_apply(fields: &ManagedFieldsEntry) -> bool {
    fields.operation.as_deref() == Some("Apply")
}

fn hand(fields: &ManagedFieldsEntry, ours: &str) -> Hand {
    let manager = fields.manager.as_deref().unwrap_or_default();
    if manager == ours {
        Hand::Ours
    } else if manager.strip_prefix(MANAGER).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')) {
        Hand::Beside
    } else if !is_apply(fields) && BY_HAND.contains(&manager) {
        Hand::Person
    } else {
        Hand::Tool
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workload(fields: &[(&str, &str)]) -> Workload {
        let image = json!({ "f:spec": { "f:template": { "f:spec": { "f:containers": {
            "k:{\"name\":\"teleport\"}": { ".": {}, "f:image": {} } } } } } });
        let fields: Vec<_> = fields
            .iter()
            .map(|(manager, operation)| json!({ "manager": manager, "operation": operation, "fieldsV1": image }))
            .collect();
        let beside = json!({ "manager": "kube-controller-manager", "operation": "Update",
            "fieldsV1": { "f:status": {} } });
        let all: Vec<_> = fields.into_iter().chain([beside]).collect();
        serde_json::from_value(json!({ "metadata": { "managedFields": all } })).unwrap()
    }

    #[test]
    fn a_person_a_tool_and_we_are_told_apart() {
        for (manager, operation, hand) in [
            ("teleport-kube-update", "Update", Hand::Ours),
            ("teleport-kube-update-two", "Update", Hand::Beside),
            ("teleport-kube-updater", "Update", Hand::Tool),
            ("kubectl-set", "Update", Hand::Person),
            ("kubectl-edit", "Update", Hand::Person),
            ("kubectl-patch", "Update", Hand::Person),
            ("kubectl-rollout", "Update", Hand::Person),
            ("kubectl-client-side-apply", "Update", Hand::Tool),
            ("kubectl", "Apply", Hand::Tool),
            ("kubectl-set", "Apply", Hand::Tool),
            ("helm", "Update", Hand::Tool),
            ("helm", "Apply", Hand::Tool),
            ("argocd-controller", "Apply", Hand::Tool),
            ("argocd-application-controller", "Update", Hand::Tool),
            ("kustomize-controller", "Apply", Hand::Tool),
        ] {
            let owner = FieldOwner::of_image(&workload(&[(manager, operation)]), "teleport", MANAGER).unwrap();
            assert_eq!((owner.hand, owner.manager.as_str()), (hand, manager), "{manager} {operation}");
        }
    }

    #[test]
    fn of_several_owners_the_other_one_counts_and_of_another_container_none() {
        let both = workload(&[("teleport-kube-update", "Update"), ("helm", "Apply")]);
        assert_eq!(FieldOwner::of_image(&both, "teleport", MANAGER).unwrap().hand, Hand::Tool);
        assert_eq!(FieldOwner::of_image(&both, "other", MANAGER), None);
        assert_eq!(FieldOwner::of_image(&Workload::default(), "teleport", MANAGER), None);
    }

    #[test]
    fn the_lines_to_add_name_the_kind_the_place_and_this_program() {
        let containers = json!([{"name": "proxy"}, {"name": "teleport"}]);
        let mut both = json!({"spec": {"template": {"spec": {"containers": containers}}}});
        for (manager, lines) in [
            ("argocd-controller", "kind: Deployment, managedFieldsManagers: [teleport-kube-update-two]}]"),
            ("helm-controller", "[{paths: [\"/spec/template/spec/containers/1/image\"], target: {kind: Deployment}}]"),
            ("kustomize-controller", "spec.ignore: [{paths: [\"/spec/template/spec/containers/1/image\"]"),
            ("somebody", "leave the image out of what is applied"),
        ] {
            let image = json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {
                "k:{\"name\":\"teleport\"}": {"f:image": {}}}}}}});
            both["metadata"] =
                json!({"managedFields": [{"manager": manager, "operation": "Apply", "fieldsV1": image}]});
            let workload: Workload = serde_json::from_value(both.clone()).unwrap();
            let owner = FieldOwner::of_image(&workload, "teleport", "teleport-kube-update-two").unwrap();
            let remedy = owner.remedy(WorkloadKind::Deployment).unwrap();
            assert!(remedy.contains(lines), "{manager}: {remedy}");
        }
    }
}
