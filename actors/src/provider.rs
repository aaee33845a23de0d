//! The Provider actor: every call to the network provider, under a deadline, in a task of its own.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use orbweaver_api::mac::Mac;
use orbweaver_api::provider::{AllocateRequest, ReleaseRequest};

use crate::deadline::Deadline;
use crate::error::ProviderError;

/// Who goes first when calls wait (design §4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CallClass {
    /// A pod is starting.
    PodStart,
    /// An undo.
    Undo,
    /// A release that nobody waits for.
    Release,
}

/// One sub-ENI that the provider bound, checked against what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundSubEni {
    /// As asked.
    pub ipv4: Option<Ipv4Addr>,
    /// As asked.
    pub ipv6: Option<Ipv6Addr>,
    /// `None`: keep what the allocation had.
    pub mac: Option<Mac>,
    /// `None`: keep what the allocation had.
    pub vlan: Option<u16>,
}

/// The way to the Provider actor.
#[derive(Clone, Debug)]
pub struct ProviderHandle {}

impl ProviderHandle {
    /// Asks for every sub-ENI of one ADD in one call. Answers in the order of the request's items.
    pub async fn allocate(
        &self,
        request: AllocateRequest,
        class: CallClass,
        deadline: Deadline,
        request_id: Arc<str>,
    ) -> Result<Vec<BoundSubEni>, ProviderError> {
        let _ = (request, class, deadline, request_id);
        Err(ProviderError::NotSent("no provider".into()))
    }

    /// Gives one sub-ENI back.
    pub async fn release(
        &self,
        request: ReleaseRequest,
        class: CallClass,
        deadline: Deadline,
        request_id: Arc<str>,
    ) -> Result<(), ProviderError> {
        let _ = (request, class, deadline, request_id);
        Err(ProviderError::NotSent("no provider".into()))
    }
}
