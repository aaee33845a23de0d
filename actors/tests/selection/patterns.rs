//! Laws of patterns in pool names.

use serde_json::{Value, json};

use crate::scene::{Scene, labels, pool};

const POD: &str = "ipam.spidernet.io/ippool";
const PODS: &str = "ipam.spidernet.io/ippools";
const NAMESPACE: &str = "ipam.spidernet.io/default-ipv4-ippool";

fn pools() -> Vec<Value> {
    let six = |name: &str| pool(name, json!({ "subnet": "fd00::/64" }));
    let four = ["shop-b", "bank", "shop-a"].map(|name| pool(name, json!({})));
    [four.to_vec(), vec![six("shop-6")]].concat()
}

/// A00007, A00015.
#[test]
fn a_pattern_stands_for_the_pools_of_its_family_in_name_order_wherever_it_is_written() {
    let expected = ["shop-a", "shop-b"];
    let pod = Scene::new(&pools()).annotated(POD, r#"{"ipv4":["shop-*"]}"#);
    assert_eq!(pod.order(), expected);
    let nics = r#"[{"interface":"eth0","ipv4":["shop-?"]},{"interface":"net1","ipv4":["bank"]}]"#;
    assert_eq!(Scene::new(&pools()).annotated(PODS, nics).order(), expected);
    let mut namespace = Scene::new(&pools());
    namespace.namespace.annotations = labels(&[(NAMESPACE, r#"["shop-[a-z]"]"#)]);
    assert_eq!(namespace.order(), expected);
    let configured = Scene::new(&pools()).configured(&["s*"], &["s*"]);
    assert_eq!(configured.order(), ["shop-a", "shop-b", "shop-6"]);
}

#[test]
fn a_pool_that_several_names_mean_is_a_candidate_once_and_where_it_came_first() {
    let scene = |ipv4: &[&str]| Scene::new(&pools()).configured(ipv4, &[]).order();
    assert_eq!(scene(&["shop-b", "*"]), ["shop-b", "bank", "shop-a"]);
    assert_eq!(scene(&["shop-*", "shop-a", "*"]), ["shop-a", "shop-b", "bank"]);
    assert_eq!(scene(&["nothing*", "bank"]), ["bank"]);
}

#[test]
fn patterns_that_match_nothing_leave_no_pool_and_say_so() {
    let refusal = Scene::new(&pools())
        .annotated(POD, r#"{"ipv4":["x*"]}"#)
        .refusal();
    assert!(refusal.starts_with("no IPPool available, "), "{refusal}");
    assert!(
        refusal.contains("x*") && refusal.contains(POD) && refusal.contains("IPv4"),
        "{refusal}"
    );
}

/// A00003.
#[test]
fn a_malformed_pattern_is_named_with_its_place() {
    let in_pod = Scene::new(&pools())
        .annotated(POD, r#"{"ipv4":["[]*"]}"#)
        .refusal();
    assert!(in_pod.contains(POD) && in_pod.contains("[]*"), "{in_pod}");
    let configured = Scene::new(&pools()).configured(&["*["], &[]).refusal();
    assert!(
        configured.contains("CNI configuration") && configured.contains("*["),
        "{configured}"
    );
}
