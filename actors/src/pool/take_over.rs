//! The address of a pod that came back under another UID (reference §2.6): the very same one, or none.

use std::net::IpAddr;

use super::book::{Book, Choice};
use super::effect::{ClaimKind, ClaimRequest};
use super::memory::Memory;
use crate::error::PoolError;

impl Book {
    /// What becomes of `address`, which the pod's endpoint names. A claim of it under the pod's name is an
    /// earlier life's, whatever its UID: two pods of one name never live at once. Reserved and excluded
    /// addresses are kept as long as their claim lasted.
    pub(super) fn taken_over(
        &self,
        address: IpAddr,
        request: &ClaimRequest,
        memory: &Memory,
    ) -> Result<Choice, PoolError> {
        self.ready()?;
        let lost = |why: String, claimed_by: Option<&str>| PoolError::Lost {
            address,
            why: why.into(),
            claimed_by: claimed_by.map(Into::into),
        };
        let claim = self.claims().get(&address);
        match claim {
            Some(claim) if claim.pod != *request.pod => {
                return Err(lost(format!("pod {} holds it", claim.pod), None));
            }
            None if !self.usable(address) => {
                return Err(lost("the pool does not give it out any more".to_owned(), None));
            }
            None if memory.avoided(address, &request.pod_uid) => {
                let why = "a provider call for another pod may still work on it";
                return Err(lost(why.to_owned(), None));
            }
            _ => {}
        }
        let (kind, provider_call) = self.kind_of(address, &request.node).ok_or_else(|| {
            lost(
                format!("its sub-ENI is not to be had on node {}", request.node),
                claim.map(|claim| claim.pod_uid.as_str()),
            )
        })?;
        let held = claim.map(|claim| claim.pod_uid == *request.pod_uid);
        Ok(Choice {
            address,
            kind: match held {
                Some(true) => ClaimKind::Found,
                Some(false) => ClaimKind::TakenOver,
                None => kind,
            },
            held: held == Some(true),
            provider_call,
        })
    }
}
