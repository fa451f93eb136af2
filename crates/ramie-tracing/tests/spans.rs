//! Each strand has its own spans.

mod common;

use std::{
    mem,
    panic::catch_unwind,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use common::{log, on_each, one_worker, recorder};
use ramie::{Runtime, coro::Coroutine, fiber, future::block_on};
use ramie_tracing::with_default;
use tracing::{Instrument, Span, info, info_span, instrument};

/// Lines like `INFO request{client=1}: done`, for these clients.
fn lines_of(clients: std::ops::RangeInclusive<u32>, rest: &str) -> Vec<String> {
    let mut lines: Vec<_> =
        clients.map(|client| format!("INFO request{{client={client}}}: {rest}")).collect();
    lines.sort();
    lines
}

/// Runs `f` on one strand for each client, all at the same time.
fn for_clients(f: impl Fn(u32) + Send + Sync) {
    fiber::scope(|scope| {
        for client in 1..=4 {
            let f = &f;
            scope.spawn(move || f(client));
        }
    });
}

#[test]
fn each_line_has_the_span_of_its_strand() {
    on_each(|| {
        let (dispatch, log) = log();
        with_default(&dispatch, || {
            for_clients(|client| {
                let _span = info_span!("request", client).entered();
                fiber::yield_now();
                info!("yielded");
                fiber::sleep(Duration::from_millis(1));
                info!("slept");
            });
        });
        let mut expected = lines_of(1..=4, "yielded");
        expected.extend(lines_of(1..=4, "slept"));
        expected.sort();
        assert_eq!(log.lines(), expected);
    });
}

#[test]
fn guards_scopes_and_attributes_work() {
    #[instrument]
    fn request(client: u32) {
        fiber::yield_now();
        info!("in a function");
    }

    #[instrument(name = "request")]
    async fn polled(client: u32) {
        // Blocks the fiber, inside the poll.
        fiber::yield_now();
        info!("in a future");
    }

    on_each(|| {
        let (dispatch, log) = log();
        with_default(&dispatch, || {
            for_clients(|client| {
                request(client);
                block_on(polled(client));
                block_on(async { fiber::yield_now() }.instrument(info_span!("other")));
                let span = info_span!("request", client);
                span.in_scope(|| {
                    fiber::yield_now();
                    info!("in a closure");
                });
                fiber::yield_now();
                let entered = span.enter();
                fiber::yield_now();
                info!("behind a guard");
                drop(entered);
            });
            fiber::yield_now();
            info!("outside");
        });
        let mut expected = vec!["INFO outside".to_owned()];
        for rest in ["in a function", "in a future", "in a closure", "behind a guard"] {
            expected.extend(lines_of(1..=4, rest));
        }
        expected.sort();
        assert_eq!(log.lines(), expected);
    });
}

/// Guards that end in another order than they began.
#[test]
fn spans_may_be_exited_in_any_order() {
    on_each(|| {
        let (dispatch, log) = log();
        with_default(&dispatch, || {
            let others = fiber::spawn(|| (0..10).for_each(|_| fiber::yield_now()));
            let (a, b, c) = (info_span!("a"), info_span!("b"), info_span!("c"));
            let (a, b) = (a.entered(), b.entered());
            fiber::yield_now();
            drop(a);
            fiber::yield_now();
            info!("only b is entered");
            let c = c.entered();
            drop(b);
            fiber::yield_now();
            info!("only c is entered");
            drop(c);
            fiber::yield_now();
            info!("none is entered");
            others.join().unwrap();
        });
        let expected =
            ["INFO b: only b is entered", "INFO c: only c is entered", "INFO none is entered"];
        assert_eq!(log.lines(), expected);
    });
}

#[test]
fn strands_of_a_scope_begin_in_the_current_span() {
    on_each(|| {
        let (dispatch, log) = log();
        with_default(&dispatch, || {
            let _outer = info_span!("outer").entered();
            let inner = info_span!("inner").entered();
            fiber::scope(|scope| {
                scope.spawn(|| {
                    fiber::yield_now();
                    let _own = info_span!("own").entered();
                    fiber::yield_now();
                    info!("child");
                    fiber::scope(|scope| drop(scope.spawn(|| info!("grandchild"))));
                });
                // Entered after the scope was opened.
                let _later = info_span!("later").entered();
                scope.spawn(|| info!("second child"));
            });
            info!("parent");
            drop(inner);
            let detached = fiber::spawn(|| Span::current().is_none());
            assert!(detached.join().unwrap());
        });
        let expected = [
            "INFO outer:inner: parent",
            "INFO outer:inner: second child",
            "INFO outer:inner:own: child",
            "INFO outer:inner:own: grandchild",
        ];
        assert_eq!(log.lines(), expected);
    });
}

/// A closure that has not started moves to another worker, and has the span of its scope there.
#[test]
fn a_stolen_strand_has_its_span() {
    let (dispatch, log) = log();
    let runtime = Runtime::builder().workers(2).build().unwrap();
    let ran_elsewhere = runtime.run(|| {
        with_default(&dispatch, || {
            let here = std::thread::current().id();
            let has_run = AtomicBool::new(false);
            let _span = info_span!("scope").entered();
            fiber::scope(|scope| {
                let child = scope.spawn(|| {
                    fiber::yield_now();
                    info!("stolen");
                    has_run.store(true, SeqCst);
                    std::thread::current().id() != here
                });
                // Does not suspend, so only the other worker can run the child.
                let start = Instant::now();
                while !has_run.load(SeqCst) && start.elapsed() < Duration::from_secs(60) {
                    std::hint::spin_loop();
                }
                info!("stayed");
                child.join().unwrap()
            })
        })
    });
    assert!(ran_elsewhere);
    assert_eq!(log.lines(), ["INFO scope: stayed", "INFO scope: stolen"]);
}

/// The closure of `run` begins in the span of its caller; detached fibers do not.
#[test]
fn a_span_around_run_is_inherited() {
    for workers in [1, 2] {
        let (dispatch, log) = log();
        with_default(&dispatch, || {
            let _outside = info_span!("outside").entered();
            Runtime::builder().workers(workers).build().unwrap().run(|| {
                fiber::yield_now();
                info!("inside");
                let detached = fiber::spawn_local(|| Span::current().is_none());
                assert!(detached.join().unwrap());
                info!("still inside");
            });
            info!("outside");
        });
        let expected =
            ["INFO outside: inside", "INFO outside: outside", "INFO outside: still inside"];
        assert_eq!(log.lines(), expected);
    }
}

/// A run on a thread of the blocking pool, while the fiber that waits for it is in a span.
#[test]
fn nested_runs_have_their_own_spans() {
    let (dispatch, log) = log();
    one_worker().run(|| {
        with_default(&dispatch, || {
            let _outer = info_span!("outer").entered();
            ramie::blocking(|| {
                with_default(&dispatch, || {
                    let _inner = info_span!("inner").entered();
                    one_worker().run(|| {
                        fiber::yield_now();
                        info!("nested");
                    });
                });
            });
            info!("not nested");
        });
    });
    assert_eq!(log.lines(), ["INFO inner: nested", "INFO outer: not nested"]);
}

#[test]
fn a_forgotten_guard_ends_with_its_strand() {
    on_each(|| {
        let (dispatch, log) = log();
        with_default(&dispatch, || {
            let forgets = || {
                mem::forget(info_span!("forgotten").entered());
                fiber::yield_now();
                info!("in");
            };
            fiber::scope(|scope| scope.spawn(forgets).join().unwrap());
            let next = || {
                fiber::yield_now();
                info!("out");
            };
            fiber::scope(|scope| scope.spawn(next).join().unwrap());
        });
        assert_eq!(log.lines(), ["INFO forgotten: in", "INFO out"]);
    });
}

/// The span is closed while it is entered, so the subscriber must not see its id again.
#[test]
fn a_span_that_is_closed_while_entered_is_left() {
    one_worker().run(|| {
        let (dispatch, events) = recorder();
        with_default(&dispatch, || {
            let outer = info_span!("outer").entered();
            let span = info_span!("closed");
            mem::forget(span.enter());
            drop(span);
            assert_eq!(events.taken(), "+outer +closed xclosed");
            fiber::yield_now();
            assert_eq!(events.taken(), "-outer +outer");
            // Held since the suspension, so it is closed only with the last exit.
            let span = info_span!("held");
            mem::forget(span.enter());
            fiber::yield_now();
            drop(span);
            fiber::yield_now();
            assert_eq!(events.taken(), "+held -held -outer +outer +held -held -outer +outer +held");
            drop(outer);
        });
    });
}

#[test]
fn spans_are_exited_and_entered_at_each_switch_and_closed_once() {
    one_worker().run(|| {
        let (dispatch, events) = recorder();
        with_default(&dispatch, || {
            let outer = info_span!("outer").entered();
            let inner = info_span!("inner").entered();
            fiber::yield_now();
            assert_eq!(events.taken(), "+outer +inner -inner -outer +outer +inner");
            drop(inner);
            assert_eq!(events.taken(), "-inner xinner");
            fiber::sleep(Duration::from_millis(1));
            drop(outer);
            assert_eq!(events.taken(), "-outer +outer -outer xouter");
            fiber::yield_now();
            // A scope keeps its span open, and enters it on its strands.
            let span = info_span!("scope");
            let entered = span.clone().entered();
            fiber::scope(|scope| {
                drop((span, entered));
                assert_eq!(events.taken(), "+scope -scope");
                scope.spawn(fiber::yield_now).join().unwrap();
                assert_eq!(events.taken(), "+scope -scope +scope -scope");
            });
            assert_eq!(events.taken(), "xscope");
        });
    });
}

fn fails() {
    let _span = info_span!("fails").entered();
    fiber::yield_now();
    panic!("on purpose");
}

#[test]
fn a_panic_leaves_the_span() {
    on_each(|| {
        let (dispatch, log) = log();
        with_default(&dispatch, || {
            fiber::scope(|scope| assert!(scope.spawn(fails).join().is_err()));
            let caught = catch_unwind(fails);
            assert!(caught.is_err());
            fiber::yield_now();
            info!("after");
        });
        assert_eq!(log.lines(), ["INFO after"]);
    });
}

#[test]
fn an_abandoned_fiber_takes_its_span_along() {
    let (dispatch, log) = log();
    let impatient = Runtime::builder().workers(1).grace(Duration::ZERO).build().unwrap();
    let theirs = dispatch.clone();
    impatient.run(|| {
        drop(fiber::spawn(move || {
            with_default(&theirs, || {
                let _span = info_span!("abandoned").entered();
                fiber::park();
            });
        }));
        fiber::yield_now();
    });
    // On the thread of the worker.
    with_default(&dispatch, || info!("after"));
    assert_eq!(log.lines(), ["INFO after"]);
}

/// A coroutine's spans are those of the fiber that resumes it, until the fiber ends.
#[test]
fn a_span_entered_on_a_coroutine_belongs_to_the_fiber() {
    let (dispatch, log) = log();
    one_worker().run(|| {
        with_default(&dispatch, || {
            let coroutine = Coroutine::new(|yielder, ()| {
                let _span = info_span!("coroutine").entered();
                yielder.suspend(());
            });
            let first = fiber::scope(|scope| {
                let first = scope.spawn_local(|| {
                    coroutine.resume(());
                    fiber::yield_now();
                    info!("first");
                });
                first.join()
            });
            first.unwrap();
            coroutine.resume(());
            info!("second");
        });
    });
    assert_eq!(log.lines(), ["INFO coroutine: first", "INFO second"]);
}

/// Two fibers with a subscriber each, and one with the thread's.
#[test]
fn each_strand_may_have_its_own_subscriber() {
    on_each(|| {
        let (first, first_log) = log();
        let (second, second_log) = log();
        with_default(&first, || {
            fiber::scope(|scope| {
                let other = scope.spawn(|| {
                    with_default(&second, || {
                        let _span = info_span!("two").entered();
                        fiber::yield_now();
                        info!("second");
                        fiber::yield_now();
                    });
                    info!("back");
                });
                let _span = info_span!("one").entered();
                for _ in 0..3 {
                    fiber::yield_now();
                    info!("first");
                }
                other.join().unwrap();
            });
        });
        let expected = ["INFO back", "INFO one: first", "INFO one: first", "INFO one: first"];
        assert_eq!(first_log.lines(), expected);
        assert_eq!(second_log.lines(), ["INFO two: second"]);
    });
}

/// Spans of two subscribers on one strand.
#[test]
fn spans_of_several_subscribers_leave_and_return_together() {
    one_worker().run(|| {
        let (first, first_events) = recorder();
        let (second, second_events) = recorder();
        let a = with_default(&first, || info_span!("a"));
        let b = with_default(&second, || info_span!("b"));
        let (a, b) = (a.entered(), b.entered());
        fiber::yield_now();
        assert_eq!(first_events.taken(), "+a -a +a");
        assert_eq!(second_events.taken(), "+b -b +b");
        fiber::scope(|scope| scope.spawn(|| ()).join().unwrap());
        drop((a, b));
        // The child was in both.
        assert_eq!(first_events.taken(), "-a +a -a +a -a xa");
        assert_eq!(second_events.taken(), "-b +b -b +b -b xb");
    });
}

/// A strand without spans has no context, so its switches cost nothing.
#[test]
fn a_strand_that_has_left_its_spans_is_not_called() {
    one_worker().run(|| {
        let (dispatch, events) = recorder();
        let span = with_default(&dispatch, || info_span!("span"));
        span.in_scope(|| ());
        assert_eq!(events.taken(), "+span -span");
        fiber::yield_now();
        assert_eq!(events.taken(), "");
        let shared = Arc::new(span);
        let theirs = Arc::clone(&shared);
        fiber::spawn(move || theirs.in_scope(fiber::yield_now)).join().unwrap();
        assert_eq!(events.taken(), "+span -span +span -span");
    });
}
