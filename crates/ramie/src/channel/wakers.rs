//! The wakers of receivers that are awaited, under the channel's lock.

use std::task::Waker;

/// All are called when there may be something to receive: a future that was forgotten must not be
/// the only one that learns of it.
pub(super) struct Wakers(Vec<(u64, Waker)>);

impl Wakers {
    pub(super) const fn new() -> Self {
        Wakers(Vec::new())
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Puts a future's waker in the place of the one it left before, which is returned: its
    /// destructor is code of others, not for under the lock.
    pub(super) fn replace(&mut self, future: u64, waker: Option<Waker>) -> Option<Waker> {
        let found = self.0.iter().position(|(other, _)| *other == future);
        let old = found.map(|index| self.0.swap_remove(index).1);
        self.0.extend(waker.map(|waker| (future, waker)));
        old
    }

    pub(super) fn take(&mut self) -> Wakers {
        std::mem::replace(self, Wakers::new())
    }

    pub(super) fn wake(self) {
        self.0.into_iter().for_each(|(_, waker)| crate::future::wake(waker));
    }
}
