//! The whole program, several times, as a chart starts it.

use std::process::Stdio;

use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PostParams};
use orbweaver_api::pool::SpiderIPPool;
use serde_json::json;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::process::Command;

use crate::world::{World, until};

/// A port that was free a moment ago.
async fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().port()
}

fn command(world: &World, folder: &TempDir, replica: usize, port: u16) -> Command {
    let kubeconfig = folder.path().join(format!("kubeconfig-{replica}"));
    std::fs::write(&kubeconfig, world.kubeconfig()).unwrap();
    let conf = folder.path().join(format!("conf-{replica}.yml"));
    std::fs::write(
        &conf,
        "enableIPv6: false\nenableValidatingResourcesDeletedWebhook: true\n",
    )
    .unwrap();
    let configuration = world.named(&replica.to_string());
    let mut command = Command::new(env!("CARGO_BIN_EXE_orbweaver-controller"));
    command
        .env("ORBWEAVER_NAMESPACE", &world.name)
        .args(["--identity", &format!("r{replica}")])
        .args(["--admin-listen", "127.0.0.1:0", "--log-level", "error"])
        .args(["--webhook-listen", &format!("127.0.0.1:{port}")])
        .args(["--mutating-webhook-configuration", &configuration])
        .args(["--validating-webhook-configuration", &configuration])
        .arg("--config")
        .arg(conf)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
}

#[tokio::test]
async fn replicas_of_the_program_judge_by_conf_yml_and_one_that_is_killed_is_not_missed() {
    let world = World::bare().await;
    let folder = tempfile::tempdir().unwrap();
    let mut replicas = Vec::new();
    for at in 0..2 {
        let port = free_port().await;
        replicas.push(command(&world, &folder, at, port).spawn().unwrap());
        world.register_port(at, port).await;
    }
    world.is_asked(0).await;
    world.is_asked(1).await;
    let secrets: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(world.client.clone(), &world.name);
    let shared = secrets.get("spiderpool-controller-server-certs").await.unwrap();
    assert!(shared.data.unwrap().contains_key("ca.key"));

    let six = world.object::<SpiderIPPool>("six", &json!({ "subnet": "fd00::/64", "ips": [] }));
    let (pools, params) = (world.pools(), PostParams::default());
    let refused = pools.create(&params, &six).await.unwrap_err().to_string();
    assert!(refused.contains("IPv6 is disabled"), "{refused}");

    replicas.remove(0).kill().await.unwrap();
    let left = World::for_replica(world.pool("p", "0.0/24", &["0.1"]), 1);
    pools.create(&params, &left).await.unwrap();
    // The one that is left leads, now or soon.
    until("the pool is counted", async || {
        let pool = pools.get(&left.name_any()).await.unwrap();
        (pool.data["status"]["totalIPCount"] == 1).then_some(())
    })
    .await;
    // Its finalizer goes past the webhook.
    pools
        .delete(&left.name_any(), &DeleteParams::default())
        .await
        .unwrap();
    until("the pool is gone", async || {
        pools
            .get_opt(&left.name_any())
            .await
            .unwrap()
            .is_none()
            .then_some(())
    })
    .await;
    world.end().await;
}

#[tokio::test]
async fn without_a_place_for_the_certificate_the_program_says_so_and_ends() {
    let world = World::bare().await;
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(&world, &folder, 0, 0);
    command.args(["--namespace", "nowhere"]).stderr(Stdio::piped());
    let ended = command.output().await.unwrap();
    assert!(!ended.status.success());
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(
        said.contains("secret spiderpool-controller-server-certs"),
        "{said}"
    );
    world.end().await;
}
