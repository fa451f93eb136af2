//! Loans: jobs and strands to which a fiber has lent values, and which may outlast the fiber.
//!
//! A fiber lends values to a job of the blocking pool, or to strands of a scope, and waits for them
//! on its own stack. If the fiber is abandoned, its stack is leaked, so the values there stay. But
//! a value of a `std::thread_local!`, lent from inside `LocalKey::with`, would be destroyed when
//! the fiber's thread ends. So that thread does not end before the borrowers have:
//!
//! | borrower | why the thread of the fiber outlives it |
//! |---|---|
//! | a strand on another worker of the runtime | no thread of a worker ends while another worker runs fibers (`runtime/workforce.rs`) |
//! | a job of the pool | the job is a [`Loan`] of the runtime, because it may be that of a strand on another worker |
//! | a thread strand of a scope (outside `run`, or spawned by a job) | the strand is a loan of the worker whose fiber has opened the scope |
//! | a fiber of a `run` that such a job or strand calls | that `run` returns when the fiber has ended; if it abandons the fiber instead, the process ends (`core/strand/scope_data.rs`) |
//!
//! | the thread | waits for the loans |
//! |---|---|
//! | of a worker, and of a strand that is a thread | at the end of its closure; nobody joins it then |
//! | that called `run`, or has ended a guest | before its thread-locals are destroyed (`core/worker/outlive.rs`) |
//! | that has forgotten a guest, or has run fibers outside of `run` | when it abandons them, before its thread-locals are destroyed (`thread_end.rs` of `ramie-coro` describes the gap) |
//! | that ends the process: the main thread, or one on which a strand calls `exit` | never, because a job may wait for ever, and the process is to end. The docs of `ramie::fiber` state the assumption about such a program |
//!
//! *The race to fear*: a loan begins after the thread has looked for the last time. A loan begins
//! before its fiber can be abandoned, or by a borrower that is part of a loan itself. So once the
//! fibers are abandoned and the count is zero, it stays so.
#![allow(unsafe_code)]

use std::{
    ptr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::Duration,
};

use ramie_driver::{logging, sys};

use super::primitive::{AtomicUsize, Ordering};

/// How long a thread waits before it says why it does not end.
const PATIENCE: Duration = Duration::from_secs(1);

/// The loans of a runtime's fibers, or of the fibers of a thread outside `run`.
#[derive(Default)]
pub(crate) struct Loans {
    count: AtomicUsize,
    /// How many threads wait for the end.
    waiting: Mutex<usize>,
    have_ended: Condvar,
}

/// By which a scope that a fiber has opened makes its thread strands loans.
///
/// It does not keep the loans alive, so that opening a scope counts nothing. INVARIANT: those that
/// can reach the scope do: the worker of the opener, until it has abandoned its fibers; then the
/// strands and jobs that may use what the opener has lent, because each is a loan, a fiber of a
/// worker that has the same loans, or a fiber of a `run` inside of a loan, which returns when that
/// fiber has ended. (If it is abandoned instead, the process ends: `core/strand/scope_data.rs`.)
pub(crate) struct Lender(*const Loans);

// SAFETY: a reference to a value that is `Sync`.
unsafe impl Send for Lender {}
// SAFETY: as above.
unsafe impl Sync for Lender {}

impl Lender {
    pub(crate) fn of(loans: &Arc<Loans>) -> Lender {
        Lender(Arc::as_ptr(loans))
    }

    /// Whether the scope was opened by a fiber with these loans.
    pub(crate) fn is_of(&self, loans: &Arc<Loans>) -> bool {
        ptr::eq(self.0, Arc::as_ptr(loans))
    }

    pub(crate) fn lend(&self) -> Loan {
        // SAFETY: made from an `Arc`, which is alive: the invariant, since the caller has a
        // reference to the scope.
        unsafe { Arc::increment_strong_count(self.0) };
        // SAFETY: as above; the count was raised for it.
        Loan::begin(unsafe { Arc::from_raw(self.0) })
    }
}

/// A borrower of values that a fiber has lent, until dropped.
pub(crate) struct Loan(Arc<Loans>);

impl Loan {
    pub(crate) fn begin(loans: Arc<Loans>) -> Loan {
        // Relaxed: handing the loan to another thread makes this visible there.
        loans.count.fetch_add(1, Ordering::Relaxed);
        Loan(loans)
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        // Release: pairs with `have_all_ended`, so that all uses come before the destructors.
        if self.0.count.fetch_sub(1, Ordering::Release) == 1 {
            // Asked first, because a notification is a system call, which each job would make.
            if *self.0.lock() > 0 {
                self.0.have_ended.notify_all();
            }
        }
    }
}

impl Loans {
    fn lock(&self) -> MutexGuard<'_, usize> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether nobody uses a value that a fiber has lent. Once the fibers are abandoned, this stays
    /// so.
    pub(crate) fn have_all_ended(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Blocks this thread, whose fibers are abandoned, until all loans have ended. Not if it is the
    /// main thread, as it is in the child of a fork, which lacks the threads of the borrowers.
    pub(crate) fn wait(&self) {
        if self.have_all_ended() || sys::is_main_thread() {
            return;
        }
        let mut is_silent = true;
        let mut guard = self.lock();
        *guard += 1;
        while !self.have_all_ended() {
            let (woken, waited) = match self.have_ended.wait_timeout(guard, PATIENCE) {
                Ok(woken) => woken,
                Err(poisoned) => poisoned.into_inner(),
            };
            guard = woken;
            if waited.timed_out() && is_silent && !self.have_all_ended() {
                is_silent = false;
                self.tell();
            }
        }
        *guard -= 1;
    }

    /// To stderr, because the program's logger may need thread-locals that are destroyed.
    fn tell(&self) {
        let count = self.count.load(Ordering::Relaxed);
        let thread = thread::current();
        let name = thread.name().unwrap_or("without a name");
        let users = match count {
            1 => "1 call on the blocking pool or strand, which has".to_owned(),
            _ => format!("{count} calls on the blocking pool or strands, which have"),
        };
        logging::print_unless_full(format_args!(
            "ramie: the thread '{name}' ends after {users} not ended: the fibers that wait for \
             them were abandoned, and may have lent them thread-locals of this thread"
        ));
    }
}
