//! Channels: the result of each operation for each capacity, dropped ends, timeouts, errors.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use crate::common::{Counted, everywhere, on_each, one_worker, with_workers};
use ramie::{
    channel::{
        self, RecvError, RecvTimeoutError, SendError, SendTimeoutError, TryRecvError, TrySendError,
    },
    fiber,
    time::{Instant, ManualClock},
};

const LONG: Duration = Duration::from_secs(30);

#[test]
fn a_bounded_channel_is_first_in_first_out_up_to_its_capacity() {
    everywhere(|| {
        let (sender, receiver) = channel::bounded(2);
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(receiver.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
        assert!(sender.is_empty() && receiver.is_empty());
        assert_eq!(sender.send(1), Ok(()));
        assert!(!sender.is_full() && !receiver.is_empty());
        assert_eq!(sender.try_send(2), Ok(()));
        assert_eq!(sender.try_send(3), Err(TrySendError::Full(3)));
        assert_eq!(sender.send_timeout(4, Duration::ZERO), Err(SendTimeoutError::Timeout(4)));
        assert_eq!(sender.send_deadline(5, Instant::now()), Err(SendTimeoutError::Timeout(5)));
        assert!(sender.is_full() && receiver.is_full());
        assert_eq!((sender.len(), receiver.len()), (2, 2));
        assert_eq!((sender.capacity(), receiver.capacity()), (Some(2), Some(2)));
        assert_eq!(receiver.recv(), Ok(1));
        assert_eq!(receiver.recv_timeout(LONG), Ok(2));
        assert_eq!(receiver.recv_deadline(Instant::now()), Err(RecvTimeoutError::Timeout));
    });
}

#[test]
fn an_unbounded_channel_takes_all() {
    everywhere(|| {
        let (sender, receiver) = channel::unbounded();
        assert_eq!((sender.capacity(), receiver.capacity()), (None, None));
        (0..10_000).for_each(|value| sender.try_send(value).unwrap());
        assert!(!sender.is_full());
        assert_eq!(sender.len(), 10_000);
        assert!(receiver.try_iter().eq(0..10_000));
        assert!(sender.is_empty());
    });
}

#[test]
fn a_rendezvous_needs_both_ends() {
    everywhere(|| {
        let (sender, receiver) = channel::bounded(0);
        assert!(sender.is_empty() && sender.is_full());
        assert_eq!(sender.capacity(), Some(0));
        assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        let sends = fiber::spawn(move || (0..3).map(|value| sender.send(value)).all(|r| r.is_ok()));
        assert!(receiver.iter().eq(0..3));
        assert!(sends.join().unwrap());
        assert_eq!(receiver.recv(), Err(RecvError::Disconnected));
    });
}

#[test]
fn a_waiting_peer_makes_try_work_on_a_rendezvous() {
    one_worker().run(|| {
        let (sender, receiver) = channel::bounded(0);
        let (other_sender, other_receiver) = (sender.clone(), receiver.clone());
        let receives = fiber::spawn(move || other_receiver.recv());
        fiber::yield_now();
        assert_eq!(sender.try_send(1), Ok(()));
        assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)));
        assert_eq!(receives.join().unwrap(), Ok(1));
        let sends = fiber::spawn(move || other_sender.send(3));
        fiber::yield_now();
        assert_eq!(receiver.try_recv(), Ok(3));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(sends.join().unwrap(), Ok(()));
    });
}

#[test]
fn values_outlive_the_senders() {
    everywhere(|| {
        for (sender, receiver) in [channel::bounded(3), channel::unbounded()] {
            let other = sender.clone();
            sender.send(1).unwrap();
            drop(sender);
            other.send(2).unwrap();
            drop(other);
            assert_eq!(receiver.try_recv(), Ok(1));
            assert_eq!(receiver.recv(), Ok(2));
            assert_eq!(receiver.recv(), Err(RecvError::Disconnected));
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
            assert_eq!(receiver.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
            assert_eq!(receiver.into_iter().next(), None);
        }
    });
}

#[test]
fn values_come_back_when_the_receivers_are_gone() {
    everywhere(|| {
        for (sender, receiver) in [channel::bounded(0), channel::bounded(3), channel::unbounded()] {
            let other = receiver.clone();
            drop(receiver);
            assert!(!matches!(sender.try_send(0), Err(TrySendError::Disconnected(_))));
            drop(other);
            assert_eq!(sender.send(1), Err(SendError::Disconnected(1)));
            assert_eq!(sender.try_send(2), Err(TrySendError::Disconnected(2)));
            assert_eq!(sender.send_timeout(3, LONG), Err(SendTimeoutError::Disconnected(3)));
            assert_eq!(sender.len(), 0);
        }
    });
}

#[test]
fn the_last_handle_wakes_all_waiters() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            for capacity in [0, 1] {
                let (sender, receiver) = channel::bounded::<u8>(capacity);
                let waits = (0..3).map(|_| {
                    let receiver = receiver.clone();
                    fiber::spawn(move || receiver.recv())
                });
                let waits: Vec<_> = waits.collect();
                fiber::yield_now();
                drop(sender);
                assert!(
                    waits
                        .into_iter()
                        .all(|fiber| fiber.join().unwrap() == Err(RecvError::Disconnected))
                );

                let (sender, receiver) = channel::bounded(capacity);
                (0..capacity).for_each(|_| sender.send(0).unwrap());
                let waits = (1..4).map(|value| {
                    let sender = sender.clone();
                    fiber::spawn(move || sender.send(value).map_err(SendError::into_inner))
                });
                let waits: Vec<_> = waits.collect();
                fiber::yield_now();
                drop(receiver);
                for (fiber, value) in waits.into_iter().zip(1..4) {
                    assert_eq!(fiber.join().unwrap(), Err(value));
                }
            }
        });
    });
}

#[test]
fn each_value_is_dropped_once() {
    let drops = AtomicUsize::new(0);
    one_worker().run(|| {
        let (sender, receiver) = channel::unbounded();
        (0..5).for_each(|_| assert!(sender.send(Counted(&drops)).is_ok()));
        drop(receiver.recv());
        drop(receiver);
        assert_eq!(drops.load(Ordering::SeqCst), 5);
        drop(sender.send(Counted(&drops)));
        assert_eq!(drops.load(Ordering::SeqCst), 6);
        let (sender, receiver) = channel::bounded(5);
        (0..5).for_each(|_| assert!(sender.send(Counted(&drops)).is_ok()));
        drop(sender);
        assert_eq!(drops.load(Ordering::SeqCst), 6);
        drop(receiver);
        assert_eq!(drops.load(Ordering::SeqCst), 11);
    });
}

/// The destructors of the values in the queue use the channel itself.
#[test]
fn values_are_dropped_outside_the_lock() {
    struct Nosy(channel::Sender<Option<Nosy>>);
    impl Drop for Nosy {
        fn drop(&mut self) {
            assert!(self.0.send(None).is_err());
        }
    }
    let (sender, receiver) = channel::unbounded();
    sender.send(Some(Nosy(sender.clone()))).unwrap();
    drop(receiver);
}

#[test]
fn senders_and_receivers_are_served_in_order() {
    one_worker().run(|| {
        let (sender, receiver) = channel::bounded(1);
        let sends = |value| {
            let sender = sender.clone();
            fiber::spawn(move || sender.send(value).unwrap())
        };
        let fibers: Vec<_> = (0..5).map(sends).collect();
        fiber::yield_now();
        assert!((0..5).all(|value| receiver.recv() == Ok(value)));
        fibers.into_iter().for_each(|fiber| fiber.join().unwrap());
        let receives = |_| {
            let receiver = receiver.clone();
            fiber::spawn(move || receiver.recv().unwrap())
        };
        let fibers: Vec<_> = (0..5).map(receives).collect();
        fiber::yield_now();
        (0..5).for_each(|value| sender.send(value).unwrap());
        let got: Vec<_> = fibers.into_iter().map(|fiber| fiber.join().unwrap()).collect();
        assert_eq!(got, [0, 1, 2, 3, 4]);
    });
}

#[test]
fn a_channel_works_between_threads_fibers_and_runtimes() {
    for capacity in [0, 1, 64] {
        let (to_fibers, from_thread) = channel::bounded(capacity);
        let (to_thread, from_fibers) = channel::bounded(capacity);
        let runtimes = [1, 2].map(|workers| {
            let (input, output) = (from_thread.clone(), to_thread.clone());
            std::thread::spawn(move || {
                with_workers(workers).run(|| {
                    let relay = || input.iter().try_for_each(|value: u64| output.send(value));
                    fiber::scope(|s| (0..4).for_each(|_| drop(s.spawn(relay))));
                });
            })
        });
        drop((from_thread, to_thread));
        let sends = std::thread::spawn(move || (0..1000).for_each(|v| to_fibers.send(v).unwrap()));
        let mut got: Vec<_> = from_fibers.iter().collect();
        got.sort_unstable();
        assert!(got.into_iter().eq(0..1000), "capacity {capacity}");
        sends.join().unwrap();
        runtimes.into_iter().for_each(|thread| thread.join().unwrap());
    }
}

#[test]
fn waits_end_in_time_and_not_before() {
    let clock = ManualClock::new();
    let runtime = ramie::Runtime::builder().workers(1).clock(clock.clone()).build().unwrap();
    runtime.run(|| {
        let (sender, receiver) = channel::bounded(0);
        let receives = fiber::spawn({
            let receiver = receiver.clone();
            move || receiver.recv_timeout(Duration::from_secs(5))
        });
        let sends = fiber::spawn({
            let (sender, deadline) = (sender.clone(), Instant::now() + Duration::from_secs(7));
            move || {
                fiber::sleep(Duration::from_secs(6));
                sender.send_deadline(1, deadline)
            }
        });
        fiber::yield_now();
        clock.advance(Duration::from_millis(4999));
        fiber::yield_now();
        assert!(!receives.is_finished());
        clock.advance(Duration::from_millis(1));
        assert_eq!(receives.join().unwrap(), Err(RecvTimeoutError::Timeout));
        clock.advance(Duration::from_secs(1));
        fiber::yield_now();
        assert!(!sends.is_finished());
        clock.advance(Duration::from_secs(1));
        assert_eq!(sends.join().unwrap(), Err(SendTimeoutError::Timeout(1)));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty), "it left the queue");
        assert_eq!(sender.try_send(2), Err(TrySendError::Full(2)), "it left the queue");
    });
}

#[test]
fn receivers_of_the_clock_get_their_values_in_time() {
    let clock = ManualClock::new();
    let runtime = ramie::Runtime::builder().workers(1).clock(clock.clone()).build().unwrap();
    runtime.run(|| {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let (after, at) = (channel::after(second), channel::at(start + 2 * second));
        assert_eq!(after.try_recv(), Err(TryRecvError::Empty));
        assert_eq!((after.len(), after.capacity(), after.is_full()), (0, Some(1), false));
        let waits = fiber::spawn({
            let after = after.clone();
            move || after.recv()
        });
        fiber::yield_now();
        clock.advance(2 * second);
        assert_eq!(waits.join().unwrap(), Ok(start + second));
        assert_eq!(after.try_recv(), Err(TryRecvError::Empty), "one moment, once");
        assert_eq!(after.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
        assert_eq!(at.len(), 1);
        assert_eq!(at.recv(), Ok(start + 2 * second));

        let tick = channel::tick(second);
        clock.advance(second);
        assert_eq!(tick.recv(), Ok(start + 3 * second));
        assert!(tick.is_empty());
        clock.advance(5 * second);
        assert_eq!(tick.recv(), Ok(start + 4 * second));
        assert_eq!(tick.try_recv(), Err(TryRecvError::Empty), "missed ticks are not made up for");
        clock.advance(second);
        assert_eq!(tick.recv(), Ok(start + 9 * second));

        let never = channel::never::<u8>();
        assert_eq!(never.try_recv(), Err(TryRecvError::Empty));
        assert_eq!((never.len(), never.capacity()), (0, Some(0)));
        assert_eq!(never.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
        assert!(after.same_channel(&after.clone()) && !after.same_channel(&at));
        assert!(never.same_channel(&channel::never()));
    });
}

#[test]
fn a_destructor_that_runs_during_a_panic_does_not_wait() {
    struct Waits(channel::Sender<u8>, channel::Receiver<u8>);
    impl Drop for Waits {
        fn drop(&mut self) {
            assert_eq!(self.1.recv(), Err(RecvError::Disconnected));
            assert_eq!(self.0.send(1), Err(SendError::Disconnected(1)));
        }
    }
    one_worker().run(|| {
        let (sender, receiver) = channel::bounded(0);
        let panics = fiber::spawn(move || {
            let _waits = Waits(sender, receiver);
            panic!("on purpose");
        });
        assert!(panics.join().is_err());
    });
}

#[test]
fn the_errors_describe_their_causes() {
    assert_eq!(SendError::Disconnected(1).to_string(), "sending on a disconnected channel");
    assert_eq!(format!("{:?}", SendError::Disconnected(1)), "Disconnected(..)");
    assert_eq!(TrySendError::Full(1).to_string(), "sending on a full channel");
    assert_eq!(format!("{:?}", TrySendError::Disconnected(1)), "Disconnected(..)");
    assert_eq!(SendTimeoutError::Timeout(1).to_string(), "timed out waiting on send operation");
    assert_eq!(
        RecvError::Disconnected.to_string(),
        "receiving on an empty and disconnected channel"
    );
    assert_eq!(TryRecvError::Empty.to_string(), "receiving on an empty channel");
    for error in [RecvError::Disconnected, RecvError::Cancelled] {
        assert_eq!(RecvTimeoutError::from(error).to_string(), error.to_string());
    }
    assert!(SendTimeoutError::from(SendError::Disconnected(1)).is_disconnected());
    let cancelled = SendTimeoutError::from(SendError::Cancelled(1));
    assert!(cancelled.is_cancelled());
    assert_eq!(
        (cancelled.to_string(), cancelled.into_inner()),
        ("sending was cancelled".into(), 1)
    );
    let (sender, receiver) = channel::unbounded::<u8>();
    assert_eq!(format!("{sender:?} {receiver:?}"), "Sender { .. } Receiver { .. }");
    assert!(sender.same_channel(&sender.clone()) && receiver.same_channel(&receiver.clone()));
    assert!(!receiver.same_channel(&channel::unbounded().1));
}
