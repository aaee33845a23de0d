//! What a provider must know of a pool, read once from the object.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use kube::ResourceExt;
use orbweaver_api::address_set::{AddressSet, Family};
use orbweaver_api::mac::Mac;
use orbweaver_api::pool::{IpMetaData, PoolMode, SpiderIPPool};
use orbweaver_api::{annotation, claims};

use crate::refusal::Refusal;

/// A pool.
#[derive(Clone, Debug, PartialEq)]
pub struct PoolView {
    /// Name.
    pub name: String,
    /// UID; another one is another pool.
    pub uid: String,
    /// For writes that must not pass a claim by.
    pub resource_version: String,
    /// Generation of the spec.
    pub generation: i64,
    /// Plain, node-level or global.
    pub mode: PoolMode,
    /// The node of a node-level pool.
    pub node: Option<String>,
    /// The subnet.
    pub subnet: IpNet,
    /// `ips - excludeIPs`.
    pub addresses: AddressSet,
    /// Claimed addresses; `None` when the field cannot be read, and then nothing is idle.
    pub claimed: Option<BTreeSet<IpAddr>>,
    /// MAC of the parent NIC, once the node's agent has published it.
    pub parent: Option<Mac>,
    /// The sibling of the other family.
    pub pair: Option<String>,
    /// The ledger as it is in the object.
    pub ledger: Option<IpMetaData>,
}

/// A pool that the provider cannot read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("pool {pool}: {why}")]
pub struct UnreadablePool {
    /// Name.
    pub pool: String,
    /// The field and what is wrong with it.
    pub why: String,
}

impl PoolView {
    /// Reads a pool.
    pub fn read(pool: &SpiderIPPool) -> Result<Self, UnreadablePool> {
        let unreadable = |why: String| UnreadablePool {
            pool: pool.name_any(),
            why,
        };
        let subnet: IpNet = pool
            .spec
            .subnet
            .parse()
            .map_err(|_| unreadable(format!("spec.subnet {:?} is not a CIDR", pool.spec.subnet)))?;
        let family = Family::of(subnet.addr());
        let ips = AddressSet::parse(family, &pool.spec.ips)
            .map_err(|error| unreadable(format!("spec.ips: {error}")))?;
        let excluded = AddressSet::parse(family, &pool.spec.exclude_ips)
            .map_err(|error| unreadable(format!("spec.excludeIPs: {error}")))?;
        let status = pool.status.clone().unwrap_or_default();
        let claimed = claims::decode(status.allocated_ips.as_deref()).ok();
        let parent = status.parent_nic.and_then(|nic| nic.mac);
        Ok(Self {
            name: pool.name_any(),
            uid: pool.uid().unwrap_or_default(),
            resource_version: pool.resource_version().unwrap_or_default(),
            generation: pool.metadata.generation.unwrap_or(0),
            mode: pool.mode(),
            node: pool.spec.node_name.first().cloned(),
            subnet,
            addresses: ips.difference(&excluded),
            claimed: claimed.map(|claims| claims.into_keys().collect()),
            parent: parent.and_then(|mac| mac.parse().ok()),
            pair: pool.annotations().get(annotation::PAIR_POOL).cloned(),
            ledger: status.ip_meta_data,
        })
    }

    /// Whether the pool holds a ledger: it is marked, and not the IPv6 sibling of a pair (reference §6.5).
    pub fn keeps_ledger(&self) -> bool {
        let sibling = self.addresses.family() == Family::V6 && self.pair.is_some();
        self.mode != PoolMode::Plain && !sibling
    }

    /// Whether nobody holds the address, as far as this object says.
    pub fn is_idle(&self, address: IpAddr) -> bool {
        self.claimed
            .as_ref()
            .is_some_and(|claimed| !claimed.contains(&address))
    }

    /// Whether this is an older state of the same pool than `other`. Versions that are no numbers have no order.
    pub fn is_older_than(&self, other: &Self) -> bool {
        let number = |view: &Self| view.resource_version.parse::<u64>();
        self.uid == other.uid
            && matches!((number(self), number(other)), (Ok(mine), Ok(others)) if mine < others)
    }

    /// Refuses an address that the pool does not have, another subnet than the pool's, and another node than
    /// a node-level pool's. `subnet` is `None` for the paired address, whose CIDR a request does not carry.
    pub fn admit(
        &self,
        index: usize,
        address: IpAddr,
        subnet: Option<IpNet>,
        node: &str,
    ) -> Result<(), Refusal> {
        let field = |name: &str| format!("subEniRequests[{index}].{name}");
        let family = Family::of(address).number();
        if let Some(subnet) = subnet.filter(|subnet| *subnet != self.subnet) {
            let problem = format!("pool {} is in subnet {}", self.name, self.subnet);
            return Err(Refusal::invalid(field("subnet"), subnet.to_string(), problem));
        }
        if !self.addresses.contains(address) {
            let problem = format!("the address is not one of pool {}", self.name);
            let field = field(&format!("ipv{family}Address"));
            return Err(Refusal::invalid(field, address.to_string(), problem));
        }
        match self.node.as_deref().filter(|_| self.mode == PoolMode::NodeLevel) {
            Some(pinned) if pinned != node => {
                let problem = format!("pool {} is pinned to node {pinned}", self.name);
                Err(Refusal::invalid("nodeName", node, problem))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "callers read better")]
    pub(crate) fn view(name: &str, marked: bool, spec: Value, status: Value) -> PoolView {
        let labels = if marked {
            json!({ annotation::IAAS_PROVIDER: "test" })
        } else {
            json!({})
        };
        let pool = serde_json::from_value(json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
            "metadata": { "name": name, "uid": "u", "generation": 3, "resourceVersion": "7", "labels": labels },
            "spec": spec, "status": status,
        }))
        .unwrap();
        PoolView::read(&pool).unwrap()
    }

    #[test]
    fn an_ask_outside_the_pool_is_refused_by_field() {
        let spec = json!({
            "subnet": "10.0.0.0/24", "ips": ["10.0.0.10-10.0.0.20"], "excludeIPs": ["10.0.0.15"], "nodeName": ["n1"],
        });
        let view = view("p", true, spec, json!({}));
        let admit = |address: &str, subnet: &str, node: &str| {
            let subnet = Some(subnet.parse().unwrap());
            view.admit(0, address.parse().unwrap(), subnet, node)
                .map_err(|refusal| refusal.to_string())
        };
        assert_eq!(admit("10.0.0.10", "10.0.0.0/24", "n1"), Ok(()));
        for (address, subnet, node, named) in [
            ("10.0.0.15", "10.0.0.0/24", "n1", "ipv4Address"),
            ("10.0.0.9", "10.0.0.0/24", "n1", "ipv4Address"),
            ("10.0.0.10", "10.0.0.0/25", "n1", "subnet"),
            ("10.0.0.10", "10.0.0.0/24", "n2", "nodeName"),
        ] {
            let text = admit(address, subnet, node).unwrap_err();
            assert!(text.contains(named), "{text}");
        }
    }

    #[test]
    fn nothing_is_idle_in_a_pool_whose_claims_cannot_be_read() {
        let spec = json!({ "subnet": "10.0.0.0/24", "ips": ["10.0.0.10"] });
        let broken = view("p", true, spec.clone(), json!({ "allocatedIPs": "{" }));
        let empty = view("p", true, spec, json!({}));
        let address = "10.0.0.10".parse().unwrap();
        assert!(!broken.is_idle(address));
        assert!(empty.is_idle(address));
    }
}
