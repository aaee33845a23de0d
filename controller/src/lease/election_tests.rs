use k8s_openapi::jiff::Timestamp;
use proptest::prelude::*;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn wall(microsecond: i64) -> MicroTime {
    MicroTime(Timestamp::from_microsecond(microsecond).unwrap())
}

/// The API server's side: a compare-and-swap register.
#[derive(Default)]
struct Register {
    lease: Option<Lease>,
    version: u64,
}

impl Register {
    fn put(&mut self, expected: Option<&Lease>, spec: LeaseSpec) -> Option<Lease> {
        let version = |lease: Option<&Lease>| lease.and_then(|lease| lease.metadata.resource_version.clone());
        if version(expected) != version(self.lease.as_ref()) {
            return None;
        }
        self.version += 1;
        let mut lease = Lease {
            spec: Some(spec),
            ..Lease::default()
        };
        lease.metadata.resource_version = Some(self.version.to_string());
        self.lease = Some(lease.clone());
        Some(lease)
    }
}

fn spec_of(step: Step) -> LeaseSpec {
    match step {
        Step::Acquire(spec) | Step::Renew(spec) => spec,
        other => panic!("nothing to write: {other:?}"),
    }
}

/// Reads, decides, writes, learns: all at one moment.
fn attempt(register: &mut Register, election: &mut Election, now: Instant, wall: &MicroTime) -> Step {
    let before = register.lease.clone();
    let step = election.decide(before.as_ref(), now, wall);
    if let Step::Acquire(spec) | Step::Renew(spec) = &step {
        election.sending(spec);
        let lease = register.put(before.as_ref(), spec.clone()).unwrap();
        election.written(&lease, now, now);
    }
    step
}

#[test]
fn a_free_lease_is_taken_and_then_renewed() {
    let (mut register, start) = (Register::default(), Instant::now());
    let mut a = Election::new("a", Timing::default());
    assert!(matches!(
        attempt(&mut register, &mut a, start, &wall(1)),
        Step::Acquire(_)
    ));
    assert_eq!(a.leads_until(), Some(start + 10 * SECOND));
    let later = start + 2 * SECOND;
    let renewed = attempt(&mut register, &mut a, later, &wall(2));
    let Step::Renew(spec) = renewed else {
        panic!("{renewed:?}")
    };
    assert_eq!(a.leads_until(), Some(later + 10 * SECOND));
    assert_eq!(spec.acquire_time, Some(wall(1)));
    assert_eq!(spec.renew_time, Some(wall(2)));
    assert_eq!(spec.lease_transitions, Some(0));
    assert_eq!(spec.lease_duration_seconds, Some(15));
}

#[test]
fn anothers_lease_is_waited_for_from_the_moment_it_was_seen() {
    let (mut register, start) = (Register::default(), Instant::now());
    let (mut a, mut b) = (
        Election::new("a", Timing::default()),
        Election::new("b", Timing::default()),
    );
    // a's wall clock is a century off: nobody looks at it.
    attempt(&mut register, &mut a, start, &wall(-3_000_000_000_000_000));
    let seen = start + 9 * SECOND;
    assert_eq!(
        attempt(&mut register, &mut b, seen, &wall(5)),
        Step::Wait(15 * SECOND)
    );
    assert_eq!(
        attempt(&mut register, &mut b, seen + 14 * SECOND, &wall(5)),
        Step::Wait(SECOND)
    );
    let Step::Acquire(spec) = attempt(&mut register, &mut b, seen + 15 * SECOND, &wall(5)) else {
        panic!("still waiting");
    };
    assert_eq!(spec.holder_identity.as_deref(), Some("b"));
    assert_eq!(spec.lease_transitions, Some(1));
    assert_eq!(
        attempt(&mut register, &mut a, seen + 16 * SECOND, &wall(5)),
        Step::Lost
    );
    assert_eq!(a.leads_until(), None);
}

#[test]
fn a_renewal_starts_the_wait_anew() {
    let (mut register, start) = (Register::default(), Instant::now());
    let (mut a, mut b) = (
        Election::new("a", Timing::default()),
        Election::new("b", Timing::default()),
    );
    attempt(&mut register, &mut a, start, &wall(1));
    attempt(&mut register, &mut b, start, &wall(1));
    attempt(&mut register, &mut a, start + 8 * SECOND, &wall(2));
    let at = start + 14 * SECOND;
    assert_eq!(
        attempt(&mut register, &mut b, at, &wall(3)),
        Step::Wait(15 * SECOND)
    );
}

#[test]
fn a_released_lease_is_free_at_once() {
    let (mut register, start) = (Register::default(), Instant::now());
    let (mut a, mut b) = (
        Election::new("a", Timing::default()),
        Election::new("b", Timing::default()),
    );
    attempt(&mut register, &mut a, start, &wall(1));
    assert!(matches!(
        attempt(&mut register, &mut b, start, &wall(1)),
        Step::Wait(_)
    ));
    let before = register.lease.clone();
    assert_eq!(
        b.release(before.as_ref().unwrap(), &wall(2)),
        None,
        "not b's to release"
    );
    let released = a.release(before.as_ref().unwrap(), &wall(2)).unwrap();
    register.put(before.as_ref(), released).unwrap();
    a.step_down();
    assert!(matches!(
        attempt(&mut register, &mut b, start + SECOND, &wall(3)),
        Step::Acquire(_)
    ));
}

#[test]
fn a_deleted_lease_is_not_free_before_its_holder_has_stopped() {
    let (mut register, start) = (Register::default(), Instant::now());
    let (mut a, mut b) = (
        Election::new("a", Timing::default()),
        Election::new("b", Timing::default()),
    );
    attempt(&mut register, &mut a, start, &wall(1));
    attempt(&mut register, &mut b, start, &wall(1));
    register.lease = None;
    assert_eq!(
        attempt(&mut register, &mut b, start + SECOND, &wall(2)),
        Step::Wait(15 * SECOND)
    );
    assert_eq!(
        attempt(&mut register, &mut a, start + SECOND, &wall(2)),
        Step::Lost
    );
    assert!(matches!(
        attempt(&mut register, &mut b, start + 16 * SECOND, &wall(3)),
        Step::Acquire(_)
    ));
}

#[test]
fn one_name_for_two_processes_does_not_make_two_leaders() {
    let (mut register, start) = (Register::default(), Instant::now());
    let (mut a, mut twin) = (
        Election::new("a", Timing::default()),
        Election::new("a", Timing::default()),
    );
    attempt(&mut register, &mut a, start, &wall(1));
    assert!(matches!(
        attempt(&mut register, &mut twin, start, &wall(2)),
        Step::Wait(_)
    ));
}

#[test]
fn a_lost_answer_is_found_again_and_renewed_before_leading() {
    let (mut register, start) = (Register::default(), Instant::now());
    let mut a = Election::new("a", Timing::default());
    let spec = spec_of(a.decide(None, start, &wall(1)));
    a.sending(&spec);
    register.put(None, spec).unwrap();
    assert_eq!(a.leads_until(), None, "nobody told a yet");
    let later = start + 12 * SECOND;
    assert!(matches!(
        attempt(&mut register, &mut a, later, &wall(2)),
        Step::Renew(_)
    ));
    assert_eq!(a.leads_until(), Some(later + 10 * SECOND));
}

#[test]
fn durations_that_let_two_leaders_meet_are_refused() {
    let timing = |lease: f64, renew: f64, retry: f64| Timing {
        lease: Duration::from_secs_f64(lease),
        renew_deadline: Duration::from_secs_f64(renew),
        retry: Duration::from_secs_f64(retry),
    };
    assert_eq!(Timing::default().check(), Ok(()));
    assert_eq!(timing(4.0, 2.0, 0.5).check(), Ok(()));
    assert!(matches!(
        timing(10.0, 10.0, 2.0).check(),
        Err(TimingError::Lease(..))
    ));
    assert!(matches!(
        timing(15.0, 4.0, 2.0).check(),
        Err(TimingError::RenewDeadline(..))
    ));
    assert!(matches!(
        timing(15.0, 10.0, 0.0).check(),
        Err(TimingError::Retry(..))
    ));
    assert!(matches!(
        timing(15.5, 10.0, 2.0).check(),
        Err(TimingError::Retry(..))
    ));
}

/// What can happen to one of three candidates.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// Time goes on for all, by milliseconds.
    Pass(u64),
    /// It reads, decides and sends.
    Send(usize),
    /// What it sent reaches the API server, however late.
    Land(usize),
    /// It hears the answer to what landed, or never does.
    Hear(usize),
    /// It gives up waiting for an answer.
    Forget(usize),
    /// It ends without a word; another process with the same name starts.
    Crash(usize),
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1u64..9_000).prop_map(Event::Pass),
        6 => (0usize..3).prop_map(Event::Send),
        6 => (0usize..3).prop_map(Event::Land),
        6 => (0usize..3).prop_map(Event::Hear),
        1 => (0usize..3).prop_map(Event::Forget),
        1 => (0usize..3).prop_map(Event::Crash),
    ]
}

#[derive(Default)]
struct Wire {
    sent: Option<(Option<Lease>, LeaseSpec, Instant)>,
    answer: Option<(Option<Lease>, Instant)>,
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn two_candidates_never_lead_at_once(events in prop::collection::vec(event(), 1..120)) {
        let mut now = Instant::now();
        let mut register = Register::default();
        let mut elections = vec![Election::new("same", Timing::default()); 3];
        let mut wires: Vec<Wire> = (0..3).map(|_| Wire::default()).collect();
        let mut clock = 0i64;
        for event in events {
            clock += 1;
            match event {
                Event::Pass(milliseconds) => now += Duration::from_millis(milliseconds),
                Event::Send(i) => {
                    let before = register.lease.clone();
                    let step = elections[i].decide(before.as_ref(), now, &wall(clock));
                    if let Step::Acquire(spec) | Step::Renew(spec) = step {
                        elections[i].sending(&spec);
                        wires[i] = Wire { sent: Some((before, spec, now)), answer: None };
                    }
                }
                Event::Land(i) => {
                    if let Some((before, spec, at)) = wires[i].sent.take() {
                        wires[i].answer = Some((register.put(before.as_ref(), spec), at));
                    }
                }
                Event::Hear(i) => match wires[i].answer.take() {
                    Some((Some(lease), at)) => elections[i].written(&lease, at, now),
                    Some((None, _)) => elections[i].refused(),
                    None => {}
                },
                Event::Forget(i) => wires[i].answer = None,
                Event::Crash(i) => {
                    elections[i] = Election::new("same", Timing::default());
                    wires[i].answer = None;
                }
            }
            let leaders = elections.iter().filter(|one| one.leads_until().is_some_and(|until| until > now));
            prop_assert!(leaders.count() <= 1);
        }
    }
}
