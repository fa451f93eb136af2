//! Parts that a process has once, while any of its runtimes uses them.

use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// A part of the process, and the number of its uses. Dropping the part ends it.
pub(super) struct PerProcess<T>(Mutex<CountedUses<T>>);

struct CountedUses<T> {
    uses: usize,
    part: Option<T>,
}

/// A use of a part; the last one to be dropped ends the part.
pub(crate) struct PartUse<T: 'static>(&'static PerProcess<T>);

impl<T> PerProcess<T> {
    pub(super) const fn new() -> Self {
        PerProcess(Mutex::new(CountedUses { uses: 0, part: None }))
    }

    fn lock(&self) -> MutexGuard<'_, CountedUses<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a use; the first one makes the part.
    pub(super) fn begin(
        &'static self,
        make: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<PartUse<T>> {
        let mut counted = self.lock();
        if counted.uses == 0 {
            counted.part = Some(make()?);
        }
        counted.uses += 1;
        Ok(PartUse(self))
    }

    /// Calls `f` with the part, if it is in use.
    pub(super) fn with<U>(&self, f: impl FnOnce(&T) -> U) -> Option<U> {
        self.lock().part.as_ref().map(f)
    }
}

impl<T> Drop for PartUse<T> {
    fn drop(&mut self) {
        let mut counted = self.0.lock();
        counted.uses -= 1;
        if counted.uses == 0 {
            // Under the lock, so that the next use begins after the end of this part.
            counted.part = None;
        }
    }
}
