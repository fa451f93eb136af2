//! The state that a coroutine's handle and its body share, and the rules of its transitions.
//!
//! It lies on the heap, because the handle moves and the body's stack may be leaked.

use std::{
    any::TypeId,
    cell::Cell,
    ptr::{self, NonNull},
    rc::Rc,
    thread::panicking,
};

use super::State;
use crate::{Stack, abort::abort_with, context::Segment};

pub(crate) struct Control {
    state: Cell<State>,
    /// The body is being unwound, because its coroutine is dropped or reset.
    is_unwinding: Cell<bool>,
    /// The resumer was unwinding from a panic when it resumed the body.
    resumer_panics: Cell<bool>,
    /// INVARIANT: linked exactly while a `RunGuard` of this control exists.
    segment: Segment,
    /// The body's `BareYielder`; null before the body has begun.
    yielder: Cell<*const ()>,
}

impl Control {
    /// The tag is the name by which code on other stacks finds the coroutine to suspend it.
    pub(super) fn new(tag: Option<TypeId>, stack: &Stack) -> Rc<Control> {
        let stack = stack.limit().get()..stack.base().get();
        let control = Rc::new(Control {
            state: Cell::new(State::Suspended),
            is_unwinding: Cell::new(false),
            resumer_panics: Cell::new(false),
            segment: Segment::new(tag, stack),
            yielder: Cell::new(ptr::null()),
        });
        control.segment.set_owner(Rc::as_ptr(&control).cast());
        control
    }

    pub(super) fn tag(&self) -> Option<TypeId> {
        self.segment.tag()
    }

    pub(super) fn set_yielder<T>(&self, yielder: NonNull<T>) {
        self.yielder.set(yielder.as_ptr().cast());
    }

    #[inline]
    pub(super) fn yielder(&self) -> *const () {
        self.yielder.get()
    }

    #[inline]
    pub(super) fn state(&self) -> State {
        self.state.get()
    }

    pub(super) fn set_done(&self) {
        self.state.set(State::Done);
    }

    pub(super) fn is_bound_elsewhere(&self) -> bool {
        self.segment.is_bound_elsewhere()
    }

    /// Suspended → Running, until the guard is dropped.
    #[inline]
    #[track_caller]
    pub(super) fn enter(&self) -> RunGuard<'_> {
        if self.state.get() != State::Suspended || self.segment.is_bound_elsewhere() {
            self.refuse();
        }
        self.state.set(State::Running);
        self.resumer_panics.set(panicking());
        self.segment.link();
        RunGuard { control: self, next: Cell::new(State::Done) }
    }

    /// Like [`enter`](Self::enter), to unwind the body.
    pub(super) fn enter_to_unwind(&self) -> RunGuard<'_> {
        self.is_unwinding.set(true);
        self.enter()
    }

    #[cold]
    #[track_caller]
    fn refuse(&self) -> ! {
        match self.state.get() {
            State::Done => panic!(
                "resumed a coroutine that is done: check its state first, or reset it with a new \
                 body"
            ),
            State::Running => panic!(
                "resumed a coroutine that is running: neither the coroutine nor one that it has \
                 resumed may resume it"
            ),
            State::Suspended => panic!(
                "resumed a coroutine on another fiber or thread than the one on which it suspended \
                 inside a scope (a cancel scope, a deadline or a scoped value): resume it on the \
                 same one, or leave the scope before suspending"
            ),
        }
    }

    /// Panics or aborts if the body must not suspend here.
    ///
    /// A body may lend its `Yielder` to another strand, and a scheduler may run that strand while
    /// the body runs. The coroutine's resumer cannot be reached from that strand's stack. The other
    /// strand may even have resumed this coroutine, and continue after the coroutine has suspended.
    #[inline]
    pub(super) fn check_suspension(&self) {
        if self.state.get() != State::Running
            || self.is_unwinding.get()
            || panicking() && !self.resumer_panics.get()
            || !self.segment.was_linked_here()
        {
            self.refuse_suspension();
        }
    }

    #[cold]
    fn refuse_suspension(&self) -> ! {
        if self.is_unwinding.get() {
            abort_with(
                "a coroutine suspended while its body was being unwound: after its Coroutine is \
                 dropped or reset, or the resumption of its effect or shift is dropped, a body may \
                 catch the unwinding and return, but neither the body nor its destructors may \
                 suspend, perform or shift again",
            );
        }
        assert!(
            self.state.get() == State::Running && self.segment.was_linked_here(),
            "cannot suspend a coroutine from another fiber than the one that resumed it: call \
             suspend in its own body, not in a fiber that the body has spawned"
        );
        abort_with(
            "a coroutine suspended (perform and shift also suspend) in a destructor that ran \
             because its body panicked: other code on this thread would appear to be panicking",
        );
    }
}

/// A guard that exists while a body runs.
pub(super) struct RunGuard<'a> {
    control: &'a Control,
    next: Cell<State>,
}

impl RunGuard<'_> {
    /// Records that the body has suspended itself rather than ended.
    #[inline]
    pub(super) fn suspended(&self) {
        self.next.set(State::Suspended);
    }
}

impl Drop for RunGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.control.segment.unlink();
        self.control.state.set(self.next.get());
    }
}
