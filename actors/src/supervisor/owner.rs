//! Who stands behind a pod (reference §2.1): the top controller that its endpoint names, and whether the pod's
//! addresses outlive it.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::store::{Stateful, StatefulOwner};

/// Who stands behind a pod, as its endpoint names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) kind: String,
    pub(super) name: String,
}

/// Which pods come back and get their addresses again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returning {
    /// `enableStatefulSet` of conf.yml.
    pub stateful_sets: bool,
    /// `enableKubevirtStaticIP` of conf.yml.
    pub virtual_machines: bool,
}

/// Kinds of `status.ownerControllerType` of endpoints whose pods come back.
const STATEFUL_SET: &str = "StatefulSet";
const VIRTUAL_MACHINE_INSTANCE: &str = "VirtualMachineInstance";

impl Owner {
    fn of_reference(reference: &OwnerReference) -> Self {
        Self {
            kind: reference.kind.clone(),
            name: reference.name.clone(),
        }
    }

    /// Who is known without asking. A ReplicaSet's Deployment is told by the pod-template hash, which only
    /// Deployments put there.
    pub(super) fn of(pod: &Pod) -> Self {
        let Some(controller) = controller(pod) else {
            return Self {
                kind: "Pod".to_owned(),
                name: pod.metadata.name.clone().unwrap_or_default(),
            };
        };
        match deployment(pod, controller) {
            Some(name) => Self {
                kind: "Deployment".to_owned(),
                name: name.to_owned(),
            },
            None => Self::of_reference(controller),
        }
    }

    /// Who is known once the controller's own controller is.
    pub(super) fn above(self, parent: Option<&OwnerReference>) -> Self {
        parent.map_or(self, Self::of_reference)
    }
}

/// The controller whose own controller is the one to name: a ReplicaSet of no known Deployment, or a Job.
/// Others are the top themselves, and of a third party's kind no more than the kind is known.
pub(super) fn to_look_above(pod: &Pod) -> Option<&OwnerReference> {
    let controller = controller(pod)?;
    let group = group(controller);
    let nested =
        (group == "apps" && controller.kind == "ReplicaSet" && deployment(pod, controller).is_none())
            || (group == "batch" && controller.kind == "Job");
    nested.then_some(controller)
}

fn controller(pod: &Pod) -> Option<&OwnerReference> {
    let owners = pod.metadata.owner_references.as_ref()?;
    owners.iter().find(|owner| owner.controller == Some(true))
}

fn group(owner: &OwnerReference) -> &str {
    owner.api_version.split_once('/').map_or("", |(group, _)| group)
}

fn deployment<'a>(pod: &Pod, controller: &'a OwnerReference) -> Option<&'a str> {
    if group(controller) != "apps" || controller.kind != "ReplicaSet" {
        return None;
    }
    let hash = pod.metadata.labels.as_ref()?.get("pod-template-hash")?;
    controller.name.strip_suffix(hash.as_str())?.strip_suffix('-')
}

/// What makes the pod come back, when that is switched on.
pub(super) fn stateful(pod: &Pod, returning: Returning) -> Option<Stateful> {
    let controller = controller(pod)?;
    match (group(controller), controller.kind.as_str()) {
        ("apps", STATEFUL_SET) if returning.stateful_sets => Some(Stateful::StatefulSet),
        ("kubevirt.io", VIRTUAL_MACHINE_INSTANCE) if returning.virtual_machines => {
            Some(Stateful::VirtualMachine)
        }
        _ => None,
    }
}

/// The same of a pod that is gone, by the words of its endpoint.
pub(super) fn stateful_kind(kind: &str, returning: Returning) -> Option<Stateful> {
    match kind {
        STATEFUL_SET if returning.stateful_sets => Some(Stateful::StatefulSet),
        VIRTUAL_MACHINE_INSTANCE if returning.virtual_machines => Some(Stateful::VirtualMachine),
        _ => None,
    }
}

/// The endpoint's name, which claims carry too: the pod's, or that of the machine that the pod runs.
pub(super) fn endpoint_name(pod: &Pod, returning: Returning) -> String {
    match stateful(pod, returning) {
        Some(Stateful::VirtualMachine) => Owner::of(pod).name,
        _ => pod.metadata.name.clone().unwrap_or_default(),
    }
}

/// True when a pod of that name will come back (reference §2.13 item 5): its ordinal is within the replicas of
/// a StatefulSet that exists, or its machine exists.
pub(super) fn comes_back(pod_name: &str, owner_name: &str, owner: Option<&StatefulOwner>) -> bool {
    match owner {
        None => false,
        Some(StatefulOwner::VirtualMachine) => true,
        Some(StatefulOwner::StatefulSet { first, replicas }) => {
            let ordinal = pod_name
                .strip_prefix(owner_name)
                .and_then(|rest| rest.strip_prefix('-'))
                .and_then(|digits| digits.parse::<i64>().ok());
            ordinal.is_some_and(|ordinal| (*first..first.saturating_add(*replicas)).contains(&ordinal))
        }
    }
}

#[cfg(test)]
#[path = "owner_tests.rs"]
mod tests;
