//! The fiber-locals of a thread's own strand: where they are found, when they end.
#![allow(unsafe_code)]

use super::{FiberStack, Installed, Worker};

impl Worker {
    /// The stack of the strand that runs. The thread's own need not have a header.
    #[inline(always)]
    pub(crate) fn running_stack(&self) -> &FiberStack {
        match self.running_fiber() {
            Some(stack) => stack,
            None => self.masked_stack().unwrap_or(&self.root),
        }
    }

    #[inline(always)]
    fn masked_stack(&self) -> Option<&FiberStack> {
        // SAFETY: `masked` is null or the stack that runs, which lives as long as its worker.
        unsafe { self.masked.get().as_ref() }
    }

    pub(super) fn has_root_locals(&self) -> bool {
        !self.root.locals.is_empty()
    }

    /// Ends the locals of the thread's own strand.
    pub(crate) fn end_root_locals(&self) {
        if !self.root.locals.is_empty() {
            let _installed = Installed::new(self);
            self.root.locals.free();
        }
    }
}
