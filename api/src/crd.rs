//! The definitions of the custom resources, generated from the types of this crate.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};

use crate::coordinator::SpiderCoordinator;
use crate::endpoint::EndpointStatus;
use crate::multus_config::SpiderMultusConfig;
use crate::pool::SpiderIPPool;
use crate::reserved_ip::SpiderReservedIP;
use crate::subnet::SpiderSubnet;

/// A definition could not be put together: a type of this crate has a schema that Kubernetes does not take.
#[derive(Debug, thiserror::Error)]
#[error("the definition of {kind} is not well formed: {source}")]
pub struct MalformedDefinition {
    /// Kind.
    pub kind: &'static str,
    /// What is wrong.
    pub source: serde_json::Error,
}

/// All six, in alphabetical order of their plural names.
pub fn all() -> Result<Vec<CustomResourceDefinition>, MalformedDefinition> {
    Ok(vec![
        derived("SpiderCoordinator", &SpiderCoordinator::crd())?,
        endpoint()?,
        derived("SpiderIPPool", &SpiderIPPool::crd())?,
        derived("SpiderMultusConfig", &SpiderMultusConfig::crd())?,
        derived("SpiderReservedIP", &SpiderReservedIP::crd())?,
        derived("SpiderSubnet", &SpiderSubnet::crd())?,
    ])
}

/// What a derive macro cannot say is added here: immutable fields, as rules that hold when no webhook does.
fn derived(
    kind: &'static str,
    definition: &CustomResourceDefinition,
) -> Result<CustomResourceDefinition, MalformedDefinition> {
    let malformed = |source| MalformedDefinition { kind, source };
    let mut value = serde_json::to_value(definition).map_err(malformed)?;
    let schema = value.pointer_mut("/spec/versions/0/schema/openAPIV3Schema");
    if let Some(schema) = schema {
        if let Value::Object(schema) = &mut *schema {
            // It speaks about the macro.
            schema.remove("description");
        }
        for field in ["podAffinity", "namespaceAffinity", "nodeAffinity"] {
            atomic(schema, field);
        }
        for field in ["subnet", "ipVersion"] {
            if matches!(kind, "SpiderIPPool" | "SpiderSubnet" | "SpiderReservedIP") {
                immutable(schema, field);
            }
        }
        if matches!(kind, "SpiderIPPool" | "SpiderSubnet" | "SpiderReservedIP") {
            rules(schema, "/properties/spec", &[KEEPS_FAMILY]);
        }
        if matches!(kind, "SpiderIPPool" | "SpiderSubnet") {
            rules(schema, "/properties/spec", &[FAMILY_OF_SUBNET]);
        }
        if kind == "SpiderIPPool" {
            rules(schema, "", &[ONE_NODE, SAME_MODE]);
        }
        for field in ["default", "disable"] {
            if let Some(Value::Object(property)) = schema
                .pointer_mut(&format!("/properties/spec/properties/{field}"))
                .filter(|_| kind == "SpiderIPPool")
            {
                // With a default, a null is the default.
                property.remove("nullable");
                property.insert("default".to_owned(), json!(false));
            }
        }
    }
    serde_json::from_value(value).map_err(malformed)
}

fn immutable(schema: &mut Value, field: &str) {
    if let Some(Value::Object(property)) = schema.pointer_mut(&format!("/properties/spec/properties/{field}"))
    {
        let rule =
            json!([{ "rule": "self == oldSelf", "message": format!("spec.{field} is not changeable") }]);
        property.insert("x-kubernetes-validations".to_owned(), rule);
    }
}

/// A rule in CEL and what it says when it does not hold. Rules do not see annotations and labels: what depends on a
/// pool's mark is the webhook's, or is told from the ledger, which only marked pools have.
type Rule = (&'static str, &'static str);

/// An immutable field may be written down later, never removed.
const KEEPS_FAMILY: Rule = (
    "!has(oldSelf.ipVersion) || has(self.ipVersion)",
    "spec.ipVersion is not changeable",
);
const FAMILY_OF_SUBNET: Rule = (
    "!has(self.ipVersion) || (self.ipVersion == 6) == self.subnet.contains(':')",
    "spec.subnet is not of the family that spec.ipVersion says",
);
const ONE_NODE: Rule = (
    "!has(self.status) || !has(self.status.ipMetaData) || !has(self.spec.nodeName) || size(self.spec.nodeName) <= 1",
    "an IaaS node-level pool must be pinned to exactly one node",
);
const SAME_MODE: Rule = (
    "!has(oldSelf.status) || !has(oldSelf.status.ipMetaData) || \
     (has(self.spec.nodeName) && size(self.spec.nodeName) > 0) == \
     (has(oldSelf.spec.nodeName) && size(oldSelf.spec.nodeName) > 0)",
    "cannot add or remove 'spec.nodeName' on an IaaS pool",
);

fn rules(schema: &mut Value, at: &str, rules: &[Rule]) {
    if let Some(Value::Object(schema)) = schema.pointer_mut(at) {
        let all = schema
            .entry("x-kubernetes-validations")
            .or_insert_with(|| json!([]));
        if let Value::Array(all) = all {
            let rule = |(rule, message): &Rule| json!({ "rule": rule, "message": message });
            all.extend(rules.iter().map(rule));
        }
    }
}

/// A selector is one thing: two appliers never own parts of it.
fn atomic(schema: &mut Value, field: &str) {
    if let Some(Value::Object(property)) = schema.pointer_mut(&format!("/properties/spec/properties/{field}"))
    {
        property.insert("x-kubernetes-map-type".to_owned(), json!("atomic"));
    }
}

/// `SpiderEndpoint` has no spec, which the derive macro cannot express.
fn endpoint() -> Result<CustomResourceDefinition, MalformedDefinition> {
    let malformed = |source| MalformedDefinition {
        kind: "SpiderEndpoint",
        source,
    };
    let settings = SchemaSettings::openapi3().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    let status = settings.with_transform(kube::core::schema::StructuralSchemaRewriter);
    let status = status.into_generator().into_root_schema_for::<EndpointStatus>();
    let mut status = serde_json::to_value(status).map_err(malformed)?;
    if let Value::Object(status) = &mut status {
        status.remove("title");
    }
    let column = |name: &str, field: &str| json!({ "name": name, "type": "string", "jsonPath": format!(".status.current.{field}") });
    serde_json::from_value(json!({
        "metadata": { "name": format!("spiderendpoints.{}", crate::GROUP) },
        "spec": {
            "group": crate::GROUP,
            "scope": "Namespaced",
            "names": {
                "kind": "SpiderEndpoint", "plural": "spiderendpoints", "singular": "spiderendpoint",
                "shortNames": ["se"], "categories": ["spiderpool"],
            },
            "versions": [{
                "name": crate::VERSION, "served": true, "storage": true,
                "schema": { "openAPIV3Schema": {
                    "description": "What each NIC of a pod got.",
                    "type": "object",
                    "properties": { "status": status },
                } },
                "additionalPrinterColumns": [
                    column("INTERFACE", "ips[0].interface"),
                    column("IPV4POOL", "ips[0].ipv4Pool"),
                    column("IPV4", "ips[0].ipv4"),
                    column("IPV6POOL", "ips[0].ipv6Pool"),
                    column("IPV6", "ips[0].ipv6"),
                    column("NODE", "node"),
                ],
            }],
        },
    }))
    .map_err(malformed)
}
