//! A registration that outlives one wait: kept beside a stream's descriptor, so that a polling
//! driver need not ask the kernel for it each time.
//!
//! A descriptor's number does not identify the file behind it: the number may have been closed and
//! opened again since the driver saw it last. So a driver trusts its knowledge of a number only if
//! the op comes with a `Registration` whose stamp is that of the number's slot. The owner drops it
//! before the descriptor is closed, which deletes the registration, so a duplicate that stays open
//! cannot keep it alive.
//!
//! | stamp | meaning | changed by |
//! |---|---|---|
//! | 0 | no driver has registered it | a wait on a polling driver, which becomes its owner |
//! | the slot's | its owner knows from edges whether it is ready | any code that registers the number in another way, or deletes it: the slot's generation changes |
//! | another | stale | the next wait on its owner |
//!
//! A socket that is used on several workers is registered by the first; the others register it for
//! each wait, as they do descriptors without a `Registration`.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::sys::EpollSet;

/// The state that a polling driver keeps beside a stream's descriptor, dropped before the
/// descriptor is closed. It belongs to one descriptor, which stays the same open file as long as
/// this lives.
#[derive(Debug, Default)]
pub(crate) struct Registration {
    /// The owner's id and the generation of the slot; 0: none.
    stamp: AtomicU64,
    owner: Mutex<Option<Owner>>,
}

/// The stamp of no slot, because generations have their top bit clear.
const NEVER: u64 = u64::MAX;

#[derive(Debug)]
struct Owner {
    set: Weak<EpollSet>,
    fd: RawFd,
}

impl Registration {
    /// The state of a descriptor that is registered for each wait.
    pub(crate) const fn never() -> Self {
        Registration { stamp: AtomicU64::new(NEVER), owner: Mutex::new(None) }
    }

    #[inline]
    pub(crate) fn has_stamp(&self, stamp: u64) -> bool {
        // Relaxed: only its owner, which wrote it, finds its own id in it.
        self.stamp.load(Ordering::Relaxed) == stamp
    }

    /// Runs `register` and notes its stamp, unless another driver is the owner.
    pub(crate) fn take_on(
        &self,
        set: &Arc<EpollSet>,
        fd: RawFd,
        register: impl FnOnce() -> Option<u64>,
    ) -> bool {
        if self.has_stamp(NEVER) {
            return false;
        }
        let mut owner = self.owner();
        let is_others =
            owner.as_ref().is_some_and(|owner| !std::ptr::eq(owner.set.as_ptr(), &raw const **set));
        // The set of a driver that was dropped is gone, too.
        if is_others && owner.as_ref().is_some_and(|owner| owner.set.strong_count() > 0) {
            return false;
        }
        let Some(stamp) = register() else { return false };
        *owner = Some(Owner { set: Arc::downgrade(set), fd });
        self.stamp.store(stamp, Ordering::Relaxed);
        true
    }

    fn owner(&self) -> MutexGuard<'_, Option<Owner>> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let owner = self.owner.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Owner { set, fd }) = owner
            && let Some(set) = set.upgrade()
        {
            set.forget(fd);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{io::Write, os::fd::AsRawFd, time::Duration};

    use rustix::event::epoll::EventFlags;

    use super::*;

    #[test]
    fn one_driver_at_a_time_keeps_a_descriptor() {
        let [first, second] = [(); 2].map(|()| Arc::new(EpollSet::open().unwrap()));
        let registration = Registration::default();
        assert!(registration.take_on(&first, 0, || Some(1)));
        let taken_over = registration.take_on(&second, 0, || Some(2));
        assert!(!taken_over && registration.has_stamp(1), "two drivers keep it");
        assert!(registration.take_on(&first, 0, || Some(3)), "its owner may renew it");
        drop(first);
        assert!(registration.take_on(&second, 0, || Some(4)), "its owner is gone");
    }

    #[test]
    fn a_registration_goes_with_its_stream_though_a_duplicate_lives_on() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let set = Arc::new(EpollSet::open().unwrap());
        let fd = reader.as_raw_fd();
        let registration = Registration::default();
        let register = || set.set(fd, 7, EventFlags::IN, false).ok().map(|()| 1);
        assert!(registration.take_on(&set, fd, register));
        let _duplicate = reader.try_clone().unwrap();
        drop(registration);
        drop(reader);
        writer.write_all(b"x").unwrap();
        let mut events = Vec::with_capacity(4);
        set.wait(&mut events, Some(Duration::ZERO)).unwrap();
        assert!(events.is_empty(), "an event of a number that is closed");
    }
}
