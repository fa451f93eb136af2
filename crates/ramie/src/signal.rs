//! Waiting for the signals that other processes, the terminal or the kernel send to this one.
//!
//! A program that waits for signals makes a [`Signals`]; if there are several, each of them
//! receives each signal. [`ctrl_c`] and [`terminate`] wait for one signal once.
//!
//! # Effects while nothing listens
//! While a [`Signals`] for a signal exists, the signal's default effect is suppressed: Ctrl-C does
//! not end the process. When the last one is dropped, the signal has its earlier effect again: its
//! default, or nothing if it was ignored (or is a real-time signal). A handler that was installed
//! before is called in either case. A handler that is installed later replaces that of this module,
//! which then receives the signal no more.
//!
//! # Signals ignored or blocked at the start
//! A signal that was ignored when the program was started arrives here nevertheless. A signal that
//! was blocked then does not, unless a thread unblocks it (sigprocmask(2)), because the kernel
//! keeps it pending.
//!
//! # Handlers of the program
//! A handler that a program installs itself (sigaction(2)) may set flags and write to descriptors,
//! but must not wait, because it interrupts a fiber, or the worker, in the midst of anything. If a
//! handler with `SA_ONSTACK` waits nevertheless, the process ends with a message. A handler without
//! it runs on the stack of the fiber that it interrupts, and nothing distinguishes it from that
//! fiber's own code. Its wait suspends the fiber within the handler, with the signal blocked for
//! all other fibers of that worker, and with the interrupted work half done. So give a handler
//! `SA_ONSTACK`, also because a fiber's stack may have little room left, and let a fiber wait by
//! this module instead.

// # Protocol
// The handler sets the signal's bit in each listener's word, then adds one to the listener's
// eventfd. The waiter looks at the word first and reads the eventfd only when the word is empty, so
// a signal that comes in between is seen at once. *The race to fear*: two signals, one read of the
// eventfd that takes both counts, and a second waiter that sleeps on. A waiter that takes a bit and
// leaves others adds one to the eventfd for them.
#![allow(unsafe_code)]

use std::{
    fmt,
    io,
    os::fd::{AsRawFd, OwnedFd},
    // std's atomics rather than those of the models, because the handler shares them and no model
    // covers it.
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use ramie_driver::{Op, sys};

use crate::{
    core::{cancel, time::Deadline, wait::park::WaitKind},
    handler::Listening,
    op::{self, OpError},
};

static WAIT: WaitKind = WaitKind::of_op("a signal");

/// A signal, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signal(i32);

/// Declares the signals that a process waits for, with the numbers that they have on all supported
/// machines.
macro_rules! signals {
    ($($(#[$doc:meta])* $name:ident = $number:literal;)*) => {
        impl Signal {
            $($(#[$doc])* pub const $name: Signal = Signal($number);)*

            fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some(concat!("SIG", stringify!($name))),)*
                    _ => None,
                }
            }
        }
    };
}

signals! {
    /// The terminal is gone; by convention, a request to read the configuration again.
    HUP = 1;
    /// Ctrl-C.
    INT = 2;
    /// Ctrl-\.
    QUIT = 3;
    /// Free for use between programs.
    USR1 = 10;
    /// Free for use between programs.
    USR2 = 12;
    /// A write to a pipe without a reader; ignored in Rust programs.
    PIPE = 13;
    /// A timer of alarm(2).
    ALRM = 14;
    /// A request to end.
    TERM = 15;
    /// A child has ended or stopped.
    CHLD = 17;
    /// The process continues after a stop.
    CONT = 18;
    /// Ctrl-Z.
    TSTP = 20;
    /// The terminal has another size.
    WINCH = 28;
}

/// The number of signals supported; numbers above belong to the C library or do not exist.
const NUMBERS: std::ops::RangeInclusive<i32> = 1..=64;
/// SIGILL, SIGFPE, SIGKILL, SIGSEGV, SIGSTOP and SIGBUS, after which no program can continue.
const FORBIDDEN: [i32; 6] = [4, 8, 9, 11, 19, 7];

impl Signal {
    /// Returns the signal of this number; `None` if no program can wait for it.
    #[must_use]
    pub fn from_raw(number: i32) -> Option<Signal> {
        (NUMBERS.contains(&number) && !FORBIDDEN.contains(&number)).then_some(Signal(number))
    }

    /// Returns the signal's number.
    #[must_use]
    pub fn as_raw(self) -> i32 {
        self.0
    }

    fn bit(self) -> u64 {
        1 << (self.0 - 1)
    }
}

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "signal {}", self.0),
        }
    }
}

impl fmt::Debug for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Receives the signals that it was made for, until it is dropped.
///
/// A signal that comes twice before it is received is received once, as with pending signals in the
/// kernel. Several strands may wait on one `Signals`; each signal then goes to one of them.
///
/// # Examples
/// ```
/// use ramie::signal::{Signal, Signals};
///
/// ramie::run(|| {
///     let signals = Signals::new([Signal::HUP, Signal::USR1])?;
///     # let us = std::process::id().to_string();
///     # ramie::process::Command::new("kill").args(["-HUP", &us]).status()?;
///     assert_eq!(signals.wait()?, Signal::HUP);
///     std::io::Result::Ok(())
/// })
/// # .unwrap()
/// ```
#[derive(Debug)]
pub struct Signals {
    listener: Arc<SignalListener>,
    listening: Vec<Listening>,
}

#[derive(Debug)]
struct SignalListener {
    pending: AtomicU64,
    eventfd: OwnedFd,
}

impl SignalListener {
    /// Runs in the handler: atomics and one write(2).
    fn notice(&self, signal: Signal) {
        // Release: a waiter that sees the bit sees the writes before the signal was sent.
        self.pending.fetch_or(signal.bit(), Ordering::Release);
        sys::eventfd_signal(&self.eventfd);
    }

    fn take(&self) -> Option<Signal> {
        let mut pending = self.pending.load(Ordering::Acquire);
        while pending != 0 {
            let left = pending & (pending - 1);
            let order = (Ordering::AcqRel, Ordering::Acquire);
            match self.pending.compare_exchange(pending, left, order.0, order.1) {
                Err(now) => pending = now,
                Ok(_) => {
                    if left != 0 {
                        sys::eventfd_signal(&self.eventfd);
                    }
                    return Some(Signal(pending.trailing_zeros() as i32 + 1));
                }
            }
        }
        None
    }
}

impl Signals {
    /// Starts to receive these signals.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn new(signals: impl IntoIterator<Item = Signal>) -> io::Result<Signals> {
        let listener =
            Arc::new(SignalListener { pending: AtomicU64::new(0), eventfd: sys::eventfd()? });
        let mut made = Signals { listener, listening: Vec::new() };
        for signal in signals {
            let listener = Arc::clone(&made.listener);
            // SAFETY: `notice` does only things that a handler may do: atomics and one write(2).
            let listening = unsafe { Listening::new(signal.0, move || listener.notice(signal)) };
            made.listening.push(listening?);
        }
        Ok(made)
    }

    /// Waits for one of the signals.
    ///
    /// # Blocking
    /// Parks the strand until the end of the wait.
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// This thread cannot do I/O: the process is out of descriptors.
    ///
    /// # Panics
    /// Inside [`no_switch`](crate::no_switch()).
    #[track_caller]
    pub fn wait(&self) -> io::Result<Signal> {
        loop {
            if let Some(signal) = self.wait_until(Deadline::NEVER)? {
                return Ok(signal);
            }
        }
    }

    /// Waits for one of the signals, for `timeout` at most; returns `None` if none came.
    ///
    /// # Blocking
    /// As [`wait`](Self::wait).
    ///
    /// # Cancellation
    /// A cancel point.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_timeout(&self, timeout: Duration) -> io::Result<Option<Signal>> {
        self.wait_until(Deadline::after(timeout))
    }

    /// Takes one of the signals that have come, without waiting.
    #[must_use]
    pub fn try_wait(&self) -> Option<Signal> {
        self.listener.take()
    }

    #[track_caller]
    fn wait_until(&self, deadline: Deadline) -> io::Result<Option<Signal>> {
        cancel::check_io()?;
        loop {
            if let Some(signal) = self.listener.take() {
                return Ok(Some(signal));
            }
            let mut count = [0_u8; 8];
            let fd = self.listener.eventfd.as_raw_fd();
            let offset = ramie_driver::CURRENT_POSITION;
            let op = Op::Read { fd, buf: count.as_mut_ptr(), len: 8, offset };
            // SAFETY: the buffer lies in this frame.
            match unsafe { op::request(&WAIT, op).until(deadline).perform() } {
                Ok(_) => {}
                Err(OpError::Elapsed) => return Ok(self.listener.take()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Iterator for &Signals {
    type Item = io::Result<Signal>;

    /// Waits for the next signal. The iterator ends only if the strand is cancelled already.
    #[track_caller]
    fn next(&mut self) -> Option<io::Result<Signal>> {
        (!cancel::is_cancelled_here()).then(|| self.wait())
    }
}

/// Waits for Ctrl-C (SIGINT), which does not end the process meanwhile.
///
/// To wait for more than one signal, or to miss none between two waits, make a [`Signals`].
///
/// # Blocking
/// Parks the strand until the end of the wait.
///
/// # Cancellation
/// A cancel point.
///
/// # Errors
/// As [`Signals::new`] and [`Signals::wait`].
#[track_caller]
pub fn ctrl_c() -> io::Result<()> {
    Signals::new([Signal::INT])?.wait().map(drop)
}

/// Waits for a request to end (SIGTERM), which does not end the process meanwhile.
///
/// # Blocking
/// Parks the strand until the end of the wait.
///
/// # Cancellation
/// A cancel point.
///
/// # Errors
/// As [`Signals::new`] and [`Signals::wait`].
#[track_caller]
pub fn terminate() -> io::Result<()> {
    Signals::new([Signal::TERM])?.wait().map(drop)
}
