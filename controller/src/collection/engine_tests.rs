//! The engine over a cluster in memory, on a paused clock.

use std::time::Duration;

use orbweaver_api::pool::PoolMode;
use tokio::time::advance;

use super::*;
use crate::collection::facts::{NodeFact, PodFact};
use fake::{Answer, Death, Event, Fake, State};

#[path = "engine_tests/fake.rs"]
mod fake;

/// `ns/gone` (UID `u`) is deleted. Its `eth0` was on a provider network with plain pools `p4` and `p6`, its `net1` in
/// the marked pair `g4` and `g6`. `ns/lives` holds an address in each pool.
fn world() -> Fake {
    let mut state = State::default();
    state.seen.namespaces.insert("ns".to_owned());
    state.seen.nodes.insert("n".to_owned(), NodeFact::Ready);
    state.seen.provider_networks = true;
    state.add_pool("p4", PoolMode::Plain, None);
    state.add_pool("p6", PoolMode::Plain, None);
    state.add_pool("g4", PoolMode::Global, Some("g6"));
    state.add_pool("g6", PoolMode::Global, Some("g4"));
    let lives = PodFact {
        uid: "l".to_owned(),
        node: Some("n".to_owned()),
        ..PodFact::default()
    };
    state.seen.pods.insert("ns/lives".to_owned(), lives);
    for (index, pod, uid) in [(1, "gone", "u"), (2, "lives", "l")] {
        let (p4, p6) = (format!("10.0.0.{index}"), format!("fd00::{index}"));
        let (g4, g6) = (format!("10.0.1.{index}"), format!("fd01::{index}"));
        for (pool, address) in [("p4", &p4), ("p6", &p6), ("g4", &g4), ("g6", &g6)] {
            state.claim(pool, address, &format!("ns/{pod}"), uid);
        }
        let nics = [
            (p4.as_str(), "p4", p6.as_str(), "p6", true),
            (&g4, "g4", &g6, "g6", true),
        ];
        state.add_endpoint(pod, uid, "n", &nics);
    }
    Fake::new(state)
}

fn collector(fake: &Fake) -> Collector<Fake> {
    Collector::new(fake.clone(), Policy::default(), "c", true)
}

/// Looks until nothing is suspect or stuck.
async fn finish(collector: &mut Collector<Fake>) -> Round {
    let mut all = Round::default();
    for _ in 0..20 {
        let round = collector.round().await.unwrap();
        all.collected += round.collected;
        all.stuck += round.stuck;
        if round.suspects == 0 && round.stuck == 0 {
            return all;
        }
        advance(Duration::from_secs(31)).await;
    }
    panic!("never done: {all:?}");
}

fn claims_of(fake: &Fake, uid: &str) -> usize {
    let state = fake.state();
    let claims = state.seen.pools.values().flat_map(|pool| pool.claims.values());
    claims.filter(|claim| claim.pod_uid == uid).count()
}

fn releases(fake: &Fake) -> Vec<(String, Instant, Instant, bool)> {
    let state = fake.state();
    let releases = state.events.iter().filter_map(|event| match event {
        Event::Release(request, from, to, did) => {
            assert_eq!(request.node_name, "n", "the node is always named");
            Some((request.ip_address.clone(), *from, *to, *did))
        }
        Event::Unclaimed(..) => None,
    });
    releases.collect()
}

/// What must hold whatever happened.
fn assert_laws(fake: &Fake) {
    assert_eq!(claims_of(fake, "l"), 4, "the living pod keeps everything");
    let releases = releases(fake);
    assert!(
        releases.iter().all(|(address, ..)| address == "10.0.0.1"),
        "one sub-ENI, by its IPv4: {releases:?}"
    );
    for pair in releases.windows(2) {
        assert!(pair[0].2 <= pair[1].1, "two releases at once: {releases:?}");
    }
    let mut released = false;
    for event in &fake.state().events {
        match event {
            Event::Release(.., did) => released |= did,
            Event::Unclaimed(pool, _) => {
                assert!(released || pool.starts_with('g'), "unclaimed before the release");
            }
        }
    }
}

fn assert_done(fake: &Fake) {
    assert_laws(fake);
    assert_eq!(claims_of(fake, "u"), 0);
    assert_eq!(
        fake.state().seen.endpoints.keys().collect::<Vec<_>>(),
        ["ns/lives"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_dead_pod_gives_everything_back_the_provider_first_and_the_primary_last() {
    let fake = world();
    let mut collector = collector(&fake);
    assert_eq!(
        collector.round().await.unwrap().collected,
        0,
        "nothing at first sight"
    );
    advance(Duration::from_secs(31)).await;
    assert_eq!(finish(&mut collector).await.collected, 4);
    assert_done(&fake);
    let order: Vec<String> = fake
        .state()
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Unclaimed(pool, _) => Some(pool.clone()),
            Event::Release(..) => None,
        })
        .collect();
    let place = |pool: &str| order.iter().position(|name| name == pool);
    assert!(place("g6") < place("g4"), "{order:?}");
    assert_eq!(releases(&fake).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_next_leader_finishes_what_a_dead_one_began_wherever_it_died() {
    let mut deaths = 0;
    for index in 0.. {
        let mut died = false;
        for death in [Death::Before, Death::After] {
            let fake = world();
            fake.state().dies = Some((index, death));
            let mut first = collector(&fake);
            tokio::select! {
                _ = finish(&mut first) => {}
                () = fake.dead.notified() => died = true,
            }
            drop(first);
            assert_laws(&fake);
            finish(&mut collector(&fake)).await;
            assert_done(&fake);
        }
        if !died {
            break;
        }
        deaths += 1;
    }
    // Mark, release, four claims, endpoint, finalizer.
    assert_eq!(deaths, 8);
}

#[tokio::test(start_paused = true)]
async fn while_an_outcome_is_unknown_nothing_is_sent_again_and_the_claim_stays() {
    let fake = world();
    fake.state().answers = vec![Answer::Lost];
    let mut collector = collector(&fake);
    collector.round().await.unwrap();
    advance(Duration::from_secs(31)).await;
    let round = collector.round().await.unwrap();
    assert_eq!((round.collected, round.stuck), (0, 1));
    assert_eq!(claims_of(&fake, "u"), 4);
    // The mark outlives the call by what clocks may differ.
    assert_eq!(collector.round().await.unwrap().stuck, 1);
    assert_eq!(releases(&fake).len(), 1);
    advance(Duration::from_secs(6)).await;
    finish(&mut collector).await;
    assert_eq!(releases(&fake).len(), 2);
    assert_done(&fake);
}

#[tokio::test(start_paused = true)]
async fn a_refused_release_keeps_the_claim_and_holds_nobody_off() {
    let fake = world();
    fake.state().answers = vec![Answer::Rejected];
    let mut collector = collector(&fake);
    collector.round().await.unwrap();
    advance(Duration::from_secs(31)).await;
    assert_eq!(collector.round().await.unwrap().stuck, 1);
    assert_eq!(claims_of(&fake, "u"), 4);
    let endpoint = fake.state().seen.endpoints["ns/gone"].clone();
    assert_eq!(
        orbweaver_api::release_mark::ReleaseMark::on(&endpoint).unwrap(),
        None
    );
    finish(&mut collector).await;
    assert_done(&fake);
}

#[tokio::test(start_paused = true)]
async fn an_agents_release_is_waited_for() {
    let fake = world();
    let until = fake.now() + k8s_openapi::jiff::SignedDuration::from_secs(100);
    let mark = orbweaver_api::release_mark::ReleaseMark {
        pod_uid: "u".to_owned(),
        by: "agent/n".to_owned(),
        until: until.to_string(),
    };
    let endpoint = fake.state().seen.endpoints["ns/gone"].clone();
    fake.write_mark(&endpoint, Some(&mark)).await.unwrap();
    let mut collector = collector(&fake);
    for _ in 0..3 {
        assert_eq!(collector.round().await.unwrap().collected, 0);
        advance(Duration::from_secs(31)).await;
    }
    assert_eq!(releases(&fake).len(), 0);
    finish(&mut collector).await;
    assert_done(&fake);
}

#[tokio::test(start_paused = true)]
async fn the_last_read_saves_a_pod_that_came_back_and_the_swap_one_that_took_the_address() {
    let fake = world();
    let mut collector = collector(&fake);
    collector.round().await.unwrap();
    advance(Duration::from_secs(31)).await;
    fake.state().before_pod_read = Some(Box::new(|state| {
        let back = PodFact {
            uid: "u".to_owned(),
            node: Some("n".to_owned()),
            ..PodFact::default()
        };
        state.seen.pods.insert("ns/gone".to_owned(), back);
    }));
    assert_eq!(collector.round().await.unwrap().collected, 0);
    assert_eq!((claims_of(&fake, "u"), releases(&fake).len()), (4, 0));

    fake.state().seen.pods.remove("ns/gone");
    collector.round().await.unwrap();
    advance(Duration::from_secs(31)).await;
    // The agent's DEL and the next pod's ADD come between the read and the write.
    fake.state().before_claims_write = Some(Box::new(|state| state.claim("g6", "fd01::1", "ns/next", "x")));
    collector.round().await.unwrap();
    assert_eq!(claims_of(&fake, "x"), 1, "the new holder keeps it");
    assert_eq!(claims_of(&fake, "u"), 0);
}

#[tokio::test(start_paused = true)]
async fn an_address_that_the_next_pod_took_over_by_its_endpoint_is_left_alone() {
    let fake = world();
    let mut collector = collector(&fake);
    collector.round().await.unwrap();
    advance(Duration::from_secs(31)).await;
    let next = PodFact {
        uid: "x".to_owned(),
        node: Some("n".to_owned()),
        ..PodFact::default()
    };
    {
        let mut state = fake.state();
        let endpoint = state.seen.endpoints.get_mut("ns/gone").unwrap();
        "x".clone_into(&mut endpoint.status.current.uid);
        state.seen.provider_networks = false;
    }
    // The look does not see the pod yet.
    fake.state().before_pod_read = Some(Box::new(|state| {
        state.seen.pods.insert("ns/gone".to_owned(), next);
    }));
    collector.round().await.unwrap();
    assert_eq!((claims_of(&fake, "u"), releases(&fake).len()), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn half_a_look_is_no_look() {
    let fake = world();
    let mut collector = collector(&fake);
    collector.round().await.unwrap();
    fake.state().lists_fail = true;
    advance(Duration::from_secs(31)).await;
    assert!(collector.round().await.is_err());
    assert_eq!(claims_of(&fake, "u"), 4);
    fake.state().lists_fail = false;
    finish(&mut collector).await;
    assert_done(&fake);
}

#[tokio::test(start_paused = true)]
async fn a_sub_eni_that_nobody_can_be_told_of_keeps_its_claim() {
    type Case = (bool, fn(&mut State), &'static str);
    let cases: [Case; 3] = [
        (false, |_| {}, "no_provider"),
        (
            true,
            |state| drop(state.seen.endpoints.remove("ns/gone")),
            "no_endpoint",
        ),
        (
            true,
            |state| {
                let endpoint = state.seen.endpoints.get_mut("ns/gone").unwrap();
                endpoint.status.current.node.clear();
            },
            "node_unknown",
        ),
    ];
    for (has_provider, change, label) in cases {
        let fake = world();
        change(&mut fake.state());
        let mut collector = Collector::new(fake.clone(), Policy::default(), "c", has_provider);
        let mut seen = fake.look().await.unwrap();
        let (_, mut round) = collector.judge_claims(&seen);
        assert_eq!(round.suspects, 4);
        advance(Duration::from_secs(31)).await;
        let (holders, _) = collector.judge_claims(&seen);
        for (cause, holder) in holders {
            let (_, failure) = collector.collect(&mut seen, cause, holder).await.unwrap_err();
            assert_eq!(failure.label(), label);
            round.stuck += 1;
        }
        assert_eq!(
            (round.stuck, claims_of(&fake, "u"), releases(&fake).len()),
            (1, 4, 0)
        );
    }
}
