//! The clock of a worker, its instants and deadlines, and its timers.

mod clock;
mod instant;
mod timer;

pub(crate) use self::{
    clock::Clock,
    instant::Deadline,
    timer::{Armed, Timers},
};
pub use self::{clock::ManualClock, instant::Instant};
