//! The one place from which demo, load and tests take their cluster: the simulated API server, or a real one
//! that a kubeconfig names.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config, ResourceExt};
use orbweaver_api::pool::SpiderIPPool;
use orbweaver_cloud_sim::{Cloud, CloudOptions};
use orbweaver_cluster_sim::{Cluster, ClusterOptions};
use serde_json::json;
use tempfile::TempDir;

use crate::auditor::Picture;
use crate::kubelet::{Kubelet, Sandbox};
use crate::node::{Agent, AgentOptions};
use crate::process::Program;
use crate::wait::until;

mod definitions;

/// Names the kubeconfig of a real cluster for the end-to-end tests.
pub const REAL_CLUSTER: &str = "ORBWEAVER_TEST_KUBECONFIG";

/// How long conditions may take on a loaded machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A cluster with a cloud, in a folder of its own.
pub struct Simulation {
    /// A client that may do everything.
    pub client: Client,
    /// The simulated API server; `None` when a real one is used.
    pub cluster: Option<Cluster>,
    /// The network provider.
    pub cloud: Cloud,
    /// Everything of this simulation is in this namespace or has its name in front.
    pub namespace: String,
    folder: TempDir,
    kubeconfig: PathBuf,
    pools: Vec<String>,
    nodes: Vec<String>,
}

impl std::fmt::Debug for Simulation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Simulation")
            .field("namespace", &self.namespace)
            .finish_non_exhaustive()
    }
}

impl Simulation {
    /// Starts cluster and cloud, applies the definitions of `charts/` and makes a namespace.
    pub async fn start(cloud: CloudOptions) -> Result<Self> {
        // Whoever was first decides; all of them are ring in this workspace.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let folder = tempfile::Builder::new().prefix("orbweaver-").tempdir()?;
        let kubeconfig = folder.path().join("kubeconfig");
        let cluster = if let Some(path) = std::env::var_os(REAL_CLUSTER) {
            let copied = std::fs::copy(&path, &kubeconfig);
            copied.with_context(|| format!("{REAL_CLUSTER} names {}", PathBuf::from(path).display()))?;
            None
        } else {
            let cluster = Cluster::start(ClusterOptions::default()).await?;
            std::fs::write(&kubeconfig, cluster.kubeconfig())?;
            Some(cluster)
        };
        let client = connect(&kubeconfig).await?;
        definitions::define(&client).await?;
        let namespace = format!("ow-{:08x}", rand::random::<u32>());
        let object: Namespace = serde_json::from_value(json!({ "metadata": { "name": namespace } }))?;
        Api::all(client.clone())
            .create(&PostParams::default(), &object)
            .await?;
        let cloud = CloudOptions {
            vendor: Some(namespace.clone()),
            ..cloud
        };
        let cloud = Cloud::start(cloud, client.clone()).await?;
        Ok(Self {
            client,
            cluster,
            cloud,
            namespace,
            folder,
            kubeconfig,
            pools: Vec::new(),
            nodes: Vec::new(),
        })
    }

    /// The simulation's folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Path of the kubeconfig.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Leaves the folder where it is and gives its path.
    pub fn keep_folder(&mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.folder.path().to_owned()
    }

    /// The name that something of this simulation has in the cluster.
    pub fn name(&self, short: &str) -> String {
        format!("{}-{short}", self.namespace)
    }

    /// Adds a node with an agent process. `conf` is added to what every agent's conf.yml says.
    pub async fn add_node(&mut self, short: &str, conf: &str) -> Result<Agent> {
        self.add_node_labelled(short, &[], conf).await
    }

    /// Adds a node with labels. A conf that says nothing of families is IPv4-only.
    pub async fn add_node_labelled(
        &mut self,
        short: &str,
        labels: &[(&str, &str)],
        conf: &str,
    ) -> Result<Agent> {
        let node = self.name(short);
        let mut object =
            json!({ "metadata": { "name": node, "labels": { "kubernetes.io/hostname": node } } });
        for (key, value) in labels {
            object["metadata"]["labels"][*key] = json!(value);
        }
        let object: Node = serde_json::from_value(object)?;
        Api::all(self.client.clone())
            .create(&PostParams::default(), &object)
            .await?;
        self.nodes.push(node.clone());
        let index = self.nodes.len();
        let options = AgentOptions {
            node,
            kubeconfig: self.kubeconfig.clone(),
            folder: self.folder.path().to_owned(),
            conf: format!("{}{}{conf}", families(conf), self.provider_conf(conf)),
            parent_mac: format!("fa:16:3e:0a:00:{index:02x}"),
        };
        Agent::start(options).await
    }

    fn provider_conf(&self, own: &str) -> String {
        if own.contains("iaasNetworkProvider") {
            String::new()
        } else {
            format!("iaasNetworkProvider:\n  serverUrl: {}\n", self.cloud.url())
        }
    }

    /// Starts a controller, which leads once it has the lease of this simulation's namespace.
    pub async fn start_controller(&self) -> Result<Program> {
        // Several simulations run on one machine.
        self.start_controller_with(&[("--webhook-listen", "127.0.0.1:0")])
            .await
    }

    /// The same with more flags; `--webhook-listen` must be among them.
    pub async fn start_controller_with(&self, more: &[(&str, &str)]) -> Result<Program> {
        let kubeconfig = self.kubeconfig.display().to_string();
        let flags = [
            ("--kubeconfig", kubeconfig.as_str()),
            ("--namespace", &self.namespace),
            ("--identity", "demo"),
        ];
        let arguments = flags
            .iter()
            .chain(more)
            .flat_map(|(flag, value)| [(*flag).to_owned(), (*value).to_owned()])
            .collect();
        Program::start(
            "orbweaver-controller",
            arguments,
            self.folder.path().join("controller.log"),
        )
        .await
    }

    /// A kubelet for an agent's node.
    pub fn kubelet(&self, agent: &Agent) -> Result<Kubelet> {
        Kubelet::new(agent.socket().to_owned(), self.folder.path().join("plugin.log"))
    }

    /// Creates or changes a pool given as YAML, with this simulation's name before its own and before its nodes'.
    pub async fn apply_pool(&mut self, yaml: &str) -> Result<String> {
        let mut pool: SpiderIPPool = serde_yaml::from_str(yaml).context("the pool cannot be read")?;
        let name = self.name(&pool.name_any());
        pool.metadata.name = Some(name.clone());
        for node in &mut pool.spec.node_name {
            *node = self.name(node);
        }
        mark(&mut pool, &self.namespace);
        let params = PatchParams::apply("orbweaver-load").force();
        Api::<SpiderIPPool>::all(self.client.clone())
            .patch(&name, &params, &Patch::Apply(&pool))
            .await?;
        if !self.pools.contains(&name) {
            self.pools.push(name.clone());
        }
        Ok(name)
    }

    /// A pool as it is now.
    pub async fn pool(&self, name: &str) -> Result<SpiderIPPool> {
        Ok(Api::all(self.client.clone()).get(name).await?)
    }

    /// The provider's ledger of a pool, as text.
    pub async fn ledger(&self, name: &str) -> Result<String> {
        let status = self.pool(name).await?.status.unwrap_or_default();
        Ok(status
            .ip_meta_data
            .and_then(|meta| meta.metadata)
            .unwrap_or_default())
    }

    /// Waits until the pool's ledger, as text, is what `wanted` wants, for the pool's generation.
    pub async fn await_ledger(&self, name: &str, what: &str, wanted: impl Fn(&str) -> bool) -> Result<()> {
        let what = format!("the ledger of {name}: {what}");
        let found = until(&what, PATIENCE, || async {
            let pool = self.pool(name).await.map_err(|error| error.to_string())?;
            let meta = pool
                .status
                .clone()
                .unwrap_or_default()
                .ip_meta_data
                .unwrap_or_default();
            let text = meta.metadata.unwrap_or_default();
            let current = meta.observed_generation == pool.metadata.generation;
            if current && wanted(&text) {
                Ok(())
            } else {
                Err(text)
            }
        });
        Ok(found.await?)
    }

    /// Creates a pod on a node and gives its first sandbox. `pools` go into the annotation `ippool`.
    pub async fn create_pod(&self, name: &str, node: &str, pools: &[&str]) -> Result<Sandbox> {
        let mut metadata = json!({ "name": name });
        if !pools.is_empty() {
            let value = json!({ "ipv4": pools }).to_string();
            metadata["annotations"] = json!({ "ipam.spidernet.io/ippool": value });
        }
        self.create_pod_with(metadata, node).await
    }

    /// Creates a pod with any metadata.
    pub async fn create_pod_with(&self, metadata: serde_json::Value, node: &str) -> Result<Sandbox> {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": metadata,
            "spec": {
                "nodeName": node, "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
                "containers": [{ "name": "main", "image": "none" }],
            },
        }))?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let pod = pods.create(&PostParams::default(), &pod).await?;
        Ok(Sandbox::of(
            &self.namespace,
            &pod.name_any(),
            &pod.uid().unwrap_or_default(),
        ))
    }

    /// Deletes a pod as a user does: it terminates until [`Self::finish_pod`].
    pub async fn delete_pod(&self, name: &str) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        pods.delete(name, &DeleteParams::default()).await?;
        Ok(())
    }

    /// Deletes a terminating pod for good, as kubelet does after DEL.
    pub async fn finish_pod(&self, name: &str) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        match pods.delete(name, &DeleteParams::default().grace_period(0)).await {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The whole end of a pod: delete, DEL, gone.
    pub async fn end_pod(&self, kubelet: &Kubelet, sandbox: &Sandbox) -> Result<()> {
        self.delete_pod(&sandbox.name).await?;
        let answer = kubelet.del(sandbox, "eth0").await?;
        anyhow::ensure!(
            answer.success,
            "DEL of {} failed: {}",
            sandbox.name,
            answer.text()
        );
        self.finish_pod(&sandbox.name).await
    }

    /// The cluster as it is now.
    pub async fn picture(&self) -> Result<Picture> {
        Picture::take(&self.client, &self.pools, &self.namespace).await
    }

    /// Takes everything away again and stops.
    pub async fn finish(self) -> Result<()> {
        let force = DeleteParams::default().grace_period(0);
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        for pod in pods.list(&ListParams::default()).await?.items {
            self.finish_pod(&pod.name_any()).await?;
        }
        for name in &self.pools {
            let api = Api::<SpiderIPPool>::all(self.client.clone());
            if api.get_opt(name).await?.is_none() {
                continue;
            }
            api.delete(name, &force).await?;
            if api.get_opt(name).await?.is_some() {
                let bare = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
                api.patch(name, &PatchParams::default(), &bare).await?;
            }
        }
        for name in &self.nodes {
            Api::<Node>::all(self.client.clone()).delete(name, &force).await?;
        }
        Api::<Namespace>::all(self.client.clone())
            .delete(&self.namespace, &DeleteParams::default())
            .await?;
        self.cloud.shutdown().await;
        if let Some(cluster) = &self.cluster {
            cluster.shutdown().await;
        }
        Ok(())
    }
}

fn families(own: &str) -> &'static str {
    if own.contains("enableIPv") {
        ""
    } else {
        "enableIPv4: true\nenableIPv6: false\n"
    }
}

/// Marks the pool for this simulation's provider alone, and does what the webhook does in an installed cluster:
/// the mark is a label, too.
fn mark(pool: &mut SpiderIPPool, provider: &str) {
    let key = orbweaver_api::annotation::IAAS_PROVIDER;
    let annotated = pool
        .metadata
        .annotations
        .as_mut()
        .and_then(|annotations| annotations.get_mut(key));
    if let Some(value) = annotated {
        provider.clone_into(value);
        pool.metadata
            .labels
            .get_or_insert_default()
            .insert(key.to_owned(), provider.to_owned());
    }
}

async fn connect(kubeconfig: &Path) -> Result<Client> {
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(Kubeconfig::read_from(kubeconfig)?, &options).await?;
    Ok(Client::try_from(config)?)
}
