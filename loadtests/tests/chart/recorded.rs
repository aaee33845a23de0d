//! A run of everything that agents and controller do, under the chart's own webhook configurations.

use std::net::{SocketAddr, TcpListener};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, ResourceExt};
use orbweaver_api::endpoint::SpiderEndpoint;
use orbweaver_api::pool::SpiderIPPool;
use orbweaver_loadtests::kubelet::{Kubelet, Sandbox};
use orbweaver_loadtests::metrics::fetch;
use orbweaver_loadtests::process::Program;
use orbweaver_loadtests::simulation::{PATIENCE, Simulation};
use orbweaver_loadtests::wait::until;
use serde_json::{Value, json};

use crate::helm::Rendering;

const PLAIN: &str = include_str!("../../../examples/plain.yaml");
const GLOBAL: &str = include_str!("../../../examples/global.yaml");
const PREWARMED: &str = include_str!("../../../examples/node-level.yaml");

const HOOKS: [&str; 2] = ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"];

fn hooks_of(simulation: &Simulation, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("admissionregistration.k8s.io", "v1", kind);
    Api::all_with(simulation.client.clone(), &ApiResource::from_gvk(&kind))
}

/// The chart's webhook configurations, with the controller's port for the service that no simulated cluster has, and
/// that controller, once API servers trust it.
async fn start_controller(simulation: &Simulation, rendering: &Rendering) -> Program {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    for kind in HOOKS {
        for mut object in rendering.of_kind(kind) {
            for hook in object["webhooks"].as_array_mut().unwrap() {
                let path = hook["clientConfig"]["service"]["path"].as_str().unwrap();
                hook["clientConfig"] = json!({ "url": format!("https://127.0.0.1:{port}{path}") });
            }
            let object: DynamicObject = serde_json::from_value(object).unwrap();
            hooks_of(simulation, kind)
                .create(&PostParams::default(), &object)
                .await
                .unwrap();
        }
    }
    let conf = simulation.folder().join("controller.yml");
    let map = rendering.object("ConfigMap", "spiderpool-conf");
    std::fs::write(&conf, map["data"]["conf.yml"].as_str().unwrap()).unwrap();
    let arguments = [
        format!("--config={}", conf.display()),
        format!("--kubeconfig={}", simulation.kubeconfig().display()),
        format!("--namespace={}", simulation.namespace),
        "--identity=recorded".to_owned(),
        format!("--webhook-listen=127.0.0.1:{port}"),
        "--gc-interval=1".to_owned(),
        "--gc-gap=1".to_owned(),
        "--gc-grace=1".to_owned(),
    ];
    let log = simulation.folder().join("controller.log");
    let controller = Program::start("orbweaver-controller", arguments.to_vec(), log)
        .await
        .unwrap();
    until("API servers trust the controller", PATIENCE, || async {
        for kind in HOOKS {
            let object = hooks_of(simulation, kind).get("spiderpool-controller").await;
            let object = object.map_err(|error| error.to_string())?;
            let hooks = object.data["webhooks"].as_array().cloned().unwrap_or_default();
            if hooks
                .iter()
                .any(|hook| hook["clientConfig"]["caBundle"].is_null())
            {
                return Err(kind.to_owned());
            }
        }
        Ok(())
    })
    .await
    .unwrap();
    controller
}

/// What kubelet asks a program that serves, it answers with 200.
async fn probe(workload: &Value, admin: SocketAddr) {
    let container = &workload["spec"]["template"]["spec"]["containers"][0];
    for probe in ["startupProbe", "livenessProbe", "readinessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str().unwrap();
        let (code, text) = fetch(admin, path).await.unwrap();
        assert_eq!(code, 200, "{path}: {text}");
    }
}

/// A pod of each controller that is looked for, on pools of two classes: it starts and ends.
async fn pods_of_controllers(simulation: &Simulation, kubelet: &Kubelet, node: &str, pools: [&String; 2]) {
    let pods: Api<Pod> = Api::namespaced(simulation.client.clone(), &simulation.namespace);
    for (api_version, kind) in [
        ("apps/v1", "ReplicaSet"),
        ("apps/v1", "StatefulSet"),
        ("batch/v1", "Job"),
        ("kubevirt.io/v1", "VirtualMachineInstance"),
    ] {
        let name = format!("of-{}", kind.to_lowercase());
        let owner = json!({ "apiVersion": api_version, "kind": kind, "name": "owner", "uid": kind, "controller": true });
        let mut pod = pod_of(&name, node, pools[0], &json!([owner]));
        let named = json!({ "ipv4": pools }).to_string();
        let annotations = pod.metadata.annotations.get_or_insert_default();
        annotations.insert("ipam.spidernet.io/ippool".to_owned(), named);
        let pod = pods.create(&PostParams::default(), &pod).await.unwrap();
        let sandbox = Sandbox::of(&simulation.namespace, &name, &pod.uid().unwrap());
        // Pools that one node's sub-ENIs fill may have none left: asking is what counts here.
        let _ = kubelet.add(&sandbox, "eth0").await.unwrap();
        simulation.end_pod(kubelet, &sandbox).await.unwrap();
    }
}

fn pod_of(name: &str, node: &str, pool: &str, owners: &Value) -> Pod {
    let named = json!({ "ipv4": [pool] }).to_string();
    serde_json::from_value(json!({
        "metadata": {
            "name": name, "ownerReferences": owners,
            "annotations": { "ipam.spidernet.io/ippool": named },
        },
        "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "none" }] },
    }))
    .unwrap()
}

/// Pods that end and of which kubelet never tells: deleted, of a StatefulSet that is gone, finished.
async fn leave_garbage(simulation: &Simulation, kubelet: &Kubelet, node: &str, pool: &str) {
    let pods: Api<Pod> = Api::namespaced(simulation.client.clone(), &simulation.namespace);
    let set = json!([{ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "set", "uid": "s", "controller": true }]);
    for (name, owners) in [("gone", json!([])), ("set-0", set), ("done", json!([]))] {
        let pod = pod_of(name, node, pool, &owners);
        let pod = pods.create(&PostParams::default(), &pod).await.unwrap();
        let sandbox = Sandbox::of(&simulation.namespace, name, &pod.uid().unwrap());
        let answer = kubelet.add(&sandbox, "eth0").await.unwrap();
        assert!(answer.success, "{}", answer.text());
        if name == "done" {
            let finished = Patch::Merge(json!({ "status": { "phase": "Succeeded" } }));
            pods.patch_status(name, &PatchParams::default(), &finished)
                .await
                .unwrap();
        } else {
            let now = DeleteParams::default().grace_period(0);
            pods.delete(name, &now).await.unwrap();
        }
        let uid = sandbox.uid.clone();
        until("what it held is collected", PATIENCE, || async {
            let picture = simulation.picture().await.map_err(|error| error.to_string())?;
            let claims = picture.claims().map_err(|error| error.to_string())?;
            let held = claims.values().any(|claim| *claim == uid);
            let named = picture
                .endpoints
                .iter()
                .any(|endpoint| endpoint.status.current.uid == uid);
            if held || named {
                Err(format!("{name}: claimed {held}, endpoint {named}"))
            } else {
                Ok(())
            }
        })
        .await
        .unwrap();
    }
    pods.delete("done", &DeleteParams::default().grace_period(0))
        .await
        .unwrap();
}

/// What there is to do for agents and controller, once: all classes of pools, repeated, late and failed requests, a second
/// NIC, a restart, a pool that goes.
pub(crate) async fn run_everything(simulation: &mut Simulation, rendering: &Rendering) {
    let mut controller = start_controller(simulation, rendering).await;
    let plain = simulation.apply_pool(PLAIN).await.unwrap();
    let global = simulation.apply_pool(GLOBAL).await.unwrap();
    let prewarmed = simulation.apply_pool(PREWARMED).await.unwrap();
    for pool in [&global, &prewarmed] {
        simulation
            .await_ledger(pool, "it is there", |text| !text.is_empty())
            .await
            .unwrap();
    }
    let mut agent = simulation.add_node("n1", "").await.unwrap();
    let kubelet = simulation.kubelet(&agent).unwrap();
    let mut sandboxes = Vec::new();
    for pool in [&plain, &global, &prewarmed] {
        let short = pool.rsplit('-').next().unwrap();
        let sandbox = simulation.create_pod(short, agent.node(), &[pool]).await.unwrap();
        let answer = kubelet.add(&sandbox, "eth0").await.unwrap();
        assert!(answer.success, "{pool}: {}", answer.text());
        sandboxes.push(sandbox);
    }
    assert!(
        kubelet.add(&sandboxes[0], "net1").await.unwrap().success,
        "a second NIC"
    );
    assert!(
        kubelet.del(&sandboxes[0].late(), "eth0").await.unwrap().success,
        "of a pod that lives"
    );
    let full = simulation
        .create_pod("full", agent.node(), &[&global])
        .await
        .unwrap();
    assert!(
        !kubelet.add(&full, "eth0").await.unwrap().success,
        "its one address is taken"
    );
    pods_of_controllers(simulation, &kubelet, agent.node(), [&plain, &prewarmed]).await;
    leave_garbage(simulation, &kubelet, agent.node(), &plain).await;
    for (kind, name, admin) in [
        ("DaemonSet", "spiderpool-agent", agent.program().admin()),
        ("Deployment", "spiderpool-controller", controller.admin()),
    ] {
        probe(&rendering.object(kind, name), admin).await;
    }
    agent.kill().await.unwrap();
    agent.restart().await.unwrap();
    // Somebody else writes an endpoint between the agent's look and its next write.
    let endpoints: Api<SpiderEndpoint> = Api::namespaced(simulation.client.clone(), &simulation.namespace);
    let touched = Patch::Merge(json!({ "metadata": { "labels": { "seen": "yes" } } }));
    endpoints
        .patch(&sandboxes[1].name, &PatchParams::default(), &touched)
        .await
        .unwrap();
    for sandbox in &sandboxes {
        simulation.end_pod(&kubelet, sandbox).await.unwrap();
    }
    let pools: Api<SpiderIPPool> = Api::all(simulation.client.clone());
    pools.delete(&plain, &DeleteParams::default()).await.unwrap();
    until("the pool is gone", PATIENCE, || async {
        match pools.get_opt(&plain).await {
            Ok(None) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await
    .unwrap();
    until("the parent NIC is published", PATIENCE, || async {
        let pool = pools.get(&prewarmed).await.map_err(|error| error.to_string())?;
        let published = pool.status.as_ref().and_then(|status| status.parent_nic.as_ref());
        published.map(drop).ok_or_else(|| pool.name_any())
    })
    .await
    .unwrap();
    let counters = simulation.cluster.as_ref().unwrap().counters();
    until("the lease is renewed", PATIENCE, || async {
        let renewals = counters.count(|asked| asked.resource == "leases" && asked.verb == "update");
        (renewals > 0).then_some(()).ok_or_else(|| renewals.to_string())
    })
    .await
    .unwrap();
    assert!(controller.stop().await.unwrap().success());
    assert!(agent.stop().await.unwrap().success());
    for kind in HOOKS {
        let hooks = hooks_of(simulation, kind);
        hooks
            .delete("spiderpool-controller", &DeleteParams::default())
            .await
            .unwrap();
    }
}
