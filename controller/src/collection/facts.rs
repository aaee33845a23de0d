//! What was seen of the cluster, reduced to what rules read.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::jiff::Timestamp;
use orbweaver_api::annotation;
use orbweaver_api::claims::{self, Claims, MalformedClaims};
use orbweaver_api::endpoint::SpiderEndpoint;
use orbweaver_api::pool::{PoolMode, SpiderIPPool};

/// `namespace/name`, as claims name pods.
pub type Key = String;

/// `namespace/name`.
pub fn key(namespace: &str, name: &str) -> Key {
    format!("{namespace}/{name}")
}

/// One pool and who holds its addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolFact {
    /// Name.
    pub name: String,
    /// UID: a pool made anew under the same name is another pool.
    pub uid: String,
    /// The version that a write must find.
    pub version: String,
    /// Marked or not.
    pub mode: PoolMode,
    /// `spec.subnet`.
    pub subnet: String,
    /// The sibling of the other family, if the pool names one.
    pub pair: Option<String>,
    /// The only node that may use the pool, if there is one.
    pub node: Option<String>,
    /// Who holds what.
    pub claims: Claims,
}

impl PoolFact {
    /// Reads a pool; a pool whose claims cannot be read gives none of them away.
    pub fn of(pool: &SpiderIPPool) -> Result<Self, MalformedClaims> {
        let status = pool.status.as_ref();
        let metadata = &pool.metadata;
        let annotations = metadata.annotations.as_ref();
        Ok(Self {
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone().unwrap_or_default(),
            version: metadata.resource_version.clone().unwrap_or_default(),
            mode: pool.mode(),
            subnet: pool.spec.subnet.clone(),
            pair: annotations
                .and_then(|keys| keys.get(annotation::PAIR_POOL))
                .cloned(),
            node: match pool.spec.node_name.as_slice() {
                [only] => Some(only.clone()),
                _ => None,
            },
            claims: claims::decode(status.and_then(|status| status.allocated_ips.as_deref()))?,
        })
    }
}

/// How a pod has ended, if it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// `Succeeded` or `Failed`: terminal, whatever the restart policy.
    Finished,
    /// `Failed` because of an eviction.
    Evicted,
}

/// One pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFact {
    /// UID.
    pub uid: String,
    /// Where it was scheduled to.
    pub node: Option<String>,
    /// Terminal phase.
    pub ending: Option<Ending>,
    /// When its last container ended, if that is told.
    pub ended_at: Option<Timestamp>,
    /// When its deletion should be over; the grace period that it was given is in it.
    pub delete_by: Option<Timestamp>,
    /// A container of it is said to run.
    pub running: bool,
    /// Kind and name of its controller.
    pub owner: Option<(String, String)>,
}

impl PodFact {
    /// Reads a pod.
    pub fn of(pod: &Pod) -> Self {
        let status = pod.status.as_ref();
        let containers = || {
            let lists = status.map(|status| [&status.container_statuses, &status.init_container_statuses]);
            lists.into_iter().flatten().flatten().flatten()
        };
        let states = || containers().filter_map(|container| container.state.as_ref());
        let evicted = status.and_then(|status| status.reason.as_deref()) == Some("Evicted");
        let ending = match status.and_then(|status| status.phase.as_deref()) {
            Some("Failed") if evicted => Some(Ending::Evicted),
            Some("Succeeded" | "Failed") => Some(Ending::Finished),
            _ => None,
        };
        let owners = pod.metadata.owner_references.iter().flatten();
        let owner = owners.into_iter().find(|owner| owner.controller == Some(true));
        Self {
            uid: pod.metadata.uid.clone().unwrap_or_default(),
            node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
            ending,
            ended_at: states()
                .filter_map(|state| state.terminated.as_ref()?.finished_at.as_ref())
                .map(|time| time.0)
                .max(),
            delete_by: pod.metadata.deletion_timestamp.as_ref().map(|time| time.0),
            running: states().any(|state| state.running.is_some()),
            owner: owner.map(|owner| (owner.kind.clone(), owner.name.clone())),
        }
    }

    /// True when it may use its address: neither ended nor past the end of its deletion.
    pub fn lives(&self, now: Timestamp) -> bool {
        self.ending.is_none() && self.delete_by.is_none_or(|by| now < by)
    }
}

/// A node that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeFact {
    /// Its kubelet reports.
    Ready,
    /// It does not, or says that it is not ready.
    NotReady,
}

impl NodeFact {
    /// Reads a node.
    pub fn of(node: &Node) -> Self {
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
        let ready = conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True");
        if ready { Self::Ready } else { Self::NotReady }
    }
}

/// The ordinals of a StatefulSet's pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatefulSetFact {
    /// First ordinal.
    pub start: i64,
    /// How many.
    pub replicas: i64,
}

impl StatefulSetFact {
    /// Reads a StatefulSet; without `replicas` it has one.
    pub fn of(set: &StatefulSet) -> Self {
        let spec = set.spec.as_ref();
        let start = spec.and_then(|spec| spec.ordinals.as_ref()?.start);
        Self {
            start: i64::from(start.unwrap_or(0)),
            replicas: i64::from(spec.and_then(|spec| spec.replicas).unwrap_or(1)),
        }
    }

    /// True when the set wants the pod `pod`, given the set's name.
    pub fn wants(&self, set: &str, pod: &str) -> bool {
        let ordinal = pod.strip_prefix(set).and_then(|rest| rest.strip_prefix('-'));
        let ordinal = ordinal.and_then(|text| text.parse::<i64>().ok());
        ordinal.is_some_and(|ordinal| (self.start..self.start + self.replicas).contains(&ordinal))
    }
}

/// What is known about virtual machines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Machines {
    /// The cluster has no such kinds.
    #[default]
    None,
    /// Names of all VirtualMachines and VirtualMachineInstances.
    Known(BTreeSet<Key>),
    /// Could not be found out: nobody's address is taken for that.
    Unknown,
}

/// One look at the cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// Pools whose claims can be read, by name.
    pub pools: BTreeMap<String, PoolFact>,
    /// Pools whose claims cannot be read.
    pub unreadable: Vec<String>,
    /// Pods.
    pub pods: BTreeMap<Key, PodFact>,
    /// Endpoints.
    pub endpoints: BTreeMap<Key, SpiderEndpoint>,
    /// Endpoints that cannot be read: nothing is known of what they protect.
    pub unreadable_endpoints: BTreeSet<Key>,
    /// Nodes.
    pub nodes: BTreeMap<String, NodeFact>,
    /// Namespaces that exist.
    pub namespaces: BTreeSet<String>,
    /// StatefulSets.
    pub stateful_sets: BTreeMap<Key, StatefulSetFact>,
    /// Virtual machines.
    pub machines: Machines,
    /// Some SpiderMultusConfig makes interfaces whose VLAN a provider chooses.
    pub provider_networks: bool,
}

/// Every address of an endpoint with its pool and whether a provider stands behind the NIC.
pub fn addresses(endpoint: &SpiderEndpoint) -> impl Iterator<Item = (&str, IpAddr)> {
    endpoint.status.current.ips.iter().flat_map(|nic| {
        let families = [(&nic.ipv4, &nic.ipv4_pool), (&nic.ipv6, &nic.ipv6_pool)];
        families.into_iter().filter_map(|(address, pool)| {
            let address = bare(address.as_deref()?)?;
            Some((pool.as_deref()?, address))
        })
    })
}

/// The address of `10.0.0.1/24` or `10.0.0.1`.
pub fn bare(text: &str) -> Option<IpAddr> {
    text.parse::<IpNet>()
        .map(|net| net.addr())
        .or_else(|_| text.parse())
        .ok()
}

impl Snapshot {
    /// The endpoint of one life of a pod: under the pod's name, or (a virtual machine's) anywhere in its namespace.
    pub fn endpoint_of(&self, pod: &str, uid: &str) -> Option<(&Key, &SpiderEndpoint)> {
        let is_its = |endpoint: &SpiderEndpoint| endpoint.status.current.uid == uid;
        let named = self
            .endpoints
            .get_key_value(pod)
            .filter(|(_, endpoint)| is_its(endpoint));
        named.or_else(|| {
            let (namespace, _) = pod.split_once('/')?;
            let from = key(namespace, "");
            self.endpoints
                .range(from.clone()..)
                .take_while(|(name, _)| name.starts_with(&from))
                .find(|(_, endpoint)| is_its(endpoint))
        })
    }

    /// The pod of that UID that runs a virtual machine, whose claims carry the machine's name and not the pod's.
    pub fn machine_pod(&self, namespace: &str, machine: &str, uid: &str) -> Option<&PodFact> {
        let from = key(namespace, "");
        let here = self.pods.range(from.clone()..);
        here.take_while(|(name, _)| name.starts_with(&from))
            .map(|(_, pod)| pod)
            .find(|pod| {
                let owner = pod.owner.as_ref();
                owner.is_some_and(|(kind, name)| kind == "VirtualMachineInstance" && name == machine)
                    && pod.uid == uid
            })
    }

    /// Addresses that living pods use by what their endpoints say, with the pod's UID.
    pub fn in_use(&self, now: Timestamp) -> BTreeMap<(&str, IpAddr), &str> {
        let names = self.endpoints.keys();
        names.flat_map(|name| self.used_by(name, now)).collect()
    }

    /// The same for one endpoint.
    pub fn used_by(&self, name: &str, now: Timestamp) -> BTreeMap<(&str, IpAddr), &str> {
        let Some((endpoint, pod)) = self.endpoints.get(name).zip(self.pods.get(name)) else {
            return BTreeMap::new();
        };
        let uid = endpoint.status.current.uid.as_str();
        if pod.uid != uid || !pod.lives(now) {
            return BTreeMap::new();
        }
        addresses(endpoint).map(|place| (place, uid)).collect()
    }
}
