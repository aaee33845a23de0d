//! A provider that does what a test's script says.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::error::ProviderError;
use orbweaver_actors::provider::{CallFailure, ProviderApi};
use orbweaver_api::provider::{AllocateRequest, AllocateResponse, ReleaseRequest, SubEniResponse};
use tokio::sync::{Semaphore, watch};

/// Far more than a working test needs.
const PATIENCE: Duration = Duration::from_secs(10);

/// Addresses with a meaning of their own.
pub(crate) const PANICS: &str = "10.0.0.66";
pub(crate) const THROTTLED: &str = "10.0.0.77";
pub(crate) const CONFUSED: &str = "10.0.0.88";

/// A provider that notes each call and answers when it is let.
pub(crate) struct Scripted {
    calls: Mutex<Vec<String>>,
    begun: watch::Sender<usize>,
    ended: watch::Sender<usize>,
    pub(crate) gate: Semaphore,
}

impl Scripted {
    pub(crate) fn new(open_gates: usize) -> Arc<Self> {
        Arc::new(Self {
            calls: Mutex::default(),
            begun: watch::Sender::new(0),
            ended: watch::Sender::new(0),
            gate: Semaphore::new(open_gates),
        })
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.lock().expect("not poisoned").clone()
    }

    pub(crate) async fn has_begun(&self, calls: usize) {
        reached(&self.begun, calls).await;
    }

    pub(crate) async fn has_ended(&self, calls: usize) {
        reached(&self.ended, calls).await;
    }

    async fn call(&self, address: &str) -> Result<(), CallFailure> {
        self.calls.lock().expect("not poisoned").push(address.to_owned());
        self.begun.send_modify(|begun| *begun += 1);
        self.gate.acquire().await.expect("never closed").forget();
        self.ended.send_modify(|ended| *ended += 1);
        match address {
            PANICS => panic!("as the script says"),
            THROTTLED => Err(CallFailure {
                error: ProviderError::Rejected("slow down".into()),
                retry_after: Some(Duration::from_secs(10)),
            }),
            _ => Ok(()),
        }
    }
}

async fn reached(count: &watch::Sender<usize>, calls: usize) {
    let mut seen = count.subscribe();
    let reached = seen.wait_for(|count| *count >= calls);
    tokio::time::timeout(PATIENCE, reached)
        .await
        .expect("in time")
        .expect("the sender lives");
}

#[async_trait]
impl ProviderApi for Scripted {
    async fn allocate(
        &self,
        request: &AllocateRequest,
        _deadline: Deadline,
        _request_id: &str,
    ) -> Result<AllocateResponse, CallFailure> {
        let address = &request.sub_eni_requests[0].ipv4_address;
        self.call(address).await?;
        let answered = if address == CONFUSED { "10.0.0.1" } else { address };
        let item = SubEniResponse {
            ipv4_address: answered.into(),
            ..SubEniResponse::default()
        };
        Ok(AllocateResponse {
            sub_eni_responses: vec![item],
            ..AllocateResponse::default()
        })
    }

    async fn release(
        &self,
        request: &ReleaseRequest,
        _deadline: Deadline,
        _request_id: &str,
    ) -> Result<(), CallFailure> {
        self.call(&request.ip_address).await
    }
}
