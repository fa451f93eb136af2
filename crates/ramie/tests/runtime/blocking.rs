//! The blocking pool.

use std::{
    collections::HashSet,
    sync::{
        Mutex as StdMutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::common;
use crate::common::{on_each, one_worker, panic_text};
use ramie::{Runtime, blocking, fiber, sync::oneshot};

#[test]
fn jobs_borrow_and_return() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let here = std::thread::current().id();
            let mut list = vec![1];
            let there = blocking(|| {
                list.push(2);
                std::thread::current().id()
            });
            assert_ne!(there, here);
            assert_eq!(list, [1, 2]);
            assert_eq!(blocking(|| [3_u8; 5000])[4999], 3);
            assert_eq!(std::thread::current().id(), here);
        });
    });
}

#[test]
fn a_panic_of_the_job_is_the_callers() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            assert_eq!(panic_text(|| blocking(|| panic!("expected"))), "expected");
            assert_eq!(blocking(|| 1), 1);
        });
    });
}

#[test]
fn jobs_nest_and_may_use_the_crate() {
    one_worker().run(|| {
        let value = blocking(|| {
            let inner = blocking(|| 20);
            let strand = fiber::spawn(|| {
                fiber::yield_now();
                1
            });
            inner + strand.join().unwrap() + fiber::scope(|s| s.spawn(|| 21).join().unwrap())
        });
        assert_eq!(value, 42);
    });
}

#[test]
fn other_fibers_run_meanwhile() {
    on_each(&[1], |runtime| {
        runtime.run(|| {
            let (sender, receiver) = oneshot::channel();
            let job = fiber::spawn(move || blocking(|| receiver.recv().unwrap()));
            (0..10).for_each(|_| fiber::yield_now());
            sender.send(5).unwrap();
            assert_eq!(job.join().unwrap(), 5);
        });
    });
}

#[test]
fn many_jobs_at_once() {
    on_each(&[1, 4], |runtime| {
        runtime.run(|| {
            let jobs: Vec<_> = (0..500).map(|n| fiber::spawn(move || blocking(|| n))).collect();
            let values = jobs.into_iter().map(|job| job.join().unwrap());
            assert!(values.eq(0..500));
        });
    });
}

#[test]
fn the_pool_keeps_to_its_bound() {
    let runtime = Runtime::builder().workers(2).blocking_threads(3).build().unwrap();
    let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let threads = StdMutex::new(HashSet::new());
    runtime.run(|| {
        fiber::scope(|s| {
            for _ in 0..100 {
                s.spawn(|| {
                    blocking(|| {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        threads.lock().unwrap().insert(std::thread::current().id());
                        std::thread::yield_now();
                        now.fetch_sub(1, Ordering::SeqCst);
                    });
                });
            }
        });
    });
    assert!(most.into_inner() <= 3);
    assert!(threads.into_inner().unwrap().len() <= 3);
}

#[test]
fn without_a_thread_to_be_had_the_job_runs_in_place() {
    if common::is_child() {
        common::limit_memory(512 << 20);
        return one_worker().run(|| {
            let here = std::thread::current().id();
            assert_eq!(blocking(|| std::thread::current().id()), here);
        });
    }
    // The first stack of 1 GiB that the pool asks for is refused.
    let variables = [("RUST_MIN_STACK", "1073741824"), ("RAMIE_DRIVER", "poll")];
    let name = "without_a_thread_to_be_had_the_job_runs_in_place";
    common::assert_success(&common::child_with("true", name, &variables));
}
