//! Waits: for readiness, for an epoll set of other code, for children, for time.
#![allow(unsafe_code)]

use std::{
    io,
    mem::MaybeUninit,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
    slice, thread,
    time::Duration,
};

use ramie_driver::{
    Call, ChildInfo, Op, Timespec,
    sys::{self, EpollEvent, Errno, PollFlags, WaitId, WaitIdOptions},
};

use crate::{
    core::{cancel, time::Instant, wait::park::WaitKind},
    fiber,
    op::{
        self,
        call::{Way, by_ring, can_wait_for_epoll, plainly, raw, result_of, way},
        retry::Pauses,
    },
};

static NOP: WaitKind = WaitKind::new("the ring");
static READY: WaitKind = WaitKind::new("a descriptor to be ready");
static EPOLL: WaitKind = WaitKind::new("events of an epoll set");
static CHILD: WaitKind = WaitKind::new("a process to change");
static TIME: WaitKind = WaitKind::new("time to pass in the kernel");

/// Sends an op without effect through the kernel: `nop`, a ring's op since Linux 5.1.
///
/// # Blocking
/// Parks the strand until the op is complete. The polling driver completes it at once.
///
/// # Cancellation
/// A cancel point.
///
/// # Errors
/// Cancelled.
#[track_caller]
pub fn nop() -> io::Result<()> {
    // SAFETY: it points to nothing.
    unsafe { op::request(&NOP, Op::Nop).perform() }?;
    Ok(())
}

/// Waits until a descriptor is ready, and returns the events: `poll`, a ring's op since Linux 5.1.
/// Errors and the end are always reported.
///
/// # Blocking
/// Parks the strand until one of `events` occurs.
///
/// # Cancellation
/// A cancel point.
///
/// # Errors
/// Those of poll(2). A file on a disk is always ready.
#[track_caller]
pub fn poll(fd: impl AsFd, events: PollFlags) -> io::Result<PollFlags> {
    // Under Miri, where rustix calls libc, the bits are signed.
    let op = Op::Poll { fd: raw(&fd), events: events.bits() as u32 & 0xffff };
    // SAFETY: it points to nothing, and the descriptor is borrowed.
    match unsafe { op::request(&READY, op).perform() } {
        // An epoll set does not accept such a descriptor.
        Err(op::OpError::Errno(errno)) if errno == Errno::PERM.raw_os_error() => Ok(events),
        ready => Ok(PollFlags::from_bits_retain(ready? as _)),
    }
}

/// Waits for events of an epoll set that other code fills, and writes them into `events`:
/// `epoll_wait`, a ring's op since Linux 6.15. So an event loop of a library can run on a fiber.
///
/// # Blocking
/// Parks the strand until there is an event.
///
/// # Cancellation
/// A cancel point. Events that were taken are returned.
///
/// # Errors
/// Those of epoll_wait(2), but never `EINTR`; `EINVAL` if there is no room for any.
#[track_caller]
pub fn epoll_wait(
    epoll: impl AsFd,
    events: &mut [MaybeUninit<EpollEvent>],
) -> io::Result<&mut [EpollEvent]> {
    let count = events.len().min(i32::MAX as usize) as u32;
    let first = events.as_mut_ptr().cast::<EpollEvent>();
    let (epoll, op) = (epoll.as_fd(), Op::EpollWait { fd: raw(&epoll), events: first, count });
    let taken = if can_wait_for_epoll() {
        // SAFETY: the events are borrowed mutably.
        unsafe { op::request(&EPOLL, op).perform() }? as usize
    } else {
        loop {
            cancel::check_io()?;
            match sys::epoll_wait_now(epoll, events)? {
                0 => poll(epoll, PollFlags::IN)?,
                taken => break taken,
            };
        }
    };
    // SAFETY: the kernel has written that number of events.
    Ok(unsafe { slice::from_raw_parts_mut(first, taken) })
}

/// Waits until a child has changed its state as `options` select, and returns the change: `waitid`,
/// a ring's op since Linux 6.7. Returns `None` if `options` contain `WaitIdOptions::NOHANG` and no
/// child has changed.
///
/// Without a ring it waits for a descriptor of the process, or tries again every 50 ms or sooner if
/// there is no such descriptor (any child, a group, children that stop).
///
/// # Blocking
/// Parks the strand until then.
///
/// # Cancellation
/// A cancel point. A child that was waited for is returned.
///
/// # Errors
/// Those of waitid(2), but never `EINTR`: among them `ECHILD`.
///
/// # Examples
/// ```
/// use ramie::ring::{self, Pid, WaitId, WaitIdOptions};
///
/// let child = std::process::Command::new("sh").args(["-c", "exit 3"]).spawn()?;
/// let id = WaitId::Pid(Pid::from_raw(child.id() as i32).unwrap());
/// let end = ramie::run(|| ring::waitid(id, WaitIdOptions::EXITED))?.unwrap();
/// assert_eq!((end.pid, end.status), (child.id() as i32, 3));
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn waitid(id: WaitId<'_>, options: WaitIdOptions) -> io::Result<Option<ChildInfo>> {
    let mut info = ChildInfo::new();
    let (id_type, number) = numbers_of(&id)?;
    let call = |options: WaitIdOptions, into: &mut ChildInfo| Call::WaitId {
        id_type,
        id: number,
        into: &raw mut *into,
        options: options.bits(),
    };
    let asked = call(options, &mut info);
    match way(&asked) {
        // SAFETY: the room lies in this frame.
        Way::Ring => unsafe { by_ring(&CHILD, &asked) }?,
        // SAFETY: as above.
        Way::Here => unsafe { plainly(asked) }?,
        Way::Otherwise => {
            let asked = call(options | WaitIdOptions::NOHANG, &mut info);
            wait_otherwise(&id, options, asked)?
        }
    };
    Ok((info.pid != 0).then_some(info))
}

/// As for the system call: the kind of the id, and the id.
fn numbers_of(id: &WaitId<'_>) -> io::Result<(u32, u32)> {
    Ok(match id {
        WaitId::All => (0, 0),
        WaitId::Pid(pid) => (1, pid.as_raw_nonzero().get() as u32),
        WaitId::Pgid(group) => (2, group.map_or(0, |pid| pid.as_raw_nonzero().get() as u32)),
        WaitId::PidFd(fd) => (3, fd.as_raw_fd() as u32),
        _ => return Err(io::ErrorKind::Unsupported.into()),
    })
}

/// Asks without waiting, and waits until it is worth asking again. `into` is where `asked` writes.
#[track_caller]
fn wait_otherwise(id: &WaitId<'_>, options: WaitIdOptions, asked: Call) -> io::Result<u32> {
    let Call::WaitId { into, .. } = asked else { unreachable!("made by `waitid`") };
    let mut pauses = Pauses::long();
    loop {
        cancel::check_io()?;
        // SAFETY: the room lies in the frame of `waitid`, which waits.
        result_of(unsafe { asked.make() })?;
        // SAFETY: as above; nobody else has it.
        if unsafe { (*into).pid } != 0 || options.contains(WaitIdOptions::NOHANG) {
            return Ok(0);
        }
        if options.intersects(WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED)
            || !wait_for_end(id)?
        {
            if thread::panicking() {
                // A strand that unwinds does not sleep.
                return Err(io::ErrorKind::TimedOut.into());
            }
            pauses.pause();
        }
    }
}

/// Waits for the end of a process that has a descriptor; returns whether it could.
#[track_caller]
fn wait_for_end(id: &WaitId<'_>) -> io::Result<bool> {
    let opened: OwnedFd;
    let process: BorrowedFd<'_> = match id {
        WaitId::PidFd(fd) => *fd,
        WaitId::Pid(pid) => match sys::pidfd_open(pid.as_raw_nonzero().get() as u32) {
            Ok(fd) => {
                opened = fd;
                opened.as_fd()
            }
            Err(_) => return Ok(false),
        },
        _ => return Ok(false),
    };
    poll(process, PollFlags::IN).map(|_| true)
}

/// Waits for `duration`, by a timer of the kernel: `timeout`, a ring's op since Linux 5.4.
/// [`fiber::sleep`](crate::fiber::sleep) is cheaper.
///
/// # Blocking
/// Parks the strand for `duration`.
///
/// # Cancellation
/// A cancel point.
///
/// # Errors
/// Cancelled.
#[track_caller]
pub fn timeout(duration: Duration) -> io::Result<()> {
    if thread::panicking() {
        // A strand that unwinds does not sleep.
        return Ok(());
    }
    let time = Timespec::from(duration);
    let call = Call::Timeout { time: &raw const time };
    if way(&call) == Way::Ring {
        // SAFETY: the time lies in this frame.
        return match unsafe { by_ring(&TIME, &call) } {
            Err(error) if error.raw_os_error() == Some(Errno::TIME.raw_os_error()) => Ok(()),
            result => result.map(drop),
        };
    }
    let start = Instant::now();
    cancel::check_io()?;
    while let Some(rest) = duration.checked_sub(start.elapsed()).filter(|rest| !rest.is_zero()) {
        fiber::sleep(rest);
        cancel::check_io()?;
    }
    Ok(())
}
