//! The module decides what the slow second implementation decides, for any pools, annotations and labels.

use std::collections::BTreeMap;
use std::sync::Arc;

use orbweaver_actors::store::Marks;
use orbweaver_actors::supervisor::explain::explain;
use orbweaver_actors::supervisor::selection::{Class, Question, Selection, select_all};
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use serde_json::{Value, json};

use crate::oracle::{Decision, Facts, decide};

fn labels() -> impl Strategy<Value = Value> {
    let label = |key: &'static str| {
        prop_oneof![
            Just(None),
            select(vec!["1", "2"]).prop_map(move |value| Some((key, value)))
        ]
    };
    (label("a"), label("b")).prop_map(|(a, b)| {
        let pairs: BTreeMap<&str, &str> = [a, b].into_iter().flatten().collect();
        json!(pairs)
    })
}

fn selector() -> impl Strategy<Value = Value> {
    let expression = (
        select(vec!["a", "b"]),
        select(vec!["In", "NotIn", "Exists", "DoesNotExist", "Like"]),
        subsequence(vec!["1", "2"], 0..=2),
    )
        .prop_map(|(key, operator, values)| json!({ "key": key, "operator": operator, "values": values }));
    let expressions = prop::collection::vec(expression, 0..2);
    prop_oneof![
        14 => Just(Value::Null),
        1 => labels().prop_map(|labels| json!({ "matchLabels": labels })),
        1 => expressions.prop_map(|all| json!({ "matchExpressions": all })),
    ]
}

fn some(of: Vec<&'static str>) -> impl Strategy<Value = Vec<&'static str>> {
    prop_oneof![9 => Just(Vec::new()), 1 => subsequence(of, 1..=2)]
}

prop_compose! {
    fn pool(name: &'static str)(
        six in prop::bool::weighted(if matches!(name, "ba" | "c") { 0.95 } else { 0.05 }),
        mark in prop::bool::weighted(0.4),
        pair in prop::bool::weighted(0.1),
        flags in (prop::bool::weighted(0.05), prop::bool::weighted(0.05), prop::bool::weighted(0.3)),
        names in (some(vec!["n1", "n2"]), some(vec!["shop", "bank"]), some(vec!["main", "x/net"])),
        selectors in (selector(), selector(), selector()),
    ) -> Value {
        let mut annotations = json!({});
        if mark {
            annotations["ipam.spidernet.io/iaas-provider"] = json!("c");
        }
        if pair {
            annotations["ipam.spidernet.io/pair-pool"] = json!("other");
        }
        let mut pool = json!({
            "metadata": { "name": name, "annotations": annotations },
            "spec": {
                "subnet": if six { "fd00::/64" } else { "10.0.0.0/24" },
                "disable": flags.0, "default": flags.2,
                "nodeName": names.0, "namespaceName": names.1, "multusName": names.2,
            },
        });
        for (field, selector) in [("nodeAffinity", selectors.0), ("namespaceAffinity", selectors.1), ("podAffinity", selectors.2)] {
            if !selector.is_null() {
                pool["spec"][field] = selector;
            }
        }
        if flags.1 {
            pool["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        pool
    }
}

/// Mostly names that exist and are of the family, sometimes not, sometimes twice.
fn names(six: bool) -> impl Strategy<Value = Vec<String>> {
    let good = if six {
        vec!["ba", "c", "*", "b*", "?"]
    } else {
        vec!["a", "ab", "b", "*", "a*", "[ab]*"]
    };
    let any = vec!["a", "ab", "b", "ba", "c", "*", "?", "none", "x*", " "];
    let fits = prop_oneof![2 => Just(Vec::new()), 6 => subsequence(good, 1..=3).prop_shuffle()];
    let wild = prop::collection::vec(select(any), 0..3);
    prop_oneof![9 => fits, 1 => wild]
        .prop_map(|names| names.into_iter().map(str::to_owned).collect())
        .boxed()
}

fn item() -> impl Strategy<Value = Value> {
    (names(false), names(true)).prop_map(|(ipv4, ipv6)| json!({ "ipv4": ipv4, "ipv6": ipv6 }))
}

fn items() -> impl Strategy<Value = Value> {
    let one = (item(), select(vec!["", "eth0", "net1"]));
    let any = prop::collection::vec(one, 0..3);
    let nameless = prop::collection::vec(item(), 1..3).prop_map(Value::Array);
    let named = any.prop_map(|items| {
        let with = items.into_iter().map(|(mut item, nic)| {
            item["interface"] = json!(nic);
            item
        });
        Value::Array(with.collect())
    });
    prop_oneof![1 => named, 1 => nameless].boxed()
}

fn annotation<S: Strategy<Value = Value>>(weight: u32, value: S) -> impl Strategy<Value = Option<String>> {
    prop_oneof![3 => Just(None), weight => value.prop_map(|value| Some(value.to_string()))]
}

fn annotations(pairs: &[(&str, &Option<String>)]) -> Value {
    let all: BTreeMap<String, &String> = pairs
        .iter()
        .filter_map(|(key, value)| Some((format!("ipam.spidernet.io/{key}"), value.as_ref()?)))
        .collect();
    json!(all)
}

prop_compose! {
    fn facts()(
        pools in (pool("a").boxed(), pool("ab").boxed(), pool("b").boxed(), pool("ba").boxed(), pool("c").boxed()),
        kept in prop_oneof![5 => Just(vec![0usize, 1, 2, 3, 4]), 1 => subsequence(vec![0usize, 1, 2, 3, 4], 0..=4)].prop_shuffle(),
        pod in (annotation(2, items()), annotation(2, item()), prop::bool::weighted(0.02)),
        namespace in (annotation(1, names(false).prop_map(|names| json!(names))), annotation(1, names(true).prop_map(|names| json!(names))), prop::bool::ANY),
        all_labels in (labels(), labels(), labels()),
        configured in (prop_oneof![Just(Vec::new()), names(false)], prop_oneof![Just(Vec::new()), names(true)]),
        enabled in select(vec![[true, true], [true, true], [true, false], [false, true]]),
        nic in select(vec!["eth0", "net1"]),
        networks in prop::collection::vec(select(vec![None, Some("kube-system/main"), Some("x/net")]), 3),
    ) -> Facts {
        let pools = [pools.0, pools.1, pools.2, pools.3, pools.4];
        let keys = if namespace.2 { ["default-ipv4-ippool", "default-ipv6-ippool"] } else { ["defaultv4ippool", "defaultv6ippool"] };
        let subnet = pod.2.then(|| "{}".to_owned());
        Facts {
            pools: kept.into_iter().map(|place| pools[place].clone()).collect(),
            pod_annotations: annotations(&[("ippools", &pod.0), ("ippool", &pod.1), ("subnet", &subnet)]),
            pod_labels: all_labels.0,
            namespace_annotations: annotations(&[(keys[0], &namespace.0), (keys[1], &namespace.1)]),
            namespace_labels: all_labels.1,
            node_labels: all_labels.2,
            configured: [configured.0, configured.1],
            enabled,
            nic,
            networks,
        }
    }
}

fn with<T>(facts: &Facts, ask: impl FnOnce(&Question<'_>) -> T) -> T {
    let marks = |labels: &Value, annotations: &Value| Marks {
        labels: serde_json::from_value(labels.clone()).unwrap(),
        annotations: serde_json::from_value(annotations.clone()).unwrap(),
    };
    let pod = json!({ "metadata": {
        "name": "p", "namespace": "shop", "labels": facts.pod_labels, "annotations": facts.pod_annotations,
    } });
    let pools: Vec<_> = facts
        .pools
        .iter()
        .map(|pool| Arc::new(serde_json::from_value(pool.clone()).unwrap()))
        .collect();
    // A slot without a network has none: an empty name is no network's.
    let further: Vec<String> = facts.networks[1..]
        .iter()
        .map(|network| network.unwrap_or_default().to_owned())
        .collect();
    ask(&Question {
        pod: &serde_json::from_value(pod).unwrap(),
        nic: facts.nic,
        node_name: "n1",
        node: &marks(&facts.node_labels, &json!({})),
        namespace: &marks(&facts.namespace_labels, &facts.namespace_annotations),
        pools: &pools,
        configured: (&facts.configured[0], &facts.configured[1]),
        enabled: (facts.enabled[0], facts.enabled[1]),
        network: facts.networks[0],
        further_networks: &further,
        agent_namespace: "kube-system",
    })
}

fn seen(selection: &Selection) -> Decision {
    Decision {
        class: match selection.class {
            Class::PairedPrimary => 1,
            Class::Marked => 2,
            Class::Plain => 3,
        },
        ignored: selection
            .ignored
            .iter()
            .map(|dropped| dropped.pool.clone())
            .collect(),
        families: selection
            .families
            .iter()
            .map(|family| {
                let names = family
                    .pools
                    .iter()
                    .map(|pool| pool.metadata.name.clone().unwrap());
                (family.family.number(), names.collect())
            })
            .collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn the_module_decides_what_the_obvious_one_decides(facts in facts()) {
        let expected = decide(&facts);
        let decided = with(&facts, select_all);
        let decided_error = decided.as_ref().err().map(ToString::to_string);
        let seen = decided.ok().map(|all| all.iter().map(seen).collect::<Vec<_>>());
        prop_assert_eq!(seen, expected, "{:?}", decided_error);
    }

    #[test]
    fn an_explanation_ends_as_the_selection_does_and_gives_every_dropped_pool_its_reason(facts in facts()) {
        let decided = with(&facts, select_all);
        let explanation = with(&facts, explain);
        prop_assert_eq!(explanation.refusal.is_none(), decided.is_ok(), "{:?} {:?}", explanation, decided);
        if let Ok(decided) = decided {
            for (nic, selection) in explanation.nics.iter().zip(&decided) {
                let order: Vec<&String> = nic.order.iter().flat_map(|order| &order.pools).collect();
                let names: Vec<String> = seen(selection).families.into_iter().flat_map(|(_, names)| names).collect();
                prop_assert_eq!(order, names.iter().collect::<Vec<_>>());
                for pool in &nic.pools {
                    prop_assert_eq!(pool.dropped.is_none(), names.contains(&pool.pool), "{:?}", pool);
                }
            }
        }
    }
}

/// The generator is worth something only if it finds every branch.
#[test]
fn the_generator_reaches_acceptance_and_refusal_of_every_class() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;

    let mut runner = TestRunner::deterministic();
    let mut classes = [0; 4];
    let (mut refused, mut slots, mut dual, mut ignored) = (0, 0, 0, 0);
    for _ in 0..3000 {
        let facts = facts().new_tree(&mut runner).unwrap().current();
        match decide(&facts) {
            None => refused += 1,
            Some(decisions) => {
                slots += usize::from(decisions.len() > 1);
                for decision in decisions {
                    classes[usize::from(decision.class)] += 1;
                    dual += usize::from(decision.families.len() == 2);
                    ignored += usize::from(!decision.ignored.is_empty());
                }
            }
        }
    }
    let counts = (classes, refused, slots, dual, ignored);
    assert!(
        classes[1] > 10 && classes[2] > 50 && classes[3] > 50,
        "{counts:?}"
    );
    assert!(
        refused > 300 && slots > 20 && dual > 20 && ignored > 50,
        "{counts:?}"
    );
}
