//! The end of a runtime in the background: shutdowns, drops, what is abandoned, forks.

use std::{
    panic,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use ramie::{BackgroundRuntime, Handle, Runtime, RuntimeEnded, Strands, channel, fiber};

use super::{
    background::kinds,
    common::{
        Counted, Limit, assert_success, child, descriptors, is_child, panic_text, text, threads,
        wait_until,
    },
};

fn on_fibers(workers: usize) -> BackgroundRuntime {
    let builder = Runtime::builder().strands(Strands::Fibers).workers(workers);
    builder.build().unwrap().start().unwrap()
}

#[test]
fn a_shutdown_waits_for_the_fibers() {
    let _limit = Limit::of_this_test();
    kinds(|runtime| {
        let runtime = runtime.start().unwrap();
        let (sender, receiver) = channel::bounded::<i32>(1);
        let waits = runtime.handle().spawn(move || receiver.recv().unwrap()).unwrap();
        let handle = runtime.handle();
        let ends = thread::spawn(move || runtime.shutdown(Duration::MAX).count());
        wait_until(|| !handle.is_open());
        assert!(!ends.is_finished(), "a fiber waits");
        sender.send(3).unwrap();
        assert_eq!(waits.join().unwrap(), 3);
        assert_eq!(ends.join().unwrap(), 0);
    });
}

#[test]
fn fibers_that_are_left_after_the_timeout_are_abandoned() {
    let _limit = Limit::of_this_test();
    for workers in [1, 2] {
        let runtime = on_fibers(workers);
        let handle = runtime.handle();
        let stuck = handle.spawn_with(fiber::Builder::new().name("stuck".into()), fiber::park);
        let (begins, begun) = mpsc::channel();
        handle.spawn(move || begins.send(()).unwrap()).unwrap();
        begun.recv().unwrap();
        let abandoned = runtime.shutdown(Duration::from_millis(5));
        let line = abandoned.iter().next().unwrap_or_default().to_owned();
        assert!(abandoned.count() == 1 && line.starts_with("fiber 'stuck'"), "{line}");
        let payload = stuck.unwrap().join().unwrap_err();
        assert!(text(&*payload).contains("was abandoned"));
        assert_eq!(handle.shutdown(Duration::MAX).count(), 1, "a later call is told the same");
    }
}

#[test]
fn a_later_shutdown_ends_the_grace_period_earlier() {
    let _limit = Limit::of_this_test();
    let runtime = on_fibers(2);
    let handle = runtime.handle();
    let _stuck = handle.spawn(fiber::park).unwrap();
    let theirs = handle.clone();
    let ends = thread::spawn(move || theirs.shutdown(Duration::MAX).count());
    wait_until(|| !handle.is_open());
    handle.begin_shutdown(Duration::from_secs(3600));
    assert_eq!(handle.shutdown(Duration::from_millis(5)).count(), 1);
    assert_eq!(ends.join().unwrap(), 1);
}

#[test]
fn a_later_shutdown_does_not_extend_the_grace_period() {
    let _limit = Limit::of_this_test();
    let runtime = on_fibers(2);
    let handle = runtime.handle();
    let _stuck = handle.spawn(fiber::park).unwrap();
    handle.begin_shutdown(Duration::from_millis(5));
    assert_eq!(handle.shutdown(Duration::from_secs(3600)).count(), 1);
}

#[test]
fn a_panic_of_the_function_for_abandoned_fibers_is_that_of_the_shutdown() {
    let _limit = Limit::of_this_test();
    let builder = Runtime::builder().strands(Strands::Fibers).workers(1);
    let builder = builder.on_abandoned(|_| panic::resume_unwind(Box::new("of the report")));
    let runtime = builder.build().unwrap();
    let with_a_stuck_fiber = || {
        let runtime = runtime.start().unwrap();
        let _stuck = runtime.handle().spawn(fiber::park).unwrap();
        runtime
    };
    let said = panic_text(|| with_a_stuck_fiber().shutdown(Duration::ZERO));
    assert_eq!(said, "of the report");
    let runtime = with_a_stuck_fiber();
    runtime.handle().begin_shutdown(Duration::ZERO);
    drop(runtime);
}

#[test]
fn a_future_that_is_abandoned_is_an_error_of_its_caller() {
    let _limit = Limit::of_this_test();
    let runtime = on_fibers(1);
    let handle = runtime.handle();
    let (begins, begun) = mpsc::channel();
    let waits = thread::spawn(move || {
        handle.block_on(async move {
            begins.send(()).unwrap();
            std::future::pending::<()>().await;
        })
    });
    begun.recv().unwrap();
    assert_eq!(runtime.shutdown(Duration::ZERO).count(), 1);
    assert!(waits.join().unwrap().is_err_and(|ended| !ended.is_forked()));
}

/// More are spawned than two workers start in the time.
#[test]
fn closures_that_have_not_started_are_dropped_at_the_end_of_the_grace_period() {
    let _limit = Limit::of_this_test();
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    for workers in [1, 2] {
        let runtime = on_fibers(workers);
        let handle = runtime.handle();
        let (release, released) = mpsc::channel::<()>();
        let released = Arc::new(Mutex::new(released));
        let (begins, begun) = mpsc::channel();
        let blockers: Vec<_> = (0..workers)
            .map(|index| {
                let (begins, released) = (begins.clone(), Arc::clone(&released));
                let block = move || {
                    begins.send(()).unwrap();
                    let _ = released.lock().unwrap().recv();
                };
                handle.spawn_on(fiber::Place::Worker(index), block).unwrap()
            })
            .collect();
        (0..workers).for_each(|_| begun.recv().unwrap());
        let fresh: Vec<_> = (0..1000)
            .map(|_| {
                ALIVE.fetch_add(1, SeqCst);
                let counted = Counted(&ALIVE);
                handle.spawn(move || drop(counted)).unwrap()
            })
            .collect();
        handle.begin_shutdown(Duration::ZERO);
        drop(release);
        handle.shutdown(Duration::ZERO);
        drop(blockers);
        let outcomes = fresh.into_iter().map(|fiber| fiber.join().is_err());
        assert!(outcomes.filter(|is_err| *is_err).count() > 0, "none of them could start");
        drop(runtime);
    }
}

#[test]
fn a_fiber_cannot_wait_for_the_end_of_its_own_runtime() {
    let _limit = Limit::of_this_test();
    kinds(|runtime| {
        let runtime = runtime.start().unwrap();
        let handle = runtime.handle();
        let said = handle.spawn(|| panic_text(|| Handle::current().shutdown(Duration::MAX)));
        let said = said.unwrap().join().unwrap();
        assert!(said.contains("would wait for itself"), "{said}");
        assert!(handle.is_open());
        let begins = handle.spawn(|| Handle::current().begin_shutdown(Duration::MAX)).unwrap();
        begins.join().unwrap();
        assert!(!handle.is_open());
        assert_eq!(runtime.shutdown(Duration::MAX).count(), 0);
    });
}

#[test]
fn a_runtime_that_a_fiber_of_it_drops_ends_by_itself() {
    let _limit = Limit::of_this_test();
    kinds(|runtime| {
        let runtime = runtime.start().unwrap();
        let (handle, dropper) = (runtime.handle(), runtime.handle());
        dropper.spawn(move || drop(runtime)).unwrap().join().unwrap();
        assert!(!handle.is_open());
        assert_eq!(handle.shutdown(Duration::MAX).count(), 0);
    });
}

#[test]
fn a_runtime_that_is_dropped_in_a_panic_ends_without_the_thread() {
    let _limit = Limit::of_this_test();
    kinds(|runtime| {
        let runtime = runtime.start().unwrap();
        let handle = runtime.handle();
        let (sender, receiver) = channel::bounded::<()>(1);
        let waits = handle.spawn(move || assert!(receiver.recv().is_err())).unwrap();
        let dropped = panic::catch_unwind(panic::AssertUnwindSafe(|| {
            let _runtime = runtime;
            panic::resume_unwind(Box::new("while it runs"));
        }));
        assert!(dropped.is_err() && !waits.is_finished(), "the drop did not wait");
        drop(sender);
        waits.join().unwrap();
        assert_eq!(handle.shutdown(Duration::MAX).count(), 0);
    });
}

#[test]
fn a_runtime_that_is_forgotten_goes_on() {
    let _limit = Limit::of_this_test();
    kinds(|runtime| {
        let handle = runtime.start().unwrap();
        let theirs = handle.handle();
        std::mem::forget(handle);
        assert_eq!(theirs.spawn(|| 1).unwrap().join().unwrap(), 1);
        assert_eq!(theirs.shutdown(Duration::MAX).count(), 0);
    });
}

#[test]
fn all_that_wait_for_the_end_are_woken() {
    let _limit = Limit::of_this_test();
    let (one, other) = (on_fibers(2), on_fibers(1));
    let (sender, receiver) = channel::bounded::<()>(1);
    let _waits = one.handle().spawn(move || assert!(receiver.recv().is_err())).unwrap();
    let waiter = |handle: Handle| move || handle.shutdown(Duration::MAX).count();
    let threads = [(); 3].map(|()| thread::spawn(waiter(one.handle())));
    let fibers = [(); 3].map(|()| other.handle().spawn(waiter(one.handle())).unwrap());
    wait_until(|| !one.handle().is_open());
    assert!(threads.iter().all(|thread| !thread.is_finished()));
    drop(sender);
    assert!(threads.into_iter().all(|thread| thread.join().unwrap() == 0));
    assert!(fibers.into_iter().all(|fiber| fiber.join().unwrap() == 0));
}

#[test]
fn nothing_is_left_of_a_runtime_that_has_ended() {
    if !is_child() {
        // Other tests would have threads, too.
        return assert_success(&child("nothing_is_left_of_a_runtime_that_has_ended"));
    }
    let _limit = Limit::of_this_test();
    let before = (threads(), descriptors());
    let runtime = on_fibers(2);
    let fiber = runtime.handle().spawn(|| ramie::blocking(|| 2)).unwrap();
    assert_eq!(fiber.join().unwrap(), 2);
    runtime.shutdown(Duration::MAX);
    let start = Instant::now();
    wait_until(|| threads() <= before.0 && descriptors() <= before.1);
    assert!(start.elapsed() < Duration::from_secs(9), "a thread of the pool is idle for 10 s");
}

#[test]
fn abandoned_fibers_are_reported_on_the_runtimes_own_thread() {
    let _limit = Limit::of_this_test();
    let (report, reports) = mpsc::channel();
    let builder = Runtime::builder().strands(Strands::Fibers).workers(1);
    let builder = builder.grace(Duration::from_millis(2)).on_abandoned(move |fibers| {
        report.send((fibers.count(), thread::current().name().map(str::to_owned))).unwrap();
    });
    let runtime = builder.build().unwrap().start().unwrap();
    runtime.handle().spawn(fiber::park).unwrap();
    let start = Instant::now();
    drop(runtime);
    assert!(start.elapsed() >= Duration::from_millis(2), "the builder's grace period counts");
    assert_eq!(reports.recv().unwrap(), (1, Some("ramie-worker-0".to_owned())));
}

/// The child has none of the threads, and must neither wait for them nor wake the parent's.
#[test]
fn a_handle_fails_in_the_child_of_a_fork() {
    // No other test's thread may hold a lock of std when the process forks.
    if !is_child() {
        return assert_success(&child("a_handle_fails_in_the_child_of_a_fork"));
    }
    let _limit = Limit::of_this_test();
    kinds(|runtime| {
        let runtime = runtime.start().unwrap();
        let handle = runtime.handle();
        assert_eq!(handle.spawn(|| 1).unwrap().join().unwrap(), 1);
        let fails = || {
            let error = handle.spawn(|| ()).unwrap_err();
            let is_forked = RuntimeEnded::of(&error).is_some_and(RuntimeEnded::is_forked);
            let begun = Instant::now();
            handle.begin_shutdown(Duration::MAX);
            handle.shutdown(Duration::MAX);
            is_forked && handle.metrics().is_err() && begun.elapsed() < Duration::from_secs(5)
        };
        assert!(in_child(fails), "a call in the child does not fail");
        assert_eq!(handle.spawn(|| 2).unwrap().join().unwrap(), 2, "the parent goes on");
    });
}

/// Its driver would be refused as soon as a worker waits, and that would end the child.
#[test]
fn no_runtime_starts_in_the_child_of_a_fork() {
    if !is_child() {
        return assert_success(&child("no_runtime_starts_in_the_child_of_a_fork"));
    }
    let _limit = Limit::of_this_test();
    let before = on_fibers(1);
    let builder = || Runtime::builder().strands(Strands::Fibers).workers(2).build().unwrap();
    let is_refused = |error: &str| error.contains("in the child of a fork");
    let refuses = || {
        let background = builder().start().expect_err("no runtime in the background");
        let guest = builder().start_guest().expect_err("no guest");
        is_refused(&background.to_string())
            && is_refused(&guest.to_string())
            && is_refused(&panic_text(|| builder().run(|| ())))
    };
    assert!(in_child(refuses), "a runtime starts in the child");
    drop(before);
}

/// Runs `f` in the child of a fork, and returns whether it has returned true.
pub(crate) fn in_child(f: impl FnOnce() -> bool) -> bool {
    // SAFETY: the child calls `f`, which allocates; the C library makes its allocator usable in the
    // child, and no test runs code under other locks that `f` takes.
    let id = unsafe { libc::fork() };
    if id == 0 {
        let code =
            i32::from(!std::panic::catch_unwind(panic::AssertUnwindSafe(f)).unwrap_or(false));
        // SAFETY: ends this process at once.
        unsafe { libc::_exit(code) };
    }
    let mut status = 0;
    // SAFETY: the child of above, and a place for its status.
    let waited = unsafe { libc::waitpid(id, &mut status, 0) };
    waited == id && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
}

/// A strand of a scope may use a thread-local of the thread whose fiber has opened the scope.
#[test]
fn no_worker_thread_ends_while_fibers_run_on_another() {
    static DESTROYED: AtomicBool = AtomicBool::new(false);
    struct Noisy;
    impl Drop for Noisy {
        fn drop(&mut self) {
            DESTROYED.store(true, SeqCst);
        }
    }
    thread_local!(static VALUE: Noisy = const { Noisy });
    let _limit = Limit::of_this_test();
    let runtime = on_fibers(3);
    let on = |worker| fiber::Builder::new().on(fiber::Place::Worker(worker));
    let (begins, begun) = mpsc::channel();
    let (reports, report) = mpsc::channel();
    let opens = move || {
        VALUE.with(|value| {
            fiber::scope(|s| {
                let uses = move || {
                    let _value: &Noisy = value;
                    begins.send(()).unwrap();
                    let start = Instant::now();
                    while start.elapsed() < Duration::from_millis(500) && !DESTROYED.load(SeqCst) {}
                    reports.send(DESTROYED.load(SeqCst)).unwrap();
                };
                on(2).spawn_scoped(s, uses).unwrap();
            });
        });
    };
    runtime.handle().spawn_with(on(1), opens).unwrap();
    begun.recv().unwrap();
    runtime.shutdown(Duration::ZERO);
    assert!(!report.recv().unwrap(), "the value was destroyed while a fiber used it");
}

/// Its last thread runs code of the program when the runtime has ended.
#[test]
fn a_fiber_that_drops_a_runtime_blocks_no_other_fiber() {
    let _limit = Limit::of_this_test();
    let drops: fn(BackgroundRuntime) = drop;
    let shuts_down: fn(BackgroundRuntime) = |runtime| _ = runtime.shutdown(Duration::ZERO);
    for ends in [drops, shuts_down] {
        let (begins, begun) = channel::bounded(1);
        let (release, released) = mpsc::channel::<()>();
        let released = Mutex::new(released);
        let builder = Runtime::builder().strands(Strands::Fibers).workers(1).grace(Duration::ZERO);
        let builder = builder.on_abandoned(move |_| {
            begins.send(()).unwrap();
            released.lock().unwrap().recv().unwrap();
        });
        let ended = builder.build().unwrap().start().unwrap();
        ended.handle().spawn(fiber::park).unwrap();
        super::common::one_worker().run(|| {
            let ender = fiber::spawn(move || ends(ended));
            begun.recv().unwrap();
            // The fiber waits for the function, and others take turns meanwhile.
            for _ in 0..3 {
                fiber::sleep(Duration::from_millis(2));
                assert!(!ender.is_finished());
            }
            release.send(()).unwrap();
            ender.join().unwrap();
        });
    }
}
