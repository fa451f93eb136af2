//! A handle to a strand.

use std::{fmt, sync::Arc};

use crate::core::{
    strand::{FiberId, SpawnAttributes, StrandHeader},
    worker,
};

/// Names a strand and can unpark it; twin of [`std::thread::Thread`].
///
/// A handle to a strand that has ended is harmless: [`Fiber::unpark`] does nothing then.
#[derive(Clone)]
pub struct Fiber {
    id: FiberId,
    attributes: Option<Arc<SpawnAttributes>>,
}

impl Fiber {
    #[inline]
    pub(crate) fn of(header: &StrandHeader) -> Self {
        Fiber { id: header.id(), attributes: header.attributes.share() }
    }

    /// Returns the id of the strand, unique in this process.
    #[must_use]
    pub fn id(&self) -> FiberId {
        self.id
    }

    /// Returns the name that [`Builder::name`](super::Builder::name) set, if any.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.attributes.as_ref()?.options.name.as_deref()
    }

    /// Ends the strand's [`park`](super::park), or makes its next `park` return at once.
    ///
    /// Writes that this strand made before the call are visible to the other strand after its
    /// `park`. The two strands may be fibers or threads, on different workers and in different
    /// runtimes.
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
