//! Effects: performed, handled, re-raised, dropped, kept; and misuse.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    thread,
};

use crate::common::{assert_signal, assert_success, child, is_child, stderr};
use ramie_coro::{
    Coroutine, Resumed, StackPool, StackSize, State, Yielder,
    bare::BareCoroutine,
    context,
    effect::{Continuation, Effect, Next, Step, handle, perform, start},
    stats,
};

#[path = "../../examples/generator.rs"]
mod generator;
#[path = "../../examples/resumable_exceptions.rs"]
mod resumable_exceptions;
#[path = "../../examples/scheduler.rs"]
mod scheduler;
#[path = "../../examples/state.rs"]
mod state;

#[test]
fn the_examples_hold() {
    resumable_exceptions::main();
    state::main();
    generator::main();
    scheduler::main();
}

/// Asks for a number that depends on this one.
#[derive(Debug)]
struct Ask(u32);
impl Effect for Ask {
    type Output = u32;
}

/// An effect with a text for the handler.
struct Tell(&'static str);
impl Effect for Tell {
    type Output = ();
}

/// Records its name when it is dropped.
struct Guard<'a>(&'static str, &'a RefCell<Vec<&'static str>>);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0);
    }
}

/// Calls a function when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[track_caller]
fn panic_text<T>(f: impl FnOnce() -> T) -> String {
    let payload: Box<dyn Any + Send> = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(_) => panic!("this should have panicked"),
        Err(payload) => payload,
    };
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).expect("a text")
}

#[test]
fn a_body_without_effects_returns() {
    assert_eq!(handle(|| 7, |_: Ask, resume| resume.with(0)), 7);
}

#[test]
fn effects_are_answered_and_the_body_borrows() {
    let (mut inside, mut asked) = (Vec::new(), Vec::new());
    let sum: u32 = handle(
        || {
            for at in 1..=3 {
                inside.push(perform(Ask(at)));
            }
            inside.iter().sum()
        },
        |Ask(at), resume| {
            asked.push(at);
            resume.with(at * 10)
        },
    );
    assert_eq!((sum, inside, asked), (60, vec![10, 20, 30], vec![1, 2, 3]));
}

#[test]
fn a_million_effects_take_no_more_stack_than_one() {
    let sum = handle(
        || (0..1_000_000).map(|at| u64::from(perform(Ask(at)))).sum::<u64>(),
        |Ask(at), resume| resume.with(at),
    );
    assert_eq!(sum, 499_999_500_000);
}

#[test]
fn handlers_nest_and_each_has_its_type() {
    let told = RefCell::new(Vec::new());
    let sum = handle(
        || {
            handle(
                || {
                    perform(Tell("one"));
                    let first = perform(Ask(1));
                    perform(Tell("two"));
                    first + perform(Ask(2))
                },
                |Ask(at), resume| resume.with(at + 10),
            )
        },
        |Tell(text), resume| {
            told.borrow_mut().push(text);
            resume.with(())
        },
    );
    assert_eq!((sum, told.into_inner()), (23, vec!["one", "two"]));
}

#[test]
fn the_innermost_handler_of_a_type_wins_and_may_raise_again() {
    let sum = handle(
        || {
            let inner = handle(
                || perform(Ask(1)) + perform(Ask(5)),
                |Ask(at), resume| {
                    // This reaches the outer handler, because a handler is not under itself.
                    let answer = if at > 3 { perform(Ask(at)) } else { at };
                    resume.with(answer)
                },
            );
            inner + perform(Ask(7))
        },
        |Ask(at), resume| resume.with(at * 100),
    );
    assert_eq!(sum, 1 + 500 + 700);
}

#[test]
fn dropping_the_resumption_unwinds_the_body_then_and_there() {
    let order = RefCell::new(Vec::new());
    let result = handle(
        || {
            let _guard = Guard("body", &order);
            perform(Ask(1))
        },
        |_: Ask, resume| {
            drop(resume);
            order.borrow_mut().push("handler");
            Next::Return(9)
        },
    );
    assert_eq!((result, order.into_inner()), (9, vec!["body", "handler"]));
}

#[test]
fn forgetting_the_resumption_is_harmless() {
    let order = RefCell::new(Vec::new());
    let result = handle(
        || {
            let _guard = Guard("body", &order);
            perform(Ask(1))
        },
        |_: Ask, resume| {
            std::mem::forget(resume);
            order.borrow_mut().push("handler");
            Next::Return(9)
        },
    );
    assert_eq!((result, order.into_inner()), (9, vec!["handler", "body"]));
}

#[test]
fn a_handler_may_step_the_body_and_do_something_after() {
    let order = RefCell::new(Vec::new());
    let result = handle(
        || {
            let first = perform(Ask(1));
            order.borrow_mut().push("body");
            first + perform(Ask(2))
        },
        |Ask(at), resume| match resume.step(at) {
            Step::Performed(Ask(next), resume) => {
                order.borrow_mut().push("after the first");
                match resume.step(next) {
                    Step::Performed(..) => unreachable!("the body asks twice"),
                    Step::Returned(sum) => Next::Return(sum * 2),
                }
            }
            Step::Returned(sum) => Next::Return(sum),
        },
    );
    assert_eq!((result, order.into_inner()), (6, vec!["body", "after the first"]));
}

#[test]
fn unwinding_goes_through_the_handlers_inside() {
    let order = RefCell::new(Vec::new());
    handle(
        || {
            let _outer = Guard("outer", &order);
            handle(
                || {
                    let _inner = Guard("inner", &order);
                    perform(Ask(1));
                },
                |_: Tell, resume| resume.with(()),
            );
        },
        |_: Ask, _resume| Next::Return(()),
    );
    assert_eq!(order.into_inner(), ["inner", "outer"]);
}

#[test]
fn a_panic_of_the_body_comes_out_of_handle() {
    let text = panic_text(|| {
        handle(|| panic!("the body's {}", perform(Ask(1))), |Ask(at), resume| resume.with(at))
    });
    assert_eq!(text, "the body's 1");
}

/// The compiler would forget the value of `Next::Return`, which the handler has given already.
#[test]
fn a_panic_of_an_unwound_body_drops_the_handlers_value() {
    let value = Rc::new(());
    let theirs = Rc::clone(&value);
    let handled = catch_unwind(AssertUnwindSafe(|| {
        let body = || {
            if catch_unwind(|| perform(Ask(1))).is_err() {
                panic!("on the way out");
            }
            Rc::new(())
        };
        handle(body, |_: Ask, resume| {
            // So that `handle` unwinds the body, after the handler.
            std::mem::forget(resume);
            Next::Return(Rc::clone(&theirs))
        })
    }));
    assert_eq!(handled.unwrap_err().downcast_ref(), Some(&"on the way out"));
    assert_eq!(Rc::strong_count(&value), 2);
}

/// A runtime that calls code of the program in the middle of its own work.
#[test]
fn code_without_coroutines_finds_no_handler_and_keeps_the_context() {
    static KEY: context::Key = context::Key::new();
    let perform_hidden = || {
        context::without_coroutines(|| {
            assert!(context::find(&KEY).is_some());
            catch_unwind(|| perform(Ask(1))).is_err()
        })
    };
    let body = || {
        context::with(&KEY, &7, || {
            assert!(perform_hidden());
            // A coroutine that begins inside is found.
            let inner = || handle(|| perform(Ask(2)), |Ask(n): Ask, resume| resume.with(n));
            assert_eq!(context::without_coroutines(inner), 2);
            perform(Ask(3))
        })
    };
    assert_eq!(handle(body, |Ask(n): Ask, resume| resume.with(n)), 3);
}

#[test]
fn a_panic_of_the_handler_unwinds_the_body() {
    for forgets in [false, true] {
        let order = RefCell::new(Vec::new());
        let text = panic_text(|| {
            handle(
                || {
                    let _guard = Guard("body", &order);
                    perform(Ask(1))
                },
                |_: Ask, resume| {
                    if forgets {
                        std::mem::forget(resume);
                    }
                    panic!("the handler's")
                },
            )
        });
        assert_eq!((text.as_str(), order.into_inner()), ("the handler's", vec!["body"]));
        assert!(!thread::panicking());
    }
}

#[test]
fn a_body_may_panic_while_it_is_unwound_and_the_panic_propagates() {
    let text = panic_text(|| {
        handle(
            || {
                let _ = catch_unwind(|| perform(Ask(1)));
                panic!("another one")
            },
            |_: Ask, _resume| Next::Return(()),
        )
    });
    assert_eq!(text, "another one");
}

#[test]
fn an_unhandled_effect_is_named() {
    let text = panic_text(|| perform(Ask(1)));
    assert!(
        text.contains("no handler for effect `") && text.contains("::Ask` on this fiber"),
        "{text}"
    );
    let text = panic_text(|| handle(|| perform(Tell("")), |_: Ask, resume| resume.with(0)));
    assert!(text.contains("::Tell`"), "{text}");
    // Another thread has handlers of its own.
    let perform_elsewhere = || thread::spawn(|| perform(Ask(1))).join().is_err();
    assert!(handle(perform_elsewhere, |_: Ask, resume| resume.with(0)));
}

#[test]
fn effects_go_through_the_stacks_of_coroutines() {
    let sum = handle(
        || {
            let coroutine: Coroutine<(), u32, u32> = Coroutine::new(|yielder, ()| {
                yielder.suspend(perform(Ask(1)));
                perform(Ask(2))
            });
            let first = coroutine.resume(()).yielded().unwrap();
            first + coroutine.resume(()).returned().unwrap()
        },
        |Ask(at), resume| resume.with(at + 100),
    );
    assert_eq!(sum, 203);
}

#[test]
fn a_coroutine_in_between_is_unwound_with_the_body() {
    let coroutine: Rc<Coroutine<(), (), u32>> = Rc::new(Coroutine::new(|_, ()| perform(Ask(1))));
    let resumed = Rc::clone(&coroutine);
    handle(
        move || _ = resumed.resume(()),
        |_: Ask, _resume| {
            assert_eq!(coroutine.state(), State::Running);
            let text = panic_text(|| coroutine.resume(()));
            assert!(text.contains("resumed a coroutine that is running"), "{text}");
            Next::Return(())
        },
    );
    assert_eq!(coroutine.state(), State::Done);
}

#[test]
fn a_coroutine_suspends_out_of_a_handled_body_with_the_handler() {
    let coroutine: Coroutine<u32, u32, u32> = Coroutine::new(|yielder, first| {
        handle(
            || {
                let second = yielder.suspend(perform(Ask(first)));
                perform(Ask(second))
            },
            |Ask(at), resume| resume.with(at + yielder.suspend(at * 10)),
        )
    });
    assert_eq!(coroutine.resume(1), Resumed::Yielded(10));
    // It runs under its own handlers, not under those of its resumer.
    assert!(panic_text(|| perform(Ask(1))).contains("no handler"));
    assert_eq!(coroutine.resume(3), Resumed::Yielded(4));
    assert_eq!(coroutine.resume(5), Resumed::Yielded(50));
    assert_eq!(coroutine.resume(6), Resumed::Returned(11));
}

#[test]
fn a_coroutine_dropped_inside_a_handled_body_or_a_handler_is_unwound() {
    for in_handler in [false, true] {
        let order = Rc::new(RefCell::new(Vec::new()));
        let noted = Rc::clone(&order);
        let coroutine: Coroutine<(), (), ()> =
            Coroutine::new(move |yielder: &Yielder<_, _>, ()| {
                let _outer = Guard("outer", &noted);
                handle(
                    || {
                        let _inner = Guard("inner", &noted);
                        if !in_handler {
                            yielder.suspend(());
                        }
                        perform(Tell(""));
                    },
                    |_: Tell, resume| {
                        yielder.suspend(());
                        resume.with(())
                    },
                );
            });
        coroutine.resume(());
        drop(coroutine);
        assert_eq!(*order.borrow(), ["inner", "outer"]);
    }
}

#[test]
fn values_set_in_a_body_are_not_seen_by_the_handler() {
    static DEPTH: context::Key = context::Key::new();
    let is_set = || context::find(&DEPTH).is_some();
    handle(
        || {
            context::with(&DEPTH, &1, || perform(Tell("")));
            assert!(!is_set());
        },
        |_: Tell, resume| {
            assert!(!is_set());
            resume.with(())
        },
    );
}

#[test]
fn effects_in_a_destructor_during_a_panic_need_a_handler_in_it() {
    let seen = Cell::new(0);
    let text = panic_text(|| {
        let _guard = OnDrop(|| {
            seen.set(handle(|| perform(Ask(1)), |Ask(at), resume| resume.with(at + 1)));
        });
        panic!("the thread's own");
    });
    assert_eq!((text.as_str(), seen.get()), ("the thread's own", 2));
}

#[test]
fn performing_out_of_a_destructor_during_a_panic_aborts() {
    if !is_child() {
        let output = child("performing_out_of_a_destructor_during_a_panic_aborts");
        assert_signal(&output, libc::SIGABRT);
        return assert!(stderr(&output).contains("in a destructor that ran because"));
    }
    let body = || {
        let _guard = OnDrop(|| perform(Tell("")));
        panic!("the body's own");
    };
    handle(body, |_: Tell, resume| resume.with(()));
}

#[test]
fn performing_while_the_resumption_is_dropped_aborts() {
    if !is_child() {
        let output = child("performing_while_the_resumption_is_dropped_aborts");
        assert_signal(&output, libc::SIGABRT);
        return assert!(stderr(&output).contains("the resumption of its effect"));
    }
    let body = || {
        let _ = catch_unwind(|| perform(Ask(1)));
        perform(Ask(2))
    };
    handle(body, |_: Ask, _resume| Next::Return(0));
}

/// A bare coroutine suspended inside a handled body, whose segment stays in its resumer's context.
fn bare_inside_a_handled_body() -> BareCoroutine<(), (), ()> {
    let stack = StackPool::new(StackSize::default()).take().unwrap();
    let mut bare = BareCoroutine::with_stack(stack, |yielder, ()| {
        let body = || {
            // SAFETY: on the stack of the body, which the bare coroutine is resuming.
            unsafe { yielder.suspend(()) };
            assert_eq!(perform(Ask(1)), 11);
        };
        handle(body, |Ask(at), resume| resume.with(at + 10));
    });
    bare.resume(());
    bare
}

#[test]
fn a_body_left_by_a_bare_coroutine_does_not_handle_its_resumers_effects() {
    let mut bare = bare_inside_a_handled_body();
    assert!(panic_text(|| perform(Ask(2))).contains("no handler"));
    // Nor does it handle the effects of a coroutine that its resumer resumes.
    let coroutine: Coroutine<(), (), u32> = Coroutine::new(|_, ()| perform(Ask(3)));
    assert!(panic_text(|| coroutine.resume(())).contains("no handler"));
    let other =
        handle(|| handle(|| perform(Ask(4)), |Tell(_), r| r.with(())), |Ask(at), r| r.with(at));
    assert_eq!(other, 4);
    assert_eq!(bare.resume(()), Resumed::Returned(()));
}

#[test]
fn handlers_are_not_seen_through_a_bare_coroutine() {
    let body = || {
        let stack = StackPool::new(StackSize::default()).take().unwrap();
        let mut bare = BareCoroutine::<(), (), ()>::with_stack(stack, |_, ()| perform(Tell("")));
        bare.resume(());
    };
    let text = panic_text(|| handle(body, |_: Tell, resume| resume.with(())));
    assert!(text.contains("no handler"), "{text}");
}

#[test]
fn bodies_left_by_bare_coroutines_out_of_order_abort() {
    if !is_child() {
        let output = child("bodies_left_by_bare_coroutines_out_of_order_abort");
        assert_signal(&output, libc::SIGABRT);
        return assert!(stderr(&output).contains("left out of order"));
    }
    let (mut first, mut second) = (bare_inside_a_handled_body(), bare_inside_a_handled_body());
    let _ = catch_unwind(AssertUnwindSafe(|| first.resume(())));
    let _ = catch_unwind(AssertUnwindSafe(|| second.resume(())));
}

/// Runs `f` as another strand of this thread.
fn on_another_strand<T>(id: u64, f: impl FnOnce() -> T) -> T {
    let strand = context::Strand::new(id);
    // SAFETY: it stays in this frame until the thread's own strand is set again.
    unsafe { context::set_current(&strand) };
    let value = f();
    // SAFETY: the thread itself.
    unsafe { context::set_current(std::ptr::null()) };
    value
}

/// The body is inside a scope of its own strand, so it cannot be unwound on another one.
#[test]
fn a_resumption_dropped_on_another_strand_leaves_the_body_to_its_own() {
    const NAME: &str = "a_resumption_dropped_on_another_strand_leaves_the_body_to_its_own";
    static DEPTH: context::Key = context::Key::new();
    if !is_child() {
        return assert_success(&child(NAME));
    }
    let order = RefCell::new(Vec::new());
    let body = || {
        let _guard = Guard("body", &order);
        context::with(&DEPTH, &1, || perform(Ask(1)))
    };
    let result = handle(body, |_: Ask, resume| {
        on_another_strand(79, || drop(resume));
        order.borrow_mut().push("handler");
        Next::Return(9)
    });
    assert_eq!((result, order.take()), (9, vec!["handler", "body"]));
}

#[test]
fn a_body_that_cannot_be_unwound_ends_the_process() {
    const NAME: &str = "a_body_that_cannot_be_unwound_ends_the_process";
    static DEPTH: context::Key = context::Key::new();
    if !is_child() {
        let output = child(NAME);
        assert_signal(&output, libc::SIGABRT);
        return assert!(stderr(&output).contains("was left unfinished where it cannot be unwound"));
    }
    let strand = context::Strand::new(80);
    let body = || context::with(&DEPTH, &1, || perform(Ask(1)));
    handle(body, |_: Ask, resume| {
        std::mem::forget(resume);
        // SAFETY: it stays in its frame until the process ends.
        unsafe { context::set_current(&strand) };
        Next::Return(0)
    });
    eprintln!("handle has returned, and its body may still borrow");
}

// ---- kept

fn ask_twice(order: &Rc<RefCell<Vec<&'static str>>>) -> Step<Ask, Continuation<Ask, u32>, u32> {
    let order = Rc::clone(order);
    start(move || {
        let _guard = Guard("body", &order);
        perform(Ask(1)) + perform(Ask(2))
    })
}

fn performed<R>(step: Step<Ask, Continuation<Ask, R>, R>) -> (u32, Continuation<Ask, R>) {
    match step {
        Step::Performed(Ask(at), continuation) => (at, continuation),
        Step::Returned(_) => panic!("the body should have performed"),
    }
}

#[test]
fn a_kept_continuation_goes_on_later() {
    let order = Rc::default();
    let (at, first) = performed(ask_twice(&order));
    assert_eq!(at, 1);
    let mut kept = vec![first];
    let (at, second) = performed(kept.pop().unwrap().resume(10));
    assert_eq!(at, 2);
    let Step::Returned(sum) = second.resume(20) else { panic!("it is done") };
    assert_eq!((sum, order.take()), (30, vec!["body"]));
}

#[test]
fn a_kept_continuation_is_unwound_when_it_is_dropped() {
    let order = Rc::default();
    drop(performed(ask_twice(&order)));
    assert_eq!(order.take(), ["body"]);
    let (_, first) = performed(ask_twice(&order));
    let (_, second) = performed(first.resume(1));
    drop(second);
    assert_eq!(order.take(), ["body"]);
    let (_, dropped) = performed(ask_twice(&order));
    assert_eq!(
        panic_text(move || {
            let _dropped = dropped;
            panic!("the thread's own");
        }),
        "the thread's own"
    );
    assert_eq!(order.take(), ["body"]);
}

#[test]
fn a_kept_continuation_may_be_forgotten() {
    let order = Rc::default();
    for _ in 0..10 {
        std::mem::forget(performed(ask_twice(&order)));
    }
    assert_eq!(order.take(), [""; 0]);
}

#[test]
fn a_panic_of_a_kept_body_comes_out_of_the_resumption() {
    let (_, kept) = performed::<u32>(start(|| panic!("the body's {}", perform(Ask(1)))));
    assert_eq!(panic_text(|| kept.resume(5)), "the body's 5");
    assert_eq!(panic_text(|| drop(start::<Ask, ()>(|| panic!("at once")))), "at once");
}

#[test]
fn a_kept_body_goes_on_under_the_handlers_of_its_resumer() {
    let (_, kept) = performed(start(|| {
        perform(Ask(1));
        perform(Tell("late"));
    }));
    let mut told = Vec::new();
    let resume = move || matches!(kept.resume(0), Step::Returned(()));
    let is_done = handle(resume, |Tell(text), resume| {
        told.push(text);
        resume.with(())
    });
    assert_eq!((is_done, told), (true, vec!["late"]));
}

#[test]
fn a_kept_body_bound_to_its_strand_is_refused_on_another() {
    static DEPTH: context::Key = context::Key::new();
    let (_, kept) = performed(start(|| context::with(&DEPTH, &1, || perform(Ask(1)))));
    let strand = context::Strand::new(77);
    // SAFETY: it stays in this frame until the thread's own strand is set again.
    unsafe { context::set_current(&strand) };
    let text = panic_text(|| kept.resume(1));
    // SAFETY: the thread itself.
    unsafe { context::set_current(std::ptr::null()) };
    assert!(text.contains("on another fiber or thread"), "{text}");
}

#[test]
fn with_nested_handlers_a_kept_body_goes_to_another_strand() {
    let asks = || {
        let first = perform(Ask(1));
        // Suspends a coroutine that moves to the other strand with the body.
        perform(Tell("moved"));
        first + perform(Ask(2))
    };
    let body = move || handle(asks, |_: Tell, resume| resume.with(()));
    let (_, kept) = performed(start(body));
    let strand = context::Strand::new(78);
    // SAFETY: it stays in this frame until the thread's own strand is set again.
    unsafe { context::set_current(&strand) };
    let (at, kept) = performed(kept.resume(10));
    // SAFETY: the thread itself.
    unsafe { context::set_current(std::ptr::null()) };
    assert_eq!(at, 2);
    assert!(matches!(kept.resume(20), Step::Returned(30)));
}

#[test]
fn at_the_end_of_a_thread_a_kept_one_is_dropped_or_leaked_and_a_handler_works() {
    const NAME: &str = "at_the_end_of_a_thread_a_kept_one_is_dropped_or_leaked_and_a_handler_works";
    if !is_child() {
        return assert_success(&child(NAME));
    }
    struct Late(Cell<Option<Continuation<Ask, u32>>>);
    impl Drop for Late {
        fn drop(&mut self) {
            drop(self.0.take());
            let seen = handle(|| perform(Ask(1)), |Ask(at), resume| resume.with(at + 1));
            assert_eq!(seen, 2);
            // An unfinished body is unwound here, too.
            let order = RefCell::new(Vec::new());
            let body = || {
                let _guard = Guard("body", &order);
                perform(Ask(1));
            };
            handle(body, |_: Ask, _resume| Next::Return(()));
            assert_eq!(order.take(), ["body"]);
        }
    }
    thread_local!(static LATE: Late = const { Late(Cell::new(None)) });
    let ended = thread::spawn(|| {
        LATE.with(|late| late.0.set(Some(performed(start(|| perform(Ask(1)))).1)));
    });
    ended.join().unwrap();
    assert_eq!(stats().in_use, stats().leaked);
}

#[test]
fn stacks_are_given_back() {
    if !is_child() {
        return assert_success(&child("stacks_are_given_back"));
    }
    for _ in 0..1_000 {
        handle(|| perform(Ask(1)), |_: Ask, _resume| Next::Return(0));
        drop(performed(start(|| perform(Ask(1)))));
    }
    // Some stay in the pool.
    assert!(stats().in_use < 32 && stats().leaked == 0, "{:?}", stats());
}
