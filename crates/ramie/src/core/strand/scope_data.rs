//! The part of a scope that its strands refer to: their count, and the wait for their ends.
//!
//! # The count
//! `strands` counts the live strands and the parent itself. The parent takes itself off when it
//! begins to wait; the strand that takes off the last one finishes `done`, for which the parent
//! waits. A strand that is not the last touches the scope no more after its decrement; the last one
//! may, because the parent leaves only when `done` is finished.
//!
//! An abandoned strand stays on the count, because it may have lent its borrows to others. Its
//! parent is usually abandoned, too. If the scope was opened outside of the strand's `run`, the
//! process ends: the parent could neither leave the scope nor continue; and if the parent was
//! abandoned in its turn, its thread would not wait for the borrowers of that `run`
//! (`core/loans.rs`).

use std::{
    panic::Location,
    sync::{Arc, Mutex},
};

use ramie_driver::sys::{HandedOut, Lent};

use super::{FiberId, NoValue};
use crate::core::{
    loans::{Lender, Loans},
    local::Inherited,
    primitive::{AtomicBool, AtomicUsize, Ordering},
    wait::{
        completion::Completion,
        park::{Subject, WaitKind, WaitRecord, abort_wait_while_unwinding},
    },
    worker::{self, Shared, try_install_hook},
};

static SCOPE_END: WaitKind = WaitKind::about("the strands of a scope", Subject::Scope);

/// The message of a scope about a strand whose panic nobody took.
pub(crate) struct Sentence {
    pub(crate) text: String,
    /// Whether the panic hook has reported the panic. If so, the scope's own panic is raised
    /// without a report; otherwise the scope's panic is the first report.
    pub(crate) is_reported: bool,
}

/// The part of a scope that its strands refer to.
pub(crate) struct ScopeData {
    strands: AtomicUsize,
    done: Completion,
    /// A strand was abandoned, so the count will never reach zero.
    is_lost: AtomicBool,
    /// A strand has noticed a cancellation, or has panicked.
    is_interrupted: AtomicBool,
    panicked: Mutex<Option<Sentence>>,
    /// The worker of the strand that waits for the scope.
    owner: &'static Shared,
    /// The strand that opened the scope.
    opener: FiberId,
    lender: Lender,
    /// The limits and values that were set where the scope was opened.
    inherited: Option<Inherited>,
}

/// Lent to the strands of a scope: the scope, and their borrows.
enum Children {}

impl Lent for Children {
    const WHAT: &'static str = "strands of a scope borrowed from it";
}

impl ScopeData {
    #[track_caller]
    pub(crate) fn new() -> Self {
        let worker = worker::current();
        worker.check_can_wait();
        worker::note_lending(&worker);
        // Scopes ask which panics the hook has reported, also outside of `run`.
        try_install_hook();
        ScopeData {
            strands: AtomicUsize::new(1),
            done: Completion::new(),
            is_lost: AtomicBool::new(false),
            is_interrupted: AtomicBool::new(false),
            panicked: Mutex::new(None),
            owner: worker.shared,
            opener: worker.current_header().id(),
            lender: Lender::of(&worker.stacks.loans),
            inherited: Inherited::snapshot(),
        }
    }

    /// The strand that opened the scope, and waits for its strands.
    pub(crate) fn opener(&self) -> FiberId {
        self.opener
    }

    /// By which a strand of the scope that is a thread becomes a loan of the opener's worker.
    pub(crate) fn lender(&self) -> &Lender {
        &self.lender
    }

    /// The number of strands that have not ended, without the parent.
    pub(crate) fn live_strands(&self) -> usize {
        self.strands.load(Ordering::Relaxed).saturating_sub(1)
    }

    pub(crate) fn inherited(&self) -> Option<&Inherited> {
        self.inherited.as_ref()
    }

    pub(crate) fn child_added(&self) {
        // Relaxed: the spawn's own hand-over orders it.
        self.strands.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether fibers that stay on `worker` are sure to run while the scope waits.
    pub(crate) fn is_served_by(&self, worker: &worker::Worker) -> bool {
        worker.membership.is_some() || std::ptr::eq(worker.shared, self.owner)
    }

    /// Remembers the first failure that no join received.
    pub(crate) fn note_panic(&self, label: String, (why, message): (NoValue, Option<String>)) {
        let is_reported = why == NoValue::Panicked;
        let text = match message {
            Some(reason) if why == NoValue::NotRun => reason,
            Some(message) => format!("{label}: {message}"),
            None => label,
        };
        let text = format!("a strand of the scope panicked: {text}");
        let mut panicked = self.panicked.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        panicked.get_or_insert(Sentence { text, is_reported });
    }

    /// Records that a strand has noticed a cancellation, or has panicked.
    #[cold]
    pub(crate) fn note_interruption(&self) {
        // Relaxed: `child_ended` releases it.
        self.is_interrupted.store(true, Ordering::Relaxed);
    }

    /// Whether a strand has noticed a cancellation, or has panicked. Asked when all have ended.
    pub(crate) fn was_interrupted(&self) -> bool {
        self.is_interrupted.load(Ordering::Relaxed)
    }

    pub(crate) fn take_panic(&self) -> Option<Sentence> {
        self.panicked.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take()
    }

    /// Takes a strand that has ended, or was never made, off the count. The scope may be gone when
    /// this returns.
    pub(crate) fn child_ended(&self) {
        // AcqRel: the writes of each strand are visible to the last one, and through it to the
        // parent.
        if self.strands.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.done.finish().wake();
        }
    }

    /// Notifies the parent that a strand of a worker with these loans was abandoned. The parent has
    /// not left, because that strand is still on the count.
    pub(crate) fn child_lost(&self, loans: &Arc<Loans>) {
        if !self.lender.is_of(loans) {
            end_without_strand();
        }
        // Relaxed: `finish` releases it.
        self.is_lost.store(true, Ordering::Relaxed);
        self.done.finish().wake();
    }

    /// Waits until no strand is left.
    #[track_caller]
    pub(crate) fn wait_for_all(&self, called_at: &'static Location<'static>) {
        let children = HandedOut::<Children>::new();
        if self.strands.fetch_sub(1, Ordering::AcqRel) == 1 {
            return children.settle();
        }
        let address = std::ptr::from_ref(self).addr() as u64;
        let record = WaitRecord::new(&SCOPE_END).called_at(called_at).with_detail(address, 0);
        if self.done.wait(&record).is_err() {
            abort_wait_while_unwinding("a scope with strands that have not ended");
        }
        if self.is_lost.load(Ordering::Relaxed) {
            self.end_without_strands(&record);
        }
        children.settle();
    }

    #[cold]
    fn end_without_strands(&self, record: &WaitRecord) -> ! {
        let is_given_up_too = || {
            let worker = worker::current();
            worker.workers().is_some_and(|workers| workers.is_grace_over())
        };
        if is_given_up_too() {
            // This strand's worker is about to abandon it, too.
            let _ = Completion::new().wait(record);
        }
        end_without_strand()
    }
}

#[cold]
fn end_without_strand() -> ! {
    ramie_driver::sys::fatal(
        "a strand of a scope was abandoned at the end of its run, and the scope, which was opened \
         outside of that run, would wait for it forever. Open the scope inside run, or join the \
         strand before run ends. Aborting.",
    )
}

impl Drop for ScopeData {
    /// If the scope was not closed, only the parent is on the count; if it was, nobody is.
    /// Otherwise strands borrow values that are about to be dropped.
    fn drop(&mut self) {
        if self.strands.load(Ordering::Relaxed) > 1 {
            ramie_driver::sys::fatal("a scope was dropped before its strands had ended. Aborting.")
        }
    }
}
