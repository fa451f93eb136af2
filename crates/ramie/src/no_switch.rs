//! Regions in which a strand must not suspend.

use crate::worker;

/// Runs `f`, in which any call that would suspend the strand panics.
///
/// For code that must not be interleaved with other fibers of this worker: the initializer of a
/// `thread_local!`, a region in which a last-in-first-out thread-local context is set.
///
/// A coroutine that suspends inside `f` leaves its resumer in the region. If it goes on anywhere
/// but there, the process is aborted with a message.
///
/// # Panics
/// The call inside `f` that would suspend panics and says where it stands.
///
/// # Examples
/// ```
/// let sum = ramie::no_switch(|| (1..=4).sum::<u32>());
/// assert_eq!(sum, 10);
/// ```
pub fn no_switch<T>(f: impl FnOnce() -> T) -> T {
    let worker = worker::current();
    let _no_switch = worker::NoSwitch::new(&worker);
    f()
}
