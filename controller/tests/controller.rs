//! Whole controllers in this process, against the simulated cluster.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::ApiResource;
use kube::{Client, Config as KubeConfig};
use orbweaver_api::pool::SpiderIPPool;
use orbweaver_api::{FINALIZER, crd};
use orbweaver_cluster_sim::faults::{Fault, Rule};
use orbweaver_cluster_sim::{Cluster as Simulated, ClusterOptions};
use orbweaver_controller::cluster::Cluster;
use orbweaver_controller::config::{Config, LEASE_NAME};
use orbweaver_controller::lease::election::Timing;
use orbweaver_controller::{RunError, run};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

struct World {
    simulated: Simulated,
    kube: KubeConfig,
    client: Client,
    pools: Api<DynamicObject>,
}

async fn world() -> World {
    // Another test of this process may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let simulated = Simulated::start(ClusterOptions::default()).await.unwrap();
    let kubeconfig = Kubeconfig::from_yaml(&simulated.kubeconfig()).unwrap();
    let kube = KubeConfig::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    let client = Client::try_from(kube.clone()).unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in crd::all().unwrap() {
        definitions
            .create(&PostParams::default(), &definition)
            .await
            .unwrap();
    }
    let pools = Api::all_with(client.clone(), &ApiResource::erase::<SpiderIPPool>(&()));
    World {
        simulated,
        kube,
        client,
        pools,
    }
}

struct Controller {
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), RunError>>,
}

impl Controller {
    fn start(world: &World, identity: &str) -> Self {
        let mut config = Config::new(
            Cluster::Config(Box::new(world.kube.clone())),
            "kube-system",
            identity,
        );
        config.timing = Timing {
            lease: Duration::from_secs(3),
            renew_deadline: Duration::from_secs(1),
            retry: Duration::from_millis(100),
        };
        config.settle_delay = Duration::from_millis(200);
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(run(config, shutdown.clone()));
        Self { shutdown, task }
    }

    async fn stop(self) {
        self.shutdown.cancel();
        self.task.await.unwrap().unwrap();
    }
}

impl World {
    async fn create(&self, name: &str, ips: &[&str]) {
        let subnet = if ips[0].contains(':') {
            "fd00::/64"
        } else {
            "10.0.0.0/16"
        };
        let pool = json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
            "metadata": { "name": name, "finalizers": [FINALIZER, "example.com/other"] },
            "spec": { "subnet": subnet, "ips": ips },
        });
        let pool: DynamicObject = serde_json::from_value(pool).unwrap();
        self.pools.create(&PostParams::default(), &pool).await.unwrap();
    }

    async fn set_status(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({ "status": status }));
        self.pools
            .patch_status(name, &PatchParams::default(), &patch)
            .await
            .unwrap();
    }

    async fn pool(&self, name: &str) -> Option<Value> {
        let pool = self.pools.get_opt(name).await.unwrap();
        pool.map(|pool| serde_json::to_value(pool).unwrap())
    }

    async fn until(&self, name: &str, condition: impl Fn(Option<&Value>) -> bool) -> Option<Value> {
        let end = Instant::now() + Duration::from_secs(20);
        loop {
            let pool = self.pool(name).await;
            if condition(pool.as_ref()) {
                return pool;
            }
            assert!(Instant::now() < end, "never, it stays {pool:#?}");
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn until_counted(&self, name: &str, total: i64, allocated: i64) -> Value {
        let counted = |pool: Option<&Value>| {
            pool.is_some_and(|pool| {
                pool["status"]["totalIPCount"] == json!(total)
                    && pool["status"]["allocatedIPCount"] == json!(allocated)
            })
        };
        self.until(name, counted).await.unwrap()
    }

    async fn holder(&self) -> Option<String> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-system");
        leases.get_opt(LEASE_NAME).await.unwrap()?.spec?.holder_identity
    }
}

fn claims(count: u8) -> String {
    let claims: serde_json::Map<_, _> = (1..=count)
        .map(|index| (format!("10.0.0.{index}"), json!({ "pod": "ns/p", "podUid": "u" })))
        .collect();
    Value::Object(claims).to_string()
}

#[tokio::test]
async fn counters_come_true_and_nothing_else_is_touched() {
    let world = world().await;
    world.create("before", &["10.0.0.1-10.0.0.10"]).await;
    let controller = Controller::start(&world, "c");
    world.until_counted("before", 10, 0).await;
    world.create("v6", &["fd00::-fd00::ffff:ffff:ffff:ffff"]).await;
    world.until_counted("v6", i64::MAX, 0).await;

    // An agent forgot the count, the provider has its ledger there.
    let theirs =
        json!({ "allocatedIPs": claims(3), "ipMetaData": { "metadata": "{}", "observedGeneration": 1 } });
    world.set_status("before", theirs.clone()).await;
    let pool = world.until_counted("before", 10, 3).await;
    assert_eq!(pool["status"]["allocatedIPs"], theirs["allocatedIPs"]);
    assert_eq!(pool["status"]["ipMetaData"], theirs["ipMetaData"]);

    let shrink = Patch::Merge(json!({ "spec": { "excludeIPs": ["10.0.0.9-10.0.0.20"] } }));
    world
        .pools
        .patch("before", &PatchParams::default(), &shrink)
        .await
        .unwrap();
    world.until_counted("before", 8, 3).await;
    controller.stop().await;
}

#[tokio::test]
async fn a_terminating_pool_goes_only_when_empty() {
    let world = world().await;
    let controller = Controller::start(&world, "c");
    world.create("p", &["10.0.0.1-10.0.0.10"]).await;
    world
        .set_status("p", json!({ "allocatedIPs": claims(1), "allocatedIPCount": 1 }))
        .await;
    world.until_counted("p", 10, 1).await;
    world.pools.delete("p", &DeleteParams::default()).await.unwrap();
    // Another pool's creation and counting shows that the controller has passed by.
    world.create("q", &["10.0.0.1"]).await;
    world.until_counted("q", 1, 0).await;
    let held = world.pool("p").await.unwrap();
    assert_eq!(
        held["metadata"]["finalizers"],
        json!([FINALIZER, "example.com/other"])
    );
    world
        .set_status("p", json!({ "allocatedIPs": null, "allocatedIPCount": 0 }))
        .await;
    let others =
        |pool: Option<&Value>| pool.unwrap()["metadata"]["finalizers"] == json!(["example.com/other"]);
    world.until("p", others).await;
    controller.stop().await;
}

#[tokio::test]
async fn a_bad_pool_harms_no_other_and_recovers_when_corrected() {
    let world = world().await;
    let controller = Controller::start(&world, "c");
    world.create("bad", &["10.0.0.9-10.0.0.1"]).await;
    world.create("good", &["10.0.0.1-10.0.0.5"]).await;
    world.until_counted("good", 5, 0).await;
    assert_eq!(
        world.pool("bad").await.unwrap()["status"]["totalIPCount"],
        Value::Null
    );
    let correct = Patch::Merge(json!({ "spec": { "ips": ["10.0.0.1-10.0.0.9"] } }));
    world
        .pools
        .patch("bad", &PatchParams::default(), &correct)
        .await
        .unwrap();
    world.until_counted("bad", 9, 0).await;
    controller.stop().await;
}

#[tokio::test]
async fn refused_writes_and_dropped_watches_are_tried_again() {
    let world = world().await;
    for fault in [Fault::Refuse(500), Fault::Refuse(409), Fault::LoseReply] {
        world.simulated.faults().add(Rule {
            verb: "patch".to_owned(),
            resource: "spiderippools".to_owned(),
            times: 1,
            fault,
        });
    }
    let controller = Controller::start(&world, "c");
    world.create("p", &["10.0.0.1-10.0.0.10"]).await;
    world.until_counted("p", 10, 0).await;
    world.simulated.faults().drop_watches();
    world.simulated.compact();
    world.create("q", &["10.0.0.1-10.0.0.10"]).await;
    world.until_counted("q", 10, 0).await;
    controller.stop().await;
}

#[tokio::test]
async fn a_total_gets_through_to_a_pool_that_others_keep_writing() {
    let world = world().await;
    world.create("p", &["10.0.0.1-10.0.0.10"]).await;
    world
        .set_status("p", json!({ "allocatedIPs": claims(1), "allocatedIPCount": 1 }))
        .await;
    world.simulated.faults().add(Rule {
        verb: "patch".to_owned(),
        resource: "spiderippools".to_owned(),
        times: 4,
        fault: Fault::Refuse(409),
    });
    let controller = Controller::start(&world, "c");
    world.until_counted("p", 10, 1).await;
    controller.stop().await;
}

#[tokio::test]
async fn the_second_replica_takes_over_from_one_that_ends_and_from_one_that_dies() {
    let world = world().await;
    let first = Controller::start(&world, "first");
    world.create("p", &["10.0.0.1"]).await;
    world.until_counted("p", 1, 0).await;
    assert_eq!(world.holder().await.as_deref(), Some("first"));
    let second = Controller::start(&world, "second");
    first.stop().await;
    world.create("q", &["10.0.0.1"]).await;
    world.until_counted("q", 1, 0).await;
    assert_eq!(world.holder().await.as_deref(), Some("second"));
    let third = Controller::start(&world, "third");
    second.task.abort();
    world.create("r", &["10.0.0.1"]).await;
    world.until_counted("r", 1, 0).await;
    third.stop().await;
    assert_eq!(world.holder().await.as_deref(), Some(""));
}

#[tokio::test]
async fn a_broken_api_server_ends_nothing() {
    let world = world().await;
    let controller = Controller::start(&world, "c");
    world.create("p", &["10.0.0.1"]).await;
    world.until_counted("p", 1, 0).await;
    world.simulated.faults().set_outage(true);
    // So many attempts that the leader has had to step down.
    let attempts = || {
        world
            .simulated
            .counters()
            .count(|asked| asked.resource == "leases")
    };
    let (before, end) = (attempts(), Instant::now() + Duration::from_secs(20));
    while attempts() < before + 15 {
        assert!(Instant::now() < end, "it stopped asking");
        sleep(Duration::from_millis(20)).await;
    }
    world.simulated.faults().set_outage(false);
    world.create("q", &["10.0.0.1"]).await;
    world.until_counted("q", 1, 0).await;
    controller.stop().await;
}

#[tokio::test]
async fn the_definitions_hold_in_an_api_server() {
    let world = world().await;
    world.create("p", &["10.0.0.1"]).await;
    let spec = |pool: Value, field: &str| pool["spec"][field].clone();
    for field in ["default", "disable"] {
        assert_eq!(spec(world.pool("p").await.unwrap(), field), json!(false));
    }
    let change = async |field: &str, value: Value| {
        let mut patch = json!({ "spec": {} });
        patch["spec"][field] = value;
        let patch = Patch::Merge(patch);
        match world.pools.patch("p", &PatchParams::default(), &patch).await {
            Ok(pool) => Ok(serde_json::to_value(pool).unwrap()),
            Err(kube::Error::Api(status)) => Err((status.code, status.message)),
            Err(other) => panic!("{other}"),
        }
    };
    let set = change("ipVersion", json!(4)).await.unwrap();
    assert_eq!(spec(set, "ipVersion"), 4, "the webhook may infer it later");
    for (field, value) in [("ipVersion", json!(6)), ("subnet", json!("10.1.0.0/16"))] {
        let (code, message) = change(field, value).await.unwrap_err();
        assert_eq!(code, 422);
        assert!(message.contains("not changeable"), "{message}");
    }
    assert_eq!(change("ipVersion", json!(5)).await.unwrap_err().0, 422);
    assert_eq!(change("ips", json!("10.0.0.1")).await.unwrap_err().0, 422);
    let defaulted = change("default", Value::Null).await.unwrap();
    assert_eq!(spec(defaulted, "default"), json!(false));
    // What the code writes is what the schema takes, also when nothing is set.
    let bare = SpiderIPPool::new("bare", orbweaver_api::pool::IPPoolSpec::default());
    let typed: Api<SpiderIPPool> = Api::all(world.client.clone());
    typed.create(&PostParams::default(), &bare).await.unwrap();
}

#[tokio::test]
async fn kubectl_takes_the_checked_in_definitions() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let simulated = Simulated::start(ClusterOptions::default()).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, simulated.kubeconfig()).unwrap();
    let kubectl = async |arguments: &[&str]| {
        let mut command = tokio::process::Command::new("kubectl");
        command
            .arg("--kubeconfig")
            .arg(&kubeconfig)
            .args(arguments)
            .env("HOME", directory.path());
        command.output().await
    };
    if kubectl(&["version", "--client"]).await.is_err() {
        println!("skipped: kubectl is not installed");
        return;
    }
    let definitions = concat!(env!("CARGO_MANIFEST_DIR"), "/../charts/orbweaver/crds");
    let apply = kubectl(&["apply", "--server-side", "-f", definitions])
        .await
        .unwrap();
    assert!(
        apply.status.success(),
        "{}",
        String::from_utf8_lossy(&apply.stderr)
    );
    let columns = kubectl(&["get", "sp", "-o", "wide"]).await.unwrap();
    assert!(
        columns.status.success(),
        "{}",
        String::from_utf8_lossy(&columns.stderr)
    );
}
