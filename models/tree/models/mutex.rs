//! The mutex: one strand at a time holds it, and no strand waits for a free lock.

use std::time::Duration;

use loom::thread;

use super::{Watched, check, check_within};
use crate::{core::primitive::Arc, sync::mutex::Mutex};

type Lock = Arc<Mutex<Watched>>;

fn new_lock() -> Lock {
    Arc::new(Mutex::new(Watched::default()))
}

fn add(lock: &Lock) {
    lock.lock().unwrap().add();
}

fn add_elsewhere(lock: &Lock, times: usize) -> thread::JoinHandle<()> {
    let lock = Arc::clone(lock);
    thread::spawn(move || (0..times).for_each(|_| add(&lock)))
}

pub(crate) fn one_at_a_time_holds_it() {
    check(|| {
        let lock = new_lock();
        let other = add_elsewhere(&lock, 1);
        add(&lock);
        other.join().unwrap();
        assert_eq!(lock.lock().unwrap().count(), 2);
    });
}

/// Two strands wait: the unlock that wakes one leaves a mark for the other.
pub(crate) fn no_waiter_is_forgotten() {
    check_within(2, || {
        let lock = new_lock();
        let others = [add_elsewhere(&lock, 1), add_elsewhere(&lock, 1)];
        add(&lock);
        others.into_iter().for_each(|other| other.join().unwrap());
        assert_eq!(lock.lock().unwrap().count(), 3);
    });
}

/// A waiter that was woken and finds the lock taken again asks for a direct hand-over.
pub(crate) fn a_loser_is_handed_the_lock() {
    check(|| {
        let lock = new_lock();
        let loser = add_elsewhere(&lock, 1);
        (0..3).for_each(|_| add(&lock));
        loser.join().unwrap();
        assert_eq!(lock.lock().unwrap().count(), 4);
    });
}

/// The race to fear: the lock is released to a waiter that has just timed out.
pub(crate) fn a_waiter_that_gives_up_keeps_nobody_out() {
    check_within(2, || {
        let lock = new_lock();
        let hasty = thread::spawn({
            let lock = Arc::clone(&lock);
            move || lock.lock_timeout(Duration::from_nanos(1)).map(|value| value.add()).is_ok()
        });
        let patient = add_elsewhere(&lock, 1);
        add(&lock);
        let added = 2 + u32::from(hasty.join().unwrap());
        patient.join().unwrap();
        assert_eq!(lock.lock().unwrap().count(), added);
    });
}
