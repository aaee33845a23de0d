//! Ledgers and prewarming, against the simulated cluster.

use orbweaver_api::ledger::Binding;
use orbweaver_cloud_sim::CloudOptions;
use orbweaver_cloud_sim::options::Prewarm;
use serde_json::{Value, json};

use crate::scene::*;

fn spec() -> Value {
    json!({ "subnet": "10.0.0.0/24", "ips": ["10.0.0.10-10.0.0.19"] })
}

fn pooled(address: &str, parent: &str) -> Value {
    let mut item = item(address, parent);
    item["ipv4PoolName"] = json!("p");
    item
}

#[tokio::test]
async fn a_global_pool_gets_an_empty_ledger_and_then_its_sub_enis() {
    let scene = Scene::start(options()).await;
    scene.create("p", json!({}), spec()).await;
    scene
        .ledger_where("p", "an empty ledger", |ledger| ledger.entries.is_empty())
        .await;
    let bound = bind(&scene.cloud, "n1", pooled("10.0.0.10", PARENT_1)).await;
    let (pool, ledger) = scene
        .ledger_where("p", "an entry", |ledger| !ledger.entries.is_empty())
        .await;
    let entry = &ledger.entries[&"10.0.0.10".parse().unwrap()];
    let Binding::Bound { node, mac, vlan } = &entry.binding else {
        panic!("{entry:?}");
    };
    assert_eq!((node.as_str(), mac.to_string()), ("n1", bound.mac_address));
    assert_eq!(Some(i64::from(*vlan)), bound.vlan_id);
    let written = pool.status.unwrap().ip_meta_data.unwrap();
    assert_eq!(
        (written.ready_ip_count, written.unready_ip_count),
        (Some(1), Some(0))
    );
    assert_eq!(release(&scene.cloud, "n1", "10.0.0.10").await, 204);
    scene
        .ledger_where("p", "no entry", |ledger| ledger.entries.is_empty())
        .await;
    scene.finish().await;
}

#[tokio::test]
async fn the_ledger_never_touches_other_fields() {
    let scene = Scene::start(options()).await;
    scene.create("p", json!({}), spec()).await;
    scene.claim("p", &["10.0.0.10"]).await;
    scene
        .patch_status(
            "p",
            json!({ "totalIPCount": 10, "parentNic": { "name": "eth1", "mac": PARENT_2 } }),
        )
        .await;
    bind(&scene.cloud, "n1", pooled("10.0.0.10", PARENT_1)).await;
    let (before, _) = scene
        .ledger_where("p", "an entry", |ledger| ledger.entries.len() == 1)
        .await;
    bind(&scene.cloud, "n1", pooled("10.0.0.11", PARENT_1)).await;
    let (after, _) = scene
        .ledger_where("p", "two entries", |ledger| ledger.entries.len() == 2)
        .await;
    let others = |pool: &orbweaver_api::pool::SpiderIPPool| {
        let mut status = pool.status.clone().unwrap();
        status.ip_meta_data = None;
        (pool.spec.clone(), status)
    };
    assert_eq!(others(&before), others(&after));
    assert!(others(&after).1.allocated_ips.unwrap().contains("10.0.0.10"));
    let managers = after.metadata.managed_fields.unwrap_or_default();
    let own: Vec<_> = managers
        .iter()
        .filter(|entry| entry.manager.as_deref() == Some("iaas-network-provider"))
        .collect();
    assert_eq!(own.len(), 1);
    let fields = serde_json::to_value(own[0].fields_v1.as_ref().unwrap()).unwrap();
    let status: Vec<_> = fields["f:status"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(status, ["f:ipMetaData"]);
    scene.finish().await;
}

#[tokio::test]
async fn a_new_generation_gets_a_new_ledger() {
    let scene = Scene::start(options()).await;
    scene.create("p", json!({}), spec()).await;
    let (pool, _) = scene.ledger_where("p", "a ledger", |_| true).await;
    let patch = kube::api::Patch::Merge(json!({ "spec": { "ips": ["10.0.0.10-10.0.0.29"] } }));
    scene
        .pools
        .patch("p", &kube::api::PatchParams::default(), &patch)
        .await
        .unwrap();
    let (changed, _) = scene.ledger_where("p", "a ledger again", |_| true).await;
    assert!(changed.metadata.generation > pool.metadata.generation);
    // The pool has grown since the provider first saw it.
    bind(&scene.cloud, "n1", pooled("10.0.0.25", PARENT_1)).await;
    scene.finish().await;
}

#[tokio::test]
async fn a_node_level_pool_is_prewarmed_once_its_parent_nic_is_known() {
    let scene = Scene::start(CloudOptions {
        prewarm: Prewarm {
            count: Some(7),
            batch: 3,
            ..Prewarm::default()
        },
        ..options()
    })
    .await;
    let mut spec = spec();
    spec["nodeName"] = json!(["n1"]);
    scene.create("p", json!({}), spec).await;
    scene
        .ledger_where("p", "an empty ledger", |ledger| ledger.entries.is_empty())
        .await;
    assert!(scene.cloud.sub_enis().is_empty());
    scene
        .patch_status("p", json!({ "parentNic": { "name": "eth1", "mac": PARENT_1 } }))
        .await;
    let (_, ledger) = scene
        .ledger_where("p", "seven entries", |ledger| ledger.entries.len() == 7)
        .await;
    let on_node = |binding: &Binding| matches!(binding, Binding::Bound { node, .. } if node == "n1");
    assert!(ledger.entries.values().all(|entry| on_node(&entry.binding)));
    let all = scene.cloud.sub_enis();
    assert_eq!(all.len(), 7);
    assert!(
        all.iter()
            .all(|found| found.parent_nic_mac().unwrap().to_string() == PARENT_1)
    );
    assert_eq!(scene.cloud.counters().tokens, 3);
    scene.finish().await;
}

#[tokio::test]
async fn a_pair_is_prewarmed_with_v6_of_its_sibling_which_has_no_ledger() {
    let scene = Scene::start(options()).await;
    let mut four = spec();
    four["nodeName"] = json!(["n1"]);
    let six = json!({ "subnet": "fd00::/64", "ips": ["fd00::1-fd00::ffff"], "nodeName": ["n1"] });
    scene
        .create("p", json!({ "ipam.spidernet.io/pair-pool": "p6" }), four)
        .await;
    scene
        .patch_status("p", json!({ "parentNic": { "name": "eth1", "mac": PARENT_1 } }))
        .await;
    scene.ledger_where("p", "a ledger", |_| true).await;
    scene
        .create("p6", json!({ "ipam.spidernet.io/pair-pool": "p" }), six)
        .await;
    let (_, ledger) = scene
        .ledger_where("p", "ten pairs", |ledger| ledger.entries.len() == 10)
        .await;
    let sixes: std::collections::BTreeSet<_> =
        ledger.entries.values().filter_map(|entry| entry.ipv6).collect();
    assert_eq!(sixes.len(), 10);
    let sibling = scene.pools.get("p6").await.unwrap();
    assert_eq!(sibling.status.unwrap_or_default().ip_meta_data, None);
    scene.finish().await;
}

#[tokio::test]
async fn an_ask_that_its_pool_does_not_have_is_refused() {
    let scene = Scene::start(options()).await;
    scene.create("p", json!({}), spec()).await;
    let (status, text) = allocate(&scene.cloud, &ask("n1", &[pooled("10.0.0.99", PARENT_1)])).await;
    assert_eq!(status, 400);
    assert!(
        text.contains("ipv4Address") && text.contains("10.0.0.99"),
        "{text}"
    );
    let mut unknown = pooled("10.0.0.10", PARENT_1);
    unknown["ipv4PoolName"] = json!("nowhere");
    let (status, text) = allocate(&scene.cloud, &ask("n1", &[unknown])).await;
    assert_eq!(status, 400);
    assert!(text.contains("ipv4PoolName"), "{text}");
    scene.finish().await;
}

#[tokio::test]
async fn a_restarted_provider_goes_on_from_the_clouds_list() {
    let scene = Scene::start(options()).await;
    scene.create("p", json!({}), spec()).await;
    let bound = bind(&scene.cloud, "n1", pooled("10.0.0.10", PARENT_1)).await;
    scene
        .ledger_where("p", "an entry", |ledger| ledger.entries.len() == 1)
        .await;
    scene.cloud.stop_provider().await;
    // What happens to the ledger meanwhile is put right.
    scene.patch_status("p", json!({ "ipMetaData": null })).await;
    scene.cloud.restart_provider().await;
    scene
        .ledger_where("p", "the entry again", |ledger| ledger.entries.len() == 1)
        .await;
    assert_eq!(
        bind(&scene.cloud, "n1", pooled("10.0.0.10", PARENT_1)).await,
        bound
    );
    scene.finish().await;
}

#[tokio::test]
async fn a_pool_that_is_gone_takes_its_sub_enis_with_it() {
    let scene = Scene::start(options()).await;
    scene.create("p", json!({}), spec()).await;
    bind(&scene.cloud, "n1", pooled("10.0.0.10", PARENT_1)).await;
    scene
        .pools
        .delete("p", &kube::api::DeleteParams::default())
        .await
        .unwrap();
    until("the sub-ENI is gone", || async {
        scene.cloud.sub_enis().is_empty().then_some(())
    })
    .await;
    scene.finish().await;
}
