//! Candidates over a lease in memory, on a paused clock.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use orbweaver_controller::lease::campaign::{Campaign, CampaignError};
use orbweaver_controller::lease::election::{Election, Timing};
use orbweaver_controller::lease::store::{LeaseError, LeaseStore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

#[derive(Default)]
struct Register {
    lease: Option<Lease>,
    version: u64,
}

/// One candidate's way to the register; it can be cut.
#[derive(Clone)]
struct Wire {
    register: Arc<Mutex<Register>>,
    cut: Arc<AtomicBool>,
}

impl Wire {
    async fn pass(&self) {
        sleep(Duration::from_millis(20)).await;
        if self.cut.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }
}

impl LeaseStore for Wire {
    async fn read(&self) -> Result<Option<Lease>, LeaseError> {
        self.pass().await;
        Ok(self.register.lock().unwrap().lease.clone())
    }

    async fn write(&self, before: Option<&Lease>, spec: LeaseSpec) -> Result<Lease, LeaseError> {
        self.pass().await;
        let mut register = self.register.lock().unwrap();
        let version = |lease: Option<&Lease>| lease.and_then(|lease| lease.metadata.resource_version.clone());
        if version(before) != version(register.lease.as_ref()) {
            return Err(LeaseError::Conflict);
        }
        register.version += 1;
        let mut lease = Lease {
            spec: Some(spec),
            ..Lease::default()
        };
        lease.metadata.resource_version = Some(register.version.to_string());
        register.lease = Some(lease.clone());
        Ok(lease)
    }
}

/// What all candidates' work reports to.
#[derive(Default)]
struct Witness {
    working: AtomicUsize,
    terms: AtomicUsize,
    last: Mutex<Option<(String, Instant)>>,
}

/// Counts itself as working until dropped, however it ends.
struct Working(Arc<Witness>);

impl Drop for Working {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Candidate {
    cut: Arc<AtomicBool>,
    shutdown: CancellationToken,
    task: JoinHandle<Result<(), CampaignError>>,
}

/// Work that looks around every 50 ms; `stubborn` work ignores its token.
async fn work(
    name: String,
    witness: Arc<Witness>,
    token: CancellationToken,
    stubborn: bool,
) -> Result<(), String> {
    let others = witness.working.fetch_add(1, Ordering::SeqCst);
    assert_eq!(others, 0, "{name} works beside another");
    witness.terms.fetch_add(1, Ordering::SeqCst);
    let _working = Working(witness.clone());
    while stubborn || !token.is_cancelled() {
        *witness.last.lock().unwrap() = Some((name.clone(), Instant::now()));
        sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn candidate(
    name: &str,
    register: &Arc<Mutex<Register>>,
    witness: &Arc<Witness>,
    stubborn: bool,
) -> Candidate {
    let cut = Arc::new(AtomicBool::new(false));
    let shutdown = CancellationToken::new();
    let wire = Wire {
        register: register.clone(),
        cut: cut.clone(),
    };
    let campaign = Campaign::new(wire, Election::new(name, Timing::default()));
    let (stop, name, witness) = (shutdown.clone(), name.to_owned(), witness.clone());
    let task = tokio::spawn(async move {
        let work = |token| work(name.clone(), witness.clone(), token, stubborn);
        campaign.run(&stop, work).await
    });
    Candidate { cut, shutdown, task }
}

async fn until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(Instant::now() < end, "never: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

fn last_name(witness: &Witness) -> Option<String> {
    witness
        .last
        .lock()
        .unwrap()
        .as_ref()
        .map(|(name, _)| name.clone())
}

fn world() -> (Arc<Mutex<Register>>, Arc<Witness>) {
    (Arc::default(), Arc::default())
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_before_the_lease_expires() {
    for stubborn in [false, true] {
        let (register, witness) = world();
        let a = candidate("a", &register, &witness, stubborn);
        until("a leads", || last_name(&witness).is_some()).await;
        let b = candidate("b", &register, &witness, false);
        sleep(Duration::from_secs(30)).await;
        a.cut.store(true, Ordering::SeqCst);
        let cut = Instant::now();
        until("a stops", || witness.working.load(Ordering::SeqCst) == 0).await;
        assert!(cut.elapsed() < Timing::default().lease, "{:?}", cut.elapsed());
        let stopped = Instant::now();
        until("b leads", || last_name(&witness).as_deref() == Some("b")).await;
        assert!(Instant::now() > stopped);
        a.shutdown.cancel();
        b.shutdown.cancel();
        b.task.await.unwrap().unwrap();
        a.task.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn two_candidates_never_lead_at_once_over_bad_wires() {
    let (register, witness) = world();
    let all: Vec<Candidate> = (0..3)
        .map(|index| candidate(&format!("c{index}"), &register, &witness, index == 1))
        .collect();
    for round in 0..60u64 {
        // Each wire breaks and heals in a rhythm of its own; work asserts that it is alone.
        for (index, one) in all.iter().enumerate() {
            let period = 5 + index as u64 * 2;
            one.cut.store(round % period < period / 2, Ordering::SeqCst);
        }
        sleep(Duration::from_secs(7)).await;
        assert!(witness.working.load(Ordering::SeqCst) <= 1);
    }
    assert!(witness.terms.load(Ordering::SeqCst) > 2, "leadership moved");
    for one in all {
        one.cut.store(false, Ordering::SeqCst);
        one.shutdown.cancel();
        one.task.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn an_ordered_end_hands_over_at_once() {
    let (register, witness) = world();
    let a = candidate("a", &register, &witness, false);
    until("a leads", || last_name(&witness).is_some()).await;
    let b = candidate("b", &register, &witness, false);
    sleep(Duration::from_secs(5)).await;
    a.shutdown.cancel();
    a.task.await.unwrap().unwrap();
    let ended = Instant::now();
    let holder = register.lock().unwrap().lease.clone().unwrap().spec.unwrap();
    assert_eq!(holder.holder_identity.as_deref(), Some(""));
    until("b leads", || last_name(&witness).as_deref() == Some("b")).await;
    assert!(ended.elapsed() < Timing::default().renew_deadline);
    b.shutdown.cancel();
    b.task.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn work_that_fails_or_panics_ends_the_campaign_and_frees_the_lease() {
    for panics in [false, true] {
        let (register, _) = world();
        let wire = Wire {
            register: register.clone(),
            cut: Arc::default(),
        };
        let campaign = Campaign::new(wire, Election::new("a", Timing::default()));
        let work = move |_| async move {
            assert!(!panics, "on purpose");
            Err("broken".to_owned())
        };
        let error = campaign.run(&CancellationToken::new(), work).await.unwrap_err();
        match (panics, error) {
            (true, CampaignError::Panicked(_)) => {}
            (false, CampaignError::Failed(why)) => assert_eq!(why, "broken"),
            (_, other) => panic!("{other}"),
        }
        let spec = register.lock().unwrap().lease.clone().unwrap().spec.unwrap();
        assert_eq!(spec.holder_identity.as_deref(), Some(""));
    }
}
