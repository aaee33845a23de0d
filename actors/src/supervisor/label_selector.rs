//! Label selectors as Kubernetes evaluates them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// True when the labels satisfy every requirement. An empty selector matches everything. An operator that
/// Kubernetes does not know is an error naming it.
pub(super) fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> Result<bool, String> {
    let exact = selector
        .match_labels
        .iter()
        .flatten()
        .all(|(key, value)| labels.get(key) == Some(value));
    for requirement in selector.match_expressions.iter().flatten() {
        let value = labels.get(&requirement.key);
        let listed = value.is_some_and(|value| requirement.values.iter().flatten().any(|one| one == value));
        let satisfied = match requirement.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            other => {
                return Err(format!(
                    "operator {other:?} of key {:?} is none of In, NotIn, Exists, DoesNotExist",
                    requirement.key
                ));
            }
        };
        if !satisfied {
            return Ok(false);
        }
    }
    Ok(exact)
}
