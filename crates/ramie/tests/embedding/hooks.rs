//! Functions at the start and the end of workers, and the CPUs of threads.

use std::{
    panic,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread::{self, ThreadId},
};

use ramie::{Builder, Runtime, Strands, fiber};
use rustix::thread::{CpuSet, sched_getaffinity};

use super::common::{Limit, panic_text};

fn on_fibers(workers: usize) -> Builder {
    Runtime::builder().strands(Strands::Fibers).workers(workers)
}

type Calls = Arc<Mutex<Vec<(&'static str, usize, ThreadId)>>>;

fn recorded(builder: Builder) -> (Builder, Calls) {
    let calls = Calls::default();
    let note = |what, calls: &Calls| {
        let calls = Arc::clone(calls);
        move |index| calls.lock().unwrap().push((what, index, thread::current().id()))
    };
    let (start, stop) = (note("start", &calls), note("stop", &calls));
    (builder.on_worker_start(start).on_worker_stop(stop), calls)
}

fn indices(calls: &Calls, what: &str) -> Vec<usize> {
    let calls = calls.lock().unwrap();
    let mut indices: Vec<_> =
        calls.iter().filter(|call| call.0 == what).map(|call| call.1).collect();
    indices.sort_unstable();
    indices
}

#[test]
fn each_worker_calls_them_on_its_thread() {
    let _limit = Limit::of_this_test();
    let (builder, calls) = recorded(on_fibers(3));
    let runtime = builder.build().unwrap();
    runtime.run(|| {
        assert_eq!(indices(&calls, "start"), [0, 1, 2]);
        let threads = fiber::on_each_worker(|_| thread::current().id());
        for (_, index, thread) in calls.lock().unwrap().iter() {
            assert_eq!(threads[*index], *thread);
        }
        assert!(indices(&calls, "stop").is_empty());
    });
    assert_eq!(indices(&calls, "stop"), [0, 1, 2]);
    calls.lock().unwrap().clear();
    drop(runtime.start().unwrap());
    assert_eq!(indices(&calls, "start"), [0, 1, 2]);
    assert_eq!(indices(&calls, "stop"), [0, 1, 2]);
    calls.lock().unwrap().clear();
    drop(runtime.start_guest().unwrap());
    let calls = calls.lock().unwrap();
    let of_guest = calls.iter().filter(|call| call.1 == 0);
    assert!(of_guest.clone().all(|call| call.2 == thread::current().id()));
    assert_eq!(of_guest.count(), 2);
}

/// They are code of the program on a thread outside the runtime.
#[test]
fn they_may_use_the_crate() {
    let _limit = Limit::of_this_test();
    let hook = |_| {
        assert_eq!(fiber::worker(), None);
        assert_eq!(fiber::spawn_local(|| 3).join().unwrap(), 3);
    };
    let runtime = on_fibers(2).on_worker_start(hook).on_worker_stop(hook).build().unwrap();
    assert_eq!(runtime.run(|| 5), 5);
}

#[test]
fn one_that_panics_at_the_start_fails_the_start_and_stops_the_others() {
    let _limit = Limit::of_this_test();
    let stopped = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&stopped);
    let builder = on_fibers(3).on_worker_start(|index| assert_ne!(index, 1));
    let runtime = builder.on_worker_stop(move |_| _ = count.fetch_add(1, SeqCst)).build().unwrap();
    let said = panic_text(|| runtime.run(|| ()));
    assert!(said.contains("the function of on_worker_start panicked on worker 1"), "{said}");
    assert_eq!(stopped.load(SeqCst), 2, "those of the workers that had started");
}

#[test]
fn one_that_panics_at_the_end_disturbs_nobody() {
    let _limit = Limit::of_this_test();
    let hook = |_| panic::resume_unwind(Box::new("at the end"));
    let runtime = on_fibers(2).on_worker_stop(hook).build().unwrap();
    assert_eq!(runtime.run(|| 6), 6);
    assert_eq!(runtime.start().unwrap().shutdown(std::time::Duration::MAX).count(), 0);
}

fn cpus() -> Vec<usize> {
    let set = sched_getaffinity(None).unwrap();
    (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
}

#[test]
fn workers_are_pinned_in_turn_and_the_calling_thread_only_for_the_run() {
    let _limit = Limit::of_this_test();
    let allowed = cpus();
    let two = [allowed[allowed.len() - 1], allowed[0]];
    let runtime = on_fibers(3).pin_workers(two).build().unwrap();
    let pinned = runtime.run(|| fiber::on_each_worker(|_| cpus()));
    assert_eq!(pinned, [vec![two[0]], vec![two[1]], vec![two[0]]]);
    assert_eq!(cpus(), allowed, "the thread may run everywhere again");
    let background = runtime.start().unwrap();
    let first = background.handle().spawn_on(fiber::Place::Worker(0), cpus).unwrap();
    assert_eq!(first.join().unwrap(), [two[0]]);
    let guest = runtime.start_guest().unwrap();
    assert_eq!(cpus(), allowed, "the thread of a loop is not pinned");
    drop(guest);
}

#[test]
fn threads_of_the_blocking_pool_run_where_they_are_told() {
    let _limit = Limit::of_this_test();
    let allowed = cpus();
    let last = allowed[allowed.len() - 1];
    let runtime = on_fibers(1).pin_workers([last]).build().unwrap();
    assert_eq!(runtime.run(|| ramie::blocking(cpus)), allowed, "not where the worker is pinned");
    let runtime = on_fibers(1).blocking_affinity([last]).build().unwrap();
    assert_eq!(runtime.run(|| (cpus(), ramie::blocking(cpus))), (allowed, vec![last]));
}

#[test]
fn cpus_that_the_thread_may_not_use_are_refused() {
    let absent = CpuSet::MAX_CPU - 1;
    for (builder, says) in [
        (on_fibers(1).pin_workers([absent]), "pin_workers got the CPU 1023"),
        (on_fibers(1).blocking_affinity([absent]), "blocking_affinity got the CPU 1023"),
        (on_fibers(1).pin_workers([]), "pin_workers got no CPU"),
    ] {
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
        assert!(error.to_string().starts_with(says), "{error}");
    }
}
