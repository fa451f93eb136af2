//! Everything on a plain thread, where no runtime runs: strands are OS threads then.

use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use crate::common;
use crate::common::{
    Counted, assert_success, child, is_child, panic_text, stderr, text, wait_until,
};
use ramie::{
    fiber::{self, Builder},
    sync::{Mutex, oneshot},
};

#[test]
fn spawn_makes_a_thread_with_the_same_handles() {
    let here = std::thread::current().id();
    let strand = fiber::spawn(move || {
        assert_ne!(std::thread::current().id(), here);
        assert!(fiber::current().id().is_thread());
        fiber::current().id()
    });
    let id = strand.fiber().id();
    assert_eq!(strand.join().unwrap(), id);
    assert_ne!(fiber::current().id(), id);
}

#[test]
fn a_name_is_the_threads_name_too() {
    let named = Builder::new().name("outsider".into()).stack_size(64 * 1024);
    let names = || {
        let name = std::thread::current().name().map(str::to_owned);
        (name, fiber::current().name().map(str::to_owned))
    };
    let (of_thread, of_strand) = named.spawn(names).unwrap().join().unwrap();
    assert_eq!(of_thread.as_deref(), Some("outsider"));
    assert_eq!(of_strand.as_deref(), Some("outsider"));
}

#[test]
fn the_strand_of_a_thread_has_its_name() {
    let thread = std::thread::Builder::new().name("mine".into());
    let name = thread.spawn(|| fiber::current().name().map(str::to_owned)).unwrap();
    assert_eq!(name.join().unwrap().as_deref(), Some("mine"));
}

#[test]
fn joining_gives_the_payload_of_a_panic() {
    let payload = fiber::spawn(|| panic!("outside")).join().unwrap_err();
    assert_eq!(text(&*payload), "outside");
}

#[test]
fn a_strand_that_ends_panics_no_more() {
    if is_child() {
        for _ in 0..100 {
            fiber::spawn(|| ()).join().unwrap();
        }
        // All their threads have gone when this one can be made and counts alone.
        return wait_until(|| common::threads() <= 2);
    }
    let output = child("a_strand_that_ends_panics_no_more");
    assert_success(&output);
    assert!(!stderr(&output).contains("panicked"), "{}", stderr(&output));
}

#[test]
fn local_fibers_run_while_the_thread_waits() {
    let count = Rc::new(Cell::new(0));
    let theirs = Rc::clone(&count);
    let local = fiber::spawn_local(move || {
        assert!(!fiber::current().id().is_thread());
        theirs.set(1);
        fiber::yield_now();
        theirs.set(2);
        Rc::clone(&theirs)
    });
    assert_eq!(count.get(), 0);
    fiber::yield_now();
    assert_eq!(count.get(), 1);
    assert_eq!(local.join().unwrap().get(), 2);
}

#[test]
fn local_fibers_that_wait_go_with_their_thread() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    let handle = std::thread::spawn(|| {
        let counted = Counted(&DROPS);
        let parked = fiber::spawn_local(move || {
            let _counted = counted;
            fiber::park();
        });
        let unstarted_counted = Counted(&DROPS);
        fiber::yield_now();
        drop(fiber::spawn_local(move || drop(unstarted_counted)));
        assert!(!parked.is_finished());
        // The one that started is given up with all it holds, the other is dropped.
    });
    handle.join().unwrap();
    assert_eq!(DROPS.load(Ordering::SeqCst), 1);
}

#[test]
fn a_scope_borrows_and_waits_for_threads() {
    let mut counts = [0; 4];
    fiber::scope(|s| {
        for (n, count) in counts.iter_mut().enumerate() {
            s.spawn(move || *count = n);
        }
    });
    assert_eq!(counts, [0, 1, 2, 3]);
}

#[test]
fn a_scope_on_a_thread_has_local_fibers() {
    let order = std::cell::RefCell::new(Vec::new());
    fiber::scope(|s| {
        s.spawn_local(|| order.borrow_mut().push(1));
        s.spawn_local(|| order.borrow_mut().push(2));
        order.borrow_mut().push(0);
    });
    assert_eq!(order.into_inner(), [0, 1, 2]);
}

#[test]
fn a_panic_in_a_scope_names_the_thread() {
    let text = panic_text(|| {
        fiber::scope(|s| {
            let named = Builder::new().name("careless".into());
            drop(named.spawn_scoped(s, || panic!("expected")).unwrap());
        });
    });
    assert_eq!(text, "a strand of the scope panicked: thread 'careless': expected");
}

#[test]
fn a_name_that_no_thread_can_have_is_a_panic() {
    let strange = || Builder::new().name("nul\0".into());
    let refused = |spawn: &dyn Fn()| {
        let text = panic_text(spawn);
        assert!(text.contains("NUL"), "{text}");
    };
    refused(&|| drop(strange().spawn(|| ())));
    refused(&|| drop(strange().spawn_local(|| ())));
    // The scope must not wait for the strand that was never made.
    refused(&|| fiber::scope(|s| drop(strange().spawn_scoped(s, || ()))));
    ramie::run(|| refused(&|| drop(strange().spawn(|| ()))));
}

/// As in std's own test of its `ThreadId`.
#[test]
fn an_id_that_may_be_missing_is_no_larger() {
    assert_eq!(size_of::<Option<ramie::thread::ThreadId>>(), size_of::<ramie::thread::ThreadId>());
}

#[test]
fn park_and_unpark_between_threads() {
    let me = fiber::current();
    let other = fiber::spawn(move || {
        me.unpark();
        fiber::park();
    });
    fiber::park();
    other.fiber().unpark();
    other.join().unwrap();
}

#[test]
fn an_unpark_that_came_first_is_kept() {
    fiber::current().unpark();
    fiber::current().unpark();
    fiber::park();
    let start = ramie::time::Instant::now();
    fiber::park_timeout(Duration::from_millis(5));
    assert!(start.elapsed() >= Duration::from_millis(5));
}

#[test]
fn sleeping_blocks_the_thread_only() {
    let start = std::time::Instant::now();
    fiber::sleep(Duration::from_millis(5));
    fiber::sleep_until(ramie::time::Instant::now() + Duration::from_millis(5));
    assert!(start.elapsed() >= Duration::from_millis(10));
    fiber::sleep(Duration::ZERO);
}

#[test]
fn blocking_runs_in_place() {
    let here = std::thread::current().id();
    assert_eq!(ramie::blocking(|| std::thread::current().id()), here);
    assert_eq!(ramie::no_switch(|| 5), 5);
}

#[test]
fn blocking_in_a_local_fiber_leaves_the_thread_free() {
    let here = std::thread::current().id();
    let (send, receive) = oneshot::channel();
    let job = fiber::spawn_local(move || {
        ramie::blocking(move || (receive.recv().unwrap(), std::thread::current().id()))
    });
    fiber::spawn_local(move || send.send(9).unwrap()).join().unwrap();
    let (value, there) = job.join().unwrap();
    assert_eq!(value, 9);
    assert_ne!(there, here);
}

#[test]
fn locks_and_channels_work_between_threads() {
    let total = Mutex::new(0);
    let (sender, receiver) = oneshot::channel();
    fiber::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| (0..1000).for_each(|_| *total.lock().unwrap() += 1));
        }
        s.spawn(|| sender.send("sent").unwrap());
        assert_eq!(receiver.recv(), Ok("sent"));
    });
    assert_eq!(total.into_inner().unwrap(), 4000);
}

#[test]
fn a_panicking_thread_may_still_wait_for_others() {
    struct Waits;
    impl Drop for Waits {
        fn drop(&mut self) {
            assert_eq!(fiber::spawn(|| 5).join().unwrap(), 5);
        }
    }
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        let _waits = Waits;
        panic!("expected");
    }));
    assert_eq!(text(&*outcome.unwrap_err()), "expected");
}

/// Each strand that ends leaves its header to the next; none is left to two.
#[test]
fn threads_that_come_and_go_keep_their_identities() {
    let rounds = || {
        for _ in 0..50 {
            let strand = fiber::spawn(|| fiber::current().id());
            let joiner = std::thread::spawn(move || strand.join().unwrap());
            let root = std::thread::spawn(|| {
                let id = fiber::current().id();
                fiber::park_timeout(Duration::from_micros(50));
                assert_eq!(fiber::current().id(), id);
                id
            });
            assert_ne!(joiner.join().unwrap(), root.join().unwrap());
        }
    };
    std::thread::scope(|s| (0..4).for_each(|_| drop(s.spawn(rounds))));
}

#[test]
fn a_thread_that_only_yields_lets_its_fibers_wait() {
    use std::io::{Read, Write};
    std::thread::spawn(|| {
        let (ours, mut theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut ours = ramie::os::unix::net::UnixStream::from(ours);
        let reader = fiber::spawn_local(move || ours.read(&mut [0]).unwrap());
        let sleeper = fiber::spawn_local(move || {
            fiber::sleep(Duration::from_millis(2));
            theirs.write_all(b"text").unwrap();
        });
        wait_until(|| reader.is_finished() && sleeper.is_finished());
        assert_eq!(reader.join().unwrap(), 1);
    })
    .join()
    .unwrap();
}
