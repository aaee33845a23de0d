//! Where the candidate pools are named: the first place that names any wins, nothing is merged (seed "IP
//! Allocation", reference §2.2).

use std::collections::BTreeMap;
use std::fmt;

use orbweaver_api::address_set::Family;
use orbweaver_api::annotation::{self, MalformedAnnotation, NicPools, PoolLists};
use orbweaver_api::pool::SpiderIPPool;

use super::selection::{Question, annotations_of};
use crate::error::IpamError;

/// The place that named the candidates, highest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// The pod's annotations `subnet` and `subnets`; no pools are made of them yet.
    Subnet,
    /// The pod's annotation `ippools`.
    PodPools,
    /// The pod's annotation `ippool`.
    Pod,
    /// The namespace's annotations.
    Namespace,
    /// The CNI configuration.
    Configuration,
    /// `spec.default` of pools.
    ClusterDefault,
}

impl Source {
    /// Every place, highest first.
    pub const ALL: [Self; 6] = [
        Self::Subnet,
        Self::PodPools,
        Self::Pod,
        Self::Namespace,
        Self::Configuration,
        Self::ClusterDefault,
    ];
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Subnet => "the pod's annotation ipam.spidernet.io/subnet or subnets",
            Self::PodPools => "the pod's annotation ipam.spidernet.io/ippools",
            Self::Pod => "the pod's annotation ipam.spidernet.io/ippool",
            Self::Namespace => "the namespace's annotations",
            Self::Configuration => "the CNI configuration",
            Self::ClusterDefault => "spec.default of the cluster's pools",
        })
    }
}

/// What was named, and where.
#[derive(Clone, Debug)]
pub(super) struct Named {
    pub(super) source: Source,
    /// `ippools` names no NICs: the items are slots, taken by NICs in their order.
    pub(super) nameless: bool,
    /// The first is for the NIC in question; further ones only when nameless.
    pub(super) items: Vec<Item>,
}

/// Candidates of one NIC by family, in the order in which they were named; patterns as they were written.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) clean_gateway: Option<bool>,
    pub(super) pools: PoolLists,
}

impl Named {
    fn one(source: Source, ipv4: Vec<String>, ipv6: Vec<String>) -> Self {
        let pools = PoolLists { ipv4, ipv6 };
        let item = Item {
            clean_gateway: None,
            pools,
        };
        Self {
            source,
            nameless: false,
            items: vec![item],
        }
    }
}

/// What a place says, as written; `None`: nothing. For those who ask why.
pub(super) fn says(question: &Question<'_>, source: Source) -> Option<String> {
    let annotations = annotations_of(question.pod);
    let written = |annotations: &BTreeMap<String, String>, keys: &[&str]| {
        let found: Vec<String> = keys
            .iter()
            .filter_map(|key| Some(format!("{key}: {}", annotations.get(*key)?)))
            .collect();
        (!found.is_empty()).then(|| found.join(", "))
    };
    match source {
        Source::Subnet => written(annotations, &[annotation::POD_SUBNETS, annotation::POD_SUBNET]),
        Source::PodPools => annotations.get(annotation::POD_POOLS).cloned(),
        Source::Pod => annotations.get(annotation::POD_POOL).cloned(),
        Source::Namespace => written(
            &question.namespace.annotations,
            &[
                annotation::NAMESPACE_IPV4_POOLS,
                annotation::NAMESPACE_IPV4_POOLS_SEED,
                annotation::NAMESPACE_IPV6_POOLS,
                annotation::NAMESPACE_IPV6_POOLS_SEED,
            ],
        ),
        Source::Configuration => {
            let (ipv4, ipv6) = question.configured;
            (!ipv4.is_empty() || !ipv6.is_empty()).then(|| format!("IPv4 {ipv4:?}, IPv6 {ipv6:?}"))
        }
        Source::ClusterDefault => {
            let Item { pools, .. } = cluster_default(question).ok()?.items.into_iter().next()?;
            Some(format!("IPv4 {:?}, IPv6 {:?}", pools.ipv4, pools.ipv6))
        }
    }
}

/// True when the annotation `ippools` decides and names NICs, and not this one.
pub(super) fn leaves_out(question: &Question<'_>) -> bool {
    let annotations = annotations_of(question.pod);
    let text = annotations.get(annotation::POD_POOLS);
    let items = text.and_then(|text| annotation::parse_nic_pools(text).ok());
    items.is_some_and(|items| {
        let mut names = items.iter().map(|item| item.interface.as_str());
        names.all(|name| !name.is_empty() && name != question.nic)
    })
}

/// Finds the candidates.
pub(super) fn candidates(question: &Question<'_>) -> Result<Named, IpamError> {
    let annotations = annotations_of(question.pod);
    refuse_subnets(annotations)?;
    if let Some(text) = annotations.get(annotation::POD_POOLS) {
        return Ok(of_nics(question.nic, text)?);
    }
    if let Some(text) = annotations.get(annotation::POD_POOL) {
        let PoolLists { ipv4, ipv6 } = PoolLists::parse(annotation::POD_POOL, text)?;
        return Ok(Named::one(Source::Pod, ipv4, ipv6));
    }
    if let Some(named) = of_namespace(question)? {
        return Ok(named);
    }
    let (ipv4, ipv6) = question.configured;
    if !ipv4.is_empty() || !ipv6.is_empty() {
        return Ok(Named::one(Source::Configuration, ipv4.to_vec(), ipv6.to_vec()));
    }
    cluster_default(question)
}

/// A pod that asks for a pool made for it must not get an address of another one.
fn refuse_subnets(annotations: &BTreeMap<String, String>) -> Result<(), MalformedAnnotation> {
    for key in [annotation::POD_SUBNETS, annotation::POD_SUBNET] {
        if let Some(text) = annotations.get(key) {
            return Err(MalformedAnnotation::new(
                key,
                text,
                "the SpiderSubnet feature is off, so no pool is made of what is named",
                "annotation ipam.spidernet.io/ippool or ippools instead, with the names of pools",
            ));
        }
    }
    Ok(())
}

fn of_nics(nic: &str, text: &str) -> Result<Named, MalformedAnnotation> {
    let mut items = annotation::parse_nic_pools(text)?;
    let nameless = items.iter().all(|item| item.interface.is_empty());
    if !nameless {
        let Some(own) = items.iter().position(|item| item.interface == nic) else {
            let listed: Vec<&str> = items.iter().map(|item| item.interface.as_str()).collect();
            return Err(MalformedAnnotation::new(
                annotation::POD_POOLS,
                text,
                format!("interface {nic:?} of the pod is not among {listed:?}"),
                "one item for every NIC of the pod, or no \"interface\" at all",
            ));
        };
        items = vec![items.swap_remove(own)];
    }
    let items = items.into_iter().map(|item| {
        let NicPools {
            pools, clean_gateway, ..
        } = item;
        Item { clean_gateway, pools }
    });
    Ok(Named {
        source: Source::PodPools,
        nameless,
        items: items.collect(),
    })
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
    Ok(named.then(|| Named::one(Source::Namespace, ipv4, ipv6)))
}

fn cluster_default(question: &Question<'_>) -> Result<Named, IpamError> {
    let (mut ipv4, mut ipv6) = (Vec::new(), Vec::new());
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
            Some(Family::V4) => ipv4.push(name),
            Some(Family::V6) => ipv6.push(name),
            None => {}
        }
    }
    if ipv4.is_empty() && ipv6.is_empty() {
        return Err(IpamError::NoPool(
            "no pool selection rules of any type are specified".into(),
        ));
    }
    Ok(Named::one(Source::ClusterDefault, ipv4, ipv6))
}
