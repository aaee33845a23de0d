//! A pool's rules against everything that can happen to its object, in any order.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

#[path = "pool_model/cluster.rs"]
mod cluster;
#[path = "pool_model/object.rs"]
mod object;

use cluster::{Cluster, Op, Outcome};
use proptest::prelude::*;

fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        6 => Just(Outcome::Answered),
        1 => Just(Outcome::LostButMade),
        1 => Just(Outcome::LostAndNotMade),
        1 => Just(Outcome::Unreachable),
        1 => Just(Outcome::Refused),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let (pod, node, host) = (0..5u8, 0..2u8, 0..object::HOSTS);
    prop_oneof![
        6 => (pod.clone(), node.clone(), 0..20_000u64)
            .prop_map(|(pod, node, budget)| Op::Claim { pod, node, budget }),
        4 => (pod, host.clone(), any::<bool>())
            .prop_map(|(pod, host, in_doubt)| Op::Unclaim { pod, host, in_doubt }),
        2 => host.clone().prop_map(Op::ForeignClaim),
        1 => host.clone().prop_map(Op::ForeignUnclaim),
        2 => (host.clone(), node).prop_map(|(host, node)| Op::Bind { host, node }),
        1 => host.clone().prop_map(Op::Mark),
        1 => host.clone().prop_map(Op::Forget),
        1 => Just(Op::BumpGeneration),
        1 => Just(Op::Flush),
        1 => host.prop_map(Op::Reserve),
        8 => outcome().prop_map(Op::Finish),
        2 => (0..6usize).prop_map(Op::Watch),
        2 => (0..5_000u64).prop_map(Op::Pass),
        1 => any::<bool>().prop_map(|made| Op::Rebuild { made }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_global_pool_keeps_its_laws(ops in prop::collection::vec(op(), 1..60)) {
        Cluster::new(true).live(&ops);
    }

    #[test]
    fn a_plain_pool_keeps_its_laws(ops in prop::collection::vec(op(), 1..60)) {
        Cluster::new(false).live(&ops);
    }
}
