//! A thread beside the worker that submits the queue to the kernel.
//!
//! The sidecar uses only the ring's descriptor. The worker alone writes entries and reads
//! completions, and may enter the kernel itself at any time, because the kernel serialises the
//! entries of the two. So the two share a [`Handshake`] and no memory of the ring. The kernel
//! completes ops on the CPU of the sidecar that submitted them, and interrupts the sidecar for that
//! even while it sleeps.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::counts::RingCounts;
use super::handshake::Handshake;
use crate::sys;

/// The time for which the sidecar watches for new entries before it sleeps. Waking it costs the
/// worker 2 us or more.
const WATCH: Duration = Duration::from_micros(100);
/// The number of times that the sidecar looks for new entries, with a pause after each, before it
/// yields its CPU.
const SPINS: u32 = 200;
/// The time for which the sidecar does not enter the kernel after the kernel has refused entries
/// for lack of room.
const RESPITE: Duration = Duration::from_micros(50);
/// The size of the thread's stack in bytes. A small one suffices, because the thread only makes
/// system calls, for which the kernel has its own stacks.
const STACK: usize = 64 * 1024;

/// The thread of a sidecar; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Sidecar {
    handshake: Arc<Handshake>,
    thread: Option<JoinHandle<()>>,
}

impl Sidecar {
    /// Starts a sidecar for the ring with the descriptor `ring`, which must stay open until the
    /// sidecar is dropped.
    ///
    /// # Errors
    /// The system refuses to start a thread.
    pub(super) fn start(
        ring: RawFd,
        stops_at_errors: bool,
        counts: &Arc<RingCounts>,
    ) -> io::Result<Self> {
        let handshake = Arc::new(Handshake::new());
        let watch = Watch {
            ring,
            stops_at_errors,
            handshake: Arc::clone(&handshake),
            counts: Arc::clone(counts),
        };
        let builder = thread::Builder::new().name("ramie-sidecar".to_owned()).stack_size(STACK);
        let thread = builder.spawn(move || watch.run())?;
        Ok(Sidecar { handshake, thread: Some(thread) })
    }

    /// Announces new entries in the queue, and wakes the sidecar if it sleeps.
    #[inline]
    pub(super) fn post(&self) {
        if self.handshake.post()
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
    }

    /// Ends the thread and waits for its end.
    pub(super) fn end(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.handshake.end();
        thread.thread().unpark();
        // An error means that a panic has ended the sidecar already; the panic hook has reported
        // it.
        let _ = thread.join();
    }
}

impl Drop for Sidecar {
    fn drop(&mut self) {
        self.end();
    }
}

/// The data of the thread.
struct Watch {
    ring: RawFd,
    /// Whether the kernel, without `SUBMIT_ALL`, stops at an entry that it refuses, and leaves the
    /// entries behind it.
    stops_at_errors: bool,
    handshake: Arc<Handshake>,
    counts: Arc<RingCounts>,
}

impl Watch {
    fn run(mut self) {
        sys::raw::block_signals();
        let _mark = sys::RuntimeThread::enter();
        let mut seen = 0;
        let mut quiet = Quiet::new();
        while !self.handshake.is_ending() {
            let posted = self.handshake.posted();
            if posted != seen {
                if self.enter() {
                    seen = posted;
                } else {
                    thread::sleep(RESPITE);
                }
                quiet = Quiet::new();
            } else if !quiet.goes_on() {
                self.handshake.fall_asleep(seen, thread::park);
                quiet = Quiet::new();
            }
        }
    }

    /// Submits the whole queue; returns false if the kernel has no room for it now.
    fn enter(&mut self) -> bool {
        loop {
            self.counts.sidecar.enters.add_one();
            match sys::raw::ring_submit(self.ring) {
                Ok(submitted) if submitted > 0 && self.stops_at_errors => {}
                Ok(_) => return true,
                Err(Errno::INTR) => {}
                // The completion queue is full, or memory is short. The worker makes room.
                Err(Errno::BUSY | Errno::AGAIN) => return false,
                Err(Errno::BADR) => sys::fatal("the kernel has lost a completion (EBADR)"),
                Err(error) => sys::fatal(&format!("the sidecar's ring takes no ops ({error})")),
            }
        }
    }
}

/// A period in which nothing is posted.
struct Quiet {
    looks: u32,
    since: Option<Instant>,
}

impl Quiet {
    fn new() -> Self {
        Quiet { looks: 0, since: None }
    }

    /// Waits a moment; returns false once the period has lasted long enough for the sidecar to
    /// sleep.
    fn goes_on(&mut self) -> bool {
        self.looks += 1;
        if self.looks < SPINS {
            std::hint::spin_loop();
            return true;
        }
        // The worker may need this CPU.
        thread::yield_now();
        self.since.get_or_insert_with(Instant::now).elapsed() < WATCH
    }
}
