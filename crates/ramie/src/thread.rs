//! The items of [`fiber`](crate::fiber) by the names of `std::thread`.
//!
//! For programs that replace `use std::thread` by `use ramie::thread`, or that `use ramie as std`.
//! Where std starts a thread, this module starts a strand. Inside [`run`](crate::run) the strand is
//! of the kind that [`Strands`](crate::Strands) selects, by default a fiber; outside of `run` it is
//! an OS thread.
//!
//! | `std::thread` | here |
//! |---|---|
//! | [`spawn`], [`scope`], [`Scope`], [`JoinHandle`], [`ScopedJoinHandle`], [`Result`] | the same; joining in a destructor during a panic gives an error where std would wait |
//! | [`Builder`] | the same; a stack is 256 KiB by default, not 2 MiB, and a size out of range is an error |
//! | [`current`], [`Thread`], [`ThreadId`] | the same; they name the strand, `std::thread::current` names the worker |
//! | [`park`], [`park_timeout`], [`sleep`], [`yield_now`] | the same; they return at once while the strand unwinds, and panic inside [`no_switch`](crate::no_switch) |
//! | [`LocalKey`], [`AccessError`] | the same, for [`fiber_local!`](crate::fiber_local), which is [`ramie::thread_local!`](crate::thread_local) too |
//! | [`panicking`], [`available_parallelism`] | std's own: a fiber never suspends while it unwinds |
//! | [`sleep_ms`], [`park_timeout_ms`] | the same, deprecated as std's |
//!
//! Beyond std: [`spawn_local`], for closures that are not `Send`; [`sleep_until`].
//!
//! # Examples
//! ```
//! use ramie as std;
//! use std::thread;
//!
//! std::run(|| {
//!     let named = thread::Builder::new().name("adder".into());
//!     let handle = named.spawn(|| (thread::current().name().map(str::len), 1 + 1)).unwrap();
//!     assert_eq!(handle.join().unwrap(), (Some(5), 2));
//! });
//! ```

use std::time::Duration;

#[doc(no_inline)]
pub use std::thread::{Result, available_parallelism, panicking};

pub use crate::fiber::{
    AccessError, Builder, Fiber as Thread, FiberId as ThreadId, JoinHandle, LocalKey, Scope,
    ScopedJoinHandle, current, park, park_timeout, scope, sleep, sleep_until, spawn, spawn_local,
    yield_now,
};

/// Waits for at least `ms` milliseconds; twin of [`std::thread::sleep_ms`].
///
/// # Blocking
/// As [`sleep`].
///
/// # Cancellation
/// In a cancelled scope it returns early; each repeated early return waits a little longer (see
/// [`cancel`](crate::cancel)).
#[deprecated(note = "use sleep; std deprecates its own, too")]
#[track_caller]
pub fn sleep_ms(ms: u32) {
    sleep(Duration::from_millis(ms.into()));
}

/// Parks this strand for at most `ms` milliseconds; twin of [`std::thread::park_timeout_ms`].
///
/// # Blocking
/// As [`park_timeout`].
///
/// # Cancellation
/// In a cancelled scope it returns early; each repeated early return waits a little longer (see
/// [`cancel`](crate::cancel)).
#[deprecated(note = "use park_timeout; std deprecates its own, too")]
#[track_caller]
pub fn park_timeout_ms(ms: u32) {
    park_timeout(Duration::from_millis(ms.into()));
}
