//! Options, runtimes in the background, handles.
#![allow(unsafe_code)]

use std::{
    ffi::{CStr, c_char, c_int, c_void},
    ptr, slice,
    time::Duration,
};

use ramie::{BackgroundRuntime, Driver, Handle, Runtime};

use crate::{
    fiber::{CFunction, Call},
    outcome::{count, errno_of, give, guard, required, store, take, timeout},
};

type Hook = Option<unsafe extern "C" fn(worker: usize, arg: *mut c_void)>;

/// `ramie_options`.
#[repr(C)]
pub(crate) struct COptions {
    size: usize,
    workers: u32,
    driver: u32,
    stack_size: usize,
    grace_ms: i64,
    thread_name: *const c_char,
    cpus: *const usize,
    cpu_count: usize,
    on_worker_start: Hook,
    on_worker_stop: Hook,
    hook_arg: *mut c_void,
}

/// The longest array that memory can hold.
const MOST_CPUS: usize = isize::MAX as usize / size_of::<usize>();

/// The argument of C's hooks.
#[derive(Clone, Copy)]
struct HookArg(*mut c_void);

// SAFETY: the header says that the hooks run on the threads of workers.
unsafe impl Send for HookArg {}
// SAFETY: as above.
unsafe impl Sync for HookArg {}

impl HookArg {
    fn get(self) -> *mut c_void {
        self.0
    }
}

/// Builds a runtime with options of C's.
///
/// # Safety
/// `options` is null or as the header says.
pub(crate) unsafe fn build(options: *const COptions) -> Result<Runtime, i32> {
    let mut builder = Runtime::builder();
    if options.is_null() {
        return builder.build().map_err(|error| errno_of(&error));
    }
    // The options of a program that was compiled with another header may end earlier, so this
    // field, the first of every version, is read alone.
    // SAFETY: the caller's promise.
    if unsafe { options.cast::<usize>().read() } != size_of::<COptions>() {
        return Err(-libc::EINVAL);
    }
    // SAFETY: the caller's promise; `size` says that all fields are there.
    let options = unsafe { &*options };
    if options.workers != 0 {
        builder = builder.workers(options.workers as usize);
    }
    builder = match options.driver {
        0 => builder,
        1 => builder.driver(Driver::Uring),
        2 => builder.driver(Driver::Poll),
        _ => return Err(-libc::EINVAL),
    };
    if options.stack_size != 0 {
        builder = builder.stack_size(options.stack_size);
    }
    if let Ok(grace) = u64::try_from(options.grace_ms) {
        builder = builder.grace(Duration::from_millis(grace));
    }
    if !options.thread_name.is_null() {
        // SAFETY: the header says that it is null or a string.
        let name = unsafe { CStr::from_ptr(options.thread_name) };
        builder = builder.thread_name(name.to_string_lossy());
    }
    if options.cpu_count != 0 {
        required(options.cpus)?;
        if options.cpu_count > MOST_CPUS {
            return Err(-libc::EINVAL);
        }
        // SAFETY: the header says that it has this number of CPUs.
        let cpus = unsafe { slice::from_raw_parts(options.cpus, options.cpu_count) };
        builder = builder.pin_workers(cpus.iter().copied());
    }
    let arg = HookArg(options.hook_arg);
    if let Some(hook) = options.on_worker_start {
        // SAFETY: the header says that the hook may be called so.
        builder = builder.on_worker_start(move |worker| unsafe { hook(worker, arg.get()) });
    }
    if let Some(hook) = options.on_worker_stop {
        // SAFETY: as above.
        builder = builder.on_worker_stop(move |worker| unsafe { hook(worker, arg.get()) });
    }
    builder.build().map_err(|error| errno_of(&error))
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ramie_run(
    options: *const COptions,
    f: CFunction,
    arg: *mut c_void,
    value: *mut isize,
) -> c_int {
    guard(|| {
        if Handle::try_current().is_some() {
            return Err(-libc::EDEADLK);
        }
        // SAFETY: as the header says.
        let runtime = unsafe { build(options) }?;
        let call = Call::new(f, arg)?;
        let returned = runtime.run(move || call.make());
        // SAFETY: as the header says.
        unsafe { store(value, returned) };
        Ok(0)
    })
}

#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ramie_start(
    options: *const COptions,
    place: *mut *mut BackgroundRuntime,
) -> c_int {
    guard(|| {
        required(place.cast_const())?;
        // SAFETY: as the header says.
        let runtime = unsafe { build(options) }?.start().map_err(|error| errno_of(&error))?;
        // SAFETY: as the header says.
        unsafe { store(place, give(runtime)) };
        Ok(0)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_shutdown(runtime: *mut BackgroundRuntime, timeout_ms: i64) -> c_int {
    guard(|| {
        // SAFETY: as the header says.
        let may_wait =
            unsafe { runtime.as_ref() }.is_none_or(|it| it.handle().can_shut_down_here());
        if !may_wait {
            return Err(-libc::EDEADLK);
        }
        // SAFETY: as the header says.
        let Some(runtime) = (unsafe { take(runtime) }) else { return Err(-libc::EINVAL) };
        Ok(count(runtime.shutdown(timeout(timeout_ms)).count()))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_runtime_handle(runtime: *const BackgroundRuntime) -> *mut Handle {
    // SAFETY: as the header says.
    let runtime = unsafe { runtime.as_ref() };
    runtime.map_or(ptr::null_mut(), |runtime| give(runtime.handle()))
}

#[unsafe(no_mangle)]
extern "C" fn ramie_current_handle() -> *mut Handle {
    Handle::try_current().map_or(ptr::null_mut(), give)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_handle_clone(handle: *const Handle) -> *mut Handle {
    // SAFETY: as the header says.
    let handle = unsafe { handle.as_ref() };
    handle.map_or(ptr::null_mut(), |handle| give(handle.clone()))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_handle_free(handle: *mut Handle) {
    // SAFETY: as the header says.
    drop(unsafe { take(handle) });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_begin_shutdown(handle: *const Handle, timeout_ms: i64) -> c_int {
    guard(|| {
        // SAFETY: as the header says.
        let Some(handle) = (unsafe { handle.as_ref() }) else { return Err(-libc::EINVAL) };
        handle.begin_shutdown(timeout(timeout_ms));
        Ok(0)
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn ramie_is_open(handle: *const Handle) -> c_int {
    // SAFETY: as the header says.
    let handle = unsafe { handle.as_ref() };
    handle.is_some_and(Handle::is_open).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_without_an_array_that_can_have_them_are_refused() {
        let options = COptions {
            size: size_of::<COptions>(),
            workers: 1,
            driver: 0,
            stack_size: 0,
            grace_ms: -1,
            thread_name: ptr::null(),
            cpus: ptr::null(),
            cpu_count: 2,
            on_worker_start: None,
            on_worker_stop: None,
            hook_arg: ptr::null_mut(),
        };
        // SAFETY: the pointers are null.
        assert_eq!(unsafe { build(&raw const options) }.err(), Some(-libc::EINVAL));
        // As a C program passes -1.
        let cpu = 0;
        let options = COptions { cpus: &raw const cpu, cpu_count: usize::MAX, ..options };
        // SAFETY: no array is as long, so it is not read.
        assert_eq!(unsafe { build(&raw const options) }.err(), Some(-libc::EINVAL));
    }
}
