//! Laws of pods with several NICs, routes, Events and owners.

use orbweaver_actors::request::{AddRequest, Allocated};
use orbweaver_actors::supervisor::SupervisorHandle;
use serde_json::json;

use crate::world::{World, add, del, global, plain};

const PODS: &str = "ipam.spidernet.io/ippools";

fn add_nic(name: &str, uid: &str, nic: &str) -> AddRequest {
    let mut request = add(name, uid);
    nic.clone_into(&mut request.attachment.nic);
    request
}

async fn given(supervisor: &SupervisorHandle, nic: &str) -> String {
    address(&supervisor.add(add_nic("a", "u1", nic)).await.unwrap())
}

fn address(allocated: &Allocated) -> String {
    allocated.addresses[0].address.addr().to_string()
}

fn slots(world: &World) -> Vec<(String, String)> {
    let endpoint = world.state.lock().endpoints["shop/a"].clone();
    let ips = endpoint.status.current.ips.iter();
    ips.map(|nic| (nic.interface.clone(), nic.ipv4.clone().unwrap()))
        .collect()
}

/// A00010 and reference §2.10: the first ADD allocates for all, the later ones take their slot, and again the same.
#[actix::test]
async fn nics_without_names_are_all_allocated_at_once_and_taken_one_by_one() {
    let world = World::new(&[plain("p", "10.7.0.20-10.7.0.29"), plain("q", "10.7.0.30")]);
    let (supervisor, _fatal) = world.supervise(8);
    let nics = json!([{ "ipv4": ["p"] }, { "ipv4": ["q"] }, { "ipv4": ["p"], "cleangateway": true }]);
    world.add_annotated("a", "u1", &json!({ PODS: nics.to_string() }));
    assert_eq!(given(&supervisor, "eth0").await, "10.7.0.20");
    assert_eq!(
        slots(&world),
        [
            ("eth0", "10.7.0.20/24"),
            ("", "10.7.0.30/24"),
            ("", "10.7.0.21/24")
        ]
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
    );
    assert_eq!(given(&supervisor, "net1").await, "10.7.0.30");
    assert_eq!(given(&supervisor, "eth0").await, "10.7.0.20");
    let third = supervisor.add(add_nic("a", "u1", "net2")).await.unwrap();
    assert_eq!(
        (address(&third).as_str(), third.addresses[0].gateway.clone()),
        ("10.7.0.21", None)
    );
    assert_eq!(given(&supervisor, "net1").await, "10.7.0.30");
    let names: Vec<String> = slots(&world).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["eth0", "net1", "net2"]);
    let refused = supervisor
        .add(add_nic("a", "u1", "net3"))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("3 items") && refused.contains("net3"),
        "{refused}"
    );
    assert_eq!((world.claims("p").len(), world.claims("q").len()), (2, 1));
    world.end_pod("a");
    supervisor.del(del("a", "u1")).await.unwrap();
    assert!(world.claims("p").is_empty() && world.claims("q").is_empty());
}

/// A00016.
#[actix::test]
async fn an_exhausted_pool_of_one_nic_drains_no_pool_of_another_however_often_it_is_tried() {
    let world = World::new(&[plain("p", "10.7.0.20-10.7.0.29"), plain("full", "10.7.0.30")]);
    let (supervisor, _fatal) = world.supervise(8);
    world.add_pod("other", "u0", &["full"]);
    supervisor.add(add("other", "u0")).await.unwrap();
    let nameless = json!([{ "ipv4": ["p"] }, { "ipv4": ["full"] }]);
    world.add_annotated("a", "u1", &json!({ PODS: nameless.to_string() }));
    for _ in 0..3 {
        let failed = supervisor.add(add("a", "u1")).await.unwrap_err();
        assert_eq!(failed.reason(), "exhausted");
        assert!(world.claims("p").is_empty());
    }
    let named = json!([{ "interface": "eth0", "ipv4": ["p"] }, { "interface": "net1", "ipv4": ["full"] }]);
    world.add_annotated("b", "u2", &json!({ PODS: named.to_string() }));
    for _ in 0..3 {
        supervisor.add(add_nic("b", "u2", "eth0")).await.unwrap();
        supervisor.add(add_nic("b", "u2", "net1")).await.unwrap_err();
        assert_eq!(world.claims("p").len(), 1);
    }
}

#[actix::test]
async fn two_nics_of_a_pod_on_one_pool_get_two_addresses_and_share_no_sub_eni() {
    let world = World::new(&[global("g", "10.7.0.10-10.7.0.12", json!({}))]);
    let (supervisor, _fatal) = world.supervise(8);
    let nics = json!([{ "ipv4": ["g"] }, { "ipv4": ["g"] }]);
    world.add_annotated("a", "u1", &json!({ PODS: nics.to_string() }));
    assert_eq!(given(&supervisor, "eth0").await, "10.7.0.10");
    assert_eq!(given(&supervisor, "net1").await, "10.7.0.11");
    let calls = world.state.lock().allocates.clone();
    let items: Vec<&str> = calls
        .iter()
        .flat_map(|call| &call.sub_eni_requests)
        .map(|item| item.ipv4_address.as_str())
        .collect();
    assert_eq!(
        (calls.len(), items),
        (1, vec!["10.7.0.10", "10.7.0.11"]),
        "one call, an item for each NIC"
    );
}

/// A00002.
#[actix::test]
async fn routes_of_the_pod_go_to_the_nic_whose_subnet_holds_their_gateway() {
    let mut other = plain("q", "10.8.0.30");
    (other["spec"]["subnet"], other["spec"]["gateway"]) = (json!("10.8.0.0/24"), json!("10.8.0.1"));
    other["spec"]["routes"] = json!([{ "dst": "10.10.0.0/16", "gw": "10.8.0.2" }]);
    let world = World::new(&[plain("p", "10.7.0.20"), other]);
    let (supervisor, _fatal) = world.supervise(8);
    let nics = json!([{ "interface": "eth0", "ipv4": ["p"] }, { "interface": "net1", "ipv4": ["q"], "cleangateway": true }]);
    let routes =
        json!([{ "dst": "1.0.0.0/16", "gw": "10.7.0.9" }, { "dst": "2.0.0.0/16", "gw": "10.8.0.9" }]);
    world.add_annotated(
        "a",
        "u1",
        &json!({ PODS: nics.to_string(), "ipam.spidernet.io/routes": routes.to_string() }),
    );
    for (nic, expected, gateway) in [
        ("eth0", vec!["1.0.0.0/16"], Some("10.7.0.1")),
        ("net1", vec!["10.10.0.0/16", "2.0.0.0/16"], None),
    ] {
        for again in [false, true] {
            let given = supervisor.add(add_nic("a", "u1", nic)).await.unwrap();
            let destinations: Vec<&str> = given.routes.iter().map(|route| route.dst.as_str()).collect();
            assert_eq!(destinations, expected, "{nic}, again: {again}");
            assert_eq!(given.addresses[0].gateway.as_deref(), gateway);
        }
    }
}

/// A00003.
#[actix::test]
async fn malformed_routes_fail_the_add_before_anything_is_claimed() {
    let world = World::new(&[plain("p", "10.7.0.20")]);
    let (supervisor, _fatal) = world.supervise(8);
    let pool = json!({ "ipv4": ["p"] }).to_string();
    for routes in [
        "",
        "{}",
        r#"[{"dst":"1.0.0.0/16"}]"#,
        r#"[{"dst":"1.0.0.0/33","gw":"10.7.0.1"}]"#,
        r#"[{"dst":"1.0.0.0/16","gw":"fd00::1"}]"#,
    ] {
        world.add_annotated(
            "a",
            "u1",
            &json!({ "ipam.spidernet.io/ippool": pool, "ipam.spidernet.io/routes": routes }),
        );
        let failed = supervisor.add(add("a", "u1")).await.unwrap_err();
        assert!(
            failed.to_string().contains("ipam.spidernet.io/routes"),
            "{failed}"
        );
        assert_eq!((failed.reason(), failed.temporary()), ("wrong_annotation", false));
        assert!(world.claims("p").is_empty());
    }
}

#[actix::test]
async fn pools_of_a_lower_class_are_told_on_the_pod() {
    let world = World::new(&[plain("p", "10.7.0.20"), global("g", "10.7.0.10", json!({}))]);
    let (supervisor, _fatal) = world.supervise(8);
    world.add_pod("a", "u1", &["p", "g"]);
    supervisor.add(add("a", "u1")).await.unwrap();
    let warnings = world.state.lock().warnings.clone();
    assert_eq!(warnings.len(), 1);
    let (reason, subject, note) = &warnings[0];
    assert_eq!((*reason, subject.as_str()), ("IPPoolIgnored", "eth0"));
    assert!(note.contains("p: ") && note.contains("provider pool"), "{note}");
}

#[actix::test]
async fn the_endpoint_names_the_top_controller() {
    let world = World::new(&[plain("p", "10.7.0.20-10.7.0.29")]);
    let (supervisor, _fatal) = world.supervise(8);
    world.state.lock().above.insert(
        "nightly-1".to_owned(),
        serde_json::from_value(
            json!({ "apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "c" }),
        )
        .unwrap(),
    );
    for (pod, api_version, kind, owner, expected) in [
        ("a", "batch/v1", "Job", "nightly-1", ("CronJob", "nightly")),
        ("b", "batch/v1", "Job", "once", ("Job", "once")),
        ("c", "apps/v1", "DaemonSet", "agents", ("DaemonSet", "agents")),
        ("d", "example.com/v1", "Game", "chess", ("Game", "chess")),
    ] {
        world.add_owned(pod, &format!("u-{pod}"), &["p"], (api_version, kind, owner));
        supervisor.add(add(pod, &format!("u-{pod}"))).await.unwrap();
        let endpoint = world.state.lock().endpoints[&format!("shop/{pod}")].clone();
        let status = &endpoint.status;
        assert_eq!(
            (
                status.owner_controller_type.as_str(),
                status.owner_controller_name.as_str()
            ),
            expected
        );
        assert_eq!(
            endpoint.metadata.owner_references.as_ref().unwrap()[0].kind,
            "Pod",
            "a stateless pod takes its endpoint with it"
        );
    }
}

#[actix::test]
async fn a_pod_whose_namespace_was_not_seen_yet_is_not_given_what_another_source_names() {
    let mut pool = plain("p", "10.7.0.20");
    pool["spec"]["default"] = json!(true);
    let world = World::new(&[pool]);
    let (supervisor, _fatal) = world.supervise(8);
    world.add_annotated("a", "u1", &json!({}));
    let pod = world.state.lock().pods["shop/a"].clone();
    world.state.lock().pods.insert("new/a".to_owned(), pod);
    let mut request = add("a", "u1");
    "new".clone_into(&mut request.attachment.namespace);
    let failed = supervisor.add(request).await.unwrap_err();
    assert!(
        failed.temporary() && failed.to_string().contains("namespace new"),
        "{failed}"
    );
    assert!(world.claims("p").is_empty());
}
