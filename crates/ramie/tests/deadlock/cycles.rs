//! Cycles of strands are reported with the strands' names and lines.

use std::sync::Arc;

use ramie::{
    fiber::{self, Builder},
    sync::{Barrier, Mutex, RwLock},
};

use crate::{
    Program,
    common::{is_child, with_workers},
    strands_of, wait_for_end,
};

const MOST_LOCKS: usize = 10;

fn spawn_named(name: String, f: impl FnOnce() + Send + 'static) {
    drop(Builder::new().name(name).spawn(f).unwrap());
}

/// Each fiber takes its own lock, and then that of the next one.
fn spawn_ring(count: usize) {
    let locks: Arc<Vec<_>> = Arc::new((0..count).map(|_| Mutex::new(())).collect());
    let barrier = Arc::new(Barrier::new(count));
    for at in 0..count {
        let (locks, barrier) = (Arc::clone(&locks), Arc::clone(&barrier));
        spawn_named(format!("ring-{count}-{at}"), move || {
            let _own = locks[at].lock();
            barrier.wait();
            let _next = locks[(at + 1) % count].lock();
        });
    }
}

fn check_rings(test: &str, workers: &str) {
    let mut program = Program::start_with(test, &[("WORKERS", workers)]);
    let mut left: Vec<_> = (2..=MOST_LOCKS).collect();
    while !left.is_empty() {
        let report = program.read_report();
        let strands = strands_of(&report);
        let count = strands.len();
        left.remove(left.iter().position(|ring| *ring == count).expect(&report));
        assert!(report.contains(&format!("{count} strands wait for one another")), "{report}");
        for (at, line) in strands.iter().enumerate() {
            let next = (at + 1) % count;
            // Ten would be sorted before two.
            let waits = format!(
                "'ring-{count}-{at}' waits for a Mutex that fiber 'ring-{count}-{next}' holds"
            );
            assert!(line.contains(&waits), "{line}");
            assert_eq!(line.matches(file!()).count(), 2, "{line}");
        }
        assert!(report.contains("same order"), "{report}");
    }
}

fn run_rings() {
    let workers = std::env::var("WORKERS").unwrap().parse().unwrap();
    with_workers(workers).run(|| {
        (2..=MOST_LOCKS).for_each(spawn_ring);
        wait_for_end();
    });
}

#[test]
fn rings_of_locks_on_one_worker() {
    if is_child() {
        return run_rings();
    }
    check_rings("rings_of_locks_on_one_worker", "1");
}

#[test]
fn rings_of_locks_on_two_workers() {
    if is_child() {
        return run_rings();
    }
    check_rings("rings_of_locks_on_two_workers", "2");
}

/// The name may have come from a request.
#[test]
fn a_name_does_not_control_the_terminal() {
    if is_child() {
        return with_workers(1).run(|| {
            let (barrier, left, right) = (Barrier::new(2), Mutex::new(()), Mutex::new(()));
            let shared = Arc::new((barrier, left, right));
            let theirs = Arc::clone(&shared);
            spawn_named("\u{1b}[2J\n".to_owned(), move || {
                let _left = theirs.1.lock();
                theirs.0.wait();
                drop(theirs.2.lock());
            });
            fiber::spawn(move || {
                let _right = shared.2.lock();
                shared.0.wait();
                drop(shared.1.lock());
            });
            wait_for_end();
        });
    }
    let mut program = Program::start("a_name_does_not_control_the_terminal");
    let report = program.read_report();
    assert!(report.contains("\n  fiber '\\u{1b}[2J\\n' waits for a Mutex"), "{report:?}");
}

/// They come on a thread of their own, because symbols have to be looked up.
#[cfg(all(feature = "backtrace", target_arch = "x86_64"))]
#[test]
fn the_calls_of_the_strands_follow_the_report() {
    if is_child() {
        return with_workers(1).run(|| {
            spawn_ring(2);
            wait_for_end();
        });
    }
    let mut program = Program::start("the_calls_of_the_strands_follow_the_report");
    program.read_report();
    for at in 0..2 {
        let calls = program.read_to("deadlock::cycles::spawn_ring::{{closure}}");
        let head = format!("ramie: of the report above, fiber 'ring-2-{at}': calls, the innermost");
        assert!(calls.contains(&head), "{calls}");
        assert!(calls.contains("Mutex<T>::lock"), "{calls}");
    }
}

/// While another fiber keeps its worker busy.
#[test]
fn a_cycle_is_found_while_others_run() {
    if is_child() {
        return with_workers(1).run(|| {
            spawn_ring(2);
            loop {
                fiber::yield_now();
            }
        });
    }
    let mut program = Program::start("a_cycle_is_found_while_others_run");
    let report = program.read_report();
    assert_eq!(strands_of(&report).len(), 2, "{report}");
}

/// Two fibers join each other, and a third one waits behind them.
#[test]
fn two_fibers_join_each_other() {
    if is_child() {
        return with_workers(2).run(|| {
            let handles = Arc::new([Mutex::new(None), Mutex::new(None)]);
            for (at, name) in ["left", "right"].into_iter().enumerate() {
                let theirs = Arc::clone(&handles);
                let join = move || {
                    let other = loop {
                        let taken = theirs[1 - at].lock().unwrap().take();
                        match taken {
                            Some(handle) => break handle,
                            None => fiber::yield_now(),
                        }
                    };
                    let other: ramie::fiber::JoinHandle<()> = other;
                    let _ = other.join();
                };
                let handle = Builder::new().name(name.to_owned()).spawn(join).unwrap();
                *handles[at].lock().unwrap() = Some(handle);
            }
            wait_for_end();
        });
    }
    let mut program = Program::start("two_fibers_join_each_other");
    let report = program.read_report();
    let strands = strands_of(&report);
    assert_eq!(strands.len(), 2, "{report}");
    assert!(strands[0].contains("'left' waits for the end of fiber 'right', at"), "{report}");
    assert!(strands[1].contains("'right' waits for the end of fiber 'left', at"), "{report}");
    assert!(report.contains("joining"), "{report}");
}

/// A fiber joins another one while it holds the lock for which that one waits.
#[test]
fn a_join_while_a_lock_is_held() {
    if is_child() {
        return with_workers(1).run(|| {
            let lock = Arc::new(Mutex::new(()));
            let theirs = Arc::clone(&lock);
            let guard = lock.lock().unwrap();
            let waiter = Builder::new().name("waiter".to_owned());
            let waiter = waiter.spawn(move || drop(theirs.lock())).unwrap();
            waiter.join().unwrap();
            drop(guard);
        });
    }
    let mut program = Program::start("a_join_while_a_lock_is_held");
    let report = program.read_report();
    let strands = strands_of(&report);
    assert_eq!(strands.len(), 2, "{report}");
    assert!(strands[0].contains("'main' waits for the end of fiber 'waiter', at"), "{report}");
    assert!(strands[1].contains("'waiter' waits for a Mutex that fiber 'main' holds"), "{report}");
}

/// A scope ends while its opener holds the lock for which one of its strands waits.
#[test]
fn a_scope_that_ends_while_a_lock_is_held() {
    if is_child() {
        return with_workers(2).run(|| {
            let lock = Mutex::new(());
            let _guard = lock.lock().unwrap();
            fiber::scope(|s| {
                s.spawn(|| ());
                let waiter = Builder::new().name("waiter".to_owned());
                waiter.spawn_scoped(s, || drop(lock.lock())).unwrap();
            });
        });
    }
    let mut program = Program::start("a_scope_that_ends_while_a_lock_is_held");
    let report = program.read_report();
    let awaited = "'main' waits for the end of fiber 'waiter', a strand of its scope, at";
    assert!(report.contains(awaited), "{report}");
}

/// Writers of two locks, and a reader.
#[test]
fn locks_for_readers_and_writers() {
    if is_child() {
        return with_workers(2).run(|| {
            let locks = Arc::new([RwLock::new(()), RwLock::new(())]);
            let barrier = Arc::new(Barrier::new(2));
            for at in 0..2 {
                let (locks, barrier) = (Arc::clone(&locks), Arc::clone(&barrier));
                spawn_named(format!("writer-{at}"), move || {
                    let _own = locks[at].write();
                    barrier.wait();
                    match at {
                        0 => drop(locks[1].write()),
                        _ => drop(locks[0].read()),
                    }
                });
            }
            wait_for_end();
        });
    }
    let mut program = Program::start("locks_for_readers_and_writers");
    let report = program.read_report();
    let strands = strands_of(&report);
    let [writes, reads] = strands[..] else { panic!("{report}") };
    assert!(writes.contains("a RwLock, for writing, that fiber 'writer-1' holds"), "{report}");
    assert!(reads.contains("a RwLock, for reading, that fiber 'writer-0' holds"), "{report}");
}

/// Each cycle is reported once, also if two runtimes see it.
#[test]
fn a_cycle_is_reported_once() {
    if is_child() {
        std::thread::spawn(|| ramie::run(wait_for_end));
        return with_workers(1).run(|| {
            spawn_ring(2);
            wait_for_end();
            // Long enough for surveys that would report it again.
            fiber::sleep(std::time::Duration::from_secs(3));
            eprintln!("it ends");
            std::process::exit(0);
        });
    }
    let mut program = Program::start("a_cycle_is_reported_once");
    let report = program.read_report();
    assert!(report.contains("deadlock:"), "{report}");
    let rest = program.end();
    assert!(rest.contains("it ends") && !rest.contains("ramie: deadlock:"), "{rest}");
}

#[test]
fn a_reaction_may_abort_or_call_or_ignore() {
    if is_child() {
        let reaction = match std::env::var("REACTION").unwrap().as_str() {
            "abort" => ramie::Reaction::Abort,
            "ignore" => ramie::Reaction::Ignore,
            _ => ramie::Reaction::call(|deadlock: &ramie::Deadlock| {
                assert!(deadlock.is_cycle());
                assert_eq!((deadlock.count(), deadlock.iter().count()), (2, 2));
                eprintln!("help: called");
            }),
        };
        let runtime = ramie::Runtime::builder().on_deadlock(reaction).workers(1).build().unwrap();
        return runtime.run(|| {
            spawn_ring(2);
            wait_for_end();
            fiber::sleep(std::time::Duration::from_secs(2));
            std::process::exit(0);
        });
    }
    let start = |reaction| {
        let test = "a_reaction_may_abort_or_call_or_ignore";
        Program::start_with(test, &[("REACTION", reaction)])
    };
    let mut program = start("abort");
    assert!(program.read_to("Aborting").contains("'ring-2-1' waits"));
    assert!(!program.child.wait().unwrap().success());
    assert!(start("call").read_report().contains("called"));
    let rest = start("ignore").end();
    assert!(!rest.contains("deadlock:"), "{rest}");
}

#[ramie::test(workers = 1)]
fn a_test_that_deadlocks() {
    if is_child() {
        let lock = Arc::new(Mutex::new(()));
        let _guard = lock.lock().unwrap();
        let theirs = Arc::clone(&lock);
        let waiter = fiber::spawn(move || drop(theirs.lock()));
        waiter.join().unwrap();
    }
}

/// The channel's sender is leaked; the only other thread is that of the test harness.
#[ramie::test(workers = 2)]
fn a_test_that_waits_for_ever() {
    if is_child() {
        let (sender, receiver) = ramie::channel::unbounded::<()>();
        std::mem::forget(sender);
        receiver.recv().unwrap();
    }
}

#[test]
fn tests_that_deadlock_end_with_their_names() {
    for test in ["a_test_that_deadlocks", "a_test_that_waits_for_ever"] {
        let mut program = Program::start(test);
        let report = program.read_to("Aborting");
        assert!(report.contains("deadlock:"), "{report}");
        assert!(report.contains(&format!("the test deadlock::cycles::{test} can")), "{report}");
        assert!(!program.child.wait().unwrap().success());
    }
}
