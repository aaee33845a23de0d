use serde_json::{Value, json};

use super::*;

const ALL: Returning = Returning {
    stateful_sets: true,
    virtual_machines: true,
};

fn pod(api_version: &str, kind: &str, name: &str, labels: &Value) -> Pod {
    let owners = [
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "no-controller", "uid": "x" }),
        json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": "o", "controller": true }),
    ];
    serde_json::from_value(
        json!({ "metadata": { "name": "p-0", "labels": labels, "ownerReferences": owners } }),
    )
    .unwrap()
}

fn owner(kind: &str, name: &str) -> Owner {
    Owner {
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

fn reference(kind: &str, name: &str) -> OwnerReference {
    serde_json::from_value(json!({ "apiVersion": "x/v1", "kind": kind, "name": name, "uid": "u" })).unwrap()
}

#[test]
fn a_pod_without_a_controller_stands_for_itself() {
    let pod: Pod = serde_json::from_value(json!({ "metadata": { "name": "p" } })).unwrap();
    assert_eq!(Owner::of(&pod), owner("Pod", "p"));
    assert_eq!((to_look_above(&pod), stateful(&pod, ALL)), (None, None));
}

#[test]
fn the_top_controller_is_found_through_replica_sets_and_jobs_only() {
    let of = |api_version: &str, kind: &str, labels: &Value| {
        let pod = pod(api_version, kind, "web-7d4b9", labels);
        (Owner::of(&pod), to_look_above(&pod).is_some())
    };
    let hash = json!({ "pod-template-hash": "7d4b9" });
    assert_eq!(
        of("apps/v1", "ReplicaSet", &hash),
        (owner("Deployment", "web"), false)
    );
    assert_eq!(
        of("apps/v1", "ReplicaSet", &json!({})),
        (owner("ReplicaSet", "web-7d4b9"), true)
    );
    assert_eq!(
        of("batch/v1", "Job", &json!({})),
        (owner("Job", "web-7d4b9"), true)
    );
    for (api_version, kind) in [
        ("apps/v1", "StatefulSet"),
        ("apps/v1", "DaemonSet"),
        ("example.com/v1", "ReplicaSet"),
        ("example.com/v1", "Job"),
    ] {
        assert_eq!(
            of(api_version, kind, &hash),
            (owner(kind, "web-7d4b9"), false),
            "{kind}"
        );
    }
    let job = owner("Job", "nightly-1");
    assert_eq!(
        job.clone().above(Some(&reference("CronJob", "nightly"))),
        owner("CronJob", "nightly")
    );
    assert_eq!(job.clone().above(None), job);
}

#[test]
fn only_pods_of_stateful_sets_and_virtual_machines_come_back_and_only_where_that_is_switched_on() {
    let set = pod("apps/v1", "StatefulSet", "p", &json!({}));
    let machine = pod("kubevirt.io/v1", "VirtualMachineInstance", "vm", &json!({}));
    assert_eq!(stateful(&set, ALL), Some(Stateful::StatefulSet));
    assert_eq!(stateful(&machine, ALL), Some(Stateful::VirtualMachine));
    assert_eq!(
        stateful(&pod("example.com/v1", "StatefulSet", "p", &json!({})), ALL),
        None
    );
    let none = Returning {
        stateful_sets: false,
        virtual_machines: false,
    };
    for pod in [&set, &machine] {
        assert_eq!(stateful(pod, none), None);
    }
    assert_eq!(
        (endpoint_name(&set, ALL), endpoint_name(&machine, ALL)),
        ("p-0".to_owned(), "vm".to_owned())
    );
    assert_eq!(endpoint_name(&machine, none), "p-0");
}

#[test]
fn a_pod_comes_back_while_its_ordinal_is_within_the_replicas() {
    let set = |first, replicas| StatefulOwner::StatefulSet { first, replicas };
    for (pod, owner, expected) in [
        ("web-0", Some(set(0, 1)), true),
        ("web-1", Some(set(0, 1)), false),
        ("web-4", Some(set(5, 2)), false),
        ("web-6", Some(set(5, 2)), true),
        ("web-7", Some(set(5, 2)), false),
        ("web-0", Some(set(0, 0)), false),
        ("web", Some(set(0, 9)), false),
        ("web-x", Some(set(0, 9)), false),
        ("other-0", Some(set(0, 9)), false),
        ("web-0", None, false),
        ("anything", Some(StatefulOwner::VirtualMachine), true),
    ] {
        assert_eq!(
            comes_back(pod, "web", owner.as_ref()),
            expected,
            "{pod} {owner:?}"
        );
    }
}
