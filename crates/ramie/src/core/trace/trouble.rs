//! How workers, watchdogs and signal handlers ask the flight recorder for a file.
//!
//! The recorder's thread ([`inspect`](crate::inspect)) is a [`TroubleListener`]: it sleeps for a
//! futex, so asking is an atomic and a system call, which a signal handler may do.
//!
//! | word | content | changed by |
//! |---|---|---|
//! | `LISTENERS` | 1 while the thread listens | the thread |
//! | `TROUBLES` | a bit for each kind of trouble that has not been taken | [`report`] sets, the thread takes all |
//! | `ASKED` | a number that changes with each report; the thread sleeps for it | [`report`] |
//! | `ANSWERED` | a number that changes when the thread has written all that it took | the thread |
//! | `TAKEN` | whether the thread is at work on troubles that it took | the thread |
//!
//! *The race to fear* is a report between the thread's look at `TROUBLES` and its sleep. The thread
//! reads `ASKED` first, and the kernel refuses a sleep for a number that has changed.

use std::time::{Duration, Instant};

use ramie_driver::sys;

// std's atomics rather than those of the models, because a futex and a signal handler share them.
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

static LISTENERS: AtomicU32 = AtomicU32::new(0);
static TROUBLES: AtomicU32 = AtomicU32::new(0);
static ASKED: AtomicU32 = AtomicU32::new(0);
static ANSWERED: AtomicU32 = AtomicU32::new(0);
static TAKEN: AtomicU32 = AtomicU32::new(0);

/// How long a process that is about to abort waits for the file.
pub(crate) const BEFORE_ABORT: Duration = Duration::from_secs(5);
/// The longest sleep of the listener, and of those who wait for it; any is long enough.
const SLEEP: Duration = Duration::from_hours(1);

/// The reason for which a file with the events is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Trouble {
    Stall,
    Deadlock,
    Panic,
    Signal,
}

impl Trouble {
    pub(crate) const ALL: [Trouble; 4] =
        [Trouble::Stall, Trouble::Deadlock, Trouble::Panic, Trouble::Signal];

    fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// Reports trouble to the flight recorder, if one runs. May be called in a signal handler.
pub(crate) fn report(trouble: Trouble) {
    if LISTENERS.load(SeqCst) > 0 {
        TROUBLES.fetch_or(trouble.bit(), SeqCst);
        wake_listener();
    }
}

/// The same, and waits until the recorder has written its file, for `limit` at most: the process is
/// about to end.
pub(crate) fn report_and_wait(trouble: Trouble, limit: Duration) {
    report(trouble);
    let end = Instant::now() + limit;
    loop {
        let answered = ANSWERED.load(SeqCst);
        let is_busy = TROUBLES.load(SeqCst) != 0 || TAKEN.load(SeqCst) != 0;
        let left = end.saturating_duration_since(Instant::now());
        if LISTENERS.load(SeqCst) == 0 || !is_busy || left.is_zero() {
            return;
        }
        let _ = sys::futex_wait_for(&ANSWERED, answered, false, left);
    }
}

fn wake_listener() {
    ASKED.fetch_add(1, SeqCst);
    sys::futex_wake(&ASKED);
}

/// The thread that hears of troubles, until this is dropped.
pub(crate) struct TroubleListener(());

impl TroubleListener {
    pub(crate) fn new() -> TroubleListener {
        TROUBLES.store(0, SeqCst);
        LISTENERS.store(1, SeqCst);
        TroubleListener(())
    }

    /// Waits for troubles, until `is_over`, and lets `write` handle them. Returns when it is over
    /// and all that was reported before has been handled.
    pub(crate) fn listen(&self, is_over: impl Fn() -> bool, write: impl Fn(&[Trouble])) {
        loop {
            let asked = ASKED.load(SeqCst);
            // Before the troubles are taken, so that nobody sees neither.
            TAKEN.store(1, SeqCst);
            let ends = is_over();
            let taken = TROUBLES.swap(0, SeqCst);
            let is_meant = |trouble: &Trouble| taken & trouble.bit() != 0;
            let troubles: Vec<_> = Trouble::ALL.into_iter().filter(is_meant).collect();
            if !troubles.is_empty() {
                write(&troubles);
            }
            TAKEN.store(0, SeqCst);
            ANSWERED.fetch_add(1, SeqCst);
            sys::futex_wake(&ANSWERED);
            if ends {
                return;
            }
            // It also ends if the number has changed.
            let _ = sys::futex_wait_for(&ASKED, asked, false, SLEEP);
        }
    }

    /// Wakes the thread, so that it looks at `is_over`.
    pub(crate) fn wake() {
        wake_listener();
    }
}

impl Drop for TroubleListener {
    fn drop(&mut self) {
        LISTENERS.store(0, SeqCst);
        ANSWERED.fetch_add(1, SeqCst);
        sys::futex_wake(&ANSWERED);
    }
}
