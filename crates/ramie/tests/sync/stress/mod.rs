//! Every primitive under random use, against a sequential model.
//!
//! Strands make random calls and note each with its answer and with when it began and ended. The
//! answers must be those of some order of the calls, one after another, in which no call comes
//! before one that had ended when it began. This is done on each kind of strand, with each driver,
//! and across runtimes and threads.
//!
//! `SEED=…` repeats a run with the same choices; `ROUNDS=…` makes it longer.

use crate::common;

mod channels;
mod kinds;
mod latest;
mod locks;
mod model;
mod once;
mod races;
mod signals;
