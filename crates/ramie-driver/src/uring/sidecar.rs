//! A thread beside the worker that submits the queue to the kernel.
//!
//! The sidecar touches only the ring's descriptor. The worker alone writes entries and reads
//! completions, and may enter the kernel itself at any time (the kernel lets in one thread after
//! the other). So the two share a [`Handshake`] and no memory of the ring. Ops that the sidecar has
//! submitted are also completed on its CPU, whether it sleeps or not, because the kernel interrupts
//! it.

use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::handshake::Handshake;
use crate::sys;

/// The time for which the sidecar watches before it sleeps. Waking it costs the worker 2 us and
/// more.
const WATCH: Duration = Duration::from_micros(100);
/// The number of looks, each followed by a pause, before the sidecar yields its CPU.
const SPINS: u32 = 200;
/// The time for which the sidecar does not enter the kernel after the kernel had no room for more.
const RESPITE: Duration = Duration::from_micros(50);
/// The thread's stack is small, because it only makes system calls, and the kernel has its own
/// stacks.
const STACK: usize = 64 * 1024;

/// The thread; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct Sidecar {
    handshake: Arc<Handshake>,
    /// Returns the number of times that it entered the kernel.
    thread: Option<JoinHandle<u64>>,
}

impl Sidecar {
    /// Starts a sidecar for the ring `ring`, which must stay open until it is dropped.
    ///
    /// # Errors
    /// No thread can be made.
    pub(super) fn start(ring: RawFd, stops_at_errors: bool) -> io::Result<Self> {
        let handshake = Arc::new(Handshake::new());
        let watch = Watch { ring, stops_at_errors, handshake: Arc::clone(&handshake), entered: 0 };
        let builder = thread::Builder::new().name("ramie-sidecar".to_owned()).stack_size(STACK);
        let thread = builder.spawn(move || watch.run())?;
        Ok(Sidecar { handshake, thread: Some(thread) })
    }

    /// Notes that entries have been put into the queue.
    #[inline]
    pub(super) fn post(&self) {
        if self.handshake.post()
            && let Some(thread) = &self.thread
        {
            thread.thread().unpark();
        }
    }

    /// Ends the thread; returns the number of times that it entered the kernel.
    pub(super) fn end(&mut self) -> u64 {
        let Some(thread) = self.thread.take() else { return 0 };
        self.handshake.end();
        thread.thread().unpark();
        thread.join().unwrap_or(0)
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
    entered: u64,
}

impl Watch {
    fn run(mut self) -> u64 {
        sys::raw::block_signals();
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
        self.entered
    }

    /// Submits the whole queue; false: the kernel has no room for it now.
    fn enter(&mut self) -> bool {
        loop {
            self.entered += 1;
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

    /// Waits a moment; false: the period has lasted long enough.
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
