//! The rule table: does a claim still serve somebody? (reference §5.3, engine B; ownership by UID, phase and node,
//! never by `podIPs`: peer rule L3.)

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use orbweaver_api::claims::Claim;
use orbweaver_api::endpoint::SpiderEndpoint;

use crate::collection::Policy;
use crate::collection::facts::{Ending, Machines, NodeFact, PodFact, Snapshot, key};

/// Why a claim stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keep {
    /// Its pod lives.
    Alive,
    /// Its pod is ending and has time left.
    Ending,
    /// Its pod should have ended, but its node says that a container still runs.
    StillRunning,
    /// Its pod should have ended, and the switch for such pods is off.
    SwitchedOff,
    /// The StatefulSet will make the pod again.
    StatefulSet,
    /// The virtual machine will start again.
    VirtualMachine,
    /// Who stands behind the pod cannot be found out now.
    OwnerUnknown,
    /// The endpoint of a living pod names the address, whoever the claim says.
    InUse,
    /// The other address of the pair stays.
    PairStays,
}

impl Keep {
    /// For people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Alive => "alive",
            Self::Ending => "ending",
            Self::StillRunning => "still_running",
            Self::SwitchedOff => "switched_off",
            Self::StatefulSet => "stateful_set",
            Self::VirtualMachine => "virtual_machine",
            Self::OwnerUnknown => "owner_unknown",
            Self::InUse => "in_use",
            Self::PairStays => "pair_stays",
        }
    }
}

/// Why a claim serves nobody any more. Closed label set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// The pod does not exist: deleted, also by force.
    PodGone,
    /// Another pod has the name now.
    PodReplaced,
    /// The pod has finished.
    Finished,
    /// The pod was evicted.
    Evicted,
    /// The pod's deletion should be over.
    Terminating,
    /// The pod's deletion should be over, and its node is not ready.
    NodeNotReady,
    /// The pod's node does not exist.
    NodeGone,
    /// The StatefulSet wants no such pod any more.
    ScaledAway,
    /// The StatefulSet or virtual machine does not exist.
    OwnerGone,
    /// The namespace does not exist.
    NamespaceGone,
    /// The claim names no pod: its `pod` is not `namespace/name`.
    NoPod,
}

impl Cause {
    /// The label.
    pub fn label(self) -> &'static str {
        match self {
            Self::PodGone => "pod_gone",
            Self::PodReplaced => "pod_replaced",
            Self::Finished => "finished",
            Self::Evicted => "evicted",
            Self::Terminating => "terminating",
            Self::NodeNotReady => "node_not_ready",
            Self::NodeGone => "node_gone",
            Self::ScaledAway => "scaled_away",
            Self::OwnerGone => "owner_gone",
            Self::NamespaceGone => "namespace_gone",
            Self::NoPod => "no_pod",
        }
    }
}

/// What one look says about a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opinion {
    /// It stays.
    Keep(Keep),
    /// It looks abandoned.
    Abandoned(Cause),
}

/// One address of one pool.
pub type Place = (String, IpAddr);

/// What one look says about every claim. Both addresses of a pair go, or none.
pub fn judge_all(seen: &Snapshot, policy: &Policy, now: Timestamp) -> BTreeMap<Place, (Claim, Opinion)> {
    let used = seen.in_use(now);
    let mut opinions = BTreeMap::new();
    for pool in seen.pools.values() {
        for (address, claim) in &pool.claims {
            let user = used.get(&(pool.name.as_str(), *address));
            let opinion = if user.is_some_and(|uid| *uid != claim.pod_uid) {
                Opinion::Keep(Keep::InUse)
            } else {
                judge(claim, seen, policy, now)
            };
            opinions.insert((pool.name.clone(), *address), (claim.clone(), opinion));
        }
    }
    join_pairs(seen, &mut opinions);
    opinions
}

fn join_pairs(seen: &Snapshot, opinions: &mut BTreeMap<Place, (Claim, Opinion)>) {
    let kept: Vec<(String, String)> = opinions
        .iter()
        .filter(|(_, (_, opinion))| matches!(opinion, Opinion::Keep(_)))
        .map(|((pool, _), (claim, _))| (pool.clone(), claim.pod_uid.clone()))
        .collect();
    for ((pool, _), (claim, opinion)) in opinions.iter_mut() {
        let stays = |(other, uid): &(String, String)| *uid == claim.pod_uid && is_pair(seen, pool, other);
        if matches!(opinion, Opinion::Abandoned(_)) && kept.iter().any(stays) {
            *opinion = Opinion::Keep(Keep::PairStays);
        }
    }
}

/// True when one of the two names the other; the partner may not name it back yet.
fn is_pair(seen: &Snapshot, one: &str, other: &str) -> bool {
    let names = |pool: &str, pair: &str| {
        let pool = seen.pools.get(pool);
        pool.and_then(|pool| pool.pair.as_deref()) == Some(pair)
    };
    names(one, other) || names(other, one)
}

/// What one look says about one claim.
pub fn judge(claim: &Claim, seen: &Snapshot, policy: &Policy, now: Timestamp) -> Opinion {
    let Some((namespace, name)) = claim.pod.split_once('/').filter(|(_, name)| !name.is_empty()) else {
        return Opinion::Abandoned(Cause::NoPod);
    };
    if seen.unreadable_endpoints.contains(&claim.pod) {
        return Opinion::Keep(Keep::OwnerUnknown);
    }
    let machine = || seen.machine_pod(namespace, name, &claim.pod_uid);
    let pod = seen.pods.get(&claim.pod).or_else(machine);
    let own = pod.filter(|pod| pod.uid == claim.pod_uid);
    let endpoint = seen.endpoint_of(&claim.pod, &claim.pod_uid);
    let owner = Owner::of(own, endpoint.map(|(_, endpoint)| endpoint));
    let abandoned = match (pod, own) {
        (_, Some(pod)) => match judge_pod(pod, seen, policy, now) {
            Opinion::Keep(keep) => return Opinion::Keep(keep),
            Opinion::Abandoned(cause) => cause,
        },
        (Some(_), None) => Cause::PodReplaced,
        (None, None) if seen.namespaces.contains(namespace) => Cause::PodGone,
        (None, None) => Cause::NamespaceGone,
    };
    // Without an endpoint a later pod could not find the address again: nothing is kept for it.
    if endpoint.is_none() {
        return Opinion::Abandoned(abandoned);
    }
    match owner.fate(namespace, name, seen, policy) {
        Some(Fate::Returns(keep)) => Opinion::Keep(keep),
        Some(Fate::Over(cause)) if abandoned != Cause::NamespaceGone => Opinion::Abandoned(cause),
        _ => Opinion::Abandoned(abandoned),
    }
}

fn judge_pod(pod: &PodFact, seen: &Snapshot, policy: &Policy, now: Timestamp) -> Opinion {
    let grace = SignedDuration::try_from(policy.grace).unwrap_or(SignedDuration::MAX);
    let is_over = |since: Timestamp| now.duration_since(since) >= grace;
    if let Some(ending) = pod.ending {
        return match (pod.ended_at, ending) {
            (Some(at), _) if !is_over(at) => Opinion::Keep(Keep::Ending),
            (_, Ending::Evicted) => Opinion::Abandoned(Cause::Evicted),
            (_, Ending::Finished) => Opinion::Abandoned(Cause::Finished),
        };
    }
    let node = pod.node.as_ref().map(|node| seen.nodes.get(node));
    if let Some(None) = node {
        return Opinion::Abandoned(Cause::NodeGone);
    }
    let Some(by) = pod.delete_by else {
        return Opinion::Keep(Keep::Alive);
    };
    if !is_over(by) {
        return Opinion::Keep(Keep::Ending);
    }
    match node.flatten() {
        // What such a node last said of its containers is old.
        Some(NodeFact::NotReady) if policy.terminating_on_not_ready => {
            Opinion::Abandoned(Cause::NodeNotReady)
        }
        Some(NodeFact::Ready) | None if policy.terminating_on_ready => {
            if pod.running {
                Opinion::Keep(Keep::StillRunning)
            } else {
                Opinion::Abandoned(Cause::Terminating)
            }
        }
        _ => Opinion::Keep(Keep::SwitchedOff),
    }
}

/// What stands behind a pod, if it makes pods again under the same name.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Owner {
    StatefulSet(String),
    Machine(String),
    Other,
}

enum Fate {
    Returns(Keep),
    Over(Cause),
}

impl Owner {
    fn of(pod: Option<&PodFact>, endpoint: Option<&SpiderEndpoint>) -> Self {
        let told = pod.and_then(|pod| pod.owner.clone()).or_else(|| {
            let status = &endpoint?.status;
            Some((
                status.owner_controller_type.clone(),
                status.owner_controller_name.clone(),
            ))
        });
        match told {
            Some((kind, name)) if kind == "StatefulSet" => Self::StatefulSet(name),
            Some((kind, name)) if kind == "VirtualMachineInstance" || kind == "VirtualMachine" => {
                Self::Machine(name)
            }
            _ => Self::Other,
        }
    }

    fn fate(&self, namespace: &str, pod: &str, seen: &Snapshot, policy: &Policy) -> Option<Fate> {
        match self {
            Self::StatefulSet(set) if policy.stateful_sets => {
                Some(match seen.stateful_sets.get(&key(namespace, set)) {
                    None => Fate::Over(Cause::OwnerGone),
                    Some(fact) if fact.wants(set, pod) => Fate::Returns(Keep::StatefulSet),
                    Some(_) => Fate::Over(Cause::ScaledAway),
                })
            }
            Self::Machine(machine) if policy.virtual_machines => Some(match &seen.machines {
                Machines::Unknown => Fate::Returns(Keep::OwnerUnknown),
                Machines::Known(names) if names.contains(&key(namespace, machine)) => {
                    Fate::Returns(Keep::VirtualMachine)
                }
                _ => Fate::Over(Cause::OwnerGone),
            }),
            _ => None,
        }
    }
}

/// True when an endpoint serves nobody: no address of it is claimed for it, and its pod will not come back.
pub fn is_outdated(
    pod: &str,
    endpoint: &SpiderEndpoint,
    seen: &Snapshot,
    policy: &Policy,
    now: Timestamp,
) -> bool {
    if !policy.outdated_endpoints && endpoint.metadata.deletion_timestamp.is_none() {
        return false;
    }
    let uid = &endpoint.status.current.uid;
    let holds = |claim: &Claim| claim.pod_uid == *uid;
    if !seen.unreadable.is_empty() || seen.pools.values().any(|pool| pool.claims.values().any(holds)) {
        return false;
    }
    let claim = Claim {
        pod: pod.to_owned(),
        pod_uid: uid.clone(),
    };
    matches!(judge(&claim, seen, policy, now), Opinion::Abandoned(_))
}

#[cfg(test)]
#[path = "rules_tests.rs"]
mod tests;
