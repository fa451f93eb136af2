//! Waits that end by abandonment or by a timeout, waits where a strand must not wait, and poison
//! that another strand sees.

use std::{
    env,
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::sync_channel,
    },
    thread,
    time::Duration,
};

use crate::common::{assert_aborted, child_with, everywhere, is_child, one_worker, panic_text};
use ramie::{
    Runtime,
    cancel::Cancelled,
    channel, fiber, no_switch, select,
    sync::{
        AcquireError, AcquireTimeoutError, Barrier, Condvar, Event, LazyLock, Mutex, Once,
        OnceLock, RwLock, RwLockWriteGuard, Semaphore, TryLockError, mpsc,
    },
    time::ManualClock,
};

const MS: Duration = Duration::from_millis(1);

/// Leaks a value, because abandoned strands refer to it.
fn leak<T>(value: T) -> &'static T {
    Box::leak(Box::new(value))
}

/// Calls `waits` in two fibers, the second on another worker, and when both wait, `wakes`. The
/// first fiber is abandoned after it was woken and before it has run again; the wait of the second
/// must end.
fn the_next_one_gets_it(
    waits: impl Fn() + Clone + Send + 'static,
    prepares: impl FnOnce(),
    wakes: impl FnOnce(),
) {
    let (done, is_done) = sync_channel(1);
    let builder = Runtime::builder().workers(1).grace(Duration::ZERO).on_abandoned(|_| {});
    builder.build().unwrap().run(|| {
        drop(fiber::spawn(waits.clone()));
        fiber::yield_now();
        prepares();
        let (parked, is_parked) = sync_channel(1);
        thread::spawn(move || {
            one_worker().run(|| {
                let waits = fiber::spawn(waits);
                // This fiber runs when the other one waits.
                drop(fiber::spawn(move || parked.send(())));
                done.send(waits.join()).unwrap();
            });
        });
        is_parked.recv().unwrap();
        // Enough fibers for the runtime to end before the woken one runs.
        for _ in 0..100 {
            drop(fiber::spawn(|| {
                loop {
                    fiber::yield_now();
                }
            }));
        }
        fiber::yield_now();
        wakes();
    });
    is_done.recv_timeout(Duration::from_secs(30)).expect("it comes through").unwrap();
}

#[test]
fn a_lock_granted_to_an_abandoned_strand_goes_to_the_next() {
    let mutex = leak(Mutex::new(0));
    let held = mutex.lock().unwrap();
    the_next_one_gets_it(move || drop(mutex.lock()), || (), || drop(held));
    assert!(mutex.try_lock().is_ok());

    // A lock that is handed over because the waiter has lost the race.
    let held = std::cell::RefCell::new(Some(mutex.lock().unwrap()));
    let try_in_vain = || {
        held.take();
        held.replace(mutex.try_lock().ok());
        fiber::yield_now();
    };
    the_next_one_gets_it(move || drop(mutex.lock()), try_in_vain, || drop(held.take()));
    assert!(mutex.try_lock().is_ok());

    let lock = leak(RwLock::new(0));
    let held = lock.read().unwrap();
    the_next_one_gets_it(move || drop(lock.write()), || (), || drop(held));
    assert!(lock.try_write().is_ok());
    let held = lock.write().unwrap();
    the_next_one_gets_it(move || drop(lock.read()), || (), || drop(held));
    assert!(lock.try_write().is_ok());
    let held = lock.write().unwrap();
    let downgrade = || drop(RwLockWriteGuard::downgrade(held));
    the_next_one_gets_it(move || drop(lock.read()), || (), downgrade);
    assert!(lock.try_write().is_ok());
}

#[test]
fn permits_notifications_and_values_of_abandoned_strands_go_to_the_next() {
    let semaphore = leak(Semaphore::new(3));
    let held = semaphore.acquire_many(2).unwrap();
    the_next_one_gets_it(move || drop(semaphore.acquire_many(3)), || (), || drop(held));
    assert_eq!(semaphore.available_permits(), 3);
    assert!(semaphore.try_acquire_many(3).is_ok());

    let (lock, condvar) = leak((Mutex::new(0), Condvar::new()));
    let waits = || drop(condvar.wait(lock.lock().unwrap()));
    the_next_one_gets_it(waits, || (), || condvar.notify_one());
    assert!(lock.try_lock().is_ok());

    for capacity in [0, 1, 2] {
        let (sender, receiver) = channel::bounded(capacity);
        let waits = move || assert_eq!(receiver.recv(), Ok(7));
        let sent = sender.clone();
        the_next_one_gets_it(waits, || (), move || sent.send(7).unwrap());
        drop(sender);
    }
}

/// A value handed to a `recv` that is abandoned goes to the next receiver.
#[test]
fn a_value_of_an_abandoned_receive_is_not_lost() {
    let (sender, receiver) = channel::bounded(2);
    let kept = receiver.clone();
    let builder = Runtime::builder().workers(1).grace(Duration::ZERO).on_abandoned(|_| {});
    builder.build().unwrap().run(|| {
        drop(fiber::spawn(move || receiver.recv()));
        fiber::yield_now();
        for _ in 0..100 {
            drop(fiber::spawn(|| {
                loop {
                    fiber::yield_now();
                }
            }));
        }
        fiber::yield_now();
        sender.send(7).unwrap();
        sender.send(8).unwrap();
    });
    assert_eq!([kept.try_recv(), kept.try_recv()], [Ok(7), Ok(8)]);
    assert!(sender.try_send(9).is_ok() && sender.try_send(10).is_ok());
}

/// Lets `waits`, which has a timeout of 1 ms, wait until that has passed, and calls `wakes` after a
/// number of switches that grows: so before and after the timer fires, and before and after the
/// waiter runs again.
fn at_each_switch_after_the_timeout(f: impl Fn(&dyn Fn())) {
    for switches in 0..140 {
        let clock = ManualClock::new();
        Runtime::builder().workers(1).clock(clock.clone()).build().unwrap().run(|| {
            f(&|| {
                fiber::yield_now();
                clock.advance(MS);
                (0..switches).for_each(|_| fiber::yield_now());
            });
        });
    }
}

#[test]
fn a_value_that_a_timed_out_waiter_does_not_take_goes_to_the_next() {
    at_each_switch_after_the_timeout(|let_it_pass| {
        let mutex = Mutex::new(0);
        let held = mutex.lock().unwrap();
        fiber::scope(|s| {
            s.spawn(|| drop(mutex.lock_timeout(MS)));
            s.spawn(|| drop(mutex.lock()));
            let_it_pass();
            drop(held);
        });
        assert!(mutex.try_lock().is_ok());
    });
    at_each_switch_after_the_timeout(|let_it_pass| {
        let semaphore = Semaphore::new(1);
        let held = semaphore.acquire().unwrap();
        fiber::scope(|s| {
            s.spawn(|| drop(semaphore.acquire_timeout(1, MS)));
            s.spawn(|| drop(semaphore.acquire()));
            let_it_pass();
            drop(held);
        });
        assert!(semaphore.try_acquire().is_ok());
    });
    at_each_switch_after_the_timeout(|let_it_pass| {
        let (lock, condvar) = (Mutex::new(()), Condvar::new());
        let passed_on = AtomicUsize::new(0);
        fiber::scope(|s| {
            s.spawn(|| {
                let (_guard, result) = condvar.wait_timeout(lock.lock().unwrap(), MS).unwrap();
                if !result.timed_out() {
                    passed_on.fetch_add(1, Ordering::SeqCst);
                    condvar.notify_one();
                }
            });
            s.spawn(|| drop(condvar.wait(lock.lock().unwrap()).unwrap()));
            let_it_pass();
            condvar.notify_one();
        });
        assert!(passed_on.into_inner() <= 1);
    });
}

#[test]
fn a_value_or_an_event_that_comes_with_the_timeout_is_seen_once() {
    at_each_switch_after_the_timeout(|let_it_pass| {
        for capacity in [0, 1] {
            let (sender, receiver) = channel::bounded(capacity);
            fiber::scope(|s| {
                let first = s.spawn(|| receiver.recv_timeout(MS).is_ok());
                let second = s.spawn(|| receiver.recv());
                let_it_pass();
                sender.send(7).unwrap();
                if first.join().unwrap() {
                    sender.send(7).unwrap();
                }
                assert_eq!(second.join().unwrap(), Ok(7));
            });
            assert!(receiver.is_empty());
        }
    });
    at_each_switch_after_the_timeout(|let_it_pass| {
        let (sender, receiver) = channel::bounded(0);
        fiber::scope(|s| {
            let first = s.spawn(|| sender.send_timeout(1, MS).is_ok());
            let second = s.spawn(|| sender.send(2));
            let_it_pass();
            let received = receiver.recv().unwrap();
            assert_eq!(received == 1, first.join().unwrap());
            if received == 1 {
                assert_eq!(receiver.recv(), Ok(2));
            }
            second.join().unwrap().unwrap();
        });
        assert!(receiver.try_recv().is_err());
    });
    at_each_switch_after_the_timeout(|let_it_pass| {
        let event = Event::new();
        fiber::scope(|s| {
            let first = s.spawn(|| event.wait_timeout(MS));
            let second = s.spawn(|| event.wait());
            let_it_pass();
            let is_late = first.is_finished();
            event.set();
            event.reset();
            second.join().unwrap().unwrap();
            assert!(!(is_late && first.join().unwrap().unwrap()));
        });
    });
}

#[test]
fn poison_is_seen_by_other_strands() {
    everywhere(|| {
        let lock = RwLock::new(1);
        fiber::scope(|s| {
            let panics = s.spawn(|| {
                let mut value = lock.write().unwrap();
                (0..5).for_each(|_| fiber::yield_now());
                *value = 2;
                panic!("with the lock");
            });
            fiber::yield_now();
            // These strands may be waiting when the panic happens.
            let reads = s.spawn(|| lock.read().map(|value| *value).map_err(|e| **e.get_ref()));
            let writes = s.spawn(|| lock.write().map(|value| *value).map_err(|e| **e.get_ref()));
            assert!(panics.join().is_err());
            let outcomes = [reads.join().unwrap(), writes.join().unwrap()];
            assert!(outcomes.iter().all(|seen| matches!(seen, Err(2) | Ok(1))), "{outcomes:?}");
        });
        let seen = thread::scope(|s| s.spawn(|| lock.read().is_err()).join().unwrap());
        assert!(seen && lock.is_poisoned() && lock.try_write().is_err());
        lock.clear_poison();
        assert_eq!(*lock.read().unwrap(), 2);
    });
    // On one worker they certainly wait.
    one_worker().run(|| {
        let lock = RwLock::new(1);
        fiber::scope(|s| {
            let panics = s.spawn(|| {
                let _value = lock.write().unwrap();
                fiber::yield_now();
                panic!("with the lock");
            });
            fiber::yield_now();
            assert_eq!(*lock.read().unwrap_err().into_inner(), 1);
            assert!(panics.join().is_err());
        });
    });
}

#[track_caller]
fn refused<T>(f: impl Fn() -> T) {
    assert!(panic_text(|| no_switch(f)).contains("inside no_switch would suspend"));
}

#[test]
fn a_wait_inside_no_switch_panics_and_changes_nothing() {
    one_worker().run(|| {
        let (mutex, rwlock, semaphore) = (Mutex::new(0), RwLock::new(0), Semaphore::new(1));
        let held = (mutex.lock().unwrap(), rwlock.write().unwrap(), semaphore.acquire().unwrap());
        let once = leak((Once::new(), OnceLock::new(), LazyLock::new(fiber::park)));
        let runners = [
            fiber::spawn(|| once.0.call_once(fiber::park)),
            fiber::spawn(|| *once.1.get_or_init(fiber::park)),
            fiber::spawn(|| *once.2),
        ];
        fiber::scope(|s| {
            let other = s.spawn(|| {
                refused(|| drop(mutex.lock()));
                refused(|| drop(mutex.lock_timeout(MS)));
            });
            other.join().unwrap();
        });
        refused(|| drop(rwlock.read()));
        refused(|| drop(rwlock.write()));
        refused(|| drop(semaphore.acquire()));
        refused(|| drop(semaphore.acquire_timeout(1, MS)));
        refused(|| Event::new().wait());
        refused(|| once.0.call_once(|| ()));
        refused(|| once.0.wait());
        refused(|| *once.1.get_or_init(|| ()));
        refused(|| *once.1.wait());
        refused(|| *once.2);
        drop(held);
        assert!(mutex.try_lock().is_ok() && rwlock.try_write().is_ok());
        assert!(semaphore.try_acquire().is_ok());
        runners.iter().for_each(|runner| runner.fiber().unpark());
        runners.into_iter().for_each(|runner| runner.join().unwrap());
        assert!(once.0.is_completed() && once.1.get().is_some());

        let condvar = Condvar::new();
        refused(|| drop(condvar.wait(mutex.lock().unwrap())));
        refused(|| Barrier::new(2).wait());
        assert!(mutex.lock_timeout(Duration::ZERO).is_ok_and(|guard| *guard == 0));

        let (sender, receiver) = mpsc::sync_channel(1);
        refused(|| receiver.recv());
        refused(|| receiver.recv_timeout(MS));
        assert_eq!((sender.send(1), receiver.recv(), sender.send(2)), (Ok(()), Ok(1), Ok(())));
        refused(|| sender.send(3));
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [2]);
        let (sender, receiver) = channel::bounded(0);
        refused(|| receiver.recv());
        refused(|| sender.send(1));
        refused(|| sender.send_timeout(1, MS));
        refused(|| select! { recv(receiver) -> _ => {}, send(sender, 1) -> _ => {} });
        assert!(receiver.try_recv().is_err() && sender.try_send(1).is_err());
    });
}

/// Runs its closure when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

fn while_unwinding<T>(mut f: impl FnMut() -> T) {
    panic_text(|| {
        let _on_drop = OnDrop(|| drop(f()));
        panic!("expected");
    });
}

#[test]
fn while_unwinding_channels_return_errors_and_free_locks_are_taken() {
    one_worker().run(|| {
        let (sender, receiver) = mpsc::sync_channel(1);
        let (rwlock, semaphore, event) = (RwLock::new(0), Semaphore::new(1), Event::new());
        event.set();
        while_unwinding(|| {
            assert!(receiver.recv().is_err() && receiver.recv_timeout(MS).is_err());
            assert_eq!(sender.send(1), Ok(()));
            assert!(sender.send(2).is_err());
            assert_eq!(receiver.recv(), Ok(1));
            *rwlock.write().unwrap() += 1;
            drop(semaphore.acquire());
            event.wait().unwrap();
        });
        assert!(sender.send(3).is_ok() && receiver.recv() == Ok(3));
        assert_eq!(rwlock.into_inner().unwrap(), 1);
    });
}

#[test]
fn while_unwinding_a_cancellable_wait_reports_a_cancellation() {
    one_worker().run(|| {
        let (lock, rwlock) = (leak(Mutex::new(())), leak(RwLock::new(())));
        let holder = fiber::spawn(|| {
            let _held = (lock.lock(), rwlock.write());
            fiber::park();
        });
        fiber::yield_now();
        let sentence = "cancelled: the strand unwinds from a panic";
        let says = |error: Cancelled| assert_eq!(error.to_string(), sentence);
        while_unwinding(|| {
            says(lock.lock_or_cancelled().unwrap_err());
            says(rwlock.read_or_cancelled().unwrap_err());
            says(rwlock.write_or_cancelled().unwrap_err());
            let (free, condvar) = (Mutex::new(()), Condvar::new());
            says(condvar.wait_or_cancelled(free.lock().unwrap()).unwrap_err());
            says(condvar.wait_while_or_cancelled(free.lock().unwrap(), |()| true).unwrap_err());
            assert!(free.try_lock().is_ok());
            says(Event::new().wait().unwrap_err());
            says(Event::new().wait_timeout(MS).unwrap_err());
            assert!(matches!(lock.lock_timeout(MS), Err(TryLockError::WouldBlock)));
            let semaphore = Semaphore::new(0);
            assert_eq!(semaphore.acquire().unwrap_err(), AcquireError::Cancelled);
            let error = semaphore.acquire_timeout(1, MS).unwrap_err();
            assert_eq!(error, AcquireTimeoutError::Cancelled);
            semaphore.add_permits(1);
            assert!(semaphore.acquire().is_ok());
        });
        holder.fiber().unpark();
        holder.join().unwrap();
    });
}

/// Waits for a resource of another strand, by name.
fn wait_for(what: &str) {
    let lock = RwLock::new(());
    match what {
        "read" => {
            let _held = lock.write();
            while_unwinding(|| drop(lock.read()));
        }
        "write" => {
            let _held = lock.read();
            while_unwinding(|| drop(lock.write()));
        }
        "condvar" => while_unwinding(|| drop(Condvar::new().wait(Mutex::new(()).lock().unwrap()))),
        "barrier" => while_unwinding(|| Barrier::new(2).wait()),
        "select" => {
            let (sender, receiver) = channel::bounded::<u8>(0);
            while_unwinding(|| select! { recv(receiver) -> _ => {} });
            drop(sender);
        }
        "once" => {
            let once = leak(Once::new());
            drop(fiber::spawn(|| once.call_once(fiber::park)));
            fiber::yield_now();
            while_unwinding(|| once.call_once(|| ()));
        }
        _ => unreachable!("no such case: {what}"),
    }
}

#[test]
fn while_unwinding_a_wait_without_an_error_aborts() {
    const CASE: &str = "RAMIE_TEST_CASE";
    if is_child() {
        let case = env::var(CASE).unwrap();
        return one_worker().run(|| wait_for(&case));
    }
    let cases = [
        ("read", "a RwLock that another strand holds"),
        ("write", "a RwLock that another strand holds"),
        ("condvar", "a Condvar"),
        ("barrier", "a Condvar"),
        ("select", "a select"),
        ("once", "a Once that another strand runs"),
    ];
    for (case, what) in cases {
        let name = "while_unwinding_a_wait_without_an_error_aborts";
        let output = child_with("true", name, &[(CASE, case)]);
        assert_aborted(&output, &format!("a destructor that runs during a panic waits for {what}"));
    }
}
