//! The Provider actor over a scripted provider: turns, callers that leave, panics, pauses and the end.
// Clippy knows tests by their attribute, not what only they call.
#![allow(missing_docs, clippy::panic)]

#[path = "provider_support/scripted.rs"]
mod scripted;
#[path = "provider_support/server.rs"]
mod server;

use std::sync::Arc;
use std::time::Duration;

use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use orbweaver_actors::deadline::Deadline;
use orbweaver_actors::error::ProviderError;
use orbweaver_actors::provider::metrics::METRICS;
use orbweaver_actors::provider::{
    BoundSubEni, CallClass, DrainReport, ProviderHandle, ProviderOptions, QueueLimits,
};
use scripted::{CONFUSED, PANICS, Scripted, THROTTLED};
use server::{allocate_request, release_request};
use tokio::task::JoinHandle;
use tokio::time::Instant;

fn start(api: &Arc<Scripted>, in_flight: usize) -> ProviderHandle {
    start_with(
        api,
        QueueLimits {
            in_flight,
            ..QueueLimits::default()
        },
    )
}

fn start_with(api: &Arc<Scripted>, limits: QueueLimits) -> ProviderHandle {
    ProviderHandle::start(
        ProviderOptions { limits },
        api.clone(),
        &actix_rt::Arbiter::current(),
    )
}

fn far() -> Deadline {
    Deadline::after(Deadline::CNI_BUDGET)
}

type Asking<T> = JoinHandle<Result<T, ProviderError>>;

/// A pod start in a task of its own.
fn pod_start(handle: &ProviderHandle, address: &str, deadline: Deadline) -> Asking<Vec<BoundSubEni>> {
    let (handle, request) = (handle.clone(), allocate_request(address));
    actix_rt::spawn(async move {
        handle
            .allocate(request, CallClass::PodStart, deadline, "r-1".into())
            .await
    })
}

/// A release in a task of its own.
fn release(handle: &ProviderHandle, address: &str, class: CallClass) -> Asking<()> {
    let (handle, request) = (handle.clone(), release_request(address));
    actix_rt::spawn(async move { handle.release(request, class, far(), "r-1".into()).await })
}

#[actix::test]
async fn a_pod_start_overtakes_undos_and_releases_that_wait() {
    let api = Scripted::new(0);
    let handle = start(&api, 1);
    let first = pod_start(&handle, "10.0.0.1", far());
    api.has_begun(1).await;
    let last = release(&handle, "10.0.0.4", CallClass::Release);
    let third = release(&handle, "10.0.0.3", CallClass::Undo);
    let second = pod_start(&handle, "10.0.0.2", far());
    // Tasks of one thread run in the order in which they were spawned: all are in the mailbox before this ends.
    tokio::task::yield_now().await;
    api.gate.add_permits(4);
    for outcome in [last.await, third.await] {
        outcome.expect("no panic").expect("released");
    }
    for outcome in [first.await, second.await] {
        outcome.expect("no panic").expect("bound");
    }
    assert_eq!(api.calls(), ["10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"]);
}

#[actix::test]
async fn a_caller_that_goes_away_changes_nothing() {
    let api = Scripted::new(0);
    let handle = start(&api, 1);
    let caller = pod_start(&handle, "10.0.0.1", far());
    api.has_begun(1).await;
    caller.abort();
    assert!(caller.await.expect_err("it was sent away").is_cancelled());
    api.gate.add_permits(2);
    api.has_ended(1).await;
    pod_start(&handle, "10.0.0.2", far())
        .await
        .expect("no panic")
        .expect("the slot is free again");
    assert_eq!(api.calls(), ["10.0.0.1", "10.0.0.2"], "made once, to its end");
}

#[actix::test]
async fn a_call_whose_deadline_passes_in_the_queue_is_never_sent() {
    let api = Scripted::new(0);
    let handle = start(&api, 1);
    let first = pod_start(&handle, "10.0.0.1", far());
    api.has_begun(1).await;
    let second = pod_start(&handle, "10.0.0.2", Deadline::after(Duration::from_secs(5)));
    tokio::time::pause();
    let error = second.await.expect("no panic").expect_err("too late");
    assert!(matches!(error, ProviderError::NotSent(_)), "{error:?}");
    assert!(
        error
            .to_string()
            .starts_with("parent budget exhausted: IaaS allocate API call was not sent"),
        "{error}"
    );
    api.gate.add_permits(2);
    first.await.expect("no panic").expect("bound");
    assert_eq!(handle.drain(far()).await, DrainReport::default());
    assert_eq!(api.calls(), ["10.0.0.1"]);
}

#[actix::test]
async fn a_provider_that_ignores_the_deadline_costs_no_more_than_the_deadline() {
    let api = Scripted::new(0);
    let handle = start(&api, 1);
    let stuck = pod_start(&handle, "10.0.0.1", Deadline::after(Duration::from_secs(5)));
    api.has_begun(1).await;
    tokio::time::pause();
    let error = stuck.await.expect("no panic").expect_err("no answer");
    assert!(matches!(error, ProviderError::Unknown { .. }), "{error:?}");
    assert!(
        error
            .to_string()
            .starts_with("parent budget exhausted: IaaS allocate API call cancelled"),
        "{error}"
    );
    api.gate.add_permits(1);
    pod_start(&handle, "10.0.0.2", far())
        .await
        .expect("no panic")
        .expect("the slot is free again");
}

#[actix::test]
async fn a_panic_during_a_call_is_an_unknown_outcome_and_frees_the_slot() {
    let api = Scripted::new(2);
    let handle = start(&api, 1);
    let error = pod_start(&handle, PANICS, far())
        .await
        .expect("not here")
        .expect_err("it broke");
    assert!(matches!(error, ProviderError::Unknown { .. }), "{error:?}");
    pod_start(&handle, "10.0.0.2", far())
        .await
        .expect("no panic")
        .expect("bound");
    assert!(handle.alive());
}

#[actix::test]
async fn an_answer_about_another_address_is_rejected() {
    let api = Scripted::new(1);
    let error = pod_start(&start(&api, 1), CONFUSED, far())
        .await
        .expect("no panic")
        .expect_err("wrong");
    assert!(matches!(error, ProviderError::Rejected(_)), "{error:?}");
    assert_eq!(
        error.to_string(),
        "iaas allocate API answered wrongly: address 10.0.0.1 was answered but not asked for"
    );
}

#[actix::test]
async fn a_full_queue_turns_calls_away_at_once() {
    let api = Scripted::new(0);
    let handle = start_with(
        &api,
        QueueLimits {
            in_flight: 1,
            pod_starts: 1,
            undos: 1,
            releases: 1,
        },
    );
    let first = pod_start(&handle, "10.0.0.1", far());
    let second = pod_start(&handle, "10.0.0.2", far());
    api.has_begun(1).await;
    let error = pod_start(&handle, "10.0.0.3", far())
        .await
        .expect("no panic")
        .expect_err("full");
    assert!(matches!(error, ProviderError::NotSent(_)), "{error:?}");
    assert_eq!(
        error.to_string(),
        "the provider's pod_start queue is full with a maximum length of 1"
    );
    api.gate.add_permits(2);
    for outcome in [first.await, second.await] {
        outcome.expect("no panic").expect("bound");
    }
}

#[actix::test]
async fn a_malformed_request_never_leaves() {
    let api = Scripted::new(1);
    let error = pod_start(&start(&api, 1), "10.0.0.1/24", far())
        .await
        .expect("no panic")
        .expect_err("malformed");
    assert!(matches!(error, ProviderError::NotSent(_)), "{error:?}");
    assert!(api.calls().is_empty());
}

#[actix::test]
async fn a_throttled_provider_is_left_alone_for_as_long_as_it_asks() {
    let api = Scripted::new(4);
    let handle = start(&api, 4);
    tokio::time::pause();
    let error = release(&handle, THROTTLED, CallClass::Undo)
        .await
        .expect("no panic")
        .expect_err("throttled");
    assert_eq!(error.to_string(), "slow down");
    let asked = Instant::now();
    pod_start(&handle, "10.0.0.1", far())
        .await
        .expect("no panic")
        .expect("a higher class may try");
    assert_eq!(asked.elapsed(), Duration::ZERO);
    release(&handle, "10.0.0.2", CallClass::Release)
        .await
        .expect("no panic")
        .expect("released");
    let waited = asked.elapsed();
    assert!(waited >= Duration::from_secs(10), "{waited:?}");
    assert!(
        waited <= Duration::from_millis(11_002),
        "a tenth of jitter and the timer's grain: {waited:?}"
    );
}

#[actix::test]
async fn a_drain_ends_what_was_let_in_and_lets_nothing_in() {
    let api = Scripted::new(0);
    let handle = start(&api, 1);
    let let_in = [
        pod_start(&handle, "10.0.0.1", far()),
        pod_start(&handle, "10.0.0.2", far()),
    ];
    api.has_begun(1).await;
    let drain = actix_rt::spawn({
        let handle = handle.clone();
        async move { handle.drain(far()).await }
    });
    let late = pod_start(&handle, "10.0.0.3", far())
        .await
        .expect("no panic")
        .expect_err("draining");
    assert_eq!(
        late.to_string(),
        "the agent is shutting down and makes no new provider calls"
    );
    assert!(!drain.is_finished(), "two calls are not at their end");
    api.gate.add_permits(2);
    for outcome in let_in {
        outcome.await.expect("no panic").expect("bound");
    }
    assert_eq!(drain.await.expect("no panic"), DrainReport::default());
    assert_eq!(api.calls(), ["10.0.0.1", "10.0.0.2"]);
}

#[actix::test]
async fn a_drain_that_runs_out_of_time_says_what_it_left() {
    let api = Scripted::new(0);
    let handle = start(&api, 1);
    let stuck = pod_start(&handle, "10.0.0.1", far());
    let waiting = pod_start(&handle, "10.0.0.2", far());
    api.has_begun(1).await;
    tokio::time::pause();
    let report = handle.drain(Deadline::after(Duration::from_secs(5))).await;
    assert_eq!(
        report,
        DrainReport {
            in_flight: 1,
            not_sent: 1,
            overdue: false
        }
    );
    let error = waiting.await.expect("no panic").expect_err("not sent");
    assert!(matches!(error, ProviderError::NotSent(_)), "{error:?}");
    stuck.abort();
}

#[actix::test]
async fn without_a_provider_nothing_is_sent() {
    let handle = ProviderHandle::disabled();
    let outcome = handle
        .release(
            release_request("10.0.0.1"),
            CallClass::Release,
            far(),
            "r-1".into(),
        )
        .await;
    assert!(matches!(outcome, Err(ProviderError::NotSent(_))), "{outcome:?}");
    assert!(!handle.alive());
    assert_eq!(handle.drain(far()).await, DrainReport::default());
}

#[actix::test]
async fn what_is_recorded_is_what_the_table_of_metrics_says() {
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let _recording = metrics::set_default_local_recorder(&recorder);
    let api = Scripted::new(0);
    let handle = start(&api, 4);
    let left = pod_start(&handle, "10.0.0.1", far());
    api.has_begun(1).await;
    left.abort();
    assert!(left.await.is_err());
    api.gate.add_permits(3);
    let throttled = release(&handle, THROTTLED, CallClass::Undo)
        .await
        .expect("no panic");
    assert!(throttled.is_err());
    assert_eq!(handle.drain(far()).await, DrainReport::default());

    let mut values = std::collections::BTreeMap::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let (_, key) = key.into_parts();
        let labels: Vec<&str> = key.labels().map(metrics::Label::key).collect();
        let described = METRICS.iter().find(|metric| metric.name == key.name());
        assert_eq!(
            described.map(|metric| metric.labels),
            Some(&*labels),
            "{}",
            key.name()
        );
        let values_of: Vec<&str> = key.labels().map(metrics::Label::value).collect();
        values.insert(format!("{}/{}", key.name(), values_of.join("/")), value);
    }
    let counted = |name: &str| values.get(&format!("orbweaver_provider_{name}"));
    assert_eq!(counted("calls_total/allocate/ok"), Some(&DebugValue::Counter(1)));
    assert_eq!(
        counted("calls_total/release/rejected"),
        Some(&DebugValue::Counter(1))
    );
    assert_eq!(
        counted("late_answers_total/allocate"),
        Some(&DebugValue::Counter(1))
    );
    assert_eq!(
        counted("calls_in_flight/pod_start"),
        Some(&DebugValue::Gauge(0.0.into()))
    );
    assert!(counted("queue_wait_seconds/undo").is_some());
    assert!(counted("call_duration_seconds/release/rejected").is_some());
}
