//! Threads that outlive the loans of their abandoned fibers, although other code owns the thread.
//!
//! The thread waits before its thread-locals are destroyed ([`thread_end`]), unless its end is that
//! of the process. The C library calls the same functions in both cases, and does not tell which
//! one it is.

use std::sync::Arc;

use ramie_coro::thread_end;
use ramie_driver::sys;

use super::is_inside_run;
use crate::core::loans::Loans;

/// Whether the end of this thread is that of the process, which waits for nobody: it is the main
/// thread, or its destructors run while a strand does, which has called `exit`.
pub(crate) fn ends_the_process() -> bool {
    sys::is_main_thread() || is_inside_run()
}

/// Makes the calling thread, whose fibers are abandoned, outlive their loans.
pub(crate) fn outlive(loans: &Arc<Loans>) {
    if loans.have_all_ended() || sys::is_main_thread() {
        return;
    }
    // On a fiber, it is that of a `run` in a destructor: the wait is left to the thread itself.
    if thread_end::has_begun() && !is_inside_run() {
        return loans.wait();
    }
    let loans = Arc::clone(loans);
    thread_end::before_locals_end(move || {
        // Otherwise a strand has called `exit`.
        if !is_inside_run() {
            loans.wait();
        }
    });
}
