//! The stack on which a thread's signal handlers run.
//!
//! std gives one to each thread that it starts. A thread that C code starts has none, and an
//! overflow on it would kill the process without a report, so it gets one here until it ends.
#![allow(unsafe_code)]

use std::cell::OnceCell;

use crate::sys;

thread_local! {
    static OWN: OnceCell<Option<SignalStack>> = const { OnceCell::new() };
}

/// The stack that the handler itself needs, without the saved registers.
const HANDLER_BYTES: usize = 32 * 1024;

/// Gives this thread a signal stack unless it has one.
pub(super) fn ensure() {
    // At a thread's end, after `OWN` is destroyed, there is nothing left to do.
    let _ = OWN.try_with(|own| {
        own.get_or_init(|| if has_one() { None } else { SignalStack::new() });
    });
}

fn has_one() -> bool {
    sys::signal_stack().ss_flags & libc::SS_DISABLE == 0
}

struct SignalStack {
    /// INVARIANT: mapped by this module, for this thread's handlers only.
    start: usize,
    bytes: usize,
}

impl SignalStack {
    /// `None` if there is no memory; an overflow then kills the process without a report.
    fn new() -> Option<SignalStack> {
        let page = sys::page_size();
        let bytes = page + (HANDLER_BYTES + sys::min_signal_stack()).next_multiple_of(page);
        let start = sys::map_stacks(bytes).ok()?;
        // SAFETY: just mapped; its lowest page becomes the guard.
        let _ = unsafe { sys::protect(start, page) };
        // SAFETY: mapped until the drop, which unsets the signal stack before it unmaps.
        unsafe { sys::set_signal_stack(start + page, bytes - page) };
        Some(SignalStack { start, bytes })
    }
}

impl Drop for SignalStack {
    fn drop(&mut self) {
        let range = self.start..self.start + self.bytes;
        if range.contains(&sys::signal_stack().ss_sp.addr()) {
            // SAFETY: unsets the signal stack.
            unsafe { sys::set_signal_stack(0, 0) };
        }
        // SAFETY: mapped by `new`, and no longer the signal stack.
        unsafe { sys::unmap(self.start, self.bytes) };
    }
}
