//! The controllers of pods, over the API server.

use std::sync::Arc;

use async_trait::async_trait;
use dashmap::DashMap;
use k8s_openapi::api::apps::v1::{ReplicaSet, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind};
use kube::{Client, Resource};
use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::store::{Owners, Stateful, StatefulOwner, StoreError};

use crate::store::Calls;

/// Controllers whose own controller is remembered; a node runs a few hundred pods.
const REMEMBERED: usize = 4096;

/// Controllers, read when a pod needs them.
#[derive(Clone)]
pub struct KubeOwners {
    client: Client,
    calls: Calls,
    /// By the lower controller's UID. Who controls it never changes in practice, and is only ever shown.
    above: Arc<DashMap<String, Option<OwnerReference>>>,
}

impl std::fmt::Debug for KubeOwners {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KubeOwners").finish_non_exhaustive()
    }
}

impl KubeOwners {
    /// Over a client.
    pub fn new(client: Client, calls: Calls) -> Self {
        Self {
            client,
            calls,
            above: Arc::default(),
        }
    }

    async fn metadata<K>(
        &self,
        namespace: &str,
        name: &str,
        deadline: Deadline,
    ) -> Result<Option<ObjectMeta>, StoreError>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned
            + Send
            + 'static,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), namespace);
        let found = self.calls.run(deadline, api.get_metadata_opt(name)).await?;
        Ok(found.map(|object| object.metadata))
    }

    async fn stateful_set(
        &self,
        namespace: &str,
        name: &str,
        deadline: Deadline,
    ) -> Result<Option<StatefulOwner>, StoreError> {
        let api: Api<StatefulSet> = Api::namespaced(self.client.clone(), namespace);
        let found = self.calls.run(deadline, api.get_opt(name)).await?;
        let living = found.filter(|set| set.metadata.deletion_timestamp.is_none());
        Ok(living.map(|set| {
            let spec = set.spec.unwrap_or_default();
            StatefulOwner::StatefulSet {
                first: spec
                    .ordinals
                    .and_then(|ordinals| ordinals.start)
                    .unwrap_or(0)
                    .into(),
                replicas: spec.replicas.unwrap_or(1).into(),
            }
        }))
    }

    /// A restart deletes the instance and keeps the machine, so either will do (reference §2.13 item 5).
    async fn virtual_machine(
        &self,
        namespace: &str,
        name: &str,
        deadline: Deadline,
    ) -> Result<Option<StatefulOwner>, StoreError> {
        for kind in ["VirtualMachineInstance", "VirtualMachine"] {
            let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("kubevirt.io", "v1", kind));
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &kind);
            if self
                .calls
                .run(deadline, api.get_metadata_opt(name))
                .await?
                .is_some()
            {
                return Ok(Some(StatefulOwner::VirtualMachine));
            }
        }
        Ok(None)
    }
}

#[async_trait]
impl Owners for KubeOwners {
    async fn controller_of(
        &self,
        namespace: &str,
        controller: &OwnerReference,
        deadline: Deadline,
    ) -> Result<Option<OwnerReference>, StoreError> {
        if let Some(known) = self.above.get(&controller.uid) {
            return Ok(known.clone());
        }
        let metadata = match controller.kind.as_str() {
            "ReplicaSet" => {
                self.metadata::<ReplicaSet>(namespace, &controller.name, deadline)
                    .await?
            }
            "Job" => {
                self.metadata::<Job>(namespace, &controller.name, deadline)
                    .await?
            }
            _ => None,
        };
        let same = metadata.filter(|metadata| metadata.uid.as_deref() == Some(&controller.uid));
        let owners = same
            .and_then(|metadata| metadata.owner_references)
            .unwrap_or_default();
        let above = owners.into_iter().find(|owner| owner.controller == Some(true));
        if self.above.len() >= REMEMBERED {
            self.above.clear();
        }
        self.above.insert(controller.uid.clone(), above.clone());
        Ok(above)
    }

    async fn stateful_owner(
        &self,
        kind: Stateful,
        namespace: &str,
        name: &str,
        deadline: Deadline,
    ) -> Result<Option<StatefulOwner>, StoreError> {
        match kind {
            Stateful::StatefulSet => self.stateful_set(namespace, name, deadline).await,
            Stateful::VirtualMachine => self.virtual_machine(namespace, name, deadline).await,
        }
    }
}
