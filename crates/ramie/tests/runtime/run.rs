//! `run`: its value, the time of its return, and the state that it leaves behind.

use std::{
    io::ErrorKind,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use crate::common::{
    self, assert_success, child, child_with, descriptors, is_child, on_each, one_worker,
    panic_text, stderr, text, threads, wait_until, with_workers,
};
use ramie::{Runtime, Strands, channel, fiber, io::Polled, sync::Event, time::ManualClock};
use rustix::process::{Resource, Rlimit, setrlimit};

#[test]
fn run_returns_the_value_and_lends_the_callers_locals() {
    on_each(&[1, 4], |runtime| {
        let mut list = vec![1];
        let not_send = Rc::new(2);
        let value = runtime.run(|| {
            list.push(*not_send);
            Rc::clone(&not_send)
        });
        assert!(Rc::ptr_eq(&value, &not_send));
        assert_eq!(list, [1, 2]);
    });
    assert_eq!(ramie::run(|| "default"), "default");
}

#[test]
fn the_closure_runs_on_this_thread() {
    let name = || std::thread::current().name().map(str::to_owned);
    assert_eq!(with_workers(4).run(name), name());
    let here = std::thread::current().id();
    assert_eq!(with_workers(2).run(|| std::thread::current().id()), here);
}

#[test]
fn a_panic_propagates_after_the_others_have_ended() {
    on_each(&[1, 2], |runtime| {
        let ended = Arc::new(AtomicUsize::new(0));
        let outcome = catch_unwind(AssertUnwindSafe(|| {
            runtime.run(|| {
                for _ in 0..10 {
                    let ended = Arc::clone(&ended);
                    drop(fiber::spawn(move || {
                        (0..10).for_each(|_| fiber::yield_now());
                        ended.fetch_add(1, Ordering::Relaxed);
                    }));
                }
                panic!("expected");
            });
        }));
        assert_eq!(text(&*outcome.unwrap_err()), "expected");
        assert_eq!(ended.load(Ordering::Relaxed), 10);
    });
}

/// The message about a misuse names the caller's line, not one of Ramie's.
#[test]
fn a_misuse_of_run_is_reported_at_the_callers_location() {
    if !is_child() {
        let said = stderr(&child("a_misuse_of_run_is_reported_at_the_callers_location"));
        assert_eq!(said.matches(concat!("panicked at ", file!())).count(), 2, "{said}");
        return;
    }
    one_worker().run(|| {
        let _ = catch_unwind(|| ramie::run(|| ()));
        let _ = catch_unwind(|| one_worker().run(|| ()));
    });
}

#[test]
fn a_run_inside_a_run_is_refused() {
    let sentence = "run was called inside run; call the code directly, or spawn a fiber for it";
    one_worker().run(|| {
        assert_eq!(panic_text(|| ramie::run(|| ())), sentence);
        let spawned = fiber::spawn(|| ramie::run(|| ())).join().unwrap_err();
        assert_eq!(text(&*spawned), sentence);
        // A thread of its own may run a runtime of its own.
        assert_eq!(ramie::blocking(|| ramie::run(|| 5)), 5);
    });
}

#[test]
fn several_runtimes_run_at_once_and_wake_each_other() {
    let runtime = with_workers(2);
    let (sender, receiver) = ramie::sync::oneshot::channel();
    std::thread::scope(|s| {
        let waits = s.spawn(|| runtime.run(|| fiber::spawn(|| receiver.recv()).join().unwrap()));
        for _ in 0..3 {
            s.spawn(|| runtime.run(|| fiber::spawn(|| 1).join().unwrap()));
        }
        one_worker().run(|| drop(fiber::spawn(|| sender.send("across"))));
        assert_eq!(waits.join().unwrap(), Ok("across"));
    });
}

#[test]
fn run_waits_for_detached_generations() {
    fn generation(left: usize, ended: Arc<AtomicUsize>) {
        if left > 0 {
            let next = Arc::clone(&ended);
            drop(fiber::spawn(move || generation(left - 1, next)));
        }
        fiber::yield_now();
        ended.fetch_add(1, Ordering::Relaxed);
    }
    on_each(&[1, 4], |runtime| {
        let ended = Arc::new(AtomicUsize::new(0));
        let theirs = Arc::clone(&ended);
        runtime.run(move || generation(50, theirs));
        assert_eq!(ended.load(Ordering::Relaxed), 51);
    });
}

/// In a process of its own, where nobody else opens descriptors or makes threads.
#[test]
fn many_runs_in_a_row_leave_nothing_behind() {
    if is_child() {
        let once = |workers| {
            with_workers(workers).run(|| {
                fiber::spawn(|| ramie::blocking(|| ())).join().unwrap();
                fiber::sleep(Duration::from_micros(1));
            });
        };
        // The threads of the blocking pools were asked to end, and do.
        let settled = || wait_until(|| threads() <= 3);
        once(2);
        settled();
        let before = descriptors();
        (0..300).for_each(|n| once(1 + n % 2));
        settled();
        assert!(descriptors() <= before, "{} descriptors, then {}", before, descriptors());
        return;
    }
    assert_success(&child_with("true", "many_runs_in_a_row_leave_nothing_behind", &[]));
}

#[test]
fn run_without_memory_for_its_stack_panics() {
    if is_child() {
        common::limit_memory(256 << 20);
        let large = Runtime::builder().workers(1).stack_size(1 << 30).build().unwrap();
        let text = panic_text(|| large.run(|| ()));
        assert!(text.contains("fiber 'main' cannot start"), "{text}");
        return;
    }
    let name = "run_without_memory_for_its_stack_panics";
    let output = child_with("true", name, &[("RAMIE_DRIVER", "poll")]);
    assert_success(&output);
}

#[test]
fn a_fiber_without_memory_for_its_stack_ends_with_a_sentence() {
    if is_child() {
        common::limit_memory(256 << 20);
        return one_worker().run(|| {
            let large = fiber::Builder::new().name("large".into()).stack_size(1 << 30);
            let payload = large.spawn(|| ()).unwrap().join().unwrap_err();
            assert!(text(&*payload).contains("fiber 'large' cannot start"), "{}", text(&*payload));
            assert!(text(&*payload).contains("ulimit -v"), "{}", text(&*payload));
            fiber::spawn(|| ()).join().unwrap();
        });
    }
    let name = "a_fiber_without_memory_for_its_stack_ends_with_a_sentence";
    assert_success(&child_with("true", name, &[("RAMIE_DRIVER", "poll")]));
}

/// No hook has reported that a fiber never began; whatever raises it again must.
#[test]
fn the_lack_of_a_stack_is_never_raised_in_silence() {
    let name = "the_lack_of_a_stack_is_never_raised_in_silence";
    if !is_child() {
        // The second variable is for AddressSanitizer, whose copies of frames would take the memory
        // before the stacks do.
        let copies = ("ASAN_OPTIONS", "detect_leaks=0:detect_stack_use_after_return=0");
        return assert_success(&child_with("true", name, &[("RAMIE_DRIVER", "poll"), copies]));
    }
    // One chunk of stacks, of which there are 16 or more in each.
    common::limit_memory(384 << 20);
    static REPORTS: AtomicUsize = AtomicUsize::new(0);
    struct End<'a>(&'a Event);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.set();
        }
    }
    let runtime = Runtime::builder().workers(1).stack_size(16 << 20).build().unwrap();
    let is_over = Arc::new(Event::new());
    runtime.run(|| {
        // Also if this fails.
        let _end = End(&is_over);
        let mut waiting = Vec::new();
        while waiting.last().is_none_or(|last: &fiber::JoinHandle<_>| !last.is_finished()) {
            let is_over = Arc::clone(&is_over);
            waiting.push(fiber::spawn(move || is_over.wait().unwrap()));
            fiber::yield_now();
        }
        std::panic::set_hook(Box::new(|info| {
            eprintln!("{info}");
            REPORTS.fetch_add(1, Ordering::SeqCst);
        }));
        let check = |said: String| {
            assert!(said.contains("cannot start") && said.contains("ulimit -v"), "{said}");
            assert_eq!(REPORTS.swap(0, Ordering::SeqCst), 1);
        };
        check(panic_text(|| fiber::on_each_worker(|_| ())));
        check(panic_text(|| ramie::join!((), ())));
        check(panic_text(|| ramie::try_join!(Ok::<_, String>(()), Ok(()))));
        check(panic_text(|| {
            ramie::structured::try_scope(|scope| {
                scope.spawn(|| Ok(())).join().map_err(|error| error.to_string())
            })
        }));
        let mut outcome = None;
        let said = panic_text(|| {
            ramie::structured::set(|set| {
                set.spawn(|| ());
                for _ in 0..1000 {
                    outcome = outcome.take().or_else(|| set.try_next());
                    fiber::yield_now();
                }
            });
        });
        assert!(said.contains("a strand of the scope panicked"), "{said}");
        assert_eq!(REPORTS.swap(0, Ordering::SeqCst), 1);
        let payload = outcome.expect("an outcome that says so").unwrap_err();
        assert!(text(&*payload).contains("cannot start"));
    });
}

#[test]
fn a_runtime_that_cannot_start_its_threads_panics() {
    if is_child() {
        common::limit_memory(512 << 20);
        let text = panic_text(|| with_workers(3).run(|| ()));
        assert!(text.contains("a worker could not be started: no thread for it"), "{text}");
        assert!(text.contains("use fewer workers"), "{text}");
        return;
    }
    let name = "a_runtime_that_cannot_start_its_threads_panics";
    // The stack of the test's own thread is had, that of one more is not.
    let variables = [("RUST_MIN_STACK", "1073741824"), ("RAMIE_DRIVER", "poll")];
    assert_success(&child_with("true", name, &variables));
}

/// Runs `daemon`, a strand that makes itself one, beside a strand that sleeps for an hour, and
/// then sends.
fn daemon_beside_a_sleeper(
    strands: Strands,
    daemon: impl FnOnce(&channel::Receiver<u8>) -> Option<u8> + Send + 'static,
) -> Option<u8> {
    let (sender, receiver) = channel::bounded(1);
    let received = Arc::new(Mutex::new(None));
    let runtime = Runtime::builder().strands(strands).workers(1).clock(ManualClock::jumping());
    runtime.build().unwrap().run(|| {
        let (result, sender) = (Arc::clone(&received), sender.clone());
        fiber::spawn(move || *result.lock().unwrap() = daemon(&receiver));
        fiber::spawn(move || {
            fiber::sleep(Duration::from_secs(3600));
            let _ = sender.send(7);
        });
    });
    // It outlives the run, so that a receive ends by a value or a cancellation alone.
    drop(sender);
    received.lock().unwrap().take()
}

#[test]
fn a_daemon_in_a_daemon_counts_once() {
    for strands in [Strands::Fibers, Strands::Threads] {
        let received = daemon_beside_a_sleeper(strands, |receiver| {
            fiber::as_daemon(|_| fiber::as_daemon(|_| receiver.recv().ok()))
        });
        assert_eq!(received, Some(7), "{strands:?}");
    }
}

#[test]
fn a_strand_stays_a_daemon_when_an_inner_one_ends() {
    for strands in [Strands::Fibers, Strands::Threads] {
        let received = daemon_beside_a_sleeper(strands, |receiver| {
            fiber::as_daemon(|_| {
                let received = fiber::as_daemon(|_| receiver.recv().ok());
                // Only the end of the runtime ends this wait.
                receiver.recv().map_or(received, |_| None)
            })
        });
        assert_eq!(received, Some(7), "{strands:?}");
        let received = daemon_beside_a_sleeper(strands, |receiver| {
            fiber::as_daemon(|_| {
                let received = receiver.recv().ok();
                let ended = fiber::as_daemon(|_| receiver.recv().is_err());
                received.filter(|_| ended && receiver.recv().is_err())
            })
        });
        assert_eq!(received, Some(7), "{strands:?}");
    }
}

/// A sandbox may forbid new descriptors once all are open. poll(2) then takes none at all.
#[test]
fn a_process_that_may_open_nothing_more_still_waits() {
    let name = "a_process_that_may_open_nothing_more_still_waits";
    if is_child() {
        return with_workers(1).run(|| {
            let (reader, _writer) = ramie::io::pipe().unwrap();
            let none = Rlimit { current: Some(0), maximum: Some(0) };
            setrlimit(Resource::Nofile, none).unwrap();
            let start = Instant::now();
            fiber::sleep(Duration::from_micros(300));
            assert!(start.elapsed() >= Duration::from_micros(300));
            let error = ramie::io::wait_any(&mut [Polled::readable(&reader)]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            let text = error.to_string();
            assert!(text.contains("at once: 1,") && text.contains("have 0;"), "{text}");
            assert!(text.contains("`ulimit -n`"), "{text}");
        });
    }
    for driver in ["poll", "uring"] {
        if driver == "uring" && !common::has_ring() {
            continue;
        }
        assert_success(&child_with("true", name, &[("RAMIE_DRIVER", driver)]));
    }
}
