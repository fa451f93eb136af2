#![doc = include_str!("../docs/guide.md")]
#![deny(unsafe_code)]
// `std::u32` and similar modules are re-exported for programs that still use them.
#![allow(clippy::legacy_numeric_constants)]

mod core;
mod op;

pub mod actor;
pub mod channel;
mod deadlock;
pub mod fiber;
pub mod fs;
pub mod future;
mod handler;
pub mod inspect;
pub mod io;
pub mod metrics;
pub mod net;
pub mod os;
pub mod panic;
pub mod parity;
pub mod policy;
pub mod prefork;
pub mod process;
pub mod ring;
mod runtime;
pub mod signal;
mod stall;
pub mod structured;
pub mod sync;
pub mod thread;
pub mod time;
mod unwind;

#[doc(no_inline)]
pub use std::{
    alloc, any, arch, array, ascii, assert, assert_eq, assert_ne, backtrace, borrow, boxed, cell,
    cfg, cfg_select, char, clone, cmp, collections, column, compile_error, concat, convert,
    debug_assert, debug_assert_eq, debug_assert_ne, default, env, error, f32, f64, ffi, file, fmt,
    format, format_args, hash, hint, include, include_bytes, include_str, iter, line, marker,
    matches, mem, module_path, num, ops, option, option_env, path, pin, prelude, ptr, range, rc,
    result, slice, str, string, stringify, task, todo, unimplemented, unreachable, vec, write,
    writeln,
};
#[doc(no_inline)]
pub use std::{i8, i16, i32, i64, i128, isize, u8, u16, u32, u64, u128, usize};

// `crate::core::…` rather than `core::…`, because the latter could also be the library of this
// name.
pub use crate::{
    core::{cancel, local::scoped_value, worker::no_switch},
    fiber_local as thread_local,
    op::blocking,
};
#[doc = include_str!("../docs/embedding.md")]
pub mod embedding {
    #[doc(no_inline)]
    pub use crate::runtime::{
        BackgroundRuntime, Builder, Ended, GuestRuntime, Handle, Runtime, RuntimeEnded, Turned,
    };
}

pub use deadlock::Deadlock;
pub use prefork::prefork;
#[doc(no_inline)]
pub use ramie_coro::{self as coro, effect};
pub use ramie_driver::Submitter;
pub use ramie_macros::{main, test};
pub use runtime::{
    AbandonedFibers, BackgroundRuntime, Builder, Driver, Ended, GuestRuntime, Handle, Runtime,
    RuntimeEnded, Strands, Turned, run,
};
pub use stall::{LockHolders, Reaction, Stall, StallCause};
