//! Reclaim of idle sub-ENIs, against the simulated cluster.

use std::net::IpAddr;
use std::time::Duration;

use orbweaver_api::ledger::{Binding, Ledger};
use orbweaver_cloud_sim::CloudOptions;
use orbweaver_cloud_sim::call_time::CallTime;
use orbweaver_cloud_sim::options::Reclaim;
use orbweaver_cluster_sim::faults::{Fault, Rule};
use serde_json::{Value, json};

use crate::scene::*;

fn reclaiming() -> CloudOptions {
    CloudOptions {
        reclaim: Some(Reclaim {
            idle_for: Duration::ZERO,
            ..Reclaim::default()
        }),
        ..options()
    }
}

fn pooled(last: usize) -> Value {
    let mut item = item(&format!("10.0.0.{last}"), PARENT_1);
    item["ipv4PoolName"] = json!("p");
    item
}

async fn full_pool(scene: &Scene, claimed: &[&str]) {
    let spec = json!({ "subnet": "10.0.0.0/24", "ips": ["10.0.0.0-10.0.0.9"] });
    scene.create("p", json!({}), spec).await;
    scene.claim("p", claimed).await;
    for last in 0..9 {
        bind(&scene.cloud, "n1", pooled(last)).await;
    }
}

#[tokio::test]
async fn idle_sub_enis_over_the_watermark_leave_their_node_and_claimed_ones_stay() {
    let scene = Scene::start(reclaiming()).await;
    let claimed = ["10.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3"];
    full_pool(&scene, &claimed).await;
    let bound = |binding: &Binding| matches!(binding, Binding::Bound { .. });
    let (_, ledger) = scene
        .ledger_where("p", "six are bound and none is marked", |ledger| {
            let entries = ledger.entries.values();
            entries.clone().filter(|entry| bound(&entry.binding)).count() == 6
                && !entries.clone().any(|entry| entry.binding == Binding::Detaching)
                && ledger.entries.len() == 9
        })
        .await;
    for address in claimed {
        assert!(
            bound(&ledger.entries[&address.parse().unwrap()].binding),
            "{address}"
        );
    }
    let counters = scene.cloud.counters();
    assert_eq!(
        (counters.cloud.detached, counters.marked, counters.unmarked),
        (3, 3, 0)
    );
    scene.finish().await;
}

#[tokio::test]
async fn a_fully_claimed_pool_is_left_alone() {
    let scene = Scene::start(reclaiming()).await;
    let all: Vec<String> = (0..10).map(|last| format!("10.0.0.{last}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    full_pool(&scene, &all).await;
    scene
        .ledger_where("p", "nine entries", |ledger| ledger.entries.len() == 9)
        .await;
    assert_eq!(scene.cloud.counters().marked, 0);
    assert_eq!(scene.cloud.counters().cloud.detached, 0);
    scene.finish().await;
}

/// Slow enough that a provider can be stopped between the mark and the detachment.
fn slowly() -> CloudOptions {
    CloudOptions {
        call_time: CallTime::Fixed(Duration::from_secs(16)),
        time_scale: 0.02,
        ..reclaiming()
    }
}

fn marked(ledger: &Ledger) -> Vec<IpAddr> {
    let entries = ledger.entries.iter();
    entries
        .filter(|(_, entry)| entry.binding == Binding::Detaching)
        .map(|(address, _)| *address)
        .collect()
}

#[tokio::test]
async fn a_mark_is_written_before_the_detach_and_a_dead_providers_mark_is_finished() {
    let scene = Scene::start(slowly()).await;
    full_pool(&scene, &[]).await;
    let (_, ledger) = scene
        .ledger_where("p", "marks", |ledger| !marked(ledger).is_empty())
        .await;
    scene.cloud.restart_provider().await;
    let (_, after) = scene
        .ledger_where("p", "no marks", |ledger| marked(ledger).is_empty())
        .await;
    for address in marked(&ledger) {
        assert_eq!(after.entries[&address].binding, Binding::Unbound, "{address}");
    }
    scene.finish().await;
}

#[tokio::test]
async fn a_claim_that_is_there_after_all_wins_over_a_mark() {
    let scene = Scene::start(reclaiming()).await;
    let all: Vec<String> = (0..10).map(|last| format!("10.0.0.{last}")).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    full_pool(&scene, &all).await;
    let (pool, _) = scene
        .ledger_where("p", "nine entries", |ledger| ledger.entries.len() == 9)
        .await;
    scene.cloud.stop_provider().await;
    // A provider that died left this behind, and a pod got the address against all rules.
    let written = pool.status.unwrap().ip_meta_data.unwrap().metadata.unwrap();
    let mut envelope: Value = serde_json::from_str(&written).unwrap();
    envelope["ips"]["10.0.0.3"]["vlan"] = json!(-1);
    envelope["ips"]["10.0.0.3"]["status"] = json!("detaching");
    scene
        .patch_status("p", json!({ "ipMetaData": { "metadata": envelope.to_string() } }))
        .await;
    scene.cloud.restart_provider().await;
    scene
        .ledger_where("p", "no marks", |ledger| marked(ledger).is_empty())
        .await;
    let counters = scene.cloud.counters();
    assert_eq!((counters.unmarked, counters.cloud.detached), (1, 0));
    scene.finish().await;
}

#[tokio::test]
async fn marks_that_cannot_be_written_detach_nothing() {
    let scene = Scene::start(reclaiming()).await;
    let spec = json!({ "subnet": "10.0.0.0/24", "ips": ["10.0.0.0-10.0.0.9"] });
    scene.create("p", json!({}), spec).await;
    scene.ledger_where("p", "a ledger", |_| true).await;
    scene.cluster.faults().add(Rule {
        verb: "patch".to_owned(),
        resource: "spiderippools".to_owned(),
        times: u64::MAX,
        fault: Fault::Refuse(409),
    });
    for last in 0..9 {
        bind(&scene.cloud, "n1", pooled(last)).await;
    }
    until("several writes are refused", || async {
        (scene.cloud.counters().ledger_failures > 3).then_some(())
    })
    .await;
    assert_eq!(scene.cloud.counters().cloud.detached, 0);
    scene.cluster.faults().clear();
    until("three are detached", || async {
        (scene.cloud.counters().cloud.detached >= 3).then_some(())
    })
    .await;
    scene.finish().await;
}
