//! The two calls of the seed.

use std::time::Duration;

use orbweaver_api::provider::{ALLOCATE_PATH, AllocateResponse};
use orbweaver_cloud_sim::CloudOptions;
use orbweaver_cloud_sim::call_time::CallTime;
use orbweaver_cloud_sim::calls::Outcome;
use orbweaver_cloud_sim::sub_eni::SubEni;
use serde_json::{Value, json};

use crate::scene::*;

#[tokio::test]
async fn the_answer_has_the_seeds_form() {
    let cloud = cloud(options()).await;
    let mut both = item("10.0.0.10", PARENT_1);
    both["ipv6Address"] = json!("fd00::10");
    let (status, text) = allocate(&cloud, &ask("n1", &[both])).await;
    assert_eq!(status, 200);
    let found = cloud.sub_enis().remove(0);
    let expected = json!({
        "podName": "p", "podNamespace": "ns", "nodeName": "n1",
        "subEniResponses": [{
            "parentNicMac": PARENT_1, "subnet": "10.0.0.0/24", "ipv4Address": "10.0.0.10",
            "ipv6Address": "fd00::10", "macAddress": found.mac, "vlanId": found.vlan(),
        }],
    });
    assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), expected);
    assert_eq!(found.node(), Some("n1"));
    cloud.shutdown().await;
}

#[tokio::test]
async fn the_same_ask_gives_the_same_sub_eni() {
    let cloud = cloud(options()).await;
    let first = bind(&cloud, "n1", item("10.0.0.10", PARENT_1)).await;
    let spent = cloud.counters().tokens;
    let second = bind(&cloud, "n1", item("10.0.0.10", PARENT_1)).await;
    assert_eq!(first, second);
    let counters = cloud.counters();
    assert_eq!((counters.tokens, counters.cloud.created), (spent, 1));
    assert_eq!(counters.of(Outcome::Unchanged), 1);
    cloud.shutdown().await;
}

#[tokio::test]
async fn the_same_ask_joins_the_one_in_flight() {
    let slow = CloudOptions {
        call_time: CallTime::Fixed(Duration::from_secs(16)),
        time_scale: 0.02,
        ..options()
    };
    let cloud = cloud(slow).await;
    let asks = (0..8).map(|_| bind(&cloud, "n1", item("10.0.0.10", PARENT_1)));
    let answers = futures::future::join_all(asks).await;
    assert!(answers.windows(2).all(|pair| pair[0] == pair[1]));
    let counters = cloud.counters();
    assert_eq!(counters.cloud.created, 1);
    assert_eq!(counters.of(Outcome::Joined) + counters.of(Outcome::Unchanged), 7);
    assert!(counters.of(Outcome::Joined) > 0);
    cloud.shutdown().await;
}

#[tokio::test]
async fn a_budget_too_small_spends_no_token() {
    let cloud = cloud(options()).await;
    let least = options().least_budget().as_millis();
    let body = ask("n1", &[item("10.0.0.10", PARENT_1)]);
    let budget = (least - 1).to_string();
    let response = post(&cloud, ALLOCATE_PATH, Some(&budget), &body).await.unwrap();
    assert_eq!(response.status(), 503);
    let text = response.text().await.unwrap();
    assert!(
        text.contains(&format!("request budget {budget}ms is less than")),
        "{text}"
    );
    let counters = cloud.counters();
    assert_eq!((counters.tokens, counters.of(Outcome::RejectedBudget)), (0, 1));
    assert!(cloud.sub_enis().is_empty());
    let enough = post(&cloud, ALLOCATE_PATH, Some(&least.to_string()), &body).await;
    assert_eq!(enough.unwrap().status(), 200);
    cloud.shutdown().await;
}

#[tokio::test]
async fn a_bad_request_is_refused_by_the_name_of_its_field() {
    let cloud = cloud(options()).await;
    let good = ask("n1", &[item("10.0.0.10", PARENT_1)]);
    for budget in [None, Some("0"), Some("-5"), Some("soon")] {
        let response = post(&cloud, ALLOCATE_PATH, budget, &good).await.unwrap();
        assert_eq!(response.status(), 400);
        assert!(response.text().await.unwrap().contains("X-Request-Timeout-Ms"));
    }
    for (pointer, value, named) in [
        ("/nodeName", json!(""), "nodeName"),
        ("/subEniRequests", json!([]), "subEniRequests"),
        ("/subEniRequests/0/parentNicMac", json!("nic"), "parentNicMac"),
        ("/subEniRequests/0/subnet", json!("10.0.0.0/99"), "subnet"),
        ("/subEniRequests/0/ipv4Address", json!("10.7.0.1"), "ipv4Address"),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        let (status, text) = allocate(&cloud, &bad).await;
        assert_eq!(status, 400, "{pointer}");
        assert!(text.contains(named), "{text}");
    }
    let (status, text) = allocate(&cloud, &json!({ "subEniRequests": [] })).await;
    assert_eq!(status, 400);
    assert!(text.contains("nodeName"), "{text}");
    assert_eq!(cloud.counters().tokens, 0);
    cloud.shutdown().await;
}

#[tokio::test]
async fn a_moved_address_keeps_its_mac_and_gets_a_vlan_of_its_new_nic() {
    let cloud = cloud(options()).await;
    let mut both = item("10.0.0.10", PARENT_1);
    both["ipv6Address"] = json!("fd00::10");
    let before = bind(&cloud, "n1", both).await;
    let after = bind(&cloud, "n2", item("10.0.0.10", PARENT_2)).await;
    assert_eq!(before.mac_address, after.mac_address);
    assert_ne!(before.vlan_id, after.vlan_id);
    let found = cloud.sub_enis().remove(0);
    assert_eq!(
        (found.node(), found.ipv6),
        (Some("n2"), Some("fd00::10".parse().unwrap()))
    );
    let counters = cloud.counters();
    let moved = (counters.steals, counters.cloud.detached, counters.cloud.attached);
    assert_eq!(moved, (1, 1, 1));
    cloud.shutdown().await;
}

#[tokio::test]
async fn a_nic_carries_no_more_than_its_limit_and_no_vlan_twice() {
    let small = CloudOptions {
        sub_enis_per_nic: 5,
        ..options()
    };
    let cloud = cloud(small).await;
    for last in 0..5 {
        bind(&cloud, "n1", item(&format!("10.0.0.{last}"), PARENT_1)).await;
    }
    let (status, text) = allocate(&cloud, &ask("n1", &[item("10.0.0.9", PARENT_1)])).await;
    assert_eq!(status, 409);
    assert!(text.contains(PARENT_1), "{text}");
    let mut vlans: Vec<_> = cloud.sub_enis().iter().filter_map(SubEni::vlan).collect();
    vlans.sort_unstable();
    vlans.dedup();
    assert_eq!(vlans.len(), 5);
    assert_eq!(release(&cloud, "n1", "10.0.0.0").await, 204);
    bind(&cloud, "n1", item("10.0.0.9", PARENT_1)).await;
    cloud.shutdown().await;
}

#[tokio::test]
async fn several_items_are_all_bound_or_none() {
    let small = CloudOptions {
        sub_enis_per_nic: 2,
        ..options()
    };
    let cloud = cloud(small).await;
    let old = bind(&cloud, "n2", item("10.0.0.1", PARENT_2)).await;
    bind(&cloud, "n1", item("10.0.0.5", PARENT_1)).await;
    let items = [
        item("10.0.0.1", PARENT_1),
        item("10.0.0.2", PARENT_1),
        item("10.0.0.3", PARENT_2),
    ];
    let (status, _) = allocate(&cloud, &ask("n1", &items)).await;
    assert_eq!(status, 409);
    let left: Vec<_> = cloud
        .sub_enis()
        .iter()
        .map(|found| (found.address.to_string(), found.node().unwrap().to_owned()))
        .collect();
    let expected =
        [("10.0.0.1", "n2"), ("10.0.0.5", "n1")].map(|(address, node)| (address.to_owned(), node.to_owned()));
    assert_eq!(left, expected);
    assert_eq!(bind(&cloud, "n2", item("10.0.0.1", PARENT_2)).await, old);
    let (status, text) = allocate(&cloud, &ask("n2", &[item("10.0.0.2", PARENT_2)])).await;
    assert_eq!(status, 200, "{text}");
    let response: AllocateResponse = serde_json::from_str(&text).unwrap();
    assert_eq!(response.sub_eni_responses.len(), 1);
    cloud.shutdown().await;
}

#[tokio::test]
async fn a_v6_is_never_on_two_sub_enis_and_never_changes() {
    let cloud = cloud(options()).await;
    let pair = |address: &str, six: &str| {
        let mut item = item(address, PARENT_1);
        item["ipv6Address"] = json!(six);
        ask("n1", &[item])
    };
    assert_eq!(allocate(&cloud, &pair("10.0.0.1", "fd00::1")).await.0, 200);
    for (address, six) in [("10.0.0.2", "fd00::1"), ("10.0.0.1", "fd00::2")] {
        let (status, text) = allocate(&cloud, &pair(address, six)).await;
        assert_eq!(status, 409, "{text}");
        assert!(text.contains("fd00::1"), "{text}");
    }
    assert_eq!(release(&cloud, "n1", "10.0.0.1").await, 204);
    assert_eq!(allocate(&cloud, &pair("10.0.0.2", "fd00::1")).await.0, 200);
    cloud.shutdown().await;
}

#[tokio::test]
async fn a_release_is_idempotent_and_a_late_one_hits_nobody_else() {
    let cloud = cloud(options()).await;
    bind(&cloud, "n1", item("10.0.0.1", PARENT_1)).await;
    bind(&cloud, "n2", item("10.0.0.1", PARENT_2)).await;
    assert_eq!(release(&cloud, "n1", "10.0.0.1").await, 204);
    assert_eq!(cloud.sub_enis().len(), 1);
    assert_eq!(release(&cloud, "n2", "10.0.0.1").await, 204);
    assert_eq!(release(&cloud, "n2", "10.0.0.1").await, 204);
    assert!(cloud.sub_enis().is_empty());
    let counters = cloud.counters();
    assert_eq!(
        (counters.of(Outcome::Released), counters.of(Outcome::Absent)),
        (1, 2)
    );
    cloud.shutdown().await;
}

#[tokio::test]
async fn a_full_queue_says_when_to_come_back() {
    let narrow = CloudOptions {
        rate: 1e-6,
        burst: 1,
        ..options()
    };
    let cloud = cloud(narrow).await;
    bind(&cloud, "n1", item("10.0.0.1", PARENT_1)).await;
    let body = ask("n1", &[item("10.0.0.2", PARENT_1)]);
    let response = post(&cloud, ALLOCATE_PATH, Some("50000"), &body).await.unwrap();
    assert_eq!(response.status(), 429);
    let seconds = response.headers()["retry-after"].to_str().unwrap().parse::<u64>();
    assert!(seconds.unwrap() > 0);
    let counters = cloud.counters();
    assert_eq!((counters.tokens, counters.of(Outcome::RejectedThrottled)), (1, 1));
    cloud.shutdown().await;
}

#[tokio::test]
async fn https_is_trusted_by_the_ca_of_the_cloud_only() {
    let tls = CloudOptions {
        tls: true,
        ..options()
    };
    let cloud = cloud(tls).await;
    let url = format!("{}/healthz", cloud.url());
    assert!(url.starts_with("https://"));
    assert!(reqwest::get(&url).await.is_err());
    let ca = reqwest::Certificate::from_pem(cloud.ca_pem().unwrap().as_bytes()).unwrap();
    let client = reqwest::Client::builder().tls_certs_only([ca]).build().unwrap();
    assert_eq!(client.get(&url).send().await.unwrap().status(), 200);
    cloud.shutdown().await;
}

#[tokio::test]
async fn records_and_cache_show_what_happened_until_the_reset() {
    let cloud = cloud(options()).await;
    let bound = bind(&cloud, "n1", item("10.0.0.1", PARENT_1)).await;
    let get = |path: &str| reqwest::get(format!("{}{path}", cloud.url()));
    let cached = "/v1/apis/network.iaas.io/status/ips-cache/10.0.0.1";
    let entry: Value = get(cached).await.unwrap().json().await.unwrap();
    assert_eq!(entry["entry"]["mac"], json!(bound.mac_address));
    assert_eq!(entry["entry"]["vlanID"], json!(bound.vlan_id));
    let missing = get("/v1/apis/network.iaas.io/status/ips-cache/10.0.0.2")
        .await
        .unwrap();
    assert_eq!(missing.status(), 404);
    let records: Value = get("/records").await.unwrap().json().await.unwrap();
    assert_eq!(records["records"][0]["outcome"], "allocated");
    assert_eq!(records["records"][0]["budget"], "50000");
    assert_eq!(records["records"][0]["body"]["nodeName"], "n1");
    let reset = post(&cloud, "/reset", None, &json!({})).await.unwrap();
    assert_eq!(reset.status(), 204);
    assert!(cloud.calls().recorded().is_empty());
    assert_eq!(cloud.sub_enis().len(), 1);
    cloud.shutdown().await;
}
