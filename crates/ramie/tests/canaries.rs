//! Faults on purpose, each of which a lane in `.ci/` must catch: a lane runs its canary first, and
//! fails if that passes.

use std::{
    cell::UnsafeCell,
    sync::{Barrier, mpsc},
    thread,
};

use ramie::{
    Runtime, Strands,
    fiber::{self, Place},
};

/// For `.ci/limit`, which names it.
#[test]
#[ignore = "hangs on purpose, for .ci/limit"]
fn a_lost_wake_up_hangs_forever() {
    let (sender, receiver) = mpsc::channel::<()>();
    let waiting = thread::spawn(move || receiver.recv());
    waiting.join().expect("it never ends").expect("nobody sends");
    drop(sender);
}

fn read_freed_value() -> u8 {
    let value = Box::new(7_u8);
    let freed = &raw const *value;
    drop(value);
    // SAFETY: none: this is the fault that must be caught.
    unsafe { freed.read_volatile() }
}

/// For `.ci/address`. On a fiber, whose stack the sanitizer must know.
#[test]
#[ignore = "reads freed memory on purpose, for .ci/address"]
fn a_freed_value_is_read_on_a_fiber() {
    ramie::run(|| println!("{}", read_freed_value()));
}

/// For `.ci/miri`, which knows no fiber.
#[test]
#[ignore = "reads freed memory on purpose, for .ci/miri"]
fn a_freed_value_is_read_on_a_thread() {
    println!("{}", read_freed_value());
}

/// For `.ci/thread`, the lane of ThreadSanitizer.
#[test]
#[ignore = "races on purpose, for .ci/thread"]
fn two_threads_write_without_order() {
    write_without_order(|write| {
        thread::scope(|s| {
            s.spawn(write);
            s.spawn(write);
        });
    });
}

/// As above, with the accesses on the stacks of fibers.
#[test]
#[ignore = "races on purpose, for .ci/thread"]
fn two_fibers_write_without_order() {
    write_without_order(|write| {
        let builder = Runtime::builder().strands(Strands::Fibers).workers(2);
        builder.build().unwrap().run(|| {
            fiber::scope(|s| {
                for worker in [0, 1] {
                    let there = fiber::Builder::new().on(Place::Worker(worker));
                    there.spawn_scoped(s, write).unwrap();
                }
            });
        });
    });
}

/// Lets `run_twice` call a closure on two threads at once; both write to the same place.
fn write_without_order(run_twice: impl FnOnce(&(dyn Fn() + Sync))) {
    struct Shared(UnsafeCell<u64>);
    // SAFETY: none: this is the fault that must be caught.
    unsafe impl Sync for Shared {}
    impl Shared {
        fn add(&self) {
            // SAFETY: none, as above.
            unsafe { *self.0.get() += 1 };
        }
    }
    let shared = Shared(UnsafeCell::new(0));
    // At once, or the sanitizer may have forgotten the first thread when the second writes.
    let both_run = Barrier::new(2);
    run_twice(&|| {
        both_run.wait();
        (0..1000).for_each(|_| shared.add());
    });
}
