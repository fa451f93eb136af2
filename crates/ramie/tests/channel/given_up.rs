//! Values of receivers that are given up between their wake-up and their turn.

use std::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::Duration,
};

use crate::common::{self, wait_until};
use ramie::{
    Runtime,
    channel::{self, Receiver, Sender},
    fiber,
};

/// Runs a receiver that is handed a value and given up before its turn comes; `then` runs between.
fn give_up_a_receiver<T: Send + 'static>(
    sender: &Sender<T>,
    receiver: &Receiver<T>,
    value: T,
    then: impl FnOnce(),
) {
    let runtime = Runtime::builder().workers(1).grace(Duration::ZERO);
    let runtime = runtime.on_abandoned(|_| ()).build().unwrap();
    let theirs = receiver.clone();
    runtime.run(|| {
        let received = fiber::spawn_local(move || drop(theirs.recv()));
        fiber::yield_now();
        // More than the switches between two looks at the grace period.
        for _ in 0..100 {
            drop(fiber::spawn_local(|| {
                loop {
                    fiber::yield_now();
                }
            }));
        }
        fiber::yield_now();
        assert!(sender.try_send(value).is_ok());
        then();
        drop(received);
    });
}

#[test]
fn a_value_comes_back_before_later_values() {
    let (sender, receiver) = channel::bounded(4);
    give_up_a_receiver(&sender, &receiver, 1, || assert!(sender.try_send(2).is_ok()));
    assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(1), Ok(2)));
}

#[test]
fn a_value_goes_to_the_receiver_that_waits_behind() {
    static WAITS: AtomicBool = AtomicBool::new(false);
    let (sender, receiver) = channel::bounded(4);
    let theirs = receiver.clone();
    let mut behind = None;
    give_up_a_receiver(&sender, &receiver, 1, || {
        behind = Some(std::thread::spawn(move || {
            common::one_worker().run(|| {
                let waits = fiber::spawn_local(move || theirs.recv());
                fiber::yield_now();
                WAITS.store(true, SeqCst);
                waits.join().unwrap()
            })
        }));
        while !WAITS.load(SeqCst) {
            std::thread::yield_now();
        }
    });
    let behind = behind.unwrap();
    wait_until(|| behind.is_finished());
    assert_eq!(behind.join().unwrap(), Ok(1));
}
