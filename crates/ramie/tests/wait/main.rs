//! What every wait relies on: cancellation, timers and clocks, parking, fiber-locals.

#[path = "../common/mod.rs"]
mod common;

mod abandon;
mod at_once;
mod cancel;
mod cancel_handles;
mod cancel_nested;
mod cancel_points;
mod cancel_soundness;
mod cancel_waits;
mod jumping_clock;
mod local;
mod notices;
mod park;
mod retry_pauses;
mod scoped_value;
mod time;
mod unwinding;
