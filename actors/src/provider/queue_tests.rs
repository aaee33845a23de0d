use std::time::Duration;

use proptest::prelude::*;

use super::*;

fn call(item: u32, class: CallClass, since: Instant) -> Queued<u32> {
    Queued {
        item,
        class,
        deadline: since + Duration::from_secs(100),
        since,
    }
}

fn queue(in_flight: usize) -> CallQueue<u32> {
    CallQueue::new(QueueLimits {
        in_flight,
        ..QueueLimits::default()
    })
}

/// Sends one after the other until nothing is left.
fn sent_one_by_one(queue: &mut CallQueue<u32>, now: Instant) -> Vec<u32> {
    std::iter::from_fn(|| {
        let call = queue.next(now)?;
        queue.finished(call.class);
        Some(call.item)
    })
    .collect()
}

#[test]
fn a_pod_start_goes_before_an_undo_and_an_undo_before_a_release() {
    let now = Instant::now();
    let mut queue = queue(1);
    for (item, class) in [
        (30, CallClass::Release),
        (20, CallClass::Undo),
        (10, CallClass::PodStart),
        (11, CallClass::PodStart),
    ] {
        queue.push(call(item, class, now)).expect("room");
    }
    assert_eq!(sent_one_by_one(&mut queue, now), [10, 11, 20, 30]);
}

#[test]
fn a_release_gets_one_start_in_eight_and_an_undo_one_in_four() {
    let now = Instant::now();
    let mut queue = queue(1);
    for item in 0..40 {
        queue.push(call(item, CallClass::PodStart, now)).expect("room");
        queue
            .push(call(1000 + item, CallClass::Release, now))
            .expect("room");
    }
    let order = sent_one_by_one(&mut queue, now);
    let releases: Vec<usize> = (0..40)
        .filter(|place| order.get(*place).is_some_and(|item| *item >= 1000))
        .collect();
    assert_eq!(releases, [7, 15, 23, 31, 39]);

    for item in 0..40 {
        queue.push(call(item, CallClass::PodStart, now)).expect("room");
        queue.push(call(500 + item, CallClass::Undo, now)).expect("room");
    }
    let order = sent_one_by_one(&mut queue, now);
    assert_eq!(order.get(..8), Some(&[0, 1, 2, 500, 3, 4, 5, 501][..]));
}

#[test]
fn lower_classes_never_fill_every_slot() {
    let now = Instant::now();
    let mut queue = queue(32);
    for item in 0..64 {
        queue.push(call(item, CallClass::Release, now)).expect("room");
    }
    while queue.next(now).is_some() {}
    assert_eq!(queue.in_flight(CallClass::Release), 16);
    for item in 0..64 {
        queue.push(call(item, CallClass::Undo, now)).expect("room");
    }
    while queue.next(now).is_some() {}
    assert_eq!(queue.in_flight(CallClass::Undo), 8);
    queue.push(call(1, CallClass::PodStart, now)).expect("room");
    assert_eq!(queue.next(now).map(|call| call.class), Some(CallClass::PodStart));
}

#[test]
fn a_full_class_gives_the_call_back_and_leaves_the_others_open() {
    let now = Instant::now();
    let mut queue = CallQueue::new(QueueLimits {
        in_flight: 1,
        pod_starts: 2,
        undos: 1,
        releases: 1,
    });
    assert!(queue.push(call(1, CallClass::PodStart, now)).is_ok());
    assert!(queue.push(call(2, CallClass::PodStart, now)).is_ok());
    assert_eq!(
        queue
            .push(call(3, CallClass::PodStart, now))
            .map_err(|call| call.item),
        Err(3)
    );
    assert!(queue.push(call(4, CallClass::Release, now)).is_ok());
}

#[test]
fn a_call_whose_deadline_passed_is_taken_out_wherever_it_stands() {
    let now = Instant::now();
    let mut queue = queue(1);
    queue.push(call(1, CallClass::Release, now)).expect("room");
    queue
        .push(Queued {
            deadline: now + Duration::from_secs(5),
            ..call(2, CallClass::Release, now)
        })
        .expect("room");
    assert_eq!(queue.wake_at(now), Some(now + Duration::from_secs(5)));
    let later = now + Duration::from_secs(5);
    assert_eq!(
        queue
            .take_expired(later)
            .into_iter()
            .map(|call| call.item)
            .collect::<Vec<_>>(),
        [2]
    );
    assert_eq!(sent_one_by_one(&mut queue, later), [1]);
}

#[test]
fn a_throttled_class_waits_together_with_those_below_it() {
    let now = Instant::now();
    let mut queue = queue(8);
    queue.pause(CallClass::Undo, now + Duration::from_secs(3));
    queue.pause(CallClass::Undo, now + Duration::from_secs(1));
    for (item, class) in [
        (1, CallClass::PodStart),
        (2, CallClass::Undo),
        (3, CallClass::Release),
    ] {
        queue.push(call(item, class, now)).expect("room");
    }
    assert_eq!(queue.next(now).map(|call| call.item), Some(1));
    assert_eq!(
        queue.next(now + Duration::from_secs(2)),
        None,
        "the longer pause counts"
    );
    assert_eq!(queue.wake_at(now), Some(now + Duration::from_secs(3)));
    assert_eq!(sent_one_by_one(&mut queue, now + Duration::from_secs(3)), [2, 3]);
}

#[test]
fn a_throttled_pod_start_pauses_everything() {
    let now = Instant::now();
    let mut queue = queue(8);
    queue.pause(CallClass::PodStart, now + Duration::from_secs(1));
    for class in CLASSES {
        queue.push(call(1, class, now)).expect("room");
    }
    assert_eq!(queue.next(now), None);
    assert_eq!(sent_one_by_one(&mut queue, now + Duration::from_secs(1)).len(), 3);
}

#[test]
fn one_slot_serves_every_class() {
    let now = Instant::now();
    for class in CLASSES {
        let mut queue = queue(0);
        queue.push(call(1, class, now)).expect("room");
        assert!(queue.next(now).is_some(), "{class:?}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push(CallClass, u64),
    Next,
    Finish(CallClass),
    Pause(CallClass, u64),
    Pass(u64),
}

fn any_step() -> impl Strategy<Value = Step> {
    let class = || prop::sample::select(&CLASSES[..]);
    prop_oneof![
        4 => (class(), 0..20_u64).prop_map(|(class, seconds)| Step::Push(class, seconds)),
        4 => Just(Step::Next),
        3 => class().prop_map(Step::Finish),
        1 => (class(), 0..5_u64).prop_map(|(class, seconds)| Step::Pause(class, seconds)),
        2 => (0..5_u64).prop_map(Step::Pass),
    ]
}

proptest! {
    #[test]
    fn every_call_leaves_once_and_in_order_inside_its_class(steps in prop::collection::vec(any_step(), 0..200)) {
        let mut now = Instant::now();
        let mut queue = queue(4);
        let (mut pushed, mut left, mut last) = (0_u32, 0_u32, [None; 3]);
        for step in steps {
            match step {
                Step::Push(class, seconds) => {
                    let deadline = now + Duration::from_secs(seconds);
                    queue.push(Queued { item: pushed, class, deadline, since: now }).expect("room");
                    pushed += 1;
                }
                Step::Next => {
                    left += u32::try_from(queue.take_expired(now).len()).expect("few");
                    if let Some(call) = queue.next(now) {
                        prop_assert!(call.deadline > now);
                        let last = &mut last[call.class as usize];
                        prop_assert!(last.is_none_or(|before| before < call.item));
                        *last = Some(call.item);
                        left += 1;
                    }
                }
                Step::Finish(class) => queue.finished(class),
                Step::Pause(class, seconds) => queue.pause(class, now + Duration::from_secs(seconds)),
                Step::Pass(seconds) => now += Duration::from_secs(seconds),
            }
            prop_assert!(queue.all_in_flight() <= 4);
        }
        left += u32::try_from(queue.take_all().len()).expect("few");
        prop_assert_eq!(pushed, left);
    }
}
