//! The semaphore: nobody overtakes a strand that wants many permits, and a strand that gives up
//! delays nobody.

use std::time::Duration;

use loom::thread;

use super::{Watched, check, check_within};
use crate::{core::primitive::Arc, sync::semaphore::Semaphore};

pub(crate) fn a_permit_passes_on_what_was_done_under_it() {
    check_within(2, || {
        let (semaphore, watched) = (Arc::new(Semaphore::new(1)), Watched::new());
        let others = [(); 2].map(|()| {
            let (semaphore, watched) = (Arc::clone(&semaphore), Arc::clone(&watched));
            thread::spawn(move || {
                let _permit = semaphore.acquire().unwrap();
                watched.add();
            })
        });
        others.into_iter().for_each(|other| other.join().unwrap());
        // No strand waits, so the permit is available.
        drop(semaphore.acquire().unwrap());
        assert_eq!((watched.count(), semaphore.available_permits()), (2, 1));
    });
}

/// A strand that wants one permit waits behind one that wants two. It gets the one permit, perhaps
/// from another strand than the one that released it.
pub(crate) fn a_waiter_that_gives_up_lets_the_next_pass() {
    check_within(2, || {
        let (semaphore, watched) = (Arc::new(Semaphore::new(1)), Watched::new());
        let permit = semaphore.acquire().unwrap();
        let hasty = thread::spawn({
            let semaphore = Arc::clone(&semaphore);
            move || assert!(semaphore.acquire_timeout(2, Duration::from_nanos(1)).is_err())
        });
        let modest = thread::spawn({
            let (semaphore, watched) = (Arc::clone(&semaphore), Arc::clone(&watched));
            move || {
                let _permit = semaphore.acquire().unwrap();
                watched.add();
            }
        });
        watched.add();
        drop(permit);
        hasty.join().unwrap();
        modest.join().unwrap();
        assert_eq!((watched.count(), semaphore.available_permits()), (2, 1));
    });
}

pub(crate) fn closing_refuses_all() {
    check_within(2, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let waiting = [(); 2].map(|()| {
            let semaphore = Arc::clone(&semaphore);
            thread::spawn(move || semaphore.acquire().is_err())
        });
        semaphore.close();
        waiting.into_iter().for_each(|waiting| assert!(waiting.join().unwrap()));
    });
}

/// A strand that has seen the close returns a permit, while `close` is still refusing the waiters.
/// The permit must not reach a waiter.
pub(crate) fn no_permit_is_granted_once_the_close_was_seen() {
    check_within(2, || {
        let semaphore = Arc::new(Semaphore::new(0));
        let waiting = thread::spawn({
            let semaphore = Arc::clone(&semaphore);
            move || semaphore.acquire().is_err()
        });
        let closing = thread::spawn({
            let semaphore = Arc::clone(&semaphore);
            move || semaphore.close()
        });
        if semaphore.is_closed() {
            semaphore.add_permits(1);
        }
        assert!(waiting.join().unwrap(), "granted after the close");
        closing.join().unwrap();
    });
}
