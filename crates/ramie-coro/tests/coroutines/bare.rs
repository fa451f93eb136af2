//! Bare coroutines, as a scheduler uses them.

use crate::common;
use std::{
    cell::Cell,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
    rc::Rc,
};

use ramie_coro::{
    Coroutine, Resumed, StackPool, StackSize, Yielder,
    bare::{BareCoroutine, BareYielder},
    context::{self, Strand},
    overflow::stack_of,
};

fn pool() -> StackPool {
    StackPool::new(StackSize::default())
}

#[test]
fn it_reports_its_state() {
    let mut bare = BareCoroutine::with_stack(pool().take().unwrap(), |yielder, input: u32| {
        // SAFETY: on the coroutine's own stack.
        unsafe { yielder.suspend(input) + 1 }
    });
    assert!(!bare.is_started() && !bare.is_done());
    assert_eq!(bare.resume(1), Resumed::Yielded(1));
    assert!(bare.is_started() && !bare.is_done());
    assert_eq!(bare.resume(2), Resumed::Returned(3));
    assert!(bare.is_done());
    assert!(catch_unwind(AssertUnwindSafe(|| bare.resume(3))).is_err());
}

#[test]
fn it_runs_on_its_stack() {
    let stack = pool().take().unwrap();
    let base = stack.base().get();
    let mut bare: BareCoroutine<(), (), usize> = BareCoroutine::with_stack(stack, |_, ()| {
        let here = 0_u8;
        stack_of(&raw const here as usize).unwrap().base()
    });
    assert_eq!(bare.resume(()), Resumed::Returned(base));
    assert_eq!(bare.into_stack().unwrap().base().get(), base);
}

#[test]
fn a_panic_propagates_and_the_stack_can_be_reused() {
    let mut bare: BareCoroutine<(), (), ()> =
        BareCoroutine::with_stack(pool().take().unwrap(), |_, ()| panic!("oh no"));
    assert!(catch_unwind(AssertUnwindSafe(|| bare.resume(()))).is_err());
    assert!(bare.into_stack().is_some());
}

type FiberYielder = BareYielder<u32, &'static str>;

/// A fiber whose body resumes a coroutine, whose body parks the fiber.
fn fiber_that_parks_from_within() -> BareCoroutine<u32, &'static str, u32> {
    let parker: Rc<Cell<*const FiberYielder>> = Rc::new(Cell::new(ptr::null()));
    BareCoroutine::with_stack(pool().take().unwrap(), move |yielder: &FiberYielder, first| {
        parker.set(yielder);
        let park = move |why| {
            // SAFETY: it lies at the base of the fiber's stack, whose body is not done.
            let yielder = unsafe { &*parker.get() };
            // SAFETY: called where the body resumes the coroutine.
            unsafe { yielder.suspend(why) }
        };
        let inner: Coroutine<u32, u32, u32> =
            Coroutine::new(move |yielder: &Yielder<u32, u32>, input| {
                let parked = park("from the inner stack");
                let resumed = yielder.suspend(input + parked);
                resumed + park("from the inner stack, again")
            });
        let sum = inner.resume(first).yielded().unwrap();
        inner.resume(sum).returned().unwrap()
    })
}

/// Runs `f` as the current strand of this thread.
fn on<R>(strand: &Strand, f: impl FnOnce() -> R) -> R {
    // SAFETY: the test keeps it until the thread's own strand is set again.
    unsafe { context::set_current(strand) };
    let result = f();
    // SAFETY: the thread itself.
    unsafe { context::set_current(std::ptr::null()) };
    result
}

#[test]
fn a_park_suspends_the_fiber_from_a_nested_coroutine() {
    let mut fiber = fiber_that_parks_from_within();
    let mut other = fiber_that_parks_from_within();
    // As in a scheduler, each fiber is a strand, so that the contexts of the inner coroutines do
    // not mix.
    let strands = [Strand::new(1), Strand::new(2)];
    assert_eq!(on(&strands[0], || fiber.resume(1)), Resumed::Yielded("from the inner stack"));
    assert_eq!(on(&strands[1], || other.resume(100)), Resumed::Yielded("from the inner stack"));
    assert_eq!(
        on(&strands[0], || fiber.resume(2)),
        Resumed::Yielded("from the inner stack, again")
    );
    assert_eq!(
        on(&strands[1], || other.resume(200)),
        Resumed::Yielded("from the inner stack, again")
    );
    assert_eq!(on(&strands[0], || fiber.resume(4)), Resumed::Returned(1 + 2 + 4));
    assert_eq!(on(&strands[1], || other.resume(400)), Resumed::Returned(100 + 200 + 400));
}

#[test]
fn a_suspended_coroutines_unused_memory_is_released() {
    let mut bare = BareCoroutine::with_stack(pool().take().unwrap(), |yielder, ()| {
        common::use_stack(100_000);
        let kept = std::hint::black_box([7_u8; 100]);
        // SAFETY: on the coroutine's own stack.
        unsafe { yielder.suspend(()) };
        assert_eq!(kept, [7; 100]);
    });
    bare.resume(());
    assert!(bare.stack().high_water_mark() > 100_000);
    // SAFETY: it is suspended in its outermost function, whose frame is far smaller.
    unsafe { bare.stack().release_unused(8 * 1024) };
    assert!(bare.stack().high_water_mark() <= 3 * 4096);
    assert_eq!(bare.resume(()), Resumed::Returned(()));
}
