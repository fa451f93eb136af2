//! A bound for calls that have none of their own.

use std::{error, fmt, io, thread};

use super::{Deadline, Duration, Instant};
use crate::{
    fiber,
    sync::oneshot::{self, RecvTimeoutError},
};

/// The time was over first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elapsed;

/// Runs `f` on a strand of its own and waits for what it returns, for `duration` at most.
///
/// For calls without a timeout: resolving a name, a whole exchange over a connection. Where a call
/// has one of its own (`recv_timeout`, `set_read_timeout`), that is cheaper.
///
/// `f` is not stopped: when the time is over it runs on, and what it returns is dropped when it is
/// done. So `f` takes along what it needs; shut its connection down, or set its flag, to end it:
/// [`run`](crate::run()) waits for it, too.
///
/// # Blocking
/// Parks the fiber, or the thread outside one.
///
/// # Cancellation
/// Not a cancel point.
///
/// # Errors
/// The time was over first. Also in a destructor that runs during a panic on a fiber, unless `f`
/// need not be waited for.
///
/// # Panics
/// When `f` does, with its payload; when the strand cannot be spawned. Inside
/// [`no_switch`](crate::no_switch()).
///
/// # Examples
/// ```
/// use ramie::{fiber, time::{Duration, Elapsed, timeout}};
///
/// ramie::run(|| {
///     assert_eq!(timeout(Duration::from_secs(60), || 5), Ok(5));
///     let too_slow = || fiber::sleep(Duration::from_millis(5));
///     assert_eq!(timeout(Duration::from_millis(1), too_slow), Err(Elapsed));
/// });
/// ```
#[track_caller]
pub fn timeout<F, T>(duration: Duration, f: F) -> Result<T, Elapsed>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    until(Deadline::after(duration), f)
}

/// Runs `f` on a strand of its own and waits for what it returns, until `instant` at most.
///
/// As [`timeout`], for several steps that share one deadline.
///
/// # Blocking
/// As [`timeout`].
///
/// # Cancellation
/// Not a cancel point.
///
/// # Errors
/// As [`timeout`].
///
/// # Panics
/// As [`timeout`].
#[track_caller]
pub fn timeout_at<F, T>(instant: Instant, f: F) -> Result<T, Elapsed>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    until(Deadline::at(instant), f)
}

#[track_caller]
fn until<F, T>(deadline: Deadline, f: F) -> Result<T, Elapsed>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let (sender, receiver) = oneshot::channel();
    let strand = fiber::spawn(move || drop(sender.send(f())));
    match receiver.wait(deadline) {
        Ok(value) => Ok(value),
        Err(RecvTimeoutError::Timeout) => Err(Elapsed),
        // Nothing can be waited for, nor thrown.
        Err(RecvTimeoutError::Closed) if thread::panicking() => Err(Elapsed),
        Err(RecvTimeoutError::Closed) => match strand.join() {
            Err(payload) => std::panic::resume_unwind(payload),
            Ok(()) => unreachable!("it sends what it returns"),
        },
    }
}

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the time was over first")
    }
}

impl error::Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> Self {
        io::Error::new(io::ErrorKind::TimedOut, elapsed)
    }
}
