//! Workers that the program's own loop drives.
#![allow(unsafe_code)]

use std::{
    ffi::c_int,
    os::fd::{AsRawFd, RawFd},
    ptr,
    thread::{self, ThreadId},
    time::Duration,
};

use ramie::{GuestRuntime, Handle, Turned};

use crate::{
    outcome::{count, errno_of, give, guard, required, store, take, timeout},
    runtime::{COptions, build},
};

/// `ramie_guest`: a runtime that stays on its thread, which C cannot be made to respect.
///
/// Fibers may ask for the descriptor and the handle during a turn, in which the runtime is
/// borrowed. So the fields are borrowed one by one, and never the whole.
pub(crate) struct CGuest {
    thread: ThreadId,
    fd: RawFd,
    handle: Handle,
    runtime: GuestRuntime,
}

/// Looks whether a guest is there and on its thread, by a field that never changes.
///
/// # Safety
/// `guest` is null or as the header says.
unsafe fn check(guest: *const CGuest) -> Result<(), i32> {
    if guest.is_null() {
        return Err(-libc::EINVAL);
    }
    // SAFETY: the caller's promise. The guest's own thread may use the rest now.
    let thread = unsafe { (*guest).thread };
    if thread == thread::current().id() { Ok(()) } else { Err(-libc::EPERM) }
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ramie_guest_start(
    options: *const COptions,
    place: *mut *mut CGuest,
) -> c_int {
    guard(|| {
        required(place.cast_const())?;
        if Handle::try_current().is_some() {
            return Err(-libc::EDEADLK);
        }
        // SAFETY: as the header says.
        let runtime = unsafe { build(options) }?;
        let runtime = runtime.start_guest().map_err(|error| errno_of(&error))?;
        let (thread, fd) = (thread::current().id(), runtime.as_raw_fd());
        let guest = CGuest { thread, fd, handle: runtime.handle(), runtime };
        // SAFETY: as the header says.
        unsafe { store(place, give(guest)) };
        Ok(0)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_guest_fd(guest: *const CGuest) -> c_int {
    guard(|| {
        // SAFETY: as the header says.
        unsafe { check(guest) }?;
        // SAFETY: it is there, and this field never changes.
        Ok(unsafe { (*guest).fd })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_guest_turn(guest: *mut CGuest, microseconds: u64) -> c_int {
    guard(|| {
        // SAFETY: as the header says.
        unsafe { check(guest) }?;
        if Handle::try_current().is_some() {
            return Err(-libc::EDEADLK);
        }
        // SAFETY: it is there, and on its own thread, which is this one and in no other turn.
        let runtime = unsafe { &mut (*guest).runtime };
        Ok(match runtime.turn(Duration::from_micros(microseconds)) {
            Turned::Idle(_) => 0,
            Turned::Busy => 1,
            Turned::Ended => 2,
        })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_guest_handle(guest: *const CGuest) -> *mut Handle {
    // SAFETY: as the header says.
    if unsafe { check(guest) }.is_err() {
        return ptr::null_mut();
    }
    // SAFETY: it is there, and this field is borrowed only here.
    give(unsafe { &(*guest).handle }.clone())
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_guest_end(guest: *mut CGuest, timeout_ms: i64) -> c_int {
    guard(|| {
        // SAFETY: as the header says.
        unsafe { check(guest) }?;
        if Handle::try_current().is_some() {
            return Err(-libc::EDEADLK);
        }
        // SAFETY: as the header says.
        let Some(guest) = (unsafe { take(guest) }) else { return Err(-libc::EINVAL) };
        Ok(count(guest.runtime.shutdown(timeout(timeout_ms)).count()))
    })
}
