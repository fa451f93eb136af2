//! Oneshot channels: each state, each end dropped, timeouts that race with sends.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use crate::common::{Counted, Random, on_each, one_worker, with_workers};
use ramie::{
    fiber,
    sync::oneshot::{self, RecvError, RecvTimeoutError, TryRecvError},
};

#[test]
fn each_state_has_its_result() {
    let check = || {
        let (sender, receiver) = oneshot::channel();
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(receiver.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
        assert!(!sender.is_closed());
        assert_eq!(sender.send(1), Ok(()));
        assert_eq!(receiver.try_recv(), Ok(1));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
        assert_eq!(receiver.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Closed));
        assert_eq!(receiver.recv(), Err(RecvError::Closed));

        let (sender, receiver) = oneshot::channel();
        sender.send(2).unwrap();
        assert_eq!(receiver.recv(), Ok(2));

        let (sender, receiver) = oneshot::channel::<u8>();
        drop(sender);
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Closed));
        assert_eq!(receiver.recv(), Err(RecvError::Closed));

        let (sender, receiver) = oneshot::channel();
        drop(receiver);
        assert!(sender.is_closed());
        assert_eq!(sender.send(3), Err(3));
    };
    check();
    on_each(&[1], |runtime| runtime.run(check));
}

#[test]
fn a_receiver_waits_for_the_value_or_the_end() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let (sender, receiver) = oneshot::channel();
            let waits = fiber::spawn(move || receiver.recv());
            fiber::yield_now();
            sender.send([7; 100]).unwrap();
            assert_eq!(waits.join().unwrap(), Ok([7; 100]));

            let (sender, receiver) = oneshot::channel::<u8>();
            let waits = fiber::spawn(move || receiver.recv());
            fiber::yield_now();
            drop(sender);
            assert_eq!(waits.join().unwrap(), Err(RecvError::Closed));
        });
    });
}

#[test]
fn a_value_is_dropped_once_however_it_ends() {
    let drops = AtomicUsize::new(0);
    one_worker().run(|| {
        let (sender, receiver) = oneshot::channel();
        assert!(sender.send(Counted(&drops)).is_ok());
        drop(receiver);
        assert_eq!(drops.load(Ordering::SeqCst), 1);
        let (sender, receiver) = oneshot::channel();
        drop(receiver);
        drop(sender.send(Counted(&drops)));
        assert_eq!(drops.load(Ordering::SeqCst), 2);
        let (sender, receiver) = oneshot::channel();
        assert!(sender.send(Counted(&drops)).is_ok());
        drop(receiver.recv());
        assert_eq!(drops.load(Ordering::SeqCst), 3);
        drop(oneshot::channel::<Counted<'_>>());
        assert_eq!(drops.load(Ordering::SeqCst), 3);
    });
}

/// Either the value comes before the timeout, or a later receive gets it: it is never lost.
#[test]
fn timeouts_race_with_sends() {
    on_each(&[1, 2], |runtime| {
        let mut random = Random::new("timeouts_race_with_sends");
        runtime.run(|| {
            for round in 0..300 {
                let (sender, receiver) = oneshot::channel();
                let delay = Duration::from_micros(random.below(100));
                let sends = fiber::spawn(move || {
                    fiber::sleep(delay);
                    sender.send(round)
                });
                let value = receiver.recv_timeout(Duration::from_micros(random.below(150)));
                sends.join().unwrap().unwrap();
                match value {
                    Ok(value) => assert_eq!(value, round),
                    Err(error) => {
                        assert_eq!(error, RecvTimeoutError::Timeout);
                        assert_eq!(receiver.try_recv(), Ok(round));
                    }
                }
            }
        });
    });
}

#[test]
fn drops_race_with_sends() {
    let mut random = Random::new("drops_race_with_sends");
    let drops = AtomicUsize::new(0);
    for round in 1..=500 {
        let (sender, receiver) = oneshot::channel();
        let (left, right) = (random.below(200), random.below(200));
        std::thread::scope(|s| {
            s.spawn(|| {
                (0..left).for_each(|_| std::hint::spin_loop());
                drop(sender.send(Counted(&drops)));
            });
            (0..right).for_each(|_| std::hint::spin_loop());
            drop(receiver);
        });
        assert_eq!(drops.load(Ordering::SeqCst), round);
    }
}

#[test]
fn a_oneshot_works_between_threads_fibers_and_runtimes() {
    let (to_fiber, from_thread) = oneshot::channel();
    let (to_thread, from_fiber) = oneshot::channel();
    let other = std::thread::spawn(move || {
        with_workers(2).run(|| {
            let relays = fiber::spawn(move || to_thread.send(from_thread.recv().unwrap() + 1));
            relays.join().unwrap().unwrap();
        });
    });
    to_fiber.send(1).unwrap();
    assert_eq!(from_fiber.recv(), Ok(2));
    other.join().unwrap();
}

#[test]
fn the_errors_describe_their_causes() {
    assert!(RecvError::Closed.to_string().contains("without having sent"));
    assert!(TryRecvError::Empty.to_string().contains("yet"));
    assert!(TryRecvError::Closed.to_string().contains("none will come"));
    assert!(RecvTimeoutError::Timeout.to_string().contains("in time"));
    assert!(RecvTimeoutError::Closed.to_string().contains("none will come"));
    let (sender, receiver) = oneshot::channel::<u8>();
    assert_eq!(
        format!("{sender:?} {receiver:?}"),
        "Sender { is_closed: false, .. } Receiver { .. }"
    );
}
