//! Fibers that stall their worker in the panic hook, and behind it.

use std::{
    sync::{Mutex, mpsc},
    thread,
    time::Duration,
};

use ramie::{Stall, StallCause, fiber};

use crate::{
    REPORTED,
    common::{Limit, assert_success, child_with, is_child},
    compute,
    memory::{has_slow_pages, touch_a_slow_page},
    reports::{FIFTY, Found, stall_of},
};

fn computes() {
    compute(10 * FIFTY);
}

fn sleeps() {
    thread::sleep(10 * FIFTY);
}

/// As for the lock of backtraces, which another thread may hold.
fn waits_for_a_futex() {
    let (_sender, receiver) = mpsc::channel::<()>();
    assert!(receiver.recv_timeout(10 * FIFTY).is_err());
}

fn panics() {
    drop(std::panic::catch_unwind(|| panic!("on purpose")));
}

/// Symbols of a first backtrace take some hundred milliseconds in a debug build. They are read from
/// the mapped program.
#[test]
fn a_panic_hook_that_takes_long_is_named_and_hides_no_blocking_call() {
    let test = "a_panic_hook_that_takes_long_is_named_and_hides_no_blocking_call";
    if !is_child() {
        return assert_success(&child_with("true", test, &[REPORTED]));
    }
    static IN_HOOK: Mutex<fn()> = Mutex::new(computes);
    std::panic::set_hook(Box::new(|_| {
        let f = *IN_HOOK.lock().unwrap();
        f();
    }));
    // Looks of the watchdog that come late on a busy machine find nothing.
    let stall_in_hook = |f| -> Stall {
        *IN_HOOK.lock().unwrap() = f;
        let stall = stall_of(1, panics);
        assert!(stall.is_in_panic_hook(), "{stall}");
        assert_eq!(stall.to_string().matches("it reports a panic: ").count(), 1, "{stall}");
        stall
    };
    let stall = stall_in_hook(computes);
    assert!(matches!(stall.cause(), StallCause::PanicHook(_)), "{stall}");
    let stall = stall_in_hook(sleeps);
    assert_eq!(*stall.cause(), StallCause::SystemCall("clock_nanosleep".to_owned()));
    let stall = stall_in_hook(waits_for_a_futex);
    assert!(matches!(stall.cause(), StallCause::Lock(_)), "{stall}");
    assert!(stall.to_string().contains("RUST_BACKTRACE=0"), "{stall}");
    if has_slow_pages() {
        let stall = stall_in_hook(touch_a_slow_page);
        assert!(matches!(stall.cause(), StallCause::PanicHook(_)), "{stall}");
    }
    *IN_HOOK.lock().unwrap() = computes;
    computes_behind_a_panic_hook();
    drop(std::panic::take_hook());
}

/// What a fiber computes behind the hook, in the same turn, is another stall. This ends when it is
/// found.
fn computes_behind_a_panic_hook() {
    let _limit = Limit::of_this_test();
    let found = Found::default();
    let is_found = {
        let found = found.clone();
        move || {
            let stalls = found.0.lock().unwrap();
            stalls.iter().any(|stall| matches!(stall.cause(), StallCause::Computing(_)))
        }
    };
    found.builder().workers(1).build().unwrap().run(|| {
        let panics_and_computes = move || {
            drop(std::panic::catch_unwind(|| panic!("on purpose")));
            while !is_found() {
                compute(Duration::from_millis(1));
            }
        };
        fiber::spawn(panics_and_computes).join().unwrap();
    });
}
