use serde_json::json;

use super::*;
use crate::collection::facts::{PoolFact, StatefulSetFact};
use crate::collection::looks::{Looks, Verdict};
use orbweaver_api::pool::PoolMode;
use std::time::Duration;
use tokio::time::Instant;

const NOW: &str = "2026-01-01T01:00:00Z";

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn now() -> Timestamp {
    at(NOW)
}

/// A pod that runs on node `n`.
fn pod(uid: &str) -> PodFact {
    PodFact {
        uid: uid.to_owned(),
        node: Some("n".to_owned()),
        ..PodFact::default()
    }
}

fn endpoint(uid: &str, owner: (&str, &str), addresses: &[(&str, &str)]) -> SpiderEndpoint {
    let ips: Vec<_> = addresses
        .iter()
        .map(|(pool, address)| json!({ "interface": "eth0", "ipv4": format!("{address}/24"), "ipv4Pool": pool }))
        .collect();
    serde_json::from_value(json!({
        "metadata": { "name": "x", "uid": format!("e-{uid}") },
        "status": {
            "current": { "uid": uid, "node": "n", "ips": ips },
            "ownerControllerType": owner.0, "ownerControllerName": owner.1,
        },
    }))
    .unwrap()
}

const DEPLOYMENT: (&str, &str) = ("Deployment", "d");
const SET: (&str, &str) = ("StatefulSet", "web");

/// Namespace `ns`, node `n`, and pool `p` whose `10.0.0.1` is claimed by `ns/web-0` of UID `u`.
fn world() -> Snapshot {
    let mut seen = Snapshot::default();
    seen.namespaces.insert("ns".to_owned());
    seen.nodes.insert("n".to_owned(), NodeFact::Ready);
    add_claim(&mut seen, "p", "10.0.0.1", "ns/web-0", "u");
    seen
}

fn add_claim(seen: &mut Snapshot, pool: &str, address: &str, pod: &str, uid: &str) {
    let fact = seen.pools.entry(pool.to_owned()).or_insert_with(|| PoolFact {
        name: pool.to_owned(),
        uid: format!("pool-{pool}"),
        version: "1".to_owned(),
        mode: PoolMode::Plain,
        subnet: "10.0.0.0/24".to_owned(),
        pair: None,
        node: None,
        claims: std::collections::BTreeMap::new(),
    });
    let claim = Claim {
        pod: pod.to_owned(),
        pod_uid: uid.to_owned(),
    };
    fact.claims.insert(address.parse().unwrap(), claim);
}

fn opinion_of(seen: &Snapshot, pool: &str, address: &str, policy: &Policy) -> Opinion {
    judge_all(seen, policy, now())[&(pool.to_owned(), address.parse().unwrap())].1
}

fn opinion(seen: &Snapshot) -> Opinion {
    opinion_of(seen, "p", "10.0.0.1", &Policy::default())
}

fn with_pod(change: impl FnOnce(&mut PodFact)) -> Snapshot {
    let (mut seen, mut fact) = (world(), pod("u"));
    change(&mut fact);
    seen.pods.insert("ns/web-0".to_owned(), fact);
    seen
}

#[test]
fn a_living_pod_keeps_everything() {
    assert_eq!(opinion(&with_pod(|_| {})), Opinion::Keep(Keep::Alive));
    let mut cut_off = with_pod(|_| {});
    cut_off.nodes.insert("n".to_owned(), NodeFact::NotReady);
    assert_eq!(
        opinion(&cut_off),
        Opinion::Keep(Keep::Alive),
        "a node that is cut off still runs it"
    );
    assert_eq!(
        opinion(&with_pod(|pod| pod.node = None)),
        Opinion::Keep(Keep::Alive),
        "not scheduled yet"
    );
}

#[test]
fn g00001_a_deleted_namespace_frees_everything() {
    let mut seen = world();
    seen.namespaces.clear();
    seen.endpoints
        .insert("ns/web-0".to_owned(), endpoint("u", SET, &[("p", "10.0.0.1")]));
    assert_eq!(opinion(&seen), Opinion::Abandoned(Cause::NamespaceGone));
}

#[test]
fn g00002_a_namesake_in_another_namespace_counts_for_nothing() {
    let mut seen = with_pod(|_| {});
    add_claim(&mut seen, "p", "10.0.0.2", "other/web-0", "v");
    seen.namespaces.insert("other".to_owned());
    assert_eq!(opinion(&seen), Opinion::Keep(Keep::Alive));
    let gone = opinion_of(&seen, "p", "10.0.0.2", &Policy::default());
    assert_eq!(gone, Opinion::Abandoned(Cause::PodGone));
}

#[test]
fn g00003_g00004_a_pod_that_is_gone_frees_its_address_with_and_without_endpoint() {
    let mut seen = world();
    assert_eq!(opinion(&seen), Opinion::Abandoned(Cause::PodGone));
    let stateless = endpoint("u", DEPLOYMENT, &[("p", "10.0.0.1")]);
    seen.endpoints.insert("ns/web-0".to_owned(), stateless);
    assert_eq!(opinion(&seen), Opinion::Abandoned(Cause::PodGone));
}

#[test]
fn g00005_a_claim_of_a_name_that_nobody_has_is_purged() {
    let mut seen = with_pod(|_| {});
    add_claim(&mut seen, "p", "10.0.0.9", "ns/nobody", "u");
    add_claim(&mut seen, "p", "10.0.0.10", "nonsense", "u");
    let of = |address| opinion_of(&seen, "p", address, &Policy::default());
    assert_eq!(of("10.0.0.9"), Opinion::Abandoned(Cause::PodGone));
    assert_eq!(of("10.0.0.10"), Opinion::Abandoned(Cause::NoPod));
}

#[test]
fn g00006_a_finished_pod_frees_its_address_after_the_grace() {
    let ended = |ending, when: Option<&str>| {
        with_pod(|pod| {
            pod.ending = Some(ending);
            pod.ended_at = when.map(at);
        })
    };
    for (ending, cause) in [
        (Ending::Finished, Cause::Finished),
        (Ending::Evicted, Cause::Evicted),
    ] {
        let seen = ended(ending, Some("2026-01-01T00:59:31Z"));
        assert_eq!(opinion(&seen), Opinion::Keep(Keep::Ending));
        let seen = ended(ending, Some("2026-01-01T00:59:30Z"));
        assert_eq!(opinion(&seen), Opinion::Abandoned(cause));
        assert_eq!(opinion(&ended(ending, None)), Opinion::Abandoned(cause));
    }
}

#[test]
fn g00007_a_claim_of_another_uid_is_purged_unless_a_living_pod_uses_the_address() {
    let mut seen = world();
    seen.pods.insert("ns/web-0".to_owned(), pod("next"));
    assert_eq!(opinion(&seen), Opinion::Abandoned(Cause::PodReplaced));
    seen.endpoints.insert(
        "ns/web-0".to_owned(),
        endpoint("next", DEPLOYMENT, &[("p", "10.0.0.2")]),
    );
    assert_eq!(opinion(&seen), Opinion::Abandoned(Cause::PodReplaced));
    seen.endpoints.insert(
        "ns/web-0".to_owned(),
        endpoint("next", DEPLOYMENT, &[("p", "10.0.0.1")]),
    );
    assert_eq!(opinion(&seen), Opinion::Keep(Keep::InUse));
}

#[test]
fn g00009_a_pod_that_does_not_end_is_judged_by_its_node() {
    let late = |change: fn(&mut PodFact)| {
        with_pod(|pod| {
            pod.delete_by = Some(at("2026-01-01T00:59:30Z"));
            change(pod);
        })
    };
    assert_eq!(opinion(&late(|_| {})), Opinion::Abandoned(Cause::Terminating));
    assert_eq!(
        opinion(&late(|pod| pod.running = true)),
        Opinion::Keep(Keep::StillRunning)
    );
    let early = late(|pod| pod.delete_by = Some(at("2026-01-01T00:59:31Z")));
    assert_eq!(opinion(&early), Opinion::Keep(Keep::Ending));
    let mut cut_off = late(|pod| pod.running = true);
    cut_off.nodes.insert("n".to_owned(), NodeFact::NotReady);
    assert_eq!(opinion(&cut_off), Opinion::Abandoned(Cause::NodeNotReady));
    let off = Policy {
        terminating_on_ready: false,
        terminating_on_not_ready: false,
        ..Policy::default()
    };
    for seen in [&cut_off, &late(|_| {})] {
        assert_eq!(
            opinion_of(seen, "p", "10.0.0.1", &off),
            Opinion::Keep(Keep::SwitchedOff)
        );
    }
}

#[test]
fn a_pod_on_a_node_that_does_not_exist_frees_its_address() {
    let mut seen = with_pod(|_| {});
    seen.nodes.clear();
    assert_eq!(opinion(&seen), Opinion::Abandoned(Cause::NodeGone));
}

#[test]
fn g00010_g00011_a_stateful_pod_keeps_its_address_while_its_ordinal_is_wanted() {
    let mut seen = world();
    let recorded = endpoint("u", SET, &[("p", "10.0.0.1")]);
    seen.endpoints.insert("ns/web-0".to_owned(), recorded);
    assert_eq!(opinion(&seen), Opinion::Abandoned(Cause::OwnerGone));
    let mut set = |start, replicas| {
        let fact = StatefulSetFact { start, replicas };
        seen.stateful_sets.insert("ns/web".to_owned(), fact);
        opinion(&seen)
    };
    assert_eq!(set(0, 1), Opinion::Keep(Keep::StatefulSet));
    assert_eq!(set(0, 0), Opinion::Abandoned(Cause::ScaledAway));
    assert_eq!(set(1, 3), Opinion::Abandoned(Cause::ScaledAway));
    set(0, 1);
    // Recreated, before its ADD: the address is the new pod's to take.
    seen.pods.insert("ns/web-0".to_owned(), pod("next"));
    assert_eq!(opinion(&seen), Opinion::Keep(Keep::StatefulSet));
    // Finished, evicted, or lost with its node: the set makes it again.
    for ending in [Ending::Finished, Ending::Evicted] {
        let mut ended = pod("u");
        ended.ending = Some(ending);
        seen.pods.insert("ns/web-0".to_owned(), ended);
        assert_eq!(opinion(&seen), Opinion::Keep(Keep::StatefulSet));
    }
    let stateless = Policy {
        stateful_sets: false,
        ..Policy::default()
    };
    let switched = opinion_of(&seen, "p", "10.0.0.1", &stateless);
    assert_eq!(switched, Opinion::Abandoned(Cause::Evicted));
    // Another set's pods are not this set's.
    let fact = StatefulSetFact {
        start: 0,
        replicas: 9,
    };
    assert!(fact.wants("web", "web-8") && !fact.wants("web", "web-9"));
    assert!(!fact.wants("web", "web-a-0") && !fact.wants("web", "web") && !fact.wants("web", "web0"));
}

#[test]
fn a_machine_keeps_its_address_while_it_or_its_instance_exists() {
    let mut seen = world();
    let recorded = endpoint("u", ("VirtualMachineInstance", "vm"), &[("p", "10.0.0.1")]);
    // Under the machine's name, as the reference writes it.
    seen.endpoints.insert("ns/vm".to_owned(), recorded);
    let mut with = |machines| {
        seen.machines = machines;
        opinion(&seen)
    };
    assert_eq!(with(Machines::None), Opinion::Abandoned(Cause::OwnerGone));
    assert_eq!(with(Machines::Unknown), Opinion::Keep(Keep::OwnerUnknown));
    let other = Machines::Known(["ns/other".to_owned()].into());
    assert_eq!(with(other), Opinion::Abandoned(Cause::OwnerGone));
    let known = Machines::Known(["ns/vm".to_owned()].into());
    assert_eq!(with(known), Opinion::Keep(Keep::VirtualMachine));
}

#[test]
fn g00012_each_claim_of_a_shared_pool_is_judged_for_itself() {
    let mut seen = with_pod(|_| {});
    add_claim(&mut seen, "p", "10.0.0.2", "ns/job-x", "j");
    add_claim(&mut seen, "p", "10.0.0.3", "ns/web-1", "w");
    seen.endpoints
        .insert("ns/web-1".to_owned(), endpoint("w", SET, &[("p", "10.0.0.3")]));
    seen.stateful_sets.insert(
        "ns/web".to_owned(),
        StatefulSetFact {
            start: 0,
            replicas: 2,
        },
    );
    let of = |address| opinion_of(&seen, "p", address, &Policy::default());
    assert_eq!(of("10.0.0.1"), Opinion::Keep(Keep::Alive));
    assert_eq!(of("10.0.0.2"), Opinion::Abandoned(Cause::PodGone));
    assert_eq!(of("10.0.0.3"), Opinion::Keep(Keep::StatefulSet));
}

#[test]
fn h00001_both_addresses_of_a_pair_go_or_none() {
    let mut seen = world();
    add_claim(&mut seen, "p6", "fd00::1", "ns/web-0", "u");
    seen.pools.get_mut("p").unwrap().pair = Some("p6".to_owned());
    let of = |seen: &Snapshot, pool, address| opinion_of(seen, pool, address, &Policy::default());
    assert_eq!(of(&seen, "p6", "fd00::1"), Opinion::Abandoned(Cause::PodGone));
    // A living pod uses the IPv4 address.
    seen.pods.insert("ns/user".to_owned(), pod("v"));
    seen.endpoints.insert(
        "ns/user".to_owned(),
        endpoint("v", DEPLOYMENT, &[("p", "10.0.0.1")]),
    );
    assert_eq!(of(&seen, "p", "10.0.0.1"), Opinion::Keep(Keep::InUse));
    assert_eq!(of(&seen, "p6", "fd00::1"), Opinion::Keep(Keep::PairStays));
}

#[test]
fn what_cannot_be_read_protects() {
    let mut seen = world();
    seen.unreadable_endpoints.insert("ns/web-0".to_owned());
    assert_eq!(opinion(&seen), Opinion::Keep(Keep::OwnerUnknown));
}

#[test]
fn an_endpoint_goes_when_it_holds_nothing_and_nobody_stands_behind_it() {
    let policy = Policy {
        outdated_endpoints: true,
        ..Policy::default()
    };
    let outdated = |seen: &Snapshot, endpoint: &SpiderEndpoint, policy: &Policy| {
        is_outdated("ns/web-0", endpoint, seen, policy, now())
    };
    let mut seen = world();
    let mut mine = endpoint("u", SET, &[("p", "10.0.0.1")]);
    assert!(!outdated(&seen, &mine, &policy), "it holds an address");
    seen.pools.get_mut("p").unwrap().claims.clear();
    assert!(outdated(&seen, &mine, &policy));
    assert!(!outdated(&seen, &mine, &Policy::default()), "switched off");
    let deleting = serde_json::from_value(json!(NOW)).unwrap();
    mine.metadata.deletion_timestamp = Some(deleting);
    assert!(
        outdated(&seen, &mine, &Policy::default()),
        "only the finalizer holds it"
    );
    seen.pods.insert("ns/web-0".to_owned(), pod("u"));
    assert!(!outdated(&seen, &mine, &policy), "its pod lives");
}

#[test]
fn nothing_is_collected_at_first_sight_or_before_the_grace_or_after_a_doubt() {
    let policy = Policy::default();
    let mut looks = Looks::default();
    let start = Instant::now();
    let gone = Opinion::Abandoned(Cause::PodGone);
    let mut look = |opinion, seconds| {
        let later = start + Duration::from_secs(seconds);
        let verdicts = looks.look([("key", (), opinion)], &policy, later);
        verdicts[0].1
    };
    assert_eq!(look(gone, 0), Verdict::Suspect(Cause::PodGone, start));
    assert_eq!(look(gone, 29), Verdict::Suspect(Cause::PodGone, start));
    assert_eq!(look(gone, 30), Verdict::Collect(Cause::PodGone));
    assert_eq!(look(Opinion::Keep(Keep::Alive), 31), Verdict::Keep(Keep::Alive));
    assert!(matches!(look(gone, 90), Verdict::Suspect(..)), "it begins anew");
    // Another life of the same address is not this one.
    let verdicts = looks.look([("other", (), gone)], &policy, start + Duration::from_secs(500));
    assert!(matches!(verdicts[0].1, Verdict::Suspect(..)));
}

/// Its pod took over the claim and waits for the provider: the endpoint is still the earlier life's.
#[test]
fn a_machine_that_is_taking_over_keeps_its_claim() {
    let mut seen = world();
    add_claim(&mut seen, "p", "10.0.0.2", "ns/vm", "new");
    let owner = Some(("VirtualMachineInstance".to_owned(), "vm".to_owned()));
    seen.pods.insert(
        "ns/virt-launcher-vm-b".to_owned(),
        PodFact { owner, ..pod("new") },
    );
    let earlier = endpoint("old", ("VirtualMachineInstance", "vm"), &[("p", "10.0.0.2")]);
    seen.endpoints.insert("ns/vm".to_owned(), earlier);
    let judged = |seen: &Snapshot| opinion_of(seen, "p", "10.0.0.2", &Policy::default());
    assert_eq!(judged(&seen), Opinion::Keep(Keep::Alive));
    seen.pods.clear();
    assert_eq!(judged(&seen), Opinion::Abandoned(Cause::PodGone));
}
