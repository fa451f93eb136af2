//! The figures that a worker records about itself: counts, and histograms of durations.
//!
//! Each [`WorkerRecord`] has one writer, its worker, and any number of readers, so a count is
//! incremented by a load and a store instead of an atomic addition. A reader may see values that
//! are some operations old, and values of different moments.
//!
//! A count costs an op less than a nanosecond. A duration would cost two looks at the clock, 50 ns,
//! so durations are taken of samples: of one op in [`SAMPLED_OPS`] of a kind, and of
//! one strand in some hundred ([`worker::sampling`](super::worker)).

mod histogram;
mod record;

pub use histogram::Histogram;
pub(crate) use record::{Recorded, WorkerRecord};

/// Of this many ops of a kind, on one worker, the duration of one is recorded.
pub(crate) const SAMPLED_OPS: u64 = 32;
