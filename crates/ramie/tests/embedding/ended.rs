//! The end of a runtime as a future, for executors whose threads must not block.

use std::{
    future::{Future, poll_fn},
    panic::AssertUnwindSafe,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    task::{Context, Poll, Wake, Waker},
    thread,
    time::Duration,
};

use ramie::{Handle, Runtime, Strands, Turned, channel, fiber, future::block_on};

use super::{
    background::kinds,
    common::{Limit, assert_success, child, is_child, on_each, panic_text},
    ends::in_child,
};

/// A waker that counts its calls.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

fn poll<F: Future>(future: Pin<&mut F>, wakes: &Arc<Wakes>) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(&Waker::from(Arc::clone(wakes))))
}

#[test]
fn it_is_ready_when_all_fibers_have_ended() {
    let _limit = Limit::of_this_test();
    kinds(|runtime| {
        let runtime = runtime.start().unwrap();
        let (sender, receiver) = channel::bounded::<()>(1);
        let handle = runtime.handle();
        let waits = handle.spawn(move || assert!(receiver.recv().is_err())).unwrap();
        let wakes = Arc::<Wakes>::default();
        let mut ended = pin!(handle.ended());
        assert!(poll(ended.as_mut(), &wakes).is_pending());
        assert!(handle.is_open(), "it begins nothing");
        let mut shuts_down = pin!(runtime.shutdown_async(Duration::MAX));
        assert!(!handle.is_open(), "that has begun without a poll");
        assert!(poll(shuts_down.as_mut(), &wakes).is_pending());
        // A later poll replaces the waker of an earlier one.
        assert!(poll(ended.as_mut(), &Arc::default()).is_pending());
        assert!(poll(ended.as_mut(), &wakes).is_pending());
        drop(sender);
        waits.join().unwrap();
        assert_eq!(block_on(handle.ended()).count(), 0);
        super::common::wait_until(|| wakes.0.load(SeqCst) == 2);
        assert!(poll(ended, &wakes).is_ready() && poll(shuts_down, &wakes).is_ready());
        assert_eq!(block_on(handle.shutdown_async(Duration::ZERO)).count(), 0);
    });
}

#[test]
fn it_returns_what_was_abandoned() {
    let _limit = Limit::of_this_test();
    for workers in [1, 2] {
        let builder = Runtime::builder().strands(Strands::Fibers).workers(workers);
        let runtime = builder.build().unwrap().start().unwrap();
        let handle = runtime.handle();
        let stuck = handle.spawn(fiber::park).unwrap();
        assert_eq!(block_on(handle.shutdown_async(Duration::from_millis(2))).count(), 1);
        assert!(stuck.join().is_err());
        assert_eq!(block_on(runtime.shutdown_async(Duration::MAX)).count(), 1);
    }
}

/// The runtime ends all the same.
#[test]
fn it_may_be_dropped_at_any_time() {
    let _limit = Limit::of_this_test();
    kinds(|runtime| {
        let runtime = runtime.start().unwrap();
        let handle = runtime.handle();
        let wakes = Arc::<Wakes>::default();
        {
            let mut ended = pin!(handle.ended());
            assert!(poll(ended.as_mut(), &wakes).is_pending());
        }
        drop(handle.ended());
        assert_eq!(Arc::strong_count(&wakes), 1, "its waker is dropped with it");
        drop(runtime.shutdown_async(Duration::MAX));
        assert_eq!(handle.shutdown(Duration::MAX).count(), 0);
        assert_eq!(wakes.0.load(SeqCst), 0);
    });
}

#[test]
fn a_fiber_of_the_runtime_cannot_await_it() {
    let _limit = Limit::of_this_test();
    kinds(|runtime| {
        let runtime = runtime.start().unwrap();
        let awaits = || panic_text(|| block_on(Handle::current().ended()));
        let said = runtime.handle().spawn(awaits).unwrap().join().unwrap();
        assert!(said.contains("Handle::begin_shutdown"), "{said}");
        // One of another runtime can.
        let other = Runtime::builder().workers(1).build().unwrap().start().unwrap();
        let handle = runtime.handle();
        let awaits = other.handle().spawn(move || block_on(handle.ended()).count()).unwrap();
        drop(runtime);
        assert_eq!(awaits.join().unwrap(), 0);
    });
}

/// An executor on the thread of the loop gives turns while a task of it awaits the end.
#[test]
fn the_thread_of_a_loop_can_await_the_end_between_its_turns() {
    let _limit = Limit::of_this_test();
    on_each(&[1, 2], |runtime| {
        let mut guest = runtime.start_guest().unwrap();
        let handle = guest.handle();
        let fiber = guest.spawn_local(|| fiber::sleep(Duration::from_millis(1))).unwrap();
        let mut ended = pin!(handle.shutdown_async(Duration::MAX));
        let wakes = Arc::<Wakes>::default();
        while guest.turn(Duration::from_millis(1)) != Turned::Ended {
            assert!(poll(ended.as_mut(), &wakes).is_pending());
        }
        drop(guest);
        assert!(poll(ended, &wakes).is_ready());
        fiber.join().unwrap();
    });
}

#[test]
fn many_threads_await_it_at_once() {
    let _limit = Limit::of_this_test();
    kinds(|runtime| {
        let runtime = runtime.start().unwrap();
        let threads = [(); 8].map(|()| {
            let handle = runtime.handle();
            thread::spawn(move || {
                let mut ended = pin!(handle.ended());
                // Those that come too late do not wait.
                block_on(poll_fn(|context| ended.as_mut().poll(context))).count()
            })
        });
        drop(runtime);
        assert!(threads.into_iter().all(|thread| thread.join().unwrap() == 0));
    });
}

#[test]
fn it_is_ready_in_the_child_of_a_fork() {
    if !is_child() {
        return assert_success(&child("it_is_ready_in_the_child_of_a_fork"));
    }
    let _limit = Limit::of_this_test();
    let builder = Runtime::builder().strands(Strands::Fibers).workers(1);
    let runtime = builder.build().unwrap().start().unwrap();
    let handle = runtime.handle();
    let mut ended = pin!(handle.ended());
    let wakes = Arc::<Wakes>::default();
    assert!(poll(ended.as_mut(), &wakes).is_pending());
    let polled = AssertUnwindSafe(|| poll(ended.as_mut(), &wakes).is_ready());
    assert!(in_child(polled.0), "it is pending in the child");
}
