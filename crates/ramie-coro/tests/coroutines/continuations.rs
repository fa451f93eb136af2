//! Nested coroutines that suspend to a named scope.

use std::{
    cell::RefCell,
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
};

use ramie_coro::{ContinuationScope, Coroutine, Resumed, State, context, suspend_to};

struct Outer;
impl ContinuationScope for Outer {
    type Input = u32;
    type Yield = &'static str;
}

struct Inner;
impl ContinuationScope for Inner {
    type Input = ();
    type Yield = u32;
}

#[track_caller]
fn panic_text<T>(f: impl FnOnce() -> T) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).err().expect("this should have panicked");
    let text = payload.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).expect("a text")
}

struct Note(&'static str, Rc<RefCell<Vec<&'static str>>>);

impl Drop for Note {
    fn drop(&mut self) {
        self.1.borrow_mut().push(self.0);
    }
}

/// Suspends to `Inner` and to `Outer` from two coroutines below the latter.
fn nested() -> Coroutine<u32, &'static str, u32> {
    Coroutine::in_scope(Outer, |_, first| {
        let inner = Coroutine::in_scope(Inner, move |_, ()| {
            suspend_to(Inner, first);
            let unnamed: Coroutine<(), (), u32> =
                Coroutine::new(|_, ()| suspend_to(Outer, "from two below"));
            unnamed.resume(()).returned().unwrap()
        });
        let yielded = inner.resume(()).yielded().unwrap();
        yielded + inner.resume(()).returned().unwrap()
    })
}

#[test]
fn the_scope_selects_the_coroutine_to_suspend() {
    let outer = nested();
    assert!(!outer.is_done());
    assert_eq!(outer.resume(1), Resumed::Yielded("from two below"));
    assert_eq!((outer.state(), outer.is_done()), (State::Suspended, false));
    assert_eq!(outer.resume(10), Resumed::Returned(11));
    assert!(outer.is_done());
}

#[test]
fn the_innermost_of_one_scope_is_suspended() {
    let outer = Coroutine::in_scope(Inner, |_, ()| {
        let inner = Coroutine::in_scope(Inner, |_, ()| suspend_to(Inner, 1));
        let seen = inner.resume(()).yielded().unwrap();
        suspend_to(Inner, seen + 1);
    });
    assert_eq!(outer.resume(()), Resumed::Yielded(2));
}

#[test]
fn the_yielder_works_beside_the_name() {
    let coroutine = Coroutine::in_scope(Inner, |yielder, ()| {
        yielder.suspend(1);
        suspend_to(Inner, 2);
    });
    assert_eq!(coroutine.resume(()), Resumed::Yielded(1));
    assert_eq!(coroutine.resume(()), Resumed::Yielded(2));
}

#[test]
fn a_scope_is_kept_over_a_reset() {
    let mut coroutine = nested();
    coroutine.resume(1);
    coroutine.reset(|_, first| suspend_to(Outer, "again") + first);
    assert_eq!(coroutine.resume(1), Resumed::Yielded("again"));
    assert_eq!(coroutine.resume(2), Resumed::Returned(3));
}

#[test]
fn without_a_coroutine_of_the_scope_it_is_a_panic() {
    let text = panic_text(|| suspend_to(Outer, ""));
    assert!(text.contains("::Outer` is running here"), "{text}");
    // A suspended coroutine of the scope does not count.
    let outer = nested();
    outer.resume(1);
    panic_text(|| suspend_to(Outer, ""));
    outer.resume(1);
}

#[test]
fn a_coroutine_in_between_is_running_and_cannot_be_resumed() {
    let inner = Rc::new(Coroutine::<(), (), u32>::new(|_, ()| suspend_to(Outer, "")));
    let resumed = Rc::clone(&inner);
    let outer = Coroutine::in_scope(Outer, move |_, _| resumed.resume(()).returned().unwrap());
    outer.resume(0);
    assert_eq!(inner.state(), State::Running);
    assert!(panic_text(|| inner.resume(())).contains("that is running"));
    assert_eq!(outer.resume(5), Resumed::Returned(5));
    assert_eq!(inner.state(), State::Done);
}

#[test]
fn dropping_unwinds_the_inner_coroutines_first() {
    let order = Rc::new(RefCell::new(Vec::new()));
    let note = |name| Note(name, Rc::clone(&order));
    let (outer_note, inner_note) = (note("outer"), note("inner"));
    let outer = Coroutine::in_scope(Outer, move |_, _| {
        let _outer = outer_note;
        let inner: Coroutine<(), (), ()> = Coroutine::new(move |_, ()| {
            let _inner = inner_note;
            suspend_to(Outer, "");
        });
        inner.resume(());
    });
    outer.resume(0);
    drop(outer);
    assert_eq!(*order.borrow(), ["inner", "outer"]);
}

/// Runs `f` as a strand of its own.
fn on_strand<R>(id: u64, f: impl FnOnce() -> R) -> R {
    let strand = context::Strand::new(id);
    // SAFETY: it stays in this frame until the thread's own strand is set again.
    unsafe { context::set_current(&strand) };
    let result = f();
    // SAFETY: the thread itself.
    unsafe { context::set_current(std::ptr::null()) };
    result
}

#[test]
fn nested_coroutines_move_between_strands_together() {
    let outer = Coroutine::in_scope(Outer, |_, _| {
        let inner: Coroutine<(), u32, u32> = Coroutine::new(|yielder, ()| {
            let got = suspend_to(Outer, "first");
            yielder.suspend(got);
            suspend_to(Outer, "second")
        });
        let got = inner.resume(()).yielded().unwrap();
        got + inner.resume(()).returned().unwrap()
    });
    assert_eq!(on_strand(1, || outer.resume(0)), Resumed::Yielded("first"));
    assert_eq!(on_strand(2, || outer.resume(20)), Resumed::Yielded("second"));
    assert_eq!(on_strand(3, || outer.resume(3)), Resumed::Returned(23));
}

#[test]
fn a_scope_in_an_inner_coroutine_binds_all() {
    static KEY: context::Key = context::Key::new();
    let outer = Coroutine::in_scope(Outer, |_, _| {
        let inner: Coroutine<(), (), u32> =
            Coroutine::new(|_, ()| context::with(&KEY, &1, || suspend_to(Outer, "")));
        inner.resume(()).returned().unwrap()
    });
    outer.resume(0);
    let text = panic_text(|| on_strand_caught(&outer));
    assert!(text.contains("on another fiber or thread"), "{text}");
    assert_eq!(outer.resume(4), Resumed::Returned(4));
}

/// Resumes it on another strand, and expects the panic of a coroutine that is bound to its strand.
fn on_strand_caught(outer: &Coroutine<u32, &'static str, u32>) {
    let caught = on_strand(9, || catch_unwind(AssertUnwindSafe(|| outer.resume(0))));
    caught.unwrap_or_else(|payload| std::panic::resume_unwind(payload));
}
