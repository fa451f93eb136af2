//! Scopes: fibers that borrow, and the scope that waits for all of them.

use std::{
    cell::{Cell, RefCell},
    mem,
    sync::atomic::{AtomicUsize, Ordering},
};

use crate::common::{
    self, Counted, assert_success, child_with, is_child, on_each, one_worker, panic_text, text,
};
use ramie::fiber::{self, Builder};

#[test]
fn fibers_borrow_the_parents_locals() {
    on_each(&[1, 4], |runtime| {
        runtime.run(|| {
            let text = String::from("borrowed");
            let mut lengths = [0; 8];
            let last = fiber::scope(|s| {
                for length in &mut lengths {
                    s.spawn(|| {
                        fiber::yield_now();
                        *length = text.len();
                    });
                }
                s.spawn(|| text.as_str()).join().unwrap()
            });
            assert_eq!(last, "borrowed");
            assert_eq!(lengths, [8; 8]);
        });
    });
}

#[test]
fn scopes_nest_and_children_spawn_siblings() {
    on_each(&[1, 4], |runtime| {
        let count = AtomicUsize::new(0);
        runtime.run(|| {
            fiber::scope(|outer| {
                for _ in 0..10 {
                    outer.spawn(|| {
                        outer.spawn(|| count.fetch_add(1, Ordering::Relaxed));
                        fiber::scope(|inner| {
                            for _ in 0..10 {
                                inner.spawn(|| count.fetch_add(1, Ordering::Relaxed));
                            }
                        });
                    });
                }
            });
        });
        assert_eq!(count.into_inner(), 110);
    });
}

#[test]
fn an_unjoined_panic_is_raised_after_all_have_ended() {
    on_each(&[1, 2], |runtime| {
        let ended = AtomicUsize::new(0);
        let text = panic_text(|| {
            runtime.run(|| {
                fiber::scope(|s| {
                    let named = Builder::new().name("careless".into());
                    drop(named.spawn_scoped(s, || panic!("expected")).unwrap());
                    for _ in 0..10 {
                        s.spawn(|| {
                            (0..10).for_each(|_| fiber::yield_now());
                            ended.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
            });
        });
        assert_eq!(text, "a strand of the scope panicked: fiber 'careless': expected");
        assert_eq!(ended.into_inner(), 10);
    });
}

#[test]
fn a_panic_that_was_over_before_the_handle_went_counts_too() {
    one_worker().run(|| {
        let text = panic_text(|| {
            fiber::scope(|s| {
                let named = Builder::new().name("early".into());
                let handle = named.spawn_scoped(s, || panic!("expected")).unwrap();
                common::wait_until(|| handle.is_finished());
            });
        });
        assert_eq!(text, "a strand of the scope panicked: fiber 'early': expected");
    });
}

#[test]
fn a_joined_panic_is_the_joiners() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let payload = fiber::scope(|s| s.spawn(|| panic!("expected")).join().unwrap_err());
            assert_eq!(text(&*payload), "expected");
        });
    });
}

#[test]
fn a_panic_of_the_closure_waits_for_the_strands() {
    on_each(&[1, 2], |runtime| {
        let ended = AtomicUsize::new(0);
        let text = panic_text(|| {
            runtime.run(|| {
                fiber::scope(|s| {
                    for _ in 0..10 {
                        s.spawn(|| {
                            fiber::yield_now();
                            ended.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                    s.spawn(|| panic!("of a strand"));
                    panic!("of the closure");
                });
            });
        });
        assert_eq!(text, "of the closure");
        assert_eq!(ended.into_inner(), 10);
    });
}

#[test]
fn a_forgotten_handle_cuts_no_wait_short() {
    on_each(&[1, 2], |runtime| {
        runtime.run(|| {
            let mut value = 0;
            fiber::scope(|s| {
                mem::forget(s.spawn(|| {
                    fiber::yield_now();
                    value = 1;
                }));
            });
            assert_eq!(value, 1);
        });
    });
}

#[test]
fn values_that_nobody_takes_are_dropped_before_the_scope_ends() {
    on_each(&[1, 2], |runtime| {
        let drops = AtomicUsize::new(0);
        runtime.run(|| {
            fiber::scope(|s| {
                let early = s.spawn(|| Counted(&drops));
                common::wait_until(|| early.is_finished());
                drop(early);
                s.spawn(|| {
                    fiber::yield_now();
                    (Counted(&drops), [0_u8; 100])
                });
            });
            assert_eq!(drops.load(Ordering::SeqCst), 2);
        });
    });
}

#[test]
fn local_fibers_borrow_values_that_are_not_sync() {
    on_each(&[1, 4], |runtime| {
        runtime.run(|| {
            let here = std::thread::current().id();
            let order = RefCell::new(Vec::new());
            let count = Cell::new(0);
            let value = fiber::scope(|s| {
                for n in 0..3 {
                    let (order, count) = (&order, &count);
                    s.spawn_local(move || {
                        assert_eq!(std::thread::current().id(), here);
                        order.borrow_mut().push(n);
                        fiber::yield_now();
                        count.set(count.get() + 1);
                    });
                }
                s.spawn_local(|| &count).join().unwrap()
            });
            assert_eq!(value.get(), 3);
            assert_eq!(order.into_inner(), [0, 1, 2]);
        });
    });
}

#[test]
fn local_fibers_need_the_thread_that_waits() {
    let sentence = "Scope::spawn_local was called on a thread that does not wait for the scope";
    let text = panic_text(|| {
        fiber::scope(|s| {
            let local = || drop(s.spawn_local(|| ()));
            std::thread::scope(|threads| {
                std::panic::resume_unwind(threads.spawn(local).join().unwrap_err())
            });
        });
    });
    assert!(text.starts_with(sentence), "{text}");
}

#[test]
fn a_scope_shows_its_strands() {
    one_worker().run(|| {
        fiber::scope(|s| {
            let parked = s.spawn(fiber::park);
            assert_eq!(format!("{s:?}"), "Scope { strands: 1, .. }");
            assert!(format!("{parked:?}").starts_with("ScopedJoinHandle"));
            parked.thread().unpark();
        });
    });
}

fn exhaust_the_memory<'scope>(s: &'scope fiber::Scope<'scope, '_>) {
    let text = panic_text(|| {
        loop {
            drop(s.spawn(|| ()));
        }
    });
    assert!(text.contains("no memory for more strands"), "{text}");
    assert!(text.contains("ulimit -v"), "{text}");
}

/// The scope of a strand for which there was no memory must not wait for it.
#[test]
fn a_spawn_that_panics_leaves_the_scope_whole() {
    if is_child() {
        common::limit_memory(64 << 20);
        return common::unwatched_worker().run(|| {
            // Leaves a stack, on which all that were spawned can run when there are no more.
            fiber::spawn(|| ()).join().unwrap();
            fiber::scope(exhaust_the_memory);
            println!("the scope has ended");
        });
    }
    let name = "a_spawn_that_panics_leaves_the_scope_whole";
    let output = child_with("true", name, &[("RAMIE_DRIVER", "poll")]);
    assert_success(&output);
    assert!(String::from_utf8_lossy(&output.stdout).contains("the scope has ended"));
}
