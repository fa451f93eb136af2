//! The state after a cancelled wait: no value is lost, and nobody waits for a strand that has left.

use loom::thread;

use super::{Watched, cancel::spawn_inside, check_within, value};
use crate::{
    channel::bounded,
    core::{cancel, primitive::Arc},
    sync::{mutex::Mutex, oneshot, rwlock::RwLock, semaphore::Semaphore},
};

/// A value for a receiver that has just been cancelled goes to the next.
pub(crate) fn a_cancelled_receiver_takes_no_value() {
    check_within(2, || {
        let (sender, patient) = bounded(0);
        let other = patient.clone();
        let sending = thread::spawn(move || sender.send(value()).is_ok());
        let received = cancel::scope(|scope| {
            let hasty = spawn_inside(move || other.recv().is_ok());
            scope.cancel();
            hasty.join().unwrap()
        });
        assert!(received || patient.recv().is_ok());
        assert!(sending.join().unwrap());
    });
}

/// If a sender is cancelled, either it gets its value back or the value was received, never both.
pub(crate) fn a_cancelled_sender_keeps_its_value() {
    check_within(2, || {
        let (sender, receiver) = bounded(0);
        let receiving = thread::spawn(move || receiver.recv().is_ok());
        let sent = cancel::scope(|scope| {
            let sending = spawn_inside(move || sender.send(value()).is_ok());
            scope.cancel();
            sending.join().unwrap()
        });
        assert_eq!(sent, receiving.join().unwrap(), "sent if and only if received");
    });
}

pub(crate) fn a_cancelled_receiver_returns_a_sent_value() {
    check_within(2, || {
        let (sender, receiver) = oneshot::channel();
        let sending = thread::spawn(move || sender.send(value()).is_ok());
        let received = cancel::scope(|scope| {
            let receiving = spawn_inside(move || receiver.recv().is_ok());
            scope.cancel();
            receiving.join().unwrap()
        });
        assert_eq!(sending.join().unwrap(), received, "sent if and only if received");
    });
}

/// The lock is released to a waiter that has just been cancelled.
pub(crate) fn a_cancelled_waiter_for_a_lock_keeps_nobody_out() {
    check_within(2, || {
        let lock = Arc::new(Mutex::new(Watched::default()));
        let held = lock.lock().unwrap();
        let patient = thread::spawn({
            let lock = Arc::clone(&lock);
            move || lock.lock().unwrap().add()
        });
        cancel::scope(|scope| {
            let other = Arc::clone(&lock);
            let hasty = spawn_inside(move || drop(other.lock_or_cancelled()));
            scope.cancel();
            drop(held);
            hasty.join().unwrap();
        });
        patient.join().unwrap();
        assert_eq!(lock.lock().unwrap().count(), 1);
    });
}

/// A reader waits behind a writer, and both for a reader that stays.
pub(crate) fn a_cancelled_writer_keeps_no_reader_out() {
    check_within(2, || {
        let lock = Arc::new(RwLock::new(0));
        let held = lock.read().unwrap();
        let reading = thread::spawn({
            let lock = Arc::clone(&lock);
            move || *lock.read().unwrap()
        });
        cancel::scope(|scope| {
            let other = Arc::clone(&lock);
            let writing = spawn_inside(move || drop(other.write_or_cancelled()));
            scope.cancel();
            writing.join().unwrap();
        });
        reading.join().unwrap();
        drop(held);
    });
}

/// A strand that needs the one available permit waits behind a strand that needs two.
pub(crate) fn a_cancelled_waiter_for_many_lets_the_next_pass() {
    check_within(2, || {
        let semaphore = Arc::new(Semaphore::new(1));
        let modest = thread::spawn({
            let semaphore = Arc::clone(&semaphore);
            move || drop(semaphore.acquire().unwrap())
        });
        cancel::scope(|scope| {
            let other = Arc::clone(&semaphore);
            let greedy = spawn_inside(move || drop(other.acquire_many(2)));
            scope.cancel();
            greedy.join().unwrap();
        });
        modest.join().unwrap();
        assert_eq!(semaphore.available_permits(), 1);
    });
}

/// A cancelled select leaves the value in the channel.
pub(crate) fn a_cancelled_select_takes_nothing() {
    check_within(2, || {
        let (sender, receiver) = bounded(0);
        let other = receiver.clone();
        let sending = thread::spawn(move || sender.send(value()).is_ok());
        let received = cancel::scope(|scope| {
            let selecting = spawn_inside(move || crate::channel::select_receive(&other));
            scope.cancel();
            selecting.join().unwrap()
        });
        assert!(received || receiver.recv().is_ok());
        assert!(sending.join().unwrap());
    });
}
