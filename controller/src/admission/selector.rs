//! Syntax of label selectors, labels and names, as the API server has it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::finding::Finding;

/// What is wrong with a selector.
pub fn check(field: &str, selector: &LabelSelector, findings: &mut Vec<Finding>) {
    for (key, value) in selector.match_labels.iter().flatten() {
        let path = format!("{field}.matchLabels");
        if !is_key(key) {
            findings.push(Finding::invalid(&path, format!("{key:?} is not a label key")));
        }
        if !is_value(value) {
            findings.push(Finding::invalid(&path, format!("{value:?} is not a label value")));
        }
    }
    for (at, expression) in selector.match_expressions.iter().flatten().enumerate() {
        let path = format!("{field}.matchExpressions[{at}]");
        if !is_key(&expression.key) {
            let detail = format!("{:?} is not a label key", expression.key);
            findings.push(Finding::invalid(format!("{path}.key"), detail));
        }
        let values = expression.values.as_deref().unwrap_or_default();
        let wants_values = match expression.operator.as_str() {
            "In" | "NotIn" => true,
            "Exists" | "DoesNotExist" => false,
            other => {
                let detail = format!("{other:?} is not an operator; write In, NotIn, Exists or DoesNotExist");
                findings.push(Finding::invalid(format!("{path}.operator"), detail));
                continue;
            }
        };
        if wants_values && values.is_empty() {
            let detail = "In and NotIn need at least one value";
            findings.push(Finding::required(format!("{path}.values"), detail));
        }
        if !wants_values && !values.is_empty() {
            let detail = "Exists and DoesNotExist take no values";
            findings.push(Finding::forbidden(format!("{path}.values"), detail));
        }
        for value in values.iter().filter(|value| !is_value(value)) {
            let detail = format!("{value:?} is not a label value");
            findings.push(Finding::invalid(format!("{path}.values"), detail));
        }
    }
}

/// True when a selector says nothing, and so selects everything.
pub fn is_empty(selector: &LabelSelector) -> bool {
    selector
        .match_labels
        .as_ref()
        .is_none_or(std::collections::BTreeMap::is_empty)
        && selector.match_expressions.as_ref().is_none_or(Vec::is_empty)
}

/// A label's value: up to 63 of `[A-Za-z0-9_.-]`, alphanumeric at both ends, or empty.
pub fn is_value(text: &str) -> bool {
    text.is_empty() || is_name_part(text)
}

fn is_key(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_domain(prefix) && is_name_part(name),
        None => is_name_part(text),
    }
}

fn is_name_part(text: &str) -> bool {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let ends = [text.bytes().next(), text.bytes().next_back()];
    text.len() <= 63
        && text.bytes().all(inside)
        && ends
            .into_iter()
            .all(|end| end.is_some_and(|byte| byte.is_ascii_alphanumeric()))
}

/// A DNS subdomain: the name of a node, a namespace, a pool.
pub fn is_domain(text: &str) -> bool {
    let edge = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let label = |label: &str| {
        let ends = [label.bytes().next(), label.bytes().next_back()];
        ends.into_iter().all(|end| end.is_some_and(edge))
            && label.bytes().all(|byte| edge(byte) || byte == b'-')
    };
    text.len() <= 253 && text.split('.').all(label)
}
