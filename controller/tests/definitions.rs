//! The checked-in definitions of the custom resources.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use orbweaver_api::crd;
use serde_json::Value;

#[test]
fn checked_in_definitions_are_what_the_code_says() {
    let checked_in = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/orbweaver/crds");
    let fresh = tempfile::tempdir().unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_crdgen"))
        .arg(fresh.path())
        .status()
        .unwrap();
    assert!(status.success());
    let names = |directory: &Path| -> BTreeSet<_> {
        let entries = std::fs::read_dir(directory).unwrap();
        entries.map(|entry| entry.unwrap().file_name()).collect()
    };
    assert_eq!(names(&checked_in), names(fresh.path()), "run `make crds`");
    for name in names(fresh.path()) {
        let [old, new] =
            [&checked_in, fresh.path()].map(|at| std::fs::read_to_string(at.join(&name)).unwrap());
        assert!(
            old == new,
            "{} is not what api/ says; run `make crds`",
            name.display()
        );
    }
}

/// The rules of a structural schema that an API server checks when a definition is created.
fn check_structural(at: &str, schema: &Value, problems: &mut Vec<String>) {
    let Value::Object(fields) = schema else {
        problems.push(format!("{at}: not an object"));
        return;
    };
    for banned in [
        "$ref",
        "$schema",
        "definitions",
        "$defs",
        "const",
        "if",
        "then",
        "oneOf",
        "anyOf",
        "allOf",
    ] {
        if fields.contains_key(banned) {
            problems.push(format!("{at}: {banned}"));
        }
    }
    let preserves = fields.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(true));
    let int_or_string = fields.contains_key("x-kubernetes-int-or-string");
    match fields.get("type") {
        Some(Value::String(_)) => {}
        None if preserves || int_or_string => {}
        other => problems.push(format!("{at}: type is {other:?}")),
    }
    let nullable = fields.get("nullable") == Some(&Value::Bool(true));
    if let Some(Value::Array(values)) = fields.get("enum")
        && nullable != values.contains(&Value::Null)
    {
        problems.push(format!("{at}: nullable and null in the enum do not agree"));
    }
    if nullable && fields.contains_key("default") {
        // A null would be replaced by the default before it is looked at: one of the two lies.
        problems.push(format!("{at}: nullable with a default"));
    }
    if fields.contains_key("properties") && fields.contains_key("additionalProperties") {
        problems.push(format!("{at}: properties and additionalProperties"));
    }
    if let Some(Value::Object(properties)) = fields.get("properties") {
        for (name, property) in properties {
            check_structural(&format!("{at}.{name}"), property, problems);
        }
    }
    for inner in ["items", "additionalProperties"] {
        if let Some(inner_schema) = fields.get(inner) {
            check_structural(&format!("{at}.{inner}"), inner_schema, problems);
        }
    }
}

#[test]
fn every_schema_is_structural() {
    let mut problems = Vec::new();
    for definition in crd::all().unwrap() {
        let value = serde_json::to_value(&definition).unwrap();
        let schema = value.pointer("/spec/versions/0/schema/openAPIV3Schema").unwrap();
        check_structural(&definition.spec.names.kind, schema, &mut problems);
    }
    assert!(problems.is_empty(), "{problems:#?}");
}

#[test]
fn every_kind_has_its_names_and_its_category() {
    let expected = [
        ("SpiderCoordinator", "spidercoordinators", "scc", "Cluster", true),
        ("SpiderEndpoint", "spiderendpoints", "se", "Namespaced", false),
        ("SpiderIPPool", "spiderippools", "sp", "Cluster", true),
        (
            "SpiderMultusConfig",
            "spidermultusconfigs",
            "smc",
            "Namespaced",
            false,
        ),
        ("SpiderReservedIP", "spiderreservedips", "sr", "Cluster", false),
        ("SpiderSubnet", "spidersubnets", "ss", "Cluster", true),
    ];
    let all = crd::all().unwrap();
    let found: Vec<_> = all
        .iter()
        .map(|definition| {
            let (names, version) = (&definition.spec.names, &definition.spec.versions[0]);
            assert_eq!(names.categories, Some(vec!["spiderpool".to_owned()]));
            assert_eq!(version.name, "v2beta1");
            let status = version
                .subresources
                .as_ref()
                .is_some_and(|sub| sub.status.is_some());
            let short = names.short_names.as_ref().unwrap()[0].as_str();
            (
                names.kind.as_str(),
                names.plural.as_str(),
                short,
                definition.spec.scope.as_str(),
                status,
            )
        })
        .collect();
    assert_eq!(found, expected);
}
