//! Label selectors as Kubernetes evaluates them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

/// True when the labels satisfy every requirement. An empty selector matches everything. An operator that
/// Kubernetes does not know, or values that do not fit the operator, are an error naming them, as there, even
/// where another requirement fails.
pub(super) fn matches(selector: &LabelSelector, labels: &BTreeMap<String, String>) -> Result<bool, String> {
    let exact = selector
        .match_labels
        .iter()
        .flatten()
        .all(|(key, value)| labels.get(key) == Some(value));
    let mut satisfied = exact;
    for requirement in selector.match_expressions.iter().flatten() {
        let values = requirement.values.as_deref().unwrap_or_default();
        let value = labels.get(&requirement.key);
        let listed = value.is_some_and(|value| values.contains(value));
        let (holds, takes_values) = match requirement.operator.as_str() {
            "In" => (listed, true),
            "NotIn" => (!listed, true),
            "Exists" => (value.is_some(), false),
            "DoesNotExist" => (value.is_none(), false),
            other => {
                return Err(format!(
                    "operator {other:?} of key {:?} is none of In, NotIn, Exists, DoesNotExist",
                    requirement.key
                ));
            }
        };
        if takes_values == values.is_empty() {
            let needs = if takes_values {
                "at least one value"
            } else {
                "no values"
            };
            return Err(format!(
                "operator {} of key {:?} takes {needs}, not {values:?}",
                requirement.operator, requirement.key
            ));
        }
        satisfied &= holds;
    }
    Ok(satisfied)
}
