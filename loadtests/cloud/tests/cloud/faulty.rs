//! What tests make go wrong.

use std::time::Duration;

use orbweaver_api::provider::{ALLOCATE_PATH, AllocateResponse};
use orbweaver_cloud_sim::CloudOptions;
use orbweaver_cloud_sim::call_time::CallTime;
use orbweaver_cloud_sim::calls::Outcome;
use orbweaver_cloud_sim::faults::{CallKind, Fault};

use crate::scene::*;

#[tokio::test]
async fn a_refusal_does_nothing_and_strikes_as_often_as_told() {
    let cloud = cloud(options()).await;
    cloud.faults().add(CallKind::Allocate, 2, Fault::Refuse(500));
    cloud
        .faults()
        .add(CallKind::Allocate, 1, Fault::RefuseFor(429, 7));
    let body = ask("n1", &[item("10.0.0.1", PARENT_1)]);
    for status in [500, 500, 429] {
        assert_eq!(allocate(&cloud, &body).await.0, status);
    }
    assert!(cloud.sub_enis().is_empty());
    assert_eq!(cloud.counters().tokens, 0);
    assert_eq!(allocate(&cloud, &body).await.0, 200);
    assert_eq!(cloud.counters().of(Outcome::Faulted), 3);
    assert_eq!(cloud.faults().pending(), 0);
    cloud.shutdown().await;
}

#[tokio::test]
async fn a_lost_reply_still_did_the_work() {
    let cloud = cloud(options()).await;
    cloud.faults().add(CallKind::Allocate, 1, Fault::LoseReply);
    let body = ask("n1", &[item("10.0.0.1", PARENT_1)]);
    let lost = post(&cloud, ALLOCATE_PATH, Some("50000"), &body).await;
    assert!(lost.is_err());
    let made = cloud.sub_enis().remove(0);
    let again = bind(&cloud, "n1", item("10.0.0.1", PARENT_1)).await;
    assert_eq!(again.mac_address, made.mac.to_string());
    cloud.faults().add(CallKind::Release, 1, Fault::Disconnect);
    let body = serde_json::json!({ "nodeName": "n1", "subnet": "10.0.0.0/24", "ipAddress": "10.0.0.1" });
    let path = orbweaver_api::provider::RELEASE_PATH;
    assert!(post(&cloud, path, Some("50000"), &body).await.is_err());
    assert_eq!(cloud.sub_enis().len(), 1);
    cloud.shutdown().await;
}

#[tokio::test]
async fn spoiled_answers_are_spoiled_as_told() {
    let cloud = cloud(options()).await;
    let body = ask("n1", &[item("10.0.0.1", PARENT_1)]);
    let faults = [
        Fault::WrongAddress,
        Fault::Vlan(4095),
        Fault::MacText("zz".to_owned()),
        Fault::Bare,
        Fault::TruncatedJson,
        Fault::HugeBody(1 << 20),
    ];
    for fault in faults {
        cloud.faults().add(CallKind::Allocate, 1, fault.clone());
        let (status, text) = allocate(&cloud, &body).await;
        assert_eq!(status, 200);
        let response =
            serde_json::from_str::<AllocateResponse>(&text).map(|mut all| all.sub_eni_responses.remove(0));
        let struck = match fault {
            Fault::WrongAddress => response.unwrap().ipv4_address != "10.0.0.1",
            Fault::Vlan(vlan) => response.unwrap().vlan_id == Some(vlan),
            Fault::MacText(mac) => response.unwrap().mac_address == mac,
            Fault::Bare => response.unwrap().vlan_id.is_none(),
            Fault::TruncatedJson => response.is_err(),
            _ => text.len() == 1 << 20,
        };
        assert!(struck, "{text:.200}");
    }
    cloud.shutdown().await;
}

#[tokio::test]
async fn a_failure_in_the_cloud_is_undone() {
    let cloud = cloud(options()).await;
    let old = bind(&cloud, "n1", item("10.0.0.1", PARENT_1)).await;
    cloud.faults().fail_cloud(1, 1);
    let (status, text) = allocate(&cloud, &ask("n2", &[item("10.0.0.1", PARENT_2)])).await;
    assert_eq!(status, 502, "{text}");
    assert_eq!(cloud.counters().steals, 0);
    assert_eq!(bind(&cloud, "n1", item("10.0.0.1", PARENT_1)).await, old);
    cloud.shutdown().await;
}

#[tokio::test]
async fn a_killed_provider_loses_its_callers_but_the_cloud_finishes() {
    let slow = CloudOptions {
        call_time: CallTime::Fixed(Duration::from_secs(15)),
        time_scale: 0.02,
        ..options()
    };
    let cloud = cloud(slow).await;
    let body = ask("n1", &[item("10.0.0.1", PARENT_1)]);
    let caller = {
        let (cloud, body) = (cloud.clone(), body.clone());
        tokio::spawn(async move { post(&cloud, ALLOCATE_PATH, Some("50000"), &body).await.map(drop) })
    };
    until("the cloud has the call", || async {
        (cloud.counters().cloud.calls == 1).then_some(())
    })
    .await;
    cloud.restart_provider().await;
    assert!(caller.await.unwrap().is_err());
    // The new provider does not know of the sub-ENI that is being made, and learns of it.
    let bound = bind(&cloud, "n1", item("10.0.0.1", PARENT_1)).await;
    let all = cloud.sub_enis();
    assert_eq!(all.len(), 1);
    assert_eq!(bound.mac_address, all[0].mac.to_string());
    assert_eq!(cloud.counters().cloud.created, 1);
    cloud.shutdown().await;
}

#[tokio::test]
async fn a_hanging_call_ends_with_the_cloud() {
    let cloud = cloud(options()).await;
    cloud.faults().add(CallKind::Allocate, 1, Fault::Hang);
    let body = ask("n1", &[item("10.0.0.1", PARENT_1)]);
    let caller = {
        let cloud = cloud.clone();
        tokio::spawn(async move { post(&cloud, ALLOCATE_PATH, Some("50000"), &body).await.map(drop) })
    };
    until("the fault strikes", || async {
        (cloud.counters().of(Outcome::Faulted) == 1).then_some(())
    })
    .await;
    tokio::time::timeout(PATIENCE, cloud.shutdown()).await.unwrap();
    assert!(caller.await.unwrap().is_err());
}
