//! Coroutines that are dropped before their end.

use std::{
    cell::{Cell, RefCell},
    panic::{AssertUnwindSafe, catch_unwind},
    rc::Rc,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use crate::common::{assert_signal, assert_success, child, is_child, stderr};
use ramie_coro::{
    Coroutine, Resumed, StackPool, StackSize, State, Yielder, bare::BareCoroutine, stats,
};

/// Calls a function when it is dropped.
struct OnDrop<F: FnMut()>(F);

impl<F: FnMut()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A coroutine that is suspended with the guard on its stack.
fn suspended_with<G: 'static>(guard: G) -> Coroutine<(), (), ()> {
    let coroutine = Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
        let _guard = guard;
        yielder.suspend(());
        unreachable!("it is not resumed");
    });
    coroutine.resume(());
    coroutine
}

#[test]
fn a_suspended_body_is_unwound() {
    let alive = Rc::new(());
    let coroutine = suspended_with(Rc::clone(&alive));
    assert_eq!(Rc::strong_count(&alive), 2);
    drop(coroutine);
    assert_eq!(Rc::strong_count(&alive), 1);
    assert!(!thread::panicking());
}

#[test]
fn a_fresh_bodys_closure_is_dropped() {
    let alive = Rc::new(());
    let inside = Rc::clone(&alive);
    let coroutine: Coroutine<(), (), ()> = Coroutine::new(move |_, ()| drop(inside));
    drop(coroutine);
    assert_eq!(Rc::strong_count(&alive), 1);
}

/// Panics when it is dropped, and counts its drops.
struct Explosive(Rc<Cell<u32>>, Box<u32>);

impl Drop for Explosive {
    fn drop(&mut self) {
        self.0.set(self.0.get() + *self.1);
        if self.0.get() == 1 {
            panic!("in the destructor of a closure");
        }
    }
}

#[test]
fn a_fresh_bodys_closure_is_dropped_once_even_if_that_panics() {
    let dropped = Rc::new(Cell::new(0));
    let explosive = || Explosive(Rc::clone(&dropped), Box::new(1));
    let inside = explosive();
    let coroutine: Coroutine<(), (), ()> = Coroutine::new(move |_, ()| drop(inside));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(coroutine))).is_err());
    assert_eq!(dropped.take(), 1);

    let inside = explosive();
    let mut coroutine: Coroutine<(), (), ()> = Coroutine::new(move |_, ()| drop(inside));
    assert!(catch_unwind(AssertUnwindSafe(|| coroutine.reset(|_, ()| ()))).is_err());
    assert_eq!(coroutine.state(), State::Done);
    coroutine.reset(|_, ()| ());
    assert_eq!(coroutine.resume(()), Resumed::Returned(()));
    assert_eq!(dropped.take(), 1);

    let inside = explosive();
    let stack = StackPool::new(StackSize::default()).take().unwrap();
    let bare = BareCoroutine::<(), (), ()>::with_stack(stack, move |_, ()| drop(inside));
    assert!(catch_unwind(AssertUnwindSafe(|| drop(bare))).is_err());
    assert_eq!(dropped.take(), 1);
}

#[test]
fn nested_ones_are_unwound_from_the_inside() {
    let order = Rc::new(RefCell::new(Vec::new()));
    let note = |name| {
        let order = Rc::clone(&order);
        OnDrop(move || order.borrow_mut().push(name))
    };
    let (outer_guard, inner_guard) = (note("outer"), note("inner"));
    let outer: Coroutine<(), (), ()> = Coroutine::new(move |yielder, ()| {
        let _guard = outer_guard;
        let _inner = suspended_with(inner_guard);
        yielder.suspend(());
    });
    outer.resume(());
    drop(outer);
    assert_eq!(*order.borrow(), ["inner", "outer"]);
}

#[test]
fn it_is_unwound_while_the_thread_panics() {
    let alive = Rc::new(());
    let coroutine = suspended_with(Rc::clone(&alive));
    let result = catch_unwind(AssertUnwindSafe(move || {
        let _coroutine = coroutine;
        panic!("the thread's own");
    }));
    assert_eq!(*result.unwrap_err().downcast::<&str>().unwrap(), "the thread's own");
    assert_eq!(Rc::strong_count(&alive), 1);
    assert!(!thread::panicking());
}

#[test]
fn a_destructor_may_run_coroutines_while_the_thread_panics() {
    let sum = Rc::new(Cell::new(0));
    let inside = Rc::clone(&sum);
    let _ = catch_unwind(AssertUnwindSafe(move || {
        let _guard = OnDrop(move || {
            let items = ramie_coro::Generator::new(|yielder| {
                (1..=3).for_each(|item| yielder.suspend(item));
            });
            inside.set(items.sum());
        });
        panic!("the thread's own");
    }));
    assert_eq!(sum.get(), 6);
}

#[test]
fn a_body_may_catch_the_unwinding_and_return() {
    let coroutine: Coroutine<(), (), ()> = Coroutine::new(|yielder, ()| {
        assert!(catch_unwind(AssertUnwindSafe(|| yielder.suspend(()))).is_err());
    });
    coroutine.resume(());
    drop(coroutine);
}

#[test]
fn a_body_may_panic_instead_and_the_panic_propagates() {
    let coroutine: Coroutine<(), (), ()> = Coroutine::new(|yielder, ()| {
        let _ = catch_unwind(AssertUnwindSafe(|| yielder.suspend(())));
        panic!("another one");
    });
    coroutine.resume(());
    let payload = catch_unwind(AssertUnwindSafe(|| drop(coroutine))).unwrap_err();
    assert_eq!(*payload.downcast::<&str>().unwrap(), "another one");
}

#[test]
fn a_body_that_catches_the_unwinding_and_suspends_again_aborts() {
    if !is_child() {
        let output = child("a_body_that_catches_the_unwinding_and_suspends_again_aborts");
        assert_signal(&output, libc::SIGABRT);
        return assert!(stderr(&output).contains("suspended while its body was being unwound"));
    }
    let coroutine: Coroutine<(), (), ()> = Coroutine::new(|yielder, ()| {
        loop {
            let _ = catch_unwind(AssertUnwindSafe(|| yielder.suspend(())));
        }
    });
    coroutine.resume(());
    drop(coroutine);
}

#[test]
fn suspending_in_a_destructor_of_a_panic_aborts() {
    if !is_child() {
        let output = child("suspending_in_a_destructor_of_a_panic_aborts");
        assert_signal(&output, libc::SIGABRT);
        return assert!(stderr(&output).contains("in a destructor that ran because"));
    }
    let coroutine: Coroutine<(), (), ()> = Coroutine::new(|yielder, ()| {
        let _guard = OnDrop(|| yielder.suspend(()));
        panic!("the body's own");
    });
    coroutine.resume(());
}

#[test]
fn a_panic_in_a_destructor_aborts() {
    if !is_child() {
        return assert_signal(&child("a_panic_in_a_destructor_aborts"), libc::SIGABRT);
    }
    drop(suspended_with(OnDrop(|| panic!("in a destructor"))));
}

#[test]
fn forgetting_is_harmless() {
    for _ in 0..100 {
        std::mem::forget(suspended_with(vec![1_u8; 100]));
    }
    drop(suspended_with(()));
}

#[test]
fn at_the_end_of_a_thread_it_leaks() {
    if !is_child() {
        return assert_success(&child("at_the_end_of_a_thread_it_leaks"));
    }
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static KEPT: RefCell<Vec<Coroutine<(), (), ()>>> = const { RefCell::new(Vec::new()) };
    }
    let ended = thread::spawn(|| {
        // First used before the pool of stacks, so destroyed after it.
        KEPT.with_borrow_mut(|kept| {
            kept.reserve(2);
            kept.push(suspended_with(OnDrop(|| _ = DROPPED.fetch_add(1, Ordering::Relaxed))));
            // A fresh coroutine can be dropped, whether the pool still exists or not.
            kept.push(Coroutine::new(|_, ()| ()));
        });
    });
    ended.join().unwrap();
    // std chooses which destructor runs first: the stack is either unwound and put back, or leaked
    // and counted.
    let dropped = DROPPED.load(Ordering::Relaxed);
    assert_eq!(stats().leaked, 1 - dropped);
    assert_eq!(stats().in_use, 1 - dropped);
    println!("leaked: {}", 1 - dropped);
}

#[test]
fn a_coroutine_can_be_made_at_the_end_of_a_thread() {
    struct Late;
    impl Drop for Late {
        fn drop(&mut self) {
            let coroutine: Coroutine<u32, (), u32> = Coroutine::new(|_, input| input + 1);
            assert_eq!(coroutine.resume(1).returned(), Some(2));
        }
    }
    thread_local!(static LATE: Late = const { Late });
    thread::spawn(|| LATE.with(|_| drop(suspended_with(())))).join().unwrap();
}

#[test]
fn a_dropped_suspended_bare_coroutine_leaks_its_stack() {
    if !is_child() {
        return assert_success(&child("a_dropped_suspended_bare_coroutine_leaks_its_stack"));
    }
    let alive = Rc::new(());
    let mut pool = ramie_coro::StackPool::new(Default::default());
    let mut make = || {
        let inside = Rc::clone(&alive);
        BareCoroutine::<(), (), ()>::with_stack(pool.take().unwrap(), move |yielder, ()| {
            let _inside = inside;
            // SAFETY: on the coroutine's own stack.
            unsafe { yielder.suspend(()) };
        })
    };
    drop(make());
    assert_eq!((Rc::strong_count(&alive), stats().leaked), (1, 0));
    let mut dropped = make();
    dropped.resume(());
    drop(dropped);
    let mut leaked = make();
    leaked.resume(());
    leaked.leak();
    let mut taken = make();
    taken.resume(());
    assert!(taken.into_stack().is_none());
    assert_eq!((Rc::strong_count(&alive), stats().leaked), (4, 3));
}
