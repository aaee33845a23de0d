//! A cluster with webhooks registered: simulated, or the real one that `ORBWEAVER_TEST_KUBECONFIG` names.

use std::net::SocketAddr;
use std::time::Duration;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::ApiResource;
use kube::{Client, Config as KubeConfig, Resource, ResourceExt};
use orbweaver_api::config::PodResourceInject;
use orbweaver_api::crd;
use orbweaver_api::pool::SpiderIPPool;
use orbweaver_api::reserved_ip::SpiderReservedIP;
use orbweaver_cluster_sim::counters::Asked;
use orbweaver_cluster_sim::faults::{Fault, Rule};
use orbweaver_cluster_sim::{Cluster, ClusterOptions};
use orbweaver_controller::admission::Settings;
use orbweaver_controller::admission::certificate::Source;
use orbweaver_controller::admission::injection::Injection;
use orbweaver_controller::admission::keeper::Place;
use orbweaver_controller::admission::registration;
use orbweaver_controller::admission::review::Hook;
use orbweaver_controller::admission::server::{WebhookConfig, WebhookServer};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

/// Names the kubeconfig of a real cluster.
const REAL: &str = "ORBWEAVER_TEST_KUBECONFIG";
const PATIENCE: Duration = Duration::from_secs(60);
/// Chooses the replica that judges an object, and tells a world's objects from others'.
const REPLICA: &str = "test.orbweaver.io/replica";
/// Tells a world's objects from others'.
const WORLD: &str = "test.orbweaver.io/world";

/// Waits until `check` gives something.
pub async fn until<T>(what: &str, mut check: impl AsyncFnMut() -> Option<T>) -> T {
    let give_up = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = check().await {
            return found;
        }
        assert!(Instant::now() < give_up, "{what} did not come true in time");
        sleep(Duration::from_millis(20)).await;
    }
}

pub struct World {
    simulated: Option<Cluster>,
    pub client: Client,
    /// A namespace, and in front of the name of everything without one.
    pub name: String,
    /// `10.x`, `10.x` and so on: what a subnet of this world begins with.
    octets: (u8, u8),
    pub servers: Vec<WebhookServer>,
    registered: std::sync::atomic::AtomicUsize,
}

async fn connect() -> (Option<Cluster>, Client) {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let real = std::env::var_os(REAL);
    let (simulated, kubeconfig) = if let Some(path) = real {
        (None, Kubeconfig::read_from(path).unwrap())
    } else {
        let cluster = Cluster::start(ClusterOptions::default()).await.unwrap();
        let kubeconfig = Kubeconfig::from_yaml(&cluster.kubeconfig()).unwrap();
        (Some(cluster), kubeconfig)
    };
    let config = KubeConfig::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .unwrap();
    (simulated, Client::try_from(config).unwrap())
}

async fn define(client: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in crd::all().unwrap() {
        let name = definition.name_any();
        let mut body = json!(definition);
        body["apiVersion"] = json!("apiextensions.k8s.io/v1");
        body["kind"] = json!("CustomResourceDefinition");
        let params = PatchParams::apply("orbweaver-test").force();
        api.patch(&name, &params, &Patch::Apply(body)).await.unwrap();
        until("a definition is served", async || {
            let conditions = api.get(&name).await.unwrap().status?.conditions?;
            conditions
                .iter()
                .any(|one| one.type_ == "Established" && one.status == "True")
                .then_some(())
        })
        .await;
    }
}

impl World {
    /// A cluster without webhooks.
    pub async fn bare() -> Self {
        let (simulated, client) = connect().await;
        define(&client).await;
        let name = format!("ow-{:08x}", rand::random::<u32>());
        let namespace: Namespace = serde_json::from_value(json!({ "metadata": { "name": name } })).unwrap();
        let params = PostParams::default();
        Api::all(client.clone())
            .create(&params, &namespace)
            .await
            .unwrap();
        Self {
            simulated,
            client,
            name,
            octets: (rand::random_range(20..220), rand::random()),
            servers: Vec::new(),
            registered: 0.into(),
        }
    }

    /// How others get to the cluster.
    pub fn kubeconfig(&self) -> String {
        match &self.simulated {
            Some(simulated) => simulated.kubeconfig(),
            None => std::fs::read_to_string(std::env::var_os(REAL).unwrap()).unwrap(),
        }
    }

    /// Lets the next such request go wrong; false when this is no simulation.
    pub fn spoil(&self, verb: &str, resource: &str, fault: Fault) -> bool {
        let Some(simulated) = &self.simulated else {
            return false;
        };
        simulated.faults().add(Rule {
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            times: 1,
            fault,
        });
        true
    }

    /// Whether the simulation has got such a request.
    pub fn has_asked(&self, verb: &str, resource: &str) -> bool {
        let wanted = |asked: &Asked| asked.verb == verb && asked.resource == resource;
        let simulated = self.simulated.as_ref();
        simulated.is_some_and(|simulated| simulated.counters().count(wanted) > 0)
    }

    /// True when this is no simulation.
    pub fn is_real(&self) -> bool {
        self.simulated.is_none()
    }

    /// A cluster with so many replicas of the webhooks, registered and trusted.
    pub async fn start(replicas: usize) -> Self {
        let mut world = Self::bare().await;
        for _ in 0..replicas {
            world.add_server(Settings::default()).await;
        }
        for replica in 0..replicas {
            world.register(replica).await;
        }
        for replica in 0..replicas {
            world.is_asked(replica).await;
        }
        world
    }

    pub fn place(&self, replica: usize) -> Place {
        let configuration = Some(format!("{}-{replica}", self.name));
        Place {
            source: Source::Secret {
                name: "certs".to_owned(),
                names: vec!["localhost".to_owned(), "127.0.0.1".to_owned()],
            },
            namespace: self.name.clone(),
            mutating: configuration.clone(),
            validating: configuration,
        }
    }

    /// On, everywhere but in one namespace.
    fn injection(&self) -> Injection {
        let file = PodResourceInject {
            enabled: true,
            namespaces_exclude: vec![self.named("left-alone")],
            namespaces_include: Vec::new(),
        };
        Injection::new(&file, "controllers-own")
    }

    pub async fn add_server(&mut self, settings: Settings) {
        let config = WebhookConfig {
            listen: SocketAddr::from(([127, 0, 0, 1], 0)),
            place: self.place(self.servers.len()),
            settings,
            injection: self.injection(),
        };
        let server = WebhookServer::start(&config, self.client.clone()).await.unwrap();
        self.servers.push(server);
    }

    /// Registers a replica for the objects that are labelled for it.
    pub async fn register(&self, replica: usize) {
        self.register_port(replica, self.servers[replica].address.port())
            .await;
    }

    /// The same for a replica that is a process of its own.
    pub async fn register_port(&self, replica: usize, port: u16) {
        self.registered
            .fetch_max(replica + 1, std::sync::atomic::Ordering::Relaxed);
        let hooks = |wanted: &str| -> Vec<Value> {
            let hooks = Hook::ALL
                .into_iter()
                .filter(|hook| hook.path().starts_with(wanted));
            hooks
                .map(|hook| {
                    let url = format!("https://127.0.0.1:{port}{}", hook.path());
                    let mut entry = registration::entry(hook, &json!({ "url": url }), &self.injection());
                    let labels = json!({ WORLD: self.name, REPLICA: replica.to_string() });
                    entry["objectSelector"] = json!({ "matchLabels": labels });
                    entry
                })
                .collect()
        };
        let metadata = json!({ "name": format!("{}-{replica}", self.name) });
        let params = PostParams::default();
        let mutating = json!({ "metadata": metadata, "webhooks": hooks("/mutate") });
        let mutating: MutatingWebhookConfiguration = serde_json::from_value(mutating).unwrap();
        let validating = json!({ "metadata": metadata, "webhooks": hooks("/validate") });
        let validating: ValidatingWebhookConfiguration = serde_json::from_value(validating).unwrap();
        let client = || self.client.clone();
        Api::all(client()).create(&params, &mutating).await.unwrap();
        Api::all(client()).create(&params, &validating).await.unwrap();
    }

    /// Waits until the API server asks a replica, and believes its certificate.
    pub async fn is_asked(&self, replica: usize) {
        let mut probe = self.pool(&format!("probe-{replica}"), "250.0/24", &["250.9-250.1"]);
        probe.labels_mut().insert(REPLICA.to_owned(), replica.to_string());
        let dry = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        until("the webhook is asked", async || {
            match self.pools().create(&dry, &probe).await {
                Err(kube::Error::Api(status)) => (status.code == 422).then_some(()),
                _ => None,
            }
        })
        .await;
    }

    pub fn pools(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &ApiResource::erase::<SpiderIPPool>(&()))
    }

    pub fn reserved(&self) -> Api<DynamicObject> {
        Api::all_with(self.client.clone(), &ApiResource::erase::<SpiderReservedIP>(&()))
    }

    /// The name that an object of this world has in the cluster.
    pub fn named(&self, short: &str) -> String {
        format!("{}-{short}", self.name)
    }

    /// An address, range or subnet of this world from its last two numbers: `1.5`, `1.5-1.9`, `1.0/24`.
    pub fn at(&self, text: &str) -> String {
        let (a, b) = self.octets;
        let parts: Vec<String> = text.split('-').map(|part| format!("{a}.{b}.{part}")).collect();
        parts.join("-")
    }

    /// A pool for replica 0.
    pub fn pool(&self, short: &str, subnet: &str, ips: &[&str]) -> DynamicObject {
        let ips: Vec<String> = ips.iter().map(|range| self.at(range)).collect();
        self.object::<SpiderIPPool>(short, &json!({ "subnet": self.at(subnet), "ips": ips }))
    }

    pub fn object<K: Resource<DynamicType = ()>>(&self, short: &str, spec: &Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": K::api_version(&()),
            "kind": K::kind(&()),
            "metadata": { "name": self.named(short), "labels": { WORLD: self.name, REPLICA: "0" } },
            "spec": spec,
        }))
        .unwrap()
    }

    /// Sends an object to another replica.
    pub fn for_replica(mut object: DynamicObject, replica: usize) -> DynamicObject {
        object
            .labels_mut()
            .insert(REPLICA.to_owned(), replica.to_string());
        object
    }

    /// Leaves a real cluster as it was found.
    pub async fn end(self) {
        let (params, ours) = (DeleteParams::default(), format!("{WORLD}={}", self.name));
        let list = ListParams::default().labels(&ours);
        for replica in 0..self.registered.load(std::sync::atomic::Ordering::Relaxed) {
            let name = format!("{}-{replica}", self.name);
            let mutating: Api<MutatingWebhookConfiguration> = Api::all(self.client.clone());
            let validating: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
            // One that the test has deleted is what is wanted.
            let _ = mutating.delete(&name, &params).await;
            let _ = validating.delete(&name, &params).await;
        }
        for api in [self.pools(), self.reserved()] {
            until("objects are gone", async || {
                for object in api.list(&list).await.unwrap() {
                    let _ = api.delete(&object.name_any(), &params).await;
                    let free = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
                    let _ = api
                        .patch(&object.name_any(), &PatchParams::default(), &free)
                        .await;
                }
                api.list(&list).await.unwrap().items.is_empty().then_some(())
            })
            .await;
        }
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.delete(&self.name, &params).await.unwrap();
    }
}
