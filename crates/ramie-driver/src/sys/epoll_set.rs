//! One epoll set, and the eventfd by which any thread ends a wait for it.

use std::io;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::sys::{self, fork::ForkMark, raw, return_predictor};

/// The notifier's key. No descriptor has this key, because bit 31 of their keys, the sign of the
/// descriptor's number, is clear.
const NOTIFIER: u64 = u64::MAX;

/// Longer waits end early: the kernel counts milliseconds in 31 bits.
const LONGEST: Duration = Duration::from_secs(1 << 20);
/// The unit of the kernel's clock for waits.
const TICK: Duration = Duration::from_millis(1);

#[derive(Debug)]
pub(crate) struct EpollSet {
    epoll: OwnedFd,
    notifier: OwnedFd,
    /// The number of this set, unique in the process; 0: all numbers have been used.
    pub(crate) id: u32,
    mark: ForkMark,
}

impl EpollSet {
    pub(crate) fn open() -> io::Result<Self> {
        static SETS: AtomicU32 = AtomicU32::new(1);
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        let notifier = sys::eventfd()?;
        // Each write is an edge, so nobody need read the count.
        let edges = EventFlags::IN | EventFlags::ET;
        epoll::add(&epoll, &notifier, EventData::new_u64(NOTIFIER), edges)?;
        // The count stops at its end. Threads that come and go, each with a set, could reach it.
        let next = |next: u32| next.checked_add(1);
        let id = SETS.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).unwrap_or(0);
        Ok(EpollSet { epoll, notifier, id, mark: ForkMark::get() })
    }

    /// Registers `fd`, or changes its registration. `guess`: whether it is probably registered.
    pub(crate) fn set(
        &self,
        fd: RawFd,
        key: u64,
        flags: EventFlags,
        guess: bool,
    ) -> Result<(), Errno> {
        let key = EventData::new_u64(key);
        let add = || epoll::add(&self.epoll, raw::borrow(&fd), key, flags);
        let modify = || epoll::modify(&self.epoll, raw::borrow(&fd), key, flags);
        match if guess { modify() } else { add() } {
            Err(Errno::NOENT) => add(),
            Err(Errno::EXIST) => modify(),
            result => result,
        }
    }

    /// Deletes the registration of `fd`, if there is one.
    pub(crate) fn forget(&self, fd: RawFd) {
        // The child of a fork would delete its parent's registration.
        if !self.mark.is_child() {
            // Not registered, or not open: nothing to forget.
            let _ = epoll::delete(&self.epoll, raw::borrow(&fd));
        }
    }

    /// Returns a duplicate of the descriptor, which is readable while an event waits to be taken.
    pub(crate) fn duplicate(&self) -> io::Result<OwnedFd> {
        self.epoll.try_clone()
    }

    /// Ends the present wait, or else the next one.
    pub(crate) fn notify(&self) {
        sys::eventfd_signal(&self.notifier);
    }

    /// Waits until a descriptor is ready, a notice arrives, or the limit has expired, and appends
    /// ready descriptors to `events`, as many as there is room for. It may end early.
    pub(crate) fn wait(&self, events: &mut Vec<Event>, limit: Option<Duration>) -> io::Result<()> {
        let result = match limit.map(|limit| limit.min(LONGEST)) {
            // epoll_pwait(2) cannot wait for a part of a millisecond, and not every kernel has
            // epoll_pwait2(2).
            Some(limit) if !limit.is_zero() && limit < TICK => self.wait_briefly(events, limit),
            Some(limit) => self.wait_in_ticks(events, Some(limit)),
            None => self.wait_in_ticks(events, None),
        };
        match result {
            Err(Errno::INTR) => Ok(()),
            result => Ok(result?),
        }
    }

    fn wait_briefly(&self, events: &mut Vec<Event>, limit: Duration) -> Result<(), Errno> {
        let mut set = [PollFd::new(&self.epoll, PollFlags::IN)];
        match rustix::event::poll(&mut set, Some(&timespec(limit))) {
            Ok(0) => Ok(()),
            Ok(_) => self.wait_in_ticks(events, Some(Duration::ZERO)),
            // poll(2) takes no more descriptors than RLIMIT_NOFILE, which a sandbox may set to 0
            // once all descriptors are open. epoll has no such limit, so the wait is a tick long.
            Err(Errno::INVAL) => self.wait_in_ticks(events, Some(TICK)),
            Err(error) => Err(error),
        }
    }

    fn wait_in_ticks(&self, events: &mut Vec<Event>, limit: Option<Duration>) -> Result<(), Errno> {
        let limit = limit.map(|limit| Duration::from_millis(limit.as_millis() as u64));
        let limit = limit.map(timespec);
        let waited = epoll::wait(&self.epoll, spare_capacity(events), limit.as_ref());
        return_predictor::renew();
        waited.map(drop)
    }
}

/// The key of the descriptor that an event is about; `None`: the event is about the notifier.
pub(crate) fn key(event: &Event) -> Option<u64> {
    let data = event.data;
    Some(data.u64()).filter(|key| *key != NOTIFIER)
}

fn timespec(limit: Duration) -> Timespec {
    Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() }
}
