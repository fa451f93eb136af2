//! A handle to a strand.

use std::{fmt, mem::ManuallyDrop, ptr, sync::Arc};

use crate::{
    strand::{Extra, FiberId, Slot},
    worker,
};

/// Names a strand and can unpark it; twin of [`std::thread::Thread`].
///
/// A handle to a strand that has ended is harmless: [`Fiber::unpark`] does nothing then.
#[derive(Clone)]
pub struct Fiber {
    id: FiberId,
    extra: Option<Arc<Extra>>,
}

impl Fiber {
    #[inline]
    #[allow(unsafe_code)]
    pub(crate) fn of(slot: &Slot) -> Self {
        let extra = slot.extra.get();
        let extra = (!extra.is_null()).then(|| {
            // SAFETY: `extra` came from `Arc::into_raw`, and the slot keeps its count until the
            // strand has ended and its slot is freed; the callers hold the slot.
            let held = ManuallyDrop::new(unsafe { Arc::from_raw(extra) });
            Arc::clone(&held)
        });
        Fiber { id: slot.id(), extra }
    }

    /// Returns the id of the strand, unique in this process.
    #[must_use]
    pub fn id(&self) -> FiberId {
        self.id
    }

    /// Returns the name given by [`Builder::name`](super::Builder::name), if one was.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.extra.as_ref()?.name.as_deref()
    }

    /// Ends the strand's [`park`](super::park), or makes its next one return at once.
    ///
    /// What this strand wrote before is visible to the other after its `park`. Works between
    /// fibers, threads, workers and runtimes.
    ///
    /// # Blocking
    /// Never.
    #[inline]
    pub fn unpark(&self) {
        worker::unpark(self.id);
    }
}

impl fmt::Debug for Fiber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fiber").field("id", &self.id).field("name", &self.name()).finish()
    }
}

impl Extra {
    /// Puts the extras of a new strand into its slot, if there are any.
    pub(crate) fn install(self, slot: &Slot) {
        let is_needed = self.name.is_some() || self.stack_size != 0;
        let extra = if is_needed { Arc::into_raw(Arc::new(self)) } else { ptr::null() };
        slot.extra.set(extra);
    }
}
