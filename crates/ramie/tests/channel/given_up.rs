//! Values of receivers that are abandoned after they were woken and before they run.

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

/// Runs a receiver that is handed a value and abandoned before it runs again; calls `then` in
/// between.
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
        // More switches than between two checks of the grace period.
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
fn the_value_of_an_abandoned_receiver_comes_before_later_values() {
    let (sender, receiver) = channel::bounded(4);
    give_up_a_receiver(&sender, &receiver, 1, || assert!(sender.try_send(2).is_ok()));
    assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(1), Ok(2)));
}

#[test]
fn the_value_of_an_abandoned_receiver_goes_to_the_next_one() {
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
