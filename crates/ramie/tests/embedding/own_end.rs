//! Calls by which a runtime would wait for itself, on threads that its end waits for: those of its
//! blocking pool, of its workers before and after their loops, and of the loop that drives it.

use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Barrier, Mutex, OnceLock, mpsc},
    thread,
    time::Duration,
};

use ramie::{BackgroundRuntime, Builder, Handle, Runtime, Strands, Turned, fiber};

use super::common::{Limit, on_each, panic_text, text};

fn on_fibers(workers: usize) -> Builder {
    Runtime::builder().strands(Strands::Fibers).workers(workers)
}

fn start(workers: usize) -> BackgroundRuntime {
    on_fibers(workers).build().unwrap().start().unwrap()
}

fn shutdown_text(handle: &Handle) -> String {
    assert!(!handle.can_shut_down_here());
    panic_text(|| handle.shutdown(Duration::MAX))
}

#[test]
fn the_thread_of_a_loop_cannot_wait_for_the_turns_that_it_gives() {
    let _limit = Limit::of_this_test();
    on_each(&[1, 2], |runtime| {
        let mut guest = runtime.start_guest().unwrap();
        let handle = guest.handle();
        let said = shutdown_text(&handle);
        assert!(said.contains("GuestRuntime::shutdown"), "{said}");
        let said = super::common::one_worker().run(|| shutdown_text(&handle));
        assert!(said.contains("GuestRuntime::shutdown"), "{said}");
        assert!(handle.is_open(), "the refused calls have begun nothing");
        let theirs = handle.clone();
        assert!(thread::spawn(move || theirs.can_shut_down_here()).join().unwrap());
        handle.begin_shutdown(Duration::MAX);
        while guest.turn(Duration::from_millis(1)) != Turned::Ended {}
        drop(guest);
        assert_eq!(handle.shutdown(Duration::MAX).count(), 0, "it has ended");
    });
}

/// With another worker, the future is polled there.
#[test]
fn the_thread_of_a_loop_cannot_block_on_its_only_worker() {
    let _limit = Limit::of_this_test();
    let guest = on_fibers(1).build().unwrap().start_guest().unwrap();
    let said = panic_text(|| guest.handle().block_on(async { 1 }));
    assert!(said.contains("GuestRuntime::turn"), "{said}");
    drop(guest);
    let guest = on_fibers(2).build().unwrap().start_guest().unwrap();
    assert_eq!(guest.handle().block_on(async { 1 }), Ok(1));
}

/// The loop goes on while that fiber waits.
#[test]
fn a_fiber_of_one_guest_may_wait_for_the_end_of_another_on_the_same_thread() {
    let _limit = Limit::of_this_test();
    on_each(&[1], |runtime| {
        let mut one = runtime.start_guest().unwrap();
        let mut other = runtime.start_guest().unwrap();
        let handle = other.handle();
        let ends = one.spawn_local(move || handle.shutdown(Duration::MAX).count()).unwrap();
        while other.turn(Duration::from_millis(1)) != Turned::Ended {
            one.turn(Duration::from_millis(1));
        }
        drop(other);
        while !ends.is_finished() {
            one.turn(Duration::from_millis(1));
        }
        assert_eq!(ends.join().unwrap(), 0);
    });
}

#[test]
fn a_job_of_the_blocking_pool_cannot_wait_for_the_end() {
    let _limit = Limit::of_this_test();
    on_each(&[1, 2], |runtime| {
        let runtime = runtime.start().unwrap();
        let handle = runtime.handle();
        let theirs = handle.clone();
        let said = handle.spawn(move || ramie::blocking(|| shutdown_text(&theirs)));
        let said = said.unwrap().join().unwrap();
        assert!(said.contains("Handle::begin_shutdown"), "{said}");
        let drops = handle.spawn(move || ramie::blocking(|| drop(runtime))).unwrap();
        drops.join().unwrap();
        assert_eq!(handle.shutdown(Duration::MAX).count(), 0);
    });
}

/// The fiber that waits for the job belongs to another runtime.
#[test]
fn a_job_of_another_blocking_pool_may_wait_for_the_end() {
    let _limit = Limit::of_this_test();
    let (one, other) = (start(1), start(1));
    let ends = one.handle().spawn(move || ramie::blocking(|| other.shutdown(Duration::MAX)));
    assert_eq!(ends.unwrap().join().unwrap().count(), 0);
}

#[test]
fn the_hook_of_a_workers_end_cannot_wait_for_the_end() {
    let _limit = Limit::of_this_test();
    static HANDLE: OnceLock<Handle> = OnceLock::new();
    let (report, reports) = mpsc::channel();
    let hook = move |index| {
        report.send((index, shutdown_text(HANDLE.get().unwrap()))).unwrap();
    };
    let runtime = on_fibers(2).on_worker_stop(hook).build().unwrap().start().unwrap();
    HANDLE.set(runtime.handle()).unwrap();
    drop(runtime);
    let mut said = [reports.recv().unwrap(), reports.recv().unwrap()];
    said.sort();
    assert_eq!([said[0].0, said[1].0], [0, 1]);
    assert!(said.iter().all(|(_, said)| said.contains("Handle::begin_shutdown")), "{said:?}");
}

/// A place for a runtime from which code on one of its own threads drops it.
type Kept = Arc<Mutex<Option<BackgroundRuntime>>>;

fn drop_kept(kept: &Kept) {
    let taken = kept.lock().unwrap().take();
    drop(taken);
}

fn end_kept(kept: &Kept, runtime: BackgroundRuntime) -> usize {
    let handle = runtime.handle();
    *kept.lock().unwrap() = Some(runtime);
    handle.begin_shutdown(Duration::ZERO);
    let abandoned = handle.shutdown(Duration::ZERO);
    super::common::wait_until(|| kept.lock().unwrap().is_none());
    abandoned.count()
}

#[test]
fn a_drop_in_the_hook_of_a_workers_end_does_not_wait() {
    let _limit = Limit::of_this_test();
    for worker in [0, 1] {
        let kept = Kept::default();
        let theirs = Arc::clone(&kept);
        let hook = move |index| {
            if index == worker {
                drop_kept(&theirs);
            }
        };
        let runtime = on_fibers(2).on_worker_stop(hook).build().unwrap().start().unwrap();
        assert_eq!(end_kept(&kept, runtime), 0);
    }
}

/// The thread that calls it cannot join itself.
#[test]
fn a_drop_in_the_function_for_abandoned_fibers_does_not_wait() {
    let _limit = Limit::of_this_test();
    let kept = Kept::default();
    let theirs = Arc::clone(&kept);
    let (report, reports) = mpsc::channel();
    let builder = on_fibers(2).on_abandoned(move |_| {
        let dropped = catch_unwind(AssertUnwindSafe(|| drop_kept(&theirs)));
        let said = dropped.map_err(|payload| text(&*payload).to_owned());
        report.send((said, thread::current().name().map(str::to_owned))).unwrap();
    });
    let runtime = builder.build().unwrap().start().unwrap();
    runtime.handle().spawn(fiber::park).unwrap();
    assert_eq!(end_kept(&kept, runtime), 1);
    assert_eq!(reports.recv().unwrap(), (Ok(()), Some("ramie-worker-0".to_owned())));
}

/// The runtime joins the threads of its workers, whose thread-locals are destroyed by then.
#[test]
fn a_drop_by_a_thread_local_of_a_worker_does_not_wait() {
    struct Drops(Kept);
    impl Drop for Drops {
        fn drop(&mut self) {
            drop_kept(&self.0);
        }
    }
    thread_local!(static DROPS: RefCell<Option<Drops>> = const { RefCell::new(None) });
    let _limit = Limit::of_this_test();
    for worker in [0, 1] {
        let kept = Kept::default();
        let theirs = Arc::clone(&kept);
        let runtime = start(2);
        let sets = runtime.handle().spawn_on(fiber::Place::Worker(worker), move || {
            DROPS.set(Some(Drops(theirs)));
        });
        sets.unwrap().join().unwrap();
        assert_eq!(end_kept(&kept, runtime), 0);
    }
}

/// As far as a function waits for its like, all of them run at the same time.
#[test]
fn the_hooks_of_all_workers_may_wait_for_one_another() {
    let _limit = Limit::of_this_test();
    let (starts, stops) = (Arc::new(Barrier::new(3)), Arc::new(Barrier::new(3)));
    let wait_at = |barrier: &Arc<Barrier>| {
        let barrier = Arc::clone(barrier);
        move |_| _ = barrier.wait()
    };
    let builder = on_fibers(3).on_worker_start(wait_at(&starts)).on_worker_stop(wait_at(&stops));
    let runtime = builder.build().unwrap();
    assert_eq!(runtime.run(|| 5), 5);
    assert_eq!(runtime.start().unwrap().shutdown(Duration::MAX).count(), 0);
    drop(runtime.start_guest().unwrap());
}
