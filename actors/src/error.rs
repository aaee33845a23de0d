//! What a request can end with, by what the caller can do about it.

use std::sync::Arc;
use std::time::Duration;

use orbweaver_api::annotation::MalformedAnnotation;
use orbweaver_api::ledger::NotReady;

use crate::store::StoreError;

/// Where a request spent its time, or ended. A closed set: logs, metrics and answers use it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// Waiting to be let in.
    Admission,
    /// Finding the pod and its turn.
    Pod,
    /// Deciding which pools.
    Selection,
    /// Claiming in pools.
    Claim,
    /// Resolving the parent NIC.
    ParentNic,
    /// Calling the provider.
    Provider,
    /// Writing the endpoint.
    Endpoint,
    /// Giving addresses back.
    Release,
}

impl Stage {
    /// The label.
    pub fn label(self) -> &'static str {
        match self {
            Self::Admission => "admission",
            Self::Pod => "pod",
            Self::Selection => "selection",
            Self::Claim => "claim",
            Self::ParentNic => "parent_nic",
            Self::Provider => "provider",
            Self::Endpoint => "endpoint",
            Self::Release => "release",
        }
    }
}

/// Why a pool gave no address.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PoolError {
    /// Nothing left.
    #[error("all IP addresses used out")]
    Exhausted,
    /// The pool holds as many claims as it may.
    #[error(
        "all IP addresses used out: the pool holds {limit} claims, as many as --max-claims-per-pool allows"
    )]
    Full {
        /// The bound.
        limit: usize,
    },
    /// An address that a pod wants back is another's, or not to be had here.
    #[error("address {address} cannot be taken over: {why}")]
    Lost {
        /// The address.
        address: std::net::IpAddr,
        /// Why not.
        why: Arc<str>,
        /// The UID under which the pod's earlier life still claims it; `None`: it does not.
        claimed_by: Option<Arc<str>>,
    },
    /// The provider's ledger cannot be used now.
    #[error("metadata not ready: {0}")]
    MetadataNotReady(#[source] NotReady),
    /// The pool object itself cannot be used.
    #[error("the pool cannot be used: {0}")]
    Unusable(Arc<str>),
    /// The pool is gone.
    #[error("the pool does not exist")]
    Gone,
    /// Too many requests wait for this pool already.
    #[error("the pool's queue is full with a maximum length of {limit}")]
    Busy {
        /// The bound.
        limit: usize,
    },
    /// The pool's actor is being rebuilt.
    #[error("the pool's actor is being rebuilt")]
    Restarting,
    /// The deadline passed in the queue or during writes.
    #[error("the deadline passed while claiming, after {attempts} writes")]
    DeadlineExceeded {
        /// Writes tried for this item.
        attempts: u32,
    },
    /// The API server did not take the write.
    #[error("the claim could not be written: {0}")]
    Store(#[source] StoreError),
}

impl PoolError {
    /// True when the next candidate of the same class may be tried.
    pub fn next_candidate(&self) -> bool {
        matches!(
            self,
            Self::Exhausted | Self::Full { .. } | Self::MetadataNotReady(_) | Self::Unusable(_) | Self::Gone
        )
    }
}

/// Why a provider call brought nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ProviderError {
    /// Certainly not done, or refused: the addresses may be given back at once.
    #[error("{0}")]
    Rejected(Arc<str>),
    /// Perhaps done, perhaps still being done for `may_run_for`.
    #[error("{message}")]
    Unknown {
        /// The seed's message.
        message: Arc<str>,
        /// How long the call may still be executing on the other side.
        may_run_for: Duration,
    },
    /// Never sent: the queue's bound or the deadline came first, or it is shutting down.
    #[error("{0}")]
    NotSent(Arc<str>),
}

/// What a request ends with.
#[derive(Clone, Debug, thiserror::Error)]
pub enum IpamError {
    /// The request itself is wrong.
    #[error("{0}")]
    InvalidRequest(Arc<str>),
    /// An annotation is wrong.
    #[error(transparent)]
    Annotation(#[from] MalformedAnnotation),
    /// The pod is not known here (yet).
    #[error("pod {pod} is not known on this node: {why}")]
    PodUnknown {
        /// `ns/name`.
        pod: String,
        /// What was seen instead.
        why: String,
    },
    /// The pod is dead.
    #[error("dead pod {pod}: it is not given addresses")]
    PodDead {
        /// `ns/name`.
        pod: String,
    },
    /// No candidate is left.
    #[error("no IPPool available, {0}")]
    NoPool(Arc<str>),
    /// Candidates there are, none gave an address.
    #[error("failed to allocate any {family} address to NIC {nic} from IPPools {pools:?}: {reasons}")]
    NoAddress {
        /// Family.
        family: orbweaver_api::address_set::Family,
        /// NIC.
        nic: String,
        /// In the order tried.
        pools: Vec<String>,
        /// Each pool's reason.
        reasons: String,
        /// The decisive reason.
        cause: Box<PoolError>,
    },
    /// The parent NIC of a marked pool cannot be found.
    #[error("the parent NIC of pool {pool} cannot be resolved: {why}")]
    ParentNic {
        /// Pool name.
        pool: String,
        /// Everything that was tried.
        why: String,
    },
    /// The provider did not do it.
    #[error("IaaS IP allocate failed: {0}")]
    Provider(#[source] ProviderError),
    /// The endpoint could not be written.
    #[error("SpiderEndpoint {pod} could not be written: {source}")]
    Endpoint {
        /// `ns/name`.
        pod: String,
        /// What the API server said.
        source: StoreError,
    },
    /// Something could not be given back.
    #[error("could not release {what}: {why}")]
    Release {
        /// Address and pool.
        what: String,
        /// What stood in the way.
        why: String,
    },
    /// The caller's budget ran out.
    #[error("the deadline passed in stage {}", .stage.label())]
    DeadlineExceeded {
        /// The stage that spent it.
        stage: Stage,
    },
    /// Too many requests at once.
    #[error("too many requests at once: {limit} are being served")]
    Busy {
        /// The bound.
        limit: usize,
    },
    /// The agent is stopping or an actor is being rebuilt.
    #[error("the agent cannot serve now: {0}")]
    Unavailable(Arc<str>),
}

impl IpamError {
    /// Where it ended.
    pub fn stage(&self) -> Stage {
        match self {
            Self::InvalidRequest(_) | Self::Busy { .. } | Self::Unavailable(_) => Stage::Admission,
            Self::PodUnknown { .. } | Self::PodDead { .. } => Stage::Pod,
            Self::Annotation(_) | Self::NoPool(_) => Stage::Selection,
            Self::NoAddress { .. } => Stage::Claim,
            Self::ParentNic { .. } => Stage::ParentNic,
            Self::Provider(_) => Stage::Provider,
            Self::Endpoint { .. } => Stage::Endpoint,
            Self::Release { .. } => Stage::Release,
            Self::DeadlineExceeded { stage } => *stage,
        }
    }

    /// Closed set of reasons, for metrics and for clients.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InvalidRequest(_) => "invalid_request",
            Self::Annotation(_) => "wrong_annotation",
            Self::PodUnknown { .. } => "pod_unknown",
            Self::PodDead { .. } => "pod_dead",
            Self::NoPool(_) => "no_pool",
            Self::NoAddress { cause, .. } => match cause.as_ref() {
                PoolError::Exhausted | PoolError::Full { .. } | PoolError::Lost { .. } => "exhausted",
                PoolError::MetadataNotReady(_) => "metadata_not_ready",
                PoolError::Unusable(_) | PoolError::Gone => "pool_unusable",
                PoolError::Busy { .. } | PoolError::Restarting => "pool_busy",
                PoolError::DeadlineExceeded { .. } => "deadline",
                PoolError::Store(_) => "api_server",
            },
            Self::ParentNic { .. } => "parent_nic",
            Self::Provider(ProviderError::Rejected(_)) => "provider_rejected",
            Self::Provider(ProviderError::Unknown { .. }) => "provider_unknown",
            Self::Provider(ProviderError::NotSent(_)) => "provider_not_sent",
            Self::Endpoint { .. } => "api_server",
            Self::Release { .. } => "release",
            Self::DeadlineExceeded { .. } => "deadline",
            Self::Busy { .. } => "busy",
            Self::Unavailable(_) => "unavailable",
        }
    }

    /// True when asking again may succeed without anybody changing anything.
    pub fn temporary(&self) -> bool {
        !matches!(
            self,
            Self::InvalidRequest(_) | Self::Annotation(_) | Self::PodDead { .. } | Self::NoPool(_)
        )
    }

    /// What a person can do.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::InvalidRequest(_) => "fix the network configuration or the runtime's CNI arguments",
            Self::Annotation(_) => "fix the annotation and recreate the pod",
            Self::PodUnknown { .. } => {
                "kubelet retries; if it lasts, check the agent's watch of pods and its --node-name"
            }
            Self::PodDead { .. } => "none needed: the pod ends",
            Self::NoPool(_) => {
                "name a usable pool in the pod's annotation, the network configuration, or set spec.default on one"
            }
            Self::NoAddress { cause, .. } => match cause.as_ref() {
                PoolError::Exhausted | PoolError::Lost { .. } => {
                    "add addresses to a pool, or wait for pods to end"
                }
                PoolError::Full { .. } => "name a second pool, or raise --max-claims-per-pool",
                PoolError::MetadataNotReady(_) => {
                    "check that the network provider runs and writes status.ipMetaData"
                }
                PoolError::Unusable(_) | PoolError::Gone => "repair or recreate the pool",
                PoolError::Busy { .. } | PoolError::Restarting => "kubelet retries",
                PoolError::DeadlineExceeded { .. } | PoolError::Store(_) => {
                    "check the API server; kubelet retries"
                }
            },
            Self::ParentNic { .. } => {
                "set the pool's annotation ipam.spidernet.io/parent-nic to a NIC of the node, or the master of the SpiderMultusConfig"
            }
            Self::Provider(_) => "check the network provider's health and limits; kubelet retries",
            Self::Endpoint { .. } | Self::Release { .. } => "check the API server; kubelet retries",
            Self::DeadlineExceeded { .. } => "see which stage spent the budget; kubelet retries",
            Self::Busy { .. } | Self::Unavailable(_) => "kubelet retries",
        }
    }
}
