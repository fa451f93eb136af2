//! Waiting for readiness, for events of an epoll set, for children, and for time to pass.
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
    core::{cancel, time::Instant, wait::park::WaitKind, worker},
    fiber,
    op::{
        self,
        call::{by_ring, can_wait_for_epoll, plainly, raw, result_of},
        inboxes,
        retry::Pauses,
        route::{Route, route_of_wait},
    },
};

static NOP: WaitKind = WaitKind::of_op("the ring");
static READY: WaitKind = WaitKind::of_op("a descriptor to be ready");
static EPOLL: WaitKind = WaitKind::of_op("events of an epoll set");
static CHILD: WaitKind = WaitKind::of_op("a process to change");
static TIME: WaitKind = WaitKind::of_op("time to pass in the kernel");

/// Submits an op that does nothing, and waits for its completion: `nop`, a ring's op since Linux
/// 5.1.
///
/// # Blocking
/// Parks the strand until the op is complete. The polling driver completes it at once.
///
/// # Cancellation
/// A cancel point.
///
/// # Errors
/// The strand was cancelled.
#[track_caller]
pub fn nop() -> io::Result<()> {
    // SAFETY: it points to nothing.
    unsafe { op::request(&NOP, Op::Nop).perform() }?;
    Ok(())
}

/// Waits until a descriptor is ready, and returns the events: `poll`, a ring's op since Linux 5.1.
/// Errors and hang-ups are always reported. A socket is ready, too, if an iterator over it
/// (`recv_each`, `incoming`) has received data or connections that the program has not taken.
///
/// # Blocking
/// Parks the strand until one of `events` occurs.
///
/// # Cancellation
/// A cancel point.
///
/// # Errors
/// Those of poll(2). A file on a disk counts as ready.
#[track_caller]
pub fn poll(fd: impl AsFd, events: PollFlags) -> io::Result<PollFlags> {
    // What an iterator has received early is no longer in the socket, but the next call takes it.
    let early = events & (PollFlags::IN | PollFlags::RDNORM);
    if !early.is_empty() && inboxes::has_leftover(fd.as_fd(), &READY)? {
        worker::note_complete_at_once();
        let others = sys::poll_now(&fd, events.bits() as u32 & 0xffff)?;
        return Ok(PollFlags::from_bits_retain(others as _) | early);
    }
    // A cast, because the bits are signed under Miri, where rustix calls libc.
    let op = Op::Poll { fd: raw(&fd), events: events.bits() as u32 & 0xffff };
    // SAFETY: it points to nothing, and the descriptor is borrowed.
    match unsafe { op::request(&READY, op).perform() } {
        // The polling driver's epoll set refuses descriptors that are always ready.
        Err(op::OpError::Errno(errno)) if errno == Errno::PERM.raw_os_error() => Ok(events),
        ready => Ok(PollFlags::from_bits_retain(ready? as _)),
    }
}

/// Waits for events of an epoll set and writes them into `events`: `epoll_wait`, a ring's op since
/// Linux 6.15. With this call, the event loop of a library can run on a fiber.
///
/// # Blocking
/// Parks the strand until there is an event.
///
/// # Cancellation
/// A cancel point. Events that were taken from the set are returned.
///
/// # Errors
/// Those of epoll_wait(2), but never `EINTR`; `EINVAL` if `events` is empty.
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
/// Without the op, the call waits for a descriptor of the process (pidfd). If there is none (for
/// any child, for a group, for children that stop), it tries again every 50 ms or sooner.
///
/// # Blocking
/// Parks the strand until a child has changed its state.
///
/// # Cancellation
/// A cancel point. If the call has taken a change from the kernel, it returns the change.
///
/// # Errors
/// Those of waitid(2), but never `EINTR`; `ECHILD` if there is no such child.
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
    match route_of_wait(&asked) {
        // SAFETY: the room lies in this frame.
        Route::Ring => unsafe { by_ring(&CHILD, &asked) }?,
        // SAFETY: as above.
        Route::Here => unsafe { plainly(asked) }?,
        Route::WithoutRing => {
            let asked = call(options | WaitIdOptions::NOHANG, &mut info);
            wait_otherwise(&id, options, asked)?
        }
    };
    Ok((info.pid != 0).then_some(info))
}

/// Returns the kind of the id and the id, as the system call expects them.
fn numbers_of(id: &WaitId<'_>) -> io::Result<(u32, u32)> {
    Ok(match id {
        WaitId::All => (0, 0),
        WaitId::Pid(pid) => (1, pid.as_raw_nonzero().get() as u32),
        WaitId::Pgid(group) => (2, group.map_or(0, |pid| pid.as_raw_nonzero().get() as u32)),
        WaitId::PidFd(fd) => (3, fd.as_raw_fd() as u32),
        _ => return Err(io::ErrorKind::Unsupported.into()),
    })
}

/// Makes the call without waiting, until it returns a change, and waits between the attempts: for
/// the process's descriptor, or for a while. `asked` writes the change to its `into`.
#[track_caller]
fn wait_otherwise(id: &WaitId<'_>, options: WaitIdOptions, asked: Call) -> io::Result<u32> {
    let Call::WaitId { into, .. } = asked else { unreachable!("made by `waitid`") };
    let mut pauses = Pauses::long();
    loop {
        cancel::check_io()?;
        // SAFETY: `into` lies in the frame of `waitid`, which waits for this call.
        result_of(unsafe { asked.make() })?;
        // SAFETY: as above; no other code has a reference to it.
        if unsafe { (*into).pid } != 0 || options.contains(WaitIdOptions::NOHANG) {
            return Ok(0);
        }
        if options.intersects(WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED)
            || !wait_for_end(id)?
        {
            if thread::panicking() {
                // A strand that unwinds must not sleep, because that would stop its worker.
                return Err(io::ErrorKind::TimedOut.into());
            }
            pauses.pause();
        }
    }
}

/// Waits for the end of one process; returns false if the process has no descriptor.
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
/// The strand was cancelled.
#[track_caller]
pub fn timeout(duration: Duration) -> io::Result<()> {
    if thread::panicking() {
        // A strand that unwinds must not sleep, because that would stop its worker.
        return Ok(());
    }
    let time = Timespec::from(duration);
    let call = Call::Timeout { time: &raw const time };
    if route_of_wait(&call) == Route::Ring {
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
