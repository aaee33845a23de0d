//! A world in memory: API server, watches, links and provider, for one Supervisor.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::error::ProviderError;
use orbweaver_actors::provider::{ProviderHandle, ProviderOptions};
use orbweaver_actors::request::{AddRequest, Attachment, DelRequest};
use orbweaver_actors::store::{ClaimsWrite, EndpointStore, PoolStore, StatefulOwner, StoreError};
use orbweaver_actors::supervisor::{Ports, Returning, SupervisorHandle, SupervisorOptions};
use orbweaver_api::claims;
use orbweaver_api::endpoint::SpiderEndpoint;
use orbweaver_api::pool::SpiderIPPool;
use orbweaver_api::provider::{AllocateRequest, ReleaseRequest};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, oneshot};

#[path = "outside.rs"]
mod outside;
#[path = "owners.rs"]
mod owners;
#[path = "view.rs"]
mod view;

#[derive(Default)]
pub(crate) struct State {
    pub(crate) pools: BTreeMap<String, Arc<SpiderIPPool>>,
    pub(crate) pods: BTreeMap<String, Arc<Pod>>,
    /// What the API server has where the watch is behind.
    pub(crate) later_pods: BTreeMap<String, Arc<Pod>>,
    pub(crate) endpoints: BTreeMap<String, Arc<SpiderEndpoint>>,
    pub(crate) allocates: Vec<AllocateRequest>,
    pub(crate) releases: Vec<ReleaseRequest>,
    /// What the next provider calls end with; none left: success.
    pub(crate) provider_fails: VecDeque<ProviderError>,
    /// What the next releases end with; none left: success.
    pub(crate) release_fails: VecDeque<ProviderError>,
    pub(crate) endpoint_fails: VecDeque<StoreError>,
    pub(crate) pod_reads: usize,
    pub(crate) pool_reads: usize,
    /// StatefulSets and machines by `namespace/name`.
    pub(crate) stateful: BTreeMap<String, StatefulOwner>,
    /// Controllers of controllers, by the lower one's name.
    pub(crate) above: BTreeMap<String, OwnerReference>,
    /// Warnings on pods: reason, subject and note.
    pub(crate) warnings: Vec<(&'static str, String, String)>,
    /// Networks whose VLANs the provider chooses, `namespace/name`.
    pub(crate) provider_networks: Vec<String>,
    /// So many writes of claims panic.
    pub(crate) panics: usize,
    version: u64,
}

/// The world.
pub(crate) struct World {
    pub(crate) state: Mutex<State>,
    /// The provider answers once it gets a permit.
    pub(crate) gate: Semaphore,
    /// A write of claims is done once it gets a permit.
    pub(crate) write_gate: Semaphore,
}

pub(crate) fn plain(name: &str, ips: &str) -> Value {
    json!({
        "metadata": { "name": name, "uid": name, "generation": 1 },
        "spec": { "subnet": "10.7.0.0/24", "ips": [ips], "gateway": "10.7.0.1" },
    })
}

pub(crate) fn global(name: &str, ips: &str, entries: Value) -> Value {
    let mut pool = plain(name, ips);
    pool["metadata"]["annotations"] =
        json!({ "ipam.spidernet.io/iaas-provider": "c", "ipam.spidernet.io/parent-nic": "eth1" });
    let ledger = json!({ "scope": "", "ips": entries }).to_string();
    pool["status"] = json!({ "ipMetaData": { "metadata": ledger, "observedGeneration": 1 } });
    pool
}

impl World {
    pub(crate) fn new(pools: &[Value]) -> Arc<Self> {
        let world = Self {
            state: Mutex::default(),
            write_gate: Semaphore::new(Semaphore::MAX_PERMITS),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
        };
        for pool in pools {
            let mut pool: SpiderIPPool = serde_json::from_value(pool.clone()).unwrap();
            let mut state = world.state.lock();
            state.version += 1;
            pool.metadata.resource_version = Some(state.version.to_string());
            state
                .pools
                .insert(pool.metadata.name.clone().unwrap(), Arc::new(pool));
        }
        Arc::new(world)
    }

    /// A Supervisor of node n1 in this world; the receiver fires when it asks for the process's end.
    pub(crate) fn supervise(
        self: &Arc<Self>,
        max_requests: usize,
    ) -> (SupervisorHandle, oneshot::Receiver<String>) {
        self.start("n1", max_requests)
    }

    /// The Supervisor of another node.
    pub(crate) fn supervise_on(
        self: &Arc<Self>,
        node: &str,
    ) -> (SupervisorHandle, oneshot::Receiver<String>) {
        self.start(node, 8)
    }

    fn start(
        self: &Arc<Self>,
        node: &str,
        max_requests: usize,
    ) -> (SupervisorHandle, oneshot::Receiver<String>) {
        let arbiter = actix_rt::Arbiter::current();
        let provider = ProviderHandle::start(ProviderOptions::default(), self.clone(), &arbiter);
        let options = SupervisorOptions {
            node_name: node.into(),
            enable_ipv4: true,
            enable_ipv6: false,
            default_network: None,
            namespace: "kube-system".into(),
            returning: Returning {
                stateful_sets: true,
                virtual_machines: true,
            },
            max_claims_per_pool: 5000,
            max_requests,
        };
        let ports = Ports {
            pools: self.clone(),
            endpoints: self.clone(),
            view: self.clone(),
            owners: self.clone(),
            events: self.clone(),
            links: self.clone(),
            provider: Some(provider),
        };
        SupervisorHandle::start(options, ports, vec![arbiter])
    }

    /// A pod that may have addresses of these pools.
    pub(crate) fn add_pod(&self, name: &str, uid: &str, pools: &[&str]) {
        self.add_annotated(name, uid, &of_pools(pools));
    }

    pub(crate) fn add_annotated(&self, name: &str, uid: &str, annotations: &Value) {
        self.put_pod(name, uid, annotations, &json!([]));
    }

    /// The same with a controller: API version, kind and name.
    pub(crate) fn add_owned(&self, name: &str, uid: &str, pools: &[&str], owner: (&str, &str, &str)) {
        self.add_annotated_owned(name, uid, &of_pools(pools), owner);
    }

    pub(crate) fn add_annotated_owned(
        &self,
        name: &str,
        uid: &str,
        annotations: &Value,
        (api_version, kind, owner): (&str, &str, &str),
    ) {
        let owner =
            json!({ "apiVersion": api_version, "kind": kind, "name": owner, "uid": "o", "controller": true });
        self.put_pod(name, uid, annotations, &json!([owner]));
    }

    fn put_pod(&self, name: &str, uid: &str, annotations: &Value, owners: &Value) {
        let pod = json!({ "metadata": {
            "name": name, "namespace": "shop", "uid": uid, "annotations": annotations, "ownerReferences": owners,
        } });
        let pod = Arc::new(serde_json::from_value(pod).unwrap());
        self.state.lock().pods.insert(format!("shop/{name}"), pod);
    }

    /// Somebody else writes a claim.
    pub(crate) fn set_claim(&self, pool: &str, address: &str, pod: &str, uid: &str) {
        let mut state = self.state.lock();
        state.version += 1;
        let mut object = state.pools[pool].as_ref().clone();
        object.metadata.resource_version = Some(state.version.to_string());
        let status = object.status.get_or_insert_default();
        let mut claims = claims::decode(status.allocated_ips.as_deref()).unwrap();
        let claim = claims::Claim {
            pod: pod.to_owned(),
            pod_uid: uid.to_owned(),
        };
        claims.insert(address.parse().unwrap(), claim);
        status.allocated_ips = claims::encode(&claims);
        state.pools.insert(pool.to_owned(), Arc::new(object));
    }

    pub(crate) fn end_pod(&self, name: &str) {
        self.state.lock().pods.remove(&format!("shop/{name}"));
    }

    /// Claims of a pool: address and pod UID.
    pub(crate) fn claims(&self, pool: &str) -> Vec<(String, String)> {
        let pool = self.state.lock().pools[pool].clone();
        let text = pool
            .status
            .as_ref()
            .and_then(|status| status.allocated_ips.clone());
        let claims = claims::decode(text.as_deref()).unwrap();
        claims
            .into_iter()
            .map(|(address, claim)| (address.to_string(), claim.pod_uid))
            .collect()
    }
}

fn of_pools(pools: &[&str]) -> Value {
    json!({ "ipam.spidernet.io/ippool": json!({ "ipv4": pools }).to_string() })
}

pub(crate) fn add(name: &str, uid: &str) -> AddRequest {
    AddRequest {
        attachment: attachment(name, uid),
        default_ipv4_pools: Vec::new(),
        default_ipv6_pools: Vec::new(),
        clean_gateway: false,
        deadline: Deadline::after(Deadline::CNI_BUDGET),
        request_id: "r".into(),
    }
}

pub(crate) fn del(name: &str, uid: &str) -> DelRequest {
    let deadline = Deadline::after(Deadline::CNI_BUDGET);
    DelRequest {
        attachment: attachment(name, uid),
        deadline,
        request_id: "r".into(),
    }
}

fn attachment(name: &str, uid: &str) -> Attachment {
    Attachment {
        container_id: format!("c-{uid}"),
        nic: "eth0".to_owned(),
        netns: String::new(),
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        uid: uid.to_owned(),
    }
}

#[async_trait]
impl PoolStore for World {
    async fn read_pool(&self, name: &str) -> Result<Arc<SpiderIPPool>, StoreError> {
        let mut state = self.state.lock();
        state.pool_reads += 1;
        state.pools.get(name).cloned().ok_or(StoreError::NotFound)
    }

    async fn write_claims(&self, write: ClaimsWrite) -> Result<String, StoreError> {
        self.write_gate.acquire().await.unwrap().forget();
        let mut state = self.state.lock();
        if state.panics > 0 {
            state.panics -= 1;
            drop(state);
            panic!("as the test says");
        }
        let mut pool = state
            .pools
            .get(&*write.pool)
            .ok_or(StoreError::NotFound)?
            .as_ref()
            .clone();
        if pool.metadata.resource_version.as_ref() != Some(&write.resource_version) {
            return Err(StoreError::Conflict);
        }
        state.version += 1;
        let version = state.version.to_string();
        let status = pool.status.get_or_insert_default();
        status.allocated_ips = write.allocated_ips;
        status.allocated_ip_count = Some(write.allocated_ip_count);
        pool.metadata.resource_version = Some(version.clone());
        state.pools.insert(write.pool.to_string(), Arc::new(pool));
        Ok(version)
    }
}

#[async_trait]
impl EndpointStore for World {
    fn known_endpoint(&self, namespace: &str, name: &str) -> Option<Arc<SpiderEndpoint>> {
        self.state
            .lock()
            .endpoints
            .get(&format!("{namespace}/{name}"))
            .cloned()
    }

    async fn read_endpoint(
        &self,
        namespace: &str,
        name: &str,
        _: Deadline,
    ) -> Result<Arc<SpiderEndpoint>, StoreError> {
        self.known_endpoint(namespace, name).ok_or(StoreError::NotFound)
    }

    async fn create_endpoint(
        &self,
        endpoint: SpiderEndpoint,
        deadline: Deadline,
    ) -> Result<Arc<SpiderEndpoint>, StoreError> {
        self.replace_endpoint(endpoint, deadline).await
    }

    async fn replace_endpoint(
        &self,
        endpoint: SpiderEndpoint,
        _: Deadline,
    ) -> Result<Arc<SpiderEndpoint>, StoreError> {
        let mut state = self.state.lock();
        if let Some(error) = state.endpoint_fails.pop_front() {
            return Err(error);
        }
        let key = format!(
            "{}/{}",
            endpoint.metadata.namespace.clone().unwrap(),
            endpoint.metadata.name.clone().unwrap()
        );
        let endpoint = Arc::new(endpoint);
        state.endpoints.insert(key, endpoint.clone());
        Ok(endpoint)
    }

    async fn remove_endpoint(&self, endpoint: &SpiderEndpoint, _: Deadline) -> Result<(), StoreError> {
        let key = format!(
            "{}/{}",
            endpoint.metadata.namespace.clone().unwrap(),
            endpoint.metadata.name.clone().unwrap()
        );
        self.state.lock().endpoints.remove(&key);
        Ok(())
    }
}
