//! Stackful coroutines on guarded, pooled, lazily committed stacks.
//!
//! - [`Coroutine`]: a closure that can suspend at any call depth and be resumed.
//! - [`Generator`]: a coroutine as an [`Iterator`].
//! - [`effect`]: typed effects and their handlers, which are exceptions that can be resumed.
//! - [`delimited`]: the rest of a computation as a function, by `reset` and `shift`.
//! - [`bare`]: coroutines for schedulers; a switch takes about 1 ns.
//! - [`Stack`], [`StackPool`]: 1,000,000 stacks, each with a guard of 64 KiB, take a handful of
//!   VMAs (Linux 6.13 or later), and a parked shallow coroutine takes one page of memory.
//! - [`overflow`]: reports which coroutine overflowed its stack instead of a bare "segmentation
//!   fault".
//! - [`saved`]: the registers of a suspended coroutine, for backtraces.
//! - [`context`]: values that a caller sets for all the calls below it, for runtimes.
//!
//! # Memory layout
//! ```text
//! arena of a stack size: chunks, each one mapping (MAP_NORESERVE, no huge pages), never unmapped
//!
//!   low                                                                               high
//!   | guard | stack 0        | guard | stack 1        | ...           | guard | stack n | labels |
//!     64 KiB  256 KiB            ^         ^        ^ ^
//!                            limit     floor     base top
//!                                                   \_/ colour: a different offset in each stack
//! ```
//! The frames of a stack grow down from its base. A frame below the floor touches the guard;
//! [`overflow`] then prints a report, and the process aborts.
//!
//! The switch is [corosensei](https://docs.rs/corosensei)'s. A coroutine never leaves its thread.
//!
//! The modes of floating-point arithmetic (on x86 MXCSR and the x87 control word: rounding,
//! flushing to zero) belong to the thread and are not switched, because Rust forbids changing them
//! and the ABI requires a C function to restore them before it returns. If a foreign function
//! leaves them changed, all coroutines of its thread see the change.
//! # Examples
//! ```
//! use ramie_coro::Generator;
//!
//! let fibonacci = Generator::new(|yielder| {
//!     let (mut a, mut b) = (0_u64, 1);
//!     loop {
//!         yielder.suspend(a);
//!         (a, b) = (b, a + b);
//!     }
//! });
//! assert_eq!(fibonacci.take(8).collect::<Vec<_>>(), [0, 1, 1, 2, 3, 5, 8, 13]);
//! ```
#![deny(unsafe_code)]

mod abort;
pub mod bare;
pub mod context;
mod coroutine;
pub mod delimited;
pub mod effect;
mod generator;
pub mod overflow;
mod resumed;
pub mod saved;
mod stack;
mod sys;
#[doc(hidden)]
pub mod thread_end;

pub use crate::{
    coroutine::{Builder, ContinuationScope, Coroutine, State, Yielder, suspend_to},
    generator::{Generator, GeneratorYielder},
    resumed::Resumed,
    stack::{
        DEFAULT_USABLE_BYTES, GUARD_BYTES, GuardKind, Guards, Stack, StackError, StackInfo,
        StackPool, StackSize, StackStats, guards, stack_of, stats,
    },
};

#[doc(hidden)]
pub use crate::stack::force_protection;
