//! Spawning, joining, waiting.
#![allow(unsafe_code)]

use std::{
    ffi::{c_int, c_void},
    time::Duration,
};

use ramie::{
    Handle,
    fiber::{self, JoinHandle, Place},
};

use crate::outcome::{errno_of, give, guard, store, take};

/// `ramie_function`.
pub(crate) type CFunction = Option<Function>;
type Function = unsafe extern "C" fn(arg: *mut c_void) -> isize;

/// A function of C's with its argument.
pub(crate) struct Call {
    f: Function,
    arg: *mut c_void,
}

// SAFETY: the header says that the functions of fibers run on any thread; what the argument points
// to is C's affair.
unsafe impl Send for Call {}

impl Call {
    pub(crate) fn new(f: CFunction, arg: *mut c_void) -> Result<Call, i32> {
        Ok(Call { f: f.ok_or(-libc::EINVAL)?, arg })
    }

    pub(crate) fn make(self) -> isize {
        // SAFETY: the header says that the function may be called with this argument. It does not
        // unwind: that would end the process, because its ABI is "C".
        unsafe { (self.f)(self.arg) }
    }
}

/// The function and the handle of a spawn.
///
/// # Safety
/// `handle` is null or as the header says.
unsafe fn spawn(
    handle: *const Handle,
    place: Place,
    call: Call,
    fiber: *mut *mut JoinHandle<isize>,
) -> Result<i32, i32> {
    // SAFETY: the caller's promise.
    let current = match unsafe { handle.as_ref() } {
        Some(handle) => handle.clone(),
        None => Handle::try_current().ok_or(-libc::EINVAL)?,
    };
    let spawned = current.spawn_on(place, move || call.make());
    let spawned = spawned.map_err(|error| errno_of(&error))?;
    if !fiber.is_null() {
        // SAFETY: as the header says.
        unsafe { store(fiber, give(spawned)) };
    }
    Ok(0)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_spawn(
    handle: *const Handle,
    f: CFunction,
    arg: *mut c_void,
    fiber: *mut *mut JoinHandle<isize>,
) -> c_int {
    // SAFETY: as the header says.
    guard(|| unsafe { spawn(handle, Place::Any, Call::new(f, arg)?, fiber) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_spawn_on(
    handle: *const Handle,
    worker: usize,
    f: CFunction,
    arg: *mut c_void,
    fiber: *mut *mut JoinHandle<isize>,
) -> c_int {
    // SAFETY: as the header says.
    guard(|| unsafe { spawn(handle, Place::Worker(worker), Call::new(f, arg)?, fiber) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_join(fiber: *mut JoinHandle<isize>, value: *mut isize) -> c_int {
    guard(|| {
        // SAFETY: as the header says.
        let own = unsafe { fiber.as_ref() }.filter(|it| it.fiber().id() == fiber::current().id());
        if own.is_some() {
            return Err(-libc::EDEADLK);
        }
        // SAFETY: as the header says.
        let Some(fiber) = (unsafe { take(fiber) }) else { return Err(-libc::EINVAL) };
        let returned = fiber.join().map_err(|_| -libc::ECANCELED)?;
        // SAFETY: as the header says.
        unsafe { store(value, returned) };
        Ok(0)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_detach(fiber: *mut JoinHandle<isize>) {
    // SAFETY: as the header says.
    drop(unsafe { take(fiber) });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_is_finished(fiber: *const JoinHandle<isize>) -> c_int {
    // SAFETY: as the header says.
    let fiber = unsafe { fiber.as_ref() };
    fiber.is_some_and(JoinHandle::is_finished).into()
}

#[unsafe(no_mangle)]
extern "C" fn ramie_yield() {
    guard(|| {
        fiber::yield_now();
        Ok(0)
    });
}

#[unsafe(no_mangle)]
extern "C" fn ramie_sleep_us(microseconds: u64) {
    guard(|| {
        fiber::sleep(Duration::from_micros(microseconds));
        Ok(0)
    });
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ramie_blocking(
    f: CFunction,
    arg: *mut c_void,
    value: *mut isize,
) -> c_int {
    guard(|| {
        let call = Call::new(f, arg)?;
        let returned = ramie::blocking(move || call.make());
        // SAFETY: as the header says.
        unsafe { store(value, returned) };
        Ok(0)
    })
}
