//! One descriptor for another program's loop: readable when a driver, or a time, is due.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::monotonic_ns;

/// An epoll set of a driver's descriptor and a timer. It is never waited for here: another loop
/// does that, and the set is readable while one of its members is.
#[derive(Debug)]
pub struct LoopSet {
    set: OwnedFd,
    timer: OwnedFd,
    _driver: OwnedFd,
    /// The time for which the timer is armed; `u64::MAX`: it is not.
    armed_ns: u64,
}

impl LoopSet {
    /// Makes a set for a driver. It is readable at once.
    ///
    /// # Errors
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    pub fn new(driver: OwnedFd) -> io::Result<LoopSet> {
        let set = epoll::create(CreateFlags::CLOEXEC)?;
        let timer = timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC)?;
        for fd in [&driver, &timer] {
            epoll::add(&set, fd, EventData::new_u64(0), EventFlags::IN)?;
        }
        let mut set = LoopSet { set, timer, _driver: driver, armed_ns: u64::MAX };
        set.arm(Some(Duration::ZERO))?;
        Ok(set)
    }

    /// Makes the set readable after that time, or only by its driver.
    ///
    /// # Errors
    /// None is known: the timer is one, and its time is valid.
    pub fn arm(&mut self, after: Option<Duration>) -> io::Result<()> {
        let now = monotonic_ns();
        let after = after.map(|after| u64::try_from(after.as_nanos()).unwrap_or(u64::MAX));
        // At least 1, because 0 disarms a timer.
        let at = after.map_or(u64::MAX, |after| now.saturating_add(after).max(1));
        // A time in the past may have come already, and the set be readable for it.
        if at == self.armed_ns && at > now {
            return Ok(());
        }
        let it_value = match at {
            u64::MAX => Timespec { tv_sec: 0, tv_nsec: 0 },
            at => timespec(at),
        };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        let time = Itimerspec { it_interval, it_value };
        // This also forgets that an earlier time has come.
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &time)?;
        self.armed_ns = at;
        Ok(())
    }
}

fn timespec(ns: u64) -> Timespec {
    Timespec { tv_sec: (ns / 1_000_000_000).cast_signed(), tv_nsec: (ns % 1_000_000_000) as i64 }
}

impl AsFd for LoopSet {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::{POLL_IN, eventfd, eventfd_signal, poll_now};

    fn is_readable(set: &LoopSet) -> bool {
        poll_now(set, POLL_IN).unwrap() & POLL_IN != 0
    }

    #[test]
    fn it_is_readable_when_the_time_or_the_driver_is_due() {
        let driver = eventfd().unwrap();
        let theirs = driver.try_clone().unwrap();
        let mut set = LoopSet::new(theirs).unwrap();
        while !is_readable(&set) {}
        set.arm(None).unwrap();
        assert!(!is_readable(&set));
        set.arm(Some(Duration::from_secs(3600))).unwrap();
        assert!(!is_readable(&set));
        set.arm(Some(Duration::ZERO)).unwrap();
        while !is_readable(&set) {}
        set.arm(None).unwrap();
        eventfd_signal(&driver);
        assert!(is_readable(&set));
    }
}
