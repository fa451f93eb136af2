//! Broadcast channels: each result, each end dropped, the values that a slow receiver misses, and
//! random operations compared with a model.

use std::{
    collections::VecDeque,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::common::{Counted, Random, everywhere, one_worker, panic_text, with_workers};
use ramie::{
    Runtime, fiber, no_switch,
    sync::broadcast::{
        self, Receiver, RecvError, RecvTimeoutError, SendError, Sender, TryRecvError,
    },
    time::ManualClock,
};

const MS: Duration = Duration::from_millis(1);

#[test]
fn each_receiver_sees_every_value_since_it_subscribed() {
    everywhere(|| {
        let (sender, mut first) = broadcast::channel(8);
        assert_eq!(sender.send('a'), Ok(1));
        let mut second = sender.subscribe();
        let mut third = first.resubscribe();
        assert_eq!(sender.clone().send('b'), Ok(3));
        assert_eq!((first.len(), second.len(), sender.len()), (2, 1, 2));
        assert_eq!((first.recv(), first.recv()), (Ok('a'), Ok('b')));
        assert_eq!((second.recv(), third.try_recv()), (Ok('b'), Ok('b')));
        for receiver in [&mut first, &mut second, &mut third] {
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
            assert_eq!(receiver.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
            assert!(receiver.is_empty() && !receiver.is_closed());
        }
        assert!(sender.is_empty());
        assert_eq!(sender.receiver_count(), 3);
        assert!(sender.same_channel(&sender.clone()) && first.same_channel(&third));
        assert!(!sender.same_channel(&Sender::new(1)));
    });
}

#[test]
fn a_slow_receiver_gets_the_number_of_missed_values() {
    everywhere(|| {
        let (sender, mut slow) = broadcast::channel(3);
        let mut quick = sender.subscribe();
        for n in 0..8 {
            sender.send(n).unwrap();
            assert_eq!(quick.recv(), Ok(n));
        }
        assert_eq!((slow.len(), sender.len()), (8, 3));
        assert_eq!(slow.recv(), Err(RecvError::Lagged(5)));
        assert_eq!((slow.len(), slow.recv()), (3, Ok(5)));
        // Two places are taken and one is free, so the second further value overwrites one.
        (8..11).for_each(|n| assert!(sender.send(n).is_ok()));
        assert_eq!(slow.try_recv(), Err(TryRecvError::Lagged(2)));
        (11..15).for_each(|n| assert!(sender.send(n).is_ok()));
        assert_eq!(slow.recv_timeout(MS), Err(RecvTimeoutError::Lagged(4)));
        drop(sender);
        assert_eq!([slow.recv(), slow.recv(), slow.recv()], [Ok(12), Ok(13), Ok(14)]);
        assert_eq!(slow.recv(), Err(RecvError::Closed));
        assert_eq!(quick.recv(), Err(RecvError::Lagged(4)));
    });
}

#[test]
fn values_outlive_the_senders_and_then_the_channel_is_closed() {
    everywhere(|| {
        let (sender, mut receiver) = broadcast::channel(2);
        let other = sender.clone();
        sender.send(1).unwrap();
        drop(sender);
        other.send(2).unwrap();
        assert!(!receiver.is_closed());
        drop(other);
        assert!(receiver.is_closed());
        assert_eq!((receiver.recv(), receiver.try_recv()), (Ok(1), Ok(2)));
        assert_eq!(receiver.recv(), Err(RecvError::Closed));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
        assert_eq!(receiver.recv_timeout(MS), Err(RecvTimeoutError::Closed));
        assert_eq!(receiver.resubscribe().recv(), Err(RecvError::Closed));
    });
}

#[test]
fn a_send_without_receivers_returns_the_value() {
    everywhere(|| {
        let (sender, receiver) = broadcast::channel(1);
        drop(receiver);
        assert_eq!(sender.send(1), Err(SendError(1)));
        let mut receiver = sender.subscribe();
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(sender.send(2), Ok(1));
        assert_eq!(receiver.recv(), Ok(2));
    });
}

#[test]
fn one_send_and_the_last_senders_end_wake_all() {
    everywhere(|| {
        let sender = Sender::new(4);
        let waiters: Vec<_> = (0..40)
            .map(|_| {
                let mut receiver = sender.subscribe();
                fiber::spawn(move || (receiver.recv(), receiver.recv()))
            })
            .collect();
        fiber::yield_now();
        sender.send(5).unwrap();
        fiber::yield_now();
        drop(sender);
        let seen = (Ok(5), Err(RecvError::Closed));
        waiters.into_iter().for_each(|waiter| assert_eq!(waiter.join().unwrap(), seen));
    });
}

#[test]
fn a_wait_ends_in_time_and_not_before() {
    let clock = ManualClock::new();
    Runtime::builder().workers(1).clock(clock.clone()).build().unwrap().run(|| {
        let (sender, mut receiver) = broadcast::channel(1);
        let mut second = sender.subscribe();
        let waits = fiber::spawn(move || receiver.recv_timeout(2 * MS));
        fiber::yield_now();
        clock.advance(MS);
        (0..100).for_each(|_| fiber::yield_now());
        assert!(!waits.is_finished());
        clock.advance(MS);
        assert_eq!(waits.join().unwrap(), Err(RecvTimeoutError::Timeout));
        let waits = fiber::spawn(move || second.recv_timeout(2 * MS));
        fiber::yield_now();
        sender.send(6).unwrap();
        assert_eq!(waits.join().unwrap(), Ok(6));
    });
}

/// Counts its clones and how many of them are alive.
struct Tracked<'a>(&'a AtomicUsize, &'a AtomicUsize);

impl Clone for Tracked<'_> {
    fn clone(&self) -> Self {
        // Uses the channel, which would block if its lock were held.
        fiber::yield_now();
        self.0.fetch_add(1, Ordering::SeqCst);
        self.1.fetch_add(1, Ordering::SeqCst);
        Tracked(self.0, self.1)
    }
}

impl Drop for Tracked<'_> {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn a_value_is_dropped_once_all_have_seen_it_and_the_last_gets_no_clone() {
    everywhere(|| {
        let (clones, alive) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let send = |sender: &Sender<_>| {
            alive.fetch_add(1, Ordering::SeqCst);
            sender.send(Tracked(&clones, &alive)).map_err(drop)
        };
        let (sender, mut first) = broadcast::channel(2);
        let mut second = sender.subscribe();
        send(&sender).unwrap();
        drop(first.recv());
        assert_eq!((clones.load(Ordering::SeqCst), alive.load(Ordering::SeqCst)), (1, 1));
        drop(second.recv());
        assert_eq!((clones.load(Ordering::SeqCst), alive.load(Ordering::SeqCst)), (1, 0));
        (0..3).for_each(|_| assert!(send(&sender).is_ok()));
        assert_eq!(alive.load(Ordering::SeqCst), 2);
        drop((first.recv().err(), first.recv()));
        drop(second);
        assert_eq!(alive.load(Ordering::SeqCst), 1);
        drop(first);
        assert_eq!(alive.load(Ordering::SeqCst), 0);
        assert!(send(&sender).is_err());
        let third = sender.subscribe();
        send(&sender).unwrap();
        drop(sender);
        drop(third);
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    });
}

/// A value whose destructor uses the channel that it was sent through.
struct Echo(Option<Arc<Sender<Arc<Echo>>>>);

impl Drop for Echo {
    fn drop(&mut self) {
        if let Some(sender) = &self.0 {
            let _ = sender.send(Arc::new(Echo(None)));
        }
    }
}

#[test]
fn destructors_run_outside_the_lock() {
    everywhere(|| {
        let sender = Arc::new(Sender::new(1));
        let mut receiver = sender.subscribe();
        let other = sender.subscribe();
        let echo = || Arc::new(Echo(Some(Arc::clone(&sender))));
        assert!(sender.send(echo()).is_ok() && sender.send(echo()).is_ok());
        // Each overwritten value has sent another one, which overwrote the next.
        assert!(matches!(receiver.recv(), Err(RecvError::Lagged(3))));
        drop(receiver);
        drop(other);
        assert_eq!(sender.receiver_count(), 0);
    });
}

#[test]
fn mistakes_are_reported_with_a_message() {
    assert!(panic_text(|| broadcast::channel::<u8>(0)).contains("pass at least 1"));
    let errors = [
        SendError(1).to_string(),
        RecvError::Lagged(2).to_string(),
        RecvTimeoutError::Timeout.to_string(),
        TryRecvError::Empty.to_string(),
        RecvError::Closed.to_string(),
    ];
    let expected = [
        "there is no receiver",
        "2 values were overwritten before they were received",
        "no value was sent in time",
        "no value has been sent yet",
        "all values were received and all senders are gone",
    ];
    assert_eq!(errors, expected);
    let (sender, receiver) = broadcast::channel::<u8>(1);
    assert_eq!(format!("{sender:?} {receiver:?}"), "Sender { len: 0, .. } Receiver { len: 0, .. }");
    one_worker().run(|| {
        let (sender, mut receiver) = broadcast::channel::<u8>(1);
        assert!(panic_text(|| no_switch(|| receiver.recv())).contains("inside no_switch"));
        sender.send(1).unwrap();
        assert_eq!(no_switch(|| receiver.recv()), Ok(1));
        let mut unwound = None;
        panic_text(|| {
            let _on_drop = OnDrop(|| unwound = Some(receiver.recv()));
            panic!("expected");
        });
        assert_eq!(unwound, Some(Err(RecvError::Closed)));
    });
}

/// Runs its closure when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The model of a channel and its receivers: all values ever sent, and the position of each
/// receiver.
#[derive(Default)]
struct Model {
    sent: Vec<u64>,
    receivers: VecDeque<(Receiver<u64>, usize)>,
}

impl Model {
    fn expect(&self, place: usize, capacity: usize, is_closed: bool) -> Result<u64, TryRecvError> {
        let oldest = self.sent.len().saturating_sub(capacity);
        match self.sent.get(place) {
            Some(_) if place < oldest => Err(TryRecvError::Lagged((oldest - place) as u64)),
            Some(value) => Ok(*value),
            None if is_closed => Err(TryRecvError::Closed),
            None => Err(TryRecvError::Empty),
        }
    }

    /// Lets the first receiver take a value, and moves this receiver to the end of the list.
    fn receive(&mut self, capacity: usize, is_closed: bool) {
        let Some((mut receiver, place)) = self.receivers.pop_front() else { return };
        let expected = self.expect(place, capacity, is_closed);
        assert_eq!(receiver.len(), self.sent.len() - place);
        assert_eq!(receiver.try_recv(), expected);
        let step = match expected {
            Ok(_) => 1,
            Err(TryRecvError::Lagged(missed)) => missed as usize,
            Err(_) => 0,
        };
        self.receivers.push_back((receiver, place + step));
    }

    fn len(&self, capacity: usize) -> usize {
        let unseen = |(_, place): &(_, usize)| self.sent.len() - place;
        self.receivers.iter().map(unseen).max().unwrap_or(0).min(capacity)
    }
}

#[test]
fn random_operations_match_a_model() {
    let mut random = Random::new("broadcast against its model");
    for capacity in [1, 2, 3, 7, 64] {
        let sender = Sender::new(capacity);
        let mut model = Model::default();
        for value in 0..3000 {
            match random.below(20) {
                0 => model.receivers.push_back((sender.subscribe(), model.sent.len())),
                1 => drop(model.receivers.pop_front()),
                2..10 => {
                    let count = model.receivers.len();
                    let expected = if count == 0 { Err(SendError(value)) } else { Ok(count) };
                    assert_eq!(sender.send(value), expected);
                    model.sent.extend(expected.is_ok().then_some(value));
                }
                _ => model.receive(capacity, false),
            }
            assert_eq!(sender.len(), model.len(capacity));
        }
        drop(sender);
        (0..3000).for_each(|_| model.receive(capacity, true));
    }
}

/// The role of one strand.
type Role<'a> = Box<dyn FnOnce() + Send + 'a>;

const SENDERS: u64 = 3;
const VALUES: u64 = 150;

/// Receives all values and checks their order: `seen` contains, for each position, the value that
/// the first receiver found there.
fn receive_all(seed: u64, mut receiver: Receiver<u64>, seen: &[OnceLock<u64>]) {
    let mut random = Random::from_seed(seed);
    let mut place = 0;
    loop {
        let received = match random.below(4) {
            0 => receiver.recv_timeout(Duration::from_micros(random.below(60))),
            1 => receiver.try_recv().map_err(|error| match error {
                TryRecvError::Empty => RecvTimeoutError::Timeout,
                TryRecvError::Closed => RecvTimeoutError::Closed,
                TryRecvError::Lagged(count) => RecvTimeoutError::Lagged(count),
            }),
            _ => receiver.recv().map_err(|error| match error {
                RecvError::Closed => RecvTimeoutError::Closed,
                RecvError::Lagged(count) => RecvTimeoutError::Lagged(count),
                RecvError::Cancelled => RecvTimeoutError::Cancelled,
            }),
        };
        match received {
            Ok(value) => {
                assert_eq!(*seen[place].get_or_init(|| value), value);
                place += 1;
            }
            Err(RecvTimeoutError::Lagged(missed)) => place += missed as usize,
            Err(RecvTimeoutError::Timeout) => fiber::yield_now(),
            Err(RecvTimeoutError::Closed | RecvTimeoutError::Cancelled) => break,
        }
    }
    assert_eq!(place, seen.len());
}

fn send_all(seed: u64, number: u64, sender: &Sender<u64>) {
    let mut random = Random::from_seed(seed);
    for n in 0..VALUES {
        sender.send(number * VALUES + n).unwrap();
        if random.below(3) == 0 {
            fiber::yield_now();
        }
    }
}

/// The values of each sender are in order, and no value comes twice.
fn check_order(seen: &[OnceLock<u64>]) {
    let values: Vec<_> = seen.iter().filter_map(|place| place.get().copied()).collect();
    for number in 0..SENDERS {
        let of_sender: Vec<_> = values.iter().filter(|value| **value / VALUES == number).collect();
        assert!(of_sender.is_sorted_by(|one, next| one < next));
    }
}

#[test]
fn receivers_see_one_order_and_miss_only_values_reported_as_missed() {
    let mut random = Random::new("broadcast order");
    let mut round = |capacity: usize, run: &dyn Fn(Vec<Role<'_>>)| {
        let seen: Vec<_> = (0..SENDERS * VALUES).map(|_| OnceLock::new()).collect();
        let sender = Sender::new(capacity);
        let mut roles: Vec<Role<'_>> = Vec::new();
        for _ in 0..4 {
            let (receiver, seed, seen) = (sender.subscribe(), random.below(u64::MAX), &seen);
            roles.push(Box::new(move || receive_all(seed, receiver, seen)));
        }
        for number in 0..SENDERS {
            let (sender, seed) = (sender.clone(), random.below(u64::MAX));
            roles.push(Box::new(move || send_all(seed, number, &sender)));
        }
        drop(sender);
        run(roles);
        check_order(&seen);
    };
    for capacity in [1, 5, 1000] {
        let on_fibers = |roles: Vec<Role<'_>>| {
            fiber::scope(|s| roles.into_iter().for_each(|role| drop(s.spawn(role))));
        };
        for workers in [1, 2] {
            round(capacity, &|roles| with_workers(workers).run(|| on_fibers(roles)));
        }
        round(capacity, &|mut roles| {
            std::thread::scope(|s| {
                let (third, second) = (roles.split_off(5), roles.split_off(2));
                s.spawn(move || one_worker().run(|| on_fibers(second)));
                s.spawn(move || with_workers(2).run(|| on_fibers(third)));
                roles.into_iter().for_each(|role| drop(s.spawn(role)));
            });
        });
    }
}

#[test]
fn values_that_were_not_received_are_dropped_once() {
    let drops = AtomicUsize::new(0);
    one_worker().run(|| {
        let (sender, mut receiver) = broadcast::channel(2);
        (0..5).for_each(|_| drop(sender.send(Arc::new(Counted(&drops)))));
        assert_eq!(drops.load(Ordering::SeqCst), 3);
        assert!(matches!(receiver.recv(), Err(RecvError::Lagged(3))));
        drop(receiver.recv());
        drop(receiver);
        drop(sender.send(Arc::new(Counted(&drops))));
    });
    assert_eq!(drops.into_inner(), 6);
}
