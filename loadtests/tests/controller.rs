//! The real controller beside real agents.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use orbweaver_api::pool::SpiderIPPool;
use orbweaver_cloud_sim::CloudOptions;
use orbweaver_loadtests::simulation::{PATIENCE, Simulation};
use orbweaver_loadtests::wait::until;

const PLAIN: &str = include_str!("../../examples/plain.yaml");

#[tokio::test(flavor = "multi_thread")]
async fn a_pool_is_counted_and_goes_only_when_its_last_address_is_back() {
    let mut simulation = Simulation::start(CloudOptions::quick()).await.unwrap();
    let mut controller = simulation.start_controller().await.unwrap();
    let held = PLAIN.replace(
        "name: plain\n",
        "name: plain\n  finalizers: [spiderpool.spidernet.io]\n",
    );
    let pool = simulation.apply_pool(&held).await.unwrap();
    let agent = simulation.add_node("n1", "").await.unwrap();
    let kubelet = simulation.kubelet(&agent).unwrap();
    let sandbox = simulation.create_pod("p", agent.node(), &[&pool]).await.unwrap();
    assert!(kubelet.add(&sandbox, "eth0").await.unwrap().success);
    let pools: Api<SpiderIPPool> = Api::all(simulation.client.clone());
    until("the pool is counted", PATIENCE, || async {
        let status = pools
            .get(&pool)
            .await
            .map_err(|error| error.to_string())?
            .status
            .unwrap_or_default();
        let counts = (status.total_ip_count, status.allocated_ip_count);
        if counts == (Some(90), Some(1)) {
            Ok(())
        } else {
            Err(format!("{counts:?}"))
        }
    })
    .await
    .unwrap();

    pools.delete(&pool, &DeleteParams::default()).await.unwrap();
    let late = simulation
        .create_pod("late", agent.node(), &[&pool])
        .await
        .unwrap();
    let refused = kubelet.add(&late, "eth0").await.unwrap();
    assert!(refused.text().contains("terminating"), "{refused:?}");
    assert!(
        pools
            .get(&pool)
            .await
            .unwrap()
            .finalizers()
            .contains(&"spiderpool.spidernet.io".to_owned())
    );

    simulation.end_pod(&kubelet, &sandbox).await.unwrap();
    until("the pool is gone", PATIENCE, || async {
        match pools.get_opt(&pool).await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
    assert!(
        controller.stop().await.unwrap().success(),
        "SIGTERM ends it with 0"
    );
    simulation.finish().await.unwrap();
}
