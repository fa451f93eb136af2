//! Stackful coroutines on guarded, pooled, lazily committed stacks.
//!
//! - [`Coroutine`]: a closure that suspends itself from however deep a call, and is resumed.
//! - [`Generator`]: the same as an [`Iterator`].
//! - [`effect`]: exceptions that can be resumed: typed effects and their handlers.
//! - [`delimited`]: the rest of a computation as a function, by `reset` and `shift`.
//! - [`bare`]: coroutines for schedulers; a switch takes about 1 ns.
//! - [`Stack`], [`StackPool`]: 1,000,000 of them, each with a guard of 64 KiB, take a handful of
//!   VMAs (Linux 6.13 or later), and a parked shallow coroutine one page of memory.
//! - [`overflow`]: who overflowed which stack, instead of a bare "segmentation fault".
//! - [`context`]: what surrounds a call, for runtimes.
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
//! A stack's frames grow down from its base; going below the floor touches the guard, which is
//! reported by [`overflow`] and aborts.
//!
//! The switch is [corosensei](https://docs.rs/corosensei)'s. A coroutine never leaves its thread.
//!
//! The modes of floating-point arithmetic (on x86 MXCSR and the x87 control word: rounding,
//! flushing to zero) belong to the thread and are not switched, because Rust forbids changing them
//! and the ABI has a C function put them back before it returns. A foreign function that leaves
//! them changed shows that to all coroutines of its thread.
//!
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
        StackPool, StackSize, StackStats, guards, stats,
    },
};

#[doc(hidden)]
pub use crate::stack::force_protection;
