//! From the buffers of the workers to the chunks of a trace.

use std::{
    collections::HashSet,
    io, process,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ramie_driver::sys::monotonic_ns;

use super::{
    chunk::{BUFFER, Chunk, DONE, EVENTS, HEAD, NO_INDEX, STRAND, TIME, VERSION},
    names::{self, Names},
    pack::pack,
};
use crate::{
    core::{
        strand::FiberId,
        trace::{EventWords, Recording, TickClock, TracedBuffer},
    },
    inspect::{DumpOptions, StrandDump, WaitTarget, collect},
};

/// The most events of a chunk, and the most that are copied at a time while a trace is recorded.
const PART: usize = 4096;
/// The most strands of a dump that a trace describes.
const MOST_STRANDS: usize = 65_536;
/// How long a dump waits for workers that run a fiber without suspending.
const SILENCE: Duration = Duration::from_millis(500);

/// Takes the bytes of a trace as they come.
pub(super) type Sink<'a> = &'a mut dyn FnMut(&[u8]) -> io::Result<()>;

/// Makes a trace of a recording.
pub(super) struct Gatherer<'a> {
    recording: &'a Recording,
    /// The buffers that may get events, and those that are not in the list any more.
    sources: Vec<EventSource>,
    sources_met: u32,
    names: Names,
    events: Vec<EventWords>,
    /// The memory of the last chunk of events. New memory for each would cost a page fault for 128
    /// of them.
    chunk: Vec<u8>,
    taken: u64,
    /// The number of events from which on no more are taken.
    most: u64,
    begins_with: FirstEvent,
    /// The most events that are copied at a time.
    part: usize,
}

/// The first event of each buffer that is there at the beginning of a trace.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstEvent {
    Oldest,
    Next,
}

struct EventSource {
    number: u32,
    traced: Arc<TracedBuffer>,
    next: u64,
}

impl<'a> Gatherer<'a> {
    /// Begins a trace.
    ///
    /// # Errors
    /// That of the sink.
    pub(super) fn begin(
        recording: &'a Recording,
        why: &str,
        first: FirstEvent,
        most: u64,
        sink: Sink<'_>,
    ) -> io::Result<Self> {
        let day = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let head = Chunk::new(HEAD).u32(VERSION).u32(process::id());
        sink(&head.u64(day.as_nanos() as u64).text(why).end())?;
        sink(&time_chunk(recording.clock()))?;
        let mut gatherer = Gatherer {
            recording,
            sources: Vec::new(),
            sources_met: 0,
            names: Names::new(),
            events: Vec::with_capacity(PART),
            chunk: Vec::new(),
            taken: 0,
            most,
            begins_with: first,
            // A worker that goes on would overwrite the rest while a part is written to a file.
            part: if first == FirstEvent::Oldest { usize::MAX } else { PART },
        };
        gatherer.find_buffers(sink)?;
        // Workers that come later have no events from before the begin.
        gatherer.begins_with = FirstEvent::Oldest;
        Ok(gatherer)
    }

    /// Adds the buffers that are new in the list.
    fn find_buffers(&mut self, sink: Sink<'_>) -> io::Result<()> {
        let known: HashSet<_> =
            self.sources.iter().map(|source| Arc::as_ptr(&source.traced)).collect();
        for traced in self.recording.buffers() {
            if known.contains(&Arc::as_ptr(&traced)) {
                continue;
            }
            let next = match self.begins_with {
                FirstEvent::Oldest => 0,
                FirstEvent::Next => traced.events.written(),
            };
            let number = self.sources_met;
            self.sources_met += 1;
            let owner = &traced.owner;
            let index = owner.index.and_then(|index| u32::try_from(index).ok());
            let chunk = Chunk::new(BUFFER).u32(number).u32(index.unwrap_or(NO_INDEX));
            let chunk = chunk.u32(owner.thread_id.cast_unsigned()).u64(next);
            sink(&chunk.text(owner.thread_name.as_deref().unwrap_or_default()).end())?;
            self.sources.push(EventSource { number, traced, next });
        }
        Ok(())
    }

    /// Adds the events that the workers have written since the last step. Returns how full the
    /// fullest buffer was, from 0 to 1.
    ///
    /// # Errors
    /// That of the sink.
    pub(super) fn step(&mut self, sink: Sink<'_>) -> io::Result<f64> {
        self.find_buffers(sink)?;
        let mut fullest = 0.0_f64;
        for mut source in std::mem::take(&mut self.sources) {
            let from = source.next;
            self.copy(&mut source, sink)?;
            let events = &source.traced.events;
            fullest = fullest.max((source.next - from) as f64 / events.capacity() as f64);
            // If not, the worker has ended, and its buffer is in the list no more.
            if Arc::strong_count(&source.traced) > 1 {
                self.sources.push(source);
            }
        }
        sink(&time_chunk(TickClock::now(self.recording.clock().is_fast)))?;
        Ok(fullest)
    }

    fn copy(&mut self, source: &mut EventSource, sink: Sink<'_>) -> io::Result<()> {
        let end = source.traced.events.written();
        while source.next < end && !self.is_full() {
            self.events.clear();
            let copied = source.traced.events.copy(source.next, self.part, &mut self.events);
            source.next = copied.next;
            for (first, part) in (copied.first..).step_by(PART).zip(self.events.chunks(PART)) {
                let mut texts = Vec::new();
                let names = &mut self.names;
                // The address in an event is met for the first time only where its word is.
                let note = |event: &EventWords| {
                    // SAFETY: `copy` returns whole events only.
                    #[allow(unsafe_code)]
                    unsafe {
                        names.add(event, &mut texts);
                    }
                };
                let chunk = Chunk::reusing(std::mem::take(&mut self.chunk), EVENTS);
                let chunk = chunk.u32(source.number).u64(first);
                self.chunk = chunk.with(|bytes| pack(part, bytes, note)).end();
                if !texts.is_empty() {
                    sink(&names::chunk_of(&texts))?;
                }
                self.taken += part.len() as u64;
                sink(&self.chunk)?;
            }
        }
        Ok(())
    }

    pub(super) fn is_full(&self) -> bool {
        self.taken >= self.most
    }

    /// Adds the strands of the process, as a dump describes them.
    ///
    /// # Errors
    /// That of the sink.
    pub(super) fn describe_strands(
        &self,
        is_unwanted: impl Fn() -> bool,
        sink: Sink<'_>,
    ) -> io::Result<()> {
        let dump = collect::dump(&DumpOptions::new().limit(SILENCE), is_unwanted);
        let now_ns = monotonic_ns();
        let mut met = HashSet::new();
        for strand in dump.strands.iter().take(MOST_STRANDS) {
            if met.insert(strand.id) {
                sink(&strand_chunk(strand, now_ns))?;
            }
        }
        Ok(())
    }

    /// Ends the trace.
    ///
    /// # Errors
    /// That of the sink.
    pub(super) fn end(self, sink: Sink<'_>) -> io::Result<()> {
        let is_full = u32::from(self.is_full());
        sink(&Chunk::new(DONE).u64(self.recording.left_out()).u32(is_full).end())
    }
}

fn time_chunk(clock: TickClock) -> Vec<u8> {
    Chunk::new(TIME).u64(clock.ticks).u64(clock.ns).end()
}

fn strand_chunk(strand: &StrandDump, now_ns: u64) -> Vec<u8> {
    let (mut since_ns, mut fd) = (0, 0);
    let (mut purpose, mut location) = ("", String::new());
    if let Some(wait) = &strand.wait {
        since_ns = now_ns.saturating_sub(wait.since.as_nanos() as u64).max(1);
        (purpose, location) = (wait.purpose, wait.location.to_string());
        if let WaitTarget::Descriptor { fd: number, .. } = wait.target {
            fd = number.cast_unsigned().wrapping_add(1);
        }
    }
    let spawned_at = strand.spawned_at.map(|location| location.to_string()).unwrap_or_default();
    Chunk::new(STRAND)
        .u64(FiberId::as_u64(strand.id))
        .u64(since_ns)
        .u32(fd)
        .text(strand.name.as_deref().unwrap_or_default())
        .text(strand.closure.unwrap_or_default())
        .text(&spawned_at)
        .text(purpose)
        .text(&location)
        .end()
}
