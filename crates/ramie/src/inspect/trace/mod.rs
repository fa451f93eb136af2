//! Traces: the events of a recording (`core/trace`), with all that is needed to understand them.
//!
//! - [`chunk`]: the parts of the format, written and read; [`pack`]: the packing of events;
//! - [`gather`]: from the buffers of the workers to a trace; [`names`]: the texts behind addresses;
//! - [`stream`]: a trace for another process, by the socket, while it is recorded;
//! - [`flight`]: the flight recorder, which keeps the last events; [`files`]: its files;
//! - [`read`]: from a trace to the values of [`value`].
//!
//! # The format, version 1
//! A trace is a row of chunks. A chunk is a tag of four letters, the length of its content (u32),
//! and the content. Numbers are little-endian; a text is its length (u32) and its UTF-8 bytes.
//! Readers skip chunks with unknown tags, and bytes behind the content that they know.
//!
//! | tag | content |
//! |---|---|
//! | `RMTR` | the version (u32), the id of the process (u32), the time of day in ns since 1970 (u64), and the reason (text). The first chunk |
//! | `TIME` | a moment in ticks (u64), and in ns of `CLOCK_MONOTONIC` (u64). The first and the last of them give the length of a tick |
//! | `BUFR` | a buffer: its number (u32), the index of its worker or `u32::MAX` (u32), the id of its thread (u32), the number of the first event that could be in the trace (u64), the name of the thread (text) |
//! | `TEXT` | entries of an address (u64) and a text. Comes before the events that have the address |
//! | `EVTS` | the number of a buffer (u32), the number of the first event in it (u64), then packed events, whose words `core/trace/event.rs` describes. Numbers that are left out were overwritten |
//! | `STRD` | a strand, as a dump has it: its id (u64), the beginning of its wait in ns (u64; 0: it does not wait), its descriptor plus 1 (u32; 0: none), and the texts of its name, closure, spawn location, wait, and location of the wait; an empty text: unknown |
//! | `DONE` | the number of workers without a buffer (u64), and 1 if events were left out because the trace had reached its largest size (u32). The last chunk |
//!
//! A trace without `DONE` was cut off; all in it is of use nevertheless, because each text comes
//! before its use, and `TIME` comes again and again.

mod chunk;
mod files;
mod flight;
mod gather;
mod names;
mod pack;
mod read;
mod stream;
mod value;

pub(crate) use self::{
    flight::{Flight, record},
    stream::{GRACE, MOST_SECONDS, TraceClients},
};
pub use self::{
    flight::{FlightRecorder, write_trace},
    read::TraceError,
    value::{
        EndOfWait, Trace, TraceEvent, TraceEventKind, TracedStrand, TracedWait, TracedWorker,
        WakeSource,
    },
};
