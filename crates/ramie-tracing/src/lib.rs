//! The spans of [`tracing`](https://docs.rs/tracing) on Ramie's fibers, and W3C trace context.
//!
//! `tracing` keeps the spans that code has entered in a thread-local, which the fibers of a worker
//! share. [`PerFiber`] wraps a subscriber, so that each strand has its own spans: when a strand
//! suspends, it exits its spans, and when it continues, it enters them again. So the subscriber,
//! with all its layers, always sees the spans of the strand that runs.
//!
//! ```standalone_crate
//! use ramie::fiber;
//! use ramie_tracing::PerFiber;
//! use tracing_subscriber::{prelude::*, registry, util::SubscriberInitExt};
//!
//! PerFiber::new(registry().with(tracing_subscriber::fmt::layer())).init();
//! ramie::run(|| {
//!     let serve = |client: u32| {
//!         let _span = tracing::info_span!("request", client).entered();
//!         fiber::yield_now();
//!         tracing::info!("served"); // in the span of this fiber
//!     };
//!     fiber::scope(|scope| (1..=2).for_each(|client| drop(scope.spawn(move || serve(client)))));
//! });
//! ```
//!
//! # Ways to enter a span
//! All of them work: guards of `Span::enter` and `entered`; `in_scope`; `#[instrument]`, on
//! functions that wait and on async functions that are polled on a fiber; spans that are entered
//! outside of `run`. A fiber that has entered no span pays nothing at a switch.
//!
//! - The strands of a scope begin in the span that was the current one where the scope was opened;
//!   so does the closure of `run`.
//! - Detached strands, and closures of [`ramie::blocking`](ramie::blocking()), begin in no span:
//!   give them one with `span.in_scope`.
//! - A layer that measures the time in a span, such as `FmtSpan::CLOSE`, counts the waits of a
//!   fiber as idle.
//! - [`with_default`] sets a dispatcher for one strand; the guard of `tracing`'s own
//!   `set_default` would be seen by other fibers.
//!
//! # Limits
//! - A subscriber must not suspend the strand that it is called on. While it enters and exits
//!   spans at a switch, this panics; in an event, other fibers may lose events meanwhile. To write
//!   lines through Ramie's streams, send them to a fiber that writes.
//! - A span whose guard is moved to another strand and dropped there stays entered on the first
//!   strand, until that one ends. So layers see it exited once more than entered.

#![deny(unsafe_code)]

mod default_dispatch;
mod entered;
mod per_fiber;
pub mod trace_context;

pub use default_dispatch::with_default;
pub use per_fiber::PerFiber;
