//! What a pod gets so that it lands on a node that can carry its NICs (reference §5.2.6, §7): requests of the device
//! plugin's resources, and networks by annotation. Pure.

use std::collections::{BTreeMap, BTreeSet};

use orbweaver_api::annotation::{MULTUS_DEFAULT_NETWORK, MULTUS_NETWORKS, MalformedAnnotation};
use orbweaver_api::multus::{NetworkRef, network_of, parse_networks};
use orbweaver_api::multus_config::{ConfigPools, LinkConfig, MultusConfigSpec};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::finding::Finding;
use super::pool_mutation::set;
use super::selector;

/// On a pod, a namespace or a configuration: networks with RDMA devices that belong together.
pub const RDMA_INJECT: &str = "cni.spidernet.io/rdma-resource-inject";
/// The same for other devices.
pub const NETWORK_INJECT: &str = "cni.spidernet.io/network-resource-inject";
/// Sub-ENIs of a node, as the device plugin counts them.
pub const SUB_ENI: &str = "spidernet.io/sub-eni";
/// A kubelet's own pods are what its files say.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// A `SpiderMultusConfig`.
#[derive(Clone, Debug, Default)]
pub struct NetworkConfig {
    /// Its namespace, and that of the network that is made of it.
    pub namespace: String,
    /// Name of the network: of the configuration, unless an annotation says another.
    pub network: String,
    /// Labels and annotations; values of [`RDMA_INJECT`] and [`NETWORK_INJECT`] are looked for in both.
    pub marks: Vec<BTreeMap<String, String>>,
    /// What it says.
    pub spec: MultusConfigSpec,
}

/// What is to be known of a pod besides itself.
#[derive(Clone, Copy, Debug)]
pub struct Surroundings<'a> {
    /// Its namespace; the pod itself may not say it yet.
    pub namespace: &'a str,
    /// The namespace's annotations.
    pub annotations: &'a BTreeMap<String, String>,
    /// The cluster's configurations.
    pub configs: &'a [NetworkConfig],
}

/// JSON patch operations for a new pod, or why it cannot be made.
pub fn patch(pod: &Value, around: Surroundings<'_>) -> Result<Vec<Value>, Finding> {
    let before = annotations(pod);
    if pod["spec"]["hostNetwork"] == true || before.contains_key(MIRROR) {
        return Ok(Vec::new());
    }
    let (mut after, mut limits) = (before.clone(), BTreeMap::new());
    if let Some((key, value)) = wanted(&before, around.annotations) {
        let chosen = chosen(key, &value, around.configs)?;
        let networks: Vec<String> = chosen
            .iter()
            .map(|config| format!("{}/{}", config.namespace, config.network))
            .collect();
        after.insert(MULTUS_NETWORKS.to_owned(), networks.join(","));
        limits.extend(
            chosen
                .iter()
                .filter_map(|config| Some((device(&config.spec)?, 1))),
        );
    }
    let requests = requests(&after, around).map_err(|error| {
        let field = format!("metadata.annotations[{}]", error.annotation);
        Finding::invalid(field, error)
    })?;
    let mut operations = Vec::new();
    if after != before {
        operations.push(set("/metadata/annotations", &json!(after)));
    }
    operations.extend(resources(pod, &limits, &requests));
    Ok(operations)
}

fn annotations(object: &Value) -> BTreeMap<String, String> {
    BTreeMap::deserialize(&object["metadata"]["annotations"]).unwrap_or_default()
}

/// The annotation to go by: RDMA before others, the pod's before its namespace's.
fn wanted(
    pod: &BTreeMap<String, String>,
    namespace: &BTreeMap<String, String>,
) -> Option<(&'static str, String)> {
    let found = |key: &'static str| {
        let value = pod.get(key).or_else(|| namespace.get(key))?;
        Some((key, value.clone()))
    };
    found(RDMA_INJECT).or_else(|| found(NETWORK_INJECT))
}

fn chosen<'a>(
    key: &str,
    value: &str,
    configs: &'a [NetworkConfig],
) -> Result<Vec<&'a NetworkConfig>, Finding> {
    let field = format!("metadata.annotations[{key}]");
    let is_marked = |config: &&NetworkConfig| {
        let mut marks = config.marks.iter().filter_map(|marks| marks.get(key));
        marks.any(|mark| mark == value)
    };
    let mut chosen: Vec<_> = configs.iter().filter(is_marked).collect();
    chosen.sort_by_key(|config| (&config.namespace, &config.network));
    if chosen.is_empty() {
        let detail = format!("no spidermultusconfigs with annotation: {key}:{value} found; annotate one");
        return Err(Finding::invalid(field, detail));
    }
    for config in &chosen {
        let lacks = match (device(&config.spec), has_pools(&config.spec)) {
            (None, _) => "resource name",
            (_, false) => "ippools",
            _ => continue,
        };
        let (namespace, name) = (&config.namespace, &config.network);
        let detail = format!("spidermultusconfig {namespace}/{name} has no {lacks}; complete it");
        return Err(Finding::invalid(field, detail));
    }
    Ok(chosen)
}

fn link(spec: &MultusConfigSpec) -> Option<&LinkConfig> {
    match spec.cni_type.as_deref()? {
        "macvlan" => spec.macvlan.as_ref(),
        "ipvlan" => spec.ipvlan.as_ref(),
        "vlan" => spec.vlan.as_ref(),
        _ => None,
    }
}

fn free(spec: &MultusConfigSpec) -> Option<&Value> {
    match spec.cni_type.as_deref()? {
        "sriov" => spec.sriov.as_ref(),
        "ib-sriov" => spec.ibsriov.as_ref(),
        "ipoib" => spec.ipoib.as_ref(),
        _ => None,
    }
}

/// The device resource that a configuration names.
fn device(spec: &MultusConfigSpec) -> Option<String> {
    let by_link = link(spec).and_then(|link| link.rdma_resource_name.clone());
    let name = by_link.or_else(|| Some(free(spec)?["resourceName"].as_str()?.to_owned()));
    name.filter(|name| !name.is_empty())
}

fn has_pools(spec: &MultusConfigSpec) -> bool {
    let by_link = link(spec).and_then(|link| link.ippools.clone());
    let pools = by_link.or_else(|| ConfigPools::deserialize(&free(spec)?["ippools"]).ok());
    pools.is_some_and(|pools| !pools.ipv4.is_empty() || !pools.ipv6.is_empty())
}

/// Links of the host under a configuration's NICs.
fn masters(spec: &MultusConfigSpec) -> Vec<String> {
    match (link(spec), spec.cni_type.as_deref()) {
        (Some(link), _) => link.master.clone(),
        (None, Some("ipoib")) => free(spec)
            .and_then(|ipoib| ipoib["master"].as_str())
            .map(str::to_owned)
            .into_iter()
            .collect(),
        _ => Vec::new(),
    }
}

/// What the device plugin's resources of a pod's networks are, and how many of each. Networks that no configuration
/// made are none of ours.
fn requests(
    annotations: &BTreeMap<String, String>,
    around: Surroundings<'_>,
) -> Result<BTreeMap<String, usize>, MalformedAnnotation> {
    let mut networks = Vec::new();
    if annotations.contains_key(MULTUS_DEFAULT_NETWORK) {
        networks.extend(network_of("eth0", annotations, around.namespace, None)?);
    }
    if let Some(text) = annotations.get(MULTUS_NETWORKS) {
        let all = parse_networks(text, around.namespace)?;
        networks.extend(all.into_iter().map(|one| one.network));
    }
    let is_used = |config: &&NetworkConfig| {
        let same =
            |network: &NetworkRef| network.namespace == config.namespace && network.name == config.network;
        networks.iter().any(same)
    };
    let used: Vec<_> = around.configs.iter().filter(is_used).collect();
    let nics: BTreeSet<String> = used
        .iter()
        .flat_map(|config| masters(&config.spec))
        .map(|master| format!("{master}-nic"))
        .filter(|name| !name.starts_with('-') && selector::is_value(name))
        .collect();
    let mut requests: BTreeMap<_, _> = nics
        .into_iter()
        .map(|name| (format!("spidernet.io/{name}"), 1))
        .collect();
    let sub_enis = used
        .iter()
        .filter(|config| config.spec.is_provider_network())
        .count();
    if sub_enis > 0 {
        requests.insert(SUB_ENI.to_owned(), sub_enis);
    }
    Ok(requests)
}

/// Puts resources into the first container, unless some container has thought of them itself.
fn resources(
    pod: &Value,
    limits: &BTreeMap<String, usize>,
    requests: &BTreeMap<String, usize>,
) -> Option<Value> {
    let first = pod["spec"]["containers"].as_array()?.first()?;
    let containers = ["containers", "initContainers"].map(|list| pod["spec"][list].as_array());
    let declared: BTreeSet<&String> = containers
        .into_iter()
        .flatten()
        .flatten()
        .flat_map(|container| ["limits", "requests"].map(|kind| container["resources"][kind].as_object()))
        .flatten()
        .flat_map(Map::keys)
        .collect();
    let mut all = first["resources"].as_object().cloned().unwrap_or_default();
    let mut add = |kind: &str, wanted: &BTreeMap<String, usize>| {
        for (name, count) in wanted.iter().filter(|(name, _)| !declared.contains(name)) {
            let entry = all.entry(kind.to_owned()).or_insert_with(|| json!({}));
            entry[name] = json!(count.to_string());
        }
    };
    add("limits", limits);
    add("limits", requests);
    add("requests", requests);
    let all = Value::Object(all);
    let before = first.get("resources").cloned().unwrap_or_else(|| json!({}));
    (all != before).then(|| set("/spec/containers/0/resources", &all))
}
