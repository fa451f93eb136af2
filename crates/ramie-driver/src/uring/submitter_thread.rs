//! Rings whose ops another thread submits while the worker is busy.
//!
//! A ring consists of its queues, which the worker fills and reads, and the thread that enters the
//! kernel for it; the ring's flags depend on that thread. For this module a kernel thread and a
//! [`Sidecar`] are alike: both take entries out of the queue while they are awake, both fall asleep
//! after a while, and after each entry the worker checks whether it must wake the thread. The
//! worker finds completions in the queue, as usual.
//!
//! A worker without runnable fibers waits in the kernel itself, and submits the remaining entries
//! as it enters. So a sleeping worker is woken like any other, no op depends on another thread
//! while the worker sleeps, and the submitting thread uses no CPU time then.

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
/// With some of these features the kernel defers work to the thread that submits, or announces it
/// to that thread by a flag; but here that is not the worker. And a message to another ring is of
/// use only if the kernel sees it at once.
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
    /// Starts the thread of a submitter; returns `None` if the worker is the submitter.
    ///
    /// # Errors
    /// The kernel's waits take no timeout as an argument (before Linux 5.11), or the system refuses
    /// to start a thread.
    pub(super) fn start(
        submitter: Submitter,
        queue: &Queue,
        features: FeatureSet,
    ) -> io::Result<Option<Self>> {
        if !queue.takes_timeouts {
            // Without that feature a timeout is an entry that points to this thread's stack, which
            // the other thread could submit too late.
            return Err(io::Error::other(
                "waits take no timeout here: that is EXT_ARG, of Linux 5.11",
            ));
        }
        Ok(match submitter {
            Submitter::Worker => None,
            Submitter::KernelThread { .. } => Some(SubmitterThread::Kernel),
            Submitter::Sidecar => {
                let stops_at_errors = !features.has(Feature::SubmitAll);
                Some(SubmitterThread::Sidecar(Sidecar::start(
                    queue.fd(),
                    stops_at_errors,
                    &queue.counts,
                )?))
            }
        })
    }
}
