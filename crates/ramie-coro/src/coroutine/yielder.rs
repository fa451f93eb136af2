//! What a body suspends itself with.
#![allow(unsafe_code)]

use std::{fmt, ptr::NonNull, rc::Rc};

use super::control::Control;
use crate::bare::BareYielder;

/// Suspends the coroutine to whose body it was given.
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

    /// Gives a value to the resumer, and returns the next resumer's input.
    ///
    /// It does not return if the coroutine is dropped instead of resumed: then the stack is unwound
    /// from here.
    ///
    /// It aborts the process when the body is already unwinding, from a panic of its own or because
    /// its coroutine is dropped: nobody can be told any more.
    ///
    /// # Panics
    /// When called on another strand than the one that resumed the coroutine, such as a fiber that
    /// the body has lent `self`.
    #[inline]
    pub fn suspend(&self, value: Yield) -> Input {
        self.control.check_suspension();
        // SAFETY: it is in a frame below the one that holds `self` (`bare`), which the body that
        // calls us was lent.
        let bare = unsafe { self.bare.as_ref() };
        // SAFETY: the body runs, and no other strand's stack lies between it and us, which was
        // checked.
        unsafe { bare.suspend(value) }
    }
}

impl<Input, Yield> fmt::Debug for Yielder<Input, Yield> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Yielder")
    }
}
