//! Fibers that wait for locks of std and of other crates, held by parked fibers of their worker:
//! programs that hang. Each report names the fiber that may hold the lock.

use std::{
    io::Read,
    sync::{
        Condvar, LazyLock, Mutex, RwLock,
        atomic::{AtomicBool, Ordering::SeqCst},
        mpsc,
    },
    time::Duration,
};

use crate::{Program, common::is_child};
use ramie::fiber;

const LONG: Duration = Duration::from_secs(1000);

/// Runs `holder`, which parks, and then `waiter`, which never gets what it waits for.
fn hang(holder: impl FnOnce() + Send + 'static, waiter: impl FnOnce() + Send + 'static) {
    // Any number of workers; these two are on the same one.
    ramie::run(|| {
        let named = |name: &str| fiber::Builder::new().name(name.to_owned());
        let holder = named("holder").spawn_local(holder).unwrap();
        let waiter = named("waiter").spawn_local(waiter).unwrap();
        let _ = (holder.join(), waiter.join());
    });
}

/// The report of the program, up to its last line.
#[track_caller]
fn report(test: &str) -> String {
    let text = Program::start(test).read_to("  help: ");
    let begin = text.find("ramie: stall: ").expect("a report has a beginning");
    text[begin..].to_owned()
}

/// The report names the waiter, the futex, and the holder with its wait in this file.
#[track_caller]
fn assert_names_both(text: &str, wait: &str) {
    let lines: Vec<_> = text.lines().collect();
    assert!(
        lines[0].starts_with("ramie: stall: fiber 'waiter' has run on worker 0 for "),
        "{text}"
    );
    assert!(lines[1].starts_with("  it runs stall::locks::"), "{text}");
    assert!(lines[2].contains("in the system call futex"), "{text}");
    let holder = lines.iter().find(|line| line.starts_with("    fiber 'holder' waits for "));
    let holder = holder.unwrap_or_else(|| panic!("the holder is not in: {text}"));
    assert!(holder.contains(wait) && holder.contains("tests/stall/locks.rs:"), "{text}");
    assert!(lines.last().unwrap().contains("ramie::sync"), "{text}");
}

#[test]
fn a_std_mutex_held_across_a_sleep() {
    if !is_child() {
        let text = report("a_std_mutex_held_across_a_sleep");
        assert_names_both(&text, "sleep");
        // The guard on its stack gives the holder away.
        let mut likely = text.lines().filter(|line| line.contains("(its stack refers to"));
        assert!(likely.any(|line| line.contains("fiber 'holder'")), "{text}");
        return;
    }
    let lock: &'static Mutex<u32> = Box::leak(Box::default());
    let holder = || {
        let _guard = lock.lock().unwrap();
        fiber::sleep(LONG);
    };
    hang(holder, || drop(lock.lock().unwrap()));
}

#[test]
fn a_lock_after_a_computation_has_a_report_of_its_own() {
    let test = "a_lock_after_a_computation_has_a_report_of_its_own";
    if !is_child() {
        let mut program = Program::start(test);
        let text = program.read_to("  help: ");
        assert!(text.contains("  it computes: at least "), "{text}");
        program.write(b".");
        let text = program.read_to("  help: ");
        let begin = text.find("ramie: stall: ").expect("a report has a beginning");
        return assert_names_both(&text[begin..], "sleep");
    }
    let lock: &'static Mutex<u32> = Box::leak(Box::default());
    static IS_REPORTED: AtomicBool = AtomicBool::new(false);
    std::thread::spawn(|| {
        let _ = std::io::stdin().read(&mut [0]);
        IS_REPORTED.store(true, SeqCst);
    });
    let holder = || {
        let _guard = lock.lock().unwrap();
        fiber::sleep(LONG);
    };
    hang(holder, || {
        while !IS_REPORTED.load(SeqCst) {
            std::hint::spin_loop();
        }
        drop(lock.lock().unwrap());
    });
}

#[test]
fn a_std_rwlock_held_across_a_channel() {
    if !is_child() {
        return assert_names_both(&report("a_std_rwlock_held_across_a_channel"), "channel");
    }
    static LOCK: RwLock<u32> = RwLock::new(0);
    let (_sender, receiver) = ramie::channel::unbounded::<u32>();
    let holder = move || {
        let _guard = LOCK.read().unwrap();
        let _ = receiver.recv();
    };
    hang(holder, || drop(LOCK.write().unwrap()));
}

#[test]
fn a_pool_with_a_std_condvar() {
    if !is_child() {
        return assert_names_both(&report("a_pool_with_a_std_condvar"), "sleep");
    }
    static POOL: Mutex<Vec<u32>> = Mutex::new(Vec::new());
    static IS_BACK: Condvar = Condvar::new();
    // It has taken the last connection, and waits while it has it.
    let holder = || {
        fiber::sleep(LONG);
        POOL.lock().unwrap().push(7);
        IS_BACK.notify_one();
    };
    let waiter = || drop(IS_BACK.wait_while(POOL.lock().unwrap(), |pool| pool.is_empty()).unwrap());
    hang(holder, waiter);
}

#[test]
fn a_lazy_lock_whose_initializer_does_io() {
    if !is_child() {
        return assert_names_both(
            &report("a_lazy_lock_whose_initializer_does_io"),
            "data from a pipe",
        );
    }
    static CONFIG: LazyLock<usize> = LazyLock::new(|| {
        use ramie::io::Read;
        let (mut reader, _writer) = ramie::io::pipe().unwrap();
        reader.read(&mut [0]).unwrap()
    });
    hang(|| assert!(*CONFIG > 1), || assert!(*CONFIG > 1));
}

#[test]
fn a_parking_lot_mutex() {
    if !is_child() {
        return assert_names_both(&report("a_parking_lot_mutex"), "sleep");
    }
    static LOCK: parking_lot::Mutex<u32> = parking_lot::Mutex::new(0);
    let holder = || {
        let _guard = LOCK.lock();
        fiber::sleep(LONG);
    };
    hang(holder, || drop(LOCK.lock()));
}

#[test]
fn a_crossbeam_channel_whose_sender_is_on_the_same_worker() {
    if !is_child() {
        let text = report("a_crossbeam_channel_whose_sender_is_on_the_same_worker");
        return assert_names_both(&text, "sleep");
    }
    let (sender, receiver) = crossbeam_channel::unbounded();
    let holder = move || {
        fiber::sleep(LONG);
        let _ = sender.send(1);
    };
    hang(holder, move || assert!(receiver.recv().is_err()));
}

#[test]
fn a_std_channel_whose_sender_is_on_the_same_worker() {
    if !is_child() {
        let text = report("a_std_channel_whose_sender_is_on_the_same_worker");
        return assert_names_both(&text, "sleep");
    }
    let (sender, receiver) = mpsc::channel();
    let holder = move || {
        fiber::sleep(LONG);
        let _ = sender.send(1);
    };
    hang(holder, move || assert!(receiver.recv().is_err()));
}

/// A fiber that has not begun, or waits for its turn, may be the one that would release the lock.
#[test]
fn fibers_that_wait_for_their_turn_are_listed_too() {
    if !is_child() {
        let text = report("fibers_that_wait_for_their_turn_are_listed_too");
        assert!(text.contains("    fiber 'holder' waits for its turn to run; it runs "), "{text}");
        assert!(text.contains("    fibers of the runtime that have not started: 3\n"), "{text}");
        return;
    }
    static LOCK: Mutex<u32> = Mutex::new(0);
    let holder = || {
        let _guard = LOCK.lock().unwrap();
        fiber::yield_now();
    };
    let waiter = || {
        (0..3).for_each(|_| drop(fiber::spawn_local(|| ())));
        drop(LOCK.lock().unwrap());
    };
    hang(holder, waiter);
}
