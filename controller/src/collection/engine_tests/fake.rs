//! A cluster and a provider in memory, whose writes can be the last thing a leader does.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use orbweaver_actors::error::ProviderError;
use orbweaver_actors::store::StoreError;
use orbweaver_api::FINALIZER;
use orbweaver_api::claims::Claims;
use orbweaver_api::endpoint::SpiderEndpoint;
use orbweaver_api::pool::PoolMode;
use orbweaver_api::provider::ReleaseRequest;
use orbweaver_api::release_mark::{RELEASE_MARK, ReleaseMark};
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout_at};

use crate::collection::facts::{Machines, NodeFact, PodFact, PoolFact, Snapshot, StatefulSetFact};
use crate::collection::store::CollectionStore;

/// What happened, in order.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Event {
    /// Executing from, to; whether it did its work.
    Release(ReleaseRequest, Instant, Instant, bool),
    Unclaimed(String, IpAddr),
}

/// When the leader dies at a write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Death {
    Before,
    After,
}

/// How the provider answers next.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Answer {
    Done,
    Rejected,
    Lost,
}

pub(super) type Hook = Box<dyn FnOnce(&mut State) + Send>;

#[derive(Default)]
pub(super) struct State {
    pub(super) seen: Snapshot,
    pub(super) events: Vec<Event>,
    pub(super) version: u64,
    pub(super) writes: usize,
    pub(super) dies: Option<(usize, Death)>,
    pub(super) answers: Vec<Answer>,
    pub(super) before_pod_read: Option<Hook>,
    pub(super) before_claims_write: Option<Hook>,
    pub(super) lists_fail: bool,
}

impl State {
    pub(super) fn bump(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    pub(super) fn add_pool(&mut self, name: &str, mode: PoolMode, pair: Option<&str>) {
        let fact = PoolFact {
            name: name.to_owned(),
            uid: format!("pool-{name}"),
            version: self.bump(),
            mode,
            subnet: "10.0.0.0/24".to_owned(),
            pair: pair.map(str::to_owned),
            node: None,
            claims: Claims::new(),
        };
        self.seen.pools.insert(name.to_owned(), fact);
    }

    pub(super) fn claim(&mut self, pool: &str, address: &str, pod: &str, uid: &str) {
        let version = self.bump();
        let pool = self.seen.pools.get_mut(pool).unwrap();
        pool.version = version;
        let claim = json!({ "pod": pod, "podUid": uid });
        let claim = serde_json::from_value(claim).unwrap();
        pool.claims.insert(address.parse().unwrap(), claim);
    }

    /// `nics`: address and pool of each family, and whether a provider stands behind it.
    pub(super) fn add_endpoint(
        &mut self,
        name: &str,
        uid: &str,
        node: &str,
        nics: &[(&str, &str, &str, &str, bool)],
    ) {
        let nics: Vec<_> = nics
            .iter()
            .map(|(v4, pool4, v6, pool6, mac)| {
                json!({
                    "interface": pool4, "ipv4": format!("{v4}/24"), "ipv4Pool": pool4,
                    "ipv6": format!("{v6}/64"), "ipv6Pool": pool6, "mac": mac.then_some("02:00:00:00:00:01"),
                })
            })
            .collect();
        let version = self.bump();
        let endpoint = serde_json::from_value(json!({
            "metadata": { "name": name, "namespace": "ns", "uid": format!("e{version}"),
                "resourceVersion": version, "finalizers": [FINALIZER] },
            "status": { "current": { "uid": uid, "node": node, "ips": nics },
                "ownerControllerType": "Deployment", "ownerControllerName": "d" },
        }));
        self.seen
            .endpoints
            .insert(format!("ns/{name}"), endpoint.unwrap());
    }

    fn endpoint_at(&mut self, endpoint: &SpiderEndpoint) -> Result<&mut SpiderEndpoint, StoreError> {
        let name = format!("ns/{}", endpoint.metadata.name.as_deref().unwrap());
        let mine = self.seen.endpoints.get_mut(&name).ok_or(StoreError::NotFound)?;
        let same = mine.metadata.resource_version == endpoint.metadata.resource_version;
        if same { Ok(mine) } else { Err(StoreError::Conflict) }
    }
}

#[derive(Clone)]
pub(super) struct Fake {
    state: Arc<Mutex<State>>,
    pub(super) dead: Arc<Notify>,
    start: Instant,
}

impl Fake {
    pub(super) fn new(state: State) -> Self {
        Self {
            state: Arc::new(Mutex::new(state)),
            dead: Arc::default(),
            start: Instant::now(),
        }
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    async fn write<T>(&self, effect: impl FnOnce(&mut State) -> T) -> T {
        let index = self.state().writes;
        self.state().writes += 1;
        let dies = self
            .state()
            .dies
            .filter(|(at, _)| *at == index)
            .map(|(_, death)| death);
        if dies == Some(Death::Before) {
            self.die().await;
        }
        let result = effect(&mut self.state());
        if dies == Some(Death::After) {
            self.die().await;
        }
        result
    }

    async fn die(&self) {
        self.dead.notify_one();
        std::future::pending::<()>().await;
    }
}

impl CollectionStore for Fake {
    fn now(&self) -> Timestamp {
        let base: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        base + SignedDuration::try_from(self.start.elapsed()).unwrap()
    }

    async fn look(&self) -> Result<Snapshot, StoreError> {
        let state = self.state();
        if state.lists_fail {
            return Err(StoreError::Unknown("half a list".to_owned()));
        }
        Ok(state.seen.clone())
    }

    async fn read_pool(&self, name: &str) -> Result<Option<PoolFact>, StoreError> {
        Ok(self.state().seen.pools.get(name).cloned())
    }

    async fn read_pod(&self, pod: &str) -> Result<Option<PodFact>, StoreError> {
        let hook = self.state().before_pod_read.take();
        let mut state = self.state();
        if let Some(hook) = hook {
            hook(&mut state);
        }
        Ok(state.seen.pods.get(pod).cloned())
    }

    async fn read_node(&self, name: &str) -> Result<Option<NodeFact>, StoreError> {
        Ok(self.state().seen.nodes.get(name).copied())
    }

    async fn read_stateful_set(&self, set: &str) -> Result<Option<StatefulSetFact>, StoreError> {
        Ok(self.state().seen.stateful_sets.get(set).copied())
    }

    async fn read_machine(&self, machine: &str) -> Result<bool, StoreError> {
        let machines = &self.state().seen.machines;
        Ok(matches!(machines, Machines::Known(names) if names.contains(machine)))
    }

    async fn read_endpoint(&self, endpoint: &str) -> Result<Option<SpiderEndpoint>, StoreError> {
        Ok(self.state().seen.endpoints.get(endpoint).cloned())
    }

    async fn write_mark(
        &self,
        endpoint: &SpiderEndpoint,
        mark: Option<&ReleaseMark>,
    ) -> Result<SpiderEndpoint, StoreError> {
        let text = mark.map(|mark| serde_json::to_string(mark).unwrap());
        self.write(|state| {
            let version = state.bump();
            let mine = state.endpoint_at(endpoint)?;
            mine.metadata.resource_version = Some(version);
            let annotations = text.map(|text| BTreeMap::from([(RELEASE_MARK.to_owned(), text)]));
            mine.metadata.annotations = annotations;
            Ok(mine.clone())
        })
        .await
    }

    async fn release(&self, request: &ReleaseRequest, deadline: Instant) -> Result<(), ProviderError> {
        let answer = self.state().answers.pop().unwrap_or(Answer::Done);
        let began = Instant::now();
        let ends = match answer {
            Answer::Done => began + Duration::from_secs(2),
            Answer::Rejected => began,
            Answer::Lost => deadline,
        };
        self.write(|state| {
            let did = answer != Answer::Rejected;
            state
                .events
                .push(Event::Release(request.clone(), began, ends, did));
        })
        .await;
        match answer {
            Answer::Rejected => return Err(ProviderError::Rejected("no".into())),
            Answer::Lost => {
                let _ = timeout_at(deadline, std::future::pending::<()>()).await;
                let message = "lost".into();
                let may_run_for = Duration::ZERO;
                return Err(ProviderError::Unknown { message, may_run_for });
            }
            Answer::Done => sleep(ends - began).await,
        }
        Ok(())
    }

    async fn write_claims(&self, pool: &PoolFact, claims: &Claims) -> Result<(), StoreError> {
        let hook = self.state().before_claims_write.take();
        self.write(|state| {
            if let Some(hook) = hook {
                hook(state);
            }
            let version = state.bump();
            let mine = state.seen.pools.get_mut(&pool.name).ok_or(StoreError::NotFound)?;
            if mine.version != pool.version {
                return Err(StoreError::Conflict);
            }
            let gone = mine
                .claims
                .keys()
                .filter(|address| !claims.contains_key(*address));
            let gone: Vec<IpAddr> = gone.copied().collect();
            mine.claims.clone_from(claims);
            mine.version = version;
            let unclaimed = gone
                .into_iter()
                .map(|address| Event::Unclaimed(pool.name.clone(), address));
            state.events.extend(unclaimed);
            Ok(())
        })
        .await
    }

    async fn delete_endpoint(&self, endpoint: &SpiderEndpoint) -> Result<Option<SpiderEndpoint>, StoreError> {
        let now = self.now().to_string();
        self.write(|state| {
            let version = state.bump();
            let mine = state.endpoint_at(endpoint)?;
            mine.metadata.deletion_timestamp = serde_json::from_value(json!(now)).unwrap();
            mine.metadata.resource_version = Some(version);
            Ok(Some(mine.clone()))
        })
        .await
    }

    async fn free_endpoint(&self, endpoint: &SpiderEndpoint) -> Result<(), StoreError> {
        self.write(|state| {
            state.endpoint_at(endpoint)?;
            let name = format!("ns/{}", endpoint.metadata.name.as_deref().unwrap());
            state.seen.endpoints.remove(&name);
            Ok(())
        })
        .await
    }
}
