//! Every object is what Kubernetes, or the operator that defines it, says such an object is.

use std::collections::BTreeMap;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use orbweaver_api::pool::SpiderIPPool;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::helm::renderings;

#[test]
fn helm_lint_finds_nothing_in_any_values_file() {
    for (file, rendering) in renderings() {
        assert_eq!(rendering.error, None, "{file}");
        let findings: Vec<String> = rendering
            .lint
            .iter()
            .filter(|finding| finding.severity != 1)
            .map(|finding| format!("{}: {}", finding.path, finding.error))
            .collect();
        assert!(findings.is_empty(), "{file}: {findings:#?}");
    }
}

#[test]
fn every_object_is_what_its_kind_says() {
    for (file, rendering) in renderings() {
        for object in rendering.objects() {
            let name = format!("{file}: {} {}", object["kind"], object["metadata"]["name"]);
            let differences = check(&object);
            assert!(differences.is_empty(), "{name}:\n{}", differences.join("\n"));
        }
    }
}

#[test]
fn the_check_of_kinds_finds_what_is_misspelt_and_what_is_missing() {
    let service = |spec: Value| json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "name": "s" }, "spec": spec });
    let good = json!({ "ports": [{ "port": 1, "targetPort": "admin" }] });
    assert!(check(&service(good)).is_empty());
    let misspelt = json!({ "ports": [{ "port": 1, "targetport": 2 }] });
    assert_eq!(
        check(&service(misspelt)),
        ["/spec/ports/0/targetport is no field"]
    );
    let missing = json!({ "ports": [{ "name": "a" }] });
    assert_eq!(check(&service(missing)), ["/spec/ports/0/port is missing"]);
    let wrong = check(&service(json!({ "ports": [{ "port": "1" }] })));
    assert!(wrong[0].contains("expected i32"), "{wrong:?}");
    let strange = json!({ "apiVersion": "v2", "kind": "Service" });
    assert_eq!(
        check(&strange),
        ["no type is known for \"v2\" \"Service\"; add it"]
    );
}

/// What is wrong with an object.
pub(crate) fn check(object: &Value) -> Vec<String> {
    let kind = (object["apiVersion"].as_str(), object["kind"].as_str());
    let (Some(version), Some(kind)) = kind else {
        return vec!["apiVersion or kind is missing".to_owned()];
    };
    match (version, kind) {
        ("v1", "ConfigMap") => strict::<ConfigMap>(object),
        ("v1", "Secret") => strict::<Secret>(object),
        ("v1", "Service") => strict::<Service>(object),
        ("v1", "ServiceAccount") => strict::<ServiceAccount>(object),
        ("apps/v1", "DaemonSet") => strict::<DaemonSet>(object),
        ("apps/v1", "Deployment") => strict::<Deployment>(object),
        ("batch/v1", "Job") => strict::<Job>(object),
        ("policy/v1", "PodDisruptionBudget") => strict::<PodDisruptionBudget>(object),
        ("networking.k8s.io/v1", "NetworkPolicy") => strict::<NetworkPolicy>(object),
        ("rbac.authorization.k8s.io/v1", "Role") => strict::<Role>(object),
        ("rbac.authorization.k8s.io/v1", "RoleBinding") => strict::<RoleBinding>(object),
        ("rbac.authorization.k8s.io/v1", "ClusterRole") => strict::<ClusterRole>(object),
        ("rbac.authorization.k8s.io/v1", "ClusterRoleBinding") => strict::<ClusterRoleBinding>(object),
        ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration") => {
            strict::<MutatingWebhookConfiguration>(object)
        }
        ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration") => {
            strict::<ValidatingWebhookConfiguration>(object)
        }
        ("monitoring.coreos.com/v1", "ServiceMonitor") => strict::<Foreign<ServiceMonitor>>(object),
        ("monitoring.coreos.com/v1", "PrometheusRule") => strict::<Foreign<PrometheusRule>>(object),
        ("cert-manager.io/v1", "Certificate") => strict::<Foreign<Certificate>>(object),
        ("spiderpool.spidernet.io/v2beta1", "SpiderIPPool") => strict::<SpiderIPPool>(object),
        _ => vec![format!("no type is known for {version:?} {kind:?}; add it")],
    }
}

/// Read as its type and written again, an object must be the same: an unknown field is lost on the way, a missing one
/// appears with a default.
fn strict<T: DeserializeOwned + Serialize>(object: &Value) -> Vec<String> {
    let mut differences = Vec::new();
    match serde_json::from_value::<T>(object.clone()) {
        Ok(read) => compare("", object, &serde_json::to_value(read).unwrap(), &mut differences),
        Err(error) => differences.push(error.to_string()),
    }
    differences
}

fn compare(at: &str, given: &Value, read: &Value, differences: &mut Vec<String>) {
    match (given, read) {
        (Value::Object(given), Value::Object(read)) => {
            for (key, value) in given {
                match read.get(key) {
                    Some(read) => compare(&format!("{at}/{key}"), value, read, differences),
                    None => differences.push(format!("{at}/{key} is no field")),
                }
            }
            let missing = read.keys().filter(|key| !given.contains_key(*key));
            differences.extend(missing.map(|key| format!("{at}/{key} is missing")));
        }
        (Value::Array(given), Value::Array(read)) if given.len() == read.len() => {
            for (index, (given, read)) in given.iter().zip(read).enumerate() {
                compare(&format!("{at}/{index}"), given, read, differences);
            }
        }
        _ if given == read => {}
        _ => differences.push(format!("{at} is {given} and was read as {read}")),
    }
}

/// An object of an operator, as far as the chart uses it.
#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Foreign<S> {
    api_version: String,
    kind: String,
    metadata: ObjectMeta,
    spec: S,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ServiceMonitor {
    endpoints: Vec<BTreeMap<ScrapeField, String>>,
    namespace_selector: BTreeMap<NamespacesField, Vec<String>>,
    selector: LabelSelector,
}

#[derive(Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
enum ScrapeField {
    Port,
    Path,
    Interval,
}

#[derive(Deserialize, Serialize, PartialEq, Eq, PartialOrd, Ord)]
#[serde(rename_all = "camelCase")]
enum NamespacesField {
    MatchNames,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct PrometheusRule {
    groups: Vec<RuleGroup>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct RuleGroup {
    name: String,
    rules: Vec<Rule>,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    alert: String,
    expr: String,
    #[serde(rename = "for", skip_serializing_if = "Option::is_none")]
    pending: Option<String>,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

#[derive(Deserialize, Serialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Certificate {
    secret_name: String,
    issuer_ref: BTreeMap<String, String>,
    duration: String,
    private_key: BTreeMap<String, String>,
    usages: Vec<String>,
    dns_names: Vec<String>,
    ip_addresses: Vec<String>,
}
