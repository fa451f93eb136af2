//! `select!` and `Select`: each kind of arm, fairness, and that no value is lost or duplicated.

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::common::{self, Random, everywhere, on_each, one_worker, with_workers};
use ramie::{
    cancel,
    channel::{self, Receiver, RecvError, Select, SendError, Sender},
    fiber, no_switch, select,
    time::{Instant, ManualClock},
};

/// The compiler would forget the handler's value, which is there already.
#[test]
fn a_panic_of_another_handlers_destructor_drops_the_value() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in drop");
        }
    }
    everywhere(|| {
        let value = std::sync::Arc::new(());
        let (sender, receiver) = channel::bounded(1);
        sender.send(std::sync::Arc::clone(&value)).unwrap();
        let (_kept, never) = channel::bounded::<()>(1);
        let bomb = Bomb;
        let select = Select::new().recv(&receiver, Result::ok).recv(&never, move |_| {
            let _bomb = &bomb;
            None
        });
        assert!(catch_unwind(AssertUnwindSafe(|| select.wait())).is_err());
        assert_eq!(std::sync::Arc::strong_count(&value), 1);
    });
}

#[test]
fn each_arm_is_carried_out_when_it_can_be() {
    everywhere(|| {
        let (sender, receiver) = channel::bounded(1);
        let (other, _kept) = channel::bounded::<u8>(0);
        let chosen = select! {
            recv(receiver) -> value => value.unwrap(),
            send(other, 0) -> _ => 1,
            default => 2,
        };
        assert_eq!(chosen, 2);
        let chosen = select! {
            recv(receiver) -> value => { value.unwrap() }
            send(sender, 5) -> result => { result.unwrap(); 3 }
        };
        assert_eq!(chosen, 3);
        let chosen = select! {
            recv(&receiver) -> value => value.unwrap(),
            send(&sender, 6) -> _ => 4,
        };
        assert_eq!(chosen, 5);
        let start = Instant::now();
        let chosen = select! {
            recv(receiver) -> value => value.unwrap(),
            default(Duration::from_millis(2)) => 6
        };
        assert_eq!(chosen, 6);
        assert!(start.elapsed() >= Duration::from_millis(2));
        let moment = select! {
            recv(receiver) -> _ => None,
            recv(channel::never::<u8>()) -> _ => None,
            recv(channel::after(Duration::from_millis(1))) -> moment => moment.ok(),
        };
        assert!(moment.is_some());
    });
}

#[test]
fn disconnected_arms_are_ready() {
    everywhere(|| {
        let (sender, receiver) = channel::bounded::<u8>(0);
        drop(sender);
        select! { recv(receiver) -> value => assert_eq!(value, Err(RecvError::Disconnected)) }
        let (sender, receiver) = channel::bounded(0);
        drop(receiver);
        select! {
            send(sender, 7) -> result => assert_eq!(result, Err(SendError::Disconnected(7))),
            default => panic!("it is ready"),
        }
    });
}

#[test]
fn a_select_that_nothing_can_end_panics() {
    everywhere(|| {
        let (sender, _receiver) = channel::bounded::<()>(1);
        let mut slot = None;
        let select = || select! { send(sender, mut slot) -> _ => () };
        let payload = catch_unwind(AssertUnwindSafe(select)).unwrap_err();
        let text = common::text(&*payload);
        assert!(text.contains("the slots of all its sends are empty"), "{text}");
        // Also if it was cancelled: no arm could tell.
        cancel::scope(|scope| {
            scope.cancel();
            let mut slot = None;
            let select = || Select::new().send(&sender, &mut slot, |_| ()).wait();
            assert!(catch_unwind(AssertUnwindSafe(select)).is_err());
        });
    });
}

#[test]
fn a_slot_keeps_its_value_if_the_wait_panics() {
    one_worker().run(|| {
        let (sender, receiver) = channel::bounded(0);
        let mut slot = Some(String::from("value"));
        let select = || no_switch(|| select! { send(sender, mut slot) -> _ => () });
        assert!(catch_unwind(AssertUnwindSafe(select)).is_err());
        assert_eq!(slot.as_deref(), Some("value"));
        drop(receiver);
    });
}

#[test]
fn a_slot_keeps_its_value_until_it_is_sent() {
    everywhere(|| {
        let (sender, receiver) = channel::bounded(1);
        let mut slot = Some(String::from("value"));
        sender.send(String::from("first")).unwrap();
        let sent = select! { send(sender, mut slot) -> _ => true, default => false };
        assert!(!sent && slot.as_deref() == Some("value"));
        receiver.recv().unwrap();
        let sent = select! { send(sender, mut slot) -> _ => true, default => false };
        assert!(sent && slot.is_none());
        assert_eq!(receiver.recv().unwrap(), "value");
        let sent = select! { send(sender, mut slot) -> _ => true, default => false };
        assert!(!sent, "an empty slot is never chosen");
        let timeout = Duration::from_millis(1);
        let sent = select! { send(sender, mut slot) -> _ => true, default(timeout) => false };
        assert!(!sent);
        drop(receiver);
        slot = Some(String::from("back"));
        select! {
            send(sender, mut slot) -> sent => assert_eq!(sent.unwrap_err().into_inner(), "back"),
        }
        assert!(slot.is_none());
    });
}

#[test]
fn a_select_built_at_run_time_does_the_same() {
    everywhere(|| {
        let channels: Vec<_> = (0..5).map(|_| channel::bounded(1)).collect();
        assert_eq!(Select::<u8>::new().try_wait(), None);
        assert_eq!(Select::<u8>::new().wait_timeout(Duration::from_millis(1)), None);
        let mut slots = [Some(0), Some(10), None];
        channels[1].0.send(1).unwrap();
        let [first, second, empty] = &mut slots;
        drop(Select::new().send(&channels[0].0, first, |_| ()));
        let full = Select::new()
            .send(&channels[1].0, second, |_| 0)
            .send(&channels[2].0, empty, |_| 1)
            .recv(&channels[3].1, |_| 2);
        assert_eq!(format!("{full:?}"), "Select { operations: 3 }");
        assert_eq!(full.try_wait(), None);
        assert_eq!(slots, [Some(0), Some(10), None], "all is given back");
        let sent =
            Select::new().send(&channels[0].0, &mut slots[0], |result| result.is_ok()).wait();
        assert!(sent && slots[0].is_none());
        let got = channels.iter().fold(Select::new(), |select, (_, receiver)| {
            select.recv(receiver, |value| value.unwrap())
        });
        assert!([0, 1].contains(&got.wait()));
    });
}

#[test]
fn a_select_does_not_receive_its_own_value() {
    everywhere(|| {
        let (sender, receiver) = channel::bounded(0);
        let met = select! {
            recv(receiver) -> _ => true,
            send(sender, 1) -> _ => true,
            default(Duration::from_millis(1)) => false,
        };
        assert!(!met);
    });
}

#[test]
fn two_selects_exchange_a_value() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let (there, back) = (channel::bounded(0), channel::bounded(0));
            let (other_there, other_back) = (there.clone(), back.clone());
            let meets = fiber::spawn(move || {
                (0..2000)
                    .map(|_| {
                        select! {
                            send(other_there.0, 1_u64) -> _ => 0,
                            recv(other_back.1) -> value => value.unwrap(),
                        }
                    })
                    .sum::<u64>()
            });
            let mut got = 0;
            let mut given = 0;
            for _ in 0..2000 {
                select! {
                    recv(there.1) -> value => got += value.unwrap(),
                    send(back.0, 1_u64) -> _ => given += 1,
                }
            }
            assert_eq!(meets.join().unwrap(), given);
            assert_eq!(got + given, 2000);
        });
    });
}

/// If all arms are ready, each is chosen equally often.
#[test]
fn no_arm_starves() {
    one_worker().run(|| {
        let channels = [(); 4].map(|()| channel::unbounded());
        let mut counts = [0_u32; 4];
        for (sender, _) in &channels {
            (0..8000).for_each(|value| sender.send(value).unwrap());
        }
        let [a, b, c, d] = &channels;
        for _ in 0..8000 {
            let chosen = select! {
                recv(a.1) -> _ => 0,
                recv(b.1) -> _ => 1,
                recv(c.1) -> _ => 2,
                recv(d.1) -> _ => 3,
            };
            counts[chosen] += 1;
        }
        assert!(counts.iter().all(|&count| count > 1500), "{counts:?}");
    });
}

#[test]
fn a_select_ends_by_the_clock() {
    let clock = ManualClock::new();
    let runtime = ramie::Runtime::builder().workers(1).clock(clock.clone()).build().unwrap();
    runtime.run(|| {
        let start = Instant::now();
        let (_sender, receiver) = channel::bounded::<u8>(0);
        let waits = fiber::spawn(move || {
            let tick = channel::tick(Duration::from_secs(3));
            let mut ticks = 0;
            loop {
                select! {
                    recv(receiver) -> _ => panic!("nobody sends"),
                    recv(tick) -> _ => ticks += 1,
                    default(Duration::from_secs(2)) => ticks += 10,
                }
                if ticks >= 12 {
                    return (ticks, start.elapsed());
                }
            }
        });
        for _ in 0..10 {
            // Often enough for the worker to check its timers.
            (0..200).for_each(|_| fiber::yield_now());
            clock.advance(Duration::from_secs(1));
        }
        // 2: default, 3: tick, 5: default.
        assert_eq!(waits.join().unwrap(), (21, Duration::from_secs(5)));
    });
}

#[test]
fn an_abandoned_select_passes_its_value_on() {
    let (sender, receiver) = channel::bounded(0);
    let other = channel::bounded::<u8>(0);
    let runtime = ramie::Runtime::builder()
        .workers(1)
        .grace(Duration::ZERO)
        .on_abandoned(|_| {})
        .build()
        .unwrap();
    let (given, kept, unused) = (sender.clone(), receiver.clone(), other.clone());
    runtime.run(move || {
        fiber::spawn(move || {
            select! {
                recv(kept) -> _ => {},
                recv(unused.1) -> _ => {},
                send(unused.0, 1) -> _ => {}
            }
        });
        // Enough fibers for the runtime to end before the woken one runs.
        for _ in 0..100 {
            fiber::spawn(|| {
                loop {
                    fiber::yield_now();
                }
            });
        }
        fiber::yield_now();
        given.send(7).unwrap();
    });
    drop(runtime);
    assert_eq!(receiver.try_recv(), Ok(7));
    assert!(sender.try_send(8).unwrap_err().is_full(), "nobody is on the queue");
    assert!(other.0.try_send(8).unwrap_err().is_full(), "nobody is on the queue");
    assert!(other.1.try_recv().unwrap_err().is_empty(), "nobody is on the queue");
}

const VALUES: u64 = 600;
const PRODUCERS: u64 = 3;

type Ends<'a> = [(&'a Sender<u64>, &'a Receiver<u64>); 3];

/// Sends each of its values once, in ways that alternate.
fn produce(seed: u64, [(a, _), (b, _), (c, _)]: Ends<'_>, values: std::ops::Range<u64>) {
    let mut random = Random::from_seed(seed);
    for value in values {
        let mut slot = Some(value);
        while slot.is_some() {
            let timeout = Duration::from_micros(random.below(30));
            match random.below(5) {
                0 => slot = a.send(value).err().map(SendError::into_inner),
                1 => slot = b.send_timeout(value, timeout).err().map(|error| error.into_inner()),
                2 => select! {
                    send(a, mut slot) -> result => result.unwrap(),
                    default => fiber::yield_now(),
                },
                3 => select! {
                    send(b, mut slot) -> result => result.unwrap(),
                    default(timeout) => {}
                },
                _ => {
                    let mut other = slot;
                    select! {
                        send(c, mut slot) -> result => result.unwrap(),
                        send(a, mut other) -> result => { result.unwrap(); slot = None; }
                    }
                }
            }
        }
    }
}

/// Receives in all ways until all senders are gone; the values of each producer must come once
/// each.
fn consume(seed: u64, [(_, a), (_, b), (_, c)]: Ends<'_>, taken: &[AtomicU64], left: &AtomicU64) {
    let mut random = Random::from_seed(seed);
    while left.load(Ordering::SeqCst) > 0 {
        let timeout = Duration::from_micros(random.below(50));
        let got = match random.below(5) {
            0 => a.recv_timeout(timeout).ok(),
            1 => c.try_recv().ok(),
            2 => select! {
                recv(a) -> value => value.ok(),
                recv(b) -> value => value.ok(),
                recv(c) -> value => value.ok(),
                default(timeout) => None,
            },
            3 => select! { recv(b) -> value => value.ok(), default => None },
            _ => select! {
                recv(c) -> value => value.ok(),
                recv(b) -> value => value.ok(),
                recv(channel::after(timeout)) -> _ => None,
            },
        };
        match got {
            Some(value) => {
                taken[value as usize].fetch_add(1, Ordering::SeqCst);
                left.fetch_sub(1, Ordering::SeqCst);
            }
            None => fiber::yield_now(),
        }
    }
}

fn stress(seed: u64, on: impl Fn(&(dyn Fn(u64) + Sync))) {
    for capacities in [[0, 0, 0], [1, 0, 5], [1, 64, 1]] {
        let [a, b, c] = capacities.map(channel::bounded);
        let ends = [(&a.0, &a.1), (&b.0, &b.1), (&c.0, &c.1)];
        let total = PRODUCERS * VALUES;
        let taken: Vec<_> = (0..total).map(|_| AtomicU64::new(0)).collect();
        let left = AtomicU64::new(total);
        on(&|role| match role.checked_sub(PRODUCERS) {
            None => produce(seed + role, ends, role * VALUES..(role + 1) * VALUES),
            Some(_) => consume(seed + role, ends, &taken, &left),
        });
        assert!(taken.iter().all(|taken| taken.load(Ordering::SeqCst) == 1), "{capacities:?}");
        assert!(a.0.is_empty() && b.0.is_empty() && c.0.is_empty());
    }
}

fn on_fibers(roles: std::ops::Range<u64>, body: &(dyn Fn(u64) + Sync)) {
    fiber::scope(|s| {
        for role in roles {
            s.spawn(move || body(role));
        }
    });
}

fn on_threads(roles: std::ops::Range<u64>, body: &(dyn Fn(u64) + Sync)) {
    std::thread::scope(|s| {
        for role in roles {
            s.spawn(move || body(role));
        }
    });
}

#[test]
fn no_value_is_lost_or_duplicated_among_fibers() {
    let seed = Random::new("no_value_is_lost_or_duplicated_among_fibers").below(1 << 40);
    for workers in [1, 2] {
        stress(seed, |body| with_workers(workers).run(|| on_fibers(0..6, body)));
    }
}

#[test]
fn no_value_is_lost_or_duplicated_among_threads() {
    let seed = Random::new("no_value_is_lost_or_duplicated_among_threads").below(1 << 40);
    stress(seed, |body| on_threads(0..6, body));
}

#[test]
fn no_value_is_lost_or_duplicated_among_runtimes_and_threads() {
    let seed = Random::new("nothing_is_lost_or_doubled_among_runtimes").below(1 << 40);
    stress(seed, |body| {
        std::thread::scope(|s| {
            s.spawn(|| with_workers(1).run(|| on_fibers(0..2, body)));
            s.spawn(|| with_workers(2).run(|| on_fibers(2..5, body)));
            s.spawn(|| on_threads(5..7, body));
        });
    });
}

/// A channel compared with a plain queue: operations that do not wait must have the same results.
#[test]
fn random_operations_match_a_model() {
    let mut random = Random::new("random_operations_match_a_model");
    for _ in 0..200 {
        let capacity = random.below(5) as usize;
        let (sender, receiver) = channel::bounded(capacity);
        let mut model = VecDeque::new();
        for value in 0..100 {
            if random.below(2) == 0 {
                let sent = match random.below(2) {
                    0 => sender.try_send(value).is_ok(),
                    _ => select! { send(sender, value) -> sent => sent.is_ok(), default => false },
                };
                assert_eq!(sent, model.len() < capacity);
                model.extend(sent.then_some(value));
            } else {
                let got = match random.below(2) {
                    0 => receiver.try_recv().ok(),
                    _ => select! { recv(receiver) -> got => got.ok(), default => None },
                };
                assert_eq!(got, model.pop_front());
            }
            assert_eq!((receiver.len(), sender.is_full()), (model.len(), model.len() == capacity));
        }
    }
}

#[test]
fn a_cancelled_select_takes_no_value_although_an_arm_is_ready() {
    everywhere(|| {
        let (sender, receiver) = channel::bounded(1);
        sender.send(5).unwrap();
        cancel::scope(|scope| {
            scope.cancel();
            let taken = select! { recv(receiver) -> value => value };
            assert_eq!(taken, Err(RecvError::Cancelled));
            let mut slot = None;
            let is_told = select! {
                send(sender, mut slot) -> _ => false,
                recv(receiver) -> value => value == Err(RecvError::Cancelled),
            };
            assert!(is_told, "an empty slot is never chosen");
            assert_eq!(channel::after(Duration::from_secs(60)).recv(), Err(RecvError::Cancelled));
            assert_eq!(channel::after(Duration::ZERO).recv(), Err(RecvError::Cancelled));
        });
        assert_eq!(receiver.try_recv(), Ok(5));
    });
}
