//! Laws of pods that come back: StatefulSets and virtual machines (reference §2.6, §2.7, §2.13).

use std::sync::Arc;

use orbweaver_actors::error::ProviderError;
use orbweaver_actors::store::StatefulOwner;
use orbweaver_actors::supervisor::SupervisorHandle;
use serde_json::{Value, json};

use crate::world::{World, add, del, global, plain};

const SET: (&str, &str, &str) = ("apps/v1", "StatefulSet", "db");

fn replicas(world: &World, replicas: i64) {
    let set = StatefulOwner::StatefulSet { first: 0, replicas };
    world.state.lock().stateful.insert("shop/db".to_owned(), set);
}

async fn address(supervisor: &SupervisorHandle, pod: &str, uid: &str) -> String {
    let given = supervisor.add(add(pod, uid)).await.unwrap();
    given.addresses[0].address.addr().to_string()
}

/// The pod ends, kubelet says DEL, and the same name comes again.
async fn restart(
    world: &Arc<World>,
    supervisor: &SupervisorHandle,
    pod: &str,
    uids: [&str; 2],
    pools: &[&str],
) {
    world.end_pod(pod);
    supervisor.del(del(pod, uids[0])).await.unwrap();
    world.add_owned(pod, uids[1], pools, SET);
}

fn entry(node: &str) -> Value {
    json!({ "mac": "fa:16:3e:00:00:12", "vlan": 212, "node": node })
}

/// E00003, L00008.
#[actix::test]
async fn a_stateful_pod_gets_its_address_again_on_whatever_node_it_comes_back() {
    let world = World::new(&[plain("p", "10.7.0.20-10.7.0.29")]);
    replicas(&world, 2);
    let (first, _fatal) = world.supervise_on("n1");
    let (second, _fatal2) = world.supervise_on("n2");
    for pod in ["db-0", "db-1"] {
        world.add_owned(pod, &format!("{pod}-1"), &["p"], SET);
        address(&first, pod, &format!("{pod}-1")).await;
    }
    restart(&world, &first, "db-1", ["db-1-1", "db-1-2"], &["p"]).await;
    assert_eq!(
        world.claims("p").len(),
        2,
        "it keeps its address while it is away"
    );
    assert_eq!(address(&second, "db-1", "db-1-2").await, "10.7.0.21");
    assert_eq!(
        world.claims("p"),
        [("10.7.0.20", "db-0-1"), ("10.7.0.21", "db-1-2")].map(|(a, b)| (a.to_owned(), b.to_owned()))
    );
    let endpoint = world.state.lock().endpoints["shop/db-1"].clone();
    let current = &endpoint.status.current;
    assert_eq!(
        (current.uid.as_str(), current.node.as_str(), current.ips.len()),
        ("db-1-2", "n2", 1)
    );
    assert!(
        endpoint.metadata.owner_references.is_none(),
        "the endpoint outlives the pod"
    );
    first.del(del("db-1", "db-1-1")).await.unwrap();
    assert_eq!(
        world.claims("p").len(),
        2,
        "a late DEL of the earlier life takes nothing"
    );
    assert_eq!(
        address(&second, "db-1", "db-1-2").await,
        "10.7.0.21",
        "and again the same"
    );
}

#[actix::test]
async fn a_stateful_pod_that_is_scaled_away_gives_its_address_up() {
    let world = World::new(&[plain("p", "10.7.0.20-10.7.0.29")]);
    let (supervisor, _fatal) = world.supervise(8);
    for (pod, left) in [("db-1", Some(1)), ("db-0", None)] {
        replicas(&world, 2);
        world.add_owned(pod, "u", &["p"], SET);
        address(&supervisor, pod, "u").await;
        match left {
            Some(left) => replicas(&world, left),
            None => world.state.lock().stateful.clear(),
        }
        world.end_pod(pod);
        supervisor.del(del(pod, "u")).await.unwrap();
        assert!(world.claims("p").is_empty() && world.state.lock().endpoints.is_empty());
    }
}

#[actix::test]
async fn a_bare_pod_of_that_name_inherits_nothing_and_an_address_that_another_holds_is_not_taken() {
    let world = World::new(&[plain("p", "10.7.0.20-10.7.0.29")]);
    replicas(&world, 1);
    let (supervisor, _fatal) = world.supervise(8);
    world.add_owned("db-0", "u1", &["p"], SET);
    address(&supervisor, "db-0", "u1").await;
    world.set_claim("p", "10.7.0.20", "shop/thief", "t");
    restart(&world, &supervisor, "db-0", ["u1", "u2"], &["p"]).await;
    assert_eq!(address(&supervisor, "db-0", "u2").await, "10.7.0.21");
    assert!(
        world
            .claims("p")
            .contains(&("10.7.0.20".to_owned(), "t".to_owned()))
    );
    world.end_pod("db-0");
    world.add_pod("db-0", "u3", &["p"]);
    assert_eq!(
        address(&supervisor, "db-0", "u3").await,
        "10.7.0.22",
        "it is not the set's pod"
    );
}

/// A00009, A00017.
#[actix::test]
async fn a_stateful_pod_whose_pools_are_others_now_moves_to_them_and_gives_the_old_address_up() {
    let world = World::new(&[plain("p", "10.7.0.20"), plain("q", "10.7.0.30")]);
    replicas(&world, 1);
    let (supervisor, _fatal) = world.supervise(8);
    world.add_owned("db-0", "u1", &["p"], SET);
    address(&supervisor, "db-0", "u1").await;
    restart(&world, &supervisor, "db-0", ["u1", "u2"], &["q"]).await;
    assert_eq!(address(&supervisor, "db-0", "u2").await, "10.7.0.30");
    assert!(world.claims("p").is_empty());
    restart(&world, &supervisor, "db-0", ["u2", "u3"], &["q", "p"]).await;
    assert_eq!(
        address(&supervisor, "db-0", "u3").await,
        "10.7.0.30",
        "one pool more is no other selection"
    );
}

/// A00018.
#[actix::test]
async fn nics_without_names_come_back_together_or_not_at_all() {
    let world = World::new(&[
        plain("p", "10.7.0.20-10.7.0.29"),
        plain("q", "10.7.0.30-10.7.0.39"),
    ]);
    replicas(&world, 1);
    let (supervisor, _fatal) = world.supervise(8);
    let pods = |pools: [&str; 2]| {
        let nics = json!([{ "ipv4": [pools[0]] }, { "ipv4": [pools[1]] }]);
        json!({ "ipam.spidernet.io/ippools": nics.to_string() })
    };
    let add_net1 = |uid: &str| {
        let mut request = add("db-0", uid);
        "net1".clone_into(&mut request.attachment.nic);
        request
    };
    let given = async |uid: &str| {
        let eth0 = address(&supervisor, "db-0", uid).await;
        let net1 = supervisor.add(add_net1(uid)).await.unwrap();
        (eth0, net1.addresses[0].address.addr().to_string())
    };
    let expected = |eth0: &str, net1: &str| (eth0.to_owned(), net1.to_owned());
    world.add_annotated_owned("db-0", "u1", &pods(["p", "q"]), SET);
    assert_eq!(given("u1").await, expected("10.7.0.20", "10.7.0.30"));
    world.end_pod("db-0");
    supervisor.del(del("db-0", "u1")).await.unwrap();
    world.add_annotated_owned("db-0", "u2", &pods(["p", "q"]), SET);
    assert_eq!(given("u2").await, expected("10.7.0.20", "10.7.0.30"));
    world.end_pod("db-0");
    supervisor.del(del("db-0", "u2")).await.unwrap();
    world.add_annotated_owned("db-0", "u3", &pods(["p", "p"]), SET);
    assert_eq!(given("u3").await, expected("10.7.0.20", "10.7.0.21"));
    assert!(world.claims("q").is_empty());
}

/// UID, pools by NIC, and the addresses of three pools that are claimed then.
type Life<'a> = (&'a str, &'a [(&'a str, &'a str)], [&'a str; 3]);

/// A00010, A00017: whichever NIC comes first, the others' own words count for them.
#[actix::test]
async fn of_named_nics_each_stays_or_goes_by_its_own_pools() {
    let world = World::new(&[
        plain("p", "10.7.0.20"),
        plain("q", "10.7.0.30"),
        plain("r", "10.7.0.40"),
    ]);
    replicas(&world, 1);
    let (supervisor, _fatal) = world.supervise(8);
    let given = async |uid: &str, nic: &str| {
        let mut request = add("db-0", uid);
        nic.clone_into(&mut request.attachment.nic);
        let given = supervisor.add(request).await.unwrap();
        given.addresses[0].address.addr().to_string()
    };
    let lives: [Life; 4] = [
        (
            "u1",
            &[("eth0", "p"), ("net1", "q")],
            ["10.7.0.20", "10.7.0.30", ""],
        ),
        (
            "u2",
            &[("eth0", "p"), ("net1", "r")],
            ["10.7.0.20", "", "10.7.0.40"],
        ),
        (
            "u3",
            &[("net1", "r"), ("eth0", "q")],
            ["", "10.7.0.30", "10.7.0.40"],
        ),
        ("u4", &[("eth0", "q")], ["", "10.7.0.30", ""]),
    ];
    for (uid, nics, claimed) in lives {
        let items = nics
            .iter()
            .map(|(nic, pool)| json!({ "interface": nic, "ipv4": [pool] }));
        let text = items.collect::<Value>().to_string();
        let annotations = json!({ "ipam.spidernet.io/ippools": text });
        world.add_annotated_owned("db-0", uid, &annotations, SET);
        for (nic, pool) in nics {
            let place = ["p", "q", "r"].iter().position(|one| one == pool).unwrap();
            assert_eq!(given(uid, nic).await, claimed[place], "{nic} of {uid}");
        }
        for (pool, address) in ["p", "q", "r"].into_iter().zip(claimed) {
            let expected = (!address.is_empty()).then(|| (address.to_owned(), uid.to_owned()));
            assert_eq!(world.claims(pool), Vec::from_iter(expected), "{pool} of {uid}");
        }
        world.end_pod("db-0");
        supervisor.del(del("db-0", uid)).await.unwrap();
    }
}

#[actix::test]
async fn the_provider_is_told_of_the_new_node_and_a_failed_word_loses_nothing() {
    let world = World::new(&[global("g", "10.7.0.12", json!({ "10.7.0.12": entry("n1") }))]);
    replicas(&world, 1);
    let (first, _fatal) = world.supervise_on("n1");
    let (second, _fatal2) = world.supervise_on("n2");
    world.add_owned("db-0", "u1", &["g"], SET);
    address(&first, "db-0", "u1").await;
    assert!(world.state.lock().allocates.is_empty(), "a hit");
    restart(&world, &first, "db-0", ["u1", "u2"], &["g"]).await;
    world
        .state
        .lock()
        .provider_fails
        .push_back(ProviderError::Rejected("not now".into()));
    second.add(add("db-0", "u2")).await.unwrap_err();
    assert_eq!(
        world.claims("g"),
        [("10.7.0.12".to_owned(), "u2".to_owned())],
        "nobody else gets it meanwhile"
    );
    let given = second.add(add("db-0", "u2")).await.unwrap();
    assert_eq!(
        (given.addresses[0].vlan, given.addresses[0].mac.as_deref()),
        (Some(9), Some("fa:16:3e:00:00:09"))
    );
    let nodes: Vec<String> = world
        .state
        .lock()
        .allocates
        .iter()
        .map(|call| call.node_name.clone())
        .collect();
    assert_eq!(nodes, ["n2", "n2"]);
    world.end_pod("db-0");
    second.del(del("db-0", "u2")).await.unwrap();
    assert!(world.state.lock().releases.is_empty());
}

#[actix::test]
async fn an_address_of_a_node_level_pool_stays_on_its_node() {
    let node_pool = |name: &str, node: &str, address: &str| {
        let mut pool = global(name, address, json!({}));
        pool["spec"]["nodeName"] = json!([node]);
        let ledger =
            json!({ "scope": node, "ips": { address: { "mac": "fa:16:3e:00:00:12", "vlan": 212 } } })
                .to_string();
        pool["status"] = json!({ "ipMetaData": { "metadata": ledger, "observedGeneration": 1 } });
        pool
    };
    let world = World::new(&[
        node_pool("one", "n1", "10.7.0.12"),
        node_pool("two", "n2", "10.7.0.13"),
    ]);
    replicas(&world, 1);
    let (first, _fatal) = world.supervise_on("n1");
    let (second, _fatal2) = world.supervise_on("n2");
    world.add_owned("db-0", "u1", &["one", "two"], SET);
    assert_eq!(address(&first, "db-0", "u1").await, "10.7.0.12");
    restart(&world, &first, "db-0", ["u1", "u2"], &["one", "two"]).await;
    assert_eq!(address(&second, "db-0", "u2").await, "10.7.0.13");
    assert!(world.claims("one").is_empty());
}

#[actix::test]
async fn on_a_provider_network_the_sub_eni_of_a_plain_address_follows_and_is_released_when_given_up() {
    let world = World::new(&[plain("p", "10.7.0.20"), plain("q", "10.7.0.30")]);
    replicas(&world, 1);
    world
        .state
        .lock()
        .provider_networks
        .push("kube-system/cloud".to_owned());
    let (first, _fatal) = world.supervise_on("n1");
    let (second, _fatal2) = world.supervise_on("n2");
    let annotations = |pool: &str| {
        json!({
            "ipam.spidernet.io/ippool": json!({ "ipv4": [pool] }).to_string(),
            "v1.multus-cni.io/default-network": "kube-system/cloud",
        })
    };
    world.add_annotated_owned("db-0", "u1", &annotations("p"), SET);
    assert_eq!(address(&first, "db-0", "u1").await, "10.7.0.20");
    world.end_pod("db-0");
    first.del(del("db-0", "u1")).await.unwrap();
    assert!(world.state.lock().releases.is_empty(), "it will be wanted again");
    world.add_annotated_owned("db-0", "u2", &annotations("p"), SET);
    assert_eq!(address(&second, "db-0", "u2").await, "10.7.0.20");
    let told: Vec<(String, String)> = world
        .state
        .lock()
        .allocates
        .iter()
        .map(|call| (call.node_name.clone(), call.pod_uid.clone()))
        .collect();
    assert_eq!(
        told,
        [("n1", "u1"), ("n2", "u2")].map(|(a, b)| (a.to_owned(), b.to_owned()))
    );
    world.end_pod("db-0");
    second.del(del("db-0", "u2")).await.unwrap();
    world.add_annotated_owned("db-0", "u3", &annotations("q"), SET);
    assert_eq!(address(&first, "db-0", "u3").await, "10.7.0.30");
    let released: Vec<(String, String)> = world
        .state
        .lock()
        .releases
        .iter()
        .map(|call| (call.node_name.clone(), call.ip_address.clone()))
        .collect();
    assert_eq!(released, [("n2".to_owned(), "10.7.0.20".to_owned())]);
    assert!(world.claims("p").is_empty());
}

/// F00001: the endpoint is the machine's, and every pod that runs the machine finds it.
#[actix::test]
async fn a_virtual_machine_keeps_its_address_over_its_pods() {
    let machine = ("kubevirt.io/v1", "VirtualMachineInstance", "vm");
    let world = World::new(&[plain("p", "10.7.0.20-10.7.0.29")]);
    world
        .state
        .lock()
        .stateful
        .insert("shop/vm".to_owned(), StatefulOwner::VirtualMachine);
    let (supervisor, _fatal) = world.supervise(8);
    for (pod, uid) in [("virt-launcher-vm-a", "u1"), ("virt-launcher-vm-b", "u2")] {
        world.add_owned(pod, uid, &["p"], machine);
        assert_eq!(address(&supervisor, pod, uid).await, "10.7.0.20");
        assert!(world.state.lock().endpoints.contains_key("shop/vm"));
        world.end_pod(pod);
        supervisor.del(del(pod, uid)).await.unwrap();
        assert_eq!(world.claims("p"), [("10.7.0.20".to_owned(), uid.to_owned())]);
    }
    world.state.lock().stateful.clear();
    supervisor.del(del("virt-launcher-vm-b", "u2")).await.unwrap();
    assert!(world.claims("p").is_empty() && world.state.lock().endpoints.is_empty());
}
