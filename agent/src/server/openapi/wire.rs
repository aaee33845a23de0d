//! From OpenAPI messages to requests, and from answers to OpenAPI messages.

use orbweaver_actors::request::{Allocated, Attachment};
use orbweaver_api::address_set::Family;
use orbweaver_api::endpoint::{NicAllocation, SpiderEndpoint};
use orbweaver_api::openapi::{
    InterfaceDetail, IpConfig, IpamAddArgs, IpamAddResponse, IpamDelArgs, Route, WorkloadEndpointStatus,
};

/// Whose NIC an ADD is about.
pub(super) fn of_add(arguments: &IpamAddArgs) -> Attachment {
    Attachment {
        container_id: arguments.container_id.clone(),
        nic: arguments.if_name.clone(),
        netns: arguments.net_namespace.clone(),
        namespace: arguments.pod_namespace.clone(),
        name: arguments.pod_name.clone(),
        uid: arguments.pod_uid.clone(),
    }
}

/// Whose NIC a DEL is about.
pub(super) fn of_del(arguments: IpamDelArgs) -> Attachment {
    Attachment {
        container_id: arguments.container_id,
        nic: arguments.if_name,
        netns: arguments.net_namespace,
        namespace: arguments.pod_namespace,
        name: arguments.pod_name,
        uid: arguments.pod_uid,
    }
}

/// The answer to an ADD of `nic`.
pub(super) fn added(allocated: Allocated, nic: &str) -> IpamAddResponse {
    let ips = allocated
        .addresses
        .into_iter()
        .map(|address| IpConfig {
            version: Family::of(address.address.addr()).number().into(),
            address: address.address.to_string(),
            nic: address.nic,
            ip_pool: address.pool,
            gateway: address.gateway.unwrap_or_default(),
            vlan: address.vlan.unwrap_or_default().into(),
            mac: address.mac.unwrap_or_default(),
            ..IpConfig::default()
        })
        .collect();
    IpamAddResponse {
        ips,
        routes: routes(&allocated.routes, nic),
        dns: None,
    }
}

fn routes(routes: &[orbweaver_api::pool::Route], nic: &str) -> Vec<Route> {
    routes
        .iter()
        .map(|route| Route {
            if_name: nic.to_owned(),
            dst: route.dst.clone(),
            gw: route.gw.clone(),
        })
        .collect()
}

/// What a pod holds.
pub(super) fn endpoint_status(endpoint: &SpiderEndpoint) -> WorkloadEndpointStatus {
    let current = &endpoint.status.current;
    WorkloadEndpointStatus {
        pod_namespace: endpoint.metadata.namespace.clone().unwrap_or_default(),
        pod_name: endpoint.metadata.name.clone().unwrap_or_default(),
        pod_uid: current.uid.clone(),
        node: current.node.clone(),
        interfaces: current.ips.iter().map(interface).collect(),
    }
}

fn interface(nic: &NicAllocation) -> InterfaceDetail {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    InterfaceDetail {
        interface: nic.interface.clone(),
        ipv4: text(&nic.ipv4),
        ipv6: text(&nic.ipv6),
        mac: text(&nic.mac),
        vlan: nic.vlan.unwrap_or_default(),
        ipv4_pool: text(&nic.ipv4_pool),
        ipv6_pool: text(&nic.ipv6_pool),
        ipv4_gateway: text(&nic.ipv4_gateway),
        ipv6_gateway: text(&nic.ipv6_gateway),
        routes: routes(&nic.routes, &nic.interface),
    }
}
