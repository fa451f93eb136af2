//! The report of a panic: once, where it belongs, under one name, with a backtrace that ends where
//! the program's code begins.

use std::{
    io::Read,
    process::{Command, Output},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};

use crate::common;
use crate::common::{child_with, is_child, one_worker, panic_text, stderr, with_workers};
use ramie::{
    fiber::{self, Builder},
    no_switch,
    sync::{Condvar, Event, Semaphore, oneshot},
};

/// Runs the test of this name, which must fail, in a process of its own, as the test harness runs
/// it: with its output kept for the end.
#[track_caller]
fn failing_child(test: &str) -> Output {
    let output = Command::new(std::env::current_exe().unwrap())
        .args([&*common::full_name(test), "--exact", "--test-threads=1"])
        .env("RAMIE_TEST_CHILD", "1")
        .env("RUST_BACKTRACE", "0")
        .output()
        .unwrap();
    assert!(!output.status.success(), "this should have failed");
    output
}

#[track_caller]
fn assert_reported_once(told: &str, message: &str) {
    assert_eq!(told.matches(message).count(), 1, "'{message}' is not there once: {told}");
    assert_eq!(told.matches("panicked at").count(), 1, "{told}");
}

#[test]
fn the_harness_keeps_a_fibers_panic_with_its_test() {
    if is_child() {
        return with_workers(2).run(|| {
            fiber::scope(|scope| {
                let on_worker = |index| Builder::new().on(fiber::Place::Worker(index));
                drop(on_worker(1).spawn_scoped(scope, || panic!("the child's message")).unwrap());
            });
        });
    }
    let output = failing_child("the_harness_keeps_a_fibers_panic_with_its_test");
    assert_reported_once(&String::from_utf8_lossy(&output.stdout), "the child's message");
    assert_eq!(stderr(&output).matches("panicked").count(), 0, "{}", stderr(&output));
}

#[test]
fn a_panic_of_a_fiber_is_shown_under_the_fibers_name() {
    let name = "a_panic_of_a_fiber_is_shown_under_the_fibers_name";
    if is_child() {
        let outcome = std::panic::catch_unwind(|| {
            one_worker().run(|| {
                fiber::scope(|scope| {
                    let named = Builder::new().name("careless".into());
                    drop(named.spawn_scoped(scope, || panic!("the child's message")).unwrap());
                });
            });
        });
        return assert!(outcome.is_err());
    }
    let told = stderr(&child_with("true", name, &[("RUST_BACKTRACE", "0")]));
    assert_reported_once(&told, "the child's message");
    let place = concat!("fiber 'careless' panicked at ", file!());
    assert!(told.contains(place), "{told}");
    assert!(!told.contains("thread '"), "{told}");

    let told = stderr(&child_with("true", name, &[("RUST_BACKTRACE", "1")]));
    assert_reported_once(&told, "the child's message");
    assert!(told.contains("panics_told::a_panic_of_a_fiber"), "the program's frames: {told}");
    for hidden in ["corosensei", "catch_unwind", "run_loop", "job", "report", "force_capture"] {
        assert!(!told.contains(hidden), "{hidden} is shown: {told}");
    }
    let told = stderr(&child_with("true", name, &[("RUST_BACKTRACE", "full")]));
    assert!(told.contains("corosensei"), "{told}");
    if cfg!(feature = "sanitizer") {
        // The frames of the worker are on another stack.
        return common::skipped("with AddressSanitizer a backtrace ends at the end of its stack");
    }
    assert!(told.contains("run_loop"), "{told}");
}

#[test]
fn a_hook_of_the_program_is_called_and_alone() {
    let name = "a_hook_of_the_program_is_called_and_alone";
    if is_child() {
        std::panic::set_hook(Box::new(|info| {
            eprintln!("own hook of {:?}: {info}", fiber::current().name());
        }));
        return one_worker().run(|| {
            let named = Builder::new().name("careless".into());
            assert!(named.spawn(|| panic!("the child's message")).unwrap().join().is_err());
        });
    }
    let told = stderr(&child_with("true", name, &[]));
    assert_reported_once(&told, "the child's message");
    assert!(told.contains("own hook of Some(\"careless\")"), "{told}");
}

#[test]
fn a_scope_carries_the_message_of_its_child() {
    let text = panic_text(|| {
        one_worker().run(|| {
            fiber::scope(|scope| {
                let named = Builder::new().name("careless".into());
                drop(named.spawn_scoped(scope, || panic!("no. {}", 5)).unwrap());
            });
        });
    });
    assert_eq!(text, "a strand of the scope panicked: fiber 'careless': no. 5");
    let text = panic_text(|| {
        one_worker().run(|| {
            fiber::scope(|scope| {
                let named = Builder::new().name("mute".into());
                let mute = || std::panic::panic_any(5);
                drop(named.spawn_scoped(scope, mute).unwrap());
            });
        });
    });
    assert_eq!(text, "a strand of the scope panicked: fiber 'mute'");
}

/// The output of a child process in which `f` panics. It fails, and its `f` does not end by itself.
#[track_caller]
fn told_by_failing(test: &str, f: impl FnOnce()) -> String {
    if is_child() {
        f();
        unreachable!("this should have panicked");
    }
    let output = common::child_with("true", test, &[("RUST_BACKTRACE", "0")]);
    assert!(!output.status.success(), "this should have failed");
    let told = stderr(&output);
    assert!(!told.contains("this should have panicked"), "{told}");
    told
}

/// Panics with `text`, without a call of the panic hook.
fn panic_silently(text: &str) -> ! {
    std::panic::resume_unwind(Box::new(text.to_owned()))
}

/// `resume_unwind` calls no hook, so only the scope can report why the program ends.
#[test]
fn a_scope_reports_a_panic_that_no_hook_has_reported() {
    let test = "a_scope_reports_a_panic_that_no_hook_has_reported";
    let told = told_by_failing(test, || {
        one_worker().run(|| {
            // On the same stack, a panic that the hook reported, and that was caught.
            let caught = || std::panic::catch_unwind(|| panic!("caught")).is_err();
            assert!(fiber::spawn(caught).join().unwrap());
            fiber::scope(|scope| {
                let named = Builder::new().name("quiet".into());
                // And so by this strand itself.
                let silent = || {
                    assert!(caught());
                    panic_silently("the reason")
                };
                drop(named.spawn_scoped(scope, silent).unwrap());
            });
        });
    });
    let sentence = "a strand of the scope panicked: fiber 'quiet': the reason";
    assert_eq!(told.matches(sentence).count(), 1, "{told}");
}

#[test]
fn a_scope_outside_of_run_reports_a_panic_that_no_hook_has_reported() {
    let test = "a_scope_outside_of_run_reports_a_panic_that_no_hook_has_reported";
    let told = told_by_failing(test, || {
        fiber::scope(|scope| drop(scope.spawn(|| panic_silently("the reason"))));
    });
    assert_eq!(told.matches("the reason").count(), 1, "{told}");
    assert_eq!(told.matches("panicked at").count(), 1, "{told}");
}

/// It was reported where it began, through however many strands it goes before it ends the program.
#[test]
fn a_panic_that_goes_through_joiners_is_reported_once() {
    let test = "a_panic_that_goes_through_joiners_is_reported_once";
    let told = told_by_failing(test, || {
        with_workers(2).run(|| {
            fiber::scope(|scope| {
                drop(scope.spawn(|| {
                    let failed = ramie::structured::try_scope(|scope| {
                        scope.spawn(|| {
                            ramie::join!(
                                ramie::structured::set(|set| {
                                    set.spawn(|| {
                                        ramie::structured::par_map([1], 1, |_| {
                                            ramie::blocking(|| panic!("the child's message"))
                                        })
                                    });
                                }),
                                2
                            );
                            Ok::<_, String>(())
                        });
                        Ok(())
                    });
                    failed.unwrap();
                }));
            });
        });
    });
    assert_reported_once(&told, "the child's message");
}

#[test]
fn a_panic_that_was_caught_and_raised_again_is_reported_once() {
    let test = "a_panic_that_was_caught_and_raised_again_is_reported_once";
    let told = told_by_failing(test, || {
        one_worker().run(|| {
            fiber::scope(|scope| {
                drop(scope.spawn(|| {
                    let number = 5;
                    let failing = || panic!("the child's message is no. {number}");
                    let payload = std::panic::catch_unwind(failing).unwrap_err();
                    std::panic::resume_unwind(payload)
                }));
            });
        });
    });
    assert_reported_once(&told, "the child's message");
}

#[test]
fn a_scope_outside_of_run_does_not_repeat_a_reported_panic() {
    let test = "a_scope_outside_of_run_does_not_repeat_a_reported_panic";
    let told = told_by_failing(test, || {
        fiber::scope(|scope| drop(scope.spawn(|| panic!("the child's message"))));
    });
    assert_reported_once(&told, "the child's message");
}

/// The message of a panic belongs to the program, even if it contains words of the runtime.
#[test]
fn the_text_of_a_panic_decides_nothing() {
    let name = "the_text_of_a_panic_decides_nothing";
    if !is_child() {
        // The hook is the process's.
        return common::assert_success(&common::child(name));
    }
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    std::panic::set_hook(Box::new(|_| {
        CALLS.fetch_add(1, SeqCst);
    }));
    let fails = |number: i32| -> i32 { panic!("engine {number} cannot start: no fuel") };
    let check = |f: &dyn Fn()| {
        let said = panic_text(|| with_workers(2).run(f));
        if (said.as_str(), CALLS.swap(0, SeqCst)) != ("engine 7 cannot start: no fuel", 1) {
            eprintln!("'{said}' is not what was said, or not once");
            std::process::exit(1);
        }
    };
    check(&|| {
        let _ = ramie::join!(fails(7), 2);
    });
    check(&|| drop(fiber::on_each_worker(|worker| worker == 0 || fails(7) == 0)));
    check(&|| {
        ramie::structured::set(|set| set.spawn(|| fails(7)));
    });
    check(&|| {
        let _ = ramie::structured::try_scope(|scope| {
            scope.spawn(|| Ok::<_, String>(fails(7))).join().map_err(|error| error.to_string())
        });
    });
    check(&|| {
        let _ = ramie::structured::race(|racers| racers.spawn(|| fails(7)));
    });
    check(&|| drop(ramie::structured::par_map([7], 1, fails)));
}

/// The place and the message of the last panic.
static LAST: Mutex<String> = Mutex::new(String::new());

#[test]
// The caller of a function that is passed on is whoever calls it there.
#[allow(clippy::redundant_closure)]
fn a_call_that_no_switch_refuses_is_named_with_its_caller() {
    if !is_child() {
        // The hook is the process's.
        let output = common::child("a_call_that_no_switch_refuses_is_named_with_its_caller");
        return common::assert_success(&output);
    }
    std::panic::set_hook(Box::new(|info| *LAST.lock().unwrap() = info.to_string()));
    let refused = |what: &str, f: &mut dyn FnMut()| {
        panic_text(|| no_switch(&mut *f));
        let told = LAST.lock().unwrap().clone();
        if !told.contains(file!()) {
            eprintln!("{what} is not named by its caller: {told}");
            std::process::exit(1);
        }
    };
    one_worker().run(|| {
        let second = Duration::from_secs(1);
        refused("yield_now", &mut || fiber::yield_now());
        refused("park", &mut || fiber::park());
        refused("sleep", &mut || fiber::sleep(second));
        refused("park_timeout", &mut || fiber::park_timeout(second));
        refused("join", &mut || drop(fiber::spawn(fiber::yield_now).join()));
        refused("blocking", &mut || ramie::blocking(|| ()));
        refused("scope", &mut || fiber::scope(|_| ()));
        let (_sender, receiver) = oneshot::channel::<u8>();
        let mut receiver = Some(receiver);
        refused("oneshot", &mut || {
            let _ = receiver.take().unwrap().recv();
        });
        let (_sender, receiver) = ramie::channel::bounded::<u8>(0);
        refused("channel", &mut || {
            let _ = receiver.recv();
        });
        refused("select", &mut || {
            ramie::select! {
                recv(receiver) -> _value => {}
            }
        });
        let (_sender, never) = ramie::channel::bounded::<u8>(0);
        let (_sender, receiver) = ramie::sync::mpsc::channel::<u8>();
        refused("mpsc", &mut || {
            let _ = receiver.recv();
        });
        let (lock, condvar) = (ramie::sync::Mutex::new(()), Condvar::new());
        refused("Condvar", &mut || {
            drop(condvar.wait(lock.lock().unwrap_or_else(|e| e.into_inner())))
        });
        refused("Event", &mut || drop(Event::new().wait()));
        refused("Select", &mut || {
            ramie::channel::Select::new().recv(&never, drop).wait();
        });
        refused("Select in time", &mut || {
            ramie::channel::Select::new().recv(&never, drop).wait_timeout(second);
        });
        let ended = ramie::coro::Coroutine::<(), (), ()>::new(|_, ()| ());
        ended.resume(());
        refused("resume", &mut || {
            ended.resume(());
        });
        refused("Semaphore", &mut || drop(Semaphore::new(0).acquire()));
        refused("block_on", &mut || ramie::future::block_on(std::future::pending::<()>()));
        let (mut reader, _writer) = ramie::io::pipe().unwrap();
        refused("read", &mut || drop(reader.read(&mut [0])));
        let listener = ramie::net::TcpListener::bind("127.0.0.1:0").unwrap();
        refused("accept", &mut || drop(listener.accept()));
        let lock = ramie::sync::Mutex::new(());
        fiber::scope(|scope| {
            let guard = lock.lock().unwrap();
            scope.spawn_local(|| refused("lock", &mut || drop(lock.lock())));
            fiber::yield_now();
            drop(guard);
        });
    });
}
