//! The means by which a body suspends itself.
#![allow(unsafe_code)]

use std::{fmt, ptr::NonNull, rc::Rc};

use super::control::Control;
use crate::bare::BareYielder;

/// Suspends the coroutine whose body received it.
pub struct Yielder<Input, Yield> {
    /// INVARIANT: lies at the base of the stack on which `self` lies, too.
    bare: NonNull<BareYielder<Input, Yield>>,
    control: Rc<Control>,
}

impl<Input, Yield> Yielder<Input, Yield> {
    #[inline]
    pub(super) fn new(bare: &BareYielder<Input, Yield>, control: Rc<Control>) -> Self {
        let bare = NonNull::from(bare);
        control.set_yielder(bare);
        Yielder { bare, control }
    }

    /// Passes a value to the resumer, and returns the input of the next resume.
    ///
    /// If the coroutine is dropped instead of resumed, this does not return but unwinds the stack
    /// from here.
    ///
    /// It aborts the process if the body is already unwinding, from a panic of its own or because
    /// its coroutine is dropped, because no caller could receive an error any more.
    ///
    /// # Panics
    /// If called on another strand than the one that resumed the coroutine, such as a fiber to
    /// which the body has lent `self`.
    #[inline]
    pub fn suspend(&self, value: Yield) -> Input {
        self.control.check_suspension();
        // SAFETY: it lies in a frame below the one that holds `self` (`bare`), which the body has
        // lent to this call.
        let bare = unsafe { self.bare.as_ref() };
        // SAFETY: the body runs, and no other strand's stack lies between it and this frame, which
        // was checked.
        unsafe { bare.suspend(value) }
    }
}

impl<Input, Yield> fmt::Debug for Yielder<Input, Yield> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Yielder")
    }
}
