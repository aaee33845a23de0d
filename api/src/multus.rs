//! Which network a NIC is attached to, as Multus's annotations say (reference §2.3 item 7).

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::annotation::{MULTUS_DEFAULT_NETWORK, MULTUS_NETWORKS, MalformedAnnotation, Object};

/// A network attachment definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkRef {
    /// Namespace of the definition.
    pub namespace: String,
    /// Name of the definition.
    pub name: String,
}

/// A network of the pod and the NIC that it becomes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodNetwork {
    /// The definition.
    pub network: NetworkRef,
    /// The NIC when it is named; else `net1`, `net2`, ... by position.
    pub nic: String,
}

#[derive(Deserialize)]
struct JsonNetwork {
    name: String,
    #[serde(default)]
    namespace: Option<String>,
    #[serde(default)]
    interface: Option<String>,
}

const FORM: &str = r#""ns/name@nic, ..." or [{"name":"...","namespace":"...","interface":"..."}]"#;

/// Reads [`MULTUS_NETWORKS`] in both of its forms.
pub fn parse_networks(text: &str, pod_namespace: &str) -> Result<Vec<PodNetwork>, MalformedAnnotation> {
    parse(MULTUS_NETWORKS, text, pod_namespace)
}

fn parse(
    annotation: &'static str,
    text: &str,
    pod_namespace: &str,
) -> Result<Vec<PodNetwork>, MalformedAnnotation> {
    let malformed = |problem: String| MalformedAnnotation::new(annotation, text, problem, FORM);
    let items: Vec<(NetworkRef, Option<String>)> = if text.contains(['[', '{', '"']) {
        let networks: Vec<Object<JsonNetwork>> =
            serde_json::from_str(text).map_err(|error| malformed(error.to_string()))?;
        networks
            .into_iter()
            .map(|Object(one)| from_json(one, pod_namespace))
            .collect()
    } else {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        parts
            .map(|part| from_text(part, pod_namespace).map_err(malformed))
            .collect::<Result<_, _>>()?
    };
    if let Some((network, _)) = items.iter().find(|(network, _)| network.name.is_empty()) {
        return Err(malformed(format!(
            "a network of namespace {:?} has no name",
            network.namespace
        )));
    }
    let named = items.into_iter().enumerate();
    Ok(named
        .map(|(index, (network, nic))| PodNetwork {
            network,
            nic: nic.unwrap_or_else(|| format!("net{}", index + 1)),
        })
        .collect())
}

fn from_json(network: JsonNetwork, pod_namespace: &str) -> (NetworkRef, Option<String>) {
    let namespace = network
        .namespace
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| pod_namespace.to_owned());
    (
        NetworkRef {
            namespace,
            name: network.name,
        },
        network.interface.filter(|text| !text.is_empty()),
    )
}

fn from_text(part: &str, pod_namespace: &str) -> Result<(NetworkRef, Option<String>), String> {
    let (network, nic) = match part.split_once('@') {
        Some((network, nic)) if !nic.is_empty() && !nic.contains('@') => (network, Some(nic.to_owned())),
        Some(_) => return Err(format!("{part:?} names no NIC, or several, after \"@\"")),
        None => (part, None),
    };
    Ok((
        parse_ref(network, pod_namespace).ok_or_else(|| format!("{part:?} is not a network"))?,
        nic,
    ))
}

fn parse_ref(text: &str, namespace: &str) -> Option<NetworkRef> {
    let (namespace, name) = text.split_once('/').unwrap_or((namespace, text));
    let fits = |part: &str| !part.is_empty() && !part.contains('/');
    (fits(namespace) && fits(name)).then(|| NetworkRef {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

/// The network of a NIC; `None` when the annotations and the cluster's default do not tell.
///
/// `eth0` (and `0`, the first slot of nameless multi-NIC mode) is the default network: the pod's annotation,
/// else `default_network` (`ns/name`, or `name` in `kube-system`). Other NICs are found by their name.
pub fn network_of(
    nic: &str,
    annotations: &BTreeMap<String, String>,
    pod_namespace: &str,
    default_network: Option<&str>,
) -> Result<Option<NetworkRef>, MalformedAnnotation> {
    if nic == "eth0" || nic == "0" {
        if let Some(text) = annotations.get(MULTUS_DEFAULT_NETWORK) {
            let mut networks = parse(MULTUS_DEFAULT_NETWORK, text, "kube-system")?;
            return match (networks.pop(), networks.len()) {
                (Some(only), 0) => Ok(Some(only.network)),
                (last, others) => {
                    let problem = format!(
                        "it names {} networks, not one",
                        others + usize::from(last.is_some())
                    );
                    Err(MalformedAnnotation::new(
                        MULTUS_DEFAULT_NETWORK,
                        text,
                        problem,
                        FORM,
                    ))
                }
            };
        }
        return Ok(default_network.and_then(|text| parse_ref(text.trim(), "kube-system")));
    }
    let Some(text) = annotations.get(MULTUS_NETWORKS) else {
        return Ok(None);
    };
    let networks = parse_networks(text, pod_namespace)?;
    Ok(networks
        .into_iter()
        .find(|network| network.nic == nic)
        .map(|network| network.network))
}
