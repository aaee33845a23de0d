//! The Supervisor: routes requests to pools, gives each pod its turn, and rebuilds pools that stopped.
//!
//! | module | what it does |
//! |---|---|
//! | [`selection`], [`source`], `resolve`, `class`, `filter`, `label_selector` | pure: which pools, in which order |
//! | `owner`, `routes`, `nics` | pure: who stands behind a pod, which NIC a route belongs to, what a NIC is to get |
//! | `add`, `come_back`, `del`, `release`, `candidates`, `sub_eni`, `endpoint`, `identity` | one request from start to end |
//! | [`explain`] | pure: the same decision, with every reason |
//! | [`turns`], [`restart`] | pure: whose turn it is, when a pool may start again |
//! | [`actor`], [`messages`] | the actor that owns the pools |

pub mod actor;
mod add;
mod candidates;
mod check;
mod class;
mod come_back;
mod del;
mod endpoint;
pub mod explain;
mod filter;
mod identity;
mod label_selector;
pub mod messages;
mod nics;
mod owner;
mod release;
mod releases;
mod resolve;
pub mod restart;
mod routes;
pub mod selection;
pub mod source;
mod stages;
mod sub_eni;
pub mod turns;

use std::future::Future;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use actix::Actor;
use orbweaver_api::pool::SpiderIPPool;
use tokio::sync::{Semaphore, oneshot};
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use self::actor::{PodTurn, Routes, Supervisor};
use self::explain::Explanation;
use self::messages::{EnterPod, FindPool, ForgetPool, ObservePool, Ping, ReloadReserved, StopPools};
pub use self::owner::Returning;
use self::releases::Releases;
use self::stages::Stages;
use crate::deadline::Deadline;
use crate::error::{IpamError, PoolError, Stage};
use crate::metrics;
use crate::pool::effect::{UnclaimReason, UnclaimRequest, Unclaimed};
use crate::pool::handle::PoolHandle;
use crate::provider::ProviderHandle;
use crate::request::{AddRequest, Allocated, Attachment, CheckRequest, DelRequest};
use crate::store::{ClusterView, EndpointStore, Events, Links, Owners, PoolStore};

/// How long the Supervisor may take to answer: it never works, it only routes.
const PING_WITHIN: Duration = Duration::from_secs(2);

/// What the Supervisor is told once.
#[derive(Clone, Debug)]
pub struct SupervisorOptions {
    /// This node.
    pub node_name: Arc<str>,
    /// `enableIPv4` of conf.yml.
    pub enable_ipv4: bool,
    /// `enableIPv6` of conf.yml.
    pub enable_ipv6: bool,
    /// Multus default network `ns/name` or `name` (key `clusterNetwork`, variable `MULTUS_CLUSTER_NETWORK`).
    pub default_network: Option<String>,
    /// Namespace that a bare network name means.
    pub namespace: Arc<str>,
    /// Whose addresses outlive the pod.
    pub returning: Returning,
    /// Claims that a pool may hold (reference §1.1: 5000).
    pub max_claims_per_pool: usize,
    /// Requests served at once; further ones are refused as busy, kubelet retries.
    pub max_requests: usize,
}

/// What the Supervisor works with.
#[derive(Clone)]
pub struct Ports {
    /// Pools.
    pub pools: Arc<dyn PoolStore>,
    /// Endpoints.
    pub endpoints: Arc<dyn EndpointStore>,
    /// The watches.
    pub view: Arc<dyn ClusterView>,
    /// The controllers of pods.
    pub owners: Arc<dyn Owners>,
    /// The pods' Events.
    pub events: Arc<dyn Events>,
    /// The node's links.
    pub links: Arc<dyn Links>,
    /// `None`: no network provider is configured.
    pub provider: Option<ProviderHandle>,
}

impl std::fmt::Debug for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ports")
            .field("provider", &self.provider.is_some())
            .finish_non_exhaustive()
    }
}

/// What requests share.
struct Inner {
    options: SupervisorOptions,
    ports: Ports,
    supervisor: actix::Addr<Supervisor>,
    routes: Routes,
    permits: Arc<Semaphore>,
    draining: AtomicBool,
    tasks: TaskTracker,
    releases: Releases,
}

impl Inner {
    /// The pool's handle; its actor starts on first use.
    async fn pool(&self, name: &Arc<str>) -> Result<PoolHandle, PoolError> {
        if let Some(handle) = self.routes.get(name) {
            return Ok(handle.clone());
        }
        let (reply, found) = oneshot::channel();
        self.supervisor.do_send(FindPool {
            pool: name.clone(),
            reply,
        });
        // Its answer needs no IO: a Supervisor that is later than that is stuck, and the next request asks again.
        match tokio::time::timeout(PING_WITHIN, found).await {
            Ok(Ok(handle)) => handle,
            Ok(Err(_)) | Err(_) => Err(PoolError::Restarting),
        }
    }

    /// Takes a claim back on a budget of its own (design §3).
    async fn unclaim(
        &self,
        pool: &Arc<str>,
        address: IpAddr,
        pod_uid: &Arc<str>,
        reason: UnclaimReason,
    ) -> Result<Unclaimed, PoolError> {
        let deadline = Deadline::after(Deadline::UNDO_BUDGET);
        let request = UnclaimRequest {
            address,
            pod_uid: pod_uid.clone(),
            reason,
            deadline,
        };
        self.pool(pool).await?.unclaim(request).await
    }

    async fn turn(&self, attachment: &Attachment, deadline: Deadline) -> Result<PodTurn, IpamError> {
        let (reply, turn) = oneshot::channel();
        self.supervisor.do_send(EnterPod {
            pod: attachment.pod().into(),
            reply,
        });
        match tokio::time::timeout_at(deadline.instant(), turn).await {
            Ok(Ok(turn)) => Ok(turn),
            Ok(Err(_)) => Err(IpamError::Unavailable("the Supervisor stopped".into())),
            Err(_) => Err(IpamError::DeadlineExceeded { stage: Stage::Pod }),
        }
    }
}

/// The way to the Supervisor. Clones are cheap.
#[derive(Clone)]
pub struct SupervisorHandle(Arc<Inner>);

impl std::fmt::Debug for SupervisorHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SupervisorHandle")
            .field("node", &self.0.options.node_name)
            .finish_non_exhaustive()
    }
}

impl SupervisorHandle {
    /// Starts the Supervisor; pools are spread over `arbiters` by name, and it lives on the first. Must be
    /// called inside an actix System. The receiver fires when the process should end: pools kept stopping,
    /// or the Supervisor itself did.
    pub fn start(
        options: SupervisorOptions,
        ports: Ports,
        arbiters: Vec<actix_rt::ArbiterHandle>,
    ) -> (Self, oneshot::Receiver<String>) {
        let (fatal, failed) = oneshot::channel();
        let routes = Routes::default();
        let first = arbiters.first().cloned();
        let supervisor = Supervisor::new(options.clone(), ports.clone(), arbiters, routes.clone(), fatal);
        let supervisor = match first {
            Some(arbiter) => Supervisor::start_in_arbiter(&arbiter, |_| supervisor),
            None => supervisor.start(),
        };
        let inner = Inner {
            permits: Arc::new(Semaphore::new(options.max_requests)),
            options,
            ports,
            supervisor,
            routes,
            draining: AtomicBool::new(false),
            tasks: TaskTracker::new(),
            releases: Releases::default(),
        };
        (Self(Arc::new(inner)), failed)
    }

    /// Serves a CNI ADD. The work goes on when the caller goes away.
    pub async fn add(&self, request: AddRequest) -> Result<Allocated, IpamError> {
        validate(&request.attachment)?;
        let (inner, attachment, deadline) = (self.0.clone(), request.attachment.clone(), request.deadline);
        self.serve("add", attachment, deadline, move |stages| {
            add::run(inner, request, stages)
        })
        .await
    }

    /// Serves a CNI DEL. The work goes on when the caller goes away.
    pub async fn del(&self, request: DelRequest) -> Result<(), IpamError> {
        validate(&request.attachment)?;
        let (inner, attachment, deadline) = (self.0.clone(), request.attachment.clone(), request.deadline);
        self.serve("del", attachment, deadline, move |stages| {
            del::run(inner, request, stages)
        })
        .await
    }

    /// Serves a CNI CHECK.
    pub fn check(&self, request: &CheckRequest) -> Result<(), IpamError> {
        validate(&request.attachment)?;
        check::run(&self.0, request)
    }

    /// Why a pod of this node gets, or does not get, its addresses from which pools. Claims nothing and asks
    /// nobody: it is what the next ADD would decide on.
    pub fn explain(&self, request: &AddRequest) -> Result<Explanation, IpamError> {
        validate(&request.attachment)?;
        candidates::explain(&self.0, request)
    }

    /// One request in a task of its own, in the pod's turn, bounded in number and, for its caller, in time.
    async fn serve<T, F>(
        &self,
        verb: &'static str,
        attachment: Attachment,
        deadline: Deadline,
        work: impl FnOnce(Stages) -> F,
    ) -> Result<T, IpamError>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, IpamError>> + Send + 'static,
    {
        if self.0.draining.load(Ordering::Acquire) {
            return Err(IpamError::Unavailable("it is shutting down".into()));
        }
        let busy = |_| IpamError::Busy {
            limit: self.0.options.max_requests,
        };
        let permit = self.0.permits.clone().try_acquire_owned().map_err(busy)?;
        let (stages, inner) = (Stages::new(verb), self.0.clone());
        let work = work(stages.clone());
        let task = {
            let stages = stages.clone();
            let task = async move {
                let _permit = permit;
                metrics::in_flight(verb, 1.0);
                let done = match inner.turn(&attachment, deadline).await {
                    Ok(_turn) => work.await,
                    Err(error) => Err(error),
                };
                stages.finish();
                metrics::in_flight(verb, -1.0);
                done
            };
            self.0.tasks.spawn(task.in_current_span())
        };
        match tokio::time::timeout_at(deadline.instant(), task).await {
            Ok(Ok(done)) => done,
            Ok(Err(_)) => Err(IpamError::Unavailable(
                "the request's task ended without an answer; see the log".into(),
            )),
            Err(_) => Err(IpamError::DeadlineExceeded {
                stage: stages.current(),
            }),
        }
    }

    /// The watch saw a pool.
    pub fn pool_observed(&self, pool: Arc<SpiderIPPool>) {
        self.0.supervisor.do_send(ObservePool(pool));
    }

    /// The watch saw a pool go.
    pub fn pool_deleted(&self, name: &str) {
        self.0.supervisor.do_send(ForgetPool(name.into()));
    }

    /// Reserved addresses changed.
    pub fn reserved_changed(&self) {
        self.0.supervisor.do_send(ReloadReserved);
    }

    /// `Err` says why nothing can be served now.
    pub async fn ready(&self) -> Result<(), String> {
        if self.0.draining.load(Ordering::Acquire) {
            return Err("it is shutting down".to_owned());
        }
        let (reply, answered) = oneshot::channel();
        self.0.supervisor.do_send(Ping(reply));
        match tokio::time::timeout(PING_WITHIN, answered).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err("the Supervisor stopped".to_owned()),
            Err(_) => Err(format!("the Supervisor did not answer within {PING_WITHIN:?}")),
        }
    }

    /// Refuses new requests, waits for those in flight, then stops every pool.
    pub async fn drain(&self, deadline: Deadline) {
        self.0.draining.store(true, Ordering::Release);
        self.0.tasks.close();
        if tokio::time::timeout_at(deadline.instant(), self.0.tasks.wait())
            .await
            .is_err()
        {
            tracing::warn!(
                left = self.0.tasks.len(),
                "requests are still in flight at the end of the grace period"
            );
        }
        let (done, stopped) = oneshot::channel();
        self.0.supervisor.do_send(StopPools(done));
        if tokio::time::timeout_at(deadline.instant(), stopped)
            .await
            .is_err()
        {
            tracing::warn!(
                "pools still run at the end of the grace period; what they claimed is found after the restart"
            );
        }
    }
}

fn validate(attachment: &Attachment) -> Result<(), IpamError> {
    let fields = [
        ("the container id (CNI_CONTAINERID)", &attachment.container_id),
        ("the NIC (CNI_IFNAME)", &attachment.nic),
        ("the pod's namespace (K8S_POD_NAMESPACE)", &attachment.namespace),
        ("the pod's name (K8S_POD_NAME)", &attachment.name),
    ];
    match fields.into_iter().find(|(_, value)| value.is_empty()) {
        Some((field, _)) => Err(IpamError::InvalidRequest(
            format!("{field} is missing; the runtime must send it").into(),
        )),
        None => Ok(()),
    }
}
