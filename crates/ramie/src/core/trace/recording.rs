//! The begin and the end of recordings, and the list of all buffers: see the protocol in the module
//! above.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ramie_driver::sys::{self, monotonic_ns, ticks};

use super::{TraceBuffer, buffer::EventWords};
use crate::core::primitive::{AtomicBool, AtomicU32, Ordering};

/// The most bytes of all buffers together.
pub(super) const MOST_BYTES: usize = 256 * 1024 * 1024;
/// The number of buffers of ended workers that are kept.
pub(super) const ENDED_KEPT: usize = 16;
/// The bytes of a worker, divided by those of a thread outside `run`.
const PART_OF_THREADS: usize = 16;

static GENERATION: AtomicU32 = AtomicU32::new(0);
static STATE: Mutex<RecordingState> = Mutex::new(RecordingState {
    users: 0,
    bytes: 0,
    clock: TickClock { is_fast: false, ticks: 0, ns: 0 },
    buffers: Vec::new(),
    left_out: 0,
});

struct RecordingState {
    users: usize,
    /// The bytes of the buffer of a runtime's worker.
    bytes: usize,
    clock: TickClock,
    buffers: Vec<Arc<TracedBuffer>>,
    left_out: u64,
}

/// The options of a recording.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TraceOptions {
    /// The bytes of the buffer of a runtime's worker.
    pub(crate) bytes: usize,
}

/// The clock of the events, with one moment by both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TickClock {
    pub(crate) is_fast: bool,
    pub(crate) ticks: u64,
    pub(crate) ns: u64,
}

impl TickClock {
    /// Reads both clocks.
    pub(crate) fn now(is_fast: bool) -> TickClock {
        // The look at the slower clock lies between two at the faster one.
        let before = ticks(is_fast);
        let ns = monotonic_ns();
        let after = ticks(is_fast);
        TickClock { is_fast, ticks: before + after.wrapping_sub(before) / 2, ns }
    }
}

/// The worker whose events a buffer has.
#[derive(Debug)]
pub(crate) struct TraceOwner {
    /// The index of the worker in its runtime; none: the small worker of a thread.
    pub(crate) index: Option<usize>,
    pub(crate) thread_name: Option<String>,
    pub(crate) thread_id: i32,
}

/// The buffer of a worker, in the list.
pub(crate) struct TracedBuffer {
    pub(crate) events: TraceBuffer,
    pub(crate) owner: TraceOwner,
    /// The worker has ended.
    is_ended: AtomicBool,
}

impl TracedBuffer {
    pub(crate) fn note_ended(&self) {
        // Release: a reader that sees the end sees all events.
        self.is_ended.store(true, Ordering::Release);
    }

    fn bytes(&self) -> usize {
        self.events.capacity() * size_of::<EventWords>()
    }

    fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Acquire)
    }
}

fn state() -> MutexGuard<'static, RecordingState> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The generation of the recording; odd while it runs.
#[inline]
pub(crate) fn generation() -> u32 {
    // Relaxed: a worker that sees a change takes the lock.
    GENERATION.load(Ordering::Relaxed)
}

/// A use of the recording, which runs until the last one is dropped.
pub(crate) struct Recording(());

impl Recording {
    /// Begins a recording, or joins the one that runs, which keeps its options.
    pub(crate) fn begin(options: TraceOptions) -> Recording {
        let mut state = state();
        state.users += 1;
        if state.users == 1 {
            state.bytes = options.bytes;
            state.clock = TickClock::now(sys::ticks_are_fast());
            state.left_out = 0;
            GENERATION.fetch_add(1, Ordering::Relaxed);
        }
        Recording(())
    }

    /// The clock of the events, at the beginning of the recording.
    pub(crate) fn clock(&self) -> TickClock {
        state().clock
    }

    /// All buffers, in the order in which they were made.
    pub(crate) fn buffers(&self) -> Vec<Arc<TracedBuffer>> {
        state().buffers.clone()
    }

    /// The number of workers whose events are not recorded, because they came when no memory was
    /// left for a buffer.
    pub(crate) fn left_out(&self) -> u64 {
        state().left_out
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let mut state = state();
        state.users -= 1;
        if state.users == 0 {
            GENERATION.fetch_add(1, Ordering::Relaxed);
            let buffers = std::mem::take(&mut state.buffers);
            drop(state);
            drop(buffers);
        }
    }
}

/// Follows a change of the generation: returns the generation, and the worker's new buffer, if a
/// recording runs and there is room.
pub(crate) fn follow(owner: impl FnOnce() -> TraceOwner) -> (u32, Option<Arc<TracedBuffer>>) {
    let mut state = state();
    // Under the lock it does not change.
    let generation = generation();
    if generation.is_multiple_of(2) {
        return (generation, None);
    }
    let owner = owner();
    let parts = if owner.index.is_some() { 1 } else { PART_OF_THREADS };
    let events = (state.bytes / parts / size_of::<EventWords>()).max(1).next_power_of_two();
    if !state.make_room(events * size_of::<EventWords>()) {
        state.left_out += 1;
        return (generation, None);
    }
    let events = TraceBuffer::new(events, state.clock.is_fast);
    let traced = Arc::new(TracedBuffer { events, owner, is_ended: AtomicBool::new(false) });
    state.buffers.push(Arc::clone(&traced));
    (generation, Some(traced))
}

impl RecordingState {
    /// Removes buffers of ended workers, the oldest first: those beyond the number that is kept,
    /// and those whose bytes are needed. Returns whether there is room.
    fn make_room(&mut self, bytes: usize) -> bool {
        let mut ended = self.buffers.iter().filter(|traced| traced.is_ended()).count();
        let mut used: usize = self.buffers.iter().map(|traced| traced.bytes()).sum();
        self.buffers.retain(|traced| {
            let goes = traced.is_ended() && (ended > ENDED_KEPT || used + bytes > MOST_BYTES);
            if goes {
                ended -= 1;
                used -= traced.bytes();
            }
            !goes
        });
        used + bytes <= MOST_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state_with(ended: usize, alive: usize) -> RecordingState {
        let traced = |index: usize| {
            let owner = TraceOwner { index: Some(index), thread_name: None, thread_id: 1 };
            let is_ended = AtomicBool::new(index < ended);
            Arc::new(TracedBuffer { events: TraceBuffer::new(1024, false), owner, is_ended })
        };
        let buffers = (0..ended + alive).map(traced).collect();
        let clock = TickClock { is_fast: false, ticks: 0, ns: 0 };
        RecordingState { users: 1, bytes: 0, clock, buffers, left_out: 0 }
    }

    #[test]
    fn the_oldest_buffers_of_ended_workers_go() {
        let mut state = state_with(ENDED_KEPT + 3, 2);
        assert!(state.make_room(1024));
        assert_eq!(state.buffers.len(), ENDED_KEPT + 2);
        assert_eq!(state.buffers[0].owner.index, Some(3));
    }

    #[test]
    fn all_buffers_together_have_a_bound() {
        let mut state = state_with(2, 2);
        assert!(state.make_room(MOST_BYTES - 2 * 1024 * 32));
        assert_eq!(state.buffers.len(), 2, "those of ended workers have made room");
        assert!(!state.make_room(MOST_BYTES - 2 * 1024 * 32 + 1));
        assert_eq!(state.buffers.len(), 2);
    }

    #[test]
    fn both_clocks_advance_together() {
        let is_fast = sys::ticks_are_fast();
        let before = TickClock::now(is_fast);
        while monotonic_ns() < before.ns + 1_000_000 {}
        let after = TickClock::now(is_fast);
        assert!(after.ticks > before.ticks && after.ns > before.ns);
        let slow = [TickClock::now(false), TickClock::now(false)];
        assert!(slow.iter().all(|clock| clock.ticks.abs_diff(clock.ns) < 1_000_000_000));
    }
}
