//! Overflows are reported, and other faults reach the previous handler.
//!
//! A program of its own, because its handlers of SIGSEGV are the process's.

mod common;

use std::{
    ffi::c_void,
    sync::atomic::{AtomicUsize, Ordering},
};

use common::{assert_signal, assert_success, child, is_child, stderr, use_stack};
use ramie_coro::{
    Builder, Coroutine, Stack, StackInfo, StackPool, StackSize, bare::BareCoroutine, overflow,
};

fn overflow_a_coroutine(label: Option<&str>) {
    let builder = Builder::new().stack_size(64 * 1024);
    let builder = label.into_iter().fold(builder, Builder::label);
    let coroutine: Coroutine<(), (), u8> = builder.build(|_, ()| use_stack(1 << 30)).unwrap();
    coroutine.resume(());
}

#[test]
fn an_overflow_names_the_coroutine() {
    if is_child() {
        return overflow_a_coroutine(Some("the parser"));
    }
    let output = child("an_overflow_names_the_coroutine");
    assert_signal(&output, libc::SIGABRT);
    let report = stderr(&output);
    assert!(
        report.contains("the parser has overflowed its stack: all 65536 bytes usable"),
        "{report}"
    );
    assert!(report.contains("Builder::stack_size"), "{report}");
}

#[test]
fn an_unlabelled_overflow_is_reported() {
    if is_child() {
        return overflow_a_coroutine(None);
    }
    let output = child("an_unlabelled_overflow_is_reported");
    assert_signal(&output, libc::SIGABRT);
    assert!(stderr(&output).contains("a coroutine has overflowed its stack"));
}

/// Takes a stack, labels it, returns it by `give_back`, and overflows the same stack on its next
/// use.
fn overflow_a_stack_that_was_labelled(give_back: fn(&mut StackPool, Stack)) {
    let mut pool = StackPool::new(StackSize::new(64 * 1024).unwrap());
    let stack = pool.take().unwrap();
    let base = stack.base();
    stack.set_label(Some("its former user".into()));
    give_back(&mut pool, stack);
    let others = (0..64).map_while(|_| pool.take().ok());
    let again = others.into_iter().find(|stack| stack.base() == base).expect("it is used again");
    let mut deep: BareCoroutine<(), (), u8> =
        BareCoroutine::with_stack(again, |_, ()| use_stack(1 << 30));
    deep.resume(());
}

#[test]
fn a_stack_that_is_used_again_has_lost_its_label() {
    const NAME: &str = "a_stack_that_is_used_again_has_lost_its_label";
    if is_child() {
        return overflow_a_stack_that_was_labelled(StackPool::put);
    }
    let output = child(NAME);
    assert_signal(&output, libc::SIGABRT);
    let report = stderr(&output);
    assert!(report.contains("a coroutine has overflowed its stack"), "{report}");
}

#[test]
fn a_stack_that_was_dropped_has_lost_its_label() {
    if is_child() {
        return overflow_a_stack_that_was_labelled(|_, stack| drop(stack));
    }
    let output = child("a_stack_that_was_dropped_has_lost_its_label");
    assert_signal(&output, libc::SIGABRT);
    let report = stderr(&output);
    assert!(report.contains("a coroutine has overflowed its stack"), "{report}");
}

#[test]
fn mprotect_guards_are_reported_too() {
    if is_child() {
        ramie_coro::force_protection();
        return overflow_a_coroutine(None);
    }
    let output = child("mprotect_guards_are_reported_too");
    assert_signal(&output, libc::SIGABRT);
    assert!(stderr(&output).contains("a coroutine has overflowed its stack"));
}

#[test]
fn a_runtime_describes_what_is_running() {
    if is_child() {
        let describe = |stack: &StackInfo, out: &mut dyn std::fmt::Write| {
            let size = stack.size().usable_bytes();
            write!(out, "Fiber {} was running on {size} bytes.", 42).is_ok()
        };
        // SAFETY: it only writes.
        unsafe { overflow::set_describer(describe) };
        // SAFETY: it is never called.
        unsafe { overflow::set_describer(|_, _| unreachable!("the first one stays")) };
        return overflow_a_coroutine(None);
    }
    let output = child("a_runtime_describes_what_is_running");
    assert_signal(&output, libc::SIGABRT);
    assert!(stderr(&output).contains("Fiber 42 was running on 65536 bytes."));
}

/// On a thread without a fiber.
#[test]
fn a_runtime_that_describes_nothing_leaves_the_remedy() {
    if is_child() {
        // SAFETY: it does nothing.
        unsafe { overflow::set_describer(|_, _| false) };
        return overflow_a_coroutine(None);
    }
    let output = child("a_runtime_that_describes_nothing_leaves_the_remedy");
    assert_signal(&output, libc::SIGABRT);
    assert!(stderr(&output).contains(overflow::REMEDY), "{}", stderr(&output));
}

#[test]
fn an_overflow_names_the_nested_coroutine_and_not_its_resumer() {
    if is_child() {
        let outer =
            Builder::new().label("outer").build(|_, ()| overflow_a_coroutine(Some("inner")));
        let outer: Coroutine<(), (), ()> = outer.unwrap();
        outer.resume(());
        return;
    }
    let output = child("an_overflow_names_the_nested_coroutine_and_not_its_resumer");
    assert_signal(&output, libc::SIGABRT);
    let report = stderr(&output);
    assert!(report.contains("inner has overflowed") && !report.contains("outer has"), "{report}");
}

extern "C" fn overflow_without_std(_: *mut c_void) -> *mut c_void {
    overflow_a_coroutine(Some("on a C thread"));
    std::ptr::null_mut()
}

#[test]
fn a_thread_not_made_by_std_gets_a_signal_stack() {
    if is_child() {
        let mut thread: libc::pthread_t = 0;
        // SAFETY: the function takes and returns a pointer and lives forever.
        let result = unsafe {
            libc::pthread_create(
                &mut thread,
                std::ptr::null(),
                overflow_without_std,
                std::ptr::null_mut(),
            )
        };
        assert_eq!(result, 0);
        // SAFETY: just created, joined once.
        unsafe { libc::pthread_join(thread, std::ptr::null_mut()) };
        return;
    }
    let output = child("a_thread_not_made_by_std_gets_a_signal_stack");
    assert_signal(&output, libc::SIGABRT);
    assert!(stderr(&output).contains("on a C thread has overflowed its stack"));
}

extern "C" fn end_quietly(_: *mut c_void) -> *mut c_void {
    Coroutine::<(), (), ()>::new(|_, ()| ()).resume(());
    std::ptr::null_mut()
}

#[test]
fn a_thread_not_made_by_std_ends_cleanly() {
    for _ in 0..10 {
        let mut thread: libc::pthread_t = 0;
        let none = std::ptr::null();
        // SAFETY: the function takes and returns a pointer and lives forever.
        let result =
            unsafe { libc::pthread_create(&mut thread, none, end_quietly, std::ptr::null_mut()) };
        assert_eq!(result, 0);
        // SAFETY: just created, joined once.
        assert_eq!(unsafe { libc::pthread_join(thread, std::ptr::null_mut()) }, 0);
    }
}

/// Faults on an unmapped address.
fn fault() {
    let nowhere: *mut u8 = std::hint::black_box(std::ptr::without_provenance_mut(0x1230));
    // SAFETY: none; the test expects the fault.
    unsafe { nowhere.write_volatile(1) };
}

#[test]
fn other_faults_kill_as_without_the_handler() {
    if is_child() {
        overflow::install();
        return fault();
    }
    let output = child("other_faults_kill_as_without_the_handler");
    assert_signal(&output, libc::SIGSEGV);
    assert!(!stderr(&output).contains("overflowed"));
}

#[test]
fn a_stray_access_to_a_guard_is_no_overflow() {
    if is_child() {
        let stack = ramie_coro::StackPool::new(Default::default()).take().unwrap();
        let guard = std::ptr::with_exposed_provenance_mut::<u8>(stack.limit().get());
        // SAFETY: none; the test expects the fault.
        return unsafe { guard.write_volatile(1) };
    }
    let output = child("a_stray_access_to_a_guard_is_no_overflow");
    assert_signal(&output, libc::SIGSEGV);
    assert!(!stderr(&output).contains("overflowed"));
}

#[test]
fn a_sent_signal_kills_as_without_the_handler() {
    if is_child() {
        reset_to_default(libc::SIGSEGV);
        overflow::install();
        // SAFETY: takes an integer.
        unsafe { libc::raise(libc::SIGSEGV) };
        unreachable!("the default action ends the process");
    }
    assert_signal(&child("a_sent_signal_kills_as_without_the_handler"), libc::SIGSEGV);
}

#[test]
fn a_fault_with_the_default_action_kills() {
    if is_child() {
        reset_to_default(libc::SIGSEGV);
        overflow::install();
        return fault();
    }
    assert_signal(&child("a_fault_with_the_default_action_kills"), libc::SIGSEGV);
}

/// A program that ignores SIGSEGV survives one sent by a process, and the handler stays installed.
#[test]
fn an_ignored_signal_that_was_sent_changes_nothing() {
    if is_child() {
        // SAFETY: no handler.
        unsafe { libc::signal(libc::SIGSEGV, libc::SIG_IGN) };
        overflow::install();
        // SAFETY: takes an integer.
        unsafe { libc::raise(libc::SIGSEGV) };
        return overflow_a_coroutine(Some("the parser"));
    }
    let output = child("an_ignored_signal_that_was_sent_changes_nothing");
    assert_signal(&output, libc::SIGABRT);
    let report = stderr(&output);
    assert!(report.contains("the parser has overflowed its stack"), "{report}");
}

fn reset_to_default(signal: libc::c_int) {
    // SAFETY: no handler.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
}

static SEEN: AtomicUsize = AtomicUsize::new(0);

extern "C" fn users_handler(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: SA_SIGINFO: the kernel passes the description.
    let info = unsafe { &*info };
    // SAFETY: a fault has an address.
    let address = unsafe { info.si_addr() } as usize;
    // SAFETY: ends the process at once, which is allowed in a handler.
    unsafe { libc::_exit(if address == 0x1230 { 42 } else { 1 }) };
}

#[test]
fn a_previous_handler_gets_other_faults() {
    if is_child() {
        set_handler(libc::SIGSEGV, users_handler, libc::SA_SIGINFO);
        overflow::install();
        return fault();
    }
    assert_eq!(child("a_previous_handler_gets_other_faults").status.code(), Some(42));
}

extern "C" fn plain_handler(signal: libc::c_int) {
    // SAFETY: ends the process at once, which is allowed in a handler.
    unsafe { libc::_exit(if signal == libc::SIGSEGV { 43 } else { 1 }) };
}

#[test]
fn a_previous_handler_of_the_old_kind_gets_other_faults() {
    if is_child() {
        let handler: extern "C" fn(libc::c_int) = plain_handler;
        // SAFETY: the handler has the type that `signal` expects.
        unsafe { libc::signal(libc::SIGSEGV, handler as libc::sighandler_t) };
        overflow::install();
        return fault();
    }
    let output = child("a_previous_handler_of_the_old_kind_gets_other_faults");
    assert_eq!(output.status.code(), Some(43));
}

type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut c_void);

fn set_handler(signal: libc::c_int, handler: Handler, flags: libc::c_int) {
    // SAFETY: plain integers, for which zero is valid.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as usize;
    action.sa_flags = flags;
    // SAFETY: the handler has the type that the flags select.
    assert_eq!(unsafe { libc::sigaction(signal, &action, std::ptr::null_mut()) }, 0);
}

extern "C" fn counting_handler(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut c_void) {
    let local = 0_u8;
    if overflow::stack_of(&raw const local as usize).is_none() {
        SEEN.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn a_signal_handler_runs_beside_a_coroutines_stack() {
    if !is_child() {
        return assert_success(&child("a_signal_handler_runs_beside_a_coroutines_stack"));
    }
    set_handler(libc::SIGUSR1, counting_handler, libc::SA_SIGINFO | libc::SA_ONSTACK);
    let coroutine: Coroutine<(), (), ()> = Coroutine::new(|yielder, ()| {
        // SAFETY: takes an integer.
        unsafe { libc::raise(libc::SIGUSR1) };
        yielder.suspend(());
        // SAFETY: as above.
        unsafe { libc::raise(libc::SIGUSR1) };
    });
    coroutine.resume(());
    coroutine.resume(());
    assert_eq!(SEEN.load(Ordering::Relaxed), 2);
}
