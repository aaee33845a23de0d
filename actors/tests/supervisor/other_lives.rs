//! Laws of what one life of a pod may take from another, and of what an operator is told (reference §2.6, §2.7).

use orbweaver_actors::error::IpamError;
use orbweaver_actors::request::AddRequest;
use orbweaver_actors::store::StatefulOwner;
use orbweaver_actors::supervisor::SupervisorHandle;
use serde_json::{Value, json};

use crate::world::{World, add, del, global, plain};

const SET: (&str, &str, &str) = ("apps/v1", "StatefulSet", "db");
const PODS: &str = "ipam.spidernet.io/ippools";

fn world(pools: &[Value]) -> std::sync::Arc<World> {
    let world = World::new(pools);
    let set = StatefulOwner::StatefulSet {
        first: 0,
        replicas: 1,
    };
    world.state.lock().stateful.insert("shop/db".to_owned(), set);
    world
}

fn of_nic(uid: &str, nic: &str) -> AddRequest {
    let mut request = add("db-0", uid);
    nic.clone_into(&mut request.attachment.nic);
    request
}

async fn given(supervisor: &SupervisorHandle, uid: &str, nic: &str) -> String {
    let given = supervisor.add(of_nic(uid, nic)).await.unwrap();
    given.addresses[0].address.addr().to_string()
}

async fn ends(world: &World, supervisor: &SupervisorHandle, uid: &str) {
    world.end_pod("db-0");
    supervisor.del(del("db-0", uid)).await.unwrap();
}

/// A00017: the first ADD takes over for all NICs, and every NIC is judged by its own pools.
#[actix::test]
async fn each_nic_of_a_stateful_pod_moves_when_its_own_pools_are_others_now() {
    let world = world(&[
        plain("p", "10.7.0.20"),
        plain("q", "10.7.0.30"),
        plain("r", "10.7.0.40"),
    ]);
    let (supervisor, _fatal) = world.supervise(8);
    let pods = |net1: &str| {
        let nics = json!([{ "interface": "eth0", "ipv4": ["p"] }, { "interface": "net1", "ipv4": [net1] }]);
        json!({ PODS: nics.to_string() })
    };
    for (uid, net1, expected) in [
        ("u1", "q", "10.7.0.30"),
        ("u2", "q", "10.7.0.30"),
        ("u3", "r", "10.7.0.40"),
    ] {
        world.add_annotated_owned("db-0", uid, &pods(net1), SET);
        for _ in 0..2 {
            assert_eq!(given(&supervisor, uid, "eth0").await, "10.7.0.20", "{uid}");
            assert_eq!(given(&supervisor, uid, "net1").await, expected, "{uid}");
        }
        ends(&world, &supervisor, uid).await;
    }
    assert!(world.claims("q").is_empty(), "what was left is given up");
}

/// Reference §2.7: without names all stand or fall together; a slot that is lost leaves no pod without a NIC.
#[actix::test]
async fn nics_without_names_of_which_one_is_lost_are_all_given_anew() {
    let world = world(&[
        plain("p", "10.7.0.20-10.7.0.21"),
        plain("q", "10.7.0.30-10.7.0.31"),
    ]);
    let (supervisor, _fatal) = world.supervise(8);
    let nics = json!({ PODS: json!([{ "ipv4": ["p"] }, { "ipv4": ["q"] }]).to_string() });
    world.add_annotated_owned("db-0", "u1", &nics, SET);
    given(&supervisor, "u1", "eth0").await;
    given(&supervisor, "u1", "net1").await;
    world.set_claim("q", "10.7.0.30", "shop/thief", "t");
    ends(&world, &supervisor, "u1").await;
    world.add_annotated_owned("db-0", "u2", &nics, SET);
    assert_eq!(given(&supervisor, "u2", "eth0").await, "10.7.0.20");
    assert_eq!(given(&supervisor, "u2", "net1").await, "10.7.0.31");
    assert_eq!((world.claims("p").len(), world.claims("q").len()), (1, 2));
}

/// The pod was deleted by force and is on another node already, which this node's watch does not tell yet.
#[actix::test]
async fn an_earlier_life_takes_nothing_from_a_later_one_that_its_node_has_not_heard_of() {
    for owned in [true, false] {
        let world = world(&[plain("p", "10.7.0.20-10.7.0.29")]);
        let put = |uid: &str| {
            if owned {
                world.add_owned("db-0", uid, &["p"], SET);
            } else {
                world.add_pod("db-0", uid, &["p"]);
            }
        };
        let (first, _fatal) = world.supervise_on("n1");
        let (second, _fatal2) = world.supervise_on("n2");
        put("u2");
        given(&second, "u2", "eth0").await;
        let later = world.state.lock().pods["shop/db-0"].clone();
        put("u1");
        world
            .state
            .lock()
            .later_pods
            .insert("shop/db-0".to_owned(), later);
        let refused = first.add(add("db-0", "u1")).await.unwrap_err();
        assert!(
            matches!(refused, IpamError::PodUnknown { .. }),
            "owned: {owned}, {refused}"
        );
        assert_eq!(world.claims("p"), [("10.7.0.20".to_owned(), "u2".to_owned())]);
        let endpoint = world.state.lock().endpoints["shop/db-0"].clone();
        let current = &endpoint.status.current;
        assert_eq!((current.uid.as_str(), current.node.as_str()), ("u2", "n2"));
    }
}

/// D00002.
#[actix::test]
async fn a_pod_that_comes_back_gets_the_gateway_and_the_routes_of_today() {
    let world = world(&[plain("p", "10.7.0.20")]);
    let (supervisor, _fatal) = world.supervise(8);
    world.add_owned("db-0", "u1", &["p"], SET);
    given(&supervisor, "u1", "eth0").await;
    ends(&world, &supervisor, "u1").await;
    {
        let mut state = world.state.lock();
        let mut pool = state.pools["p"].as_ref().clone();
        pool.spec.gateway = Some("10.7.0.254".to_owned());
        pool.metadata.resource_version = Some("1000".to_owned());
        state.pools.insert("p".to_owned(), pool.into());
    }
    let (supervisor, _fatal) = world.supervise(8);
    let pools = json!({ "ipv4": ["p"] }).to_string();
    let routes = json!([{ "dst": "1.2.3.4/16", "gw": "10.7.0.9" }]).to_string();
    let annotations = json!({ "ipam.spidernet.io/ippool": pools, "ipam.spidernet.io/routes": routes });
    world.add_annotated_owned("db-0", "u2", &annotations, SET);
    for _ in 0..2 {
        let given = supervisor.add(add("db-0", "u2")).await.unwrap();
        assert_eq!(given.addresses[0].address.addr().to_string(), "10.7.0.20");
        assert_eq!(given.addresses[0].gateway.as_deref(), Some("10.7.0.254"));
        assert_eq!(given.routes[0].dst, "1.2.0.0/16", "as the kernel takes it");
    }
}

/// Seed "Pool candidate class exclusivity": an address of a lower class is not kept either.
#[actix::test]
async fn a_stateful_pod_leaves_a_plain_pool_once_a_provider_pool_is_named_beside_it() {
    let world = world(&[plain("p", "10.7.0.20"), global("g", "10.7.0.10", json!({}))]);
    let (supervisor, _fatal) = world.supervise(8);
    world.add_owned("db-0", "u1", &["p"], SET);
    assert_eq!(given(&supervisor, "u1", "eth0").await, "10.7.0.20");
    ends(&world, &supervisor, "u1").await;
    world.add_owned("db-0", "u2", &["p", "g"], SET);
    assert_eq!(given(&supervisor, "u2", "eth0").await, "10.7.0.10");
    assert!(world.claims("p").is_empty());
}

/// Its annotations decide; without them a pool of a lower place would be taken.
#[actix::test]
async fn a_namespace_that_the_watch_does_not_know_yet_is_waited_for() {
    let mut default = plain("p", "10.7.0.20");
    default["spec"]["default"] = json!(true);
    let world = world(&[default]);
    let (supervisor, _fatal) = world.supervise(8);
    let pod = json!({ "metadata": { "name": "db-0", "namespace": "new", "uid": "u1" } });
    let pod = std::sync::Arc::new(serde_json::from_value(pod).unwrap());
    world.state.lock().pods.insert("new/db-0".to_owned(), pod);
    let mut request = add("db-0", "u1");
    "new".clone_into(&mut request.attachment.namespace);
    let refused = supervisor.add(request).await.unwrap_err();
    assert!(
        refused.temporary() && refused.to_string().contains("namespace new"),
        "{refused}"
    );
    assert!(world.claims("p").is_empty());
}

/// The case in which somebody looks: the class that counts has nothing for this node.
#[actix::test]
async fn ignored_pools_are_told_even_when_nothing_else_is_left() {
    let mut elsewhere = global("g", "10.7.0.10", json!({}));
    elsewhere["spec"]["nodeName"] = json!(["n2"]);
    let world = world(&[plain("p", "10.7.0.20"), elsewhere]);
    let (supervisor, _fatal) = world.supervise(8);
    world.add_pod("db-0", "u1", &["p", "g"]);
    let refused = supervisor.add(add("db-0", "u1")).await.unwrap_err().to_string();
    assert!(
        refused.contains("g: spec.nodeName") && refused.contains("p: a provider pool is configured"),
        "{refused}"
    );
    assert_eq!(world.state.lock().warnings.len(), 1);
}

#[actix::test]
async fn an_explanation_ends_as_the_add_does() {
    let world = world(&[plain("p", "10.7.0.20"), plain("q", "10.7.0.30")]);
    let (supervisor, _fatal) = world.supervise(8);
    let pool = json!({ "ipv4": ["p"] }).to_string();
    let slots = json!([{ "ipv4": ["p"] }, { "ipv4": ["q"] }]).to_string();
    let refusal = |nic: &str| supervisor.explain(&of_nic("u1", nic)).unwrap().refusal;

    world.add_annotated("db-0", "u1", &json!({ "ipam.spidernet.io/ippool": pool }));
    assert_eq!(refusal("eth0"), None);
    let routes = json!({ "ipam.spidernet.io/ippool": pool, "ipam.spidernet.io/routes": "[{}]" });
    world.add_annotated("db-0", "u1", &routes);
    assert!(refusal("eth0").unwrap().contains("ipam.spidernet.io/routes"));

    world.add_annotated("db-0", "u1", &json!({ PODS: slots }));
    for nic in ["eth0", "net1"] {
        given(&supervisor, "u1", nic).await;
        assert_eq!(refusal(nic), None);
    }
    assert!(refusal("net2").unwrap().contains("2 items"));

    world.add_owned("db-0", "u2", &["p"], SET);
    let back = supervisor.explain(&of_nic("u2", "eth0")).unwrap();
    assert_eq!(back.comes_back_to.as_deref(), Some("shop/db-0"));
    let mut dead = world.state.lock().pods["shop/db-0"].as_ref().clone();
    dead.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    world
        .state
        .lock()
        .pods
        .insert("shop/db-0".to_owned(), dead.into());
    assert!(
        supervisor
            .explain(&of_nic("u2", "eth0"))
            .unwrap()
            .refusal
            .unwrap()
            .contains("dead pod")
    );
}
