//! Pods through an API server: what they get, and that nobody waits for a controller that is away.

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, DynamicObject, PostParams};
use kube::core::ApiResource;
use orbweaver_api::annotation::MULTUS_NETWORKS;
use orbweaver_api::multus_config::SpiderMultusConfig;
use serde_json::json;

use crate::world::{World, until};

const NIC: &str = "spidernet.io/eth1-nic";

async fn config(world: &World, name: &str, network: Option<&str>) {
    let resource = ApiResource::erase::<SpiderMultusConfig>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), &world.name, &resource);
    let spec = json!({ "cniType": "vlan", "vlan": { "master": ["eth1"], "vlanMode": "auto" } });
    let mut object = world.object::<SpiderMultusConfig>(name, &spec);
    object.metadata.name = Some(name.to_owned());
    if let Some(network) = network {
        let key = "multus.spidernet.io/cr-name".to_owned();
        object.annotations_mut().insert(key, network.to_owned());
    }
    api.create(&PostParams::default(), &object).await.unwrap();
}

fn pod(world: &World, name: &str, network: &str) -> Pod {
    let labels = world
        .object::<SpiderMultusConfig>("any", &json!({}))
        .labels()
        .clone();
    serde_json::from_value(json!({
        "metadata": { "name": name, "labels": labels, "annotations": { MULTUS_NETWORKS: network } },
        "spec": { "containers": [{ "name": "a", "image": "a" }] },
    }))
    .unwrap()
}

async fn namespace(world: &World, name: &str) {
    let object: Namespace = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
    let api = Api::all(world.client.clone());
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// What a new pod of a namespace would ask for.
async fn limit(world: &World, namespace: &str, pod: &Pod) -> Option<String> {
    let api: Api<Pod> = Api::namespaced(world.client.clone(), namespace);
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let made = api.create(&dry, pod).await.unwrap();
    let limits = made.spec?.containers.into_iter().next()?.resources?.limits?;
    limits.get(NIC).map(|quantity| quantity.0.clone())
}

/// H00001.
#[tokio::test]
async fn a_pod_asks_for_what_its_networks_need_in_namespaces_that_are_not_excluded() {
    let world = World::start(1).await;
    let excluded = world.named("left-alone");
    namespace(&world, &excluded).await;
    config(&world, "plain", None).await;
    config(&world, "renamed", Some("other")).await;
    for network in ["plain", "other"] {
        let pod = pod(&world, "p", &format!("{}/{network}", world.name));
        until("the network is known", async || {
            limit(&world, &world.name, &pod).await
        })
        .await;
        assert_eq!(limit(&world, &world.name, &pod).await.as_deref(), Some("1"));
        assert_eq!(limit(&world, &excluded, &pod).await, None);
        assert_eq!(limit(&world, "kube-system", &pod).await, None);
    }
    let unknown = pod(&world, "p", &format!("{}/renamed", world.name));
    assert_eq!(limit(&world, &world.name, &unknown).await, None);
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    namespaces
        .delete(&excluded, &DeleteParams::default())
        .await
        .unwrap();
    world.end().await;
}

#[tokio::test]
async fn without_a_controller_pods_start_everywhere_and_pools_do_not_change() {
    let mut world = World::start(1).await;
    config(&world, "plain", None).await;
    let network = format!("{}/plain", world.name);
    let waiting = pod(&world, "p", &network);
    until("the network is known", async || {
        limit(&world, &world.name, &waiting).await
    })
    .await;
    let stopped = world.servers.remove(0);
    drop(stopped);
    for namespace in ["kube-system", world.name.as_str()] {
        until("the webhook is away", async || {
            limit(&world, namespace, &waiting).await.is_none().then_some(())
        })
        .await;
    }
    let pool = world.pool("p", "0.0/24", &["0.1"]);
    world
        .pools()
        .create(&PostParams::default(), &pool)
        .await
        .unwrap_err();
    world.end().await;
}
