//! Which resources are served.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

/// A served resource in one version.
#[derive(Clone, Debug, PartialEq)]
pub struct Kind {
    /// API group; empty for core.
    pub group: String,
    /// Version.
    pub version: String,
    /// `pods`.
    pub plural: String,
    /// `pod`.
    pub singular: String,
    /// `Pod`.
    pub kind: String,
    /// `po`.
    pub short_names: Vec<String>,
    /// `all`, `spiderpool`.
    pub categories: Vec<String>,
    /// False for cluster-wide resources.
    pub namespaced: bool,
    /// Writes of `status` go through the subresource alone.
    pub status_subresource: bool,
    /// Schema of a custom resource.
    pub schema: Option<Arc<Value>>,
    /// `additionalPrinterColumns` of a custom resource.
    pub columns: Vec<Value>,
}

impl Kind {
    /// `v1` or `group/version`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `pods` or `plural.group`: how messages name it.
    pub fn resource(&self) -> String {
        if self.group.is_empty() {
            self.plural.clone()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// What objects are stored under; versions share it.
    pub fn key(&self) -> ResourceKey {
        ResourceKey {
            group: self.group.clone(),
            plural: self.plural.clone(),
        }
    }
}

/// A resource whatever its version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceKey {
    /// API group; empty for core.
    pub group: String,
    /// `pods`.
    pub plural: String,
}

impl ResourceKey {
    /// From its parts.
    pub fn new(group: &str, plural: &str) -> Self {
        Self {
            group: group.to_owned(),
            plural: plural.to_owned(),
        }
    }
}

/// group, version, plural, kind, short names, namespaced, status subresource.
type Row = (
    &'static str,
    &'static str,
    &'static str,
    &'static str,
    &'static [&'static str],
    bool,
    bool,
);

const BUILT_IN: &[Row] = &[
    ("", "v1", "namespaces", "Namespace", &["ns"], false, true),
    ("", "v1", "nodes", "Node", &["no"], false, true),
    ("", "v1", "pods", "Pod", &["po"], true, true),
    ("", "v1", "events", "Event", &["ev"], true, false),
    ("", "v1", "configmaps", "ConfigMap", &["cm"], true, false),
    ("", "v1", "secrets", "Secret", &[], true, false),
    ("", "v1", "services", "Service", &["svc"], true, true),
    ("", "v1", "endpoints", "Endpoints", &["ep"], true, false),
    (
        "",
        "v1",
        "serviceaccounts",
        "ServiceAccount",
        &["sa"],
        true,
        false,
    ),
    ("events.k8s.io", "v1", "events", "Event", &["ev"], true, false),
    ("apps", "v1", "deployments", "Deployment", &["deploy"], true, true),
    ("apps", "v1", "replicasets", "ReplicaSet", &["rs"], true, true),
    ("apps", "v1", "statefulsets", "StatefulSet", &["sts"], true, true),
    ("apps", "v1", "daemonsets", "DaemonSet", &["ds"], true, true),
    ("batch", "v1", "jobs", "Job", &[], true, true),
    ("batch", "v1", "cronjobs", "CronJob", &["cj"], true, true),
    ("batch", "v1", "jobs", "Job", &[], true, true),
    ("batch", "v1", "cronjobs", "CronJob", &["cj"], true, true),
    ("coordination.k8s.io", "v1", "leases", "Lease", &[], true, false),
    (
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        &["crd", "crds"],
        false,
        true,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        &[],
        false,
        false,
    ),
    (
        "admissionregistration.k8s.io",
        "v1",
        "mutatingwebhookconfigurations",
        "MutatingWebhookConfiguration",
        &[],
        false,
        false,
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "clusterroles",
        "ClusterRole",
        &[],
        false,
        false,
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "clusterrolebindings",
        "ClusterRoleBinding",
        &[],
        false,
        false,
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "roles",
        "Role",
        &[],
        true,
        false,
    ),
    (
        "rbac.authorization.k8s.io",
        "v1",
        "rolebindings",
        "RoleBinding",
        &[],
        true,
        false,
    ),
    (
        "networking.k8s.io",
        "v1",
        "networkpolicies",
        "NetworkPolicy",
        &["netpol"],
        true,
        false,
    ),
    (
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        &["pdb"],
        true,
        true,
    ),
];

/// The resources that are there before any definition is created.
pub fn built_in() -> Vec<Kind> {
    let kind = |row: &Row| Kind {
        group: row.0.to_owned(),
        version: row.1.to_owned(),
        plural: row.2.to_owned(),
        singular: row.3.to_lowercase(),
        kind: row.3.to_owned(),
        short_names: row.4.iter().map(|name| (*name).to_owned()).collect(),
        categories: Vec::new(),
        namespaced: row.5,
        status_subresource: row.6,
        schema: None,
        columns: Vec::new(),
    };
    BUILT_IN.iter().map(kind).collect()
}

/// What a CustomResourceDefinition adds.
pub fn of_definition(definition: &Value) -> Vec<Kind> {
    let text = |pointer: &str| {
        definition
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let texts = |pointer: &str| -> Vec<String> {
        let items = definition
            .pointer(pointer)
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        items.filter_map(Value::as_str).map(str::to_owned).collect()
    };
    let versions = definition
        .pointer("/spec/versions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let served = versions.filter(|version| version["served"] == Value::Bool(true));
    let singular = Some(text("/spec/names/singular")).filter(|name| !name.is_empty());
    served
        .map(|version| Kind {
            group: text("/spec/group"),
            version: version["name"].as_str().unwrap_or_default().to_owned(),
            plural: text("/spec/names/plural"),
            singular: singular
                .clone()
                .unwrap_or_else(|| text("/spec/names/kind").to_lowercase()),
            kind: text("/spec/names/kind"),
            short_names: texts("/spec/names/shortNames"),
            categories: texts("/spec/names/categories"),
            namespaced: text("/spec/scope") == "Namespaced",
            status_subresource: version.pointer("/subresources/status").is_some(),
            schema: version.pointer("/schema/openAPIV3Schema").cloned().map(Arc::new),
            columns: version["additionalPrinterColumns"]
                .as_array()
                .cloned()
                .unwrap_or_default(),
        })
        .collect()
}

/// Everything served, by group and version.
pub fn by_version(kinds: &[Kind]) -> BTreeMap<(String, String), Vec<&Kind>> {
    let mut groups: BTreeMap<(String, String), Vec<&Kind>> = BTreeMap::new();
    for kind in kinds {
        groups
            .entry((kind.group.clone(), kind.version.clone()))
            .or_default()
            .push(kind);
    }
    groups
}
