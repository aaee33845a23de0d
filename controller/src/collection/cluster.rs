//! The cluster as a store: uncached reads, complete lists, writes that name the version they were planned on.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use either::Either;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, Preconditions};
use kube::core::{ApiResource, DeserializeGuard, GroupVersionKind, PartialObjectMeta};
use kube::{Client, ResourceExt};
use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::error::ProviderError;
use orbweaver_actors::provider::ProviderApi;
use orbweaver_actors::store::StoreError;
use orbweaver_api::FINALIZER;
use orbweaver_api::claims::{self, Claims};
use orbweaver_api::endpoint::SpiderEndpoint;
use orbweaver_api::multus_config::SpiderMultusConfig;
use orbweaver_api::pool::SpiderIPPool;
use orbweaver_api::provider::ReleaseRequest;
use orbweaver_api::release_mark::{RELEASE_MARK, ReleaseMark};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};
use tracing::warn;

use crate::chain;
use crate::collection::facts::{Key, Machines, NodeFact, PodFact, PoolFact, Snapshot, StatefulSetFact, key};
use crate::collection::store::CollectionStore;

/// What one request may take.
const WITHIN: Duration = Duration::from_secs(10);
/// Objects in one page of a list.
const PAGE: u32 = 500;
/// How the API server names our writes.
const FIELD_MANAGER: &str = "orbweaver-controller";
/// The kinds of KubeVirt, read by name only.
const MACHINES: [&str; 2] = ["VirtualMachine", "VirtualMachineInstance"];

/// The API server, and the provider if there is one.
#[derive(Clone)]
pub struct ClusterStore {
    client: Client,
    provider: Option<Arc<dyn ProviderApi>>,
    /// Pools and namespaces that are looked at; empty for all.
    prefix: String,
}

impl Debug for ClusterStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterStore")
            .field("provider", &self.provider.is_some())
            .finish_non_exhaustive()
    }
}

impl ClusterStore {
    /// Over a client.
    pub fn new(client: Client, provider: Option<Arc<dyn ProviderApi>>) -> Self {
        Self {
            client,
            provider,
            prefix: String::new(),
        }
    }

    /// Looks at pools and endpoints only whose name or namespace begins like this; for tests on a shared cluster.
    #[must_use]
    pub fn only(mut self, prefix: &str) -> Self {
        prefix.clone_into(&mut self.prefix);
        self
    }

    fn all<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = ()>,
    {
        Api::all(self.client.clone())
    }

    fn api<K>(&self, name: &str) -> (Api<K>, String)
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
        (Api::namespaced(self.client.clone(), namespace), name.to_owned())
    }

    async fn look_at_pools(&self, seen: &mut Snapshot) -> Result<(), StoreError> {
        let pools: Api<DeserializeGuard<SpiderIPPool>> = Api::all(self.client.clone());
        for guard in list(&pools).await? {
            let name = guard.name_any();
            if !name.starts_with(&self.prefix) {
                continue;
            }
            let read = guard.0.map_err(|invalid| invalid.error);
            match read.and_then(|pool| PoolFact::of(&pool).map_err(|error| error.to_string())) {
                Ok(fact) => {
                    seen.pools.insert(name, fact);
                }
                Err(error) => {
                    warn!(pool = name, error, "the pool cannot be read");
                    seen.unreadable.push(name);
                }
            }
        }
        Ok(())
    }

    async fn look_at_endpoints(&self, seen: &mut Snapshot) -> Result<(), StoreError> {
        let endpoints: Api<DeserializeGuard<SpiderEndpoint>> = Api::all(self.client.clone());
        for guard in list(&endpoints).await? {
            let name = key(&guard.namespace().unwrap_or_default(), &guard.name_any());
            if !name.starts_with(&self.prefix) {
                continue;
            }
            match guard.0 {
                Ok(mut endpoint) => {
                    endpoint.metadata.managed_fields = None;
                    seen.endpoints.insert(name, endpoint);
                }
                Err(invalid) => {
                    warn!(
                        endpoint = name,
                        error = invalid.error,
                        "the SpiderEndpoint cannot be read"
                    );
                    seen.unreadable_endpoints.insert(name);
                }
            }
        }
        let networks: Api<DeserializeGuard<SpiderMultusConfig>> = Api::all(self.client.clone());
        seen.provider_networks = match list(&networks).await {
            // What cannot be read may be one.
            Ok(networks) => networks
                .into_iter()
                .any(|guard| guard.0.map_or(true, |network| network.spec.is_provider_network())),
            Err(StoreError::NotFound) => false,
            Err(error) => return Err(error),
        };
        Ok(())
    }

    async fn machines(&self) -> Machines {
        let mut names = BTreeSet::new();
        let mut served = false;
        for kind in MACHINES {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("kubevirt.io", "v1", kind));
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
            match list_metadata(&api).await {
                Ok(found) => {
                    served = true;
                    names.extend(found);
                }
                Err(StoreError::NotFound) => {}
                Err(error) => {
                    warn!(kind, %error, "virtual machines cannot be listed: their addresses stay");
                    return Machines::Unknown;
                }
            }
        }
        if served {
            Machines::Known(names)
        } else {
            Machines::None
        }
    }
}

fn params() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

/// A complete list. One whose paging breaks off is an error: half a list is no fact (peer rule L2).
async fn list<K: Clone + DeserializeOwned + Debug>(api: &Api<K>) -> Result<Vec<K>, StoreError> {
    let mut params = ListParams::default().limit(PAGE);
    let mut items = Vec::new();
    loop {
        let page = bounded(api.list(&params)).await?;
        items.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(items),
        }
    }
}

async fn list_metadata(api: &Api<DynamicObject>) -> Result<Vec<Key>, StoreError> {
    let mut params = ListParams::default().limit(PAGE);
    let mut names = Vec::new();
    let name = |object: PartialObjectMeta<DynamicObject>| {
        key(&object.namespace().unwrap_or_default(), &object.name_any())
    };
    loop {
        let page = bounded(api.list_metadata(&params)).await?;
        names.extend(page.items.into_iter().map(name));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(names),
        }
    }
}

async fn bounded<T>(request: impl Future<Output = Result<T, kube::Error>>) -> Result<T, StoreError> {
    match timeout(WITHIN, request).await {
        Ok(result) => result.map_err(classify),
        Err(_) => Err(StoreError::Unknown(format!("no answer within {WITHIN:?}"))),
    }
}

fn classify(error: kube::Error) -> StoreError {
    match error {
        kube::Error::Api(status) => match status.code {
            404 => StoreError::NotFound,
            409 => StoreError::Conflict,
            429 => StoreError::Unavailable(status.message.clone()),
            400..=499 => StoreError::Refused(format!("{} ({})", status.message, status.code)),
            _ => StoreError::Unknown(format!("{} ({})", status.message, status.code)),
        },
        error @ kube::Error::SerdeError(_) => StoreError::Refused(chain(&error)),
        error => StoreError::Unknown(chain(&error)),
    }
}

fn absent<T>(result: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(StoreError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// UID and version: what a write must find.
fn exactly(endpoint: &SpiderEndpoint) -> Value {
    json!({ "uid": endpoint.metadata.uid, "resourceVersion": endpoint.metadata.resource_version })
}

impl CollectionStore for ClusterStore {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    async fn look(&self) -> Result<Snapshot, StoreError> {
        let mut seen = Snapshot::default();
        self.look_at_pools(&mut seen).await?;
        self.look_at_endpoints(&mut seen).await?;
        for set in list(&self.all::<StatefulSet>()).await? {
            let name = key(&set.namespace().unwrap_or_default(), &set.name_any());
            seen.stateful_sets.insert(name, StatefulSetFact::of(&set));
        }
        seen.machines = self.machines().await;
        for namespace in list(&self.all::<Namespace>()).await? {
            seen.namespaces.insert(namespace.name_any());
        }
        for pod in list(&self.all::<Pod>()).await? {
            let name = key(&pod.namespace().unwrap_or_default(), &pod.name_any());
            seen.pods.insert(name, PodFact::of(&pod));
        }
        // After the pods: a node that a listed pod names was there before.
        for node in list(&self.all::<Node>()).await? {
            seen.nodes.insert(node.name_any(), NodeFact::of(&node));
        }
        Ok(seen)
    }

    async fn read_pool(&self, name: &str) -> Result<Option<PoolFact>, StoreError> {
        let pool = absent(bounded(self.all::<SpiderIPPool>().get(name)).await)?;
        pool.map(|pool| PoolFact::of(&pool))
            .transpose()
            .map_err(|error| StoreError::Refused(error.to_string()))
    }

    async fn read_pod(&self, pod: &str) -> Result<Option<PodFact>, StoreError> {
        let (api, name) = self.api::<Pod>(pod);
        let pod = absent(bounded(api.get(&name)).await)?;
        Ok(pod.map(|pod| PodFact::of(&pod)))
    }

    async fn read_node(&self, name: &str) -> Result<Option<NodeFact>, StoreError> {
        let node = absent(bounded(self.all::<Node>().get(name)).await)?;
        Ok(node.map(|node| NodeFact::of(&node)))
    }

    async fn read_stateful_set(&self, set: &str) -> Result<Option<StatefulSetFact>, StoreError> {
        let (api, name) = self.api::<StatefulSet>(set);
        let set = absent(bounded(api.get(&name)).await)?;
        Ok(set.map(|set| StatefulSetFact::of(&set)))
    }

    async fn read_machine(&self, machine: &str) -> Result<bool, StoreError> {
        let (namespace, name) = machine.split_once('/').unwrap_or_default();
        for kind in MACHINES {
            let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("kubevirt.io", "v1", kind));
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), namespace, &resource);
            if absent(bounded(api.get_metadata(name)).await)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn read_endpoint(&self, endpoint: &str) -> Result<Option<SpiderEndpoint>, StoreError> {
        let (api, name) = self.api::<SpiderEndpoint>(endpoint);
        absent(bounded(api.get(&name)).await)
    }

    async fn write_mark(
        &self,
        endpoint: &SpiderEndpoint,
        mark: Option<&ReleaseMark>,
    ) -> Result<SpiderEndpoint, StoreError> {
        let text = mark.map(serde_json::to_string).transpose();
        let text = text.map_err(|error| StoreError::Refused(error.to_string()))?;
        let mut metadata = exactly(endpoint);
        metadata["annotations"] = json!({ RELEASE_MARK: text });
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let api: Api<SpiderEndpoint> =
            Api::namespaced(self.client.clone(), &endpoint.namespace().unwrap_or_default());
        bounded(api.patch(&endpoint.name_any(), &params(), &patch)).await
    }

    async fn release(&self, request: &ReleaseRequest, deadline: Instant) -> Result<(), ProviderError> {
        let Some(provider) = &self.provider else {
            return Err(ProviderError::NotSent("no provider is configured".into()));
        };
        let id = format!("gc-{}-{}", request.pod_uid, request.ip_address);
        let released = provider.release(request, Deadline::at(deadline), &id).await;
        released.map_err(|failure| failure.error)
    }

    async fn write_claims(&self, pool: &PoolFact, claims: &Claims) -> Result<(), StoreError> {
        let patch = json!({
            "metadata": { "uid": pool.uid, "resourceVersion": pool.version },
            "status": { "allocatedIPs": claims::encode(claims), "allocatedIPCount": claims.len() },
        });
        let api = self.all::<SpiderIPPool>();
        let patch = Patch::Merge(patch);
        let written = bounded(api.patch_status(&pool.name, &params(), &patch)).await;
        written.map(drop)
    }

    async fn delete_endpoint(&self, endpoint: &SpiderEndpoint) -> Result<Option<SpiderEndpoint>, StoreError> {
        let params = DeleteParams::default().preconditions(Preconditions {
            uid: endpoint.metadata.uid.clone(),
            resource_version: endpoint.metadata.resource_version.clone(),
        });
        let api: Api<SpiderEndpoint> =
            Api::namespaced(self.client.clone(), &endpoint.namespace().unwrap_or_default());
        match bounded(api.delete(&endpoint.name_any(), &params)).await? {
            Either::Left(deleting) => Ok(Some(deleting)),
            Either::Right(_) => Ok(None),
        }
    }

    async fn free_endpoint(&self, endpoint: &SpiderEndpoint) -> Result<(), StoreError> {
        let held = endpoint.metadata.finalizers.as_deref().unwrap_or_default();
        let others: Vec<&String> = held.iter().filter(|finalizer| *finalizer != FINALIZER).collect();
        if others.len() == held.len() {
            return Ok(());
        }
        let mut metadata = exactly(endpoint);
        metadata["finalizers"] = json!(others);
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let api: Api<SpiderEndpoint> =
            Api::namespaced(self.client.clone(), &endpoint.namespace().unwrap_or_default());
        bounded(api.patch_metadata(&endpoint.name_any(), &params(), &patch))
            .await
            .map(drop)
    }
}
