//! What does not wait for the jobs of abandoned fibers: the end of the process, and those who wait
//! for the end of a runtime.

use std::{
    process,
    sync::mpsc::{self, Sender},
    thread,
    time::Duration,
};

use crate::{
    common::{Limit, assert_aborted, assert_success, child, is_child},
    lent_locals::impatient,
};
use ramie::{
    Runtime, Strands,
    fiber::{self, JoinHandle, Place},
};

/// Begins a job that does not end before the sender is dropped, in a run that abandons its fiber.
fn leave_a_job() -> Sender<()> {
    let (end, has_end) = mpsc::channel::<()>();
    impatient(1).run(|| {
        let (begun, has_begun) = mpsc::channel();
        drop(fiber::spawn_local(move || {
            ramie::blocking(move || {
                begun.send(()).unwrap();
                let _ = has_end.recv();
            });
        }));
        ramie::blocking(move || has_begun.recv().unwrap());
    });
    end
}

#[test]
fn a_fiber_ends_the_process_whatever_its_thread_has_lent() {
    if is_child() {
        let ends = thread::spawn(|| {
            let _end = leave_a_job();
            impatient(1).run(|| process::exit(0));
        });
        return ends.join().unwrap();
    }
    assert_success(&child("a_fiber_ends_the_process_whatever_its_thread_has_lent"));
}

#[test]
fn a_fiber_ends_the_process_whatever_guest_its_thread_has() {
    if is_child() {
        let ends = thread::spawn(|| {
            let guest = impatient(2).start_guest().unwrap();
            let (begun, has_begun) = mpsc::channel();
            let never_suspends = move || {
                begun.send(()).unwrap();
                loop {
                    thread::park();
                }
            };
            drop(guest.handle().spawn_on(Place::Worker(1), never_suspends).unwrap());
            has_begun.recv().unwrap();
            impatient(1).run(|| process::exit(0));
        });
        return ends.join().unwrap();
    }
    assert_success(&child("a_fiber_ends_the_process_whatever_guest_its_thread_has"));
}

/// The child has a copy of the thread with its loans, and no thread of the pool.
#[test]
#[allow(unsafe_code)]
fn the_child_of_a_fork_ends_whatever_its_thread_has_lent() {
    if is_child() {
        let ends = thread::spawn(|| {
            let _end = leave_a_job();
            // SAFETY: the child only ends itself, and the C library makes its allocator usable.
            let id = unsafe { libc::fork() };
            if id == 0 {
                process::exit(0);
            }
            // SAFETY: the child of above, and no place for its status.
            unsafe { libc::waitpid(id, std::ptr::null_mut(), 0) }
        });
        return assert!(ends.join().unwrap() > 0);
    }
    assert_success(&child("the_child_of_a_fork_ends_whatever_its_thread_has_lent"));
}

/// The job ends when the shutdown has returned.
#[test]
fn the_end_of_a_forgotten_guest_does_not_wait_for_a_job() {
    let _limit = Limit::of_this_test();
    let (handles, handle) = mpsc::channel();
    let (end, has_end) = mpsc::channel::<()>();
    let ends = thread::spawn(move || {
        let mut guest = impatient(1).start_guest().unwrap();
        let (begun, has_begun) = mpsc::channel();
        let job = move || {
            begun.send(()).unwrap();
            let _ = has_end.recv();
        };
        drop(guest.spawn_local(move || ramie::blocking(job)).unwrap());
        guest.turn(Duration::ZERO);
        has_begun.recv().unwrap();
        handles.send(guest.handle()).unwrap();
        std::mem::forget(guest);
    });
    assert_eq!(handle.recv().unwrap().shutdown(Duration::ZERO).count(), 1);
    drop(end);
    ends.join().unwrap();
}

/// The strand of the scope begins the run when the opener was abandoned, which does not notice that
/// its other strand is lost.
#[test]
fn a_run_that_abandons_a_strand_of_an_abandoned_scope_aborts() {
    if is_child() {
        let ends = thread::spawn(move || {
            let (openers, opener) = mpsc::channel::<JoinHandle<()>>();
            let opens = fiber::spawn_local(move || {
                fiber::scope(|s| {
                    drop(s.spawn(move || {
                        opener.recv().unwrap().join().unwrap_err();
                        let builder = Runtime::builder().strands(Strands::Fibers);
                        let runtime = builder.grace(Duration::ZERO).build().unwrap();
                        runtime.run(|| {
                            s.spawn(fiber::park);
                            fiber::sleep(Duration::from_millis(1));
                        });
                    }));
                });
            });
            fiber::yield_now();
            openers.send(opens).unwrap();
        });
        return ends.join().unwrap();
    }
    let output = child("a_run_that_abandons_a_strand_of_an_abandoned_scope_aborts");
    assert_aborted(&output, "opened outside of that run");
}
