//! The end of a runtime by a handle: how it begins, and the waits for it.

use std::time::Duration;

use super::{AbandonedFibers, Handle};
use crate::core::{
    wait::park::Refused,
    worker::{RuntimeRef, Standing},
};

impl Handle {
    /// Begins the end of the runtime, and does not wait for it: from now on spawns through handles
    /// fail. When all fibers have ended, or after `timeout`, the workers end; fibers that are left
    /// then are [abandoned](super::Builder::grace). Of several calls the earliest end counts (if
    /// strands are threads, the first call does). [`Duration::MAX`] means for ever.
    ///
    /// In the child of a fork it does nothing.
    ///
    /// # Blocking
    /// Never.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let runtime = ramie::Runtime::builder().build()?.start()?;
    /// let handle = runtime.handle();
    /// // A fiber may end its own runtime.
    /// runtime.handle().spawn(move || handle.begin_shutdown(Duration::MAX))?.join().unwrap();
    /// assert!(!runtime.handle().is_open());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn begin_shutdown(&self, timeout: Duration) {
        self.close((timeout != Duration::MAX).then_some(timeout));
    }

    /// Begins the end of the runtime as [`begin_shutdown`](Self::begin_shutdown) does, waits until
    /// the runtime has ended, and returns the fibers that were abandoned.
    ///
    /// In the child of a fork it does nothing.
    ///
    /// # Blocking
    /// Parks the fiber, or blocks the thread outside one, until the runtime has ended. On a fiber
    /// that runs a destructor during a panic it does not wait.
    ///
    /// # Cancellation
    /// Not a cancel point.
    ///
    /// # Panics
    /// Where the end would wait for the caller ([`can_shut_down_here`](Self::can_shut_down_here));
    /// call `begin_shutdown` there.
    #[track_caller]
    pub fn shutdown(&self, timeout: Duration) -> AbandonedFibers {
        if self.is_forked() {
            return AbandonedFibers::default();
        }
        self.check_can_wait("Handle::shutdown");
        self.begin_shutdown(timeout);
        self.wait_for_end().unwrap_or_default()
    }

    /// Returns whether the calling code may wait for the end of the runtime. It may not
    ///
    /// - on a strand of the runtime, and in a job of its blocking pool, for which a fiber waits;
    /// - in a function of [`on_worker_stop`](super::Builder::on_worker_stop), and in a destructor
    ///   of a thread-local of a worker's thread;
    /// - on the thread of the loop that drives a [`GuestRuntime`](super::GuestRuntime), because no
    ///   turn is given meanwhile; but it may on a fiber of another guest of that loop.
    ///
    /// Once the runtime has ended, all code may.
    ///
    /// # Examples
    /// ```
    /// let runtime = ramie::Runtime::builder().build()?.start()?;
    /// let handle = runtime.handle();
    /// assert!(handle.can_shut_down_here());
    /// let theirs = handle.clone();
    /// assert!(!handle.spawn(move || theirs.can_shut_down_here())?.join().unwrap());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn can_shut_down_here(&self) -> bool {
        self.is_forked() || self.runtime.standing() == Standing::Outside
    }

    /// # Panics
    /// If the caller cannot wait for the end.
    #[track_caller]
    fn check_can_wait(&self, call: &str) {
        match self.runtime.standing() {
            Standing::Outside => {}
            Standing::Within => panic!(
                "{call} was called in code for which the end of the runtime waits (on a strand of \
                 it, in a job of its blocking pool, or at the end of a worker's thread), and would \
                 wait for itself; call Handle::begin_shutdown there"
            ),
            Standing::InLoop => panic!(
                "{call} was called on the thread of the loop that drives the runtime, and would \
                 wait for turns that the loop does not give meanwhile; call \
                 GuestRuntime::shutdown, or Handle::begin_shutdown and give turns until \
                 Turned::Ended"
            ),
        }
    }

    /// Whether the runtime has ended, in the process to which it belongs.
    pub(super) fn has_ended(&self) -> bool {
        !self.is_forked() && self.runtime.entrance().has_ended()
    }

    /// Begins the end with this grace period.
    pub(super) fn close(&self, grace: Option<Duration>) {
        if self.is_forked() {
            return;
        }
        match &self.runtime {
            RuntimeRef::Workers(workers) => workers.close(grace),
            RuntimeRef::ThreadStrands(threads) => threads.close(grace),
        }
    }

    #[track_caller]
    pub(super) fn wait_for_end(&self) -> Result<AbandonedFibers, Refused> {
        let lines = self.runtime.entrance().wait_for_end()?;
        Ok(AbandonedFibers { lines })
    }
}
