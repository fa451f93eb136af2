//! The models: small programs whose every interleaving is run, within a bound on preemptions.
//!
//! A strand that waits forever is a deadlock, which the checker reports; so is a value that is
//! read without having been handed over. The models assert everything else that must hold.

pub(crate) mod broadcast;
pub(crate) mod cancel;
pub(crate) mod cancel_points;
pub(crate) mod completion;
pub(crate) mod condvar;
pub(crate) mod event;
pub(crate) mod handshake;
pub(crate) mod mutex;
pub(crate) mod once;
pub(crate) mod oneshot;
pub(crate) mod park;
pub(crate) mod parking_lot;
pub(crate) mod rwlock;
pub(crate) mod semaphore;
pub(crate) mod sleep;
pub(crate) mod spin_lock;
pub(crate) mod trace_buffer;
pub(crate) mod watch;

use crate::core::{
    primitive::{Arc, UnsafeCell},
    strand::slab,
    worker,
};

const PREEMPTIONS: usize = 3;

/// Runs a model in every interleaving. `LOOM_MAX_PREEMPTIONS` sets another bound; `LOOM_LOG=trace`
/// and `LOOM_LOCATION=1` print each operation and its place.
pub(crate) fn check(model: impl Fn() + Send + Sync + 'static) {
    check_within(PREEMPTIONS, model);
}

/// Like `check`, with a smaller bound, for models that would take minutes.
pub(crate) fn check_within(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    builder.check(move || {
        slab::reset();
        worker::reset();
        model();
        worker::check_quiet();
    });
}

/// A value whose owners the checker counts, so that it notices if one is lost or kept twice.
pub(crate) fn value() -> Arc<u32> {
    Arc::new(7)
}

/// Memory that the checker watches, which the models hand over.
pub(crate) struct Watched(UnsafeCell<u32>);

// SAFETY: the models hand it over, and the checker verifies that.
unsafe impl Sync for Watched {}
// SAFETY: as above.
unsafe impl Send for Watched {}

impl Watched {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Watched::default())
    }

    pub(crate) fn add(&self) {
        // SAFETY: as above.
        unsafe { *self.0.get() += 1 };
    }

    pub(crate) fn count(&self) -> u32 {
        // SAFETY: as above.
        unsafe { *self.0.get() }
    }
}

impl Default for Watched {
    fn default() -> Self {
        Watched(UnsafeCell::new(0))
    }
}
