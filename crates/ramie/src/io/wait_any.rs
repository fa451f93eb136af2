//! Waiting for several descriptors at once.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd},
};

use ramie_driver::sys::{self, PollFlags};

use crate::{
    core::{cancel, time::Deadline, wait::park::WaitKind, worker},
    op::{OpError, inboxes, readiness::Readiness},
};

static READY: WaitKind = WaitKind::of_op("one of several descriptors to be ready");

/// A descriptor, the events to wait for, and the events that [`wait_any`] has found.
#[derive(Clone, Debug)]
pub struct Polled<'fd> {
    fd: BorrowedFd<'fd>,
    interest: PollFlags,
    ready: PollFlags,
}

impl<'fd> Polled<'fd> {
    /// Makes an arm that waits for any event of `interest`.
    pub fn new(fd: &'fd impl AsFd, interest: PollFlags) -> Self {
        Polled { fd: fd.as_fd(), interest, ready: PollFlags::empty() }
    }

    /// Makes an arm that waits for data or the end of the input.
    pub fn readable(fd: &'fd impl AsFd) -> Self {
        Polled::new(fd, PollFlags::IN)
    }

    /// Makes an arm that waits for room to write.
    pub fn writable(fd: &'fd impl AsFd) -> Self {
        Polled::new(fd, PollFlags::OUT)
    }

    /// Returns the events that the last [`wait_any`] has found; errors and hang-ups are always
    /// reported.
    #[must_use]
    pub fn ready(&self) -> PollFlags {
        self.ready
    }

    /// Returns whether the last [`wait_any`] has found anything.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }
}

/// Waits until one or more of the descriptors are ready, stores the events in each, and returns the
/// number of those that are ready: poll(2) for strands.
///
/// A socket is ready, too, if an iterator over it (`recv_each`, `incoming`) has received data or
/// connections that the program has not taken.
///
/// The call takes no data, so another strand may take it first; read without waiting, or have only
/// one reader for each descriptor. If a descriptor is ready at once, the call makes one system call
/// (0.5 us for two descriptors, 0.9 us for 16; while an iterator over any socket is open, one more
/// for each descriptor); otherwise it makes an epoll set and closes it again
/// (8 us for two descriptors, and about 1 us for each more). For two or three descriptors, a
/// [`race`](crate::structured::race) with a [`ring::poll`](crate::ring::poll) each is cheaper (3 us
/// for two). To wait repeatedly for the same descriptors, use a strand for each, which costs no
/// more than a read. To wait for channels and strands, too, see
/// [`channel`](crate::channel#descriptors-and-strands-among-the-arms).
///
/// # Blocking
/// Parks the fiber, or the thread outside one.
///
/// # Cancellation
/// A cancel point; [`with_timeout`](crate::cancel::with_timeout) limits the wait.
///
/// # Errors
/// `InvalidInput`: there is no descriptor, so nothing would end the wait. The process is out of
/// descriptors, of which an epoll set needs one.
///
/// # Panics
/// Inside [`no_switch`](crate::no_switch()), if the call would have to wait.
///
/// # Examples
/// ```
/// use ramie::io::{self, Polled, Write};
///
/// ramie::run(|| {
///     let ((first, _first), (second, mut sender)) = (io::pipe()?, io::pipe()?);
///     sender.write_all(b"x")?;
///     let mut polled = [Polled::readable(&first), Polled::readable(&second)];
///     assert_eq!(io::wait_any(&mut polled)?, 1);
///     assert!(!polled[0].is_ready() && polled[1].is_ready());
///     Ok::<(), io::Error>(())
/// })?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[track_caller]
pub fn wait_any(descriptors: &mut [Polled<'_>]) -> io::Result<usize> {
    if descriptors.is_empty() {
        let text = "there is no descriptor to wait for";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    }
    let asked: Vec<_> = descriptors.iter().map(|polled| (polled.fd, polled.interest)).collect();
    let (mut set, mut readiness) = (None, Readiness::default());
    loop {
        cancel::check_io()?;
        let mut found = sys::poll_all_now(&asked)?;
        let count_of = |found: &[PollFlags]| found.iter().filter(|ready| !ready.is_empty()).count();
        add_early(&asked, &mut found, |fd| Ok(inboxes::shows_leftover(fd)))?;
        if count_of(&found) == 0 {
            // The op of an iterator would take what this call waits for, so it ends.
            add_early(&asked, &mut found, |fd| inboxes::has_leftover(fd, &READY))?;
        }
        let count = count_of(&found);
        if count > 0 {
            worker::note_complete_at_once();
            for (polled, ready) in descriptors.iter_mut().zip(found) {
                polled.ready = ready;
            }
            return Ok(count);
        }
        let set = match &set {
            Some(set) => set,
            None => set.insert(sys::readiness_of(&asked)?),
        };
        readiness.wait(&READY, set.as_fd().into(), sys::POLL_IN, Deadline::NEVER)?;
    }
}

/// Adds what iterators have received early: it is no longer in the socket, but the next call takes
/// it.
fn add_early<'a>(
    asked: &[(BorrowedFd<'a>, PollFlags)],
    found: &mut [PollFlags],
    has_leftover: impl Fn(BorrowedFd<'a>) -> Result<bool, OpError>,
) -> io::Result<()> {
    for ((fd, interest), ready) in asked.iter().zip(found) {
        let early = *interest & (PollFlags::IN | PollFlags::RDNORM);
        if !early.is_empty() && has_leftover(*fd)? {
            *ready |= early;
        }
    }
    Ok(())
}
