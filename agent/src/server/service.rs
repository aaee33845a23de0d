//! What stands behind both APIs.

use std::sync::Arc;

use async_trait::async_trait;
use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::error::{IpamError, Stage};
use orbweaver_actors::request::{AddRequest, Allocated, CheckRequest, DelRequest};
use orbweaver_actors::store::{EndpointStore, StoreError};
use orbweaver_actors::supervisor::SupervisorHandle;
use orbweaver_actors::supervisor::explain::Explanation;
use orbweaver_api::endpoint::SpiderEndpoint;
use tokio::time::timeout_at;

/// The answers to what clients ask.
#[async_trait]
pub trait IpamService: Send + Sync + 'static {
    /// CNI ADD.
    async fn add(&self, request: AddRequest) -> Result<Allocated, IpamError>;
    /// CNI DEL.
    async fn del(&self, request: DelRequest) -> Result<(), IpamError>;
    /// CNI CHECK.
    async fn check(&self, request: CheckRequest) -> Result<(), IpamError>;
    /// What an ADD would decide, and why; nothing is claimed.
    fn explain(&self, request: &AddRequest) -> Result<Explanation, IpamError>;
    /// `Err` says why an ADD could not be served now.
    async fn ready(&self) -> Result<(), String>;
    /// The endpoint of a pod; `None` when there is none.
    async fn endpoint(
        &self,
        namespace: &str,
        name: &str,
        deadline: Deadline,
    ) -> Result<Option<Arc<SpiderEndpoint>>, StoreError>;
}

/// [`IpamService::ready`] for somebody who waits until `deadline`.
pub async fn ready_by(service: &dyn IpamService, deadline: Deadline) -> Result<(), IpamError> {
    timeout_at(deadline.instant(), service.ready())
        .await
        .map_err(|_| IpamError::DeadlineExceeded {
            stage: Stage::Admission,
        })?
        .map_err(|why| IpamError::Unavailable(why.into()))
}

/// The Supervisor, and the endpoints for who only wants to read.
#[derive(Clone)]
pub struct Agent {
    /// Allocates and releases.
    pub supervisor: SupervisorHandle,
    /// Reads.
    pub endpoints: Arc<dyn EndpointStore>,
}

impl std::fmt::Debug for Agent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Agent").finish_non_exhaustive()
    }
}

#[async_trait]
impl IpamService for Agent {
    async fn add(&self, request: AddRequest) -> Result<Allocated, IpamError> {
        self.supervisor.add(request).await
    }

    async fn del(&self, request: DelRequest) -> Result<(), IpamError> {
        self.supervisor.del(request).await
    }

    async fn check(&self, request: CheckRequest) -> Result<(), IpamError> {
        self.supervisor.check(&request)
    }

    fn explain(&self, request: &AddRequest) -> Result<Explanation, IpamError> {
        self.supervisor.explain(request)
    }

    async fn ready(&self) -> Result<(), String> {
        self.supervisor.ready().await
    }

    async fn endpoint(
        &self,
        namespace: &str,
        name: &str,
        deadline: Deadline,
    ) -> Result<Option<Arc<SpiderEndpoint>>, StoreError> {
        if let Some(known) = self.endpoints.known_endpoint(namespace, name) {
            return Ok(Some(known));
        }
        match self.endpoints.read_endpoint(namespace, name, deadline).await {
            Ok(endpoint) => Ok(Some(endpoint)),
            Err(StoreError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
