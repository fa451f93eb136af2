//! Watch channels: the versions that receivers see, each end dropped, changes that race.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use crate::common::{Counted, Random, everywhere, one_worker};
use crate::common::{panic_text, with_workers};
use ramie::{
    Runtime, fiber, no_switch,
    sync::watch::{self, Receiver, RecvError, RecvTimeoutError, SendError, Sender},
    time::ManualClock,
};

const MS: Duration = Duration::from_millis(1);

#[test]
fn a_receiver_sees_the_latest_value_once() {
    everywhere(|| {
        let (sender, mut receiver) = watch::channel(0);
        assert_eq!(receiver.has_changed(), Ok(false));
        assert!(!receiver.borrow().has_changed());
        sender.send(1).unwrap();
        sender.clone().send(2).unwrap();
        assert_eq!((receiver.has_changed(), *receiver.borrow()), (Ok(true), 2));
        assert!(receiver.borrow().has_changed());
        assert_eq!(receiver.changed(), Ok(()));
        assert_eq!(receiver.has_changed(), Ok(false));
        assert_eq!(receiver.changed_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
        sender.send(3).unwrap();
        assert!(receiver.borrow_and_update().has_changed());
        assert!(!receiver.borrow_and_update().has_changed());
        let mut late = sender.subscribe();
        assert_eq!((late.has_changed(), *late.borrow(), *sender.borrow()), (Ok(false), 3, 3));
        assert!(!sender.borrow().has_changed());
        late.mark_changed();
        let mut clone = late.clone();
        assert_eq!((late.changed(), clone.has_changed()), (Ok(()), Ok(true)));
        clone.mark_unchanged();
        assert_eq!(clone.has_changed(), Ok(false));
        assert_eq!((sender.receiver_count(), sender.sender_count()), (3, 1));
        assert!(clone.same_channel(&late) && sender.same_channel(&sender.clone()));
        assert!(!sender.same_channel(&Sender::default()));
    });
}

#[test]
fn each_way_to_change_the_value() {
    everywhere(|| {
        let (sender, mut receiver) = watch::channel(vec![1]);
        sender.send_modify(|value| value.push(2));
        assert_eq!(*receiver.borrow_and_update(), [1, 2]);
        assert_eq!(sender.send_replace(vec![3]), [1, 2]);
        assert_eq!((receiver.changed(), &*receiver.borrow()), (Ok(()), &vec![3]));
        let push_if = |wanted: bool| {
            sender.send_if_modified(|value| {
                value.push(4);
                wanted
            })
        };
        assert!(!push_if(false));
        assert_eq!((receiver.has_changed(), receiver.borrow().len()), (Ok(false), 2));
        assert!(push_if(true));
        assert_eq!(*receiver.borrow_and_update(), [3, 4, 4]);
        let text = panic_text(|| {
            sender.send_modify(|value| {
                value.clear();
                panic!("half way");
            });
        });
        assert_eq!((text.as_str(), receiver.has_changed()), ("half way", Ok(false)));
        assert!(receiver.borrow().is_empty());
        drop(receiver);
        assert!(sender.is_closed());
        assert_eq!(sender.send(vec![5]), Err(SendError(vec![5])));
        sender.send_modify(|value| value.push(6));
        assert_eq!(*sender.subscribe().borrow(), [6]);
        assert!(sender.send(vec![7]).is_err());
        let _receiver = sender.subscribe();
        assert!(sender.send(vec![7]).is_ok());
    });
}

#[test]
fn the_last_value_outlives_the_senders() {
    everywhere(|| {
        let (sender, mut receiver) = watch::channel(0);
        let other = sender.clone();
        drop(sender);
        other.send(1).unwrap();
        drop(other);
        assert_eq!(receiver.has_changed(), Err(RecvError::Closed));
        assert_eq!(receiver.changed(), Ok(()));
        assert_eq!(receiver.changed(), Err(RecvError::Closed));
        assert_eq!(receiver.changed_timeout(MS), Err(RecvTimeoutError::Closed));
        assert_eq!(*receiver.borrow(), 1);
        assert_eq!(*receiver.wait_for(|value| *value == 1).unwrap(), 1);
        assert!(receiver.wait_for(|value| *value == 2).is_err());
        let error = receiver.wait_for_timeout(MS, |value| *value == 2).err();
        assert_eq!(error, Some(RecvTimeoutError::Closed));
    });
}

#[test]
fn waiting_for_a_value() {
    everywhere(|| {
        let (sender, mut receiver) = watch::channel(0);
        assert_eq!(*receiver.wait_for(|value| *value == 0).unwrap(), 0);
        let error = receiver.wait_for_timeout(MS, |value| *value == 3).err();
        assert_eq!(error, Some(RecvTimeoutError::Timeout));
        let waits = fiber::spawn(move || {
            let value = receiver.wait_for(|value| *value > 3).unwrap();
            (*value, value.has_changed())
        });
        for value in 1..=5 {
            sender.send_replace(value);
            fiber::yield_now();
        }
        let (value, is_new) = waits.join().unwrap();
        assert!((value == 4 || value == 5) && is_new);
    });
}

#[test]
fn a_change_and_the_last_senders_end_wake_all() {
    everywhere(|| {
        let sender = Sender::new(0);
        let waiters: Vec<_> = (0..40)
            .map(|_| {
                let mut receiver = sender.subscribe();
                fiber::spawn(move || {
                    let changed = receiver.changed().map(|()| *receiver.borrow());
                    (changed, receiver.changed())
                })
            })
            .collect();
        fiber::yield_now();
        sender.send(5).unwrap();
        fiber::yield_now();
        drop(sender);
        for waiter in waiters {
            assert_eq!(waiter.join().unwrap(), (Ok(5), Err(RecvError::Closed)));
        }
    });
}

#[test]
fn a_sender_waits_for_the_last_receivers_end() {
    everywhere(|| {
        let (sender, receiver) = watch::channel(0);
        assert!(!sender.closed_timeout(MS).unwrap());
        let other = receiver.clone();
        fiber::scope(|s| {
            let waiters: Vec<_> = (0..20).map(|_| s.spawn(|| sender.closed())).collect();
            drop(receiver);
            fiber::yield_now();
            assert!(!waiters[0].is_finished());
            drop(other);
        });
        sender.closed().unwrap();
        assert!(sender.closed_timeout(Duration::ZERO).unwrap());
    });
}

#[test]
fn a_wait_ends_in_time_and_not_before() {
    let clock = ManualClock::new();
    Runtime::builder().workers(1).clock(clock.clone()).build().unwrap().run(|| {
        let (sender, mut receiver) = watch::channel(1);
        let waits = fiber::spawn(move || {
            let error = receiver.wait_for_timeout(2 * MS, |value| *value == 0).err();
            (error, receiver.changed_timeout(2 * MS))
        });
        fiber::yield_now();
        clock.advance(MS);
        sender.send(2).unwrap();
        (0..100).for_each(|_| fiber::yield_now());
        clock.advance(MS);
        (0..100).for_each(|_| fiber::yield_now());
        sender.send(3).unwrap();
        assert_eq!(waits.join().unwrap(), (Some(RecvTimeoutError::Timeout), Ok(())));
    });
}

/// A borrow may be held across calls that suspend; a sender that changes the value parks.
#[test]
fn a_borrow_keeps_senders_waiting() {
    one_worker().run(|| {
        let (sender, receiver) = watch::channel(1);
        let changes = fiber::spawn(move || {
            fiber::yield_now();
            sender.send(2)
        });
        let value = receiver.borrow();
        (0..10).for_each(|_| fiber::yield_now());
        assert!(*value == 1 && !changes.is_finished());
        drop(value);
        assert_eq!(changes.join().unwrap(), Ok(()));
        assert_eq!(*receiver.borrow(), 2);
    });
}

/// Runs its closure when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn while_unwinding(f: impl FnMut()) {
    panic_text(|| {
        let _on_drop = OnDrop(f);
        panic!("expected");
    });
}

#[test]
fn calls_that_would_wait_where_a_strand_must_not_wait() {
    one_worker().run(|| {
        let (sender, mut receiver) = watch::channel(0);
        let sentence = "inside no_switch";
        assert!(panic_text(|| no_switch(|| receiver.changed())).contains(sentence));
        assert!(panic_text(|| no_switch(|| sender.closed())).contains(sentence));
        sender.send(1).unwrap();
        assert_eq!(no_switch(|| receiver.changed()), Ok(()));
        let mut seen = Vec::new();
        while_unwinding(|| {
            seen.push(receiver.changed());
            sender.send(2).unwrap();
            seen.push(receiver.changed());
        });
        assert_eq!(seen, [Err(RecvError::Closed), Ok(())]);
    });
}

#[test]
fn waiting_for_the_receivers_end_while_unwinding_is_an_error() {
    one_worker().run(|| {
        let (sender, _receiver) = watch::channel(0);
        let sentence = "cancelled: the strand unwinds from a panic";
        while_unwinding(|| assert_eq!(sender.closed().unwrap_err().to_string(), sentence));
    });
}

#[test]
fn debug_output_and_the_texts_of_errors() {
    let (sender, receiver) = watch::channel(7);
    assert!(format!("{sender:?}").starts_with("Sender { value: RwLock { data: 7"));
    assert!(format!("{receiver:?}").starts_with("Receiver { value: RwLock { data: 7"));
    assert_eq!(format!("{0:?} {0}", receiver.borrow()), "7 7");
    let closed = "the value will not change any more: all senders are gone";
    assert_eq!(RecvError::Closed.to_string(), closed);
    assert_eq!(RecvTimeoutError::Closed.to_string(), closed);
    assert_eq!(RecvTimeoutError::Timeout.to_string(), "the value did not change in time");
    assert_eq!(SendError(1).to_string(), "there is no receiver");
    assert_eq!(format!("{:?}", SendError(1)), "SendError(..)");
}

#[test]
fn each_value_is_dropped_once_and_outside_the_lock() {
    let drops = AtomicUsize::new(0);
    everywhere(|| {
        drops.store(0, Ordering::SeqCst);
        let (sender, receiver) = watch::channel(Counted(&drops));
        (0..3).for_each(|_| drop(sender.send(Counted(&drops))));
        assert_eq!(drops.load(Ordering::SeqCst), 3);
        drop(receiver);
        drop(sender.send(Counted(&drops)));
        drop(sender);
        assert_eq!(drops.load(Ordering::SeqCst), 5);
    });
}

/// The model of a channel: the value, the number of its changes, and the version that each receiver
/// has seen.
#[derive(Default)]
struct Model {
    value: u64,
    version: u64,
    receivers: Vec<(Receiver<u64>, Option<u64>)>,
}

impl Model {
    /// Makes one call of a receiver and checks its result.
    fn ask(&mut self, call: u64, number: usize, senders: usize) {
        let Some((receiver, seen)) = self.receivers.get_mut(number) else { return };
        let is_new = *seen != Some(self.version);
        let gone = senders == 0;
        match call {
            0 => assert_eq!(
                receiver.has_changed(),
                if gone { Err(RecvError::Closed) } else { Ok(is_new) }
            ),
            1 => {
                let expected = match (is_new, gone) {
                    (true, _) => Ok(()),
                    (false, true) => Err(RecvTimeoutError::Closed),
                    (false, false) => Err(RecvTimeoutError::Timeout),
                };
                assert_eq!(receiver.changed_timeout(Duration::ZERO), expected);
                *seen = Some(self.version);
            }
            2 => {
                let value = receiver.borrow_and_update();
                assert_eq!((*value, value.has_changed()), (self.value, is_new));
                *seen = Some(self.version);
            }
            3 => {
                let value = receiver.borrow();
                assert_eq!((*value, value.has_changed()), (self.value, is_new));
            }
            4 => {
                receiver.mark_changed();
                *seen = None;
            }
            _ => {
                receiver.mark_unchanged();
                *seen = Some(self.version);
            }
        }
    }
}

#[test]
fn random_operations_match_a_model() {
    let mut random = Random::new("watch against its model");
    let mut senders = vec![Sender::new(0)];
    let mut model = Model::default();
    for value in 1..20_000 {
        let number = random.below(1 + model.receivers.len() as u64) as usize;
        let sender = senders.first();
        match (random.below(16), sender) {
            (0, Some(sender)) => {
                model.receivers.push((sender.subscribe(), Some(model.version)));
            }
            (1, _) if number < model.receivers.len() => drop(model.receivers.swap_remove(number)),
            (2, _) if number < model.receivers.len() => {
                let (receiver, seen) = &model.receivers[number];
                model.receivers.push((receiver.clone(), *seen));
            }
            (3, Some(sender)) => senders.push(sender.clone()),
            (4, Some(_)) if senders.len() > 1 || value > 19_000 => drop(senders.pop()),
            (5..8, Some(sender)) => {
                let is_sent = sender.send(value).is_ok();
                assert_eq!(is_sent, !model.receivers.is_empty());
                if is_sent {
                    (model.value, model.version) = (value, model.version + 1);
                }
            }
            (call, _) => model.ask(call % 6, number, senders.len()),
        }
        if model.receivers.len() > 8 {
            model.receivers.truncate(2);
        }
    }
}

const CHANGES: u64 = 400;

/// Two senders increment a count together; receivers see it rise to its end.
fn watch_a_count(seed: u64, n: u64, sender: Option<Sender<u64>>, mut receiver: Receiver<u64>) {
    let mut random = Random::from_seed(seed.wrapping_add(n));
    if let Some(sender) = sender {
        drop(receiver);
        for _ in 0..CHANGES {
            sender.send_modify(|count| *count += 1);
            if random.below(4) == 0 {
                fiber::yield_now();
            }
        }
        return;
    }
    let mut last = 0;
    loop {
        let is_open = match random.below(3) {
            0 => receiver.changed_timeout(Duration::from_micros(random.below(50))),
            1 => {
                let wanted = (last + random.below(20)).min(2 * CHANGES);
                let reached = receiver.wait_for(|count| *count >= wanted);
                assert!(*reached.expect("it comes to that") >= wanted);
                Ok(())
            }
            _ => receiver.changed().map_err(|_| RecvTimeoutError::Closed),
        };
        let count = *receiver.borrow_and_update();
        assert!(count >= last);
        last = count;
        if is_open == Err(RecvTimeoutError::Closed) {
            break;
        }
    }
    assert_eq!(last, 2 * CHANGES);
}

#[test]
fn no_change_is_missed_in_the_end() {
    let seed = Random::new("watch").below(u64::MAX);
    let strands = || {
        let sender = Sender::new(0);
        let with_sender = |n| (n, (n < 2).then(|| sender.clone()), sender.subscribe());
        (0..6).map(with_sender).collect::<Vec<_>>()
    };
    let spawn = |strands: Vec<(u64, Option<Sender<u64>>, Receiver<u64>)>| {
        fiber::scope(|s| {
            for (n, sender, receiver) in strands {
                s.spawn(move || watch_a_count(seed, n, sender, receiver));
            }
        });
    };
    everywhere(|| spawn(strands()));
    let mut mixed = strands();
    std::thread::scope(|s| {
        let (second, third) = (mixed.split_off(4), mixed.split_off(1));
        s.spawn(move || one_worker().run(|| spawn(second)));
        s.spawn(move || with_workers(2).run(|| spawn(third)));
        spawn(mixed);
    });
}
