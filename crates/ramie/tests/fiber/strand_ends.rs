//! Code of the program that runs when a strand has ended: wakers, destructors of leftover values.

use std::{
    future::IntoFuture,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker},
    time::Duration,
};

use crate::common;
use crate::common::{assert_success, child, is_child, one_worker, with_workers};
use ramie::{
    Runtime, Strands, channel,
    coro::Coroutine,
    fiber::{self, FiberId},
    no_switch,
    structured::{self, Failure},
};

/// How many locals of wakers were destroyed.
static DESTROYED: AtomicUsize = AtomicUsize::new(0);

struct WaitsWhenDropped;

impl Drop for WaitsWhenDropped {
    fn drop(&mut self) {
        fiber::sleep(Duration::from_millis(5));
        DESTROYED.fetch_add(1, SeqCst);
    }
}

ramie::fiber_local! {
    static LOCAL: WaitsWhenDropped = WaitsWhenDropped;
}

/// Initializes a local where it is called, and records the caller.
struct Touches(Mutex<Option<FiberId>>);

impl Wake for Touches {
    fn wake(self: Arc<Self>) {
        LOCAL.with(|_| ());
        *self.0.lock().unwrap() = Some(fiber::current().id());
    }
}

fn poll<F: Future>(future: &mut Pin<Box<F>>, waker: &Arc<Touches>) -> Poll<F::Output> {
    let waker = Waker::from(Arc::clone(waker));
    future.as_mut().poll(&mut Context::from_waker(&waker))
}

/// The waker runs when the strand's header belongs to the handle, or to another strand already.
fn check_waker_of_a_join() {
    let before = DESTROYED.load(SeqCst);
    let touches = Arc::new(Touches(Mutex::new(None)));
    let handle = fiber::spawn(|| fiber::sleep(Duration::from_millis(1)));
    let ended = handle.fiber().id();
    let mut joined = Box::pin(handle.into_future());
    assert!(poll(&mut joined, &touches).is_pending());
    common::wait_until(|| touches.0.lock().unwrap().is_some());
    assert!(poll(&mut joined, &touches).is_ready());
    // They take the header that is free now, and wait in it.
    let yields = |n| {
        for _ in 0..20 {
            fiber::sleep(Duration::from_micros(100));
        }
        n
    };
    let others: Vec<_> = (0..8).map(|n| fiber::spawn(move || yields(n))).collect();
    let values = others.into_iter().map(|other| other.join().unwrap());
    assert!(values.eq(0..8));
    common::wait_until(|| DESTROYED.load(SeqCst) == before + 1);
    let called_by = touches.0.lock().unwrap().unwrap();
    assert_ne!(called_by, ended, "the waker ran as the strand that had ended");
}

#[test]
fn a_waker_at_the_end_of_a_strand_runs_as_another() {
    if is_child() {
        with_workers(1).run(check_waker_of_a_join);
        with_workers(2).run(check_waker_of_a_join);
        let threads = Runtime::builder().strands(Strands::Threads).build().unwrap();
        threads.run(check_waker_of_a_join);
        return check_waker_of_a_join();
    }
    assert_success(&child("a_waker_at_the_end_of_a_strand_runs_as_another"));
}

/// Of a scope that waits only for the strand, not for the waker's locals.
#[test]
fn a_scope_ends_whatever_a_waker_leaves() {
    one_worker().run(|| {
        let touches = Arc::new(Touches(Mutex::new(None)));
        fiber::scope(|scope| {
            let mut joined = Box::pin(scope.spawn(fiber::yield_now).into_future());
            assert!(poll(&mut joined, &touches).is_pending());
            common::wait_until(|| touches.0.lock().unwrap().is_some());
        });
    });
}

#[test]
fn a_waker_that_panics_when_it_is_dropped_loses_no_wake_up() {
    const PANICS_WHEN_DROPPED: RawWakerVTable = RawWakerVTable::new(
        |data| RawWaker::new(data, &PANICS_WHEN_DROPPED),
        |_| (),
        |_| (),
        |_| panic!("a waker's destructor"),
    );
    one_worker().run(|| {
        let (sender, receiver) = channel::bounded(0);
        let sending = fiber::spawn(move || sender.send(1).is_ok());
        fiber::yield_now();
        let mut received = Box::pin((&receiver).into_future());
        let text = common::panic_text(|| {
            // SAFETY: it has no data.
            let waker = unsafe { Waker::new(std::ptr::null(), &PANICS_WHEN_DROPPED) };
            let waker = std::mem::ManuallyDrop::new(waker);
            // The poll makes a clone, which it does not need.
            let _ = received.as_mut().poll(&mut Context::from_waker(&waker));
        });
        assert_eq!(text, "a waker's destructor");
        let start = std::time::Instant::now();
        while !sending.is_finished() {
            assert!(start.elapsed() < Duration::from_secs(5), "the sender waits forever");
            fiber::yield_now();
        }
        assert!(sending.join().unwrap());
    });
}

/// A job that leaves its thread in a `no_switch` region does not leave the next one there.
#[test]
fn a_thread_of_the_pool_forgets_the_region_of_its_last_job() {
    let runtime = Runtime::builder().workers(1).blocking_threads(1).build().unwrap();
    runtime.run(|| {
        ramie::blocking(|| {
            let coroutine = Coroutine::new(|yielder, ()| no_switch(|| yielder.suspend(())));
            let _ = coroutine.resume(());
            std::mem::forget(coroutine);
        });
        ramie::blocking(|| fiber::sleep(Duration::from_millis(2)));
    });
}

struct Tricky;

impl Failure for Tricky {
    fn is_cancelled(&self) -> bool {
        panic!("asked of a failure")
    }
}

/// Waits until it is cancelled; the others of its scope have to see to that.
fn wait_to_be_cancelled(limit: &AtomicBool) {
    let start = std::time::Instant::now();
    while ramie::cancel::check_cancelled().is_ok() {
        if start.elapsed() > Duration::from_secs(5) {
            limit.store(true, SeqCst);
            return;
        }
        fiber::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_failure_that_panics_when_asked_cancels_the_others() {
    let is_late = AtomicBool::new(false);
    one_worker().run(|| {
        let text = common::panic_text(|| {
            structured::try_scope(|scope| {
                scope.spawn(|| {
                    wait_to_be_cancelled(&is_late);
                    Ok(())
                });
                scope.spawn(|| Err::<(), _>(Tricky));
                Ok(())
            })
        });
        assert_eq!(text, "asked of a failure");
        let text = common::panic_text(|| {
            structured::any(|racers| {
                racers.spawn_try(|| {
                    wait_to_be_cancelled(&is_late);
                    Ok(())
                });
                racers.spawn_try(|| Err(Tricky));
            })
        });
        assert_eq!(text, "asked of a failure");
        let text = common::panic_text(|| {
            structured::try_scope(|scope| {
                let started = scope.start(|_ready: structured::Ready<()>| Err(Tricky));
                assert!(started.is_err());
                Ok(())
            })
        });
        assert_eq!(text, "asked of a failure");
    });
    assert!(!is_late.into_inner(), "a sibling was not cancelled");
}

/// An outcome that a panic has kept from coming is not waited for.
#[test]
fn a_set_does_not_wait_for_a_strand_that_could_not_be_made() {
    let test = "a_set_does_not_wait_for_a_strand_that_could_not_be_made";
    if !is_child() {
        return assert_success(&common::child_with("true", test, &[("RAMIE_DRIVER", "poll")]));
    }
    common::unwatched_worker().run(|| {
        structured::set(|set| {
            common::limit_memory(1 << 20);
            let text = common::panic_text(|| {
                loop {
                    set.spawn(|| ());
                }
            });
            common::lift_memory_limit();
            assert!(text.contains("no memory for more strands"), "{text}");
            let waited_for = set.len();
            assert_eq!(set.outcomes().count(), waited_for);
        });
    });
}

struct PanicsWhenDropped;

impl Drop for PanicsWhenDropped {
    fn drop(&mut self) {
        std::panic::panic_any(PanicsWhenDropped);
    }
}

/// The panic's payload panics when it is dropped in its turn.
#[test]
fn a_local_whose_destructor_panics_ends_the_process_with_a_message() {
    ramie::fiber_local! {
        static LOUD: PanicsWhenDropped = PanicsWhenDropped;
    }
    if is_child() {
        return one_worker().run(|| fiber::spawn(|| LOUD.with(|_| ())).join().unwrap());
    }
    let output = child("a_local_whose_destructor_panics_ends_the_process_with_a_message");
    common::assert_aborted(&output, "the destructor of a fiber-local value panicked");
}

#[test]
fn a_supervisor_restarts_a_child_whose_payload_panics_when_dropped() {
    let lives = AtomicUsize::new(0);
    let supervised = one_worker().run(|| {
        structured::Supervisor::new().run(|supervised: &mut structured::Supervised<'_, ()>| {
            supervised.add("loud", || {
                if lives.fetch_add(1, SeqCst) == 0 {
                    std::panic::panic_any(PanicsWhenDropped);
                }
                Ok(())
            });
        })
    });
    assert!(supervised.is_ok());
    assert_eq!(lives.into_inner(), 2);
}
