//! Context: callees see it, other strands do not, and it binds a coroutine to its strand.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::common::{self, assert_signal, child, is_child, stderr};
use ramie_coro::{
    Coroutine, StackPool, Yielder,
    bare::BareCoroutine,
    context::{self, Key, Strand},
    stats,
};

static COLOUR: Key = Key::new();
static SHAPE: Key = Key::new();

fn find(key: &'static Key) -> Option<u32> {
    // SAFETY: the tests put u32 only, in the frames above.
    context::find(key).map(|value| unsafe { *value.cast::<u32>().as_ptr() })
}

fn depth() -> usize {
    let mut depth = 0;
    let count = |_: &Key, _: *const ()| {
        depth += 1;
        true
    };
    // SAFETY: counting does not suspend.
    unsafe { context::visit(count) };
    depth
}

#[test]
fn the_innermost_is_found() {
    assert_eq!(find(&COLOUR), None);
    context::with(&COLOUR, &1, || {
        context::with(&SHAPE, &2, || {
            context::with(&COLOUR, &3, || {
                assert_eq!((find(&COLOUR), find(&SHAPE), depth()), (Some(3), Some(2), 3));
            });
            assert_eq!(find(&COLOUR), Some(1));
        });
    });
    assert_eq!(depth(), 0);
}

#[test]
fn a_panic_removes_frames() {
    let result = catch_unwind(|| context::with(&COLOUR, &1, || panic!("oh no")));
    assert!(result.is_err());
    assert_eq!(depth(), 0);
}

#[test]
fn a_coroutine_sees_its_resumers_context() {
    let coroutine = Coroutine::new(|yielder: &Yielder<(), Option<u32>>, ()| {
        loop {
            yielder.suspend(find(&COLOUR));
        }
        #[allow(unreachable_code)]
        ()
    });
    assert_eq!(coroutine.resume(()).yielded(), Some(None));
    let seen = context::with(&COLOUR, &1, || coroutine.resume(()));
    assert_eq!(seen.yielded(), Some(Some(1)));
    assert_eq!(coroutine.resume(()).yielded(), Some(None));
}

fn suspended_inside_a_frame() -> Coroutine<(), (), Option<u32>> {
    let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, ()| {
        context::with(&COLOUR, &7, || {
            yielder.suspend(());
            find(&COLOUR)
        })
    });
    coroutine.resume(());
    coroutine
}

#[test]
fn a_coroutine_keeps_its_context_to_itself() {
    let coroutine = suspended_inside_a_frame();
    assert_eq!(depth(), 0);
    context::with(&COLOUR, &1, || {
        assert_eq!(find(&COLOUR), Some(1));
        assert_eq!(coroutine.resume(()).returned(), Some(Some(7)));
        assert_eq!(find(&COLOUR), Some(1));
    });
    assert_eq!(depth(), 0);
}

#[test]
fn segments_nest() {
    let outer: Coroutine<(), (), ()> = Coroutine::new(|yielder, ()| {
        context::with(&SHAPE, &1, || {
            let inner = suspended_inside_a_frame();
            yielder.suspend(());
            assert_eq!((find(&SHAPE), find(&COLOUR)), (Some(1), None));
            assert_eq!(inner.resume(()).returned(), Some(Some(7)));
        });
    });
    outer.resume(());
    assert_eq!(depth(), 0);
    outer.resume(());
    assert_eq!(depth(), 0);
}

#[test]
fn unwinding_removes_a_coroutines_frames() {
    context::with(&SHAPE, &1, || {
        drop(suspended_inside_a_frame());
        assert_eq!(depth(), 1);
    });
}

/// Runs `f` as a strand of its own.
fn on_strand<R>(id: u64, f: impl FnOnce() -> R) -> R {
    let strand = Strand::new(id);
    // SAFETY: it stays in this frame until the thread's own strand is set again.
    unsafe { context::set_current(&strand) };
    let result = f();
    // SAFETY: the thread itself.
    unsafe { context::set_current(std::ptr::null()) };
    result
}

#[test]
fn strands_have_contexts_of_their_own() {
    context::with(&COLOUR, &1, || {
        assert_eq!(on_strand(5, || find(&COLOUR)), None);
        assert_eq!(find(&COLOUR), Some(1));
    });
}

#[test]
fn a_coroutine_inside_a_frame_is_bound_to_its_strand() {
    let coroutine = suspended_inside_a_frame();
    let refused = on_strand(6, || catch_unwind(AssertUnwindSafe(|| coroutine.resume(()))));
    let message = *refused.unwrap_err().downcast::<&str>().unwrap();
    assert!(message.contains("on another fiber or thread"), "{message}");
    assert_eq!(coroutine.resume(()).returned(), Some(Some(7)));
}

#[test]
fn a_coroutine_outside_any_frame_may_be_resumed_anywhere() {
    let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, ()| yielder.suspend(()));
    on_strand(7, || coroutine.resume(()));
    on_strand(8, || coroutine.resume(()));
}

#[test]
fn a_bound_coroutine_dropped_elsewhere_leaks() {
    if !is_child() {
        return common::assert_success(&child("a_bound_coroutine_dropped_elsewhere_leaks"));
    }
    let coroutine = suspended_inside_a_frame();
    on_strand(9, || drop(coroutine));
    assert_eq!((stats().leaked, depth()), (1, 0));
}

#[test]
fn threads_are_different_strands() {
    let id = || {
        // SAFETY: this thread's own, or one that a test keeps alive.
        unsafe { &*context::current() }.id()
    };
    assert_ne!(id(), std::thread::spawn(id).join().unwrap());
    assert_eq!(id(), id());
}

#[test]
fn frames_left_out_of_order_abort() {
    if !is_child() {
        let output = child("frames_left_out_of_order_abort");
        assert_signal(&output, libc::SIGABRT);
        return assert!(stderr(&output).contains("left out of order"));
    }
    let mut pool = StackPool::new(Default::default());
    let mut make = || {
        let stack = pool.take().unwrap();
        let mut bare = BareCoroutine::<(), (), ()>::with_stack(stack, |yielder, ()| {
            // SAFETY: on the coroutine's own stack.
            context::with(&COLOUR, &1, || unsafe { yielder.suspend(()) });
        });
        bare.resume(());
        bare
    };
    let (mut first, _second) = (make(), make());
    first.resume(());
}
