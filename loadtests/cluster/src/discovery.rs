//! What a client asks before it knows what is served.

use serde_json::{Value, json};

use crate::kind::{self, Kind};

const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// Answers a discovery path; `None` when it is none.
pub(crate) fn answer(kinds: &[Kind], path: &str) -> Option<Value> {
    let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
    match parts[..] {
        ["api"] => {
            Some(json!({ "kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": [] }))
        }
        ["apis"] => Some(groups(kinds)),
        ["api", version] => Some(resources(kinds, "", version)),
        ["apis", group] => groups(kinds)["groups"]
            .as_array()?
            .iter()
            .find(|one| one["name"] == group)
            .cloned(),
        ["apis", group, version] => kinds
            .iter()
            .any(|kind| kind.group == group && kind.version == version)
            .then(|| resources(kinds, group, version)),
        ["version"] => Some(json!({
            "major": "1", "minor": "36", "gitVersion": "v1.36.0", "gitCommit": "", "gitTreeState": "clean",
            "buildDate": "2026-04-22T00:00:00Z", "goVersion": "", "compiler": "", "platform": "linux/amd64",
        })),
        ["openapi", "v2"] => Some(
            json!({ "swagger": "2.0", "info": { "title": "Kubernetes", "version": "v1.36.0" }, "paths": {} }),
        ),
        ["openapi", "v3"] => Some(documents(kinds)),
        ["openapi", "v3", "api", version] => Some(document(kinds, "", version)),
        ["openapi", "v3", "apis", group, version] => Some(document(kinds, group, version)),
        _ => None,
    }
}

fn groups(kinds: &[Kind]) -> Value {
    let mut groups: Vec<Value> = Vec::new();
    for (group, version) in kind::by_version(kinds)
        .keys()
        .filter(|(group, _)| !group.is_empty())
    {
        let entry = json!({ "groupVersion": format!("{group}/{version}"), "version": version });
        match groups.iter_mut().find(|one| one["name"] == *group) {
            Some(known) => {
                if let Some(versions) = known["versions"].as_array_mut() {
                    versions.push(entry);
                }
            }
            None => groups.push(json!({
                "kind": "APIGroup", "apiVersion": "v1", "name": group, "versions": [entry.clone()], "preferredVersion": entry,
            })),
        }
    }
    json!({ "kind": "APIGroupList", "apiVersion": "v1", "groups": groups })
}

fn resources(kinds: &[Kind], group: &str, version: &str) -> Value {
    let mut resources = Vec::new();
    for kind in kinds
        .iter()
        .filter(|kind| kind.group == group && kind.version == version)
    {
        resources.push(json!({
            "name": kind.plural, "singularName": kind.singular, "namespaced": kind.namespaced, "kind": kind.kind,
            "verbs": VERBS, "shortNames": kind.short_names, "categories": kind.categories,
        }));
        if kind.status_subresource {
            resources.push(json!({
                "name": format!("{}/status", kind.plural), "singularName": "", "namespaced": kind.namespaced,
                "kind": kind.kind, "verbs": ["get", "patch", "update"],
            }));
        }
    }
    let group_version = if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    };
    json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version, "resources": resources })
}

fn root_of(group: &str, version: &str) -> String {
    if group.is_empty() {
        format!("api/{version}")
    } else {
        format!("apis/{group}/{version}")
    }
}

fn documents(kinds: &[Kind]) -> Value {
    let mut paths = serde_json::Map::new();
    for (group, version) in kind::by_version(kinds).keys() {
        let root = root_of(group, version);
        paths.insert(
            root.clone(),
            json!({ "serverRelativeURL": format!("/openapi/v3/{root}?hash={}", kinds.len()) }),
        );
    }
    json!({ "paths": paths })
}

/// Enough for a client to see that the server checks fields itself.
fn document(kinds: &[Kind], group: &str, version: &str) -> Value {
    let mut paths = serde_json::Map::new();
    for kind in kinds
        .iter()
        .filter(|kind| kind.group == group && kind.version == version)
    {
        let namespace = if kind.namespaced {
            "/namespaces/{namespace}"
        } else {
            ""
        };
        let parameter = |name: &str| json!({ "name": name, "in": "query", "schema": { "type": "string", "uniqueItems": true } });
        let operation = json!({
            "parameters": [parameter("dryRun"), parameter("fieldManager"), parameter("fieldValidation")],
            "responses": { "200": { "description": "OK" } },
            "x-kubernetes-group-version-kind": { "group": group, "version": version, "kind": kind.kind },
        });
        let path = format!("/{}{namespace}/{}/{{name}}", root_of(group, version), kind.plural);
        paths.insert(
            path,
            json!({ "patch": operation, "get": operation, "put": operation }),
        );
    }
    json!({ "openapi": "3.0.0", "info": { "title": "Kubernetes", "version": "v1.36.0" }, "paths": paths, "components": { "schemas": {} } })
}
