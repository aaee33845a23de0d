//! What an operator sees of a pod that does not start.

use k8s_openapi::api::core::v1::{Event, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use orbweaver_api::annotation::{IAAS_PROVIDER, PARENT_NIC, POD_POOL};
use orbweaver_loadtests::kubelet::Sandbox;
use orbweaver_loadtests::programs;
use orbweaver_loadtests::simulation::PATIENCE;
use orbweaver_loadtests::wait::until;
use serde_json::{Value, json};
use tokio::process::Command;

use crate::scene::{Scene, ippool, v4, with};
use crate::stage::{Node, law};

async fn events_of(scene: &Scene, pod: &Sandbox) -> Vec<Event> {
    let events: Api<Event> = Api::namespaced(scene.client(), &scene.namespace);
    let mut all = events.list(&ListParams::default()).await.unwrap().items;
    all.retain(|event| event.involved_object.uid.as_ref() == Some(&pod.uid));
    all
}

/// Seed "Pool candidate class exclusivity": the kept class fails, so the ADD does.
#[test]
fn mixed_classes_give_one_warning_event_over_all_retries_and_never_an_address_of_the_lower_class() {
    law(async |scene| {
        let marks = json!({ IAAS_PROVIDER: scene.stage.simulation.namespace, PARENT_NIC: "none0" });
        let marked = scene.pool_with("marked", marks, v4(120, 10, 19)).await;
        let plain = scene.pool("plain", v4(121, 10, 19)).await;
        let first = scene.pod("first", Node::A, ippool(&[&plain, &marked])).await;
        for _ in 0..4 {
            scene.refused(Node::A, &first, "eth0", &[]).await;
        }
        // Events are sent one after the other: once a later pod's is there, none of the first's is under way.
        let later = scene.pod("later", Node::A, ippool(&[&plain, &marked])).await;
        scene.refused(Node::A, &later, "eth0", &[]).await;
        let told = until("the later pod's Event is there", PATIENCE, || async {
            match events_of(scene, &later).await.len() {
                0 => Err("none".to_owned()),
                _ => Ok(()),
            }
        });
        told.await.unwrap();
        let events = events_of(scene, &first).await;
        let [event] = events.as_slice() else {
            panic!("{events:?}")
        };
        assert_eq!(
            (event.type_.as_deref(), event.reason.as_deref(), event.count),
            (Some("Warning"), Some("IPPoolIgnored"), Some(1))
        );
        assert!(event.message.as_ref().unwrap().contains(&plain), "{event:?}");
        assert!(scene.claimed(&plain).await.is_empty() && scene.claimed(&marked).await.is_empty());
    });
}

/// Reference §2.1.
#[test]
fn dead_pods_get_no_address() {
    law(async |scene| {
        let pool = scene.pool("p", v4(122, 10, 19)).await;
        let pods: Api<Pod> = Api::namespaced(scene.client(), &scene.namespace);
        for (name, policy, status) in [
            ("terminating", "Always", Value::Null),
            ("succeeded", "Never", json!({ "phase": "Succeeded" })),
            ("failed", "Never", json!({ "phase": "Failed" })),
            (
                "evicted",
                "Always",
                json!({ "phase": "Failed", "reason": "Evicted" }),
            ),
        ] {
            let pod: Pod = serde_json::from_value(json!({
                "metadata": { "name": name },
                "spec": {
                    "nodeName": scene.node(Node::A), "restartPolicy": policy,
                    "automountServiceAccountToken": false, "terminationGracePeriodSeconds": 1,
                    "containers": [{ "name": "main", "image": "none" }],
                },
            }))
            .unwrap();
            let made = pods
                .create(&kube::api::PostParams::default(), &pod)
                .await
                .unwrap();
            let sandbox = Sandbox::of(&scene.namespace, name, &made.metadata.uid.unwrap());
            if status.is_null() {
                pods.delete(name, &DeleteParams::default()).await.unwrap();
            } else {
                let patch = Patch::Merge(json!({ "status": status }));
                pods.patch_status(name, &PatchParams::default(), &patch)
                    .await
                    .unwrap();
            }
            // A later change that the agent tells of: then it has seen the pod die, too.
            let value = json!({ "ipv4": [pool] }).to_string();
            let patch = Patch::Merge(json!({ "metadata": { "annotations": { POD_POOL: value } } }));
            pods.patch(name, &PatchParams::default(), &patch).await.unwrap();
            scene
                .await_explanation(Node::A, &sandbox, "the pod's end is known", |page| {
                    page["nics"][0]["pools"][0]["pool"] == pool
                })
                .await;
            scene.refused(Node::A, &sandbox, "eth0", &["dead", name]).await;
        }
        assert!(scene.claimed(&pool).await.is_empty());
    });
}

/// Issue item 9.
#[test]
fn explain_says_who_decides_what_dropped_out_and_in_which_order_and_claims_nothing() {
    law(async |scene| {
        let plain = scene.pool("plain", v4(123, 10, 19)).await;
        let off = scene
            .pool("off", with(v4(124, 10, 19), json!({ "disable": true })))
            .await;
        let node = json!({ "nodeName": [scene.node(Node::A)] });
        let near = scene.pool("near", with(v4(125, 10, 19), node)).await;
        let pod = scene.pod("p", Node::A, ippool(&[&plain, &off, &near])).await;
        scene
            .await_explanation(Node::A, &pod, "the pod is known", |page| page["uid"].is_string())
            .await;
        let page = explain(scene, Node::A, &pod).await.unwrap();
        for words in [
            format!("=> the pod's annotation {POD_POOL}: "),
            format!("{off} (IPv4, plain pool, ? of ? in use): dropped, it is disabled (spec.disable)"),
            format!("order of IPv4: {near}, {plain}"),
            "an ADD goes on and claims".to_owned(),
        ] {
            assert!(page.contains(&words), "{words:?} is not in\n{page}");
        }
        for pool in [&plain, &off, &near] {
            assert!(scene.claimed(pool).await.is_empty());
        }
        assert!(scene.endpoint("p").await.is_none());
        assert_eq!(
            scene.add(Node::A, &pod, "eth0").await,
            ["10.125.0.10"],
            "as explained"
        );
        let refusal = explain(scene, Node::B, &pod).await.unwrap_err();
        assert!(refusal.contains("ask the agent of the pod's node"), "{refusal}");
    });
}

/// What the command prints, or what it complains of.
async fn explain(scene: &Scene, node: Node, pod: &Sandbox) -> Result<String, String> {
    let admin = scene.stage.agent(node).program().admin().to_string();
    let name = format!("{}/{}", pod.namespace, pod.name);
    let output = Command::new(programs::find("orbweaver-agent").unwrap())
        .args(["explain", "--pod", &name, "--admin", &admin])
        .output();
    let output = tokio::time::timeout(PATIENCE, output).await.unwrap().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        Ok(text(&output.stdout))
    } else {
        Err(text(&output.stderr))
    }
}
