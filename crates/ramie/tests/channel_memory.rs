//! A channel keeps the order of values that came back, and no memory that it does not need.
//!
//! A program of its own, because it replaces the allocator.

mod common;

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use ramie::{Runtime, channel, fiber};

/// Counts the bytes of large allocations, such as the queue of a long channel.
struct Counting;

static LARGE: AtomicUsize = AtomicUsize::new(0);

const LARGE_BYTES: usize = 1 << 20;

// SAFETY: the system's allocator, beside which numbers are counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.size() >= LARGE_BYTES {
            LARGE.fetch_add(layout.size(), Relaxed);
        }
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if layout.size() >= LARGE_BYTES {
            LARGE.fetch_sub(layout.size(), Relaxed);
        }
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// The count is the process's, so one test runs at a time.
static TURN: Mutex<()> = Mutex::new(());

#[test]
fn a_queue_that_was_long_gives_its_memory_back() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    const VALUES: u64 = 1 << 20;
    let before = LARGE.load(Relaxed);
    let (sender, receiver) = channel::unbounded();
    for value in 0..VALUES {
        sender.send(value).unwrap();
    }
    let full = LARGE.load(Relaxed) - before;
    assert!(full >= VALUES as usize * 8, "the queue is not among the {full} bytes counted");
    for value in 0..VALUES - 10 {
        assert_eq!(receiver.recv(), Ok(value));
    }
    let kept = LARGE.load(Relaxed) - before;
    assert_eq!(kept, 0, "a channel of 10 values keeps {kept} bytes of {full}");
    assert_eq!(receiver.iter().take(10).count(), 10);
}

/// The receiver to which a value was handed is given up before it runs: that value was first.
#[test]
fn a_value_that_comes_back_is_the_first_again() {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (sender, receiver) = channel::bounded(4);
    let impatient = Runtime::builder().workers(1).grace(Duration::ZERO).on_abandoned(|_| {});
    let (given, kept) = (sender.clone(), receiver.clone());
    impatient.build().unwrap().run(move || {
        fiber::spawn(move || kept.recv());
        // So many that the runtime ends before the woken one's turn has come.
        for _ in 0..100 {
            fiber::spawn(|| {
                loop {
                    fiber::yield_now();
                }
            });
        }
        fiber::yield_now();
        for value in 1..=3 {
            given.send(value).unwrap();
        }
    });
    assert_eq!([(); 3].map(|()| receiver.try_recv()), [Ok(1), Ok(2), Ok(3)]);
    assert!(sender.try_send(4).is_ok());
}
