//! `SpiderEndpoint`: what each NIC of a pod got (reference §1.2).
//!
//! The kind has no `spec` and no status subresource: `status` is an ordinary field.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::NamespaceResourceScope;
use schemars::JsonSchema;
use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

use crate::pool::Route;

/// The endpoint of one pod, named as the pod and in its namespace.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SpiderEndpoint {
    /// Name, namespace, finalizer and, for stateless pods, the owner reference.
    #[schemars(skip)]
    pub metadata: ObjectMeta,
    /// What the pod holds.
    #[serde(default)]
    pub status: EndpointStatus,
}

/// What a pod holds and who stands behind the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EndpointStatus {
    /// The life of the pod that the addresses belong to.
    pub current: PodAllocation,
    /// Kind of the top controller, `Pod` when there is none.
    pub owner_controller_type: String,
    /// Name of the top controller.
    pub owner_controller_name: String,
}

/// One life of a pod on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PodAllocation {
    /// Pod UID.
    pub uid: String,
    /// Node name.
    pub node: String,
    /// One item per NIC.
    pub ips: Vec<NicAllocation>,
}

/// What one NIC got.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NicAllocation {
    /// CNI interface name; empty for a slot not yet taken in nameless multi-NIC mode.
    pub interface: String,
    /// Address with prefix length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<String>,
    /// Address with prefix length.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<String>,
    /// Pool of `ipv4`.
    #[serde(default, rename = "ipv4Pool", skip_serializing_if = "Option::is_none")]
    pub ipv4_pool: Option<String>,
    /// Pool of `ipv6`.
    #[serde(default, rename = "ipv6Pool", skip_serializing_if = "Option::is_none")]
    pub ipv6_pool: Option<String>,
    /// VLAN id, 0-4094.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::pool::schema::vlan")]
    pub vlan: Option<i64>,
    /// Gateway of `ipv4`.
    #[serde(default, rename = "ipv4Gateway", skip_serializing_if = "Option::is_none")]
    pub ipv4_gateway: Option<String>,
    /// Gateway of `ipv6`.
    #[serde(default, rename = "ipv6Gateway", skip_serializing_if = "Option::is_none")]
    pub ipv6_gateway: Option<String>,
    /// True: no default route was given out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clean_gateway: Option<bool>,
    /// Extra routes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Route>,
    /// MAC address given by the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac: Option<String>,
}

impl Serialize for SpiderEndpoint {
    /// With `apiVersion` and `kind`: an API server takes no custom resource without them.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut object = serializer.serialize_struct("SpiderEndpoint", 4)?;
        object.serialize_field("apiVersion", &Self::api_version(&()))?;
        object.serialize_field("kind", &Self::kind(&()))?;
        object.serialize_field("metadata", &self.metadata)?;
        object.serialize_field("status", &self.status)?;
        object.end()
    }
}

impl Resource for SpiderEndpoint {
    type DynamicType = ();
    type Scope = NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "SpiderEndpoint".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        crate::GROUP.into()
    }

    fn version((): &()) -> Cow<'_, str> {
        crate::VERSION.into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "spiderendpoints".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_says_what_it_is_and_reads_back() {
        let endpoint = SpiderEndpoint {
            status: EndpointStatus {
                owner_controller_type: "Pod".to_owned(),
                ..EndpointStatus::default()
            },
            ..SpiderEndpoint::default()
        };
        let value = serde_json::to_value(&endpoint).unwrap();
        assert_eq!(
            (&value["apiVersion"], &value["kind"]),
            (
                &"spiderpool.spidernet.io/v2beta1".into(),
                &"SpiderEndpoint".into()
            )
        );
        assert_eq!(serde_json::from_value::<SpiderEndpoint>(value).unwrap(), endpoint);
    }
}
