//! Roles grant what the programs do, and nothing else: what a run of everything asks of the API server is recorded there
//! and compared. A verb that only a rare path needs stands in [`RARE`] with its reason.

use std::collections::BTreeSet;
use std::time::Duration;

use orbweaver_cloud_sim::CloudOptions;
use orbweaver_cluster_sim::counters::Asked;
use orbweaver_loadtests::simulation::Simulation;
use serde_json::Value;

use crate::helm::{NAMESPACE, Rendering, render, renderings};
use crate::recorded::run_everything;

/// Component, group, resource, verb: granted though the recorded run does not use it, and why.
const RARE: &[(&str, &str, &str, &str, &str)] = &[
    (
        "spiderpool-controller",
        "",
        "secrets",
        "update",
        "the webhooks' certificate is renewed when it grows old",
    ),
    (
        "spiderpool-agent",
        "kubevirt.io",
        "virtualmachineinstances",
        "get",
        "asked when a machine's pod ends; the simulated API server does not count kinds that it does not serve",
    ),
    (
        "spiderpool-agent",
        "kubevirt.io",
        "virtualmachines",
        "get",
        "asked when a machine's pod ends and its instance is gone; not served either",
    ),
    (
        "spiderpool-controller",
        "kubevirt.io",
        "virtualmachineinstances",
        "get",
        "the last read before a machine's address is collected; not served either",
    ),
    (
        "spiderpool-controller",
        "kubevirt.io",
        "virtualmachines",
        "get",
        "the same",
    ),
    (
        "spiderpool-controller",
        "kubevirt.io",
        "virtualmachineinstances",
        "list",
        "every look of garbage collection; not served either",
    ),
    (
        "spiderpool-controller",
        "kubevirt.io",
        "virtualmachines",
        "list",
        "the same",
    ),
];

/// One thing that may be done, or was done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Access {
    group: String,
    resource: String,
    verb: String,
    /// True: only in the release's namespace.
    local: bool,
}

fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().into_iter().flatten();
    items.map(|item| item.as_str().unwrap().to_owned()).collect()
}

/// What the roles bound to a component's account grant.
pub(crate) fn granted(rendering: &Rendering, component: &str) -> BTreeSet<Access> {
    let mut all = BTreeSet::new();
    for (kind, local) in [("ClusterRole", false), ("Role", true)] {
        for binding in rendering.of_kind(&format!("{kind}Binding")) {
            let subject = &binding["subjects"][0];
            assert_eq!(subject["namespace"], NAMESPACE);
            if subject["name"] != component {
                continue;
            }
            assert_eq!(binding["roleRef"]["kind"], kind);
            let role = rendering.object(kind, binding["roleRef"]["name"].as_str().unwrap());
            for rule in role["rules"].as_array().unwrap() {
                for group in texts(&rule["apiGroups"]) {
                    for resource in texts(&rule["resources"]) {
                        all.extend(texts(&rule["verbs"]).into_iter().map(|verb| Access {
                            group: group.clone(),
                            resource: resource.clone(),
                            verb,
                            local,
                        }));
                    }
                }
            }
        }
    }
    assert!(!all.is_empty(), "{component} may do nothing");
    all
}

/// Compares what `component` may do with what it asked. An access that a role of the namespace covers counts as local.
pub(crate) fn compare(
    rendering: &Rendering,
    component: &str,
    asked: impl Iterator<Item = Asked>,
    namespace: &str,
    rare: &[(&str, &str, &str, &str, &str)],
) {
    let granted = granted(rendering, component);
    let used: BTreeSet<Access> = asked
        .map(|asked| {
            let local = Access {
                group: asked.group,
                resource: asked.resource,
                verb: asked.verb.to_owned(),
                local: true,
            };
            if asked.namespace == namespace && granted.contains(&local) {
                local
            } else {
                Access {
                    local: false,
                    ..local
                }
            }
        })
        .collect();
    let refused: Vec<&Access> = used.difference(&granted).collect();
    assert!(
        refused.is_empty(),
        "{component} does what the chart does not grant; add it to its role:\n{refused:#?}"
    );
    let excused = |access: &Access| {
        rare.iter().any(|(of, group, resource, verb, _)| {
            *of == component && *group == access.group && *resource == access.resource && *verb == access.verb
        })
    };
    let idle: Vec<&Access> = granted
        .difference(&used)
        .filter(|access| !excused(access))
        .collect();
    assert!(
        idle.is_empty(),
        "the chart grants {component} what it never does; take it away, or say in RARE when it is needed:\n{idle:#?}"
    );
    for (_, group, resource, verb, _) in rare.iter().filter(|(of, ..)| *of == component) {
        let stale = used
            .iter()
            .any(|access| access.group == *group && access.resource == *resource && access.verb == *verb);
        assert!(
            !stale,
            "{verb} of {resource} is used after all: take it out of RARE"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_program_may_do_what_it_does_and_nothing_else() {
    let options = CloudOptions {
        worst_case: Duration::from_millis(10),
        ..CloudOptions::quick()
    };
    let mut simulation = Simulation::start(options).await.unwrap();
    // A real API server keeps no book of what it was asked.
    let Some(cluster) = simulation.cluster.clone() else {
        return;
    };
    let rendering = render("spiderpoolController: {podResourceInject: {enabled: true}}");
    run_everything(&mut simulation, &rendering).await;
    let requests = cluster.counters().requests();
    for (component, client) in [
        ("spiderpool-agent", "orbweaver-agent"),
        ("spiderpool-controller", "orbweaver-controller"),
    ] {
        let asked = requests.keys().filter(|asked| asked.client == client).cloned();
        compare(&rendering, component, asked, &simulation.namespace, RARE);
    }
    simulation.finish().await.unwrap();
}

#[test]
fn no_role_has_a_wildcard_and_none_is_the_clusters() {
    let dangerous = ["*", "escalate", "bind", "impersonate", "deletecollection"];
    for (file, rendering) in renderings() {
        for kind in ["ClusterRole", "Role"] {
            for role in rendering.of_kind(kind) {
                for rule in role["rules"].as_array().unwrap() {
                    let words = [&rule["apiGroups"], &rule["resources"], &rule["verbs"]]
                        .map(texts)
                        .concat();
                    let found = words.iter().find(|word| dangerous.contains(&word.as_str()));
                    assert_eq!(found, None, "{file}: {}", role["metadata"]["name"]);
                    // What a name does not bound is everybody's. What is yet to be made has none.
                    let sensitive = ["secrets", "configmaps", "leases", "mutatingwebhookconfigurations"];
                    let sensitive = words.iter().any(|word| sensitive.contains(&word.as_str()));
                    let named = rule["resourceNames"].is_array() || texts(&rule["verbs"]) == ["create"];
                    assert!(named || !sensitive, "{file}: {rule}");
                }
            }
        }
        for kind in ["ClusterRoleBinding", "RoleBinding"] {
            for binding in rendering.of_kind(kind) {
                assert_eq!(binding["subjects"].as_array().unwrap().len(), 1);
                assert_eq!(binding["roleRef"]["name"], binding["subjects"][0]["name"]);
            }
        }
    }
}

#[test]
fn every_workload_runs_under_its_own_account() {
    for (file, rendering) in renderings() {
        let workloads = ["DaemonSet", "Deployment", "Job"]
            .iter()
            .flat_map(|kind| rendering.of_kind(kind));
        let accounts: Vec<String> = workloads
            .map(|workload| {
                let account = &workload["spec"]["template"]["spec"]["serviceAccountName"];
                assert_eq!(*account, workload["metadata"]["name"], "{file}");
                account.as_str().unwrap().to_owned()
            })
            .collect();
        for account in &accounts {
            granted(&rendering, account);
        }
    }
}

#[test]
fn whoever_makes_the_certificate_decides_what_the_controller_may_do_with_secrets() {
    let touches = |rendering: &Rendering, resource: &str| {
        let granted = granted(rendering, "spiderpool-controller");
        granted.iter().any(|access| access.resource == resource)
    };
    for (file, secrets, bundles) in [
        ("defaults.yaml", true, true),
        ("provided.yaml", false, true),
        ("everything.yaml", false, false),
    ] {
        let rendering = crate::helm::render_file(file);
        assert_eq!(touches(&rendering, "secrets"), secrets, "{file}");
        assert_eq!(
            touches(&rendering, "mutatingwebhookconfigurations"),
            bundles,
            "{file}"
        );
    }
}

#[test]
fn the_controller_watches_networks_and_namespaces_only_where_it_injects_and_lists_them_to_collect() {
    for (file, rendering) in renderings() {
        let conf = rendering.object("ConfigMap", "spiderpool-conf");
        let injects = conf["data"]["conf.yml"]
            .as_str()
            .unwrap()
            .contains("podResourceInject:\n  enabled: true");
        for resource in ["spidermultusconfigs", "namespaces"] {
            let granted = granted(&rendering, "spiderpool-controller");
            let may = |verb: &str| {
                granted
                    .iter()
                    .any(|access| access.resource == resource && access.verb == verb)
            };
            assert_eq!(may("watch"), injects, "{file}: {resource}");
            let collects = rendering.object("Deployment", "spiderpool-controller")["spec"]["template"]["spec"]["containers"]
                [0]["args"]
                .to_string()
                .contains("--gc-enabled=true");
            assert_eq!(may("list"), injects || collects, "{file}: {resource}");
        }
    }
}
