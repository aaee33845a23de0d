//! The collector over an API server: the simulated one, or a real one that `ORBWEAVER_TEST_KUBECONFIG` names.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::ApiResource;
use kube::{Client, Config as KubeConfig};
use orbweaver_api::endpoint::SpiderEndpoint;
use orbweaver_api::pool::SpiderIPPool;
use orbweaver_api::{FINALIZER, crd};
use orbweaver_cluster_sim::faults::{Fault, Rule};
use orbweaver_cluster_sim::{Cluster as Simulated, ClusterOptions};
use orbweaver_controller::cluster::Cluster;
use orbweaver_controller::collection::Policy;
use orbweaver_controller::collection::cluster::ClusterStore;
use orbweaver_controller::collection::engine::Collector;
use orbweaver_controller::collection::report;
use orbweaver_controller::collection::store::CollectionStore;
use orbweaver_controller::config::Config;
use orbweaver_controller::lease::election::Timing;
use orbweaver_controller::{RunError, run};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

const PATIENCE: Duration = Duration::from_secs(30);

/// Nobody else's names: tests of several people run on one real cluster.
struct World {
    simulated: Option<Simulated>,
    client: Client,
    prefix: String,
}

fn kubeconfig(simulated: Option<&Simulated>) -> Kubeconfig {
    match (simulated, std::env::var("ORBWEAVER_TEST_KUBECONFIG")) {
        (Some(simulated), _) => Kubeconfig::from_yaml(&simulated.kubeconfig()).unwrap(),
        (None, path) => Kubeconfig::read_from(path.unwrap()).unwrap(),
    }
}

async fn world() -> World {
    // Another test of this process may have installed it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let simulated = match std::env::var("ORBWEAVER_TEST_KUBECONFIG") {
        Ok(_) => None,
        Err(_) => Some(Simulated::start(ClusterOptions::default()).await.unwrap()),
    };
    let kubeconfig = kubeconfig(simulated.as_ref());
    let options = KubeConfigOptions::default();
    let config = KubeConfig::from_custom_kubeconfig(kubeconfig, &options)
        .await
        .unwrap();
    let client = Client::try_from(config).unwrap();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in crd::all().unwrap() {
        let created = definitions.create(&PostParams::default(), &definition).await;
        match created {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            Err(error) => panic!("{error}"),
        }
    }
    let unique = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap();
    let prefix = format!("gc{:x}", unique.as_nanos() & 0xff_ffff_ffff);
    let world = World {
        simulated,
        client,
        prefix,
    };
    world.until_served().await;
    world.add_namespace("a").await;
    world
}

impl World {
    /// A real API server serves a new definition a moment later.
    async fn until_served(&self) {
        let end = Instant::now() + PATIENCE;
        while let Err(error) = self
            .pools()
            .list(&kube::api::ListParams::default().limit(1))
            .await
        {
            assert!(Instant::now() < end, "{error}");
            sleep(Duration::from_millis(50)).await;
        }
    }

    fn name(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    fn pools(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &ApiResource::erase::<SpiderIPPool>(&()))
    }

    fn endpoints(&self) -> Api<DynamicObject> {
        let resource = ApiResource::erase::<SpiderEndpoint>(&());
        Api::namespaced_with(self.client.clone(), &self.name("a"), &resource)
    }

    async fn add_namespace(&self, name: &str) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace = json!({ "metadata": { "name": self.name(name) } });
        let namespace = serde_json::from_value(namespace).unwrap();
        namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .unwrap();
    }

    /// Not scheduled: on a real cluster no kubelet is there to object.
    async fn add_pod(&self, name: &str) -> String {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.name("a"));
        let pod = json!({
            "metadata": { "name": name },
            "spec": { "containers": [{ "name": "c", "image": "i" }], "terminationGracePeriodSeconds": 0 },
        });
        let pod = serde_json::from_value(pod).unwrap();
        let pod = pods.create(&PostParams::default(), &pod).await.unwrap();
        pod.metadata.uid.unwrap()
    }

    async fn delete_pod(&self, name: &str) {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.name("a"));
        pods.delete(name, &DeleteParams::default().grace_period(0))
            .await
            .unwrap();
    }

    /// `claims`: address, pod, UID.
    async fn add_pool(&self, name: &str, claims: &[(&str, &str, &str)]) {
        let pool = json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool",
            "metadata": { "name": self.name(name) },
            "spec": { "subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.100"] },
        });
        let pool: DynamicObject = serde_json::from_value(pool).unwrap();
        self.pools().create(&PostParams::default(), &pool).await.unwrap();
        let claim = |(address, pod, uid): &(&str, &str, &str)| {
            let pod = format!("{}/{pod}", self.name("a"));
            ((*address).to_owned(), json!({ "pod": pod, "podUid": uid }))
        };
        let map: serde_json::Map<String, Value> = claims.iter().map(claim).collect();
        let status = json!({
            "allocatedIPs": Value::Object(map).to_string(), "allocatedIPCount": claims.len(), "totalIPCount": 100,
            "ipMetaData": { "metadata": "{}" },
        });
        let patch = Patch::Merge(json!({ "status": status }));
        let params = PatchParams::default();
        self.pools()
            .patch_status(&self.name(name), &params, &patch)
            .await
            .unwrap();
    }

    async fn add_endpoint(&self, name: &str, uid: &str, pool: &str, address: &str) {
        let endpoint = json!({
            "apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderEndpoint",
            "metadata": { "name": name, "finalizers": [FINALIZER] },
            "status": {
                "current": { "uid": uid, "node": "n", "ips": [
                    { "interface": "eth0", "ipv4": format!("{address}/24"), "ipv4Pool": self.name(pool) },
                ] },
                "ownerControllerType": "Pod", "ownerControllerName": name,
            },
        });
        let endpoint: DynamicObject = serde_json::from_value(endpoint).unwrap();
        self.endpoints()
            .create(&PostParams::default(), &endpoint)
            .await
            .unwrap();
    }

    async fn addresses(&self, pool: &str) -> (Vec<String>, Value) {
        let pool = self.pools().get(&self.name(pool)).await.unwrap();
        let status = pool.data["status"].clone();
        let text = status["allocatedIPs"].as_str().unwrap_or("{}");
        let claims: serde_json::Map<String, Value> = serde_json::from_str(text).unwrap();
        (claims.keys().cloned().collect(), status)
    }

    fn store(&self) -> ClusterStore {
        ClusterStore::new(self.client.clone(), None)
    }

    /// On a shared cluster only what is ours may be collected: everybody else's claims are left out of the look.
    fn collector(&self) -> Collector<ClusterStore> {
        let policy = Policy {
            grace: Duration::ZERO,
            gap: Duration::from_millis(1),
            outdated_endpoints: true,
            ..Policy::default()
        };
        Collector::new(self.store().only(&self.prefix), policy, "c", false)
    }

    async fn collect_until(&self, mut collector: Collector<ClusterStore>, pool: &str, left: &[&str]) {
        let end = Instant::now() + PATIENCE;
        while self.addresses(pool).await.0 != left {
            collector.round().await.unwrap();
            assert!(Instant::now() < end, "it stays {:?}", self.addresses(pool).await);
        }
    }

    fn write_kubeconfig(&self, directory: &Path) -> PathBuf {
        match &self.simulated {
            Some(simulated) => {
                let path = directory.join("kubeconfig");
                std::fs::write(&path, simulated.kubeconfig()).unwrap();
                path
            }
            None => std::env::var("ORBWEAVER_TEST_KUBECONFIG").unwrap().into(),
        }
    }

    async fn end(self) {
        if let Some(simulated) = &self.simulated {
            simulated.shutdown().await;
            return;
        }
        let (pools, pool) = (self.pools(), self.name("p"));
        pools.delete(&pool, &DeleteParams::default()).await.unwrap();
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces
            .delete(&self.name("a"), &DeleteParams::default())
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn what_a_deleted_pod_left_goes_and_nothing_else_of_the_pool_is_touched() {
    let world = world().await;
    let (gone, lives) = (world.add_pod("gone").await, world.add_pod("lives").await);
    let claims = [
        ("10.0.0.1", "gone", gone.as_str()),
        ("10.0.0.2", "lives", lives.as_str()),
        ("10.0.0.3", "lives", "an-earlier-uid"),
        ("10.0.0.4", "nobody", "v"),
    ];
    world.add_pool("p", &claims).await;
    world.add_endpoint("gone", &gone, "p", "10.0.0.1").await;
    world.add_endpoint("lives", &lives, "p", "10.0.0.2").await;
    world.delete_pod("gone").await;
    world.collect_until(world.collector(), "p", &["10.0.0.2"]).await;
    let (_, status) = world.addresses("p").await;
    assert_eq!(status["allocatedIPCount"], 1);
    assert_eq!(
        status["ipMetaData"]["metadata"], "{}",
        "the provider's ledger is not ours to write"
    );
    let mut collector = world.collector();
    let end = Instant::now() + PATIENCE;
    while world.endpoints().get_opt("gone").await.unwrap().is_some() {
        collector.round().await.unwrap();
        assert!(Instant::now() < end, "its endpoint stays");
    }
    assert!(world.endpoints().get_opt("lives").await.unwrap().is_some());
    world.end().await;
}

#[tokio::test]
async fn a_dry_run_tells_everything_and_writes_nothing() {
    let world = world().await;
    let lives = world.add_pod("lives").await;
    world
        .add_pool("p", &[("10.0.0.1", "lives", &lives), ("10.0.0.2", "gone", "u")])
        .await;
    let before = world
        .pools()
        .get(&world.name("p"))
        .await
        .unwrap()
        .metadata
        .resource_version;
    let store = world.store();
    let seen = store.look().await.unwrap();
    let table = report::table(&seen, &Policy::default(), false, store.now());
    let row = |address: &str| {
        let pool = world.name("p");
        let row = table
            .lines()
            .find(|line| line.starts_with(&pool) && line.contains(address));
        row.unwrap_or_else(|| panic!("{address} is not in\n{table}"))
            .to_owned()
    };
    assert!(table.starts_with("POOL"));
    assert!(row("10.0.0.1 ").contains("keep") && row("10.0.0.1 ").contains("alive"));
    assert!(row("10.0.0.2 ").contains("collect") && row("10.0.0.2 ").contains("pod_gone"));
    let directory = tempfile::tempdir().unwrap();
    let path = world.write_kubeconfig(directory.path());
    let output = tokio::process::Command::new(env!("CARGO_BIN_EXE_orbweaver-controller"))
        .args(["gc", "--dry-run", "--kubeconfig"])
        .arg(&path)
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    let mine = |text: &str| {
        let rows = text.lines().filter(|line| line.starts_with(&world.prefix));
        let words = rows.map(|row| row.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        words.collect::<Vec<_>>()
    };
    assert_eq!(mine(&printed), mine(&table));
    let after = world
        .pools()
        .get(&world.name("p"))
        .await
        .unwrap()
        .metadata
        .resource_version;
    assert_eq!(before, after);
    world.end().await;
}

/// A whole controller of a simulated cluster.
fn start_controller(world: &World, kube: &KubeConfig, identity: &str) -> JoinHandle<Result<(), RunError>> {
    let namespace = world.name("a");
    let mut config = Config::new(Cluster::Config(Box::new(kube.clone())), namespace, identity);
    config.timing = Timing {
        lease: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(1),
        retry: Duration::from_millis(100),
    };
    config.collection = Policy {
        interval: Duration::from_millis(50),
        gap: Duration::from_millis(1),
        grace: Duration::ZERO,
        ..Policy::default()
    };
    tokio::spawn(run(config, CancellationToken::new()))
}

/// Only simulated: whole controllers on a shared cluster would collect other tests' claims.
#[tokio::test]
async fn a_controller_killed_in_the_middle_is_finished_by_the_next() {
    let world = world().await;
    let Some(simulated) = world.simulated.clone() else {
        return;
    };
    let options = KubeConfigOptions::default();
    let kube = KubeConfig::from_custom_kubeconfig(kubeconfig(Some(&simulated)), &options)
        .await
        .unwrap();
    for pool in ["p", "q", "r"] {
        world.add_pool(pool, &[("10.0.0.1", "gone", "u")]).await;
    }
    world.add_endpoint("gone", "u", "p", "10.0.0.1").await;
    // The second claim's write is under way for ever.
    for fault in [
        Fault::Delay(Duration::ZERO),
        Fault::Delay(Duration::from_secs(600)),
    ] {
        let rule = Rule {
            verb: "patch".to_owned(),
            resource: "spiderippools".to_owned(),
            times: 1,
            fault,
        };
        simulated.faults().add(rule);
    }
    simulated.counters().reset();
    let first = start_controller(&world, &kube, "first");
    let writes = || {
        simulated
            .counters()
            .count(|asked| asked.verb == "patch" && asked.resource.starts_with("spiderippools"))
    };
    let end = Instant::now() + PATIENCE;
    while writes() < 2 {
        assert!(Instant::now() < end, "it never collects");
        sleep(Duration::from_millis(10)).await;
    }
    first.abort();
    let left = async |pool| world.addresses(pool).await.0.len();
    assert_eq!(left("p").await + left("q").await + left("r").await, 2);
    let second = start_controller(&world, &kube, "second");
    let end = Instant::now() + PATIENCE;
    while left("p").await + left("q").await + left("r").await > 0
        || world.endpoints().get_opt("gone").await.unwrap().is_some()
    {
        assert!(Instant::now() < end, "the second one does not finish");
        sleep(Duration::from_millis(10)).await;
    }
    second.abort();
    world.end().await;
}
