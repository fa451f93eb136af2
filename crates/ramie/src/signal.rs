//! Waiting for the signals that other processes, the terminal or the kernel send to this one.
//!
//! A program that waits for signals has a [`Signals`]; each of them sees each signal. [`ctrl_c`]
//! and [`terminate`] wait for one once.
//!
//! # What becomes of the default
//! While a [`Signals`] for a signal exists, the signal does nothing else to the process: Ctrl-C
//! does not end it. When there is none any more, the signal has its earlier effect again: its
//! default, or nothing if it was ignored (or is a real-time signal). A handler that was installed
//! before is called in either case. One that is installed later takes the signal away from this
//! module.
//!
//! # What the program inherits
//! A signal that was ignored when the program was started arrives here nevertheless. One that was
//! blocked then does not, unless a thread unblocks it (sigprocmask(2)): the kernel keeps it.
//!
//! # Handlers of one's own
//! A handler that a program installs itself (sigaction(2)) may set flags and write to descriptors,
//! and wait for nothing: it interrupts a fiber, or the worker, in the midst of anything. One that
//! waits nevertheless, of those with `SA_ONSTACK`, ends the process with a sentence. One without
//! runs on the stack of the fiber that it interrupts, and nothing distinguishes it from that
//! fiber's own code: its wait suspends the fiber within the handler, with the signal blocked for
//! all the others of that worker, and with the interrupted work half done. So give a handler
//! `SA_ONSTACK`, also because a fiber's stack may have little room left, and let a fiber wait here
//! instead.

// # Protocol
// The handler sets the signal's bit in each listener's word, then adds one to the listener's
// eventfd. The waiter looks at the word first and reads the eventfd only when the word is empty, so
// a signal that comes in between is seen at once. *The race to fear*: two signals, one read of the
// eventfd that takes both counts, and a second waiter that sleeps on. A waiter that takes a bit and
// leaves others adds one to the eventfd for them.
#![allow(unsafe_code)]

use std::{
    collections::BTreeSet,
    fmt,
    io,
    os::fd::{AsRawFd, OwnedFd},
    // The handler shares these, and nothing of it is for a model checker.
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use ramie_driver::{Op, sys};
use signal_hook::{SigId, low_level};

use crate::{
    core::{cancel, time::Deadline, wait::park::WaitKind},
    op::{self, OpError},
};

static WAIT: WaitKind = WaitKind::new("a signal");

/// A signal, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signal(i32);

/// Names the signals that a process waits for, as the kernel does on all machines we run on.
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
    /// The terminal is gone; by custom: read the configuration again.
    HUP = 1;
    /// Ctrl-C.
    INT = 2;
    /// Ctrl-\.
    QUIT = 3;
    /// Whatever two programs agree on.
    USR1 = 10;
    /// Whatever two programs agree on.
    USR2 = 12;
    /// A write to a pipe that nobody reads; ignored in Rust programs.
    PIPE = 13;
    /// A timer of alarm(2).
    ALRM = 14;
    /// A request to end.
    TERM = 15;
    /// A child has ended or stopped.
    CHLD = 17;
    /// The process goes on after a stop.
    CONT = 18;
    /// Ctrl-Z.
    TSTP = 20;
    /// The terminal has another size.
    WINCH = 28;
}

/// Numbers of signals; those above are the C library's or do not exist.
const NUMBERS: std::ops::RangeInclusive<i32> = 1..=64;
/// SIGILL, SIGFPE, SIGKILL, SIGSEGV, SIGSTOP, and SIGBUS: no program can go on after them.
const FORBIDDEN: [i32; 6] = [4, 8, 9, 11, 19, 7];

impl Signal {
    /// Makes a signal of its number; none if no program can wait for it.
    #[must_use]
    pub fn from_raw(number: i32) -> Option<Signal> {
        (NUMBERS.contains(&number) && !FORBIDDEN.contains(&number)).then_some(Signal(number))
    }

    /// Returns its number.
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

/// Hears of the signals it was made for, from its making to its drop.
///
/// A signal that comes twice before anybody looks is seen once, as is the kernel's way. Several
/// strands may wait on one `Signals`: each signal then goes to one of them.
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
    listener: Arc<Listener>,
    registered: Vec<Registered>,
}

#[derive(Debug)]
struct Listener {
    pending: AtomicU64,
    eventfd: OwnedFd,
}

impl Listener {
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
    /// Begins to listen.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub fn new(signals: impl IntoIterator<Item = Signal>) -> io::Result<Signals> {
        let listener = Arc::new(Listener { pending: AtomicU64::new(0), eventfd: sys::eventfd()? });
        let mut listening = Signals { listener, registered: Vec::new() };
        for signal in signals {
            listening.registered.push(Registered::new(signal, &listening.listener)?);
        }
        Ok(listening)
    }

    /// Waits for one of the signals.
    ///
    /// # Blocking
    /// Parks the strand until then.
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

    /// Waits for one of the signals, within a time; `None`: it was over first.
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

    /// Waits for the next signal. It ends where the strand is cancelled already; otherwise never.
    #[track_caller]
    fn next(&mut self) -> Option<io::Result<Signal>> {
        (!cancel::is_cancelled_here()).then(|| self.wait())
    }
}

/// Waits for Ctrl-C (SIGINT), which does not end the process meanwhile.
///
/// For more than one, or to miss none between two waits, make a [`Signals`].
///
/// # Blocking
/// Parks the strand until then.
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
/// Parks the strand until then.
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

/// How many listen to each signal.
static LISTENING: [AtomicUsize; 65] = [const { AtomicUsize::new(0) }; 65];

/// Signals whose default is looked after.
static DEFAULTS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());

/// One listener's share in the handler of one signal.
#[derive(Debug)]
struct Registered {
    signal: Signal,
    id: SigId,
}

impl Registered {
    fn new(signal: Signal, listener: &Arc<Listener>) -> io::Result<Self> {
        LISTENING[signal.0 as usize].fetch_add(1, Ordering::SeqCst);
        let listener = Arc::clone(listener);
        let registered = keep_default(signal).and_then(|()| {
            // SAFETY: `notice` does only things that a handler may do: atomics and one write(2).
            unsafe { low_level::register(signal.0, move || listener.notice(signal)) }
        });
        match registered {
            Ok(id) => Ok(Registered { signal, id }),
            Err(error) => {
                LISTENING[signal.0 as usize].fetch_sub(1, Ordering::SeqCst);
                Err(error)
            }
        }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        LISTENING[self.signal.0 as usize].fetch_sub(1, Ordering::SeqCst);
        low_level::unregister(self.id);
    }
}

/// Sees to it, once for each signal, that it has its default effect while nobody listens. The
/// handler stays for good, since taking it away could race with somebody who puts one in its place.
fn keep_default(signal: Signal) -> io::Result<()> {
    let mut defaults = DEFAULTS.lock().unwrap_or_else(PoisonError::into_inner);
    if defaults.contains(&signal.0) {
        return Ok(());
    }
    if has_default(signal) {
        let act = move || {
            if LISTENING[signal.0 as usize].load(Ordering::SeqCst) == 0 {
                // It can fail for signals that do not exist only.
                let _ = low_level::emulate_default_handler(signal.0);
            }
        };
        // SAFETY: an atomic load, and a function made to be called from handlers.
        unsafe { low_level::register(signal.0, act) }?;
    }
    defaults.insert(signal.0);
    Ok(())
}

/// Whether the signal is neither ignored nor handled now.
fn has_default(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let has_bit = |name: &str| {
        let mask = status.lines().find_map(|line| line.strip_prefix(name));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        mask.is_some_and(|mask| mask & signal.bit() != 0)
    };
    !has_bit("SigIgn:") && !has_bit("SigCgt:")
}
