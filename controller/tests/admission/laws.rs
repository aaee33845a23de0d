//! The cases of the reference's catalogue (§9.1, §9.2) that admission decides, through an API server. Those of
//! allocation are in `actors/tests/selection.rs`.

use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Error, ResourceExt};
use orbweaver_api::annotation::{IAAS_PROVIDER, PAIR_POOL, PARENT_NIC};
use orbweaver_api::pool::SpiderIPPool;
use orbweaver_api::reserved_ip::SpiderReservedIP;
use orbweaver_controller::admission::Settings;
use serde_json::{Value, json};

use crate::world::World;

/// What the API server said, and about which fields; `None`: it did as asked.
#[track_caller]
fn refusal(outcome: Result<DynamicObject, Error>) -> Option<(String, Vec<String>)> {
    match outcome {
        Ok(_) => None,
        Err(Error::Api(status)) => {
            assert_eq!(
                (status.code, status.reason.as_str()),
                (422, "Invalid"),
                "{status:?}"
            );
            let causes = status.details.into_iter().flat_map(|details| details.causes);
            Some((status.message, causes.map(|cause| cause.field).collect()))
        }
        Err(other) => panic!("{other}"),
    }
}

#[track_caller]
fn refused(outcome: Result<DynamicObject, Error>, field: &str, text: &str) {
    let (message, fields) = refusal(outcome).unwrap();
    assert_eq!(fields, [field], "{message}");
    assert!(message.contains(text), "{message}");
}

async fn create(api: &Api<DynamicObject>, object: &DynamicObject) -> Result<DynamicObject, Error> {
    api.create(&PostParams::default(), object).await
}

async fn merge(api: &Api<DynamicObject>, name: &str, patch: Value) -> Result<DynamicObject, Error> {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
}

/// A claim of an address, written as an agent does.
async fn claim(world: &World, name: &str, address: &str) {
    let claims = json!({ world.at(address): { "pod": "ns/web-0", "podUid": "u" } });
    let status = json!({ "status": { "allocatedIPs": claims.to_string(), "allocatedIPCount": 1 } });
    let (params, patch) = (PatchParams::default(), Patch::Merge(status));
    world.pools().patch_status(name, &params, &patch).await.unwrap();
}

fn annotated(mut object: DynamicObject, annotations: &[(&str, &str)]) -> DynamicObject {
    for (key, value) in annotations {
        object
            .annotations_mut()
            .insert((*key).to_owned(), (*value).to_owned());
    }
    object
}

/// D00001.
#[tokio::test]
async fn an_address_of_another_pool_is_neither_taken_nor_added() {
    let world = World::start(1).await;
    let pools = world.pools();
    create(&pools, &world.pool("a", "0.0/24", &["0.1-0.9"]))
        .await
        .unwrap();
    let text = format!(
        "overlap with IPPool {} in IP ranges [{}]",
        world.named("a"),
        world.at("0.9")
    );
    let outcome = create(&pools, &world.pool("b", "0.0/24", &["0.9-0.20"])).await;
    refused(outcome, "spec.ips", &text);
    create(&pools, &world.pool("b", "0.0/24", &["0.10-0.20"]))
        .await
        .unwrap();
    let grown = json!({ "spec": { "ips": [world.at("0.9-0.20")] } });
    refused(merge(&pools, &world.named("b"), grown).await, "spec.ips", &text);
    let contained = world.pool("c", "0.0/25", &["0.30"]);
    let text = format!(
        "overlap with IPPool {} which 'spec.subnet' is {}",
        world.named("a"),
        world.at("0.0/24")
    );
    let (message, fields) = refusal(create(&pools, &contained).await).unwrap();
    assert_eq!(
        fields,
        ["spec.subnet", "spec.subnet"],
        "each of both pools is named"
    );
    assert!(message.contains(&text), "{message}");
    world.end().await;
}

/// D00003.
#[tokio::test]
async fn a_wrong_gateway_or_route_is_refused_and_a_right_one_may_come_later() {
    let world = World::start(1).await;
    let pools = world.pools();
    create(&pools, &world.pool("p", "0.0/24", &["0.10-0.20"]))
        .await
        .unwrap();
    let name = world.named("p");
    let spec = |spec: Value| merge(&pools, &name, json!({ "spec": spec }));
    let gateway = |at: &str| json!({ "gateway": world.at(at) });
    refused(spec(gateway("1.1")).await, "spec.gateway", "does not belong");
    refused(
        spec(gateway("0.15")).await,
        "spec.ips",
        "conflicts with 'spec.gateway'",
    );
    let route = |dst: &str, gw: &str| json!({ "routes": [{ "dst": dst, "gw": world.at(gw) }] });
    let text = "please specify 'spec.gateway'";
    refused(spec(route("0.0.0.0/0", "0.1")).await, "spec.routes[0].dst", text);
    refused(
        spec(route("10.9.0.0/16", "1.1")).await,
        "spec.routes[0].gw",
        "does not belong",
    );
    // D00002: what pods have by then is not touched.
    spec(gateway("0.1")).await.unwrap();
    spec(route("10.9.0.0/16", "0.2")).await.unwrap();
    world.end().await;
}

/// D00004.
#[tokio::test]
async fn a_pool_in_use_is_not_deleted_where_that_is_guarded_and_waits_elsewhere() {
    let mut world = World::bare().await;
    for guard_deletes in [true, false] {
        world
            .add_server(Settings {
                guard_deletes,
                ..Settings::default()
            })
            .await;
    }
    for replica in 0..2 {
        world.register(replica).await;
        world.is_asked(replica).await;
        let name = format!("p{replica}");
        let pool = World::for_replica(world.pool(&name, "0.0/24", &[&format!("0.{replica}")]), replica);
        create(&world.pools(), &pool).await.unwrap();
        claim(&world, &pool.name_any(), &format!("0.{replica}")).await;
    }
    let (pools, params) = (world.pools(), DeleteParams::default());
    let outcome = pools.delete(&world.named("p0"), &params).await;
    let Err(Error::Api(status)) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(
        status
            .message
            .contains("cannot delete an IPPool with allocated IPs"),
        "{status:?}"
    );
    pools.delete(&world.named("p1"), &params).await.unwrap();
    let waits = pools.get(&world.named("p1")).await.unwrap();
    assert!(waits.metadata.deletion_timestamp.is_some());
    let changed = merge(&pools, &world.named("p1"), json!({ "spec": { "disable": true } })).await;
    refused(changed, "metadata.deletionTimestamp", "being deleted");
    world.end().await;
}

/// D00005, D00007, D00009, D00011, D00013, D00014, D00016: every field that allocation goes by is kept as written.
#[tokio::test]
async fn a_pool_is_made_read_changed_and_removed_with_all_of_its_fields() {
    let world = World::start(1).await;
    let pools = world.pools();
    let labels = |value: &str| json!({ "matchLabels": { "app": value } });
    let spec = json!({
        "subnet": world.at("0.0/24"), "ips": [world.at("0.1-0.9")], "multusName": ["kube-system/net"],
        "nodeName": ["node-1"], "nodeAffinity": labels("node"), "namespaceName": ["ns"],
        "namespaceAffinity": labels("ns"), "podAffinity": labels("pod"), "disable": true, "default": true,
    });
    let made = create(&pools, &world.object::<SpiderIPPool>("p", &spec))
        .await
        .unwrap();
    for (field, value) in spec.as_object().unwrap() {
        assert_eq!(&made.data["spec"][field], value, "{field}");
    }
    claim(&world, &made.name_any(), "0.5").await;
    let changes = json!({ "spec": { "disable": false, "multusName": [], "nodeName": ["node-2"] } });
    merge(&pools, &made.name_any(), changes).await.unwrap();
    let free = json!({ "metadata": { "finalizers": null } });
    pools
        .delete(&made.name_any(), &DeleteParams::default())
        .await
        .unwrap();
    merge(&pools, &made.name_any(), free).await.unwrap();
    assert!(pools.get_opt(&made.name_any()).await.unwrap().is_none());
    world.end().await;
}

/// D00017.
#[tokio::test]
async fn a_huge_v6_pool_costs_nothing_and_its_pair_is_counted_without_expanding_it() {
    let world = World::start(1).await;
    let pools = world.pools();
    let net = format!("fd00:{}", world.at("1").replace('.', ":"));
    let six = json!({ "subnet": format!("{net}::/64"), "ips": [format!("{net}::1-{net}::ffff:ffff:ffff")] });
    let six = world.object::<SpiderIPPool>("six", &six);
    let six = annotated(six, &[(PAIR_POOL, &world.named("four"))]);
    create(&pools, &six).await.unwrap();
    let four = world.pool("four", "0.0/16", &["0.1-0.200"]);
    let four = annotated(four, &[(PAIR_POOL, &world.named("six"))]);
    create(&pools, &four).await.unwrap();
    let few = json!({ "spec": { "ips": [format!("{net}::1-{net}::9")] } });
    let text = "static capacity (200) must be <=";
    let field = format!("metadata.annotations[{PAIR_POOL}]");
    refused(merge(&pools, &world.named("six"), few).await, &field, text);
    world.end().await;
}

/// S00001.
#[tokio::test]
async fn reserved_addresses_are_completed_may_overlap_and_keep_their_family() {
    let world = World::start(1).await;
    let reserved = world.reserved();
    let ips = |ips: &[&str]| {
        let all: Vec<String> = ips.iter().map(|range| world.at(range)).collect();
        json!({ "ips": all })
    };
    let object = |name: &str, spec: &Value| world.object::<SpiderReservedIP>(name, spec);
    let made = create(&reserved, &object("r", &ips(&["0.2", "0.1"])))
        .await
        .unwrap();
    assert_eq!(
        made.data["spec"],
        json!({ "ipVersion": 4, "ips": [world.at("0.1-0.2")] })
    );
    create(&reserved, &object("s", &ips(&["0.1"]))).await.unwrap();
    let six = json!({ "spec": { "ipVersion": 6, "ips": ["fd00::1"] } });
    assert!(refusal(merge(&reserved, &made.name_any(), six).await).is_some());
    let wrong = object("t", &json!({ "ips": [world.at("0.1"), "x", "fd00::1"] }));
    let (_, fields) = refusal(create(&reserved, &wrong).await).unwrap();
    assert_eq!(fields, ["spec.ips[1]", "spec.ips[2]"]);
    reserved
        .delete(&made.name_any(), &DeleteParams::default())
        .await
        .unwrap();
    world.end().await;
}

/// S00002, S00003, S00004.
#[tokio::test]
async fn excluded_addresses_lie_in_the_subnet_and_are_not_in_use() {
    let world = World::start(1).await;
    let pools = world.pools();
    create(&pools, &world.pool("p", "0.0/24", &["0.1-0.9"]))
        .await
        .unwrap();
    let name = world.named("p");
    claim(&world, &name, "0.5").await;
    let exclude = |ranges: &[&str]| {
        let all: Vec<String> = ranges.iter().map(|range| world.at(range)).collect();
        merge(&pools, &name, json!({ "spec": { "excludeIPs": all } }))
    };
    let text = format!(
        "remove an IP address {} that is being used by Pod ns/web-0",
        world.at("0.5")
    );
    refused(exclude(&["0.4-0.6"]).await, "spec.excludeIPs", &text);
    refused(exclude(&["1.1"]).await, "spec.excludeIPs[0]", "does not belong");
    refused(exclude(&["0.9-0.8"]).await, "spec.excludeIPs[0]", "ends before");
    let merged = exclude(&["0.9", "0.8"]).await.unwrap();
    assert_eq!(merged.data["spec"]["excludeIPs"], json!([world.at("0.8-0.9")]));
    let without = json!({ "spec": { "ips": [world.at("0.1-0.4")] } });
    refused(merge(&pools, &name, without).await, "spec.ips", &text);
    world.end().await;
}

/// Reference §6.6.
#[tokio::test]
async fn a_marked_pool_keeps_its_mode_its_mark_and_its_parent_nic() {
    let world = World::start(1).await;
    let pools = world.pools();
    let marks = [(IAAS_PROVIDER, "cloud"), (PARENT_NIC, "eth1")];
    let global = annotated(world.pool("g", "0.0/24", &["0.1"]), &marks);
    let made = create(&pools, &global).await.unwrap();
    assert_eq!(made.labels()[IAAS_PROVIDER], "cloud");
    let name = made.name_any();
    let text = "cannot add or remove 'spec.nodeName' on an IaaS pool";
    let pinned = json!({ "spec": { "nodeName": ["n"] } });
    refused(merge(&pools, &name, pinned).await, "spec.nodeName", text);
    let mut two = annotated(world.pool("n", "1.0/24", &["1.1"]), &marks);
    two.data["spec"]["nodeName"] = json!(["n", "m"]);
    let text = "an IaaS node-level pool must be pinned to exactly one node";
    refused(create(&pools, &two).await, "spec.nodeName", text);
    claim(&world, &name, "0.1").await;
    for key in [IAAS_PROVIDER, PARENT_NIC] {
        let removed = json!({ "metadata": { "annotations": { key: null } } });
        let text = format!("cannot modify annotation {key} while the IPPool has allocated IPs");
        let field = format!("metadata.annotations[{key}]");
        refused(merge(&pools, &name, removed).await, &field, &text);
    }
    let myself = json!({ "metadata": { "annotations": { PAIR_POOL: name } } });
    let field = format!("metadata.annotations[{PAIR_POOL}]");
    let text = "cannot reference itself as a pair pool";
    refused(merge(&pools, &name, myself).await, &field, text);
    world.end().await;
}

/// D00008: SpiderSubnets are not served, so nothing of one gets into a pool behind its author's back.
#[tokio::test]
async fn a_pool_beside_a_subnet_inherits_nothing_and_is_taken_as_it_is_written() {
    let world = World::start(1).await;
    let kind = kube::core::GroupVersionKind::gvk("spiderpool.spidernet.io", "v2beta1", "SpiderSubnet");
    let subnets: Api<DynamicObject> =
        Api::all_with(world.client.clone(), &kube::core::ApiResource::from_gvk(&kind));
    let subnet: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderSubnet",
        "metadata": { "name": world.named("s") },
        "spec": {
            "subnet": world.at("0.0/24"), "gateway": world.at("0.1"),
            "routes": [{ "dst": "172.16.0.0/12", "gw": world.at("0.2") }],
        },
    }))
    .unwrap();
    create(&subnets, &subnet).await.unwrap();
    let made = create(&world.pools(), &world.pool("p", "0.0/24", &["0.9"]))
        .await
        .unwrap();
    assert!(made.data["spec"]["gateway"].is_null(), "{}", made.data);
    let routes = made.data["spec"]["routes"].as_array();
    assert!(routes.is_none_or(Vec::is_empty), "{}", made.data);
    subnets
        .delete(&world.named("s"), &DeleteParams::default())
        .await
        .unwrap();
    world.end().await;
}
