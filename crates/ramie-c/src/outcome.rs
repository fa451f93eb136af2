//! Errors as negative errnos, and the guard that keeps panics out of C.
#![allow(unsafe_code)]

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    time::Duration,
};

use ramie::{RuntimeEnded, cancel::Cancelled};
use ramie_driver::sys::fork::ForkMark;

/// The negative errno of an error.
pub(crate) fn errno_of(error: &io::Error) -> i32 {
    if RuntimeEnded::of(error).is_some() {
        return -libc::ESHUTDOWN;
    }
    if let Some(cancelled) = Cancelled::of(error) {
        return if cancelled.is_deadline() { -libc::ETIMEDOUT } else { -libc::ECANCELED };
    }
    match (error.raw_os_error(), error.kind()) {
        (Some(errno), _) => -errno,
        (None, io::ErrorKind::InvalidInput) => -libc::EINVAL,
        (None, io::ErrorKind::OutOfMemory) => -libc::ENOMEM,
        (None, io::ErrorKind::WouldBlock) => -libc::EAGAIN,
        (None, io::ErrorKind::PermissionDenied) => -libc::EPERM,
        (None, io::ErrorKind::Unsupported) => -libc::EOPNOTSUPP,
        (None, _) => -libc::EIO,
    }
}

/// The errno of the caller. While a call waits, other fibers of the thread change it.
struct KeptErrno(i32);

impl KeptErrno {
    fn place() -> *mut i32 {
        // SAFETY: it may be called at any time.
        unsafe { libc::__errno_location() }
    }

    fn take() -> Self {
        // SAFETY: it is the variable of this thread, which only this thread uses.
        KeptErrno(unsafe { *Self::place() })
    }

    fn put_back(&self) {
        // SAFETY: as above.
        unsafe { *Self::place() = self.0 };
    }
}

/// Runs `f`. A panic, which the hook has reported, becomes `-ENOTRECOVERABLE`.
///
/// The caller's errno stays as it is.
///
/// In the child of a fork it runs nothing, because the child has none of the threads: a join there
/// would wait for ever.
pub(crate) fn guard(f: impl FnOnce() -> Result<i32, i32>) -> i32 {
    // The first call makes the mark.
    if ForkMark::get().is_child() {
        return -libc::ESHUTDOWN;
    }
    let errno = KeptErrno::take();
    let value = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value) | Err(value)) => value,
        Err(payload) => {
            // Its destructor may panic, too.
            std::mem::forget(payload);
            -libc::ENOTRECOVERABLE
        }
    };
    errno.put_back();
    value
}

/// A time limit of C's: negative means none.
pub(crate) fn timeout(ms: i64) -> Duration {
    u64::try_from(ms).map_or(Duration::MAX, Duration::from_millis)
}

/// Turns a count into a value for C.
pub(crate) fn count(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Fails if C has passed null where the header wants something, such as the place of a new object,
/// which nothing could free otherwise.
pub(crate) fn required<T>(pointer: *const T) -> Result<(), i32> {
    if pointer.is_null() { Err(-libc::EINVAL) } else { Ok(()) }
}

/// Stores a value for C, unless it does not want it.
///
/// # Safety
/// `place` is null or a place for a `T`.
pub(crate) unsafe fn store<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: the caller's promise.
        unsafe { place.write(value) };
    }
}

/// Makes an object of C's.
pub(crate) fn give<T>(value: T) -> *mut T {
    Box::into_raw(Box::new(value))
}

/// Takes an object of C's back, unless it is null.
///
/// # Safety
/// `given` is null or came from [`give`], and C does not use it any more.
pub(crate) unsafe fn take<T>(given: *mut T) -> Option<Box<T>> {
    // SAFETY: the caller's promise.
    (!given.is_null()).then(|| unsafe { Box::from_raw(given) })
}

#[cfg(test)]
mod tests {
    use ramie::fiber;

    use super::*;

    #[test]
    fn errors_have_errnos() {
        let os = io::Error::from_raw_os_error(libc::EBADF);
        assert_eq!(errno_of(&os), -libc::EBADF);
        assert_eq!(errno_of(&io::Error::from(io::ErrorKind::InvalidInput)), -libc::EINVAL);
        assert_eq!(errno_of(&io::Error::other("anything")), -libc::EIO);
        let cancelled = Cancelled::because("of a test");
        assert_eq!(errno_of(&io::Error::from(cancelled)), -libc::ECANCELED);
    }

    #[test]
    fn a_panic_becomes_an_errno() {
        assert_eq!(guard(|| std::panic::resume_unwind(Box::new(1))), -libc::ENOTRECOVERABLE);
        assert_eq!(guard(|| Err(-7)), -7);
    }

    #[test]
    fn a_call_keeps_errno_although_another_fiber_changes_it() {
        let runtime = ramie::Runtime::builder().workers(1).build().expect("a runtime");
        runtime.run(|| {
            let other = fiber::spawn_local(|| KeptErrno(libc::EIO).put_back());
            KeptErrno(libc::ENOENT).put_back();
            guard(|| {
                fiber::yield_now();
                Ok(0)
            });
            assert!(other.is_finished());
            assert_eq!(KeptErrno::take().0, libc::ENOENT);
        });
    }

    #[test]
    fn a_negative_timeout_is_none() {
        assert_eq!(timeout(-1), Duration::MAX);
        assert_eq!(timeout(5), Duration::from_millis(5));
    }
}
