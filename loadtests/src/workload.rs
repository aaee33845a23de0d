//! Whole workloads: the objects that a user makes and the pods that its controller makes of them, with owner
//! references, labels and names as the real controllers write them. Nothing here reconciles: a test says when a
//! pod starts, where, and when it ends.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use crate::kubelet::{Kubelet, Sandbox};

/// Who makes the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nobody: a bare pod.
    Pod,
    /// A Deployment, through a ReplicaSet for each revision.
    Deployment,
    /// A ReplicaSet of its own.
    ReplicaSet,
    /// A StatefulSet.
    StatefulSet,
    /// A DaemonSet.
    DaemonSet,
    /// A Job of its own.
    Job,
    /// A CronJob, through a Job.
    CronJob,
}

impl Kind {
    /// The kind as Kubernetes writes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::Deployment => "Deployment",
            Self::ReplicaSet => "ReplicaSet",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
            Self::Job => "Job",
            Self::CronJob => "CronJob",
        }
    }

    fn resource(self) -> ApiResource {
        let group = match self {
            Self::Pod => "",
            Self::Job | Self::CronJob => "batch",
            _ => "apps",
        };
        ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1", self.name()))
    }

    fn restart_policy(self) -> &'static str {
        match self {
            Self::Job | Self::CronJob => "Never",
            _ => "Always",
        }
    }
}

/// What the pods of a workload look like.
#[derive(Clone, Debug, Default)]
pub struct Template {
    /// Labels beside those that the controller writes.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Containers; empty: one.
    pub containers: Vec<Value>,
}

impl Template {
    /// With annotations, the values as JSON text unless they are text already.
    pub fn annotated(annotations: &[(&str, Value)]) -> Self {
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let pairs = annotations
            .iter()
            .map(|(key, value)| ((*key).to_owned(), text(value)));
        Self {
            annotations: pairs.collect(),
            ..Self::default()
        }
    }

    /// With one more label.
    #[must_use]
    pub fn labelled(mut self, key: &str, value: &str) -> Self {
        self.labels.insert(key.to_owned(), value.to_owned());
        self
    }

    fn spec(&self, kind: Kind) -> Value {
        let mut containers = self.containers.clone();
        if containers.is_empty() {
            containers.push(json!({ "name": "main", "image": "none" }));
        }
        json!({
            "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
            "restartPolicy": kind.restart_policy(), "containers": containers,
        })
    }
}

/// A workload and the template that its next pods are made of.
#[derive(Clone)]
pub struct Workload {
    client: Client,
    namespace: String,
    kind: Kind,
    name: String,
    template: Template,
    revision: u32,
    /// Who the pods name as their controller.
    owner: Option<OwnerReference>,
    made: u32,
}

impl std::fmt::Debug for Workload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Workload")
            .field("kind", &self.kind)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

impl Workload {
    /// Makes the controller's objects, and no pod yet.
    pub async fn create(
        client: &Client,
        namespace: &str,
        kind: Kind,
        name: &str,
        template: Template,
    ) -> Result<Self> {
        let mut workload = Self {
            client: client.clone(),
            namespace: namespace.to_owned(),
            kind,
            name: name.to_owned(),
            template,
            revision: 0,
            owner: None,
            made: 0,
        };
        let top = match kind {
            Kind::Pod => return Ok(workload),
            _ => workload.controller(kind, name, None).await?,
        };
        workload.owner = Some(match kind {
            Kind::Deployment => workload.revise(&top).await?,
            Kind::CronJob => {
                workload
                    .controller(Kind::Job, &format!("{name}-28000000"), Some(&top))
                    .await?
            }
            _ => top,
        });
        Ok(workload)
    }

    async fn revise(&mut self, deployment: &OwnerReference) -> Result<OwnerReference> {
        self.revision += 1;
        let name = format!("{}-{}", self.name, self.hash());
        self.controller(Kind::ReplicaSet, &name, Some(deployment)).await
    }

    fn hash(&self) -> String {
        format!("5d8f7c{}", self.revision)
    }

    /// Labels that controllers select pods by.
    fn selector(&self, kind: Kind) -> Value {
        let mut labels = json!({ "app": self.name });
        if self.kind == Kind::Deployment && kind == Kind::ReplicaSet {
            labels["pod-template-hash"] = json!(self.hash());
        }
        labels
    }

    async fn controller(
        &self,
        kind: Kind,
        name: &str,
        above: Option<&OwnerReference>,
    ) -> Result<OwnerReference> {
        let labels = self.selector(kind);
        let template = json!({ "metadata": { "labels": labels }, "spec": self.template.spec(kind) });
        let selector = json!({ "matchLabels": labels });
        let spec = match kind {
            Kind::Job => json!({ "template": template }),
            Kind::CronJob => {
                json!({ "schedule": "0 0 1 1 *", "jobTemplate": { "spec": { "template": template } } })
            }
            Kind::DaemonSet => json!({ "selector": selector, "template": template }),
            Kind::StatefulSet => {
                json!({ "serviceName": name, "replicas": 1, "selector": selector, "template": template })
            }
            _ => json!({ "replicas": 1, "selector": selector, "template": template }),
        };
        let resource = kind.resource();
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": { "name": name, "ownerReferences": above.into_iter().collect::<Vec<_>>() },
            "spec": spec,
        }))?;
        let made = self
            .api(kind)
            .create(&PostParams::default(), &object)
            .await
            .with_context(|| format!("{} {name}", kind.name()))?;
        Ok(OwnerReference {
            api_version: resource.api_version,
            kind: resource.kind,
            name: name.to_owned(),
            uid: made.uid().context("an object that was made has a UID")?,
            controller: Some(true),
            block_owner_deletion: Some(true),
        })
    }

    fn api(&self, kind: Kind) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), &self.namespace, &kind.resource())
    }

    /// The workload's name, which is that of its top controller.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Changes the template; pods that there are stay as they are. A Deployment gets another ReplicaSet.
    pub async fn roll(&mut self, template: Template) -> Result<()> {
        self.template = template;
        if self.kind == Kind::Deployment {
            let deployment = self.api(Kind::Deployment).get(&self.name).await?;
            let reference = OwnerReference {
                api_version: "apps/v1".to_owned(),
                kind: "Deployment".to_owned(),
                name: self.name.clone(),
                uid: deployment.uid().unwrap_or_default(),
                controller: Some(true),
                block_owner_deletion: Some(true),
            };
            self.owner = Some(self.revise(&reference).await?);
        }
        Ok(())
    }

    /// Writes `spec.replicas`; the pods are the test's own affair.
    pub async fn scale(&self, replicas: u32) -> Result<()> {
        let patch = Patch::Merge(json!({ "spec": { "replicas": replicas } }));
        self.api(self.kind)
            .patch(&self.name, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    /// Makes the next pod, on a node. A StatefulSet's have ordinals, a bare pod its own name, others a suffix.
    pub async fn pod(&mut self, node: &str) -> Result<Sandbox> {
        let ordinal = self.made;
        self.made += 1;
        self.pod_at(ordinal, node).await
    }

    /// Makes the pod of an ordinal, again or for the first time.
    pub async fn pod_at(&self, ordinal: u32, node: &str) -> Result<Sandbox> {
        let name = match (self.kind, &self.owner) {
            (Kind::StatefulSet, _) => format!("{}-{ordinal}", self.name),
            (_, Some(owner)) => format!("{}-x{ordinal}", owner.name),
            (_, None) => self.name.clone(),
        };
        let mut labels = self.selector(Kind::ReplicaSet);
        for (key, value) in &self.template.labels {
            labels[key] = json!(value);
        }
        if self.kind == Kind::StatefulSet {
            labels["statefulset.kubernetes.io/pod-name"] = json!(name);
        }
        let mut spec = self.template.spec(self.kind);
        spec["nodeName"] = json!(node);
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {
                "name": name, "labels": labels, "annotations": self.template.annotations,
                "ownerReferences": self.owner.iter().collect::<Vec<_>>(),
            },
            "spec": spec,
        }))?;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let made = pods.create(&PostParams::default(), &pod).await;
        let made = made.with_context(|| format!("pod {name}"))?;
        Ok(Sandbox::of(
            &self.namespace,
            &name,
            &made.uid().unwrap_or_default(),
        ))
    }
}

/// The whole end of a pod with these NICs: deleted, DEL of each, gone.
pub async fn end(client: &Client, kubelet: &Kubelet, sandbox: &Sandbox, nics: &[&str]) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &sandbox.namespace);
    pods.delete(&sandbox.name, &DeleteParams::default()).await?;
    for nic in nics.iter().rev() {
        let answer = kubelet.del(sandbox, nic).await?;
        ensure!(
            answer.success,
            "DEL of {nic} of {} failed: {}",
            sandbox.name,
            answer.text()
        );
    }
    match pods
        .delete(&sandbox.name, &DeleteParams::default().grace_period(0))
        .await
    {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        Err(error) => Err(error.into()),
    }
}
