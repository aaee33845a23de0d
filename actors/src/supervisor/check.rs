//! One CNI CHECK: does the NIC still hold what it was given.

use ipnet::IpNet;

use super::Inner;
use super::{del, endpoint};
use crate::error::IpamError;
use crate::request::CheckRequest;

/// Compares the addresses of the previous result with the pod's endpoint.
pub(super) fn run(inner: &Inner, request: &CheckRequest) -> Result<(), IpamError> {
    let attachment = &request.attachment;
    let unknown = |why: String| IpamError::PodUnknown {
        pod: attachment.pod(),
        why,
    };
    let endpoint = inner
        .ports
        .endpoints
        .known_endpoint(&attachment.namespace, &del::endpoint_name(inner, attachment))
        .filter(|endpoint| attachment.uid.is_empty() || endpoint.status.current.uid == attachment.uid)
        .ok_or_else(|| unknown("it has no SpiderEndpoint on this node".to_owned()))?;
    let nic = endpoint::nic(&endpoint, &attachment.nic)
        .ok_or_else(|| unknown(format!("its SpiderEndpoint has no NIC {}", attachment.nic)))?;
    for text in &request.addresses {
        let address: IpNet = text.parse().map_err(|_| {
            IpamError::InvalidRequest(format!("address {text:?} of the previous result is not a CIDR").into())
        })?;
        let held = endpoint::address(nic, orbweaver_api::address_set::Family::of(address.addr()));
        if held != Some(address.addr()) {
            return Err(unknown(format!(
                "{} holds {held:?}, not {address}",
                attachment.nic
            )));
        }
    }
    Ok(())
}
