//! The inbox and the sleep of a worker: each pushed header is run once, and one wake is enough.

use std::{cell::Cell, sync::atomic};

use loom::thread;

use super::check;
use crate::core::{
    primitive::Cell as WatchedCell,
    strand::{StrandHeader, slab},
    worker::{self, Shared},
};

/// Pushes a header, whose `stack` stands for all writes of its pusher.
fn push(home: &'static Shared, header: &'static StrandHeader) {
    let cell: &WatchedCell<_> = &header.stack;
    cell.set(std::ptr::null());
    home.push(header);
}

fn run_until(count: usize) {
    let worker = worker::current();
    let taken = Cell::new(0);
    let take = |header: &'static StrandHeader| {
        header.stack.set(std::ptr::null());
        taken.set(taken.get() + 1);
    };
    worker.run_until(take, || taken.get() == count);
    assert!(!worker.shared().has_mail());
}

/// The race to fear: a push between the worker's last check and its system call.
pub(crate) fn a_push_ends_the_sleep() {
    check(|| {
        let home = worker::current().shared();
        let header = slab::take();
        let pusher = thread::spawn(move || push(home, header));
        run_until(1);
        pusher.join().unwrap();
    });
}

/// The second sleep ends, too, even if the first wake comes late.
pub(crate) fn a_push_ends_each_sleep() {
    check(|| {
        let home = worker::current().shared();
        let headers = [slab::take(), slab::take()];
        let pusher =
            thread::spawn(move || headers.into_iter().for_each(|header| push(home, header)));
        run_until(2);
        pusher.join().unwrap();
    });
}

/// Two pushers at a time lose nothing.
pub(crate) fn pushers_do_not_collide() {
    check(|| {
        let home = worker::current().shared();
        let pushers =
            [slab::take(), slab::take()].map(|header| thread::spawn(move || push(home, header)));
        run_until(2);
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
    });
}

/// One system call wakes a worker that sleeps once, whatever the number of pushes.
pub(crate) fn one_wake_for_each_sleep() {
    check(|| {
        let worker = worker::current();
        let home = worker.shared();
        let pushers =
            [slab::take(), slab::take()].map(|header| thread::spawn(move || push(home, header)));
        home.fall_asleep(|| true, || ());
        pushers.into_iter().for_each(|pusher| pusher.join().unwrap());
        assert!(worker.kernel().wakes.load(atomic::Ordering::Relaxed) <= 1, "woken twice");
        home.drain(|_| ());
    });
}
