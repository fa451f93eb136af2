//! Hazards of stackful fibers: overflows, thread-locals, signals, locks of std.

use std::{
    cell::{Cell, RefCell},
    sync::{
        Mutex as StdMutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::common;
use crate::common::{
    assert_aborted, child, child_with, is_child, one_worker, panic_text, with_workers,
};
use ramie::fiber::{self, Builder};

#[inline(never)]
fn descend(left: usize) -> usize {
    let frame = std::hint::black_box([1_u8; 1024]);
    if left == 0 { frame[0].into() } else { descend(left - 1) + usize::from(frame[9]) }
}

#[test]
fn an_overflow_names_the_fiber_and_the_cure() {
    if is_child() {
        return one_worker().run(|| {
            let deep = Builder::new().name("parser".into()).stack_size(64 * 1024);
            deep.spawn(|| descend(1 << 20)).unwrap().join().unwrap();
        });
    }
    let output = child("an_overflow_names_the_fiber_and_the_cure");
    for sentence in [
        "overflowed its stack: all 65536 bytes",
        "It is the stack of fiber 'parser'; enlarge it",
        "RAMIE_STACK",
    ] {
        assert_aborted(&output, sentence);
    }
}

/// The variable would not enlarge the stack of the body.
#[test]
fn an_overflow_of_a_coroutine_names_its_fiber_and_another_cure() {
    struct Ask;
    impl ramie::effect::Effect for Ask {
        type Output = ();
    }
    if is_child() {
        return one_worker().run(|| {
            ramie::effect::handle(|| descend(1 << 20), |_: Ask, resume| resume.with(()));
        });
    }
    let output = child("an_overflow_of_a_coroutine_names_its_fiber_and_another_cure");
    assert_aborted(&output, "fiber 'main' runs it in a coroutine");
    assert_aborted(&output, "Builder::stack_size");
    assert!(!common::stderr(&output).contains("RAMIE_STACK"), "{}", common::stderr(&output));
}

#[test]
fn an_overflow_of_a_coroutine_outside_of_fibers_names_the_cure() {
    if is_child() {
        return one_worker().run(|| {
            ramie::blocking(|| {
                let deep = ramie::coro::Coroutine::<(), (), usize>::new(|_, ()| descend(1 << 20));
                deep.resume(());
            });
        });
    }
    let output = child("an_overflow_of_a_coroutine_outside_of_fibers_names_the_cure");
    assert_aborted(&output, "a coroutine has overflowed its stack");
    assert_aborted(&output, "Builder::stack_size");
}

#[test]
fn an_overflow_on_a_worker_thread_is_reported_too() {
    if is_child() {
        return with_workers(2).run(|| {
            drop(fiber::spawn(|| descend(1 << 20)));
            loop {
                std::hint::spin_loop();
            }
        });
    }
    let name = "an_overflow_on_a_worker_thread_is_reported_too";
    let output = child_with("true", name, &[("RAMIE_STACK", "131072")]);
    assert_aborted(&output, "131072 bytes usable");
    assert_aborted(&output, ".1");
}

#[test]
fn the_closure_of_run_has_the_stack_of_a_thread() {
    assert!(one_worker().run(|| descend(700)) > 700);
}

/// A borrow held across a switch is seen by the others, as a borrow across a callback would be.
#[test]
fn fibers_of_one_worker_share_its_thread_locals() {
    thread_local! {
        static SCRATCH: RefCell<u8> = const { RefCell::new(0) };
        static COUNT: Cell<u32> = const { Cell::new(0) };
    }
    one_worker().run(|| {
        let holds = fiber::spawn(|| SCRATCH.with_borrow_mut(|_| fiber::yield_now()));
        let meets = fiber::spawn(|| SCRATCH.with(|scratch| scratch.try_borrow().is_err()));
        assert!(meets.join().unwrap());
        holds.join().unwrap();
        // The address stays the same across switches: a fiber never leaves its thread.
        let counts = || {
            for _ in 0..100 {
                COUNT.with(|count| {
                    let before = count.get();
                    count.set(before + 1);
                    fiber::yield_now();
                    assert!(count.get() > before);
                });
            }
        };
        let strands = [(); 3].map(|()| fiber::spawn(counts));
        strands.into_iter().for_each(|strand| strand.join().unwrap());
        assert_eq!(COUNT.get(), 300);
    });
}

/// A std lock may be held across a switch; only waiting for it would block the worker.
#[test]
fn a_std_lock_held_across_a_switch_is_seen_by_try_lock() {
    static LOCK: StdMutex<()> = StdMutex::new(());
    one_worker().run(|| {
        let holds = fiber::spawn(|| {
            let _held = LOCK.lock().unwrap();
            fiber::yield_now();
        });
        fiber::yield_now();
        assert!(LOCK.try_lock().is_err());
        holds.join().unwrap();
        assert!(LOCK.try_lock().is_ok());
    });
}

/// A handler runs on the signal stack, however little of the fiber's is left.
#[test]
fn signal_handlers_run_on_their_own_stack() {
    static SEEN: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn handler(_: libc::c_int) {
        let here = 0_u8;
        SEEN.store((&raw const here).addr(), Ordering::SeqCst);
    }
    one_worker().run(|| {
        let here = 0_u8;
        // SAFETY: all zero is a valid sigaction; the mask is then empty.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_ONSTACK;
        // SAFETY: the handler only stores into an atomic.
        let installed = unsafe { libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()) };
        assert_eq!(installed, 0);
        // SAFETY: the signal has a handler.
        unsafe { libc::raise(libc::SIGUSR1) };
        fiber::yield_now();
        let distance = SEEN.load(Ordering::SeqCst).abs_diff((&raw const here).addr());
        assert!(distance > 2 * 1024 * 1024, "{distance} bytes from the fiber's frame");
    });
}

#[test]
fn a_panic_does_not_pass_the_first_frame_of_a_fiber() {
    one_worker().run(|| {
        let text = panic_text(|| {
            let payload = fiber::spawn(|| panic!("expected")).join().unwrap_err();
            std::panic::resume_unwind(payload);
        });
        assert_eq!(text, "expected");
    });
}

#[test]
fn a_fiber_that_joins_itself_panics_with_the_reason() {
    ramie::run(|| {
        let (give, take) = ramie::sync::oneshot::channel::<fiber::JoinHandle<()>>();
        let (told, hear) = ramie::sync::oneshot::channel();
        let myself = fiber::spawn(move || {
            let own_handle = take.recv().unwrap();
            let joined = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let _ = own_handle.join();
            }));
            told.send(joined.is_err()).unwrap();
        });
        assert!(give.send(myself).is_ok());
        assert_eq!(hear.recv(), Ok(true));
    });
}

/// A handler that waits, on the signal stack.
extern "C" fn waits(_: libc::c_int) {
    // Long, because a sleep whose time is over already does not wait.
    fiber::sleep(std::time::Duration::from_secs(60));
}

#[test]
fn a_signal_handler_that_waits_ends_the_process_with_a_sentence() {
    if !common::is_child() {
        let child = common::child("a_signal_handler_that_waits_ends_the_process_with_a_sentence");
        return common::assert_aborted(&child, "a signal handler called something that waits");
    }
    common::one_worker().run(|| {
        // SAFETY: zero is a valid action.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = waits as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_ONSTACK;
        // SAFETY: the handler is the misuse that is tried here; it ends the process.
        unsafe { libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()) };
        // SAFETY: sends a signal to this thread.
        unsafe { libc::raise(libc::SIGUSR1) };
    });
}
