//! Rings that live for one call.
//!
//! They are made on a thread that ends with them, because the kernel interrupts each thread that
//! has used a ring when it takes that ring apart: calls that the caller makes afterwards would
//! return `EINTR` (see `uring/parting.rs`).
#![allow(unsafe_code)]

use std::{io, panic::resume_unwind, thread};

use io_uring::{IoUring, opcode, types::Fd};
use rustix::io::Errno;

/// Calls `f` on a thread of its own; on this thread if no thread can be made.
pub(crate) fn on_own_thread<T: Send>(f: impl Fn() -> T + Sync) -> T {
    let made = thread::scope(|scope| {
        let thread = thread::Builder::new().name("ramie-ring".to_owned()).spawn_scoped(scope, &f);
        thread.ok().map(|thread| thread.join().unwrap_or_else(|payload| resume_unwind(payload)))
    });
    made.unwrap_or_else(f)
}

/// Puts a completion into a ring, through another ring made for this call. Returns 0 or `-errno`.
pub(crate) fn send_message(target: i32, result: i32, data: u64) -> i32 {
    on_own_thread(|| {
        send(target, result, data)
            .unwrap_or_else(|error| -error.raw_os_error().unwrap_or(Errno::IO.raw_os_error()))
    })
}

fn send(target: i32, result: i32, data: u64) -> io::Result<i32> {
    let mut ring = IoUring::new(1)?;
    let message = opcode::MsgRingData::new(Fd(target), result, data, None).build();
    // SAFETY: the entry points to nothing.
    let pushed = unsafe { ring.submission().push(&message) };
    debug_assert!(pushed.is_ok(), "a new ring has room");
    ring.submit_and_wait(1)?;
    Ok(ring.completion().next().map_or(-Errno::IO.raw_os_error(), |entry| entry.result()))
}
