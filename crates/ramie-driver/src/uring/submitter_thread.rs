//! Rings whose ops another thread submits while the worker is busy.
//!
//! A ring consists of its queues, which the worker fills and reads, and the thread that enters the
//! kernel for it; the ring's flags depend on that thread. A kernel's thread and a [`Sidecar`] look
//! alike from here: both take entries out of the queue while they are awake, both fall asleep after
//! a while, and after each entry the worker checks whether it must wake them. The worker finds
//! completions in the queue, as usual.
//!
//! A worker with nothing to run waits in the kernel itself, and submits the remaining entries as it
//! enters. So a sleeping worker is woken like any other, no op depends on another thread while the
//! worker sleeps, and neither thread costs CPU time then.

use std::io;

use super::queue::Queue;
use super::sidecar::Sidecar;
use crate::feature::{Feature, FeatureSet};
use crate::submitter::Submitter;

/// The thread that submits, if it is not the worker.
#[derive(Debug)]
pub(super) enum SubmitterThread {
    Kernel,
    Sidecar(Sidecar),
}

/// The features that a ring cannot use with this submitter.
///
/// The kernel defers work to the task that submits, or announces it to that task by a flag, but
/// here another thread submits. And a message to another ring pays only if the kernel sees it at
/// once.
pub(super) fn unfit_for(submitter: Submitter) -> FeatureSet {
    let unfit = [
        Feature::SingleIssuer,
        Feature::DeferTaskrun,
        Feature::CoopTaskrun,
        Feature::TaskrunFlag,
        Feature::MsgRing,
    ];
    match submitter {
        Submitter::Worker => FeatureSet::EMPTY,
        _ => unfit.into_iter().fold(FeatureSet::EMPTY, FeatureSet::with),
    }
}

impl SubmitterThread {
    /// Starts the thread that a submitter is, if it is not the worker.
    ///
    /// # Errors
    /// Waits take no timeout here, or no thread can be made.
    pub(super) fn start(
        submitter: Submitter,
        queue: &Queue,
        features: FeatureSet,
    ) -> io::Result<Option<Self>> {
        if !queue.takes_timeouts {
            // A timeout would be an entry that points to this thread's stack, and the other thread
            // submits it late.
            return Err(io::Error::other(
                "waits take no timeout here: that is EXT_ARG, of Linux 5.11",
            ));
        }
        Ok(match submitter {
            Submitter::Worker => None,
            Submitter::KernelThread { .. } => Some(SubmitterThread::Kernel),
            Submitter::Sidecar => {
                let stops_at_errors = !features.has(Feature::SubmitAll);
                Some(SubmitterThread::Sidecar(Sidecar::start(queue.fd(), stops_at_errors)?))
            }
        })
    }
}
