//! Addresses that are never handed out (reference §9.2), whether the agent knew of them when it started or not.

use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use orbweaver_api::pool::SpiderIPPool;
use orbweaver_api::reserved_ip::SpiderReservedIP;
use orbweaver_cloud_sim::CloudOptions;
use orbweaver_loadtests::kubelet::Kubelet;
use orbweaver_loadtests::node::Agent;
use orbweaver_loadtests::simulation::{PATIENCE, Simulation};
use orbweaver_loadtests::wait::until;
use serde_json::json;

const POOL: &str = "
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata: {name: p}
spec: {subnet: 10.130.0.0/24, gateway: 10.130.0.1, ips: ['10.130.0.10-10.130.0.13'], excludeIPs: [EXCLUDED]}
";

const CANARY: &str = "
apiVersion: spiderpool.spidernet.io/v2beta1
kind: SpiderIPPool
metadata: {name: canary}
spec: {subnet: 10.131.0.0/24, gateway: 10.131.0.1, ips: ['10.131.0.10']}
";

/// ADD of a pod of that name: the address, or the refusal.
async fn add(
    simulation: &Simulation,
    agent: &Agent,
    kubelet: &Kubelet,
    name: &str,
    pool: &str,
) -> Result<String, String> {
    let pod = simulation.create_pod(name, agent.node(), &[pool]).await.unwrap();
    let answer = kubelet.add(&pod, "eth0").await.unwrap();
    if !answer.success {
        simulation.end_pod(kubelet, &pod).await.unwrap();
    }
    answer.address().ok_or(answer.text())
}

async fn reserve(simulation: &Simulation, short: &str, ips: &[&str]) -> String {
    let name = simulation.name(short);
    let object: SpiderReservedIP = serde_json::from_value(
        json!({ "metadata": { "name": name }, "spec": { "ipVersion": 4, "ips": ips } }),
    )
    .unwrap();
    let api: Api<SpiderReservedIP> = Api::all(simulation.client.clone());
    api.create(&PostParams::default(), &object).await.unwrap();
    name
}

/// S00001.
#[tokio::test(flavor = "multi_thread")]
async fn a_reserved_address_is_never_handed_out() {
    let mut simulation = Simulation::start(CloudOptions::quick()).await.unwrap();
    let early = reserve(&simulation, "early", &["10.130.0.10"]).await;
    let pool = simulation
        .apply_pool(&POOL.replace("EXCLUDED", ""))
        .await
        .unwrap();
    let canary = simulation.apply_pool(CANARY).await.unwrap();
    let agent = simulation.add_node("n1", "").await.unwrap();
    let kubelet = simulation.kubelet(&agent).unwrap();
    let first = add(&simulation, &agent, &kubelet, "first", &pool).await;
    assert_eq!(first.as_deref(), Ok("10.130.0.11"), "10.130.0.10 is reserved");

    // One object for both pools: once the canary is refused, the agent knows the object.
    let late = reserve(&simulation, "late", &["10.130.0.12", "10.131.0.10-10.131.0.20"]).await;
    let known = until("the reserved address is known", PATIENCE, || async {
        let pod = simulation
            .create_pod("canary", agent.node(), &[&canary])
            .await
            .unwrap();
        let answer = kubelet.add(&pod, "eth0").await.unwrap();
        simulation.end_pod(&kubelet, &pod).await.unwrap();
        match answer.address() {
            Some(address) => Err(address),
            None => Ok(()),
        }
    });
    known.await.unwrap();
    let second = add(&simulation, &agent, &kubelet, "second", &pool).await;
    assert_eq!(second.as_deref(), Ok("10.130.0.13"), "10.130.0.12 is reserved");
    let third = add(&simulation, &agent, &kubelet, "third", &pool).await;
    assert!(
        third.as_ref().is_err_and(|why| why.contains("used out")),
        "{third:?}"
    );
    assert_eq!(
        simulation.picture().await.unwrap().audit().unwrap(),
        Vec::<String>::new()
    );
    let api: Api<SpiderReservedIP> = Api::all(simulation.client.clone());
    for name in [early, late] {
        api.delete(&name, &DeleteParams::default()).await.unwrap();
    }
    simulation.finish().await.unwrap();
}

/// S00002.
#[tokio::test(flavor = "multi_thread")]
async fn an_excluded_address_is_never_handed_out() {
    let mut simulation = Simulation::start(CloudOptions::quick()).await.unwrap();
    let pool = simulation
        .apply_pool(&POOL.replace("EXCLUDED", "'10.130.0.10'"))
        .await
        .unwrap();
    let agent = simulation.add_node("n1", "").await.unwrap();
    let kubelet = simulation.kubelet(&agent).unwrap();
    let first = add(&simulation, &agent, &kubelet, "first", &pool).await;
    assert_eq!(first.as_deref(), Ok("10.130.0.11"), "10.130.0.10 is excluded");

    let excluded = json!({ "spec": { "excludeIPs": ["10.130.0.10", "10.130.0.12"] } });
    let api: Api<SpiderIPPool> = Api::all(simulation.client.clone());
    let params = PatchParams::default();
    api.patch(&pool, &params, &Patch::Merge(excluded)).await.unwrap();
    let second = add(&simulation, &agent, &kubelet, "second", &pool).await;
    assert_eq!(
        second.as_deref(),
        Ok("10.130.0.13"),
        "10.130.0.12 is excluded since, and no write of an older version counts"
    );
    let third = add(&simulation, &agent, &kubelet, "third", &pool).await;
    assert!(
        third.as_ref().is_err_and(|why| why.contains("used out")),
        "{third:?}"
    );
    assert_eq!(
        simulation.picture().await.unwrap().audit().unwrap(),
        Vec::<String>::new()
    );
    simulation.finish().await.unwrap();
}
