//! What the definitions refuse by themselves when no webhook is there (reference §1, design §7).

use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::{Error, ResourceExt};
use orbweaver_api::pool::SpiderIPPool;
use orbweaver_api::reserved_ip::SpiderReservedIP;
use serde_json::{Value, json};

use crate::world::World;

async fn said(api: &Api<DynamicObject>, name: &str, patch: Value) -> Option<String> {
    let params = PatchParams::default();
    match api.patch(name, &params, &Patch::Merge(patch)).await {
        Ok(_) => None,
        Err(Error::Api(status)) => {
            assert_eq!(status.code, 422, "{status:?}");
            Some(status.message)
        }
        Err(other) => panic!("{other}"),
    }
}

#[tokio::test]
async fn without_a_webhook_family_and_subnet_still_stay() {
    let world = World::bare().await;
    let (pools, reserved, params) = (world.pools(), world.reserved(), PostParams::default());
    let spec = json!({ "subnet": world.at("0.0/24"), "ipVersion": 4, "ips": [] });
    let pool = world.object::<SpiderIPPool>("p", &spec);
    let name = pool.name_any();
    pools.create(&params, &pool).await.unwrap();
    let spec = |spec: Value| said(&pools, &name, json!({ "spec": spec }));
    let moved = spec(json!({ "subnet": world.at("1.0/24") })).await.unwrap();
    assert!(moved.contains("spec.subnet is not changeable"), "{moved}");
    let turned = spec(json!({ "ipVersion": 6 })).await.unwrap();
    assert!(turned.contains("spec.ipVersion is not changeable"), "{turned}");
    assert_eq!(spec(json!({ "ips": [world.at("0.1")] })).await, None);

    let kept = world.object::<SpiderReservedIP>("r", &json!({ "ipVersion": 4, "ips": [world.at("0.1")] }));
    reserved.create(&params, &kept).await.unwrap();
    let turned = json!({ "spec": { "ipVersion": 6 } });
    assert!(said(&reserved, &kept.name_any(), turned).await.is_some());
    if world.is_real() {
        // Rules of this form are not simulated.
        let removed = spec(json!({ "ipVersion": null })).await.unwrap();
        assert!(removed.contains("spec.ipVersion is not changeable"), "{removed}");
        let crossed = json!({ "subnet": world.at("2.0/24"), "ipVersion": 6 });
        let crossed = world.object::<SpiderIPPool>("x", &crossed);
        pools.create(&params, &crossed).await.unwrap_err();
    }
    world.end().await;
}

#[tokio::test]
async fn without_a_webhook_a_pool_with_a_ledger_still_keeps_its_mode() {
    let world = World::bare().await;
    if !world.is_real() {
        // Such rules are not simulated.
        return;
    }
    let pools = world.pools();
    for (short, nodes) in [("g", json!([])), ("n", json!(["n"]))] {
        let spec = json!({ "subnet": world.at("0.0/24"), "nodeName": nodes });
        let pool = world.object::<SpiderIPPool>(short, &spec);
        let name = pool.name_any();
        pools.create(&PostParams::default(), &pool).await.unwrap();
        let spec = |nodes: Value| said(&pools, &name, json!({ "spec": { "nodeName": nodes } }));
        assert_eq!(spec(json!(["a", "b"])).await, None, "a plain pool may");
        assert_eq!(spec(nodes.clone()).await, None);
        let ledger = json!({ "status": { "ipMetaData": { "observedGeneration": 1 } } });
        let (params, ledger) = (PatchParams::default(), Patch::Merge(ledger));
        pools.patch_status(&name, &params, &ledger).await.unwrap();
        let other = if short == "g" { json!(["n"]) } else { Value::Null };
        let message = spec(other).await.unwrap();
        let text = "cannot add or remove 'spec.nodeName' on an IaaS pool";
        assert!(message.contains(text), "{message}");
        let message = spec(json!(["a", "b"])).await.unwrap();
        assert!(message.contains("exactly one node"), "{message}");
    }
    world.end().await;
}
