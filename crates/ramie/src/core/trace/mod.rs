//! The recording part of the flight recorder: the events of each worker, in a buffer of its own.
//!
//! While a recording runs, each worker writes an *event* of 32 bytes for each step of its strands:
//! spawn, start, begin and end of a wait, wake-up, end, and more ([`EventKind`]). The newest events
//! replace the oldest. Readers ([`inspect`](crate::inspect)) copy them meanwhile, and make a
//! *trace* of them. `yield_now` writes no event, so a switch costs the same with a recording as
//! without.
//!
//! - [`buffer`]: the events of one worker, and the protocol between the worker and its readers;
//! - [`event`]: the kinds of events, and the meaning of their words;
//! - [`recording`]: the begin and the end of recordings, and the list of all buffers;
//! - [`trouble`]: how workers and watchdogs ask for a file with the events.
//!
//! This module knows strands by the bits of their ids and data of the program by its address, so
//! all of `core` may write events.
//!
//! # Protocol of a recording
//! There is one recording for the process, or none. It has a generation, which is odd while it
//! runs.
//!
//! | the process is | changed by |
//! |---|---|
//! | not recording (even) | the first user ([`Recording::begin`]): it adds 1 |
//! | recording (odd) | the last user, when its [`Recording`] is dropped: it empties the list of buffers and adds 1 |
//!
//! A worker compares the generation with the one that it knows when its loop begins and at each
//! poll. If they differ, it takes a buffer, or gives its own back ([`follow`]). So only the worker
//! itself changes the pointer at which it looks before each event, and a worker without a recording
//! pays one load from a cache line that it needs anyway.
//!
//! *The race to fear* is the end of a recording while a worker writes or a reader copies. Each of
//! them has a count of the buffer (`Arc`), so the memory is freed by the last of them.
//!
//! # Bounds
//! A worker of a runtime has [`TraceOptions::bytes`]; the small worker of another thread has one
//! sixteenth, because there may be thousands. All buffers together have at most
//! [`MOST_BYTES`](recording::MOST_BYTES); a worker for which nothing is left writes no events and
//! is counted. Of workers that have ended, the buffers of the last
//! [`ENDED_KEPT`](recording::ENDED_KEPT) are kept.

mod buffer;
mod event;
mod recording;
#[cfg(test)]
mod tests;
mod trouble;

pub(crate) use self::{
    buffer::{EventWords, TraceBuffer},
    event::{EventKind, WakeCause, text_of, unpack_address, unpack_bits, unpack_detail},
    recording::{Recording, TickClock, TraceOptions, TraceOwner, TracedBuffer, follow, generation},
    trouble::{BEFORE_ABORT, Trouble, TroubleListener, report, report_and_wait},
};
