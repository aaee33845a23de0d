//! Gives addresses back: provider first, pool second (seed).

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use orbweaver_api::address_set::Family;
use orbweaver_api::endpoint::{NicAllocation, SpiderEndpoint};
use orbweaver_api::pool::PoolMode;
use orbweaver_api::provider::ReleaseRequest;
use orbweaver_api::release_mark::ReleaseMark;
use tokio::time::Instant;

use super::endpoint::address;
use super::{Inner, releases};
use crate::deadline::Deadline;
use crate::error::{IpamError, PoolError, ProviderError};
use crate::pool::effect::UnclaimReason;
use crate::provider::CallClass;
use crate::request::Attachment;

/// A claim to take back.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    pub(super) pool: Arc<str>,
    pub(super) address: IpAddr,
}

/// Whose addresses are given back, and how long that may take.
pub(super) struct Release<'a> {
    pub(super) inner: &'a Inner,
    pub(super) attachment: &'a Attachment,
    /// Under which UID they are claimed.
    pub(super) uid: &'a Arc<str>,
    /// What names them, if anything does; afterwards as it is then.
    pub(super) endpoint: Option<Arc<SpiderEndpoint>>,
    pub(super) deadline: Deadline,
    pub(super) request_id: &'a Arc<str>,
}

impl Release<'_> {
    /// Gives `targets` back; `records` tell which of them share a sub-ENI, and that the provider made it.
    pub(super) async fn all(
        &mut self,
        records: &[NicAllocation],
        targets: &BTreeSet<Target>,
    ) -> Result<(), IpamError> {
        self.sub_enis(&self.named(records, targets)).await?;
        let mut failed = None;
        for target in targets {
            let reason = UnclaimReason::Release;
            match self
                .inner
                .unclaim(&target.pool, target.address, self.uid, reason)
                .await
            {
                Ok(_) | Err(PoolError::Gone) => {
                    tracing::info!(pod = %self.attachment.pod(), pool = %target.pool, address = %target.address, "released");
                }
                Err(error) => failed = failed.or(Some((target, error.to_string()))),
            }
        }
        match failed {
            Some((target, why)) => Err(IpamError::Release {
                what: format!("{} of pool {}", target.address, target.pool),
                why,
            }),
            None => Ok(()),
        }
    }

    /// Plain pools on a provider network only, once for each sub-ENI, and only under a mark of ours.
    async fn sub_enis(&mut self, named: &[Target]) -> Result<(), IpamError> {
        if named.is_empty() || self.inner.ports.provider.is_none() {
            return Ok(());
        }
        let mark = self.mark(&named[0]).await?;
        for target in named {
            let released = self.sub_eni(target).await;
            let last = released.is_err() || Some(target) == named.last();
            if let Some(mark) = mark
                .as_ref()
                .filter(|_| last && self.inner.releases.may_send(&target.pool, target.address))
            {
                self.inner.releases.settled(mark);
            }
            released?;
        }
        Ok(())
    }

    /// Tells everybody, through the endpoint, that a release may be executing from now on: garbage collection sends none
    /// meanwhile, and neither does this agent after a crash. Without an endpoint nobody else would release.
    async fn mark(&mut self, first: &Target) -> Result<Option<ReleaseMark>, IpamError> {
        let Some(endpoint) = &self.endpoint else {
            return Ok(None);
        };
        let refused = |why: String| IpamError::Release {
            what: format!("the sub-ENI of {} of pool {}", first.address, first.pool),
            why,
        };
        let now = Timestamp::now();
        self.inner.releases.may_mark(endpoint, now).map_err(refused)?;
        let budget = self.deadline.remaining(Instant::now());
        let (mark, marked) = releases::mark(endpoint, &self.inner.options.node_name, budget, now);
        let store = &self.inner.ports.endpoints;
        let written = store.replace_endpoint(marked, self.deadline).await;
        self.endpoint =
            Some(written.map_err(|error| refused(format!("its SpiderEndpoint cannot be marked: {error}")))?);
        Ok(Some(mark))
    }

    async fn sub_eni(&self, target: &Target) -> Result<(), IpamError> {
        let inner = self.inner;
        let (Some(provider), Some(pool)) = (&inner.ports.provider, inner.ports.view.pool(&target.pool))
        else {
            return Ok(());
        };
        let what = || format!("the sub-ENI of {} of pool {}", target.address, target.pool);
        if !inner.releases.may_send(&target.pool, target.address) {
            let why = "an earlier release may still be executing".to_owned();
            return Err(IpamError::Release { what: what(), why });
        }
        let node = self
            .endpoint
            .as_deref()
            .map_or(&*inner.options.node_name, |endpoint| {
                endpoint.status.current.node.as_str()
            });
        let body = ReleaseRequest {
            pod_name: self.attachment.name.clone(),
            pod_namespace: self.attachment.namespace.clone(),
            pod_uid: self.uid.to_string(),
            node_name: node.to_owned(),
            parent_nic_mac: String::new(),
            subnet: pool.spec.subnet.clone(),
            ip_address: target.address.to_string(),
            pool_name: target.pool.to_string(),
        };
        let released = provider
            .release(body, CallClass::Release, self.deadline, self.request_id.clone())
            .await;
        released.map_err(|error| {
            if let ProviderError::Unknown { may_run_for, .. } = &error {
                inner
                    .releases
                    .unsettled(&target.pool, target.address, *may_run_for);
            }
            IpamError::Release {
                what: what(),
                why: error.to_string(),
            }
        })
    }

    /// One address for each sub-ENI that a release must name: IPv4 where there is one.
    fn named(&self, records: &[NicAllocation], targets: &BTreeSet<Target>) -> Vec<Target> {
        let is_plain = |pool: &str| {
            let pool = self.inner.ports.view.pool(pool);
            pool.is_some_and(|pool| pool.mode() == PoolMode::Plain)
        };
        let mut named = Vec::new();
        let mut covered = BTreeSet::new();
        for nic in records {
            let both = targets_of(nic);
            let by_provider = nic.mac.is_some() || nic.vlan.is_some_and(|vlan| vlan != 0);
            let mut ours = both.iter().filter(|target| targets.contains(target));
            let first = ours.find(|target| is_plain(&target.pool)).cloned();
            named.extend(first.filter(|_| by_provider));
            covered.extend(both);
        }
        // Claims without a record are of an ADD that the provider failed: whether it did anything is not known,
        // and releasing what is not there is a success.
        named.extend(
            targets
                .iter()
                .filter(|target| !covered.contains(target) && is_plain(&target.pool))
                .cloned(),
        );
        named
    }
}

/// What a record names, IPv4 first.
pub(super) fn targets_of(nic: &NicAllocation) -> Vec<Target> {
    let families = [(Family::V4, &nic.ipv4_pool), (Family::V6, &nic.ipv6_pool)];
    let named = families.into_iter().filter_map(|(family, pool)| {
        Some(Target {
            pool: pool.as_deref()?.into(),
            address: address(nic, family)?,
        })
    });
    named.collect()
}
