//! Waiting where a strand must not: inside `no_switch`, and in destructors during a panic.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use crate::common::{
    Limit, assert_aborted, child, is_child, on_each, one_worker, panic_text, text,
};
use ramie::{
    fiber, no_switch,
    sync::{Mutex, oneshot},
};

#[test]
fn no_switch_refuses_whatever_would_suspend() {
    let sentence = "a call inside no_switch would suspend the strand; move the blocking call (or \
                    yield_now) out of the no_switch region";
    let check = || {
        let refused = |f: &dyn Fn()| {
            let text = panic_text(|| no_switch(f));
            assert!(text.starts_with(sentence), "{text}");
        };
        refused(&fiber::yield_now);
        refused(&fiber::park);
        refused(&|| fiber::sleep(Duration::from_secs(1)));
        refused(&|| fiber::park_timeout(Duration::from_secs(1)));
        refused(&|| drop(fiber::spawn(fiber::yield_now).join()));
        refused(&|| {
            let (_sender, receiver) = oneshot::channel::<u8>();
            let _ = receiver.recv();
        });
        refused(&|| ramie::blocking(|| ()));
        refused(&|| {
            no_switch(|| ());
            fiber::yield_now();
        });
        fiber::yield_now();
    };
    on_each(&[1], |runtime| runtime.run(check));
}

#[test]
fn no_switch_permits_calls_that_do_not_suspend() {
    one_worker().run(|| {
        let ended = fiber::spawn(|| 5);
        fiber::yield_now();
        let lock = Mutex::new(1);
        let sum = no_switch(|| {
            drop(fiber::spawn(|| ()));
            fiber::current().unpark();
            fiber::sleep(Duration::ZERO);
            no_switch(|| *lock.lock().unwrap()) + ended.join().unwrap()
        });
        assert_eq!(sum, 6);
        fiber::park();
    });
}

/// Runs its closure when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Panics, with `f` called during the unwinding, and others there that could see it.
fn while_unwinding(f: impl FnMut()) {
    let _limit = Limit::of_this_test();
    let bystander = fiber::spawn(|| {
        for _ in 0..100 {
            assert!(!std::thread::panicking(), "another fiber runs while one unwinds");
            fiber::yield_now();
        }
    });
    fiber::yield_now();
    let text = panic_text(|| {
        let _on_drop = OnDrop(f);
        panic!("expected");
    });
    assert_eq!(text, "expected");
    bystander.join().unwrap();
}

#[test]
fn sleeping_parking_and_yielding_return_at_once() {
    on_each(&[1], |runtime| {
        runtime.run(|| {
            while_unwinding(|| fiber::sleep(Duration::from_secs(3600)));
            while_unwinding(fiber::park);
            while_unwinding(|| fiber::park_timeout(Duration::from_secs(3600)));
            while_unwinding(fiber::yield_now);
        });
    });
}

#[test]
fn joining_and_receiving_give_their_errors() {
    one_worker().run(|| {
        let parked = fiber::spawn(fiber::park);
        let target = parked.fiber().clone();
        let mut parked = Some(parked);
        while_unwinding(|| {
            let payload = parked.take().unwrap().join().unwrap_err();
            assert!(text(&*payload).contains("destructor that runs during a panic"));
        });
        target.unpark();

        let (_sender, receiver) = oneshot::channel::<u8>();
        let mut receiver = Some(receiver);
        while_unwinding(|| assert!(receiver.take().unwrap().recv().is_err()));

        let mut ended = Some(fiber::spawn(|| 5));
        fiber::yield_now();
        while_unwinding(|| assert_eq!(ended.take().unwrap().join().unwrap(), 5));
    });
}

#[test]
fn blocking_runs_in_place_and_free_locks_are_taken() {
    one_worker().run(|| {
        let here = std::thread::current().id();
        let lock = Mutex::new(0);
        while_unwinding(|| {
            assert_eq!(ramie::blocking(|| std::thread::current().id()), here);
            *lock.lock().unwrap() += 1;
            drop(fiber::spawn(|| ()));
        });
        assert_eq!(lock.into_inner().unwrap(), 1);
    });
}

/// An op is awaited with no other fiber running, for 100 ms at most.
#[test]
fn io_is_awaited_in_place() {
    use ramie::io::Read;
    on_each(&[1], |runtime| {
        runtime.run(|| {
            let (mut reader, _writer) = ramie::io::pipe().unwrap();
            while_unwinding(|| assert!(reader.read(&mut [0]).is_err(), "nothing was written"));
        });
    });
}

#[test]
fn waiting_for_a_lock_aborts() {
    if is_child() {
        return one_worker().run(|| {
            let lock = Arc::new(Mutex::new(()));
            let theirs = Arc::clone(&lock);
            drop(fiber::spawn(move || {
                let _held = theirs.lock();
                fiber::park();
            }));
            fiber::yield_now();
            while_unwinding(|| drop(lock.lock()));
        });
    }
    let sentence = "a destructor that runs during a panic waits for a Mutex that another strand \
                    holds";
    assert_aborted(&child("waiting_for_a_lock_aborts"), sentence);
}

#[test]
fn waiting_for_a_scope_aborts() {
    if is_child() {
        return one_worker().run(|| {
            while_unwinding(|| fiber::scope(|s| drop(s.spawn(fiber::park))));
        });
    }
    let sentence = "waits for a scope with strands that have not ended";
    assert_aborted(&child("waiting_for_a_scope_aborts"), sentence);
}

/// The panics of two fibers of one thread do not get mixed up.
#[test]
fn fibers_panic_one_after_the_other() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let panics = |n: usize| {
                move || {
                    let _yields = OnDrop(fiber::yield_now);
                    fiber::yield_now();
                    panic!("number {n}");
                }
            };
            let strands: Vec<_> = (0..50).map(|n| fiber::spawn(panics(n))).collect();
            for (n, strand) in strands.into_iter().enumerate() {
                let payload = strand.join().unwrap_err();
                assert_eq!(text(&*payload), format!("number {n}"));
            }
            assert!(!std::thread::panicking());
        });
    });
}

#[test]
fn a_fibers_thread_local_initializer_can_be_kept_whole() {
    thread_local! {
        static VALUE: OnceLock<u8> = no_switch(|| {
            let lock = OnceLock::new();
            lock.set(1).unwrap();
            lock
        });
    }
    one_worker().run(|| {
        let strands = [(); 2].map(|()| fiber::spawn(|| VALUE.with(|value| *value.get().unwrap())));
        strands.into_iter().for_each(|strand| assert_eq!(strand.join().unwrap(), 1));
    });
}

/// A thread without fibers disturbs nobody, so its destructors wait as those of std's types do.
#[test]
fn a_thread_without_fibers_waits_in_a_destructor() {
    let (sender, receiver) = ramie::channel::bounded(0);
    let unwinds = std::thread::spawn(move || {
        let mut received = None;
        panic_text(|| {
            let _on_drop = OnDrop(|| received = receiver.recv().ok());
            panic!("expected");
        });
        received
    });
    // A rendezvous: taken only by one that receives.
    sender.send(5).expect("the receiver waits, or will");
    assert_eq!(unwinds.join().unwrap(), Some(5));
}

/// The op that receives again and again is awaited in place, too.
#[test]
fn an_iterator_of_received_bytes_is_awaited_in_place() {
    use ramie::os::unix::net::UnixStream;
    on_each(&[1], |runtime| {
        runtime.run(|| {
            let listener = ramie::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let stream = ramie::net::TcpStream::connect(address).unwrap();
            let (_silent, (ours, _theirs)) = (listener.accept(), UnixStream::pair().unwrap());
            while_unwinding(|| assert!(stream.recv_each().next().unwrap().is_err()));
            while_unwinding(|| assert!(ours.recv_each().next().unwrap().is_err()));
        });
    });
}

/// Outside of fibers there is nobody who would see the panic: the thread just waits.
#[test]
fn a_plain_thread_waits_while_it_unwinds() {
    let pause = Duration::from_millis(20);
    let start = std::time::Instant::now();
    panic_text(|| {
        let _on_drop = OnDrop(|| fiber::sleep(pause));
        panic!("expected");
    });
    assert!(start.elapsed() >= pause, "it did not sleep");
}
