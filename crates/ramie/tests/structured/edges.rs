//! Structured concurrency when several events happen at the same time: a child that ends before it
//! is ready, several panics, two strands that take from one set.

use std::{
    io,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

use crate::common::{
    assert_aborted,
    cancel::{LONG, until_cancelled},
    child, is_child, on_workers, one_worker, panic_text,
};
use ramie::{
    cancel, fiber,
    structured::{Failures, Ready, par_map, par_map_unordered, race, set, try_par_map, try_scope},
};

#[test]
fn a_child_that_fails_before_it_is_ready_is_the_cause() {
    on_workers(|| {
        let result: Result<(), Failures<io::Error>> = try_scope(|scope| {
            scope.start(|ready: Ready<()>| {
                drop(ready);
                (0..10).for_each(|_| fiber::yield_now());
                Err(io::Error::other("no port"))
            })?;
            Ok(())
        });
        let failures = result.unwrap_err();
        assert_eq!(failures.cause().to_string(), "no port");
        assert_eq!(failures.iter().count(), 1, "{failures}");
    });
}

#[test]
fn the_panic_of_a_child_before_it_is_ready_is_resumed_in_the_parent() {
    on_workers(|| {
        let start = || {
            try_scope(|scope| {
                scope.start::<(), _>(|_ready| panic!("no port"))?;
                io::Result::Ok(())
            })
        };
        assert_eq!(panic_text(start), "no port");
    });
}

#[test]
fn a_child_that_never_becomes_ready_fails_the_scope() {
    on_workers(|| {
        let result: Result<(), Failures<io::Error>> = try_scope(|scope| {
            scope.spawn(until_cancelled);
            scope.start::<(), _>(|_ready| Ok(()))?;
            Ok(())
        });
        let text = result.unwrap_err().to_string();
        assert_eq!(text, "cancelled: the fiber ended before it was ready");
    });
}

#[test]
fn starting_is_a_cancel_point() {
    on_workers(|| {
        let text = cancel::scope(|outer| {
            let result: Result<(), Failures<io::Error>> = try_scope(|scope| {
                scope.spawn(|| {
                    outer.cancel_because("closing");
                    Ok(())
                });
                let started = scope.start::<(), _>(|ready| {
                    let ended = until_cancelled();
                    drop(ready);
                    ended
                });
                assert_eq!(started.unwrap_err().reason(), "closing");
                Ok(())
            });
            result.unwrap_err().to_string()
        });
        assert_eq!(text, "cancelled: closing");
    });
}

#[test]
fn a_map_that_panics_takes_no_more_items() {
    on_workers(|| {
        let bomb = |item: u32| match item {
            3 => panic!("boom"),
            item => {
                fiber::yield_now();
                item
            }
        };
        // The items have no end.
        assert_eq!(panic_text(|| par_map(0.., 2, bomb)), "boom");
        assert_eq!(panic_text(|| par_map_unordered(0.., 2, bomb, |_| ())), "boom");
        let fallible = |item| io::Result::Ok(bomb(item));
        assert_eq!(panic_text(|| try_par_map(0.., 2, fallible)), "boom");
    });
}

#[test]
fn a_map_whose_iterator_panics_or_is_empty_ends() {
    on_workers(|| {
        let items = || (0..10).inspect(|item| assert!(*item < 3, "no such item"));
        assert_eq!(panic_text(|| par_map(items(), 2, |item| item)), "no such item");
        assert_eq!(panic_text(|| par_map_unordered(items(), 2, |_| (), |()| ())), "no such item");
        assert_eq!(par_map(0..0, 4, |item: u32| item), []);
        assert_eq!(par_map(7..8, 1, |item: u32| item), [7]);
        // An iterator that wrongly says that it is empty.
        struct Wrong(std::ops::Range<u32>);
        impl Iterator for Wrong {
            type Item = u32;
            fn next(&mut self) -> Option<u32> {
                self.0.next()
            }
            fn size_hint(&self) -> (usize, Option<usize>) {
                (0, Some(0))
            }
        }
        assert_eq!(par_map(Wrong(0..3), 4, |item| item), [0, 1, 2]);
        par_map_unordered(0..0, 4, |item: u32| item, |_| unreachable!("there is none"));
        // `next` is not called again on an iterator that has returned `None`.
        let mut calls = 0;
        let blinks = std::iter::from_fn(move || {
            calls += 1;
            (calls % 2 == 0).then_some(calls)
        });
        assert_eq!(par_map(blinks, 2, |item| item), []);
    });
}

#[test]
fn a_map_whose_receiver_panics_ends() {
    on_workers(|| {
        let each = |item: u32| assert!(item < 5, "enough");
        assert_eq!(panic_text(|| par_map_unordered(0.., 3, |item| item, each)), "enough");
    });
}

#[test]
fn two_strands_may_take_from_one_set() {
    const ALL: usize = 500;
    on_workers(|| {
        let taken = AtomicUsize::new(0);
        set(|set| {
            (0..ALL).for_each(|_| set.spawn(fiber::yield_now));
            fiber::scope(|scope| {
                scope.spawn(|| {
                    while set.next().is_some() {
                        taken.fetch_add(1, SeqCst);
                    }
                });
                while !set.is_empty() {
                    match set.try_next() {
                        Some(_) => _ = taken.fetch_add(1, SeqCst),
                        None => fiber::yield_now(),
                    }
                    assert!(set.len() <= ALL, "the count went below zero");
                }
            });
            assert!(set.is_empty() && set.try_next().is_none() && set.next().is_none());
        });
        assert_eq!(taken.load(SeqCst), ALL);
    });
}

#[test]
fn waiting_for_a_set_while_unwinding_aborts_with_a_message() {
    if !is_child() {
        let output = child("waiting_for_a_set_while_unwinding_aborts_with_a_message");
        return assert_aborted(&output, "a destructor that runs during a panic waits for");
    }
    struct Waits<F: Fn()>(F);
    impl<F: Fn()> Drop for Waits<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    one_worker().run(|| {
        set(|set| {
            set.spawn(|| fiber::sleep(LONG));
            let _waits = Waits(|| drop(set.next()));
            panic!("unwinds");
        })
    });
}

/// Of many panics one is resumed. The payloads of the others are dropped, and panics of their
/// destructors are ignored, because a panic while the first one unwinds would abort the process.
#[test]
fn payloads_whose_destructors_panic_do_not_end_the_process() {
    struct Odd;
    impl Drop for Odd {
        fn drop(&mut self) {
            panic!("the payload is dropped");
        }
    }
    let fails = || -> u8 { std::panic::panic_any(Odd) };
    let goes_on = |f: &dyn Fn()| {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(f));
        let payload = outcome.unwrap_err();
        assert!(payload.is::<Odd>());
        std::mem::forget(payload);
    };
    on_workers(|| {
        goes_on(&|| {
            race(|racers| (0..3).for_each(|_| racers.spawn(fails)));
        });
        goes_on(&|| set(|set| (0..3).for_each(|_| set.spawn(fails))));
        goes_on(&|| drop(par_map(0..3, 3, |_| fails())));
        goes_on(&|| {
            let _ = try_scope(|scope| {
                (0..3).for_each(|_| drop(scope.spawn(|| Ok::<_, String>(fails()))));
                Ok(())
            });
        });
    });
}
