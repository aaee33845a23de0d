//! Where the candidate pools are named: the first place that names any wins, nothing is merged (seed "IP
//! Allocation", reference §2.2).

use std::fmt;

use orbweaver_api::annotation::{self, MalformedAnnotation, PoolLists};
use orbweaver_api::pool::SpiderIPPool;

use super::selection::Question;
use crate::error::IpamError;

/// The place that named the candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// The pod's annotation `ippool`.
    Pod,
    /// The namespace's annotations.
    Namespace,
    /// The CNI configuration.
    Configuration,
    /// `spec.default` of pools.
    ClusterDefault,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pod => "the pod's annotation ipam.spidernet.io/ippool",
            Self::Namespace => "the namespace's annotations",
            Self::Configuration => "the CNI configuration",
            Self::ClusterDefault => "spec.default of the cluster's pools",
        })
    }
}

/// Candidates by family, in the order in which they were named.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) source: Source,
    pub(super) ipv4: Vec<String>,
    pub(super) ipv6: Vec<String>,
}

/// Pod annotations that decide about pools and are not understood yet: to pass over them would give the pod
/// addresses that its owner did not ask for.
const NOT_SUPPORTED: [&str; 3] = [
    annotation::POD_SUBNET,
    annotation::POD_SUBNETS,
    annotation::POD_POOLS,
];

/// Finds the candidates.
pub(super) fn candidates(question: &Question<'_>) -> Result<Named, IpamError> {
    let none = std::collections::BTreeMap::new();
    let annotations = question.pod.metadata.annotations.as_ref().unwrap_or(&none);
    if let Some(key) = NOT_SUPPORTED
        .into_iter()
        .find(|key| annotations.contains_key(*key))
    {
        let message = format!(
            "annotation {key} is not supported; name pools with {}",
            annotation::POD_POOL
        );
        return Err(IpamError::InvalidRequest(message.into()));
    }
    if let Some(text) = annotations.get(annotation::POD_POOL) {
        let PoolLists { ipv4, ipv6 } = PoolLists::parse(annotation::POD_POOL, text)?;
        return Ok(Named {
            source: Source::Pod,
            ipv4,
            ipv6,
        });
    }
    if let Some(named) = of_namespace(question)? {
        return Ok(named);
    }
    let (ipv4, ipv6) = question.configured;
    if !ipv4.is_empty() || !ipv6.is_empty() {
        return Ok(Named {
            source: Source::Configuration,
            ipv4: ipv4.to_vec(),
            ipv6: ipv6.to_vec(),
        });
    }
    cluster_default(question)
}

fn of_namespace(question: &Question<'_>) -> Result<Option<Named>, MalformedAnnotation> {
    let names = |keys: [&'static str; 2]| -> Result<Vec<String>, MalformedAnnotation> {
        let found = keys
            .into_iter()
            .find_map(|key| Some((key, question.namespace.annotations.get(key)?)));
        found.map_or(Ok(Vec::new()), |(key, text)| {
            annotation::parse_pool_names(key, text)
        })
    };
    let ipv4 = names([
        annotation::NAMESPACE_IPV4_POOLS,
        annotation::NAMESPACE_IPV4_POOLS_SEED,
    ])?;
    let ipv6 = names([
        annotation::NAMESPACE_IPV6_POOLS,
        annotation::NAMESPACE_IPV6_POOLS_SEED,
    ])?;
    let named = !ipv4.is_empty() || !ipv6.is_empty();
    Ok(named.then_some(Named {
        source: Source::Namespace,
        ipv4,
        ipv6,
    }))
}

fn cluster_default(question: &Question<'_>) -> Result<Named, IpamError> {
    let mut named = Named {
        source: Source::ClusterDefault,
        ipv4: Vec::new(),
        ipv6: Vec::new(),
    };
    let mut defaults: Vec<&SpiderIPPool> = question
        .pools
        .iter()
        .map(AsRef::as_ref)
        .filter(|pool| pool.spec.default == Some(true))
        .collect();
    defaults.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
    for pool in defaults {
        let name = pool.metadata.name.clone().unwrap_or_default();
        match pool.family() {
            Some(orbweaver_api::address_set::Family::V4) => named.ipv4.push(name),
            Some(orbweaver_api::address_set::Family::V6) => named.ipv6.push(name),
            None => {}
        }
    }
    if named.ipv4.is_empty() && named.ipv6.is_empty() {
        return Err(IpamError::NoPool(
            "no pool selection rules of any type are specified".into(),
        ));
    }
    Ok(named)
}
