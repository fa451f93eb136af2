//! Rings whose ops somebody else hands to the kernel while the worker is busy.
//!
//! A ring is its queues, which the worker fills and reads, and the one who enters the kernel for
//! it; the ring's flags follow the latter. A kernel's thread and a [`Sidecar`] look alike from
//! here: both take entries out of the queue while they are awake, both fall asleep after a while,
//! and the worker looks after each entry whether it has to wake them. Completions come by
//! themselves; the worker finds them in the queue.
//!
//! A worker with nothing to run waits in the kernel itself, and hands over what is left as it
//! enters. So a sleeping worker is woken by what wakes any other, no op depends on anybody's
//! being awake while the worker sleeps, and neither costs CPU time then.

use std::io;
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

use io_uring::{EnterFlags, opcode, types};
use rustix::io::Errno;

use super::sidecar::Sidecar;
use super::{Uring, sqe};
use crate::backend::Wait;
use crate::config::Config;
use crate::feature::{Feature, FeatureSet};
use crate::submitter::Submitter;
use crate::sys::abi::Timespec;
use crate::{say, sys};

/// Who enters, if it is not the worker.
#[derive(Debug)]
pub(super) enum SubmitterThread {
    KernelThread,
    Sidecar(Sidecar),
}

/// What a ring must do without when this submitter hands over its ops.
///
/// Work is deferred to the one task that submits, or announced to it by a flag: here another one
/// submits. And a message to another ring is worth it if the kernel has it at once.
pub(super) fn unfit_for(submitter: Submitter) -> FeatureSet {
    let unfit = [
        Feature::SingleIssuer,
        Feature::DeferTaskrun,
        Feature::CoopTaskrun,
        Feature::TaskrunFlag,
        Feature::MsgRing,
    ];
    match submitter {
        Submitter::Worker => FeatureSet::EMPTY,
        _ => unfit.into_iter().fold(FeatureSet::EMPTY, FeatureSet::with),
    }
}

/// A year: longer waits overflow nothing, but nobody means them.
const LONGEST_WAIT: Duration = Duration::from_secs(365 * 24 * 3600);

impl Uring {
    /// Makes a ring for which `config.submitter` enters; the worker, if that is not to be had.
    /// Gives a sentence on that, unless it is the worker who was asked for.
    pub(crate) fn open_submitted(config: &Config) -> io::Result<(Self, Option<String>)> {
        let who = config.submitter.described();
        if config.submitter == Submitter::Worker {
            return Ok((Uring::open(config)?, None));
        }
        match Uring::open_with_thread(config) {
            Ok(uring) => Ok((uring, Some(format!("{who} submits the ops")))),
            Err(error) => {
                let uring =
                    Uring::open(&Config { submitter: Submitter::Worker, ..config.clone() })?;
                let why = format!("the worker submits its ops, because {who} cannot ({error})");
                say!(Warn, "{why}");
                Ok((uring, Some(why)))
            }
        }
    }

    /// Makes a ring for which `config.submitter` enters, or says why it cannot.
    pub(crate) fn open_with_thread(config: &Config) -> io::Result<Self> {
        let mut uring = Uring::open(config)?;
        uring.thread_goes_on = true;
        if !uring.caps.ext_arg() {
            // A timeout would be an entry that points to this thread's stack, and is read late.
            return Err(io::Error::other(
                "waits take no timeout here: that is EXT_ARG, of Linux 5.11",
            ));
        }
        uring.submitter_thread = match config.submitter {
            Submitter::Worker => None,
            Submitter::KernelThread { .. } => Some(SubmitterThread::KernelThread),
            Submitter::Sidecar => {
                let stops_at_errors = !uring.caps.features.has(Feature::SubmitAll);
                let sidecar = Sidecar::start(uring.ring.as_raw_fd(), stops_at_errors)?;
                Some(SubmitterThread::Sidecar(sidecar))
            }
        };
        uring.thread_goes_on = false;
        Ok(uring)
    }

    /// Submits and, if told, waits. Interrupted or timed out is success; busy is retried.
    ///
    /// The retries end. `EBUSY` means that the completion queue is full, so reading it finds
    /// something, and this returns. `EAGAIN` means that the kernel could not allocate the few KiB
    /// of a request. It waits for memory before it says so, and each retry lets other threads run.
    pub(super) fn enter(&mut self, wait: Wait) -> io::Result<()> {
        let mut busy_since = None;
        loop {
            self.entered += 1;
            let entered = match wait {
                Wait::Never => self.enter_once(0, None),
                Wait::Until(None) => self.enter_once(1, None),
                Wait::Until(Some(limit)) => self.enter_for(limit.min(LONGEST_WAIT)),
            };
            let Err(error) = entered else { return Ok(()) };
            match error {
                Errno::INTR | Errno::TIME => return Ok(()),
                // Reading completions makes room; and what it has found, were it a wake or an item
                // only, may be what is waited for.
                Errno::BUSY | Errno::AGAIN => {
                    let found_some = !self.status.is_empty();
                    self.reap();
                    if found_some || !self.completed.is_empty() {
                        return Ok(());
                    }
                    let since = *busy_since.get_or_insert_with(Instant::now);
                    if matches!(wait, Wait::Until(Some(limit)) if since.elapsed() >= limit) {
                        return Ok(());
                    }
                    rustix::thread::sched_yield();
                }
                Errno::BADR => sys::fatal("the kernel has lost a completion (EBADR)"),
                _ => return Err(error.into()),
            }
        }
    }

    /// Hands over what is queued and waits for `least` completions.
    fn enter_once(&mut self, least: u32, limit: Option<&Timespec>) -> Result<u32, Errno> {
        let queue = self.ring.submission();
        let len = queue.len() as u32;
        let has_thread = matches!(self.caps.submitter, Submitter::KernelThread { .. });
        let sleeps = has_thread && queue.need_wakeup();
        let flags = if sleeps { EnterFlags::SQ_WAKEUP } else { EnterFlags::empty() };
        self.registered_ring.enter((len, least), flags, limit)
    }

    fn enter_for(&mut self, limit: Duration) -> Result<u32, Errno> {
        if self.caps.ext_arg() {
            return self.enter_once(1, Some(&limit.into()));
        }
        // Count 1: it also ends with the next completion, and so leaves nothing behind. The
        // kernel copies the time when it takes the entry, which is before `limit` goes.
        let limit = types::Timespec::from(limit);
        let timeout = opcode::Timeout::new(&limit).count(1).build();
        self.push(&timeout.user_data(sqe::TAG_IGNORE));
        self.enter_once(1, None)
    }

    /// Tells who enters that something is in the queue, and wakes it if it sleeps.
    #[cold]
    pub(super) fn tell_submitter_thread(&mut self) {
        match &self.submitter_thread {
            None => {}
            Some(SubmitterThread::Sidecar(sidecar)) => sidecar.post(),
            Some(SubmitterThread::KernelThread) => self.wake_kernel_thread(),
        }
    }

    fn wake_kernel_thread(&mut self) {
        // It fences: either the thread sees the entry, or we that it sleeps.
        if !self.ring.submission().need_wakeup() {
            return;
        }
        self.entered += 1;
        if let Err(error) = self.ring.submit() {
            sys::fatal(&format!("the kernel's thread cannot be woken ({error})"));
        }
    }

    /// Waits until the kernel's thread has emptied the queue, if it is the one who does.
    pub(super) fn kernel_thread_empties_queue(&mut self) -> bool {
        if !matches!(self.submitter_thread, Some(SubmitterThread::KernelThread)) {
            return false;
        }
        while !self.ring.submission().is_empty() {
            self.wake_kernel_thread();
            // It may want this very CPU.
            rustix::thread::sched_yield();
        }
        true
    }

    /// Enters where somebody else hands over what is queued: only to wait, or for completions that
    /// the kernel has kept back.
    pub(super) fn enter_beside(&mut self, wait: Wait) -> io::Result<()> {
        if wait != Wait::Never {
            self.enter(wait)?;
            self.reap();
        }
        while self.overflowed() {
            self.enter(Wait::Never)?;
            self.reap();
        }
        Ok(())
    }

    /// Ends the one who enters; from now on the worker does. Nothing of others is in flight.
    pub(super) fn end_submitter_thread(&mut self) {
        if let Some(SubmitterThread::Sidecar(mut sidecar)) = self.submitter_thread.take() {
            self.entered += sidecar.end();
        }
    }
}
