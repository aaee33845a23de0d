//! What one test has for itself on the stage, and what it does there.

use std::sync::Arc;

use futures::future::join_all;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use orbweaver_api::claims;
use orbweaver_api::endpoint::SpiderEndpoint;
use orbweaver_api::pool::SpiderIPPool;
use orbweaver_loadtests::auditor::Picture;
use orbweaver_loadtests::kubelet::{Answer, Sandbox};
use orbweaver_loadtests::metrics;
use orbweaver_loadtests::simulation::PATIENCE;
use orbweaver_loadtests::wait::until;
use orbweaver_loadtests::workload::{self, Kind, Template, Workload};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::stage::{Node, Stage};

/// A namespace and pools of one test.
pub(crate) struct Scene {
    pub(crate) stage: Arc<Stage>,
    pub(crate) namespace: String,
    others: Vec<String>,
    pools: Vec<String>,
}

impl Scene {
    pub(crate) async fn open(stage: Arc<Stage>) -> Self {
        let namespace = format!("{}-{:08x}", stage.simulation.namespace, rand::random::<u32>());
        let scene = Self {
            stage,
            namespace,
            others: Vec::new(),
            pools: Vec::new(),
        };
        scene.make_namespace(&scene.namespace, json!({})).await;
        scene
    }

    pub(crate) fn client(&self) -> Client {
        self.stage.simulation.client.clone()
    }

    /// The node's name.
    pub(crate) fn node(&self, node: Node) -> String {
        self.stage.agent(node).node().to_owned()
    }

    async fn make_namespace(&self, name: &str, metadata: Value) {
        let mut object = json!({ "metadata": metadata });
        object["metadata"]["name"] = json!(name);
        let object: Namespace = serde_json::from_value(object).unwrap();
        let namespaces: Api<Namespace> = Api::all(self.client());
        namespaces.create(&PostParams::default(), &object).await.unwrap();
    }

    /// One more namespace, with labels and annotations.
    pub(crate) async fn another_namespace(&mut self, metadata: Value) -> String {
        let name = format!("{}-{}", self.namespace, self.others.len());
        self.make_namespace(&name, metadata).await;
        self.others.push(name.clone());
        name
    }

    /// Changes labels and annotations of the test's namespace.
    pub(crate) async fn mark_namespace(&self, metadata: Value) {
        let namespaces: Api<Namespace> = Api::all(self.client());
        let patch = Patch::Merge(json!({ "metadata": metadata }));
        let params = PatchParams::default();
        namespaces.patch(&self.namespace, &params, &patch).await.unwrap();
    }

    /// Makes a pool and waits until every agent that may use it knows it; gives its name.
    pub(crate) async fn pool(&mut self, short: &str, spec: Value) -> String {
        self.pool_with(short, json!({}), spec).await
    }

    /// Makes a pool with annotations.
    pub(crate) async fn pool_with(&mut self, short: &str, annotations: Value, spec: Value) -> String {
        let name = format!("{}-{short}", self.namespace);
        let marked = annotations.get(orbweaver_api::annotation::IAAS_PROVIDER);
        let pool: SpiderIPPool = serde_json::from_value(json!({
            "metadata": {
                "name": name, "annotations": annotations,
                "labels": marked.map(|vendor| json!({ orbweaver_api::annotation::IAAS_PROVIDER: vendor })),
            },
            "spec": spec,
        }))
        .unwrap();
        let pools: Api<SpiderIPPool> = Api::all(self.client());
        pools.create(&PostParams::default(), &pool).await.unwrap();
        self.pools.push(name.clone());
        self.await_pool(&name, "known", |_| true).await;
        name
    }

    /// A global pool of the stage's provider, initialised.
    pub(crate) async fn global_pool(&mut self, short: &str, spec: Value) -> String {
        let annotations = json!({
            orbweaver_api::annotation::IAAS_PROVIDER: self.stage.simulation.namespace,
            orbweaver_api::annotation::PARENT_NIC: "eth1",
        });
        let name = self.pool_with(short, annotations, spec).await;
        let simulation = &self.stage.simulation;
        let ready = simulation.await_ledger(&name, "it is initialised", |text| !text.is_empty());
        ready.await.unwrap();
        name
    }

    /// Changes a pool's spec and waits until every agent sees what `seen` wants of its explanation.
    pub(crate) async fn change_pool(
        &self,
        name: &str,
        spec: Value,
        what: &str,
        seen: impl Fn(&Value) -> bool,
    ) {
        let pools: Api<SpiderIPPool> = Api::all(self.client());
        let patch = Patch::Merge(json!({ "spec": spec }));
        pools.patch(name, &PatchParams::default(), &patch).await.unwrap();
        self.await_pool(name, what, seen).await;
    }

    async fn await_pool(&self, name: &str, what: &str, seen: impl Fn(&Value) -> bool) {
        let pools: Api<SpiderIPPool> = Api::all(self.client());
        let is_v4 = pools.get(name).await.unwrap().spec.ip_version != Some(6);
        let mine = |node: &Node| {
            let (four, six) = node.families();
            if is_v4 { four } else { six }
        };
        let family = if is_v4 { "ipv4" } else { "ipv6" };
        let each = Node::ALL.into_iter().filter(mine).map(|node| {
            let query = format!("pod={}&{family}={name}", self.stage.probe(node));
            let is_seen = |page: &Value| {
                let pools = page["nics"][0]["pools"].as_array();
                pools.is_some_and(|pools| pools.iter().any(|pool| pool["pool"] == name && seen(pool)))
            };
            self.await_page(node, query, format!("pool {name} is {what}"), is_seen)
        });
        join_all(each).await;
    }

    /// Waits until the agent's explanation of a pod's `eth0` is as wanted.
    pub(crate) async fn await_explanation(
        &self,
        node: Node,
        pod: &Sandbox,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) {
        let query = format!("pod={}/{}", pod.namespace, pod.name);
        self.await_page(node, query, what.to_owned(), wanted).await;
    }

    async fn await_page(&self, node: Node, query: String, what: String, wanted: impl Fn(&Value) -> bool) {
        let admin = self.stage.agent(node).program().admin();
        let path = format!("/explain?{query}");
        let found = until(&what, PATIENCE, || async {
            let (_, text) = metrics::fetch(admin, &path)
                .await
                .map_err(|error| error.to_string())?;
            let page: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
            if wanted(&page) { Ok(()) } else { Err(text) }
        });
        found.await.unwrap();
    }

    /// A workload in the test's namespace.
    pub(crate) async fn workload(&self, kind: Kind, name: &str, template: Template) -> Workload {
        Workload::create(&self.client(), &self.namespace, kind, name, template)
            .await
            .unwrap()
    }

    /// A bare pod in the test's namespace.
    pub(crate) async fn pod(&self, name: &str, node: Node, template: Template) -> Sandbox {
        self.pod_in(&self.namespace, name, node, template).await
    }

    /// A bare pod in a namespace.
    pub(crate) async fn pod_in(
        &self,
        namespace: &str,
        name: &str,
        node: Node,
        template: Template,
    ) -> Sandbox {
        let made = Workload::create(&self.client(), namespace, Kind::Pod, name, template).await;
        made.unwrap().pod(&self.node(node)).await.unwrap()
    }

    /// ADD, whatever it answers.
    pub(crate) async fn try_add(&self, node: Node, pod: &Sandbox, nic: &str) -> Answer {
        self.stage.kubelet(node).add(pod, nic).await.unwrap()
    }

    /// ADD, which succeeds; bare addresses in their order.
    pub(crate) async fn add(&self, node: Node, pod: &Sandbox, nic: &str) -> Vec<String> {
        addresses(&self.added(node, pod, nic).await)
    }

    /// ADD, which succeeds.
    pub(crate) async fn added(&self, node: Node, pod: &Sandbox, nic: &str) -> Answer {
        let answer = self.try_add(node, pod, nic).await;
        assert!(answer.success, "{nic} of {}: {}", pod.name, answer.text());
        answer
    }

    /// ADD, which is refused with these words.
    pub(crate) async fn refused(&self, node: Node, pod: &Sandbox, nic: &str, words: &[&str]) {
        let answer = self.try_add(node, pod, nic).await;
        let text = answer.text();
        assert!(!answer.success, "{nic} of {}: {answer:?}", pod.name);
        for word in words {
            assert!(text.contains(word), "{word:?} is not in {text:?}");
        }
    }

    /// The whole end of a pod that has only `eth0`.
    pub(crate) async fn end(&self, node: Node, pod: &Sandbox) {
        self.end_all(node, pod, &["eth0"]).await;
    }

    /// The whole end of a pod with these NICs.
    pub(crate) async fn end_all(&self, node: Node, pod: &Sandbox, nics: &[&str]) {
        let kubelet = self.stage.kubelet(node);
        workload::end(&self.client(), kubelet, pod, nics).await.unwrap();
    }

    /// What a pool has claimed, in the order of addresses.
    pub(crate) async fn claimed(&self, pool: &str) -> Vec<String> {
        let pools: Api<SpiderIPPool> = Api::all(self.client());
        let status = pools.get(pool).await.unwrap().status.unwrap_or_default();
        let claims = claims::decode(status.allocated_ips.as_deref()).unwrap();
        claims.into_keys().map(|address| address.to_string()).collect()
    }

    /// The endpoint of that name in the test's namespace.
    pub(crate) async fn endpoint(&self, name: &str) -> Option<SpiderEndpoint> {
        let endpoints: Api<SpiderEndpoint> = Api::namespaced(self.client(), &self.namespace);
        endpoints.get_opt(name).await.unwrap()
    }

    /// Nothing is wrong with what is there now.
    pub(crate) async fn audit(&self) {
        let client = self.client();
        let mut picture = Picture::take(&client, &self.pools, &self.namespace)
            .await
            .unwrap();
        for other in &self.others {
            picture.add_namespace(&client, other).await.unwrap();
        }
        assert_eq!(picture.audit().unwrap(), Vec::<String>::new());
    }

    /// Takes everything away again.
    pub(crate) async fn close(self) {
        let client = self.client();
        let pools: Api<SpiderIPPool> = Api::all(client.clone());
        let (force, namespaces) = (DeleteParams::default().grace_period(0), Api::all(client.clone()));
        for namespace in std::iter::once(&self.namespace).chain(&self.others) {
            strip::<SpiderEndpoint>(
                &Api::namespaced(client.clone(), namespace),
                &all_of(&client, namespace).await,
            )
            .await;
            let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
            for pod in pods.list(&ListParams::default()).await.unwrap() {
                let _ = pods.delete(&pod.name_any(), &force).await;
            }
            let namespaces: &Api<Namespace> = &namespaces;
            namespaces
                .delete(namespace, &DeleteParams::default())
                .await
                .unwrap();
        }
        strip(&pools, &self.pools).await;
    }
}

async fn all_of(client: &Client, namespace: &str) -> Vec<String> {
    let endpoints: Api<SpiderEndpoint> = Api::namespaced(client.clone(), namespace);
    let found = endpoints.list(&ListParams::default()).await.unwrap();
    found.items.iter().map(ResourceExt::name_any).collect()
}

/// Deletes objects for good, whatever finalizers they have.
async fn strip<K>(api: &Api<K>, names: &[String])
where
    K: Clone + DeserializeOwned + std::fmt::Debug,
{
    let bare = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    for name in names {
        // One that is gone already is what is wanted.
        let _ = api.delete(name, &DeleteParams::default()).await;
        let _ = api.patch(name, &PatchParams::default(), &bare).await;
    }
}

/// Bare addresses of an answer, in their order.
pub(crate) fn addresses(answer: &Answer) -> Vec<String> {
    let ips = answer.json["ips"].as_array().cloned().unwrap_or_default();
    let bare = |ip: &Value| {
        let text = ip["address"].as_str().unwrap_or_default();
        text.split('/').next().unwrap_or_default().to_owned()
    };
    ips.iter().map(bare).collect()
}

/// The spec of an IPv4 pool in `10.<net>.0.0/24`, by the last parts of its first and last address.
pub(crate) fn v4(net: u8, first: u8, last: u8) -> Value {
    json!({
        "ipVersion": 4, "subnet": format!("10.{net}.0.0/24"), "gateway": format!("10.{net}.0.1"),
        "ips": [format!("10.{net}.0.{first}-10.{net}.0.{last}")],
    })
}

/// The spec of an IPv6 pool in `fd00:0:0:<net>::/64`, likewise.
pub(crate) fn v6(net: u8, first: u8, last: u8) -> Value {
    json!({
        "ipVersion": 6, "subnet": format!("fd00:0:0:{net}::/64"), "gateway": format!("fd00:0:0:{net}::1"),
        "ips": [format!("fd00:0:0:{net}::{first}-fd00:0:0:{net}::{last}")],
    })
}

/// A spec with more in it.
pub(crate) fn with(mut spec: Value, more: Value) -> Value {
    if let (Some(spec), Value::Object(more)) = (spec.as_object_mut(), more) {
        spec.extend(more);
    }
    spec
}

/// Annotation `ippool` with IPv4 pools.
pub(crate) fn ippool(pools: &[&str]) -> Template {
    Template::annotated(&[(orbweaver_api::annotation::POD_POOL, json!({ "ipv4": pools }))])
}

/// Annotation `ippools` with one IPv4 pool for each NIC; an empty name: nameless.
pub(crate) fn ippools(items: &[(&str, &str)]) -> Template {
    let item = |(nic, pool): &(&str, &str)| match *nic {
        "" => json!({ "ipv4": [pool] }),
        nic => json!({ "interface": nic, "ipv4": [pool] }),
    };
    let items: Vec<Value> = items.iter().map(item).collect();
    Template::annotated(&[(orbweaver_api::annotation::POD_POOLS, json!(items))])
}
