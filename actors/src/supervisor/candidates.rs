//! From the pod and its annotations to what each NIC of an ADD is to get.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use orbweaver_api::annotation::{self, MalformedAnnotation};
use orbweaver_api::endpoint::SpiderEndpoint;
use orbweaver_api::multus::{self, NetworkRef};
use orbweaver_api::pool::SpiderIPPool;

use super::Inner;
use super::add::Add;
use super::explain::{self, Explanation};
use super::nics::{Attempt, NicPlan};
use super::selection::{self, Class, Question, Selection, annotations_of};
use super::{identity, owner, routes};
use crate::error::IpamError;
use crate::request::AddRequest;
use crate::store::Marks;

/// Why pools of a lower class are set aside, as the pod's Event names it.
pub(super) const EVENT_IGNORED: &str = "IPPoolIgnored";

/// A NIC that has its addresses already is asked for again in the pools it has them from; everything else is
/// selected.
pub(super) fn of_add(add: &Add, endpoint: Option<&SpiderEndpoint>) -> Result<Vec<NicPlan>, IpamError> {
    let nic = &add.request.attachment.nic;
    if let Some(recorded) = endpoint.and_then(|endpoint| super::endpoint::nic_or_slot(endpoint, nic)) {
        let mut plan = NicPlan::of_record(recorded, add.network_of(nic)?);
        plan.nic.clone_from(nic);
        return Ok(vec![plan]);
    }
    let asked = Asked::of(&add.inner, &add.pod, &add.request, nic)?;
    let selections = asked.with(selection::decide_all)?;
    let nameless = selections.iter().any(|selection| selection.slot.is_some());
    if nameless && endpoint.is_some_and(has_nics) {
        return Err(all_taken(&add.pod, nic, selections.len()).into());
    }
    for (place, selection) in selections.iter().enumerate() {
        tell_ignored(add, place, selection);
    }
    let mut refusals = selections.iter().map(|selection| {
        let unsupported = || unsupported(selection.class);
        selection.refusal(nic).or_else(unsupported)
    });
    if let Some(refusal) = refusals.find_map(|refusal| refusal) {
        return Err(refusal);
    }
    let places = selections.iter().enumerate();
    Ok(places
        .map(|(place, selection)| of_selection(add, &asked, place, selection))
        .collect())
}

fn has_nics(endpoint: &SpiderEndpoint) -> bool {
    !endpoint.status.current.ips.is_empty()
}

/// Without NICs in `ippools` every item went to a NIC at the first ADD, and none is left for this one.
fn all_taken(pod: &Pod, nic: &str, slots: usize) -> MalformedAnnotation {
    let problem = format!("it has {slots} items, all taken by NICs of the pod, and {nic} is one more");
    let text = annotations_of(pod).get(annotation::POD_POOLS);
    let text = text.map(String::as_str).unwrap_or_default();
    MalformedAnnotation::new(
        annotation::POD_POOLS,
        text,
        problem,
        "one item for every NIC of the pod",
    )
}

fn unsupported(class: Class) -> Option<IpamError> {
    let message = "paired pools (annotation ipam.spidernet.io/pair-pool) are not supported in a dual-stack cluster yet; \
                   remove the annotation or switch one family off";
    (class == Class::PairedPrimary).then(|| IpamError::NoPool(message.into()))
}

fn of_selection(add: &Add, asked: &Asked<'_>, place: usize, selection: &Selection) -> NicPlan {
    let name = |pool: &Arc<SpiderIPPool>| pool.metadata.name.as_deref().unwrap_or_default().into();
    let attempts = selection.families.iter().map(|candidates| Attempt {
        family: candidates.family,
        pools: candidates.pools.iter().map(name).collect(),
    });
    let (nic, network) = match place.checked_sub(1) {
        None => (add.request.attachment.nic.clone(), asked.network.clone()),
        Some(further) => (String::new(), asked.further.get(further).cloned()),
    };
    NicPlan {
        nic,
        network,
        attempts: attempts.collect(),
        clean_gateway: selection.clean_gateway.unwrap_or(add.request.clean_gateway),
        recorded: None,
        takes_over: false,
    }
}

fn tell_ignored(add: &Add, place: usize, selection: &Selection) {
    if selection.ignored.is_empty() {
        return;
    }
    let nic = match place {
        0 => add.request.attachment.nic.clone(),
        slot => format!("slot {slot}"),
    };
    let ignored = selection::reasons(&selection.ignored);
    tracing::warn!(pod = %add.pod_name, %nic, kept = %selection.class, %ignored, "pools of a lower class are ignored");
    let note = format!(
        "IPPools of NIC {nic} are ignored, only the {}s count: {ignored}",
        selection.class
    );
    add.inner
        .ports
        .events
        .warn_pod(&add.pod, EVENT_IGNORED, &nic, note);
}

/// What the ADD would decide for the NIC.
pub(super) fn explain(inner: &Inner, request: &AddRequest) -> Result<Explanation, IpamError> {
    let attachment = &request.attachment;
    let pod = inner.ports.view.pod(&attachment.namespace, &attachment.name);
    let pod = pod.ok_or_else(|| IpamError::PodUnknown {
        pod: attachment.pod(),
        why: format!(
            "node {} has no such pod; ask the agent of the pod's node (kubectl get pod -o wide)",
            inner.options.node_name
        ),
    })?;
    let mut request = request.clone();
    if request.default_ipv4_pools.is_empty() && request.default_ipv6_pools.is_empty() {
        let network = network_of(inner, &pod, &attachment.namespace, &attachment.nic)?;
        let config = network.and_then(|of| inner.ports.view.multus_config(&of.namespace, &of.name));
        if let Some(pools) = config.as_deref().and_then(|config| config.spec.default_pools()) {
            request.default_ipv4_pools.clone_from(&pools.ipv4);
            request.default_ipv6_pools.clone_from(&pools.ipv6);
        }
    }
    let nic = &attachment.nic;
    let asked = Asked::of(inner, &pod, &request, nic)?;
    let mut explanation = asked.with(explain::explain);
    let returning = inner.options.returning;
    let name = owner::endpoint_name(&pod, returning);
    let endpoint = inner.ports.endpoints.known_endpoint(&attachment.namespace, &name);
    let mine = endpoint.filter(|endpoint| Some(&endpoint.status.current.uid) == pod.metadata.uid.as_ref());
    let recorded = |endpoint| super::endpoint::nic_or_slot(endpoint, nic).cloned();
    explanation.recorded = mine.as_deref().and_then(recorded);
    if mine.is_none() && owner::stateful(&pod, returning).is_some() {
        explanation.comes_back_to = Some(format!("{}/{name}", attachment.namespace));
    }
    let refusal = refused_before(&pod, &attachment.pod()).or_else(|| {
        let wanted = asked.with(selection::wanted).ok();
        let taken = wanted.filter(|wanted| wanted.nameless && explanation.recorded.is_none())?;
        let full = mine.as_deref().is_some_and(has_nics);
        full.then(|| all_taken(&pod, nic, taken.items.len()).into())
    });
    let paired = Class::PairedPrimary.to_string();
    let pairs = explanation
        .nics
        .iter()
        .any(|nic| nic.class.as_ref() == Some(&paired));
    let unsupported = || unsupported(Class::PairedPrimary).filter(|_| pairs);
    explanation.refusal = match refusal {
        Some(first) => Some(first.to_string()),
        None => (explanation.refusal).or_else(|| Some(unsupported()?.to_string())),
    };
    Ok(explanation)
}

/// What an ADD refuses before it looks at pools.
fn refused_before(pod: &Pod, name: &str) -> Option<IpamError> {
    let dead = identity::check_alive(pod, name).err();
    dead.or_else(|| Some(routes::of_pod(pod).err()?.into()))
}

/// What the selection of a pod's NIC is asked with.
pub(super) struct Asked<'a> {
    inner: &'a Inner,
    pod: &'a Pod,
    request: &'a AddRequest,
    nic: &'a str,
    node: Arc<Marks>,
    namespace: Arc<Marks>,
    network: Option<NetworkRef>,
    further: Vec<NetworkRef>,
}

impl<'a> Asked<'a> {
    /// Reads the pod's networks, and what the watches know of its node and namespace.
    pub(super) fn of(
        inner: &'a Inner,
        pod: &'a Pod,
        request: &'a AddRequest,
        nic: &'a str,
    ) -> Result<Self, IpamError> {
        let annotations = annotations_of(pod);
        let namespace = &request.attachment.namespace;
        let slots = annotations.contains_key(annotation::POD_POOLS);
        let further = match annotations.get(annotation::MULTUS_NETWORKS) {
            Some(text) if slots => multus::parse_networks(text, namespace)?,
            _ => Vec::new(),
        };
        // The watches may be behind: a namespace without its annotations would decide for other pools.
        let unknown = |what: String| IpamError::PodUnknown {
            pod: request.attachment.pod(),
            why: format!("the watch has not seen {what} yet"),
        };
        let view = &inner.ports.view;
        let node = view
            .node()
            .ok_or_else(|| unknown(format!("node {}", inner.options.node_name)))?;
        let known = view.namespace(namespace);
        Ok(Self {
            inner,
            pod,
            request,
            nic,
            node,
            namespace: known.ok_or_else(|| unknown(format!("namespace {namespace}")))?,
            network: network_of(inner, pod, namespace, nic)?,
            further: further.into_iter().map(|network| network.network).collect(),
        })
    }

    /// Asks the selection something.
    pub(super) fn with<T>(&self, ask: impl FnOnce(&Question<'_>) -> T) -> T {
        let view = &self.inner.ports.view;
        let options = &self.inner.options;
        let text = |network: &NetworkRef| format!("{}/{}", network.namespace, network.name);
        let further: Vec<String> = self.further.iter().map(text).collect();
        ask(&Question {
            pod: self.pod,
            nic: self.nic,
            node_name: &options.node_name,
            node: &self.node,
            namespace: &self.namespace,
            pools: &view.pools(),
            configured: (&self.request.default_ipv4_pools, &self.request.default_ipv6_pools),
            enabled: (options.enable_ipv4, options.enable_ipv6),
            network: self.network.as_ref().map(text).as_deref(),
            further_networks: &further,
            agent_namespace: &options.namespace,
        })
    }
}

/// The network that a NIC is attached to, as Multus's annotations say.
pub(super) fn network_of(
    inner: &Inner,
    pod: &Pod,
    namespace: &str,
    nic: &str,
) -> Result<Option<NetworkRef>, IpamError> {
    let default = inner.options.default_network.as_deref();
    Ok(multus::network_of(nic, annotations_of(pod), namespace, default)?)
}
