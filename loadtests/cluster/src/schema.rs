//! What a structural schema says of a custom resource: defaults, pruning, validation. Rules written in CEL are
//! evaluated for the one form `self == oldSelf`.

use serde_json::{Map, Value};

/// Fills in defaults, drops fields that the schema does not know, and gives every finding.
pub(crate) fn apply(schema: &Value, object: &mut Value, before: Option<&Value>) -> Vec<(String, String)> {
    let Value::Object(root) = &mut *object else {
        return vec![(String::new(), "must be an object".to_owned())];
    };
    let mut findings = Vec::new();
    let known = schema["properties"].as_object().cloned().unwrap_or_default();
    root.retain(|key, _| {
        matches!(key.as_str(), "apiVersion" | "kind" | "metadata") || known.contains_key(key)
    });
    for field in schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if !root.contains_key(field) {
            findings.push((field.to_owned(), "Required value".to_owned()));
        }
    }
    for (key, schema) in &known {
        if matches!(key.as_str(), "apiVersion" | "kind" | "metadata") {
            continue;
        }
        if let Some(default) = schema.get("default").filter(|_| !root.contains_key(key)) {
            root.insert(key.clone(), default.clone());
        }
        if let Some(value) = root.get_mut(key) {
            let before = before.map(|before| &before[key]);
            visit(schema, value, before, key, &mut findings);
        }
    }
    findings
}

fn visit(
    schema: &Value,
    value: &mut Value,
    before: Option<&Value>,
    path: &str,
    findings: &mut Vec<(String, String)>,
) {
    if value.is_null() {
        if schema["nullable"] != Value::Bool(true) && schema.get("type").is_some() {
            findings.push((path.to_owned(), format!("must be of type {}", schema["type"])));
        }
        return;
    }
    check_rules(schema, value, before, path, findings);
    match value {
        Value::Object(map) => visit_object(schema, map, before, path, findings),
        Value::Array(items) => {
            expect_type(schema, "array", path, findings);
            for (index, item) in items.iter_mut().enumerate() {
                visit(
                    &schema["items"],
                    item,
                    None,
                    &format!("{path}[{index}]"),
                    findings,
                );
            }
        }
        Value::String(text) => check_text(schema, text, path, findings),
        Value::Number(number) => check_number(schema, number, path, findings),
        Value::Bool(_) => expect_type(schema, "boolean", path, findings),
        Value::Null => {}
    }
    if let Some(allowed) = schema["enum"].as_array()
        && !allowed.contains(value)
    {
        findings.push((
            path.to_owned(),
            format!("Unsupported value: {value}: supported values: {}", schema["enum"]),
        ));
    }
}

fn visit_object(
    schema: &Value,
    map: &mut Map<String, Value>,
    before: Option<&Value>,
    path: &str,
    findings: &mut Vec<(String, String)>,
) {
    expect_type(schema, "object", path, findings);
    let properties = schema["properties"].as_object();
    let preserve = schema["x-kubernetes-preserve-unknown-fields"] == Value::Bool(true);
    let rest = &schema["additionalProperties"];
    if let Some(properties) = properties.filter(|_| !preserve && rest.is_null()) {
        map.retain(|key, _| properties.contains_key(key));
    } else if properties.is_none() && rest.is_null() && !preserve {
        map.clear();
    }
    for (key, schema) in properties.into_iter().flatten() {
        if let Some(default) = schema.get("default")
            && map
                .get(key)
                .is_none_or(|value| value.is_null() && schema["nullable"] != Value::Bool(true))
        {
            map.insert(key.clone(), default.clone());
        }
    }
    for field in schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
    {
        if !map.contains_key(field) {
            findings.push((format!("{path}.{field}"), "Required value".to_owned()));
        }
    }
    for (key, value) in map.iter_mut() {
        let schema = properties
            .and_then(|properties| properties.get(key))
            .unwrap_or(rest);
        if schema.is_object() {
            let before = before.map(|before| &before[key]);
            visit(schema, value, before, &format!("{path}.{key}"), findings);
        }
    }
}

fn check_rules(
    schema: &Value,
    value: &Value,
    before: Option<&Value>,
    path: &str,
    findings: &mut Vec<(String, String)>,
) {
    let Some(before) = before.filter(|before| !before.is_null()) else {
        return;
    };
    for rule in schema["x-kubernetes-validations"]
        .as_array()
        .into_iter()
        .flatten()
    {
        if rule["rule"] == "self == oldSelf" && before != value {
            findings.push((
                path.to_owned(),
                rule["message"].as_str().unwrap_or("failed rule").to_owned(),
            ));
        }
    }
}

fn expect_type(schema: &Value, actual: &str, path: &str, findings: &mut Vec<(String, String)>) {
    if schema["x-kubernetes-int-or-string"] == Value::Bool(true) {
        return;
    }
    if let Some(expected) = schema["type"].as_str()
        && expected != actual
        && !(expected == "number" && actual == "integer")
    {
        findings.push((
            path.to_owned(),
            format!("Invalid value: {actual:?}: must be of type {expected}"),
        ));
    }
}

fn check_text(schema: &Value, text: &str, path: &str, findings: &mut Vec<(String, String)>) {
    expect_type(schema, "string", path, findings);
    let length = text.chars().count() as u64;
    if schema["maxLength"].as_u64().is_some_and(|most| length > most) {
        findings.push((
            path.to_owned(),
            format!(
                "Too long: may not be more than {} characters",
                schema["maxLength"]
            ),
        ));
    }
    if schema["minLength"].as_u64().is_some_and(|least| length < least) {
        findings.push((
            path.to_owned(),
            format!("should be at least {} characters long", schema["minLength"]),
        ));
    }
}

fn check_number(
    schema: &Value,
    number: &serde_json::Number,
    path: &str,
    findings: &mut Vec<(String, String)>,
) {
    let whole =
        number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|value| value.fract() == 0.0);
    expect_type(schema, if whole { "integer" } else { "number" }, path, findings);
    let Some(value) = number.as_f64() else { return };
    if schema["minimum"].as_f64().is_some_and(|least| value < least) {
        findings.push((
            path.to_owned(),
            format!(
                "Invalid value: {number}: should be greater than or equal to {}",
                schema["minimum"]
            ),
        ));
    }
    if schema["maximum"].as_f64().is_some_and(|most| value > most) {
        findings.push((
            path.to_owned(),
            format!(
                "Invalid value: {number}: should be less than or equal to {}",
                schema["maximum"]
            ),
        ));
    }
}
