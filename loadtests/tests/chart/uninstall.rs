//! The end of an installation: what stays is stuck on nothing.

use std::process::{Output, Stdio};

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use orbweaver_api::FINALIZER;
use orbweaver_api::endpoint::SpiderEndpoint;
use orbweaver_api::pool::SpiderIPPool;
use orbweaver_api::subnet::SpiderSubnet;
use orbweaver_cloud_sim::CloudOptions;
use orbweaver_loadtests::programs;
use orbweaver_loadtests::simulation::{PATIENCE, Simulation};
use orbweaver_loadtests::wait::until;
use serde_json::json;
use tokio::process::{Child, Command};

use crate::helm::{NAMESPACE, render};
use crate::permissions::compare;

const PLAIN: &str = include_str!("../../../examples/plain.yaml");

/// The job's own arguments, for the simulation's namespace.
fn start(simulation: &Simulation) -> Child {
    let job = render("{}").object("Job", "spiderpool-controller-cleanup");
    let container = &job["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["command"], json!(["/usr/bin/orbweaver-uninstall"]));
    let arguments = container["args"].as_array().unwrap().iter();
    let arguments = arguments.map(|argument| {
        let argument = argument.as_str().unwrap();
        argument.replace(
            &format!("--namespace={NAMESPACE}"),
            &format!("--namespace={}", simulation.namespace),
        )
    });
    Command::new(programs::find("orbweaver-uninstall").unwrap())
        .arg("--kubeconfig")
        .arg(simulation.kubeconfig())
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn end(child: Child) -> Output {
    let ended = tokio::time::timeout(PATIENCE, child.wait_with_output()).await;
    ended.expect("the uninstaller ends").unwrap()
}

/// A pool with a claim, its pod's endpoint, and nobody who looks after them any more.
async fn leave_something(simulation: &mut Simulation) -> String {
    let held = PLAIN.replace(
        "name: plain\n",
        "name: plain\n  finalizers: [other.example/keep, spiderpool.spidernet.io]\n",
    );
    let pool = simulation.apply_pool(&held).await.unwrap();
    let mut agent = simulation.add_node("n1", "").await.unwrap();
    let kubelet = simulation.kubelet(&agent).unwrap();
    let sandbox = simulation.create_pod("p", agent.node(), &[&pool]).await.unwrap();
    assert!(kubelet.add(&sandbox, "eth0").await.unwrap().success);
    assert!(agent.stop().await.unwrap().success());
    pool
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uninstallation_leaves_claims_and_no_finalizer_of_ours_and_may_do_no_more_than_it_does() {
    let mut simulation = Simulation::start(CloudOptions::quick()).await.unwrap();
    let name = leave_something(&mut simulation).await;
    let pools: Api<SpiderIPPool> = Api::all(simulation.client.clone());
    let endpoints: Api<SpiderEndpoint> = Api::namespaced(simulation.client.clone(), &simulation.namespace);
    let before = pools.get(&name).await.unwrap();
    let endpoint = endpoints.get("p").await.unwrap();
    assert!(endpoint.finalizers().contains(&FINALIZER.to_owned()));

    let subnets: Api<SpiderSubnet> = Api::all(simulation.client.clone());
    let subnet: SpiderSubnet = serde_json::from_value(json!({
        "metadata": { "name": simulation.name("subnet"), "finalizers": [FINALIZER] },
        "spec": { "subnet": "10.6.0.0/16" },
    }))
    .unwrap();
    let subnet = subnets
        .create(&PostParams::default(), &subnet)
        .await
        .unwrap()
        .name_any();

    let secrets: Api<Secret> = Api::namespaced(simulation.client.clone(), &simulation.namespace);
    for name in ["orbweaver-webhook-certs", "somebody-elses"] {
        let secret = json!({ "metadata": { "name": name } });
        let secret = serde_json::from_value(secret).unwrap();
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    }

    let output = end(start(&simulation)).await;
    assert!(output.status.success(), "{output:?}");
    subnets.delete(&subnet, &DeleteParams::default()).await.unwrap();
    assert!(
        subnets.get_opt(&subnet).await.unwrap().is_none(),
        "it is stuck on nothing"
    );
    let left = secrets.list_metadata(&ListParams::default()).await.unwrap();
    let left: Vec<String> = left.items.iter().map(ResourceExt::name_any).collect();
    assert_eq!(left, ["somebody-elses"]);
    let after = pools.get(&name).await.unwrap();
    assert_eq!(after.finalizers(), ["other.example/keep"]);
    assert_eq!(
        after.status.unwrap().allocated_ips,
        before.status.unwrap().allocated_ips
    );
    let freed = endpoints.get("p").await.unwrap();
    assert_eq!((freed.finalizers(), &freed.status), (&[][..], &endpoint.status));

    if let Some(cluster) = &simulation.cluster {
        let requests = cluster.counters().requests();
        let asked = requests
            .keys()
            .filter(|asked| asked.client == "orbweaver-uninstall")
            .cloned();
        compare(
            &render("{}"),
            "spiderpool-controller-cleanup",
            asked,
            &simulation.namespace,
            &[],
        );
    }
    let bare = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    pools.patch(&name, &PatchParams::default(), &bare).await.unwrap();
    simulation.finish().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_uninstallation_waits_for_the_agents_which_put_finalizers_on() {
    let mut simulation = Simulation::start(CloudOptions::quick()).await.unwrap();
    let Some(cluster) = simulation.cluster.clone() else {
        return;
    };
    let name = leave_something(&mut simulation).await;
    let labels = json!({
        "app.kubernetes.io/instance": crate::helm::RELEASE,
        "app.kubernetes.io/component": "spiderpool-agent",
    });
    let metadata = json!({ "name": "agent", "labels": labels });
    simulation.create_pod_with(metadata, "n1").await.unwrap();
    let child = start(&simulation);
    let counters = cluster.counters();
    until("it looks for agents", PATIENCE, || async {
        let looks = counters.count(|asked| asked.client == "orbweaver-uninstall" && asked.resource == "pods");
        (looks > 1).then_some(()).ok_or_else(|| looks.to_string())
    })
    .await
    .unwrap();
    let pools: Api<SpiderIPPool> = Api::all(simulation.client.clone());
    let held = pools.get(&name).await.unwrap();
    assert!(held.finalizers().contains(&FINALIZER.to_owned()));
    // Terminating is not gone.
    let pods: Api<Pod> = Api::namespaced(simulation.client.clone(), &simulation.namespace);
    pods.delete("agent", &DeleteParams::default()).await.unwrap();
    simulation.finish_pod("agent").await.unwrap();
    assert!(end(child).await.status.success());
    let freed = pools.get(&name).await.unwrap();
    assert!(!freed.finalizers().contains(&FINALIZER.to_owned()));
    let bare = Patch::Merge(json!({ "metadata": { "finalizers": null } }));
    pools.patch(&name, &PatchParams::default(), &bare).await.unwrap();
    simulation.finish().await.unwrap();
}
