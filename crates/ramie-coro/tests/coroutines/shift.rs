//! Delimited continuations.

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
};

use crate::common::{assert_signal, assert_success, child, is_child, stderr};
use ramie_coro::{
    Coroutine, Resumed,
    delimited::{Continuation, reset, reset_kept},
    effect::{Effect, Next, handle, perform},
    stats,
};

struct Guard<'a>(&'static str, &'a RefCell<Vec<&'static str>>);

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0);
    }
}

#[track_caller]
fn panic_text<T>(f: impl FnOnce() -> T) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).err().expect("this should have panicked");
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).expect("a text")
}

#[test]
fn the_laws() {
    // reset(v) = v
    assert_eq!(reset(|_| 5), 5);
    // reset(E[shift k. k(v)]) = reset(E[v])
    assert_eq!(reset(|p| 1 + p.shift(|rest| rest.resume(4))), 5);
    // reset(E[shift k. v]) = v
    assert_eq!(reset(|p| 1 + p.shift::<i32>(|_| 5)), 5);
    // Code of the function after the resumption runs outside the rest.
    let text = reset(|p| {
        let inner: String = p.shift(|rest| format!("<{}>", rest.resume("a".to_string())));
        let more: String = p.shift(|rest| format!("[{}]", rest.resume("b".to_string())));
        inner + &more
    });
    assert_eq!(text, "<[ab]>");
}

#[test]
fn shift_returns_any_type_and_bodies_borrow() {
    let (words, mut seen) = (["a", "b"], Vec::new());
    let count = reset(|p| {
        let number: u32 = p.shift(|rest| rest.resume(7));
        let word: &str = p.shift(|rest| rest.resume(words[1]));
        seen.push((number, word));
        seen.len()
    });
    assert_eq!((count, seen), (1, vec![(7, "b")]));
}

#[test]
fn resets_nest_and_each_prompt_is_its_own() {
    let result = reset(|outer| {
        10 + reset(|inner| {
            let one: i32 = inner.shift(|rest| 1 + rest.resume(1));
            let two: i32 = outer.shift(|rest| 100 * rest.resume(2));
            one + two
        })
    });
    assert_eq!(result, 100 * (10 + 1 + 1 + 2));
}

#[test]
fn the_rest_dropped_or_forgotten_is_unwound() {
    let order = RefCell::new(Vec::new());
    for forgets in [false, true] {
        let result = reset(|p| {
            let _guard = Guard("body", &order);
            p.shift(|rest| {
                if forgets {
                    std::mem::forget(rest)
                } else {
                    drop(rest)
                }
                order.borrow_mut().push("function");
                3
            })
        });
        assert_eq!(result, 3);
    }
    assert_eq!(order.into_inner(), ["body", "function", "function", "body"]);
}

#[test]
fn a_rest_forgotten_inside_a_resumption_is_unwound_at_the_end() {
    let order = RefCell::new(Vec::new());
    let result = reset(|p| {
        let _guard = Guard("body", &order);
        let first: i32 = p.shift(|rest| rest.resume(1) + 1);
        p.shift(move |rest| {
            std::mem::forget(rest);
            first
        })
    });
    assert_eq!((result, order.into_inner()), (2, vec!["body"]));
}

#[test]
fn panics_come_out_of_the_body_and_of_the_function() {
    let order = RefCell::new(Vec::new());
    let text = panic_text(|| {
        reset(|p| {
            let _guard = Guard("body", &order);
            panic!("the body's {}", p.shift(|rest| rest.resume(1)))
        })
    });
    assert_eq!(text, "the body's 1");
    let text = panic_text(|| {
        reset(|p| {
            let _guard = Guard("body", &order);
            p.shift::<()>(|_rest| panic!("the function's"))
        })
    });
    assert_eq!((text.as_str(), order.take()), ("the function's", vec!["body", "body"]));
    // The panic can be caught at the resumption.
    let caught = reset(|p| {
        p.shift::<()>(|rest| catch_unwind(AssertUnwindSafe(|| rest.resume(()))).is_err());
        panic!("after the shift")
    });
    assert!(caught);
}

#[test]
fn shift_goes_through_coroutines_and_handlers() {
    struct Ask;
    impl Effect for Ask {
        type Output = i32;
    }
    let order = RefCell::new(Vec::new());
    let sum = reset(|p| {
        let _outer = Guard("outer", &order);
        let body = || {
            let _inner = Guard("inner", &order);
            perform(Ask) + p.shift::<i32>(|rest| rest.resume(20))
        };
        handle(body, |_: Ask, resume| resume.with(1 + p.shift::<i32>(|rest| rest.resume(300))))
    });
    assert_eq!((sum, order.take()), (321, vec!["inner", "outer"]));
    // The function runs outside the handlers inside the reset.
    let sum = handle(
        || {
            reset(|p| {
                handle(|| p.shift(|rest| rest.resume(perform(Ask))), |_: Ask, _| Next::Return(1))
            })
        },
        |_: Ask, resume| resume.with(2),
    );
    assert_eq!(sum, 2);
}

#[test]
fn a_coroutine_suspends_in_a_function_and_is_dropped_there() {
    let order = Rc::new(RefCell::new(Vec::new()));
    let noted = Rc::clone(&order);
    let coroutine: Coroutine<i32, i32, i32> = Coroutine::new(move |yielder, first| {
        reset(|p| {
            let _guard = Guard("body", &noted);
            first + p.shift::<i32>(|rest| rest.resume(yielder.suspend(1)))
        })
    });
    assert_eq!(coroutine.resume(5), Resumed::Yielded(1));
    drop(coroutine);
    assert_eq!(*order.borrow(), ["body"]);
}

#[test]
fn shifting_while_unwinding_aborts() {
    if !is_child() {
        let output = child("shifting_while_unwinding_aborts");
        assert_signal(&output, libc::SIGABRT);
        return assert!(stderr(&output).contains("perform or shift again"));
    }
    reset(|p| {
        let _ = catch_unwind(AssertUnwindSafe(|| p.shift::<()>(|_| ())));
        p.shift::<()>(|_| ());
    });
}

type Kept = Rc<Cell<Option<Continuation<u32, u32>>>>;

/// A body that keeps its rest twice, and returns the sum.
fn keeps_twice(kept: &Kept, order: &Rc<RefCell<Vec<&'static str>>>) -> u32 {
    let (kept, order) = (Rc::clone(kept), Rc::clone(order));
    reset_kept(move |p| {
        let _guard = Guard("body", &order);
        let once = |place: Kept, value| {
            p.shift(move |rest| {
                place.set(Some(rest));
                value
            })
        };
        once(Rc::clone(&kept), 1) + once(Rc::clone(&kept), 2)
    })
}

#[test]
fn a_kept_rest_goes_on_later() {
    let (kept, order) = (Kept::default(), Rc::default());
    assert_eq!(keeps_twice(&kept, &order), 1);
    assert_eq!(kept.take().unwrap().resume(10), 2);
    assert_eq!(kept.take().unwrap().resume(20), 30);
    assert!(kept.take().is_none());
    assert_eq!(order.take(), ["body"]);
}

#[test]
fn a_kept_rest_is_dropped_or_forgotten() {
    let (kept, order) = (Kept::default(), Rc::default());
    keeps_twice(&kept, &order);
    drop(kept.take());
    assert_eq!(order.take(), ["body"]);
    keeps_twice(&kept, &order);
    kept.take().unwrap().resume(10);
    kept.set(None);
    assert_eq!(order.take(), ["body"]);
    keeps_twice(&kept, &order);
    std::mem::forget(kept.take());
    assert_eq!(order.take(), [""; 0]);
}

#[test]
fn panics_come_out_of_a_kept_rest() {
    let kept: Rc<Cell<Option<Continuation<u32, u32>>>> = Rc::default();
    let place = Rc::clone(&kept);
    reset_kept(move |p| {
        let got: u32 = p.shift(move |rest| {
            place.set(Some(rest));
            0
        });
        panic!("the body's {got}")
    });
    assert_eq!(panic_text(|| kept.take().unwrap().resume(5)), "the body's 5");
}

#[test]
fn stacks_are_given_back() {
    if !is_child() {
        return assert_success(&child("stacks_are_given_back"));
    }
    let (kept, order) = (Kept::default(), Rc::default());
    for _ in 0..1_000 {
        reset(|p| p.shift(|_| 1));
        keeps_twice(&kept, &order);
        kept.take();
    }
    // Some stay in the pool.
    assert!(stats().in_use < 32 && stats().leaked == 0, "{:?}", stats());
}
