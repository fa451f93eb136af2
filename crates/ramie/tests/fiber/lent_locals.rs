//! Values of thread-locals that a fiber has lent from inside `LocalKey::with`, and then never came
//! back: they live until those who use them have ended, although the fiber's thread ends.

use std::{
    cell::RefCell,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::Duration,
};

use crate::common::{Limit, assert_success, child, is_child, stderr};
use ramie::{
    Runtime, Strands,
    fiber::{self, Builder, Place},
};

/// Reports when it is destroyed. A borrow of it proves nothing in itself, so that a test fails
/// without undefined behaviour.
#[derive(Default)]
pub(crate) struct Value(RefCell<Option<Sender<()>>>);

impl Drop for Value {
    fn drop(&mut self) {
        if let Some(dropped) = self.0.take() {
            let _ = dropped.send(());
        }
    }
}

thread_local! {
    static VALUE: Value = Value::default();
}

/// Where a user of the value tells that it has begun, and whether the value outlived it.
pub(crate) struct Reports {
    pub(crate) begun: Sender<()>,
    pub(crate) outlived: Sender<bool>,
}

pub(crate) fn reports() -> (Reports, Receiver<()>, Receiver<bool>) {
    let (begun, has_begun) = mpsc::channel();
    let (outlived, has_outlived) = mpsc::channel();
    (Reports { begun, outlived }, has_begun, has_outlived)
}

/// Notes the destruction of this thread's value, and calls `f` inside `with`.
pub(crate) fn lending(f: impl FnOnce(&Value, Receiver<()>)) {
    let (dropped, is_dropped) = mpsc::channel();
    VALUE.with(|value| {
        *value.0.borrow_mut() = Some(dropped);
        f(value, is_dropped);
    });
}

/// Uses the value for a while, in which its thread would have ended long ago.
pub(crate) fn use_for_long(reports: &Reports, is_dropped: &Receiver<()>) {
    let _ = reports.begun.send(());
    let seen = is_dropped.recv_timeout(Duration::from_millis(150));
    let _ = reports.outlived.send(seen == Err(RecvTimeoutError::Timeout));
}

/// Lends the value of this thread to a job of the blocking pool.
pub(crate) fn lend_to_a_job(reports: &Reports) {
    lending(|_value, is_dropped| {
        ramie::blocking(move || use_for_long(reports, &is_dropped));
    });
}

pub(crate) fn impatient(workers: usize) -> Runtime {
    let builder = Runtime::builder().strands(Strands::Fibers).workers(workers);
    builder.grace(Duration::ZERO).build().unwrap()
}

/// Spawns a fiber on a worker that lends its thread's value to a job; returns when that runs.
fn spawn_lender(worker: usize) -> Receiver<bool> {
    let (reports, begun, outlived) = reports();
    let lender = Builder::new().on(Place::Worker(worker));
    drop(lender.spawn(move || lend_to_a_job(&reports)).unwrap());
    ramie::blocking(move || begun.recv().unwrap());
    outlived
}

#[test]
fn a_thread_that_called_run_ends_after_the_jobs_of_abandoned_fibers() {
    let _limit = Limit::of_this_test();
    let ends = thread::spawn(|| {
        let outlived = impatient(1).run(|| spawn_lender(0));
        assert!(outlived.try_recv().is_err(), "run waited for the job");
        outlived
    });
    let outlived = ends.join().unwrap();
    assert!(outlived.recv().unwrap(), "the value was destroyed before the job had ended");
}

#[test]
fn the_thread_of_a_worker_ends_after_the_jobs_of_its_fibers() {
    let _limit = Limit::of_this_test();
    let outlived = impatient(2).run(|| spawn_lender(1));
    assert!(outlived.try_recv().is_err(), "run waited for the job");
    assert!(outlived.recv().unwrap(), "the value was destroyed before the job had ended");
}

#[test]
fn the_threads_of_a_runtime_in_the_background_end_after_the_jobs_of_its_fibers() {
    let _limit = Limit::of_this_test();
    for worker in 0..2 {
        let runtime = impatient(2).start().unwrap();
        let (reports, begun, outlived) = reports();
        let spawned =
            runtime.handle().spawn_on(Place::Worker(worker), move || lend_to_a_job(&reports));
        begun.recv().unwrap();
        assert_eq!(runtime.shutdown(Duration::ZERO).count(), 1);
        assert!(outlived.try_recv().is_err(), "the shutdown waited for the job");
        assert!(outlived.recv().unwrap(), "the value was destroyed before the job had ended");
        drop(spawned);
    }
}

#[test]
fn a_dropped_runtime_in_the_background_leaves_its_threads_to_the_jobs() {
    let _limit = Limit::of_this_test();
    let runtime = impatient(1).start().unwrap();
    let (reports, begun, outlived) = reports();
    let spawned = runtime.handle().spawn(move || lend_to_a_job(&reports)).unwrap();
    begun.recv().unwrap();
    drop(runtime);
    assert!(outlived.try_recv().is_err(), "the drop waited for the job");
    assert!(outlived.recv().unwrap(), "the value was destroyed before the job had ended");
    drop(spawned);
}

#[test]
fn the_value_outlives_a_job_of_a_strand_on_another_worker() {
    let _limit = Limit::of_this_test();
    let ends = thread::spawn(|| {
        impatient(2).run(|| {
            let (reports, begun, outlived) = reports();
            let lends = move || {
                lending(|_value, is_dropped| {
                    fiber::scope(|s| {
                        let job =
                            move || ramie::blocking(move || use_for_long(&reports, &is_dropped));
                        let there = Builder::new().on(Place::Worker(1));
                        drop(there.spawn_scoped(s, job).unwrap());
                    });
                });
            };
            drop(Builder::new().on(Place::Worker(0)).spawn(lends).unwrap());
            ramie::blocking(move || begun.recv().unwrap());
            outlived
        })
    });
    let outlived = ends.join().unwrap();
    assert!(outlived.recv().unwrap(), "the value was destroyed before the job had ended");
}

#[test]
fn the_thread_of_a_guest_ends_after_the_jobs_of_its_fibers() {
    let _limit = Limit::of_this_test();
    for is_forgotten in [false, true] {
        let ends = thread::spawn(move || {
            let mut guest = impatient(1).start_guest().unwrap();
            let (reports, begun, outlived) = reports();
            drop(guest.spawn_local(move || lend_to_a_job(&reports)).unwrap());
            while begun.try_recv().is_err() {
                guest.turn(Duration::from_millis(1));
            }
            if is_forgotten {
                std::mem::forget(guest);
            } else {
                assert_eq!(guest.shutdown(Duration::ZERO).count(), 1);
                assert!(outlived.try_recv().is_err(), "the shutdown waited for the job");
            }
            outlived
        });
        let outlived = ends.join().unwrap();
        assert!(outlived.recv().unwrap(), "the value was destroyed before the job had ended");
    }
}

/// The other worker of a guest goes on after the guest was forgotten, until its thread ends.
#[test]
fn the_thread_of_a_forgotten_guest_ends_after_its_other_workers() {
    let _limit = Limit::of_this_test();
    let ends = thread::spawn(|| {
        let mut guest = impatient(2).start_guest().unwrap();
        let (reports, begun, outlived) = reports();
        let lends = move || {
            lending(|_value, is_dropped| {
                fiber::scope(|s| {
                    let there = Builder::new().on(Place::Worker(1));
                    let strand = move || {
                        reports.begun.send(()).unwrap();
                        while is_dropped.try_recv().is_err() {
                            fiber::yield_now();
                        }
                        reports.outlived.send(false).unwrap();
                    };
                    drop(there.spawn_scoped(s, strand).unwrap());
                });
            });
        };
        drop(guest.spawn_local(lends).unwrap());
        while begun.try_recv().is_err() {
            guest.turn(Duration::from_millis(1));
        }
        std::mem::forget(guest);
        outlived
    });
    let outlived = ends.join().unwrap();
    let seen = outlived.recv_timeout(Duration::from_millis(50));
    assert!(seen.is_err(), "a strand of the other worker went on: {seen:?}");
}

/// Lends the value to a thread strand of a scope, which spawns another one and ends.
fn lend_to_threads(reports: &Reports) {
    lending(|_value, is_dropped| {
        fiber::scope(|s| {
            drop(s.spawn(move || {
                drop(s.spawn(move || use_for_long(reports, &is_dropped)));
            }));
        });
    });
}

/// Leaves a fiber of this thread in `lend`, when the borrower has begun.
fn leave_a_lender(lend: fn(&Reports)) -> Receiver<bool> {
    let (reports, begun, outlived) = reports();
    drop(fiber::spawn_local(move || lend(&reports)));
    while begun.try_recv().is_err() {
        fiber::sleep(Duration::from_millis(1));
    }
    outlived
}

/// Leaves a lender to a job, then one to threads, on a thread that `on_thread` makes and joins.
#[track_caller]
fn check_on(on_thread: fn(fn(&Reports)) -> Receiver<bool>) {
    for lend in [lend_to_a_job, lend_to_threads] {
        let outlived = on_thread(lend);
        assert!(outlived.recv().unwrap(), "the value was destroyed too early");
    }
}

#[test]
fn a_thread_outside_run_ends_after_those_who_use_its_value() {
    let _limit = Limit::of_this_test();
    check_on(|lend| thread::spawn(move || leave_a_lender(lend)).join().unwrap());
}

#[test]
fn a_thread_that_is_a_strand_ends_after_those_who_use_its_value() {
    let _limit = Limit::of_this_test();
    check_on(|lend| fiber::spawn(move || leave_a_lender(lend)).join().unwrap());
}

#[test]
fn a_thread_of_a_runtime_on_threads_ends_after_the_jobs_of_its_fibers() {
    let _limit = Limit::of_this_test();
    check_on(|lend| {
        let run = move || {
            let builder = Runtime::builder().strands(Strands::Threads).grace(Duration::ZERO);
            builder.build().unwrap().run(|| leave_a_lender(lend))
        };
        thread::spawn(run).join().unwrap()
    });
}

#[test]
fn a_thread_that_does_not_end_for_long_says_why() {
    const NAME: &str = "a_thread_that_does_not_end_for_long_says_why";
    if !is_child() {
        let output = child(NAME);
        assert_success(&output);
        let said = stderr(&output);
        let why = "the thread 'lender' ends after 1 call on the blocking pool or strand, which has \
                   not ended: the fibers that wait for them were abandoned";
        return assert!(said.contains(why), "{said}");
    }
    let lender = thread::Builder::new().name("lender".to_owned());
    let ends = lender.spawn(|| {
        impatient(1).run(|| {
            let (begun, has_begun) = mpsc::channel();
            drop(fiber::spawn(|| {
                ramie::blocking(move || {
                    begun.send(()).unwrap();
                    thread::sleep(Duration::from_millis(1500));
                });
            }));
            ramie::blocking(move || has_begun.recv().unwrap());
        });
    });
    ends.unwrap().join().unwrap();
}
