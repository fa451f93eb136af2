//! Strands that will go on are not reported.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use ramie::{
    channel, fiber,
    sync::{Event, Mutex, RwLock},
};

use crate::{
    Program,
    common::{is_child, with_workers},
    wait_for_end,
};

/// Starts the program, disturbs it, and checks that it reports nothing.
fn check(test: &str, disturb: impl FnOnce(&Program)) {
    let mut program = Program::start(test);
    program.read_to("it runs");
    disturb(&program);
    let text = program.end();
    assert!(!text.contains("deadlock"), "{text}");
}

/// As long as a few surveys take.
fn wait_for_surveys(_: &Program) {
    thread::sleep(Duration::from_secs(4));
}

/// Locks in the same order, handed round quickly, with joins and scopes.
fn hand_locks_round(is_over: &AtomicBool) {
    let locks: Vec<_> = (0..4).map(|_| Mutex::new(0_u64)).collect();
    let shared = RwLock::new(0_u64);
    while !is_over.load(SeqCst) {
        fiber::scope(|s| {
            for at in 0..16 {
                let (locks, shared) = (&locks, &shared);
                s.spawn(move || {
                    let mut first = locks[at % 3].lock().unwrap();
                    fiber::yield_now();
                    let mut second = locks[at % 3 + 1].lock().unwrap();
                    *first += 1;
                    *second += 1;
                    match at % 5 {
                        0 => *shared.write().unwrap() += 1,
                        _ => drop(shared.read()),
                    }
                });
            }
        });
    }
}

fn run_locks() {
    with_workers(2).run(|| {
        let is_over = Arc::new(AtomicBool::new(false));
        let theirs = Arc::clone(&is_over);
        let busy = fiber::spawn(move || hand_locks_round(&theirs));
        eprintln!("it runs");
        wait_for_end();
        is_over.store(true, SeqCst);
        busy.join().unwrap();
    });
}

#[test]
fn locks_that_are_handed_round() {
    if is_child() {
        return run_locks();
    }
    check("locks_that_are_handed_round", wait_for_surveys);
}

#[test]
fn a_process_that_is_stopped_again_and_again() {
    if is_child() {
        return run_locks();
    }
    check("a_process_that_is_stopped_again_and_again", |program| {
        let pid = rustix::process::Pid::from_child(&program.child);
        for _ in 0..8 {
            for signal in [rustix::process::Signal::STOP, rustix::process::Signal::CONT] {
                rustix::process::kill_process(pid, signal).unwrap();
                thread::sleep(Duration::from_millis(250));
            }
        }
    });
}

/// Waits that last long: for a thread, for time, for the kernel, with limits, in a cancel scope.
#[test]
fn long_waits_that_end() {
    if is_child() {
        return with_workers(2).run(|| {
            let event = Arc::new(Event::new());
            let theirs = Arc::clone(&event);
            let waiter = fiber::spawn(move || theirs.wait().unwrap());
            let lock = Arc::new(Mutex::new(()));
            let guard = lock.lock().unwrap();
            let theirs = Arc::clone(&lock);
            let locker = fiber::spawn(move || drop(theirs.lock()));
            let (sender, receiver) = channel::unbounded();
            let receiving = fiber::spawn(move || receiver.recv().unwrap());
            eprintln!("it runs");
            wait_for_end();
            event.set();
            sender.send(()).unwrap();
            drop(guard);
            waiter.join().unwrap();
            locker.join().unwrap();
            receiving.join().unwrap();
        });
    }
    check("long_waits_that_end", wait_for_surveys);
}

/// Two fibers wait for each other's locks, but one of them only for a while.
#[test]
fn a_cycle_with_a_time_limit() {
    if is_child() {
        return with_workers(2).run(|| {
            eprintln!("it runs");
            let locks = [Mutex::new(()), Mutex::new(())];
            let barrier = ramie::sync::Barrier::new(2);
            fiber::scope(|s| {
                s.spawn(|| {
                    let _own = locks[0].lock();
                    barrier.wait();
                    drop(locks[1].lock());
                });
                s.spawn(|| {
                    let _own = locks[1].lock();
                    barrier.wait();
                    assert!(locks[0].lock_timeout(Duration::from_secs(4)).is_err());
                });
            });
        });
    }
    check("a_cycle_with_a_time_limit", |_| ());
}

/// Two fibers wait for each other's locks, but one of them is cancelled.
#[test]
fn a_cycle_that_is_cancelled() {
    if is_child() {
        return with_workers(2).run(|| {
            eprintln!("it runs");
            let locks = [Mutex::new(()), Mutex::new(())];
            let barrier = ramie::sync::Barrier::new(2);
            fiber::scope(|s| {
                s.spawn(|| {
                    let _own = locks[0].lock();
                    barrier.wait();
                    drop(locks[1].lock());
                });
                ramie::cancel::scope(|scope| {
                    let handle = scope.handle();
                    s.spawn(move || {
                        fiber::sleep(Duration::from_secs(4));
                        handle.cancel();
                    });
                    let _own = locks[1].lock();
                    barrier.wait();
                    assert!(locks[0].lock_or_cancelled().is_err());
                });
            });
        });
    }
    check("a_cycle_that_is_cancelled", |_| ());
}

/// All strands of the runtime wait, and a thread ends their waits.
#[test]
fn strands_that_wait_for_a_thread() {
    if is_child() {
        let (sender, receiver) = channel::bounded(0);
        let thread = thread::spawn(move || {
            std::io::Read::read_to_end(&mut std::io::stdin(), &mut Vec::new()).unwrap();
            sender.send(()).unwrap();
        });
        with_workers(2).run(|| {
            eprintln!("it runs");
            receiver.recv().unwrap();
        });
        return thread.join().unwrap();
    }
    check("strands_that_wait_for_a_thread", wait_for_surveys);
}
