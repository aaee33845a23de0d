//! Real agents beside a real controller that the API server asks about every change of a pool.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use orbweaver_api::pool::SpiderIPPool;
use orbweaver_cloud_sim::CloudOptions;
use orbweaver_controller::admission::injection::Injection;
use orbweaver_controller::admission::registration;
use orbweaver_controller::admission::review::Hook;
use orbweaver_loadtests::simulation::{PATIENCE, Simulation};
use orbweaver_loadtests::wait::until;
use serde_json::{Value, json};

/// Whose pools are judged: other tests may share a real cluster.
const LABEL: &str = "test.orbweaver.io/simulation";

async fn register(simulation: &Simulation, port: u16) {
    let entries = |path: &str| -> Vec<Value> {
        let hooks = [Hook::MutatePool, Hook::ValidatePool];
        let hooks = hooks.into_iter().filter(|hook| hook.path().starts_with(path));
        hooks
            .map(|hook| {
                let client = json!({ "url": format!("https://127.0.0.1:{port}{}", hook.path()) });
                let mut entry = registration::entry(hook, &client, &Injection::default());
                let labels = json!({ LABEL: simulation.namespace });
                entry["objectSelector"] = json!({ "matchLabels": labels });
                entry
            })
            .collect()
    };
    let configuration =
        |path: &str| json!({ "metadata": { "name": simulation.namespace }, "webhooks": entries(path) });
    let mutating: MutatingWebhookConfiguration = serde_json::from_value(configuration("/mutate")).unwrap();
    let validating: ValidatingWebhookConfiguration =
        serde_json::from_value(configuration("/validate")).unwrap();
    let params = PostParams::default();
    let client = || simulation.client.clone();
    Api::all(client()).create(&params, &mutating).await.unwrap();
    Api::all(client()).create(&params, &validating).await.unwrap();
}

async fn unregister(simulation: &Simulation) {
    let (name, params) = (&simulation.namespace, DeleteParams::default());
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(simulation.client.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(simulation.client.clone());
    mutating.delete(name, &params).await.unwrap();
    validating.delete(name, &params).await.unwrap();
}

/// S00003, with an address that a real agent gave to a pod.
#[tokio::test(flavor = "multi_thread")]
async fn an_address_of_a_pod_stays_in_its_pool_until_the_pod_has_gone() {
    let mut simulation = Simulation::start(CloudOptions::quick()).await.unwrap();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    register(&simulation, port).await;
    let name = simulation.namespace.clone();
    let listen = format!("127.0.0.1:{port}");
    let flags = [
        ("--webhook-listen", listen.as_str()),
        ("--mutating-webhook-configuration", &name),
        ("--validating-webhook-configuration", &name),
    ];
    let mut controller = simulation.start_controller_with(&flags).await.unwrap();

    let (a, b): (u8, u8) = (rand::random_range(20..220), rand::random());
    let yaml = format!(
        "apiVersion: spiderpool.spidernet.io/v2beta1\nkind: SpiderIPPool\nmetadata:\n  name: p\n  labels:\n    {LABEL}: {name}\n\
         spec:\n  subnet: 10.{a}.{b}.0/24\n  ips: [10.{a}.{b}.9, 10.{a}.{b}.8]\n"
    );
    // Until then nobody believes the webhook, and every pool is refused.
    let mut made = simulation.apply_pool(&yaml).await;
    let give_up = tokio::time::Instant::now() + PATIENCE;
    while made.is_err() && tokio::time::Instant::now() < give_up {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        made = simulation.apply_pool(&yaml).await;
    }
    let pool = made.unwrap();
    let agent = simulation.add_node("n1", "").await.unwrap();
    let kubelet = simulation.kubelet(&agent).unwrap();
    let sandbox = simulation.create_pod("p", agent.node(), &[&pool]).await.unwrap();
    let answer = kubelet.add(&sandbox, "eth0").await.unwrap();
    assert_eq!(
        answer.address().unwrap(),
        format!("10.{a}.{b}.8"),
        "{}",
        answer.text()
    );

    let pools: Api<SpiderIPPool> = Api::all(simulation.client.clone());
    let without = Patch::Merge(json!({ "spec": { "excludeIPs": [format!("10.{a}.{b}.8")] } }));
    let params = PatchParams::default();
    let refused = pools.patch(&pool, &params, &without).await.unwrap_err();
    let text = format!("remove an IP address 10.{a}.{b}.8 that is being used by Pod {name}/p");
    assert!(refused.to_string().contains(&text), "{refused}");

    simulation.end_pod(&kubelet, &sandbox).await.unwrap();
    pools.patch(&pool, &params, &without).await.unwrap();
    pools.delete(&pool, &DeleteParams::default()).await.unwrap();
    until("the pool is gone", PATIENCE, || async {
        match pools.get_opt(&pool).await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
    unregister(&simulation).await;
    assert!(
        controller.stop().await.unwrap().success(),
        "SIGTERM ends it with 0"
    );
    simulation.finish().await.unwrap();
}
