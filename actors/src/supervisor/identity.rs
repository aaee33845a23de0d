//! Who the pod is: found by name and UID, and alive.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;

use super::Inner;
use crate::error::IpamError;
use crate::request::AddRequest;

/// The pod of an ADD. The watch of this node's pods answers; only when it does not know the pod, or knows an
/// earlier one of that name, the API server is asked.
pub(super) async fn find_pod(inner: &Inner, request: &AddRequest) -> Result<Arc<Pod>, IpamError> {
    let attachment = &request.attachment;
    let is_meant =
        |pod: &Pod| attachment.uid.is_empty() || pod.metadata.uid.as_deref() == Some(attachment.uid.as_str());
    if let Some(pod) = inner
        .ports
        .view
        .pod(&attachment.namespace, &attachment.name)
        .filter(|pod| is_meant(pod))
    {
        return Ok(pod);
    }
    live(inner, request, &attachment.uid).await
}

/// Refuses a pod that the API server has no more, or has another life of. Asked where something of another life
/// is about to be taken or removed: the watch may be behind, and the other life may be the later one.
pub(super) async fn check_current(inner: &Inner, request: &AddRequest, uid: &str) -> Result<(), IpamError> {
    let pod = live(inner, request, uid).await?;
    check_alive(&pod, &request.attachment.pod())
}

/// The pod as the API server has it; an empty UID means any.
async fn live(inner: &Inner, request: &AddRequest, uid: &str) -> Result<Arc<Pod>, IpamError> {
    let attachment = &request.attachment;
    let is_meant = |pod: &Pod| uid.is_empty() || pod.metadata.uid.as_deref() == Some(uid);
    let unknown = |why: String| IpamError::PodUnknown {
        pod: attachment.pod(),
        why,
    };
    let live = inner
        .ports
        .view
        .live_pod(&attachment.namespace, &attachment.name, request.deadline)
        .await;
    match live {
        Ok(Some(pod)) if is_meant(&pod) => Ok(pod),
        Ok(Some(pod)) => Err(unknown(format!(
            "its UID is {:?}, the request is for {uid:?}",
            pod.metadata.uid.as_deref().unwrap_or_default(),
        ))),
        Ok(None) => Err(unknown("the API server does not know it".to_owned())),
        Err(error) => Err(unknown(error.to_string())),
    }
}

/// True when the pod will not run again (reference §2.1).
pub(super) fn is_dead(pod: &Pod) -> bool {
    if pod.metadata.deletion_timestamp.is_some() {
        return true;
    }
    let policy = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.restart_policy.as_deref())
        .unwrap_or("Always");
    let status = pod.status.as_ref();
    match status.and_then(|status| status.phase.as_deref()) {
        Some("Succeeded") => policy != "Always",
        Some("Failed") => {
            policy == "Never" || status.and_then(|status| status.reason.as_deref()) == Some("Evicted")
        }
        _ => false,
    }
}

/// Refuses dead pods.
pub(super) fn check_alive(pod: &Pod, name: &str) -> Result<(), IpamError> {
    if is_dead(pod) {
        Err(IpamError::PodDead { pod: name.to_owned() })
    } else {
        Ok(())
    }
}
