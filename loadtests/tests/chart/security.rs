//! What containers may do.

use serde_json::{Value, json};

use crate::helm::renderings;

fn pod_specs(objects: &[Value]) -> Vec<Value> {
    let with_pods = ["DaemonSet", "Deployment", "Job"];
    let specs = objects
        .iter()
        .filter(|object| with_pods.iter().any(|kind| object["kind"] == *kind));
    specs
        .map(|object| object["spec"]["template"]["spec"].clone())
        .collect()
}

fn containers(spec: &Value) -> Vec<Value> {
    ["initContainers", "containers"]
        .iter()
        .filter_map(|list| spec[list].as_array())
        .flatten()
        .cloned()
        .collect()
}

#[test]
fn no_container_is_privileged_keeps_a_capability_or_writes_its_root() {
    for (file, rendering) in renderings() {
        for spec in pod_specs(&rendering.objects()) {
            for container in containers(&spec) {
                let context = &container["securityContext"];
                let name = format!("{file}: {}", container["name"]);
                assert_eq!(context["privileged"], json!(false), "{name}");
                assert_eq!(context["allowPrivilegeEscalation"], json!(false), "{name}");
                assert_eq!(context["readOnlyRootFilesystem"], json!(true), "{name}");
                assert_eq!(context["capabilities"], json!({ "drop": ["ALL"] }), "{name}");
                assert_eq!(context["seccompProfile"]["type"], "RuntimeDefault", "{name}");
                for bound in ["limits", "requests"] {
                    assert!(
                        container["resources"][bound]["memory"].is_string(),
                        "{name}: {bound}"
                    );
                }
            }
            for field in ["hostPID", "hostIPC", "shareProcessNamespace"] {
                assert!(spec[field].is_null(), "{file}: {field}");
            }
        }
    }
}

#[test]
fn only_the_agent_is_root_and_only_it_sees_the_node() {
    for (file, rendering) in renderings() {
        let objects = rendering.objects();
        let agents: Vec<Value> = rendering.of_kind("DaemonSet");
        let agent = &agents[0]["spec"]["template"]["spec"];
        let mut paths: Vec<&str> = agent["volumes"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|volume| volume["hostPath"]["path"].as_str())
            .collect();
        paths.sort_unstable();
        assert_eq!(paths, ["/opt/cni/bin", "/var/run/spidernet"], "{file}");
        for spec in pod_specs(&objects).iter().filter(|spec| *spec != agent) {
            let volumes = spec["volumes"].as_array().into_iter().flatten();
            assert_eq!(volumes.filter(|volume| !volume["hostPath"].is_null()).count(), 0);
            for container in containers(spec) {
                assert_eq!(
                    container["securityContext"]["runAsNonRoot"],
                    json!(true),
                    "{file}"
                );
            }
        }
    }
}

#[test]
fn the_plugins_folder_is_open_to_the_init_container_alone() {
    for (file, rendering) in renderings() {
        let agent = rendering.object("DaemonSet", "spiderpool-agent");
        let spec = &agent["spec"]["template"]["spec"];
        let mounts = |container: &Value| container["volumeMounts"].to_string().contains("cni-bin");
        assert!(mounts(&spec["initContainers"][0]), "{file}");
        assert!(!mounts(&spec["containers"][0]), "{file}");
    }
}

#[test]
fn a_value_that_is_carried_over_empty_loosens_nothing() {
    let rendering = crate::helm::render("spiderpoolAgent: {securityContext: {}}");
    let agent = rendering.object("DaemonSet", "spiderpool-agent");
    let container = &agent["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        container["securityContext"]["readOnlyRootFilesystem"],
        json!(true)
    );
}
