//! Routes of the pod's annotation `routes`: each goes to the NIC whose subnet holds its gateway (reference
//! §2.8 item 7).

use ipnet::IpNet;
use orbweaver_api::annotation::{self, MalformedAnnotation, PodRoute};
use orbweaver_api::pool::Route;

use super::selection::annotations_of;

/// The routes that the pod's annotation names; none without the annotation.
pub(super) fn of_pod(pod: &k8s_openapi::api::core::v1::Pod) -> Result<Vec<PodRoute>, MalformedAnnotation> {
    annotations_of(pod)
        .get(annotation::POD_ROUTES)
        .map_or(Ok(Vec::new()), |text| annotation::parse_routes(text))
}

/// Takes out of `routes` those whose gateway one of `subnets` holds, in their order.
pub(super) fn take(routes: &mut Vec<PodRoute>, subnets: &[IpNet]) -> Vec<Route> {
    let (own, others): (Vec<PodRoute>, Vec<PodRoute>) = routes
        .iter()
        .partition(|route| subnets.iter().any(|subnet| subnet.contains(&route.gw)));
    *routes = others;
    own.into_iter()
        .map(|route| Route {
            dst: route.dst.to_string(),
            gw: route.gw.to_string(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(dst: &str, gw: &str) -> PodRoute {
        PodRoute {
            dst: dst.parse().unwrap(),
            gw: gw.parse().unwrap(),
        }
    }

    /// A00002.
    #[test]
    fn a_route_goes_to_the_nic_whose_subnet_holds_its_gateway_and_to_no_other() {
        let mut routes = vec![
            route("192.168.0.0/16", "10.7.0.1"),
            route("fd01::/64", "fd00::1"),
            route("172.16.0.0/12", "10.8.0.1"),
            route("1.0.0.0/8", "10.9.0.1"),
        ];
        let nets = |texts: &[&str]| {
            texts
                .iter()
                .map(|text| text.parse().unwrap())
                .collect::<Vec<IpNet>>()
        };
        let named = |routes: Vec<Route>| routes.into_iter().map(|route| route.dst).collect::<Vec<_>>();
        assert_eq!(
            named(take(&mut routes, &nets(&["10.7.0.0/24", "fd00::/64"]))),
            ["192.168.0.0/16", "fd01::/64"]
        );
        assert_eq!(
            named(take(&mut routes, &nets(&["10.8.0.0/24"]))),
            ["172.16.0.0/12"]
        );
        assert_eq!(routes, [route("1.0.0.0/8", "10.9.0.1")]);
    }
}
